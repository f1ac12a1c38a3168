/** Finds the claims in which the answers of several agents contradict each other. */
import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import { isObject } from '../shared/checks.ts'
import { ConsensusError, ReplyInvalidError } from '../shared/errors.ts'
import { canonical } from '../shared/values.ts'
import { askFor, madeUpFor } from './asking.ts'
import { combinedBy } from './combine.ts'
import {
  type Answered,
  asData,
  asText,
  claimOf,
  isSame,
  positionFrom,
  priorityOf,
  resultOf,
  valueAsText,
} from './positions.ts'
import { CONFLICT, JUDGE, speaking } from './prompts.ts'

export interface Claim {
  value: unknown
  agents: string[]
}

/** Different claims about one subject, in the order in which they were made. */
export interface Contradiction {
  about: string
  claims: Claim[]
}

/** Checks that different agents claim it: an agent that makes several claims speaks of several things. */
export function isBetweenAgents({ claims }: Contradiction): boolean {
  const agents = claims.flatMap((claim) => claim.agents)
  return claims.length > 1 && new Set(agents).size === agents.length
}

/** Answer or result of an agent: its data, or else its text, and its words. */
export interface Statement {
  agent: string
  value: unknown
  text: string
}

export const statementOf = (answer: Answered): Statement => ({
  agent: answer.agent,
  value: claimOf(answer),
  text: resultOf(answer).content,
})

/** Returns the claim of a statement: its data without `references`, or its text. */
export function statedIn({ value }: Statement): unknown {
  if (!isObject(value)) return value
  const { references: _references, ...rest }: { references?: unknown } = value
  return rest
}

/** Returns all claims, key by key; undefined if one of the statements is no object, so that it has no keys. */
export function claimsByKey(statements: readonly Statement[]): Map<string, Claim[]> | undefined {
  const byKey = new Map<string, Claim[]>()
  for (const statement of statements) {
    const stated = statedIn(statement)
    if (!isObject(stated)) return undefined
    for (const [key, value] of Object.entries(stated)) {
      const claims = byKey.get(key) ?? []
      byKey.set(key, claims)
      add(claims, value, statement.agent)
    }
  }
  return byKey
}

function add(claims: Claim[], value: unknown, agent: string): void {
  const same = claims.find((claim) => isSame(claim.value, value))
  if (!same) claims.push({ value, agents: [agent] })
  else if (!same.agents.includes(agent)) same.agents.push(agent)
}

/** Returns the contradictions that the judge finds; undefined if its answer is not usable. */
export async function judged(
  orchestrator: OrchestratorContext,
  judge: string,
  query: string,
  statements: readonly Statement[],
): Promise<Contradiction[] | undefined> {
  const question = 'What do the answers contradict each other about?'
  const answers = statements.map(({ agent, text }) => `## ${agent}\n\n${text}`).join('\n\n')
  const content = speaking(CONFLICT)('find', { query, answers })
  const { contradictionsAmong } = await import('./forms.ts')
  const schema = contradictionsAmong([...new Set(statements.map(({ agent }) => agent))])
  const outputs = statements.map(({ agent, value, text: content }) => {
    const structuredData = typeof value === 'string' ? null : (value ?? null)
    return { agent, ok: true, content, structuredData, error: null }
  })
  try {
    const { value } = await askFor(orchestrator, judge, content, schema, { structuredData: { outputs } })
    const found = value.contradictions.map((contradiction) => {
      const claims: Claim[] = []
      for (const { statement, agent } of contradiction.statements) add(claims, statement, agent)
      return { about: contradiction.about, claims }
    })
    const contradictions = found.filter(({ claims }) => claims.length > 1)
    const about = contradictions.map((one) => one.about).join(', ') || 'nothing'
    orchestrator.decide(question, about, `The judge "${judge}" says so, and makes one answer of theirs.`)
    return contradictions
  } catch (error) {
    orchestrator.decide(question, 'not known', madeUpFor(orchestrator, error).message)
    return undefined
  }
}

const CITED = /\[([^[\]\s]{1,256})\]/g // a key in brackets, within a text

const TOLERANCE = 1e-9

/** Returns the keys of a claim's evidence, each once, and the summed confidence of their entries. */
export type Evidence = (claim: Claim) => { keys: string[]; weight: number }

