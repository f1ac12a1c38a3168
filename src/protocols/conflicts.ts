/** Contradictions where answers are combined and none is chosen: found, settled by a rule, and told to the reader. */

import type { OrchestratorContext, Outcome } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { isObject } from '../shared/checks.ts'
import { ConsensusError, ReplyInvalidError, shown } from '../shared/errors.ts'
import { sentencesOf, wordsOf } from '../shared/sentences.ts'
import { combinedBy } from './combine.ts'
import {
  type Claim,
  type ConflictRule,
  type Contradiction,
  claimsByKey,
  evidenceOn,
  isBetweenAgents,
  judged,
  pickBest,
  type Resolution,
  resolveConflict,
  type Statement,
  settle,
  statedIn,
  statementOf,
  synthesize,
  voted,
} from './conflict.ts'
import { type Answered, asData, asText, priorityOf, resultOf, valueAsText } from './positions.ts'

/*
 * Finds sentences of different agents that are the same but for one number, their last word, or a negation. It asks no
 * model and costs no tokens, so it finds what is put into the same words alone.
 */

const MOST_SENTENCES = 1_000 // of one text
const MOST_WORDS = 60 // of one sentence: the work grows with their square
const BLANK = '…'

const NEGATIONS: ReadonlySet<string> = new Set(
  'not no never nicht nie kein keine pas jamais nunca não non не нет'.split(' '),
)

export function differencesIn(statements: readonly Statement[]): Contradiction[] {
  const frames = new Map<string, Map<string, Claim>>()
  for (const { agent, text } of statements)
    for (const sentence of sentencesOf(text).slice(0, MOST_SENTENCES))
      for (const { frame, filling } of gapsOf(wordsOf(sentence))) {
        const claims = frames.get(frame) ?? new Map<string, Claim>()
        frames.set(frame, claims)
        const claim = claims.get(filling)
        if (!claim) claims.set(filling, { value: sentence, agents: [agent] })
        else if (!claim.agents.includes(agent)) claim.agents.push(agent)
      }
  const found = Array.from(frames, ([about, claims]) => ({ about: `"${about}"`, claims: [...claims.values()] }))
  return found.filter(isBetweenAgents)
}

/** Yields a sentence with a gap for each word that may differ, and what fills the gap. */
function* gapsOf(words: readonly string[]): Generator<{ frame: string; filling: string }> {
  const { length } = words
  if (length > MOST_WORDS) return
  for (const [at, word] of words.entries()) {
    const isNumber = /\p{N}/u.test(word)
    if (length >= 3 && (isNumber || (at === length - 1 && length > 3)))
      yield { frame: words.with(at, BLANK).join(' '), filling: word.toLowerCase() }
  }
  const affirmed = words.map(affirmative).filter((word) => word !== '')
  if (affirmed.length >= 3)
    yield { frame: `${affirmed.join(' ')}?`, filling: affirmed.join() === words.join() ? 'yes' : 'no' }
}

/** Returns a word without its negation; '' if it is nothing else. */
function affirmative(word: string): string {
  if (NEGATIONS.has(word.toLowerCase())) return ''
  return word === 'cannot' ? 'can' : word.replace(/n['’]t$/u, '').replace(/^[不没]/u, '')
}

export const CONFLICT_RULES: readonly ConflictRule[] = ['vote', 'priority', 'evidence', 'synthesize', 'fail']

/** Contradiction, and the claim that holds by the rule; undefined: whoever combines decides. */
export interface Conflict extends Contradiction {
  readonly holds: Claim | undefined
}

interface How {
  /** undefined: contradictions are told and not settled. */
  rule?: ConflictRule | undefined
  /** Agent that compares the texts. Without one, sentences in the same words are compared. */
  judge?: string | undefined
}

/** Returns the contradictions between agents. Throws `ConsensusError` for one under the rule 'fail'. */
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
  const evidence = rule === 'evidence' ? await evidenceOn(orchestrator, statements) : undefined
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
    const { claim, tied } = voted(orchestrator, claims)
    const most = tied ? 'A tie: the first of those with the most votes' : 'The most votes'
    return choose(claim, valueAsText(claim.value), `${most}, from ${claim.agents.join(', ')}.`)
  }
  if (rule === 'priority') {
    const priorities = claims.map(({ agents }) => Math.max(...agents.map((agent) => priorityOf(orchestrator, agent))))
    const highest = Math.max(...priorities)
    const claim = claims[priorities.indexOf(highest)]!
    return choose(claim, valueAsText(claim.value), `The highest priority, ${highest}, of ${claim.agents.join(', ')}.`)
  }
  choose(undefined, 'open', claimsAsText(claims))
  if (rule !== 'fail') return undefined
  const text = `The agents contradict each other about ${about}, and conflictResolution is "fail": ${claimsAsText(claims)}.`
  throw new ConsensusError(text, { about, claims })
}

