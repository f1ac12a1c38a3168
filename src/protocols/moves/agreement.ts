/** Checks whether agents agree: by the share of the total weight that supports one value. */
import type { Ballot } from '../../actors/decisions/vote.ts'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { isSame } from './positions.ts'

/**
 * Agreement that is needed: a share of the weight above 0, up to 1; or 'all', which is every agent, whatever its
 * weight.
 */
export type Needed = number | 'all'

export interface Agreement {
  /** Value with the most weight; undefined if no agent supports any value. */
  winner: unknown
  /** Weight of the winner. Without a usable weight each agent counts 1. */
  score: number
  /** Weight of all agents that take part. */
  total: number
  tied: boolean
  reached: boolean
  /** false: no agent that takes part has a weight above 0, so there is no total for a share. */
  possible: boolean
}

/** Tolerance for the comparison of weights: the difference between 0.1 + 0.2 and 0.3 must not prevent agreement. */
const TOLERANCE = 1e-9

/**
 * Counts ballots as `vote` does. The total includes agents that support no value: they do not agree. A tie is no
 * agreement.
 *
 * @param abstained agents that take part and support no value; an unusable weight of such an agent does not turn the
 *   count into a majority vote.
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
