/** For each agent that waits, the wait that says most about it. */
import { isSlow } from '../../runtime/digest/slow.ts'
import type { Wait } from '../../runtime/digest/wait.ts'

/**
 * An agent may have several: its turn waits for an answer within a step, and its next message for the turn to end. What
 * is slow comes first, then what a turn waits for, then its own steps, then limits; of equals the one that has stood
 * longest. `now`: epoch ms.
 */
export function toldWaits(waits: readonly Wait[], now: number): Map<string, Wait> {
  const rankOf = (wait: Wait): number => (isSlow(wait, now) ? 0 : (RANKS.get(wait.kind) ?? 1))
  const told = new Map<string, Wait>()
  for (const wait of waits) {
    if (wait.agent === null) continue
    const known = told.get(wait.agent)
    if (!known || rankOf(wait) < rankOf(known) || (rankOf(wait) === rankOf(known) && wait.since < known.since))
      told.set(wait.agent, wait)
  }
  return told
}

const RANKS: ReadonlyMap<string, number> = new Map([
  ['step', 2],
  ['own', 2],
  ['limit', 3],
  ['place', 3],
])
