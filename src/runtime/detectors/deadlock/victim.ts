/** Who of a cycle gives its wait up, so that the others go on: rule 26. */

export interface Candidate {
  readonly agent: string
  /** The higher, the more urgent. */
  readonly priority: number
  /** Spent by its turn on models; they would be lost. */
  readonly tokens: number
  /** Since when it waits; monotonic ms. */
  readonly since: number
}

const MOST_IN_A_ROW = 3

/**
 * The least urgent of the cycle, then the one that has spent the fewest tokens, then the one that has waited least; of
 * equals the first. An agent that was the victim three times in a row is spared, unless the cycle has no other: it has to
 * be broken. `earlier` has the agents that were victims, the latest last.
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
