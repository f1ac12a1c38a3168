/** Whether agents agree: the share of the weight that stands behind one value. */
import type { Ballot } from '../../actors/decisions/vote.ts'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isSame } from './positions.ts'

/** How many have to agree: a share of the weight above 0, up to 1; or all, by heads. */
export type Needed = number | 'all'

export interface Agreement {
  /** The value with the most weight behind it; undefined where nobody stands behind any. */
  winner: unknown
  /** Its weight, and that of all who take part. Without a usable weight each counts 1. */
  score: number
  total: number
  tied: boolean
  reached: boolean
  /** false: nobody who takes part has weight, so that there is nothing that agreement could be a share of. */
  possible: boolean
}

/** What 0.1 + 0.2 differs from 0.3 by must not keep agents from agreement. */
const TOLERANCE = 1e-9

/**
 * Counts ballots as `vote` does. Who stands behind nothing is in the total: it does not agree. A tie is no agreement.
 *
 * @param abstained who takes part and stands behind nothing; the weight of such a one does not make it a majority vote.
 */
export function agreementOn(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'vote'>,
  ballots: readonly Ballot[],
  abstained: readonly string[],
  needed: Needed,
): Agreement {
  const weights = new Map(orchestrator.agents.map(({ name, weight }) => [name, weight === undefined ? 1 : weight]))
  const usable = (agent: string) => {
    const weight = weights.has(agent) ? weights.get(agent) : 1
    return typeof weight === 'number' && Number.isFinite(weight) ? weight : null
  }
  const byWeight = ballots.every(({ agent }) => usable(agent) !== null)
  const total = [...ballots.map(({ agent }) => agent), ...abstained].reduce(
    (sum, agent) => sum + ((byWeight ? usable(agent) : 1) ?? 1),
    0,
  )
  const possible = needed === 'all' || total > 0
  if (ballots.length === 0) return { winner: undefined, score: 0, total, tied: false, reached: false, possible }

  const { winner, scores, tied } = orchestrator.vote([...ballots])
  const score = Math.max(...Object.values(scores))
  const isUnanimous = abstained.length === 0 && ballots.every(({ value }) => isSame(value, winner))
  const isEnough = needed === 'all' ? isUnanimous : possible && score >= (needed - TOLERANCE) * total
  return { winner, score, total, tied, reached: isEnough && !tied, possible }
}
