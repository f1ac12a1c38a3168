/** For each agent that waits, the wait that says most about it. */
import type { Wait } from '../../runtime/digest/wait.ts'

/**
 * An agent may have several: its turn waits for an answer, and its next message for the turn to end. What a turn waits
 * for comes before limits, and of equals the one that has stood longest.
 */
export function toldWaits(waits: readonly Wait[]): Map<string, Wait> {
  const told = new Map<string, Wait>()
  for (const wait of waits) {
    if (wait.agent === null) continue
    const known = told.get(wait.agent)
    if (!known || rankOf(wait) < rankOf(known) || (rankOf(wait) === rankOf(known) && wait.since < known.since))
      told.set(wait.agent, wait)
  }
  return told
}

const rankOf = ({ kind }: Wait): number => (kind === 'limit' || kind === 'place' ? 1 : 0)
