/** From the name that a role has for a model to the client that speaks with it. */
import type { ModelClient } from '../../actors/model.ts'
import type { ResolveModel } from './gateway.ts'
import { DEFAULT, type ModelTable, noSuchModel } from './model-table.ts'

/** `instead`: a client of a test, which is every model. */
export const resolverOf =
  (table: ModelTable, instead: ModelClient | undefined): ResolveModel =>
  (wanted, { cell }) => {
    if (instead) return { client: instead, model: wanted ?? DEFAULT }
    const error = noSuchModel(table, wanted, `the model of "${cell.name}"`)
    if (error) throw error
    const model = wanted ?? (table.has(DEFAULT) ? DEFAULT : [...table.keys()][0]!)
    return { client: table.get(model)!, model }
  }
