/** Agents bid for the task, and the best bid gets it. Source: document 002, 2.2.1; requirement P8. */
import {
  AUCTION_TERMS,
  type AuctionTerms,
  type Bid,
  bidsFor,
  type NoBid,
  reasonFor,
} from '../actors/decisions/auction.ts'
import type { OrchestratorContext } from '../actors/definition/context/context.ts'
import type { Candidate } from '../actors/definition/routing.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { LAST_SPEAKER, outputSchema } from '../actors/model/last-speaker.ts'
import { abilityText } from '../actors/model/prompt.ts'
import { AgentFailedError, DramatisError, UnknownAgentError } from '../errors.ts'
import { integer, number, oneOf, shape, wait } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import { agentOf, agentsOf } from './checks.ts'
import { AUCTION } from './prompts/auction.ts'
import { promptsOf, type Speak, speaking } from './prompts/prompts.ts'
import { outcomeOf } from './steps/ask-enough.ts'
import { askFor } from './steps/ask-for.ts'
import { resultOf } from './steps/outputs.ts'
import type { Strategy } from './strategy.ts'

/**
 * Agents bid for the query, the best bid gets it, and its answer is the run's. A bid is a number from 0 to 1, in `structuredData`
 * (`{ bid, reason? }`, or alone) or as JSON in the words of the answer; agents of code know the question by
 * `message.metadata.bidFor`, which is the query. It is weighed with how well the agent's declared capabilities fit the query and
 * with how much it has to do. Each bid, what is none and why, and who gets the task are decisions in the trace. Source:
 * document 002, 2.2.1.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'auction', minimumBid: 0.3, onNoBids: 'assign_least_loaded' } })
 */
export interface AuctionConfig<N extends string = string> {
  strategy: 'auction'
  /**
   * Who may bid; all agents but the auctioneer. Those that are stopped, take no tasks (`canBeDelegatedTo`) or have left the team
   * are not asked.
   */
  bidders?: N[]
  /**
   * Chooses among the bids that count (`message.metadata.bids`), where there are several, by `structuredData.winner` or JSON in
   * its words. Where it names none of their agents, or fails, the best bid wins. It may not bid itself. Nobody: the best bid
   * wins.
   */
  auctioneer?: N
  /** How long bids are waited for, in ms, from when they are asked for; 30,000. */
  bidTimeoutMs?: number
  /** From 0 to 1; a lower bid is none. 0. */
  minimumBid?: number
  /**
   * What a bid is weighed by, each 1 where it is left out: the fit of the capabilities that the agent declares (its
   * `confidence`, or 0 where the query names none), its load (1 for nothing to do, 1/2 for one message, 1/3 for two), and
   * the number that it bids.
   */
  weights?: { capability?: number; load?: number; confidence?: number }
  /** Which of several bids that weigh the same wins: the role's `priority` (the default), who has the least to do, the first asked. */
  tieBreak?: 'priority' | 'least_loaded' | 'first'
  /** How often there is another auction without a winner that failed, crashed or refused; 2. */
  maxReauctions?: number
  /** When nobody bids: the run fails (the default), or the agent with the least to do gets the task. */
  onNoBids?: 'fail' | 'assign_least_loaded'
  /** Texts of your own in place of `bid` (with `{query}`) and `choose` (`{query}`, `{bids}`). */
  prompts?: Partial<Record<string, string>>
}

const CANNOT = 'stopped, without the tokens for it, not to be given tasks (canBeDelegatedTo), or no more in the team'
const AWARD = 'Who gets the task?'

/** Asks for bids, gives the task to the winner, and to the next one where that fails. */
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
    const listed = config.bidders && [...config.bidders]
    return {
      name: 'auction',
      async run(orchestrator, query) {
        let bidders = listed ?? orchestrator.agents.map(({ name }) => name).filter((name) => name !== auctioneer)
        if (bidders.length === 0) throw new UnknownAgentError('The team has no agent to bid. Add one with addAgent().')
        for (let failed = 0; ; ) {
          const asked = await ableOf(orchestrator, query, bidders)
          const { bids, none } = await bidsFor(orchestrator, query, say('bid', { query }), asked, terms)
          const choice = await chosen(orchestrator, auctioneer, query, bids, terms.tieBreak, say)
          const winner = choice ?? (onNoBids === 'fail' ? undefined : await idlest(orchestrator, query, bidders))
          if (winner === undefined) throw nobodyBids(orchestrator, bidders, asked, none)
          const asLast = { metadata: LAST_SPEAKER } // as a whole: where it fails in the middle another one answers
          const outcome = await outcomeOf(winner, () => orchestrator.request(winner, query, asLast))
          if (outcome.ok) return resultOf(outcome)
          orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
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

/** Those that can get it now, in their order. It is not asked for by name: who has left the team is nobody's name. */
async function ableOf(
  orchestrator: OrchestratorContext,
  query: string,
  bidders: readonly string[],
): Promise<Candidate[]> {
  const able = new Map((await orchestrator.candidates(query)).map((one) => [one.agent, one]))
  return bidders.flatMap((name) => able.get(name) ?? [])
}

/** Who wins: as the auctioneer says, else the best bid. */
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

/** The shape of an auctioneer's answer. It is written out, since a library for schemas is much to load for every team. */
function choiceOf(bids: readonly Bid[]): ModelSchema {
  const names = bids.map(({ agent }) => agent)
  const properties = { winner: { type: 'string', enum: names }, reason: { type: 'string' } }
  const json = { type: 'object', properties, required: ['winner', 'reason'], additionalProperties: false }
  return outputSchema(json, async (value) =>
    names.includes(Object(value).winner) ? null : `winner has to be one of ${names.join(', ')}`,
  )
}

/** The bids as an auctioneer reads them, with what their agents declare. */
function asText({ agents }: OrchestratorContext, bids: readonly Bid[]): string {
  const lines = bids.map(({ agent, bid, fit, load, score, reason }) => {
    const can = (agents.find(({ name }) => name === agent)?.capabilities ?? []).map(abilityText)
    const words = [`bids ${bid}`, `fit ${fit}`, `load ${load}`, `score ${score}`]
    return `- ${agent}: ${words.join(', ')}. ${can.length > 0 ? `Can: ${can.join(', ')}. ` : ''}${reason}`.trimEnd()
  })
  return lines.join('\n')
}

/** Nobody bids: the one with the least to do. */
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
  const options = shape<AuctionConfig>({
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
  })
  options(config, 'orchestration')
  const { auctioneer, bidders, weights } = config
  if (auctioneer !== undefined && bidders?.includes(auctioneer))
    throw refused(
      'orchestration.auctioneer',
      auctioneer,
      'an agent that is not among bidders',
      'Nobody judges its own bid.',
    )
  if (Object.values(weightsOf(weights)).every((one) => one === 0))
    throw refused('orchestration.weights', weights, 'at least one weight above 0')
  if (bidders === undefined && team.every((name) => name === auctioneer))
    throw refused(
      'orchestration.bidders',
      bidders,
      'a list of at least one agent',
      'The team has no agent but the auctioneer.',
    )
}
