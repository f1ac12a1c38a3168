/**
 * Finds short sequences that repeat, as a pure fold over a sequence of keys: A-A-A, A-B-A-B, A-B-C-A-B-C, up to eight
 * keys before the first comes again. The fold keeps the last eight keys and eight counts; each key costs eight
 * comparisons.
 *
 * Source: OpenHands' stuck detector (the same action with the same result, A-B-A-B).
 */

/** The largest number of different keys in a cycle. */
const LONGEST_CYCLE = 8

export interface Sequence {
  /** The last keys, the newest first. */
  readonly last: readonly string[]
  /**
   * Counts by cycle length minus one: how many of the last keys, without a gap, equal the key that many places before.
   */
  readonly same: readonly number[]
}

export const NO_SEQUENCE: Sequence = { last: [], same: Array.from({ length: LONGEST_CYCLE }, () => 0) }

export const withKey = ({ last, same }: Sequence, key: string): Sequence => ({
  last: [key, ...last.slice(0, LONGEST_CYCLE - 1)],
  same: same.map((count, at) => (last[at] === key ? count + 1 : 0)),
})

/** Returns the shortest cycle whose repetitions reach `least`: its length, and how often in a row it has come. */
export function cycleIn(
  { same }: Sequence,
  least: (length: number) => number,
): { length: number; times: number } | undefined {
  for (const [at, count] of same.entries()) {
    const length = at + 1
    const times = Math.floor(count / length) + 1
    if (times >= least(length)) return { length, times }
  }
  return undefined
}

/** Bounds for the rounds of a model. `ends`: whether a loop that continues after all notices ends the turn. */
export interface RoundBounds {
  readonly maxRepeats: number
  readonly ends: boolean
}
