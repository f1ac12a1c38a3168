/** Strategy `blackboard`: agents contribute to a shared board as entries that interest them appear. */
import type { OrchestratorContext, Outcome } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { isTrustedTo, type RoleInfo } from '../actors/definition/role.ts'
import { IN_WORDS } from '../actors/model/last-speaker.ts'
import type { BlackboardEntry } from '../blackboard/entry.ts'
import { ORCHESTRATOR } from '../mailbox/message.ts'
import type { BlackboardScope } from '../runtime/settings/settings.ts'
import { integer, oneOf, pause, refused, rule, shape } from '../shared/checks.ts'
import { AgentFailedError, type DramatisError, UnknownAgentError } from '../shared/errors.ts'
import { tooFewAnswers, withVerbs } from './asking.ts'
import { combinedBy } from './combine.ts'
import { entriesAsText, News, resultOfEntry, surest } from './news.ts'
import { promptsOf, type Speak, speaking } from './prompts.ts'
import { Workers } from './run-tasks.ts'
import {
  type AgentName,
  type AnyAgent,
  agentOf,
  agentsOf,
  choosing,
  type InterestsOf,
  interestsOf,
  namesIn,
  type Strategy,
} from './strategy.ts'

const BLACKBOARD = {
  begin: '{query}',
  contribute: '{query}\n\n# New on the blackboard\n\n{entries}',
  synthesize:
    'This is what a team has gathered on its blackboard. Reply with the one answer that follows from it.\n\n# Question\n\n{query}\n\n# Blackboard\n\n{entries}',
  /** Said to a model with the first two: how it contributes. */
  write:
    'What you add counts as an entry of the blackboard alone: write it with publish. An entry of the type "{solutionType}" is the answer of the team, and ends the work.',
} as const

/**
 * Agents contribute to a shared board as entries that interest them appear, until an entry is a solution or nothing new
 * comes.
 *
 * The query is the entry `query`. The agents that are interested in it begin; if none is, all begin. After that, an
 * agent is asked as soon as there are entries for it that it has not seen. While the agent has a turn, such entries
 * wait for its next turn. It gets the query and these entries as text, and as `structuredData: { query, entries }`. Its
 * contribution is what it writes by `publish`, which every model has as a tool, beside `read_blackboard`; its answer is
 * only in `agentOutputs`. An agent that fails or refuses is listed in `failures`. The others go on, and the agent is
 * asked again when there are new entries for it.
 *
 * The run ends with a solution (the turns of other agents are cancelled), or when no agent has a turn and nothing is
 * new. The trace has a decision that says which of the two it was. `finalOutput` is the solution, otherwise the
 * synthesizer's answer, otherwise a list of the entries with their authors. The run fails if nobody wrote. A team in
 * which nobody may write, since all of them are untrusted, is a `ConfigurationError`. Durations are in ms.
 *
 * @example
 * createTeam({
 *   agents,
 *   orchestration: { strategy: 'blackboard', interests: { analyst: ['dataset.*'], writer: ['finding.**'] } },
 * })
 */
export interface BlackboardConfig<N extends AgentName = AnyAgent> {
  strategy: 'blackboard'
  /**
   * Agents that contribute. Default: all agents except the synthesizer that the team has when the run begins, in its
   * order.
   */
  agents?: readonly N[]
  /**
   * Patterns of keys, as `subscribe` takes them, by the agent's name. Default: an agent is interested in all entries
   * except its own. An agent whose patterns match its own keys is asked again for them, up to `maxRounds`.
   */
  interests?: InterestsOf<N>
  /**
   * Type of the entry that is the solution. Default: 'solution'. Of several such entries, the first with the highest
   * confidence counts.
   */
  solutionType?: string
  /**
   * Agent that makes the answer from the entries if there is no solution. If it fails, the answer is a list of them.
   */
  synthesizer?: N
  /** Maximum number of times that each agent is asked. Default: 10. */
  maxRounds?: number
  /**
   * Time in ms without a new entry and without a turn, after which the run ends. Default: 0. For entries that come from
   * outside the team.
   */
  quietMs?: number
  /**
   * Your own texts by name.
   *
   * - `begin`: for an agent that has no entry to read yet, with `{query}`.
   * - `contribute`: for an agent with new entries, with `{query}` and `{entries}`.
   * - `synthesize`: for the synthesizer, with both.
   * - `write`: for a model, with the first two: how it contributes, with `{solutionType}`.
   */
  prompts?: Partial<Record<string, string>>
}

