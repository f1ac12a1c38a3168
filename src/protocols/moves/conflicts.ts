/**
 * Looks for contradictions where answers are combined and none is chosen: what is found is recorded, settled by a rule,
 * and told to whoever combines. Source: document 002, 4.3.
 */
import { canonical } from '../../actors/decisions/vote.ts'
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { ConsensusError } from '../../errors.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import { judged, settle } from './by-evidence.ts'
import {
  type Claim,
  type Contradiction,
  claimsByKey,
  isBetweenAgents,
  type Statement,
  statedIn,
} from './contradictions.ts'
import { differencesIn } from './differences.ts'
import { Evidence } from './evidence.ts'
import { isSame } from './positions.ts'

/** Way to settle a contradiction. */
export type ConflictRule = 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'
export const CONFLICT_RULES: readonly ConflictRule[] = ['vote', 'priority', 'evidence', 'synthesize', 'fail']

/** Contradiction, and the claim that holds by the rule; undefined: whoever combines decides. */
export interface Conflict extends Contradiction {
  readonly holds: Claim | undefined
}

interface How {
  /** undefined: contradictions are told and not settled. */
  rule: ConflictRule | undefined
  /** Agent that compares the texts. Without one, sentences in the same words are compared. */
  judge: string | undefined
}

/**
 * Returns the contradictions between statements of different agents. Data is compared key by key.
 *
 * @throws {ConsensusError} for a contradiction under the rule 'fail'.
 */
export async function conflictsAmong(
  orchestrator: OrchestratorContext,
  query: string,
  statements: readonly Statement[],
  { rule, judge }: How,
): Promise<Conflict[]> {
  const [objects, texts] = [statements.filter(isData), statements.filter((statement) => !isData(statement))]
  const byKey = [...(claimsByKey(objects) ?? [])].map(([key, claims]) => ({ about: `"${key}"`, claims }))
  const found = [...byKey.filter(isBetweenAgents), ...(await foundIn(orchestrator, query, texts, judge))]
  if (found.length === 0) return []
  const evidence = rule === 'evidence' ? await Evidence.on(orchestrator, statements) : undefined
  return found.map((one) => ({
    ...one,
    holds: evidence ? settle(orchestrator, one, evidence) : settledBy(orchestrator, one, rule),
  }))
}

const isData = (statement: Statement): boolean => isObject(statedIn(statement))

async function foundIn(
  orchestrator: OrchestratorContext,
  query: string,
  texts: readonly Statement[],
  judge: string | undefined,
): Promise<Contradiction[]> {
  if (new Set(texts.map(({ agent }) => agent)).size < 2) return []
  const found = judge === undefined ? undefined : await judged(orchestrator, judge, query, texts)
  return found ?? differencesIn(texts)
}

/** Returns the claim that holds, and adds the decision to the trace. */
function settledBy(orchestrator: OrchestratorContext, one: Contradiction, rule: ConflictRule | undefined) {
  const { about, claims } = one
  const question = `They contradict each other about ${about}: what holds?`
  const choose = (claim: Claim | undefined, choice: string, reason: string) => {
    orchestrator.decide(question, choice, reason)
    return claim
  }
  if (rule === 'vote') {
    const ballots = claims.flatMap(({ value, agents }) => agents.map((agent) => ({ agent, value })))
    const { winner, tied } = orchestrator.vote(ballots)
    const claim = claims.find(({ value }) => isSame(value, winner)) ?? claims[0]!
    const most = tied ? 'A tie: the first of those with the most votes' : 'The most votes'
    return choose(claim, wordsOf(claim), `${most}, from ${claim.agents.join(', ')}.`)
  }
  if (rule === 'priority') {
    const priorityOf = (agent: string) => orchestrator.agents.find(({ name }) => name === agent)?.priority ?? 0
    const priorities = claims.map(({ agents }) => Math.max(...agents.map(priorityOf)))
    const highest = Math.max(...priorities)
    const claim = claims[priorities.indexOf(highest)]!
    return choose(claim, wordsOf(claim), `The highest priority, ${highest}, of ${claim.agents.join(', ')}.`)
  }
  choose(undefined, 'open', claimsAsText(claims))
  if (rule !== 'fail') return undefined
  const text = `The agents contradict each other about ${about}, and conflictResolution is "fail": ${claimsAsText(claims)}.`
  throw new ConsensusError(text, { about, claims })
}

const wordsOf = ({ value }: Claim): string => (typeof value === 'string' ? value : canonical(value))

const claimsAsText = (claims: readonly Claim[]): string =>
  claims.map((claim) => `${wordsOf(claim)} (${claim.agents.join(', ')})`).join('; ')

/** Returns the text with the contradictions behind it, if there are any. */
export function withConflicts(text: string, conflicts: readonly Conflict[]): string {
  if (conflicts.length === 0) return text
  const lines = conflicts.map(({ about, claims, holds }) => {
    const settled = holds ? `; what holds: ${wordsOf(holds)}` : ''
    return `- ${about}: ${claimsAsText(claims)}${settled}`
  })
  return `${text}\n\n## Contradictions\n\n${lines.join('\n')}`
}

/** Returns the contradictions as data for a code agent; nothing if there are none. */
export const conflictsAsData = (conflicts: readonly Conflict[]): { contradictions?: object[] } =>
  conflicts.length === 0
    ? {}
    : { contradictions: conflicts.map(({ holds, ...one }) => ({ ...one, holds: holds?.value ?? null })) }
