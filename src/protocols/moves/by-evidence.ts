/**
 * Combines answers that contradict each other into one: for each contradiction the claim with the most evidence wins.
 */
import { canonical } from '../../actors/decisions/vote.ts'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { ReplyInvalidError } from '../../errors.ts'
import { CONFLICT } from '../prompts/conflict.ts'
import { speaking } from '../prompts/prompts.ts'
import {
  type Claim,
  type Contradiction,
  claimsByKey,
  contradictionsIn,
  type Statement,
  statedIn,
  statementOf,
  wholeClaims,
} from './contradictions.ts'
import { Evidence } from './evidence.ts'
import { lastWord } from './last-word.ts'
import { type Answered, asData, asText, resultOf } from './outputs.ts'
import { isSame, positionFrom } from './positions.ts'

type Result = { content: string; structuredData: unknown }

/**
 * Combines answers by evidence. Objects are merged key by key. For texts, the judge lists the statements that
 * contradict each other, and writes the answer that keeps to the winning ones. Without a judge the text with the most
 * evidence wins. If the evidence is equal, the votes decide, then the order. The decision about each contradiction, and
 * the agents behind each part, go into the trace.
 *
 * @throws {ConfigurationError} when the team has no blackboard.
 */
export async function byEvidence(
  orchestrator: OrchestratorContext,
  query: string,
  answers: readonly [Answered, ...Answered[]],
  judge: string | undefined,
): Promise<Result> {
  const statements = answers.map(statementOf)
  const evidence = await Evidence.on(orchestrator, statements)
  const byKey = claimsByKey(statements)
  if (byKey) return merged(orchestrator, byKey, answers, evidence)
  const found = judge !== undefined && (await judged(orchestrator, judge, query, statements))
  if (found) return joined(orchestrator, judge, query, answers, found, evidence)
  const { agents } = settle(orchestrator, { about: 'the answer', claims: wholeClaims(statements) }, evidence)
  return resultOf(answers.find(({ agent }) => agents.includes(agent)) ?? answers[0])
}

/**
 * Returns the contradictions that the judge finds. undefined: its answer is not usable, which is no reason to end
 * without a result.
 */
export async function judged(
  orchestrator: OrchestratorContext,
  judge: string,
  query: string,
  statements: readonly Statement[],
): Promise<Contradiction[] | undefined> {
  const question = 'What do the answers contradict each other about?'
  try {
    const found = await contradictionsIn(orchestrator, judge, query, statements)
    const about = found.map((one) => one.about).join(', ') || 'nothing'
    orchestrator.decide(question, about, `The judge "${judge}" says so, and makes one answer of theirs.`)
    return found
  } catch (error) {
    if (!(error instanceof ReplyInvalidError)) throw error
    orchestrator.decide(question, 'not known', error.message)
    return undefined
  }
}

/** Returns the claim that wins a contradiction, and adds the decision to the trace. */
export function settle(orchestrator: OrchestratorContext, { about, claims }: Contradiction, evidence: Evidence): Claim {
  const strongest = evidence.strongest(claims)
  const { winner, tied } = orchestrator.vote(
    strongest.flatMap(({ value, agents }) => agents.map((agent) => ({ agent, value }))),
  )
  const claim = strongest.find(({ value }) => isSame(value, winner)) ?? strongest[0]!
  const from = claim.agents.join(', ')
  const weight = evidence.weightOf(claim)
  const keys = evidence.keysFor(claim).join(', ')
  const most = tied ? 'a tie: the first of those with the most votes' : 'the most votes'
  const reason =
    strongest.length === 1
      ? `The most evidence: ${weight} (${keys}), from ${from}.`
      : `The evidence is level (${weight}): ${most}, from ${from}.`
  const choice = typeof claim.value === 'string' ? claim.value : canonical(claim.value)
  orchestrator.decide(`They contradict each other about ${about}: what holds?`, choice, reason)
  return claim
}

function merged(
  orchestrator: OrchestratorContext,
  byKey: ReadonlyMap<string, Claim[]>,
  answers: readonly Answered[],
  evidence: Evidence,
): Result {
  const holding = [...byKey].map(([key, claims]): [string, Claim] => [
    key,
    claims.length > 1 ? settle(orchestrator, { about: `"${key}"`, claims }, evidence) : claims[0]!,
  ])
  const whose = holding.map(([key, { agents }]) => `${key}: ${agents.join(', ')}`).join('; ')
  orchestrator.decide('Whose is each part of the answer?', whose, 'They have said it so.')
  const data = Object.fromEntries(holding.map(([key, { value }]) => [key, value]))
  const said = answers.find((answer) => isSame(statedIn(statementOf(answer)), data))
  return said ? resultOf(said) : positionFrom(data)
}

async function joined(
  orchestrator: OrchestratorContext,
  judge: string,
  query: string,
  answers: readonly Answered[],
  found: readonly Contradiction[],
  evidence: Evidence,
): Promise<Result> {
  const decided = found.map((contradiction) => {
    const { value, agents } = settle(orchestrator, contradiction, evidence)
    return { about: contradiction.about, statement: String(value), agents }
  })
  const list = decided.map(({ about, statement, agents }) => `- ${about}: ${statement} (${agents.join(', ')})`)
  const values = { query, decided: list.join('\n') || 'Nothing: they do not.', answers: asText(answers) }
  const message = await lastWord(orchestrator, judge, speaking(CONFLICT, undefined)('join', values), {
    structuredData: { ...asData(answers), decided },
  })
  return resultOf({ agent: judge, message })
}
