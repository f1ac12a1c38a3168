/**
 * Bids of an auction. All bidders are asked at once, each has one chance, and a bid is weighed with the bidder's
 * declared capabilities and its load. Source: document 002, 2.2.1 and 2.5.1.
 */
import { CancelledError, DramatisError, describe } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { OrchestratorContext } from '../definition/context/context.ts'
import type { Candidate } from '../definition/routing.ts'
import { withAnswerSchema } from '../model/answer-schema.ts'
import { jsonIn } from '../model/structured-output.ts'

/** Rules of an auction: the value of a bid, and its time limit. */
export interface AuctionTerms {
  /** Time limit of a bid in ms, from when the bids are asked for, however busy a bidder is. */
  bidTimeoutMs: number
  /** Smallest accepted bid, from 0 to 1; a lower one counts as no bid. */
  minimumBid: number
  /** Weights of the declared fit, of a low load, and of the agent's own bid. */
  weights: { capability: number; load: number; confidence: number }
  /** Order of bids with equal scores. */
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

type Asking = Pick<OrchestratorContext, 'agents' | 'decide' | 'request' | 'sleep'>

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
  return { bids: ranked(bids, orchestrator.agents, terms.tieBreak), none }
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

function ranked(bids: readonly Bid[], team: Asking['agents'], tieBreak: AuctionTerms['tieBreak']): Bid[] {
  const priorityOf = ({ agent }: Bid) => team.find(({ name }) => name === agent)?.priority ?? 0
  const ties = {
    priority: (one: Bid, other: Bid) => priorityOf(other) - priorityOf(one),
    least_loaded: (one: Bid, other: Bid) => one.load - other.load,
    first: () => 0,
  }
  return [...bids].sort((one, other) => other.score - one.score || ties[tieBreak](one, other))
}

/** Returns the reason why the first of the bids wins. */
export function reasonFor([best, next]: readonly Bid[], tieBreak: AuctionTerms['tieBreak']): string {
  if (!best) return 'Nobody bids.'
  if (best.score !== next?.score) return `The best bid, ${best.score}.`
  return `A tie with "${next.agent}" at ${best.score}, broken by ${tieBreak}.`
}
