/**
 * Decisions that agents are asked for: bids in an auction, ballots of a vote, and what is to become of an escalation.
 * For a model the last are tools; without one of them its answer is guidance, as that of any manager. The agent that
 * has escalated carries the decision out (`delegate.ts`).
 */

import { type AgentMessage, jsonIssue } from '../../mailbox/message.ts'
import { CancelledError, ConsensusError, DramatisError, describe, ToolInputError } from '../../shared/errors.ts'
import { canonical, own } from '../../shared/values.ts'
import type { OrchestratorContext } from '../definition/context.ts'
import type { RoleInfo } from '../definition/role.ts'
import type { Candidate } from '../definition/task.ts'
import type { Colleague } from './prompt.ts'
import { jsonIn, withAnswerSchema } from './structured-output.ts'
import { AGENT, ALONE, tool, type VerbTool } from './verb-tools.ts'

/*
 * Bids of an auction. All bidders are asked at once, each has one chance, and a bid is weighed with the bidder's
 * declared capabilities and its load.
 */

/** Rules of an auction: the value of a bid, and its time limit. */
export interface AuctionTerms {
  /** Time limit of a bid in ms, from when the bids are asked for, however busy a bidder is. */
  bidTimeoutMs: number
  /** Smallest accepted bid, from 0 to 1; a lower one counts as no bid. */
  minimumBid: number
  /** Weights of the declared fit, of a low load, and of the agent's own bid. */
  weights: { capability: number; load: number; confidence: number }
  /** Order of bids with equal scores. By 'priority': of equal ones the least loaded. */
  tieBreak: 'priority' | 'least_loaded' | 'first'
}

export const AUCTION_TERMS: AuctionTerms = {
  bidTimeoutMs: 120_000,
  minimumBid: 0,
  weights: { capability: 1, load: 1, confidence: 1 },
  tieBreak: 'priority',
}

/** Prompt to a bidder. */
export const BID_WANTED = `How well can you do the task below? Do not do it now: bid for it. Answer with JSON alone,
{"bid": a number from 0 (not at all) to 1 (certainly), "reason": one sentence}.

# Task

{query}`

/** An accepted bid. `bid` is the agent's own figure, `score` its value with fit and load; both from 0 to 1. */
export interface Bid extends Candidate {
  bid: number
  score: number
  reason: string
}

/** A bidder without a bid, and the reason. */
export interface NoBid {
  agent: string
  why: string
}

const ANSWER = withAnswerSchema({
  type: 'object',
  properties: { bid: { type: 'number', minimum: 0, maximum: 1 }, reason: { type: 'string' } },
  required: ['bid', 'reason'],
  additionalProperties: false,
})

type Asking = Pick<OrchestratorContext, 'agents' | 'decide' | 'request' | 'route' | 'sleep'>

/**
 * Returns the accepted bids, best first. Each bid, and each missing one, is a decision in the trace. `content`: the
 * request to the bidders.
 */
export async function bidsFor(
  orchestrator: Asking,
  task: string,
  content: string,
  bidders: readonly Candidate[],
  terms: AuctionTerms,
): Promise<{ bids: Bid[]; none: NoBid[] }> {
  if (bidders.length === 0) return { bids: [], none: [] }
  const given = await asked(orchestrator, task, content, bidders, terms.bidTimeoutMs)
  const bids: Bid[] = []
  const none: NoBid[] = []
  for (const [at, said] of given.entries()) {
    const bidder = bidders[at]!
    const { agent, fit, load } = bidder
    const read = typeof said === 'string' ? said : readBid(said, agent, terms.minimumBid)
    const question = `What does "${agent}" bid?`
    if (typeof read === 'string') {
      none.push({ agent, why: read })
      orchestrator.decide(question, 'no bid', read)
      continue
    }
    const score = scoreOf(bidder, read.bid, terms.weights)
    bids.push({ ...bidder, ...read, score })
    const reason = `Fit ${fit}, load ${load}, score ${score}. ${read.reason}`
    orchestrator.decide(question, String(read.bid), reason.trimEnd())
  }
  return { bids: await ranked(orchestrator, task, bids, terms.tieBreak), none }
}

