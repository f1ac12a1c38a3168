/** Checks the names of agents: each name is unique, and every name that is used belongs to an agent. */
import type { AgentRole } from '../../actors/definition/role.ts'
import { shown } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import { refused, refusedAs } from '../checks/refused.ts'

/** Throws for the first name that two agents have, or that no agent has. */
export function checkNames(agents: readonly AgentRole[]): void {
  const first = new Map<string, number>()
  for (const [i, { name }] of agents.entries()) {
    const other = first.get(name)
    if (other !== undefined) {
      const got = `${shown(name)}, which agents[${other}] has already`
      throw refusedAs(`agents[${i}].name`, got, 'a name that no other agent has')
    }
    first.set(name, i)
  }
  for (const [i, role] of agents.entries()) checkReferences(role, `agents[${i}]`, first)
}

/**
 * Throws if the role at `at` has the name of one of the others, or names an agent that is neither present nor expected.
 */
export function checkNewName(
  role: AgentRole,
  at: string,
  others: readonly string[],
  expected: readonly string[],
): void {
  const known = new Set(others)
  if (known.has(role.name))
    throw refusedAs(`${at}.name`, `${shown(role.name)}, which an agent has already`, 'a name that no other agent has')
  checkReferences(role, at, new Set([...others, ...expected, role.name]))
}

type Known = Pick<ReadonlySet<string>, 'has' | 'keys'>

function checkReferences(role: AgentRole, at: string, known: Known): void {
  for (const [j, name] of (role.canDelegateTo ?? []).entries()) mustExist(name, `${at}.canDelegateTo[${j}]`, known)
  for (const [j, name] of (role.sharedWith ?? []).entries()) mustExist(name, `${at}.sharedWith[${j}]`, known)
  if (role.escalateTo !== undefined) mustExist(role.escalateTo, `${at}.escalateTo`, known)
}

/** Throws if no agent has the name at `path`. */
export function mustExist(name: string, path: string, known: Known): void {
  if (known.has(name)) return
  const meant = nearest(name, known.keys())
  const advice = meant === undefined ? 'Define that agent, or remove the name.' : `Did you mean "${meant}"?`
  throw refused(path, name, `an agent of this team (${[...known.keys()].join(', ')})`, advice)
}
