/** Sync points of a team, checked and with all defaults. */
import type { AgentRole } from '../../actors/definition/role.ts'
import { type Check, flag, listOf, oneOf, rule, shape, text, wait } from '../checks/checks.ts'
import { refusedAs } from '../checks/refused.ts'
import { mustExist } from './name-checks.ts'
import type { SyncPoint } from './options.ts'
import { someText } from './role-shape.ts'
import { checkMeets } from './trust-checks.ts'

/** Settings of one sync point. Durations in ms. */
export type SyncPointSettings = Readonly<Required<SyncPoint>>

const someNames = rule('a list of the name of at least one agent', (value) => Array.isArray(value) && value.length > 0)

const requiredAgents: Check = (value, path) => {
  someNames(value, path)
  listOf(text)(value, path)
}

/** Throws for the first field of a sync point that has a wrong name, type or range. */
export const syncPointsShape = listOf(
  shape<SyncPoint>(
    {
      name: someText,
      requiredAgents,
      timeoutMs: wait(),
      onTimeout: oneOf('proceed', 'abort', 'notify'),
      dataExchange: flag,
    },
    'name',
    'requiredAgents',
    'timeoutMs',
  ),
)

/** Throws for the first name that two points have, that a point requires twice, or that no agent has. */
export function syncPointsFrom(points: readonly SyncPoint[], agents: readonly AgentRole[]): SyncPointSettings[] {
  const known = new Map(agents.map((role) => [role.name, role]))
  const first = new Map<string, number>()
  return points.map(({ name, requiredAgents, timeoutMs, onTimeout = 'proceed', dataExchange = true }, i) => {
    once(first, name, i, `syncPoints[${i}].name`, `which syncPoints[${first.get(name)}] has already`)
    const required = new Map<string, number>()
    for (const [j, agent] of requiredAgents.entries()) {
      const path = `syncPoints[${i}].requiredAgents[${j}]`
      mustExist(agent, path, known)
      checkMeets(known.get(agent), path)
      once(required, agent, j, path, 'which it requires already')
    }
    return { name, requiredAgents: [...requiredAgents], timeoutMs, onTimeout, dataExchange }
  })
}

function once(seen: Map<string, number>, name: string, at: number, path: string, why: string): void {
  if (seen.has(name)) throw refusedAs(path, `${JSON.stringify(name)}, ${why}`, 'each name once')
  seen.set(name, at)
}