/** Returns each bidder's answer, or the reason why there is none. */
async function asked(
  orchestrator: Asking,
  task: string,
  content: string,
  bidders: readonly Candidate[],
  bidTimeoutMs: number,
): Promise<(AgentMessage | string)[]> {
  const closing = new AbortController()
  const { signal } = closing
  const bid = async ({ agent }: Candidate): Promise<AgentMessage | string> => {
    try {
      const options = { metadata: { ...ANSWER, bidFor: task }, signal }
      return await orchestrator.request(agent, content, options)
    } catch (error) {
      if (signal.aborted) return `It did not bid within ${bidTimeoutMs} ms.`
      const why = error instanceof DramatisError ? `${error.code}: ${error.message}` : describe(error)
      return `It failed: ${why}${/[.!?]$/.test(why) ? '' : '.'}` // one of several sentences
    }
  }
  const all = Promise.all(bidders.map(bid))
  const late = orchestrator.sleep(bidTimeoutMs).then(() => closing.abort(new CancelledError('The auction is closed.')))
  await Promise.race([all, late])
  return all
}

/** Returns the bid in an answer, or the reason why it has none. */
function readBid(
  { sender, content, structuredData }: AgentMessage,
  agent: string,
  minimumBid: number,
): Pick<Bid, 'bid' | 'reason'> | string {
  if (sender !== agent) return `"${sender}" answered, which was not asked.`
  const value: unknown = structuredData ?? jsonIn(content)?.value
  const { bid, reason }: { bid?: unknown; reason?: unknown } =
    typeof value === 'number' ? { bid: value } : Object(value)
  if (typeof bid !== 'number') return 'Its answer has no number in bid.'
  if (!(bid >= 0 && bid <= 1)) return `It bids ${bid}; a bid is from 0 to 1.`
  if (bid < minimumBid) return `It bids ${bid}, and minimumBid is ${minimumBid}.`
  return { bid, reason: typeof reason === 'string' ? reason : '' }
}

const PRECISION = 1e9 // the difference between 0.1 + 0.2 and 0.3 must not decide an auction

function scoreOf({ fit, load }: Candidate, bid: number, weights: AuctionTerms['weights']): number {
  const { capability, load: ofLoad, confidence } = weights
  const score = (capability * fit + ofLoad / (1 + load) + confidence * bid) / (capability + ofLoad + confidence)
  return Math.round(score * PRECISION) / PRECISION
}

/**
 * Returns the bids, best first. Between bids that are still equal the router decides, which knows who was chosen at
 * this moment: else the same agent would get all that is put up for auction at once.
 */
async function ranked(
  orchestrator: Asking,
  task: string,
  bids: readonly Bid[],
  tieBreak: AuctionTerms['tieBreak'],
): Promise<Bid[]> {
  const { agents } = orchestrator
  const priorityOf = ({ agent }: Bid) => agents.find(({ name }) => name === agent)?.priority ?? 0
  const ties = {
    priority: (one: Bid, other: Bid) => priorityOf(other) - priorityOf(one),
    least_loaded: (one: Bid, other: Bid) => one.load - other.load,
    first: () => 0,
  }
  const order = (one: Bid, other: Bid) => other.score - one.score || ties[tieBreak](one, other)
  const sorted = [...bids].sort(order)
  const equal = sorted.filter((one) => order(one, sorted[0]!) === 0)
  if (tieBreak === 'first' || equal.length < 2) return sorted
  const found = await orchestrator.route(task, { by: 'load_balance', among: equal.map(({ agent }) => agent) })
  const winner = equal.find(({ agent }) => agent === found) ?? equal[0]!
  return [winner, ...sorted.filter((one) => one !== winner)]
}

/** Returns the reason why the first of the bids wins. */
export function reasonFor([best, next]: readonly Bid[], tieBreak: AuctionTerms['tieBreak']): string {
  if (!best) return 'Nobody bids.'
  if (best.score !== next?.score) return `The best bid, ${best.score}.`
  const by = tieBreak === 'priority' ? 'priority, then by load' : tieBreak
  return `A tie with "${next.agent}" at ${best.score}, broken by ${by}.`
}

/*
 * Counts votes: weighted, or by majority if a voter has no usable weight. Values are compared by structure, so two
 * agents that answer the same object with its keys in another order agree.
 */

export interface Ballot<T = unknown> {
  agent: string
  value: T
}

/**
 * Result of a vote. `scores` has one entry for each value: a string is its own key, any other value is written as JSON
 * with sorted keys.
 */
export interface Verdict<T = unknown> {
  winner: T
  scores: Record<string, number>
  tied: boolean
}

/** Tolerance for equal scores: the difference between 0.1 + 0.2 and 0.3 must not decide a vote. */
const TOLERANCE = 1e-9

