/** Chooses the turn of a cycle that gives up its wait so that the others go on: rule 26. */

export interface Candidate {
  readonly agent: string
  /** A higher number is more urgent. */
  readonly priority: number
  /** Tokens that the turn has spent on models; they would be lost. */
  readonly tokens: number
  /** Start of the wait; epoch ms. */
  readonly since: number
}

/** Maximum number of times in a row that one agent is the victim, and so the number of earlier victims to remember. */
export const MOST_IN_A_ROW = 3

/**
 * Returns the victim: the least urgent of the cycle, then the one that has spent the fewest tokens, then the one that
 * has waited the shortest time; of equals the first. An agent that was the victim `MOST_IN_A_ROW` times in a row is
 * spared, unless the cycle has no other: it must be broken. `earlier` has the names of earlier victims, the latest
 * last.
 */
export function chooseVictim<T extends Candidate>(cycle: readonly T[], earlier: readonly string[]): T | undefined {
  const recent = earlier.slice(-MOST_IN_A_ROW)
  const isSpared = ({ agent }: T) => recent.length === MOST_IN_A_ROW && recent.every((victim) => victim === agent)
  const others = cycle.filter((candidate) => !isSpared(candidate))
  const [victim] = (others.length > 0 ? others : cycle).toSorted(
    (a, b) => a.priority - b.priority || a.tokens - b.tokens || b.since - a.since,
  )
  return victim
}
