/**
 * Chooses one of several answers. A conflict means answers that differ by structure; the trace says how it was
 * resolved.
 */
import { canonical } from '../../actors/decisions/vote.ts'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { ConsensusError } from '../../errors.ts'
import { byEvidence } from './by-evidence.ts'
import { claimsByKey, statementOf } from './contradictions.ts'
import { synthesize } from './judge.ts'
import { type Answered, resultOf } from './outputs.ts'
import { claimOf } from './positions.ts'

/**
 * Way to resolve a conflict.
 *
 * - 'vote': by the votes.
 * - 'priority': the first answer of the highest priority.
 * - 'fail': not resolved, the run fails.
 * - `{ judge }`: a judge makes one answer.
 * - `{ evidence, judge? }`: by evidence; the judge, if given, says what texts contradict each other about.
 */
export type Resolution = 'vote' | 'priority' | 'fail' | { judge: string } | { evidence: true; judge?: string }

const QUESTION = 'The answers differ: which one counts?'

/**
 * Returns the answer that counts. Answers are compared by their structured data, or by their content if they have none.
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
  if (areSame(answers.map(claimOf))) return resultOf(first)

  if (resolution === 'vote')
    return resultOf(elect(orchestrator, answers, (answer) => ({ agent: answer.agent, value: claimOf(answer) })))
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
  const contested = [...(claimsByKey(answers.map(statementOf)) ?? [])].flatMap(([key, claims]) =>
    claims.length > 1 ? [key] : [],
  )
  const about = contested.length > 0 ? ` They contradict each other about ${contested.join(', ')}.` : ''
  orchestrator.decide(QUESTION, resolution.judge, `It makes one answer of them.${about}`)
  return resultOf(await synthesize(orchestrator, resolution.judge, query, answers))
}

/**
 * Returns the first candidate whose value has the most votes. If the values differ, the choice is a decision in the
 * trace.
 */
export function elect<T>(
  orchestrator: Pick<OrchestratorContext, 'decide' | 'vote'>,
  candidates: readonly [T, ...T[]],
  ballotOf: (candidate: T) => { agent: string; value: unknown },
): T {
  const ballots = candidates.map(ballotOf)
  if (areSame(ballots.map(({ value }) => value))) return candidates[0]
  const { winner, tied } = orchestrator.vote(ballots)
  const backs = ({ value }: { value: unknown }) => canonical(value) === canonical(winner)
  const most = tied ? 'A tie: the first seen of those with the most votes' : 'The most votes'
  const backers = ballots.filter(backs).map(({ agent }) => agent)
  const choice = typeof winner === 'string' ? winner : canonical(winner)
  orchestrator.decide(QUESTION, choice, `${most}, from ${backers.join(', ')}.`)
  return candidates[ballots.findIndex(backs)] ?? candidates[0]
}

const areSame = (values: readonly unknown[]): boolean => new Set(values.map(canonical)).size <= 1
