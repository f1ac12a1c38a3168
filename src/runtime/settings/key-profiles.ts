/** Profiles of API keys: their check, and what a role holds of them. Source: document 001, `api_keys_config_ref`. */
import type { AgentRole } from '../../actors/definition/role.ts'
import { type Check, isObject, listOf } from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'
import type { TeamOptions } from './options.ts'
import { variableName } from './tools.ts'

type Profiles = TeamOptions['keys']

/** Checks the `keys` of a team. No error shows a value: a user may have written the key in the place of its name. */
export const keyProfilesShape: Check = (value, path) => {
  const accepted = 'a list of the names of environment variables for each profile'
  if (!isObject(value)) throw refusedAs(path, `a ${typeof value}`, accepted)
  for (const [name, variables] of reading(path, () => Object.entries(value))) {
    if (!Array.isArray(variables) || variables.length === 0)
      throw refusedAs(`${path}.${name}`, 'no such list', 'a list with at least one name of an environment variable')
    listOf(variableName)(variables, `${path}.${name}`)
  }
}

/** Returns the names of all variables in profiles. */
export const variablesIn = (profiles: Profiles): string[] => Object.values(profiles ?? {}).flat()

/** Part of an agent's settings that its keys decide. */
export interface HeldKeys {
  /** Profiles that the agent holds; undefined in a team without any. */
  readonly keys: readonly string[] | undefined
  /** Environment variables that its thread sees. */
  readonly env: string[]
}

/** Returns what the role at `path` holds. Throws `ConfigurationError` for a profile that the team does not have. */
export function heldKeys({ keys = [], env = [] }: AgentRole, path: string, profiles: Profiles): HeldKeys {
  const known = new Map(Object.entries(profiles ?? {}))
  const held = keys.flatMap((name, i) => {
    const variables = known.get(name)
    if (variables) return variables
    const accepted = [...known.keys()].join(', ') || "a profile in the team's keys, which has none"
    throw refused(`${path}.keys[${i}]`, name, accepted)
  })
  return { keys: profiles && [...keys], env: [...new Set([...env, ...held])] }
}
