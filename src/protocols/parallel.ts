/** Strategy `parallel`: independent agents work on the same query, and their answers are combined. */
import type { OrchestratorContext, Outcome } from '../actors/definition/context.ts'
import { LAST_SPEAKER, PERHAPS_LAST } from '../actors/model/last-speaker.ts'
import { requestAllWithin, turnBehind } from '../actors/turn/context.ts'
import { flag, integer, oneOf, refused, rule, shape, wait } from '../shared/checks.ts'
import { askEnough, tooFewAnswers } from './asking.ts'
import { CONFLICT_RULES, type Combination, combine } from './conflicts.ts'
import { resultOf } from './positions.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, choosing, namesIn, type Strategy } from './strategy.ts'

/**
 * Independent agents work on the same query at the same time, and their answers are combined into one. Source: document
 * 002, 2.2.3. 'merge' puts the answers under headings, 'vote' counts them, 'best' lets the judge choose, 'custom'
 * passes all outcomes to an agent or a function. If an agent that is to make one answer of several fails, they are
 * merged. Durations are in ms.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'parallel', aggregationStrategy: 'vote', waitFor: 3 } })
 */
export type ParallelConfig<N extends AgentName = AnyAgent> = {
  strategy: 'parallel'
  /** Agents that work. Default: all agents except the judge and the aggregator, in the team's order. */
  agents?: readonly N[]
  /**
   * Number of agents that are asked at a time. Default: all of them. The team's `maxConcurrentAgents` (32) limits how
   * many execute.
   */
  maxConcurrent?: number
  /**
   * Time limit of an agent in ms, by wall clock from the start of its turn to its answer. Default: 60,000. It counts
   * models, tools and all tries of the turn; only the time in which a person is asked does not count.
   */
  timeoutPerAgentMs?: number
  /**
   * false: failed and late agents are left out, and listed in `failures`. true: one such agent fails the run. Default:
   * false.
   */
  requireAll?: boolean
  /**
   * Number of answers to wait for. Default: 'all'. With 'first' or a number, so many answers are enough, and the other
   * agents are cancelled.
   */
  waitFor?: 'all' | 'first' | number
  /**
   * Way to resolve a conflict: answers that differ by structure under the aggregation 'vote'. Default: 'vote', the
   * answer with the most votes. 'synthesize': the `judge` makes one answer. 'priority': the answer of the agent with
   * the highest `priority`. 'fail': the run fails with `ConsensusError`.
   *
   * 'evidence': for each contradiction the claim with the most evidence wins. The evidence of an answer is the entries
   * of the run's blackboard that it refers to, by `references: [key, ...]` in its data or `[key]` in its content. Each
   * entry counts as much as its confidence. Objects are merged key by key. For texts, `judge` lists the statements that
   * contradict each other, and writes the answer. Without a judge, the text with the most evidence is the answer. Equal
   * evidence is put to the vote.
   *
   * Under the aggregation 'merge' it settles contradictions: data that differs in a key, and sentences that differ in a
   * number, their last word or a negation; a `judge` compares the texts instead. A section `## Contradictions` behind
   * the answers lists them, and what holds. With 'synthesize' the judge makes one answer of them.
   */
  conflictResolution?: 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'
} & (
  | { aggregationStrategy?: 'merge' | 'vote'; judge?: N }
  | ({
      aggregationStrategy: 'best'
      /** Default: the one agent of the team that is not among `agents`. */
      judge?: N
    } & ({ agents: readonly N[] } | { judge: N }))
  | ({
      aggregationStrategy: 'custom'
      judge?: N
      /** Default: the one agent of the team that is neither among `agents` nor the judge. */
      aggregator?: N | ((outputs: Outcome[], orchestrator: OrchestratorContext) => string | Promise<string>)
    } & ({ agents: readonly N[] } | { aggregator: NonNullable<unknown> }))
)

const LIMIT = 'orchestration.maxConcurrent'

