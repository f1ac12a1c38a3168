/**
 * Finds that the same few things come again and again, as a pure fold over a sequence of keys: A-A-A, A-B-A-B, A-B-C-A-B-C, up to
 * eight before the first comes again. It keeps the last eight keys and eight counts, and each key costs eight comparisons.
 *
 * Source: OpenHands' stuck detector (the same action with the same result, A-B-A-B).
 */

/** How many different keys a cycle may have. */
const LONGEST_CYCLE = 8

export interface Sequence {
  /** The last keys, the newest first. */
  readonly last: readonly string[]
  /** By the length of a cycle less one: how many of the last keys are each the same as the one that stands that far before it. */
  readonly same: readonly number[]
}

export const NO_SEQUENCE: Sequence = { last: [], same: Array.from({ length: LONGEST_CYCLE }, () => 0) }

export const withKey = ({ last, same }: Sequence, key: string): Sequence => ({
  last: [key, ...last.slice(0, LONGEST_CYCLE - 1)],
  same: same.map((count, at) => (last[at] === key ? count + 1 : 0)),
})

/** How often the last keys have come one after the other, for the shortest cycle that has come as often as `least` says. */
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

/** When rounds are too many. `ends`: whether a loop that goes on after all notices ends the turn. */
export interface RoundBounds {
  readonly maxRepeats: number
  readonly ends: boolean
}
