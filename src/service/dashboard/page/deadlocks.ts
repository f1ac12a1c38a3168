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

/** Returns what the detector has found, the newest first. */
export function foundDeadlocks(facts: readonly DigestFact[]): Deadlock[] {
  return facts
    .filter(({ type }) => type === 'deadlock')
    .map(({ seq, at, runId, cycle, tail, victim, sentence }) => ({
      key: `${runId} ${seq}`,
      at,
      runId,
      cycle: texts(cycle),
      tail: texts(tail),
      victim: typeof victim === 'string' ? victim : null,
      sentence: typeof sentence === 'string' ? sentence : '',
      isOpen: false,
    }))
    .reverse()
}

/** Returns the rings of waits that stand now. */
export function openDeadlocks({ waits }: DigestFold): Deadlock[] {
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
