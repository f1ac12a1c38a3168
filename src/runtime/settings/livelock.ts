/** Bounds from `supervision.livelock`: for the rounds of models within a turn, and for messages between agents. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { SupervisionConfig } from '../../actors/definition/supervision-config.ts'

/** Counts at which messages are a livelock. Each counts from the last progress on. */
export interface LivelockBounds {
  /** Number of rounds of the protocol. */
  readonly maxStalledRounds: number
  /**
   * Number of repetitions of the same action with the same result. The bounds for errors and for A-B-A-B follow from
   * it.
   */
  readonly maxRepeats: number
  /** Number of messages in one conversation. */
  readonly maxMessagesWithoutProgress: number
  /**
   * Causes whose third sign ends the run: those in which models alone take part, all, or none. Of others two signs are
   * reported, and the run continues.
   */
  readonly ends: 'models' | 'all' | 'none'
  /** True if code and protocols are watched too. */
  readonly ofCode: boolean
}

/**
 * Default bounds for messages. Code repeats itself for many reasons that are not visible: a poll, a count in a
 * variable.
 */
export const LIVELOCK_BOUNDS: LivelockBounds = {
  maxStalledRounds: 24,
  maxRepeats: 24,
  maxMessagesWithoutProgress: 100,
  ends: 'models',
  ofCode: false,
}

type Given = SupervisionConfig['livelock']

/** Default bound for repeated rounds of a model. Each repetition costs money, so the model is warned early. */
const MOST_ROUNDS = 8

/** Returns the bounds for models. Models are checked unless the team turns it off. */
export function roundBounds(given: Given = {}): RoundBounds | false {
  if (given === false) return false
  return { maxRepeats: given.maxRepeats ?? MOST_ROUNDS, ends: given.onFound !== 'report' }
}

/** Returns the bounds for messages. Those of code are checked only if the team sets bounds. */
export function livelockBounds(given: Given): LivelockBounds | false {
  if (given === undefined || given === false) return given === undefined && LIVELOCK_BOUNDS
  return {
    maxStalledRounds: given.maxStalledRounds ?? LIVELOCK_BOUNDS.maxStalledRounds,
    maxRepeats: given.maxRepeats ?? LIVELOCK_BOUNDS.maxRepeats,
    maxMessagesWithoutProgress: given.maxMessagesWithoutProgress ?? LIVELOCK_BOUNDS.maxMessagesWithoutProgress,
    ends: ENDS[given.onFound ?? 'default'],
    ofCode: true,
  }
}

const ENDS = { default: 'models', end: 'all', report: 'none' } as const
