/** Strategy `auction`: agents bid for the task, and the best bid gets it. */

import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { Candidate } from '../actors/definition/task.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import {
  AUCTION_TERMS,
  type AuctionTerms,
  BID_WANTED,
  type Bid,
  bidsFor,
  type NoBid,
  reasonFor,
} from '../actors/model/decisions.ts'
import { LAST_SPEAKER, outputSchema } from '../actors/model/last-speaker.ts'
import { abilityText } from '../actors/model/prompt.ts'
import { integer, number, oneOf, refused, shape, wait } from '../shared/checks.ts'
import { AgentFailedError, DramatisError, UnknownAgentError } from '../shared/errors.ts'
import { askFor, outcomeOf } from './asking.ts'
import { resultOf } from './positions.ts'
import { promptsOf, type Speak, speaking, withSections } from './prompts.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, choosing, namesIn, type Strategy } from './strategy.ts'

const AUCTION = {
  bid: BID_WANTED,
  choose: withSections(
    `Agents bid for the task below. Choose the one that gets it: answer with JSON alone,
{"winner": its name, "reason": one sentence}.`,
    { Task: '{query}', 'Bids, best first': '{bids}' },
  ),
} as const

/**
 * Agents bid for the query. The best bid gets the query, and the answer of that agent is the run's answer.
 *
 * A bid is a number from 0 to 1. It is in `structuredData` (`{ bid, reason? }`, or the number alone), or as JSON in the
 * content of the answer. Code agents recognize the question by `message.metadata.bidFor`, which is the query. The score
 * of a bid also counts how well the agent's declared capabilities fit the query, and the agent's load. Each bid, each
 * missing bid with its reason, and the award are decisions in the trace.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'auction', minimumBid: 0.3, onNoBids: 'assign_least_loaded' } })
 */
export interface AuctionConfig<N extends AgentName = AnyAgent> {
  strategy: 'auction'
  /**
   * Agents that may bid. Default: all agents except the auctioneer. Agents that are stopped, take no tasks
   * (`canBeDelegatedTo`) or have left the team are not asked.
   */
  bidders?: readonly N[]
  /**
   * Agent that chooses among the accepted bids (`message.metadata.bids`), if there are several. It answers by
   * `structuredData.winner` or by JSON in its content. If it names none of their agents, or fails, the best bid wins.
   * It may not bid itself. Default: no auctioneer, the best bid wins.
   */
  auctioneer?: N
  /** Time limit for bids in ms, from when they are asked for. Default: 120,000. */
  bidTimeoutMs?: number
  /** Smallest accepted bid, from 0 to 1; a lower one counts as no bid. Default: 0. */
  minimumBid?: number
  /**
   * Weights of the parts of a bid's score. Default: 1 for each.
   *
   * - `capability`: the fit of the capabilities that the agent declares (its `confidence`, or 0 if the query names
   *   none).
   * - `load`: 1 for nothing to do, 1/2 for one message, 1/3 for two.
   * - `confidence`: the number that the agent bids.
   */
  weights?: { capability?: number; load?: number; confidence?: number }
  /**
   * Order of bids with equal scores. 'priority' (the default): the role's `priority`, then as 'least_loaded'.
   * 'least_loaded': the agent with the least to do, with what it was given at the same moment. 'first': the agent
   * asked first.
   */
  tieBreak?: 'priority' | 'least_loaded' | 'first'
  /** Number of further auctions, each without the winners that failed, crashed or refused. Default: 2. */
  maxReauctions?: number
  /**
   * Result of an auction without bids. 'fail' (the default): the run fails. 'assign_least_loaded': the agent with the
   * least to do gets the task.
   */
  onNoBids?: 'fail' | 'assign_least_loaded'
  /** Your own texts instead of `bid` (with `{query}`) and `choose` (with `{query}` and `{bids}`). */
  prompts?: Partial<Record<string, string>>
}

const CANNOT = 'stopped, without the tokens for it, not to be given tasks (canBeDelegatedTo), or no more in the team'
const AWARD = 'Who gets the task?'

