/** One answer of several. A conflict is answers that differ by structure; how it was resolved goes into the trace. */
import type { OrchestratorContext } from '../../actors/context.ts'
import { canonical } from '../../actors/vote.ts'
import { ConsensusError } from '../../errors.ts'
import { byEvidence } from './by-evidence.ts'
import { claimsByKey } from './contradictions.ts'
import { synthesize } from './judge.ts'
import { type Answered, resultOf } from './outputs.ts'
import { claimOf, isSame } from './positions.ts'

/**
 * What is done about a conflict: the votes decide, the first of the highest priority, the evidence (with a judge who says
 * what texts contradict each other about), a judge; or nobody.
 */
export type Resolution = 'vote' | 'priority' | 'fail' | { judge: string } | { evidence: true; judge?: string }

const QUESTION = 'The answers differ: which one counts?'

/**
 * The answer that counts. Its value is its structured data, or its words where there is none.
 *
 * @throws {ConsensusError} in a conflict under `'fail'`.
 */
export async function resolveConflict(
  orchestrator: OrchestratorContext,
  query: string,
  answers: readonly [Answered, ...Answered[]],
  resolution: Resolution,
): Promise<{ content: string; structuredData: unknown }> {
  const [first] = answers
  if (answers.every((answer) => isSame(claimOf(answer), claimOf(first)))) return resultOf(first)

  if (resolution === 'vote') {
    const ballots = answers.map((answer) => ({ agent: answer.agent, value: claimOf(answer) }))
    const { winner, tied } = orchestrator.vote(ballots)
    const backers = answers.filter((answer) => isSame(claimOf(answer), winner))
    const most = tied ? 'A tie: the first seen of those with the most votes' : 'The most votes'
    const reason = `${most}, from ${backers.map(({ agent }) => agent).join(', ')}.`
    orchestrator.decide(QUESTION, typeof winner === 'string' ? winner : canonical(winner), reason)
    return resultOf(backers[0] ?? first)
  }
  if (resolution === 'priority') {
    const priorityOf = ({ agent }: Answered) => orchestrator.agents.find(({ name }) => name === agent)?.priority ?? 0
    const highest = Math.max(...answers.map(priorityOf))
    const chosen = answers.find((answer) => priorityOf(answer) === highest) ?? first
    orchestrator.decide(QUESTION, chosen.agent, `The highest priority, ${highest}.`)
    return resultOf(chosen)
  }
  if (resolution === 'fail') {
    orchestrator.decide(QUESTION, 'none', 'conflictResolution is "fail".')
    const names = answers.map(({ agent }) => `"${agent}"`).join(', ')
    const details = { answers: answers.map((answer) => ({ agent: answer.agent, value: claimOf(answer) })) }
    throw new ConsensusError(
      `The answers of ${names} differ, and conflictResolution is "fail". They are in details.answers.`,
      details,
    )
  }
  if ('evidence' in resolution) return byEvidence(orchestrator, query, answers, resolution.judge)
  const contested = [...(claimsByKey(answers) ?? [])].flatMap(([key, claims]) => (claims.length > 1 ? [key] : []))
  const about = contested.length > 0 ? ` They contradict each other about ${contested.join(', ')}.` : ''
  orchestrator.decide(QUESTION, resolution.judge, `It makes one answer of them.${about}`)
  return resultOf(await synthesize(orchestrator, resolution.judge, query, answers))
}