type Say = Speak<keyof typeof BLACKBOARD>

const QUERY = 'query'
const QUESTION = 'Which entry is the solution?'

/** Asks the agents that have new entries, then waits until an entry or an answer comes. */
export const blackboard: Strategy<BlackboardConfig> = {
  strategy: 'blackboard',
  prepare: (config, settings) => {
    const contributors = choosing(config.agents, config.synthesizer)(settings.agents.map(({ name }) => name))
    checkWriters(settings.agents.flatMap(({ info }) => (contributors.includes(info.name) ? info : [])))
    return { ...settings, blackboard: scopeFrom(settings.blackboard) }
  },
  protocol(config, team) {
    check(config, team)
    const { synthesizer, solutionType = 'solution', maxRounds = 10, quietMs = 0 } = config
    const choose = choosing(config.agents, synthesizer)
    const say = speaking(BLACKBOARD, config.prompts)
    const interests = structuredClone(config.interests ?? {})
    return {
      name: 'blackboard',
      async run(orchestrator, query) {
        const agents = choose(namesIn(orchestrator))
        if (agents.length === 0) throw new UnknownAgentError('The team has no agent to ask. Add one with addAgent().')
        checkWriters(orchestrator.agents.filter(({ name }) => agents.includes(name)))
        const { blackboard: board } = orchestrator
        const news = new News(agents, interests)
        const solutions = new Map<string, BlackboardEntry>()
        let wake = () => {}
        const hear = (entry: BlackboardEntry) => {
          if (entry.author === ORCHESTRATOR || !news.add(entry)) return
          if (entry.entryType === solutionType) solutions.set(entry.key, entry)
          wake()
        }
        // An answer may arrive before the notice of an entry that its turn wrote.
        const workers = new Workers(orchestrator, agents, maxRounds, async () => (await board.query()).forEach(hear))

        await board.subscribe('**', hear)
        // Existing entries may interest an agent, but are no solution of this run: runs may share the board.
        for (const entry of await board.query()) if (entry.author !== ORCHESTRATOR) news.add(entry)
        const earlier = news.count
        await board.write(QUERY, query, QUERY)
        if (!news.begin(QUERY)) orchestrator.decide('Who begins?', 'all', `Nobody's interests take the key "${QUERY}".`)

        while (solutions.size === 0) {
          const written = new Promise<void>((resolve) => {
            wake = resolve
          })
          for (const agent of news.waiting.filter((name) => workers.isFree(name))) {
            const entries = news.take(agent)
            const verbs = withVerbs(orchestrator.agents, agent, 'publish', 'read_blackboard')
            const words = told(say, query, entries)
            workers.ask(agent, verbs ? `${words}\n\n${say('write', { solutionType })}` : words, {
              structuredData: { query, entries },
              metadata: { ...IN_WORDS, ...verbs },
            })
          }
          const { count } = news
          const isQuiet = workers.turns.length === 0
          if (!isQuiet) await Promise.race([written, ...workers.turns])
          else if (quietMs > 0) await Promise.race([written, orchestrator.sleep(quietMs)])
          orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
          if (isQuiet && news.count === count) break
        }

        if (solutions.size > 0) return solved(orchestrator, solutions, solutionType, workers)
        orchestrator.decide(QUESTION, 'none', whyNone(news.waiting, maxRounds, quietMs))
        const { outcomes } = workers
        if (news.count === earlier) throw nobodyWrote(outcomes, agents)
        return unsolved(orchestrator, query, synthesizer, say)
      },
    }
  },
}

/** Turns 'on_use' into 'run': the board exists from the start, so that callers can also write to it. */
function scopeFrom(scope: BlackboardScope): BlackboardScope {
  if (scope) return scope === 'on_use' ? 'run' : scope
  const advice = 'The strategy "blackboard" works on it; leave the option out.'
  throw refused('enableBlackboard', scope, 'true or { scope }', advice)
}