export const auction: Strategy<AuctionConfig> = {
  strategy: 'auction',
  protocol(config, team) {
    check(config, team)
    const { auctioneer, maxReauctions = 2, onNoBids = 'fail' } = config
    const terms: AuctionTerms = {
      bidTimeoutMs: config.bidTimeoutMs ?? AUCTION_TERMS.bidTimeoutMs,
      minimumBid: config.minimumBid ?? AUCTION_TERMS.minimumBid,
      weights: weightsOf(config.weights),
      tieBreak: config.tieBreak ?? AUCTION_TERMS.tieBreak,
    }
    const say = speaking(AUCTION, config.prompts)
    const choose = choosing(config.bidders, auctioneer)
    return {
      name: 'auction',
      async run(orchestrator, query) {
        let bidders = choose(namesIn(orchestrator))
        if (bidders.length === 0) throw new UnknownAgentError('The team has no agent to bid. Add one with addAgent().')
        for (let failed = 0; ; ) {
          const asked = await ableOf(orchestrator, query, bidders)
          const { bids, none } = await bidsFor(orchestrator, query, say('bid', { query }), asked, terms)
          const choice = await chosen(orchestrator, auctioneer, query, bids, terms.tieBreak, say)
          const winner = choice ?? (onNoBids === 'fail' ? undefined : await idlest(orchestrator, query, bidders))
          if (winner === undefined) throw nobodyBids(orchestrator, bidders, asked, none)
          const asLast = { metadata: LAST_SPEAKER } // not streamed: if it fails halfway, another agent answers
          const outcome = await outcomeOf(winner, () => orchestrator.request(winner, query, asLast))
          if (outcome.ok) return resultOf(outcome)
          orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
          bidders = bidders.filter((name) => name !== winner)
          const isLast = failed++ >= maxReauctions || bidders.length === 0
          const why = `"${winner}" failed: ${outcome.error.code}: ${outcome.error.message}`
          orchestrator.decide('Is there another auction?', isLast ? 'no' : 'yes', why)
          if (isLast) throw outcome.error
        }
      },
    }
  },
}

/** Returns the bidders that can get the task now. Names of agents that have left are unknown to the team. */
async function ableOf(
  orchestrator: OrchestratorContext,
  query: string,
  bidders: readonly string[],
): Promise<Candidate[]> {
  const able = new Map((await orchestrator.candidates(query)).map((one) => [one.agent, one]))
  return bidders.flatMap((name) => able.get(name) ?? [])
}

async function chosen(
  orchestrator: OrchestratorContext,
  auctioneer: string | undefined,
  query: string,
  bids: readonly Bid[],
  tieBreak: AuctionTerms['tieBreak'],
  say: Speak<keyof typeof AUCTION>,
): Promise<string | undefined> {
  const [best] = bids
  if (!best) return undefined
  const byBid = reasonFor(bids, tieBreak)
  if (auctioneer === undefined || bids.length === 1) {
    orchestrator.decide(AWARD, best.agent, byBid)
    return best.agent
  }
  const content = say('choose', { query, bids: asText(orchestrator, bids) })
  try {
    const { value } = await askFor(orchestrator, auctioneer, content, choiceOf(bids), { metadata: { bids } })
    const { winner, reason } = Object(value) as { winner: string; reason?: unknown }
    const why = typeof reason === 'string' ? ` ${reason}` : ''
    orchestrator.decide(AWARD, winner, `The auctioneer "${auctioneer}" chose it.${why}`)
    return winner
  } catch (error) {
    if (!(error instanceof DramatisError)) throw error
    const why = `The auctioneer "${auctioneer}" chose nobody: ${error.code}: ${error.message}`
    orchestrator.decide(AWARD, best.agent, `${byBid} ${why}`)
    return best.agent
  }
}

