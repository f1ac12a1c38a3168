/** What `supervision.livelock` comes to: for what models do within a turn, and for messages between agents. */
import type { RoundBounds } from '../../actors/definition/cycles.ts'
import type { SupervisionConfig } from '../../actors/definition/role.ts'

/** The counts at which messages are a livelock. Each is counted from the last progress on. */
export interface LivelockBounds {
  /** Rounds of the protocol. */
  readonly maxStalledRounds: number
  /** The same action with the same result; the bounds for errors and for A-B-A-B follow from it. */
  readonly maxRepeats: number
  /** In one conversation. */
  readonly maxMessagesWithoutProgress: number
  /** Whether the third sign ends the run. Else it is told of two, and goes on. */
  readonly ends: boolean
}

/** Code repeats itself for many reasons that do not show: a poll, a count in a variable. */
export const LIVELOCK_BOUNDS: LivelockBounds = {
  maxStalledRounds: 24,
  maxRepeats: 24,
  maxMessagesWithoutProgress: 100,
  ends: false,
}

type Given = SupervisionConfig['livelock']

/** A model that does the same again costs money each time, and is told at once. */
const MOST_ROUNDS = 8

/** Models are watched unless the team says otherwise. */
export function roundBounds(given: Given = {}): RoundBounds | false {
  if (given === false) return false
  return { maxRepeats: given.maxRepeats ?? MOST_ROUNDS, ends: given.onFound !== 'report' }
}

/** Messages, and with them code, are watched where the team says so. */
export function livelockBounds(given: Given): LivelockBounds | false {
  if (given === undefined || given === false) return false
  return {
    maxStalledRounds: given.maxStalledRounds ?? LIVELOCK_BOUNDS.maxStalledRounds,
    maxRepeats: given.maxRepeats ?? LIVELOCK_BOUNDS.maxRepeats,
    maxMessagesWithoutProgress: given.maxMessagesWithoutProgress ?? LIVELOCK_BOUNDS.maxMessagesWithoutProgress,
    ends: given.onFound === 'end',
  }
}