export const parallel: Strategy<ParallelConfig> = {
  strategy: 'parallel',
  protocol(config, team) {
    check(config, team)
    const { maxConcurrent, timeoutPerAgentMs = 60_000, requireAll = false, waitFor = 'all' } = config
    const choose = chooser(config)
    const how = combination(config, team)
    return {
      name: 'parallel',
      async run(orchestrator, query) {
        const agents = choose(namesIn(orchestrator))
        const enough = waitFor === 'all' || waitFor === 'first' ? 1 : waitFor
        const alone = agents.length === 1 || (waitFor !== 'all' && enough === 1) // no other answer is wanted
        const isOneOfTheirs = how.by === 'vote' || how.by === 'best' || (how.by === 'merge' && alone)
        const concurrency = Math.max(1, Math.min(maxConcurrent ?? agents.length, agents.length))
        const metadata = agents.length === 1 ? LAST_SPEAKER : PERHAPS_LAST
        const limits = { concurrency, timeoutMs: timeoutPerAgentMs, wallClock: true }
        const options = { ...limits, ...(isOneOfTheirs && { metadata }) }
        const outcomes =
          waitFor === 'all'
            ? await requestAllWithin(orchestrator, LIMIT, agents, query, options)
            : await askEnough(orchestrator, agents, enough, query, {
                ...options,
                note: turnBehind(orchestrator)?.limits.begin(LIMIT, { limit: concurrency, agents }),
              })
        orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agents
        const failure = outcomes.find((outcome) => outcome.ok === false)
        if (requireAll && failure) throw failure.error
        const [first, ...others] = outcomes.filter((outcome) => outcome.ok)
        if (!first || others.length + 1 < enough) throw tooFewAnswers(outcomes, enough, agents.length)
        return how.by === 'merge' && alone
          ? resultOf(first)
          : combine(orchestrator, query, outcomes, [first, ...others], how)
      },
    }
  },
}

const chooser = (config: ParallelConfig) =>
  choosing(config.agents, config.judge, 'aggregator' in config ? config.aggregator : undefined)

function combination(config: ParallelConfig, team: readonly string[]): Combination {
  const { conflictResolution: rule = 'vote', judge } = config
  if (config.aggregationStrategy === 'best')
    return { by: 'best', judge: judge ?? leftOver(config, team, 'judge', 'the agent that chooses the best answer') }
  if (config.aggregationStrategy === 'custom')
    return { by: 'custom', aggregator: config.aggregator ?? leftOver(config, team, 'aggregator', AGGREGATOR) }
  const { aggregationStrategy: by = 'merge' } = config
  if (rule !== 'synthesize') return { by, rule, judge }
  if (judge === undefined) throw refused('orchestration.judge', judge, 'the agent that makes one answer of several')
  return { by, rule, judge }
}

function leftOver(
  { agents, judge }: ParallelConfig,
  team: readonly string[],
  option: 'judge' | 'aggregator',
  accepted: string,
): string {
  const left = agents ? team.filter((name) => name !== judge && !agents.includes(name)) : []
  if (left.length === 1) return left[0]!
  const advice = agents
    ? `Beside ${option === 'judge' ? 'agents' : 'agents and judge'} the team has ${left.join(', ') || 'nobody'}.`
    : 'Left out, it is the one agent that is not among agents: name these.'
  throw refused(`orchestration.${option}`, undefined, accepted, advice)
}

const AGGREGATOR = 'the agent or function that makes one answer'

const isWaitFor = (value: unknown) => value === 'all' || value === 'first' || (Number.isInteger(value) && value !== 0)

function check(config: ParallelConfig, team: readonly string[]): void {
  const { aggregationStrategy: by = 'merge', conflictResolution = 'vote', requireAll, waitFor } = config
  const agent = agentOf(team)
  shape<Omit<ParallelConfig, 'aggregator'> & { aggregator?: unknown }>({
    strategy: oneOf('parallel'),
    agents: agentsOf(team),
    maxConcurrent: integer(1),
    timeoutPerAgentMs: wait(),
    requireAll: flag,
    waitFor: rule('"all", "first" or how many answers are enough', isWaitFor),
    conflictResolution: oneOf(...CONFLICT_RULES),
    aggregationStrategy: oneOf('merge', 'vote', 'best', 'custom'),
    judge: agent,
    aggregator: (value, path) => {
      if (typeof value !== 'function') agent(value, path)
    },
  })(config, 'orchestration')

  const wrong = (key: string, accepted: string, advice: string) =>
    refused(`orchestration.${key}`, Reflect.get(config, key), accepted, advice)
  if (by !== 'vote' && by !== 'merge' && conflictResolution !== 'vote')
    throw wrong('conflictResolution', '"vote"', 'The others act under aggregationStrategy "vote" and "merge" alone.')
  if (by !== 'custom' && 'aggregator' in config && config.aggregator !== undefined)
    throw wrong('aggregator', 'nothing', 'It acts under aggregationStrategy: "custom" alone.')
  if (requireAll && waitFor !== undefined && waitFor !== 'all')
    throw wrong('requireAll', 'false', 'It asks for every answer; waitFor is content with fewer.')
  const { length } = chooser(config)(team)
  if (length === 0) throw wrong('agents', 'a list of agents', 'Nobody is left but the judge or the aggregator.')
  if (typeof waitFor === 'number' && (waitFor < 1 || waitFor > length))
    throw wrong('waitFor', `"all", "first" or an integer from 1 to ${length}`, 'More agents are not asked.')
}
