/** Agents contribute to a shared board as entries that interest them appear. Source: document 002, 2.2.1 and 2.4.2. */
import type { OrchestratorContext } from '../actors/definition/context/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { IN_WORDS } from '../actors/model/in-words.ts'
import type { BlackboardEntry } from '../blackboard/entry.ts'
import { UnknownAgentError } from '../errors.ts'
import { ORCHESTRATOR } from '../mailbox/message.ts'
import { integer, oneOf, pause, rule, shape } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import type { BlackboardScope } from '../runtime/settings/settings.ts'
import { agentOf, agentsOf, interestsOf } from './checks.ts'
import { BLACKBOARD } from './prompts/blackboard.ts'
import { promptsOf, type Speak, speaking } from './prompts/prompts.ts'
import { tooFewAnswers } from './steps/ask-enough.ts'
import { entriesAsText, resultOfEntry, surest } from './steps/entries.ts'
import { lastWord } from './steps/last-word.ts'
import { News } from './steps/news.ts'
import { resultOf } from './steps/outputs.ts'
import { Workers } from './steps/workers.ts'
import type { Strategy } from './strategy.ts'

/**
 * Agents contribute to a shared board as entries that interest them appear, until one is a solution or all is quiet.
 * Source: document 002, 2.2.1 and 2.4.2.
 *
 * The query is the entry `query`. Who is interested in it begins; if nobody is, all begin. From then on an agent is
 * asked as soon as there are entries for it that it was not told of; while it is at work they wait for its next turn.
 * It gets the query and these entries as text, and as `structuredData: { query, entries }`. What it writes by `publish`
 * is its contribution, what it answers is in `agentOutputs` alone. An agent that fails or refuses is listed in
 * `failures`; the others go on, and it is asked again when there is news for it.
 *
 * The run ends with a solution (other agents at work are cancelled), or when nobody is at work and there is nothing new;
 * which of them it was is a decision in the trace. `finalOutput` is the solution, else the synthesizer's answer, else a
 * list of the entries with their authors. It fails if all agents fail before anybody wrote. Durations in ms.
 *
 * @example
 * createTeam({
 *   agents,
 *   orchestration: { strategy: 'blackboard', interests: { analyst: ['dataset.*'], writer: ['finding.**'] } },
 * })
 */
export interface BlackboardConfig<N extends string = string> {
  strategy: 'blackboard'
  /** Who contributes; all agents but the synthesizer that the team has when the run begins, in its order. */
  agents?: N[]
  /**
   * Patterns of keys, as `subscribe` takes them, by the agent's name. By default an agent is interested in all entries
   * but its own; one whose patterns take its own keys is asked again for them, up to `maxRounds`.
   */
  interests?: Partial<Record<N, string[]>>
  /** An entry of this type is the solution; 'solution'. Of several that with the highest confidence, the first of them. */
  solutionType?: string
  /** Makes the answer of the entries if there is no solution. */
  synthesizer?: N
  /** How often each agent is asked at most; 10. */
  maxRounds?: number
  /** How long there has to be nothing new, with nobody at work, before the run ends; 0. For entries from elsewhere. */
  quietMs?: number
  /**
   * Texts of your own by name. `begin`: to an agent that there is no entry for yet, with `{query}`. `contribute`: to one that
   * there is news for, with `{query}` and `{entries}`. `synthesize`: to the synthesizer, with both. `nothing`: what stands for
   * `{entries}` there, and in the answer, where nobody wrote.
   */
  prompts?: Partial<Record<string, string>>
}

type Say = Speak<keyof typeof BLACKBOARD>

const QUERY = 'query'
const QUESTION = 'Which entry is the solution?'

