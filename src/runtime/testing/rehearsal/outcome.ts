/** Outcome of one seed, and summaries of many. */

import { DeadlockError, type DramatisError, LivelockError, StallError } from '../../../errors.ts'
import { own } from '../../../own.ts'
import type { RuntimeEvent } from '../../runs/events.ts'
import type { OrchestrationTrace } from '../../runs/trace-types.ts'
import type { Injected } from './faults.ts'

/** Kinds of outcome, in the order in which they are reported. */
export const KINDS = ['done', 'deadlock', 'livelock', 'stall', 'failed'] as const

/** How a run may end. */
export type OutcomeKind = (typeof KINDS)[number]

/** Outcome of one seed. */
export interface SeedOutcome {
  seed: number
  kind: OutcomeKind
  /** Error of the run; null if the kind is `done`. */
  error: DramatisError | null
  /** Number of messages in the run's history. */
  messages: number
  faults: readonly Injected[]
  /** Names of models in whose place the rehearsal model answered. */
  standsInFor: readonly string[]
  /** Names of tools that did not run, but were answered in their place. */
  simulatedTools: readonly string[]
  /** Real input or output that was wanted and refused. */
  refused: readonly string[]
  /** Trace of the run; null unless it was asked for. */
  trace: OrchestrationTrace | null
}

/**
 * Returns the error for a finding of a detector. A deadlock and a stall are facts, even if the run came to its end in
 * spite of them. A livelock is only a sign, which progress takes back.
 */
export function foundBy(event: RuntimeEvent): DramatisError | undefined {
  switch (event.type) {
    case 'deadlock': {
      const { cycle, tail, waits, victim } = event
      const round = [...cycle, cycle[0]].join(' -> ')
      return new DeadlockError(`Agents wait for each other in a circle: ${round}.`, { cycle, tail, waits, victim })
    }
    case 'livelock':
      return new LivelockError(`Agents are busy without progress: ${event.evidence.join('; ')}.`, {
        evidence: event.evidence,
      })
    case 'stall':
      return new StallError(`Nothing goes on any more: ${event.evidence.join('; ')}.`, { evidence: event.evidence })
    default:
      return undefined
  }
}

const KIND_OF: Readonly<Partial<Record<string, OutcomeKind>>> = {
  DEADLOCK: 'deadlock',
  LIVELOCK: 'livelock',
  STALL: 'stall',
}

/**
 * Returns the kind of a run that ended with that error: the first of its causes that is a detector's finding decides.
 */
export function kindOf(error: Caused): OutcomeKind {
  for (const { code } of causesOf(error)) {
    const kind = own(KIND_OF, code)
    if (kind) return kind
  }
  return 'failed'
}

/** Checks whether a deadline of the runtime caused the error. */
export function ranOutOfTime(error: Caused): boolean {
  for (const { code } of causesOf(error)) if (DEADLINES.includes(code)) return true
  return false
}

const DEADLINES = ['REQUEST_TIMEOUT', 'TURN_TIMEOUT', 'RUN_TIMEOUT']

/** Yields the error and all of its causes; where several agents failed, the causes of all failures. */
function* causesOf(error: Caused): IterableIterator<Caused> {
  yield error
  const { cause, failures } = error.details
  for (const each of [cause, ...(Array.isArray(failures) ? failures : [])]) if (isCaused(each)) yield* causesOf(each)
}

/** An error, or its data: an error that came from another thread carries its cause as data. */
interface Caused {
  code: string
  details: { cause?: unknown; failures?: unknown }
}

function isCaused(cause: unknown): cause is Caused {
  if (typeof cause !== 'object' || cause === null || !('code' in cause) || !('details' in cause)) return false
  return typeof cause.code === 'string' && typeof cause.details === 'object' && cause.details !== null
}

/** Counts the runs by kind of outcome. */
export function tally(outcomes: readonly { kind: OutcomeKind }[]): Record<OutcomeKind, number> {
  const counts: Record<OutcomeKind, number> = { done: 0, deadlock: 0, livelock: 0, stall: 0, failed: 0 }
  for (const { kind } of outcomes) counts[kind] += 1
  return counts
}

/**
 * Returns the outcome with the fewest messages; among equals the one with the fewest faults, then the smallest seed.
 */
export function shortest<T extends Pick<SeedOutcome, 'seed' | 'messages' | 'faults'>>(
  outcomes: readonly T[],
): T | undefined {
  const length = ({ messages, faults, seed }: T) => [messages, faults.length, seed] as const
  return outcomes.reduce<T | undefined>((best, each) => {
    if (!best) return each
    const [mine, its] = [length(each), length(best)]
    const at = mine.findIndex((value, i) => value !== its[i])
    return at >= 0 && mine[at]! < its[at]! ? each : best
  }, undefined)
}