/** Reads the board. A reference to a key without a valid entry counts nothing. */
export async function evidenceOn(
  { blackboard }: OrchestratorContext,
  statements: readonly Statement[],
): Promise<Evidence> {
  const confidence = new Map((await blackboard.query()).map((entry) => [entry.key, entry.confidence]))
  const references = new Map(statements.map((statement) => [statement.agent, referencesOf(statement)]))
  return ({ agents }) => {
    const named = new Set(agents.flatMap((agent) => references.get(agent) ?? []))
    const keys = [...named].filter((key) => confidence.has(key))
    return { keys, weight: keys.reduce((sum, key) => sum + (confidence.get(key) ?? 0), 0) }
  }
}

/** Returns the keys that a statement refers to: by `references` in its data, else in brackets in its text. */
function referencesOf({ value, text }: Statement): string[] {
  const listed = isObject(value) && 'references' in value ? value.references : undefined
  if (Array.isArray(listed)) return listed.filter((key) => typeof key === 'string')
  return [...text.matchAll(CITED)].map(([, key = '']) => key)
}

/*
 * Combines answers that contradict each other into one: for each contradiction the claim with the most evidence wins.
 */

type Result = { content: string; structuredData: unknown }

/**
 * Combines answers by evidence. Objects are merged key by key. For texts, the judge lists the statements that
 * contradict each other, and writes the answer that keeps to the winning ones. Without a judge the text with the most
 * evidence wins. If the evidence is equal, the votes decide, then the order. The decision about each contradiction, and
 * the agents behind each part, go into the trace.
 *
 * @throws {ConfigurationError} when the team has no blackboard.
 */
async function byEvidence(
  orchestrator: OrchestratorContext,
  query: string,
  answers: readonly [Answered, ...Answered[]],
  judge: string | undefined,
): Promise<Result> {
  const statements = answers.map(statementOf)
  const evidence = await evidenceOn(orchestrator, statements)
  const byKey = claimsByKey(statements)
  if (byKey) return merged(orchestrator, byKey, answers, evidence)
  const found = judge !== undefined && (await judged(orchestrator, judge, query, statements))
  if (found) return joined(orchestrator, judge, query, answers, found, evidence)
  const claims: Claim[] = []
  for (const statement of statements) add(claims, statedIn(statement), statement.agent)
  const { agents } = settle(orchestrator, { about: 'the answer', claims }, evidence)
  return resultOf(answers.find(({ agent }) => agents.includes(agent)) ?? answers[0])
}

/** Returns the claim that wins a contradiction by its evidence, and adds the decision to the trace. */
export function settle(orchestrator: OrchestratorContext, { about, claims }: Contradiction, evidence: Evidence): Claim {
  const top = Math.max(...claims.map((claim) => evidence(claim).weight))
  const strongest = claims.filter((claim) => evidence(claim).weight >= top - TOLERANCE)
  const { claim, tied } = voted(orchestrator, strongest)
  const from = claim.agents.join(', ')
  const { weight, keys } = evidence(claim)
  const most = tied ? 'a tie: the first of those with the most votes' : 'the most votes'
  const reason =
    strongest.length === 1
      ? `The most evidence: ${weight} (${keys.join(', ')}), from ${from}.`
      : `The evidence is level (${weight}): ${most}, from ${from}.`
  orchestrator.decide(`They contradict each other about ${about}: what holds?`, valueAsText(claim.value), reason)
  return claim
}

export function voted(orchestrator: OrchestratorContext, claims: readonly Claim[]) {
  const ballots = claims.flatMap(({ value, agents }) => agents.map((agent) => ({ agent, value })))
  const { winner, tied } = orchestrator.vote(ballots)
  return { claim: claims.find(({ value }) => isSame(value, winner)) ?? claims[0]!, tied }
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
  const options = { structuredData: { ...asData(answers), decided } }
  const merged = asText(answers)
  const instead = list.length === 0 ? merged : `${merged}\n\n## Contradictions\n\n${list.join('\n')}`
  return combinedBy(orchestrator, judge, speaking(CONFLICT)('join', values), options, instead)
}

const say = speaking(JUDGE)

/** Returns the answer that the judge finds best. Throws `ReplyInvalidError` if it names no agent, or several. */
export async function pickBest(
  orchestrator: OrchestratorContext,
  judge: string,
  query: string,
  answers: readonly Answered[],
): Promise<Answered> {
  const names = answers.map(({ agent }) => agent)
  const content = say('best', { names: names.join(', '), query, answers: asText(answers) })
  const reply = await orchestrator.request(judge, content, { structuredData: asData(answers) })
  const best = named(reply, names)
  const chosen = answers.find(({ agent }) => agent === best)
  if (chosen) return chosen
  const accepted = `one of ${names.join(', ')}, in structuredData.best or as the only such name in its words`
  const message = `The judge "${judge}" did not choose: it has to name ${accepted}.`
  throw new ReplyInvalidError(message, { agent: judge, content: reply.content, accepted: names })
}