/**
 * Returns the value with the highest score. On a tie the first value wins, and `tied` is true.
 *
 * @param weights the voters' weights by name: absent or undefined counts 1. A weight that is null or not finite turns
 * the whole vote into a majority vote, in which every ballot counts 1.
 * @throws {ConsensusError} when there is no ballot, or a value is not JSON.
 *
 * @example
 * vote([{ agent: 'x', value: 'go' }, { agent: 'y', value: 'wait' }], { x: 2 })
 * // winner 'go', scores { go: 2, wait: 1 }
 */
export function vote<T>(ballots: readonly Ballot<T>[], weights: Record<string, number | null | undefined>): Verdict<T> {
  const byWeight = ballots.every(({ agent }) => Number.isFinite(weightOf(agent, weights)))
  const tallies = new Map<string, { value: T; score: number }>()
  for (const [at, { agent, value }] of ballots.entries()) {
    const issue = jsonIssue(value, `ballots[${at}].value`)
    if (issue)
      throw new ConsensusError(`${issue.path} is ${issue.got}, and votes are counted over JSON values alone.`, {
        agent,
        path: issue.path,
      })
    const key = canonical(value)
    const tally = tallies.get(key) ?? { value, score: 0 }
    tally.score += byWeight ? (weightOf(agent, weights) ?? 1) : 1
    tallies.set(key, tally)
  }

  const all = [...tallies.values()]
  const top = all.reduce((highest, { score }) => Math.max(highest, score), Number.NEGATIVE_INFINITY)
  const leaders = all.filter(({ score }) => isLevel(score, top))
  const [first] = leaders
  if (!first)
    throw new ConsensusError('Nobody voted: there is no ballot to count. Give vote() at least one.', { ballots: 0 })

  // A string is its own label, unless its text is that of another value: then '1' next to 1 is quoted.
  const label = (key: string, value: T) => (typeof value === 'string' && !tallies.has(value) ? value : key)
  const scores = Object.fromEntries([...tallies].map(([key, { value, score }]) => [label(key, value), score]))
  return { winner: first.value, scores, tied: leaders.length > 1 }
}

function weightOf(agent: string, weights: Record<string, number | null | undefined>): number | null {
  const weight = own(weights, agent)
  return weight === undefined ? 1 : weight
}

function isLevel(score: number, top: number): boolean {
  return score === top || Math.abs(score - top) <= TOLERANCE * Math.max(Math.abs(score), Math.abs(top))
}

const NOTE = { type: 'string' } as const
const DONE = 'You are done then. To give advice, answer in words and call none of these.'

/** Checks for an escalation: a message on which a manager decides. */
export const isEscalation = ({ metadata: { escalation } }: AgentMessage): boolean =>
  typeof escalation === 'object' && escalation !== null

/** Returns the decisions that the model has in a turn for that message: none unless it is an escalation. */
export function decisionsOn(
  message: AgentMessage,
  { escalateTo }: RoleInfo,
  colleagues: readonly Colleague[],
): VerbTool[] {
  if (!isEscalation(message)) return []
  const { from } = message.metadata.escalation as { from?: unknown }
  const others = colleagues.map(({ name }) => name).filter((name) => name !== from)
  return [
    ...(others.length > 0 ? [reassign(others)] : []),
    takeOver,
    ...(escalateTo === undefined ? [] : [escalateFurther]),
  ]
}

const reassign = (others: readonly string[]): VerbTool =>
  tool(
    'reassign',
    `Decides on the escalation: gives the task, as it is, to another agent, whose answer is its result. ${DONE}`,
    { to: AGENT, guidance: { ...NOTE, description: 'Advice for that agent.' } },
    ['to'],
    async (_turn, { to, guidance = '' }) => {
      if (others.includes(String(to))) return { ends: String(guidance), data: { decision: 'reassign', to } }
      throw new ToolInputError(`"to" is ${JSON.stringify(to)}; you may give the task to: ${others.join(', ')}.`, { to })
    },
    ALONE,
  )

const takeOver = tool(
  'take_over',
  `Decides on the escalation: you have done the task yourself, and this is its result. ${DONE}`,
  { result: { ...NOTE, description: 'The answer to the task.' } },
  ['result'],
  async (_turn, { result }) => ({ ends: String(result), data: { decision: 'take_over' } }),
  ALONE,
)

const escalateFurther = tool(
  'escalate',
  `Decides on the escalation: passes it on to your own manager, who decides in your place. ${DONE}`,
  { reason: { ...NOTE, description: 'Why you cannot decide.' } },
  [],
  async (_turn, { reason = '' }) => ({ ends: String(reason), data: { decision: 'escalate' } }),
  ALONE,
)
