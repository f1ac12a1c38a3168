/** Times after which what a turn does is slow: `supervision.slowMs`. */
import type { SlowMs } from '../../actors/definition/supervision-config.ts'
import { type Check, isObject, shape, wait } from '../checks/checks.ts'

export type SlowTimes = Required<SlowMs>

const DEFAULTS: SlowTimes = { turn: 30_000, step: 30_000, tool: 30_000, model: 120_000, queued: 30_000 }

const time = wait('off')
const byKind = shape<SlowMs>({ turn: time, step: time, tool: time, model: time, queued: time })

export const slowMs: Check = (value, path) => (isObject(value) ? byKind(value, path) : time(value, path))

/** Returns the times of a role: its own come first, then those of the team. */
export function slowTimes(own: Given, all: Given): SlowTimes {
  return { ...DEFAULTS, ...timesIn(all), ...timesIn(own) }
}

type Given = number | false | SlowMs | undefined

function timesIn(given: Given): Partial<SlowTimes> {
  if (given === undefined) return {}
  const named =
    typeof given === 'object' ? given : { turn: given, step: given, tool: given, model: given, queued: given }
  return Object.fromEntries(Object.entries(named).filter(([, ms]) => ms !== undefined))
}