/** Returns the judge's own answer, made from answers that differ; `joined` if the judge fails. */
export async function synthesize(
  orchestrator: OrchestratorContext,
  judge: string,
  query: string,
  answers: readonly Answered[],
  joined: string,
): Promise<Result> {
  const content = say('synthesize', { query, answers: asText(answers) })
  return combinedBy(orchestrator, judge, content, { structuredData: asData(answers) }, joined)
}

function named({ content, structuredData }: AgentMessage, names: readonly string[]): unknown {
  if (typeof structuredData === 'object' && structuredData !== null && 'best' in structuredData)
    return structuredData.best
  const words = new Set<string>(content.match(/[\p{L}\p{M}\p{Nd}_-]+/gu)) // the characters that a name may have
  const found = names.filter((name) => words.has(name))
  return found.length === 1 ? found[0] : undefined
}

export type ConflictRule = 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'

/**
 * Way to resolve a conflict: by the votes, by the highest priority, by evidence (the judge, if there is one, says what
 * texts contradict each other about), by one answer of the judge, or not at all: the run fails.
 */
export type Resolution =
  | { rule: Exclude<ConflictRule, 'synthesize'>; judge?: string | undefined }
  | { rule: 'synthesize'; judge: string }

const QUESTION = 'The answers differ: which one counts?'

/** Returns the answer that counts. Throws `ConsensusError` for answers that differ, under the rule 'fail'. */
export async function resolveConflict(
  orchestrator: OrchestratorContext,
  query: string,
  answers: readonly [Answered, ...Answered[]],
  how: Resolution,
): Promise<Result> {
  const [first] = answers
  if (areSame(answers.map(claimOf))) return resultOf(first)
  switch (how.rule) {
    case 'vote':
      return resultOf(elect(orchestrator, answers, (answer) => ({ agent: answer.agent, value: claimOf(answer) })))
    case 'priority': {
      const highest = Math.max(...answers.map(({ agent }) => priorityOf(orchestrator, agent)))
      const chosen = answers.find(({ agent }) => priorityOf(orchestrator, agent) === highest) ?? first
      orchestrator.decide(QUESTION, chosen.agent, `The highest priority, ${highest}.`)
      return resultOf(chosen)
    }
    case 'fail': {
      orchestrator.decide(QUESTION, 'none', 'conflictResolution is "fail".')
      const names = answers.map(({ agent }) => `"${agent}"`).join(', ')
      const details = { answers: answers.map((answer) => ({ agent: answer.agent, value: claimOf(answer) })) }
      const message = `The answers of ${names} differ, and conflictResolution is "fail". They are in details.answers.`
      throw new ConsensusError(message, details)
    }
    case 'evidence':
      return byEvidence(orchestrator, query, answers, how.judge)
    case 'synthesize': {
      const byKey = claimsByKey(answers.map(statementOf)) ?? []
      const contested = [...byKey].flatMap(([key, claims]) => (claims.length > 1 ? [key] : []))
      const about = contested.length > 0 ? ` They contradict each other about ${contested.join(', ')}.` : ''
      orchestrator.decide(QUESTION, how.judge, `It makes one answer of them.${about}`)
      return synthesize(orchestrator, how.judge, query, answers, asText(answers))
    }
  }
}

/** Returns the first candidate whose value has the most votes. The trace says so if the values differ. */
export function elect<T>(
  orchestrator: OrchestratorContext,
  candidates: readonly [T, ...T[]],
  ballotOf: (candidate: T) => { agent: string; value: unknown },
): T {
  const ballots = candidates.map(ballotOf)
  if (areSame(ballots.map(({ value }) => value))) return candidates[0]
  const { winner, tied } = orchestrator.vote(ballots)
  const backs = ({ value }: { value: unknown }) => canonical(value) === canonical(winner)
  const most = tied ? 'A tie: the first seen of those with the most votes' : 'The most votes'
  const backers = ballots.filter(backs).map(({ agent }) => agent)
  orchestrator.decide(QUESTION, valueAsText(winner), `${most}, from ${backers.join(', ')}.`)
  return candidates[ballots.findIndex(backs)] ?? candidates[0]
}

const areSame = (values: readonly unknown[]): boolean => new Set(values.map(canonical)).size <= 1
