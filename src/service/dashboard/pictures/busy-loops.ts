/** Event loops that have no time left, from two pages of metrics. */

export interface Loop {
  /** Agent whose thread it is; null for the host, on which the whole team depends. */
  readonly agent: string | null
  /** Part of the time between both pages in which it worked, from 0 to 1. */
  readonly busy: number
}

/** Part of the time from which on a loop is told: what comes to it waits. */
const BUSY = 0.9

const SAMPLE = /^dramatis_(agent|host)_event_loop_(active|idle)_seconds_total(?:\{(.*)\})? (\S+)$/gm

/** Seconds of each loop in a page of metrics, by its agent ('' for the host). */
type Seconds = Map<string, { active: number; idle: number }>

export function loopSeconds(metrics: string, team: string): Seconds {
  const found: Seconds = new Map()
  for (const [, of, kind, labels = '', value] of metrics.matchAll(SAMPLE)) {
    if (labelIn(labels, 'team') !== team) continue
    const name = of === 'host' ? '' : labelIn(labels, 'agent')
    const seconds = found.get(name) ?? { active: 0, idle: 0 }
    seconds[kind as 'active' | 'idle'] = Number(value)
    found.set(name, seconds)
  }
  return found
}

/** Returns the loops that were busy between two looks, the busiest first. A thread that began anew counts from then. */
export function busyLoops(before: Seconds, after: Seconds): Loop[] {
  const loops: Loop[] = []
  for (const [name, { active, idle }] of after) {
    const known = before.get(name)
    if (!known || known.active > active) continue
    const worked = active - known.active
    const busy = worked / (worked + idle - known.idle)
    if (busy >= BUSY) loops.push({ agent: name === '' ? null : name, busy })
  }
  return loops.sort((one, other) => other.busy - one.busy)
}

const labelIn = (labels: string, name: string): string =>
  new RegExp(`(?:^|,)${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels)?.[1]?.replaceAll(/\\(.)/g, unescaped) ?? ''

const unescaped = (_match: string, character: string): string => (character === 'n' ? '\n' : character)
