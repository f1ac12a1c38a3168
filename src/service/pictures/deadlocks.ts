/** Deadlocks that the detector has found, and rings that stand now. */
import type { DigestFact, Wait } from '../../runtime/views/digest-line.ts'
import type { DigestFold } from '../digest/digest-fold.ts'

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

/** Rings of agents that wait for each other. */

/** Kinds whose `for` has agents: a tool, a step or an entry may have the name of one. */
const FOR_AGENTS: ReadonlySet<string> = new Set(['request', 'delegate', 'dependency', 'mailbox', 'reader', 'sync'])

export const isForAgents = ({ kind }: Pick<Wait, 'kind'>): boolean => FOR_AGENTS.has(kind)

/** Returns each ring once, as the way around it. */
function cyclesOf(waits: readonly Wait[]): string[][] {
  const next = new Map<string, Set<string>>()
  for (const wait of waits) {
    const { agent, for: subjects } = wait
    if (agent !== null && isForAgents(wait)) next.set(agent, new Set([...(next.get(agent) ?? []), ...subjects]))
  }
  const done = new Set<string>()
  const found: string[][] = []
  const visit = (name: string, way: string[]) => {
    const at = way.indexOf(name)
    if (at >= 0) found.push(way.slice(at))
    if (at >= 0 || done.has(name)) return
    done.add(name)
    for (const to of next.get(name) ?? []) visit(to, [...way, name])
  }
  for (const name of next.keys()) visit(name, [])
  return found
}

export interface Deadlock {
  readonly key: string
  /** Epoch ms at which it was found, or since when its oldest wait stands. */
  readonly at: number
  readonly runId: string
  readonly cycle: readonly string[]
  readonly tail: readonly string[]
  /** Agent whose wait was given up so that the others go on; null: it stands, or none could be. */
  readonly victim: string | null
  readonly isOpen: boolean
}

export const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string') : []

/** Time within which a deadlock that was found is broken. */
const BROKEN_MS = 60_000

/** Time within which the detector gives a wait up, if it can. */
const DECIDED_MS = 5_000

const ringOf = (cycle: readonly string[]): string => [...cycle].sort().join()

/** Says what was done about a deadlock without a victim. */
export const undecided = (at: number, now: number): string =>
  now - at < DECIDED_MS ? 'The detector looks at it.' : 'No wait could be given up.'

/** Checks for a deadlock of which a later fact says who gave way. */
export function isToldLater(fact: DigestFact, facts: readonly DigestFact[]): boolean {
  if (fact.type !== 'deadlock' || typeof fact.victim === 'string') return false
  const ring = ringOf(texts(fact.cycle))
  return facts.some(
    ({ type, seq, at, runId, victim, cycle }) =>
      type === 'deadlock' &&
      seq > fact.seq &&
      runId === fact.runId &&
      at - fact.at < BROKEN_MS &&
      typeof victim === 'string' &&
      ringOf(texts(cycle)) === ring,
  )
}

function foundDeadlocks(facts: readonly DigestFact[]): Deadlock[] {
  return facts
    .filter((fact) => fact.type === 'deadlock' && !isToldLater(fact, facts))
    .map(({ seq, at, runId, cycle, tail, victim }) => ({
      key: `${runId} ${seq}`,
      at,
      runId,
      cycle: texts(cycle),
      tail: texts(tail).filter((name) => !name.startsWith('$')),
      victim: typeof victim === 'string' ? victim : null,
      isOpen: false,
    }))
}

/** Returns the rings that stand now, then what the detector has found: a ring that stands is there once. */
export function deadlocksOf(fold: DigestFold, facts: readonly DigestFact[]): Deadlock[] {
  const open = openDeadlocks(fold)
  const standing = new Set(open.map(({ runId, cycle }) => `${runId} ${ringOf(cycle)}`))
  const found = foundDeadlocks(facts).filter(
    ({ runId, cycle, victim }) => victim !== null || !standing.has(`${runId} ${ringOf(cycle)}`),
  )
  return [...open, ...found]
}

function openDeadlocks({ waits }: DigestFold): Deadlock[] {
  return cyclesOf(waits).map((cycle) => {
    const own = waits.filter(({ agent }) => agent !== null && cycle.includes(agent))
    const at = Math.max(...own.map(({ since }) => since))
    return {
      key: `now ${cycle.join()}`,
      at,
      runId: own[0]?.runId ?? '',
      cycle,
      tail: [],
      victim: null,
      isOpen: true,
    }
  })
}