function checkWriters(contributors: readonly Pick<RoleInfo, 'name' | 'trust'>[]): void {
  const isReader = ({ trust }: Pick<RoleInfo, 'trust'>) => !isTrustedTo(trust, 'blackboard.write')
  if (contributors.length === 0 || !contributors.every(isReader)) return
  const names = contributors.map(({ name }) => name)
  const advice = 'All of them are untrusted, and may only answer. Trust one of them more, or name another agent.'
  throw refused('orchestration.agents', names, 'at least one agent that may write on the blackboard', advice)
}

/** Returns the error of a run without a contribution: that of the agents if all have failed. */
function nobodyWrote(outcomes: readonly Outcome[], agents: readonly string[]): DramatisError {
  if (outcomes.length > 0 && outcomes.every(({ ok }) => !ok)) return tooFewAnswers(outcomes, 1, agents.length)
  const answered = [...new Set(outcomes.flatMap(({ agent, ok }) => (ok ? [`"${agent}"`] : [])))].join(', ')
  return new AgentFailedError(
    `Nobody wrote on the blackboard, so the team has no answer: ${answered} answered without an entry. An agent contributes by publish, not by its answer.`,
    { agents: [...agents] },
  )
}

function told(say: Say, query: string, entries: readonly BlackboardEntry[]): string {
  return entries.length === 0 ? say('begin', { query }) : say('contribute', { query, entries: entriesAsText(entries) })
}

/** Ends the run with a solution. Its author may finish its turn; the work of the others is cancelled. */
async function solved(
  orchestrator: OrchestratorContext,
  found: ReadonlyMap<string, BlackboardEntry>,
  solutionType: string,
  workers: Workers,
): Promise<ScriptResult> {
  const authors = new Set([...found.values()].map(({ author }) => author))
  const cancelled = await workers.stopAllBut(authors, 'A solution is on the blackboard.')
  orchestrator.signal.throwIfAborted()
  const solutions = await orchestrator.blackboard.query({ entryType: solutionType })
  const standing = solutions.filter(({ key }) => found.has(key))
  const solution = surest(standing.length > 0 ? standing : [...found.values()])
  const rest = cancelled.length > 0 ? ` Cancelled: ${cancelled.join(', ')}.` : ''
  orchestrator.decide(QUESTION, solution.key, `"${solution.author}" wrote it, the surest of ${found.size}.${rest}`)
  return resultOfEntry(solution)
}

function whyNone(withNews: readonly string[], maxRounds: number, quietMs: number): string {
  if (withNews.length === 0) return `All was quiet for ${quietMs} ms: nobody at work, no new entry.`
  return `maxRounds: there is more for ${withNews.join(', ')}, asked ${maxRounds} times already.`
}

async function unsolved(
  orchestrator: OrchestratorContext,
  query: string,
  synthesizer: string | undefined,
  say: Say,
): Promise<ScriptResult> {
  const entries = (await orchestrator.blackboard.query()).filter(({ author }) => author !== ORCHESTRATOR)
  const list = entriesAsText(entries)
  if (synthesizer === undefined) return list
  const content = say('synthesize', { query, entries: list })
  const options = { structuredData: { query, entries }, metadata: IN_WORDS }
  return combinedBy(orchestrator, synthesizer, content, options, list)
}

function check(config: BlackboardConfig, team: readonly string[]): void {
  const { agents, synthesizer } = config
  const contributors = choosing(Array.isArray(agents) ? agents : undefined, synthesizer)(team)
  shape<BlackboardConfig>({
    strategy: oneOf('blackboard'),
    agents: agentsOf(team),
    interests: interestsOf(team, contributors),
    solutionType: rule('a type of entries', (type) => typeof type === 'string' && type !== ''),
    synthesizer: agentOf(team),
    maxRounds: integer(1),
    quietMs: pause,
    prompts: promptsOf(BLACKBOARD),
  })(config, 'orchestration')
  if (contributors.length > 0) return
  throw refused('orchestration.agents', agents, 'a list of agents', 'Nobody is left but the synthesizer.')
}