/** Returns the schema of an auctioneer's answer, without a library: that is too much for every team to load. */
function choiceOf(bids: readonly Bid[]): ModelSchema {
  const names = bids.map(({ agent }) => agent)
  const properties = { winner: { type: 'string', enum: names }, reason: { type: 'string' } }
  const json = { type: 'object', properties, required: ['winner', 'reason'], additionalProperties: false }
  return outputSchema(json, async (value) =>
    names.includes(Object(value).winner) ? null : `winner has to be one of ${names.join(', ')}`,
  )
}

/** Returns the bids as text for the auctioneer, with the capabilities that their agents declare. */
function asText({ agents }: OrchestratorContext, bids: readonly Bid[]): string {
  const lines = bids.map(({ agent, bid, fit, load, score, reason }) => {
    const can = (agents.find(({ name }) => name === agent)?.capabilities ?? []).map(abilityText)
    const words = [`bids ${bid}`, `fit ${fit}`, `load ${load}`, `score ${score}`]
    return `- ${agent}: ${words.join(', ')}. ${can.length > 0 ? `Can: ${can.join(', ')}. ` : ''}${reason}`.trimEnd()
  })
  return lines.join('\n')
}

async function idlest(
  orchestrator: OrchestratorContext,
  query: string,
  bidders: readonly string[],
): Promise<string | undefined> {
  const able = await ableOf(orchestrator, query, bidders)
  const load = Math.min(...able.map((one) => one.load))
  const found = able.find((one) => one.load === load)?.agent
  if (found !== undefined) orchestrator.decide(AWARD, found, `Nobody bids; it has the least to do (onNoBids).`)
  return found
}

function nobodyBids(
  orchestrator: OrchestratorContext,
  bidders: readonly string[],
  asked: readonly Candidate[],
  none: readonly NoBid[],
) {
  orchestrator.decide(AWARD, 'nobody', 'Nobody bids.')
  const notAsked = bidders.filter((name) => !asked.some(({ agent }) => agent === name))
  const list = none.map(({ agent, why }) => ` "${agent}": ${why}`).join('')
  const others = notAsked.length > 0 ? ` Not asked: ${notAsked.join(', ')} (${CANNOT}).` : ''
  const advice = asked.length > 0 ? 'Ask others (bidders), lower minimumBid, or set onNoBids.' : 'Ask others (bidders).'
  const message = `Nobody of ${bidders.join(', ')} bids for the task.${list}${others} ${advice}`
  return new AgentFailedError(message, { bidders, none, notAsked })
}

function weightsOf({ capability, load, confidence }: NonNullable<AuctionConfig['weights']> = {}) {
  const { weights } = AUCTION_TERMS
  return {
    capability: capability ?? weights.capability,
    load: load ?? weights.load,
    confidence: confidence ?? weights.confidence,
  }
}

function check(config: AuctionConfig, team: readonly string[]): void {
  const weight = number(0, 2 ** 31 - 1)
  shape<AuctionConfig>({
    strategy: oneOf('auction'),
    bidders: agentsOf(team),
    auctioneer: agentOf(team),
    bidTimeoutMs: wait(),
    minimumBid: number(0, 1),
    weights: shape<NonNullable<AuctionConfig['weights']>>({ capability: weight, load: weight, confidence: weight }),
    tieBreak: oneOf('priority', 'least_loaded', 'first'),
    maxReauctions: integer(0),
    onNoBids: oneOf('fail', 'assign_least_loaded'),
    prompts: promptsOf(AUCTION),
  })(config, 'orchestration')
  const { auctioneer, bidders, weights } = config
  const wrong = (key: keyof AuctionConfig, accepted: string, advice?: string) =>
    refused(`orchestration.${key}`, config[key], accepted, advice)
  if (auctioneer !== undefined && bidders?.includes(auctioneer))
    throw wrong('auctioneer', 'an agent that is not among bidders', 'Nobody judges its own bid.')
  if (Object.values(weightsOf(weights)).every((one) => one === 0)) throw wrong('weights', 'at least one weight above 0')
  if (bidders === undefined && team.every((name) => name === auctioneer))
    throw wrong('bidders', 'a list of at least one agent', 'The team has no agent but the auctioneer.')
}
