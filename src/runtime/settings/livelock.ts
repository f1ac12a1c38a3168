/** What `supervision.livelock` comes to: for what models do within a turn, and for messages between agents. */
import type { SupervisionConfig } from '../../actors/definition/role.ts'
import type { RoundBounds } from '../../actors/model/rounds-watch.ts'
import { LIVELOCK_BOUNDS, type LivelockBounds } from '../detectors/livelock/signs.ts'

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
