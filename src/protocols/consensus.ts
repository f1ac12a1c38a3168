/** Strategy `consensus`: agents work towards one answer that enough of them support. */
import type { OrchestratorContext } from '../actors/definition/context.ts'
import { flag, integer, oneOf, refused, rule, shape } from '../shared/checks.ts'
import { ConsensusError, describe } from '../shared/errors.ts'
import { askFor } from './asking.ts'
import { backedIn, Council, discussion, type Method, type Standing, synthesis, voting } from './council.ts'
import {
  type Agreement,
  agreementOn,
  isSame,
  type Needed,
  type Position,
  type Stand,
  standsAsData,
  standsAsText,
  standsOf,
} from './positions.ts'
import { CONSENSUS, promptsOf, type Speak, speaking } from './prompts.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, choosing, namesIn, type Strategy } from './strategy.ts'

/**
 * Agents work towards one answer that enough of them support.
 *
 * All agents are asked the query. Two answers are the same if their data are the same by structure, or their content if
 * they have no data. Weights come from the roles; if a voter's weight is null or not finite, each vote counts 1. If too
 * few agents agree, rounds follow, in which each agent is asked once:
 *
 * - 'vote': each agent votes for one of these answers by its number, `{ choice }`. An answer without votes is not on
 *   the next list.
 * - 'discussion': each agent sees the answers of the others with their reasons, and answers `{ agreesWith, answer,
 *   reasons }`. It takes the position of the agent that it names, or gives another answer.
 * - 'synthesis': the tie-breaker (without one, the member with the highest priority) writes a text, and the others
 *   answer `{ accept, objection }`. The writer gets the objections in the next round. An agent that objects keeps its
 *   own answer.
 *
 * A code agent gives these answers in `structuredData`; it also gets in `structuredData` what models are told as text.
 * An answer that fits neither the schema nor the list is sent back once. After that it does not count, and its agent
 * counts as not agreeing. An agent that fails, refuses or is late drops out and is listed in `failures`. With fewer
 * than two agents left the run fails.
 *
 * After the last round the tie-breaker chooses one of the answers (or the last text). Without a tie-breaker the run
 * fails with `ConsensusError`, which has the positions in its details. Each round, its count and each agent that
 * dropped out are decisions in the trace.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'consensus', consensusMethod: 'vote', tieBreaker: 'chair' } })
 */
export interface ConsensusConfig<N extends AgentName = AnyAgent> {
  strategy: 'consensus'
  /** Agents that take part, at least two. Default: all except the tie-breaker, in the team's order. */
  agents?: readonly N[]
  /** Share of the weight that has to agree, above 0 and up to 1. Default: 0.67, which two of three do not reach. */
  consensusThreshold?: number
  /** Number of rounds after the first answers. Default: 3. */
  maxRounds?: number
  /** Method of the rounds, as described above. Default: 'discussion'. */
  consensusMethod?: 'vote' | 'discussion' | 'synthesis'
  /**
   * Agent that decides after the last round, and writes the text under 'synthesis'. It takes part if it is among
   * `agents`.
   */
  tieBreaker?: N
  /** true: all agents that take part have to agree, whatever their weights. Default: false. */
  requireUnanimous?: boolean
  /** Your own texts instead of the strategy's: `vote`, `discuss`, `draft`, `accept`, `tieBreak`. */
  prompts?: Partial<Record<string, string>>
}

const TIE = 'They do not agree: which answer counts?'

export const consensus: Strategy<ConsensusConfig> = {
  strategy: 'consensus',
  protocol(config, team) {
    check(config, team)
    const { consensusThreshold = 0.67, maxRounds = 3, consensusMethod = 'discussion', tieBreaker } = config
    const needed: Needed = config.requireUnanimous ? 'all' : consensusThreshold
    const choose = choosing(config.agents, tieBreaker)
    const say = speaking(CONSENSUS, config.prompts)
    return {
      name: 'consensus',
      async run(orchestrator, query) {
        const council = new Council(orchestrator, query)
        await council.open(choose(namesIn(orchestrator)))
        let standing: Standing = new Map(council.held)
        let method: Method | undefined
        let rounds = 0
        for (; ; rounds++) {
          const { agreed, possible } = count(orchestrator, rounds, standing, needed)
          if (agreed) return resultOf(agreed)
          if (!possible && tieBreaker === undefined) throw weightless(rounds, standsOf(council.held))
          if (!possible || rounds === maxRounds) break
          method ??= METHODS[consensusMethod](council, say, tieBreaker)
          standing = await method.round(rounds + 1)
        }
        const choices = method?.choices ?? standsOf(council.held)
        if (tieBreaker === undefined) throw disagreement(rounds, choices, 'Set tieBreaker, or raise maxRounds.')
        try {
          return resultOf(await breakTie(orchestrator, query, choices, tieBreaker, say))
        } catch (error) {
          orchestrator.signal.throwIfAborted()
          orchestrator.decide(TIE, 'none', `The tie-breaker "${tieBreaker}" did not choose: ${describe(error)}`)
          throw disagreement(rounds, choices, `The tie-breaker "${tieBreaker}" did not choose.`, error)
        }
      },
    }
  },
}