/** Asks whom there is news for, and sleeps until somebody writes or answers. Who works when comes from the entries alone. */
export const blackboard: Strategy<BlackboardConfig> = {
  strategy: 'blackboard',
  prepare: (_config, settings) => ({ ...settings, blackboard: scopeFrom(settings.blackboard) }),
  protocol(config, team) {
    check(config, team)
    const { synthesizer, solutionType = 'solution', maxRounds = 10, quietMs = 0 } = config
    const choose = chooser(config)
    const say = speaking(BLACKBOARD, config.prompts)
    const interests = structuredClone(config.interests ?? {})
    return {
      name: 'blackboard',
      async run(orchestrator, query) {
        const agents = choose(orchestrator.agents.map(({ name }) => name))
        if (agents.length === 0) throw new UnknownAgentError('The team has no agent to ask. Add one with addAgent().')
        const { blackboard: board } = orchestrator
        const news = new News(agents, interests)
        const solutions = new Map<string, BlackboardEntry>()
        let wake = () => {}
        const hear = (entry: BlackboardEntry) => {
          if (entry.author === ORCHESTRATOR || !news.add(entry)) return
          if (entry.entryType === solutionType) solutions.set(entry.key, entry)
          wake()
        }
        // An answer may overtake the news of what its turn wrote.
        const workers = new Workers(orchestrator, agents, maxRounds, async () => (await board.query()).forEach(hear))

        await board.subscribe('**', hear)
        // What stands already may interest an agent, but it is no solution of this run: the team may share the board.
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
            workers.ask(agent, told(say, query, entries), { structuredData: { query, entries }, metadata: IN_WORDS })
          }
          const { count } = news
          const isQuiet = workers.turns.length === 0
          if (!isQuiet) await Promise.race([written, ...workers.turns])
          else if (quietMs > 0) await Promise.race([written, orchestrator.sleep(quietMs)])
          orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
          if (isQuiet && news.count === count) break
        }

        if (solutions.size > 0) return solved(orchestrator, solutions, solutionType, workers)
        orchestrator.decide(QUESTION, 'none', whyNone(news.waiting, maxRounds, quietMs))
        const { outcomes } = workers
        const nobody = outcomes.length > 0 && outcomes.every(({ ok }) => !ok) && news.count === earlier
        if (nobody) throw tooFewAnswers(outcomes, 1, agents.length)
        return unsolved(orchestrator, query, synthesizer, say)
      },
    }
  },
}

/** The strategy has the board from the start, so that callers can write on it too. */
function scopeFrom(scope: BlackboardScope): BlackboardScope {
  if (scope) return scope === 'on_use' ? 'run' : scope
  const advice = 'The strategy "blackboard" works on it; leave the option out.'
  throw refused('enableBlackboard', scope, 'true or { scope }', advice)
}

/** Whom to ask of a team: those in the list, else all but the synthesizer. */
function chooser({ agents, synthesizer }: BlackboardConfig): (team: readonly string[]) => string[] {
  const listed = agents && [...agents]
  return (team) => listed?.slice() ?? team.filter((name) => name !== synthesizer)
}

function told(say: Say, query: string, entries: readonly BlackboardEntry[]): string {
  return entries.length === 0 ? say('begin', { query }) : say('contribute', { query, entries: entriesAsText(entries) })
}

/** Who wrote it may have more to say in its turn; the others' work is for nothing now. */
async function solved(
  orchestrator: OrchestratorContext,
  found: ReadonlyMap<string, BlackboardEntry>,
  solutionType: string,
  workers: Workers,
): Promise<ScriptResult> {
  const authors = new Set([...found.values()].map(({ author }) => author))
  const cancelled = await workers.stopAllBut(authors, 'A solution is on the blackboard.')
  orchestrator.signal.throwIfAborted()
  const standing = (await orchestrator.blackboard.query({ entryType: solutionType })).filter(({ key }) =>
    found.has(key),
  )
  const solution = surest(standing.length > 0 ? standing : [...found.values()])
  const rest = cancelled.length > 0 ? ` Cancelled: ${cancelled.join(', ')}.` : ''
  orchestrator.decide(QUESTION, solution.key, `"${solution.author}" wrote it, the surest of ${found.size}.${rest}`)
  return resultOfEntry(solution)
}

function whyNone(withNews: readonly string[], maxRounds: number, quietMs: number): string {
  if (withNews.length === 0) return `All was quiet for ${quietMs} ms: nobody at work, no new entry.`
  return `maxRounds: there is more for ${withNews.join(', ')}, asked ${maxRounds} times already.`
}

/** The synthesizer's answer, or else what stands on the board. */
async function unsolved(
  orchestrator: OrchestratorContext,
  query: string,
  synthesizer: string | undefined,
  say: Say,
): Promise<ScriptResult> {
  const entries = (await orchestrator.blackboard.query()).filter(({ author }) => author !== ORCHESTRATOR)
  const list = entries.length > 0 ? entriesAsText(entries) : say('nothing', {})
  if (synthesizer === undefined) return list
  const content = say('synthesize', { query, entries: list })
  const message = await lastWord(orchestrator, synthesizer, content, {
    structuredData: { query, entries },
    metadata: IN_WORDS,
  })
  return resultOf({ agent: synthesizer, message })
}

function check(config: BlackboardConfig, team: readonly string[]): void {
  const { agents, synthesizer } = config
  const contributors = Array.isArray(agents) ? agents : team.filter((name) => name !== synthesizer)
  const options = shape<BlackboardConfig>({
    strategy: oneOf('blackboard'),
    agents: agentsOf(team),
    interests: interestsOf(team, contributors),
    solutionType: rule('a type of entries', (type) => typeof type === 'string' && type !== ''),
    synthesizer: agentOf(team),
    maxRounds: integer(1),
    quietMs: pause,
    prompts: promptsOf(BLACKBOARD),
  })
  options(config, 'orchestration')
  if (contributors.length > 0) return
  throw refused('orchestration.agents', agents, 'a list of agents', 'Nobody is left but the synthesizer.')
}