const claimsAsText = (claims: readonly Claim[]): string =>
  claims.map((claim) => `${valueAsText(claim.value)} (${claim.agents.join(', ')})`).join('; ')

export function withConflicts(text: string, conflicts: readonly Conflict[]): string {
  if (conflicts.length === 0) return text
  const lines = conflicts.map(({ about, claims, holds }) => {
    const settled = holds ? `; what holds: ${valueAsText(holds.value)}` : ''
    return `- ${about}: ${claimsAsText(claims)}${settled}`
  })
  return `${text}\n\n## Contradictions\n\n${lines.join('\n')}`
}

/** Returns the contradictions as data for a code agent; nothing if there are none. */
export const conflictsAsData = (conflicts: readonly Conflict[]): { contradictions?: object[] } =>
  conflicts.length === 0
    ? {}
    : { contradictions: conflicts.map(({ holds, ...one }) => ({ ...one, holds: holds?.value ?? null })) }

export type Combination =
  | ({ by: 'merge' | 'vote' } & Resolution)
  | { by: 'best'; judge: string }
  | { by: 'custom'; aggregator: string | Aggregator }

/** Aggregator function of the user. It runs in the host, and also gets the failed and the late agents. */
type Aggregator = (outcomes: Outcome[], orchestrator: OrchestratorContext) => string | Promise<string>

/** Returns one result for the outcomes. `answers` are the successful ones, at least one. */
export async function combine(
  orchestrator: OrchestratorContext,
  query: string,
  outcomes: readonly Outcome[],
  answers: readonly [Answered, ...Answered[]],
  how: Combination,
): Promise<ScriptResult> {
  switch (how.by) {
    case 'merge': {
      const conflicts = await conflictsAmong(orchestrator, query, answers.map(statementOf), how)
      const merged = withConflicts(asText(answers), conflicts)
      if (conflicts.length === 0 || how.rule !== 'synthesize') return merged
      return synthesize(orchestrator, how.judge, query, answers, merged)
    }
    case 'vote':
      return resolveConflict(orchestrator, query, answers, how)
    case 'best': {
      const best = answers.length === 1 ? answers[0] : await pickBest(orchestrator, how.judge, query, answers)
      const reason = answers.length === 1 ? 'No other agent answered.' : `"${how.judge}" chose it of ${answers.length}.`
      orchestrator.decide('Which answer is the best?', best.agent, reason)
      return resultOf(best)
    }
    case 'custom': {
      const { aggregator } = how
      if (typeof aggregator === 'function') return checkedText(await aggregator([...outcomes], orchestrator))
      const conflicts = await conflictsAmong(orchestrator, query, answers.map(statementOf), {})
      const content = `${query}\n\n${withConflicts(asText(outcomes), conflicts)}`
      const structuredData = { ...asData(outcomes), ...conflictsAsData(conflicts) }
      const merged = withConflicts(asText(answers), conflicts)
      return combinedBy(orchestrator, aggregator, content, { structuredData }, merged)
    }
  }
}

function checkedText(text: unknown): string {
  if (typeof text === 'string') return text
  throw new ReplyInvalidError(`The aggregator returned ${shown(text)}; it has to return a text.`)
}