const resultOf = ({ content, structuredData }: Position) => ({ content, structuredData })

const METHODS = { vote: voting, discussion, synthesis }

/** Returns the position that enough agents support, and whether one is possible. The trace has the count. */
function count(
  orchestrator: OrchestratorContext,
  round: number,
  standing: Standing,
  needed: Needed,
): { agreed: Position | undefined; possible: boolean } {
  const backed = backedIn(standing)
  const ballots = backed.map(([agent, { value }]) => ({ agent, value }))
  const abstained = [...standing].flatMap(([agent, position]) => (position ? [] : [agent]))
  const agreement = agreementOn(orchestrator, ballots, abstained, needed)
  const question = round === 0 ? 'Do their first answers agree?' : `Do they agree after round ${round}?`
  orchestrator.decide(question, agreement.reached ? 'yes' : 'no', tally(agreement, standsOf(backed), abstained, needed))
  const agreed = backed.find(([, { value }]) => isSame(value, agreement.winner))?.[1]
  return { agreed: agreement.reached ? agreed : undefined, possible: agreement.possible }
}

const groupsOf = (stands: readonly Stand[]) => stands.map(({ agents }) => agents.join(', ')).join(' | ')

function tally(agreement: Agreement, stands: readonly Stand[], abstained: string[], needed: Needed): string {
  const { score, total, tied } = agreement
  const groups = groupsOf(stands)
  const none = abstained.length > 0 ? `; behind none: ${abstained.join(', ')}` : ''
  const wanted = needed === 'all' ? 'all are needed' : `${needed} of it is needed`
  return `${groups || 'Nobody'}${none}. The most: ${score} of a weight of ${total}${tied ? ', a tie' : ''}; ${wanted}.`
}

/** @throws {ReplyInvalidError} when the tie-breaker twice chooses nothing on the list. */
async function breakTie(
  orchestrator: OrchestratorContext,
  query: string,
  choices: readonly Stand[],
  tieBreaker: string,
  say: Speak<keyof typeof CONSENSUS>,
): Promise<Position> {
  const { choiceOf } = await import('./forms.ts')
  const content = say('tieBreak', { query, positions: standsAsText(choices) })
  const structuredData = { query, positions: standsAsData(choices) }
  const { value } = await askFor(orchestrator, tieBreaker, content, choiceOf(choices.length), { structuredData })
  const { agents, position } = choices[value.choice - 1]!
  const why = value.reasons ? `: ${value.reasons}` : '.'
  orchestrator.decide(TIE, agents.join(', '), `The tie-breaker "${tieBreaker}" chose it${why}`)
  return position
}

function weightless(rounds: number, choices: readonly Stand[]): ConsensusError {
  const message = `The agents cannot agree (${groupsOf(choices)}): none of them has a weight above 0. Give one of their roles a weight, or set requireUnanimous or tieBreaker.`
  return new ConsensusError(message, { rounds, positions: standsAsData(choices) })
}

function disagreement(rounds: number, choices: readonly Stand[], advice: string, cause?: unknown): ConsensusError {
  const many = rounds === 1 ? '1 round' : `${rounds} rounds`
  const message = `The agents did not agree within ${many} (${groupsOf(choices)}). ${advice} What they hold is in details.positions.`
  return new ConsensusError(message, { rounds, positions: standsAsData(choices) }, cause)
}

function check(config: ConsensusConfig, team: readonly string[]): void {
  const { agents, tieBreaker, consensusThreshold, requireUnanimous } = config
  shape<ConsensusConfig>({
    strategy: oneOf('consensus'),
    agents: agentsOf(team),
    consensusThreshold: rule(
      'a number above 0, at most 1',
      (value) => typeof value === 'number' && value > 0 && value <= 1,
    ),
    maxRounds: integer(1),
    consensusMethod: oneOf('vote', 'discussion', 'synthesis'),
    tieBreaker: agentOf(team),
    requireUnanimous: flag,
    prompts: promptsOf(CONSENSUS),
  })(config, 'orchestration')
  if (requireUnanimous && consensusThreshold !== undefined) {
    const advice = 'requireUnanimous asks for all; remove one of them.'
    throw refused('orchestration.consensusThreshold', consensusThreshold, 'nothing', advice)
  }
  if (choosing(agents, tieBreaker)(team).length >= 2) return
  throw refused('orchestration.agents', agents, 'a list of at least two agents', 'One alone has nobody to agree with.')
}
