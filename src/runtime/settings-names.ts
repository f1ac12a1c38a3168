/** Agents name each other: each name once, and every name that is used is somebody's. */
import type { AgentRole } from '../actors/role.ts'
import { shown } from '../errors.ts'
import { nearest } from './nearest.ts'
import { refused, refusedAs } from './refused.ts'

/** Throws for the first name that two agents have, or that nobody has. */
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
  for (const [i, role] of agents.entries()) {
    const at = `agents[${i}]`
    for (const [j, name] of (role.canDelegateTo ?? []).entries()) mustExist(name, `${at}.canDelegateTo[${j}]`, first)
    for (const [j, name] of (role.sharedWith ?? []).entries()) mustExist(name, `${at}.sharedWith[${j}]`, first)
    if (role.escalateTo !== undefined) mustExist(role.escalateTo, `${at}.escalateTo`, first)
  }
}

function mustExist(name: string, path: string, known: ReadonlyMap<string, number>): void {
  if (known.has(name)) return
  const meant = nearest(name, known.keys())
  const advice = meant === undefined ? 'Define that agent, or remove the name.' : `Did you mean "${meant}"?`
  throw refused(path, name, `an agent of this team (${[...known.keys()].join(', ')})`, advice)
}
