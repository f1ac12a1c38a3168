/** Deadlocks that the detector has found, and rings that stand now. */
import type { DigestFact } from '../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../digest/digest-fold.ts'
import { cyclesOf } from './wait-cycles.ts'

export interface Deadlock {
  readonly key: string
  /** Epoch ms at which it was found, or since when its oldest wait stands. */
  readonly at: number
  readonly runId: string
  readonly cycle: readonly string[]
  readonly tail: readonly string[]
  /** Agent whose wait was given up so that the others go on; null: it stands, or none could be. */
  readonly victim: string | null
  readonly sentence: string
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

/** Returns what the detector has found, in the order of `facts`. */
function foundDeadlocks(facts: readonly DigestFact[]): Deadlock[] {
  return facts
    .filter((fact) => fact.type === 'deadlock' && !isToldLater(fact, facts))
    .map(({ seq, at, runId, cycle, tail, victim, sentence }) => ({
      key: `${runId} ${seq}`,
      at,
      runId,
      cycle: texts(cycle),
      tail: texts(tail).filter((name) => !name.startsWith('$')),
      victim: typeof victim === 'string' ? victim : null,
      sentence: typeof sentence === 'string' ? sentence : '',
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

/** Returns the rings of waits that stand now. */
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
      sentence: 'They wait for each other. The detector looks at it.',
      isOpen: true,
    }
  })
}
