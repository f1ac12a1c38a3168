/** Agents work towards one answer that enough of them stand behind. Source: document 002, 2.2.5. */
import type { OrchestratorContext } from '../actors/definition/context/context.ts'
import { ConsensusError, describe } from '../errors.ts'
import { flag, integer, oneOf, rule, shape } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import { agentOf, agentsOf } from './checks.ts'
import { CONSENSUS } from './prompts/consensus.ts'
import { promptsOf, type Speak, speaking } from './prompts/prompts.ts'
import { type Agreement, agreementOn, type Needed } from './steps/agreement.ts'
import { askFor } from './steps/ask-for.ts'
import { Council } from './steps/council.ts'
import { isSame, type Position, type Stand, standsAsData, standsAsText, standsOf } from './steps/positions.ts'
import { backedIn, discussion, type Method, type Standing, synthesis, voting } from './steps/rounds.ts'
import type { Strategy } from './strategy.ts'

/**
 * Agents work towards one answer that enough of them stand behind. Source: document 002, 2.2.5.
 *
 * All are asked the query; answers are the same if their data (or their words, where there is none) are the same by
 * structure. Weights are those of the roles; when a voter's is null or not finite, each vote counts 1. If too few agree,
 * rounds follow, in which each is asked once:
 *
 * - 'vote': each votes for one of these answers by its number, `{ choice }`. What nobody voted for is off the next list.
 * - 'discussion': each sees what the others hold and why, and answers `{ agreesWith, answer, reasons }`: it takes the
 *   position of the one it names, or gives another.
 * - 'synthesis': the tie-breaker (without one, the member with the highest priority) writes a text, the others answer
 *   `{ accept, objection }`; it gets the objections in the next round. Who objects stands by its own answer.
 *
 * An agent of code answers so by `structuredData`, and is told what the models are told as `structuredData` too. What
 * fits neither that nor the list is sent back once, then it does not count, and its agent counts as not agreeing. Who
 * fails, refuses or is late takes part no more and is in `failures`; with fewer than two left the run fails.
 *
 * After the last round the tie-breaker chooses one of the answers (or the last text). Without one the run fails with
 * `ConsensusError`, which has the positions in its details. Each round, its count and who dropped out are decisions in
 * the trace.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'consensus', consensusMethod: 'vote', tieBreaker: 'chair' } })
 */
export interface ConsensusConfig<N extends string = string> {
  strategy: 'consensus'
  /** Who takes part, two at least; all but the tie-breaker, in the team's order. */
  agents?: N[]
  /** The share of the weight that has to agree, above 0 and up to 1; 0.67, which two of three do not reach. */
  consensusThreshold?: number
  /** How many rounds follow the first answers; 3. */
  maxRounds?: number
  /** 'discussion'. */
  consensusMethod?: 'vote' | 'discussion' | 'synthesis'
  /** Decides when the rounds are over, and writes the text under 'synthesis'. It takes part if it is among `agents`. */
  tieBreaker?: N
  /** true: all who take part have to agree, whatever their weights. false. */
  requireUnanimous?: boolean
  /** Texts of your own in the place of the strategy's: `vote`, `discuss`, `draft`, `accept`, `tieBreak`. */
  prompts?: Partial<Record<string, string>>
}

const TIE = 'They do not agree: which answer counts?'

/** Asks all, counts, and lets the method bring them closer until enough agree or the rounds are over. */
export const consensus: Strategy<ConsensusConfig> = {
  strategy: 'consensus',
  protocol(config, team) {
    check(config, team)
    const { consensusThreshold = 0.67, maxRounds = 3, consensusMethod = 'discussion', tieBreaker } = config
    const needed: Needed = config.requireUnanimous ? 'all' : consensusThreshold
    const listed = config.agents && [...config.agents]
    const say = speaking(CONSENSUS, config.prompts)
    return {
      name: 'consensus',
      async run(orchestrator, query) {
        const council = new Council(orchestrator, query)
        await council.open(
          listed ??
            others(
              orchestrator.agents.map(({ name }) => name),
              tieBreaker,
            ),
        )
        let standing: Standing = new Map(council.held)
        let method: Method | undefined
        let rounds = 0
        for (; ; rounds++) {
          const { agreed, possible } = count(orchestrator, rounds, standing, needed)
          if (agreed) return resultOf(agreed)
          if (!possible && tieBreaker === undefined) throw weightless(rounds, standsOf(council.held))
          if (!possible || rounds === maxRounds) break
          method ??= begin(consensusMethod, council, say, tieBreaker)
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

const others = (team: readonly string[], tieBreaker: string | undefined) => team.filter((name) => name !== tieBreaker)

const resultOf = ({ content, structuredData }: Position) => ({ content, structuredData })

function begin(
  how: ConsensusConfig['consensusMethod'],
  council: Council,
  say: Speak<keyof typeof CONSENSUS>,
  tieBreaker: string | undefined,
): Method {
  if (how === 'vote') return voting(council, say)
  return how === 'synthesis' ? synthesis(council, say, tieBreaker) : discussion(council, say)
}

/** The position that enough stand behind, and whether there can be one. The count goes into the trace, whatever it is. */
function count(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'decide' | 'vote'>,
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

function tally(
  { score, total, tied }: Agreement,
  stands: readonly Stand[],
  abstained: string[],
  needed: Needed,
): string {
  const groups = groupsOf(stands)
  const none = abstained.length > 0 ? `; behind none: ${abstained.join(', ')}` : ''
  const wanted = needed === 'all' ? 'all are needed' : `${needed} of it is needed`
  return `${groups || 'Nobody'}${none}. The most: ${score} of a weight of ${total}${tied ? ', a tie' : ''}; ${wanted}.`
}

/** @throws {ReplyInvalidError} when it chooses nothing on the list, twice. */
async function breakTie(
  orchestrator: Pick<OrchestratorContext, 'agents' | 'decide' | 'request'>,
  query: string,
  choices: readonly Stand[],
  tieBreaker: string,
  say: Speak<keyof typeof CONSENSUS>,
): Promise<Position> {
  const { choiceOf } = await import('./steps/answer-forms.ts')
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
  const options = shape<ConsensusConfig>({
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
  })
  options(config, 'orchestration')
  if (requireUnanimous && consensusThreshold !== undefined) {
    const advice = 'requireUnanimous asks for all; remove one of them.'
    throw refused('orchestration.consensusThreshold', consensusThreshold, 'nothing', advice)
  }
  if ((agents ?? others(team, tieBreaker)).length >= 2) return
  throw refused('orchestration.agents', agents, 'a list of at least two agents', 'One alone has nobody to agree with.')
}
