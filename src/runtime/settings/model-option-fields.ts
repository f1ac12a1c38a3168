/** Checks of the options of model calls, for a role as well as for a model of the team. */
import { MODEL_OPTION_NAMES, MODEL_OPTIONS, type ModelOptions } from '../../actors/definition/model-options.ts'
import { type Check, type Fields, rule } from '../checks/checks.ts'

export const modelOptionFields = Object.fromEntries(
  MODEL_OPTION_NAMES.map((name): [string, Check] => {
    const { accepted, accepts } = MODEL_OPTIONS[name]
    return [name, rule(accepted, accepts)]
  }),
) as unknown as Fields<ModelOptions>
