/** Strategy `collaborate`: an agent splits the task, and capable teammates do the parts. */
import type { OrchestratorContext, Outcome } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { TASK_ROUTINGS } from '../actors/definition/task.ts'
import { IN_WORDS } from '../actors/model/last-speaker.ts'
import { oneOf, refused, shape } from '../shared/checks.ts'
import { DelegationRefusedError, UnknownAgentError } from '../shared/errors.ts'
import { lastWord, tooFewAnswers } from './asking.ts'
import { combinedBy } from './combine.ts'
import { type ConflictRule, elect, resolveConflict, statementOf } from './conflict.ts'
import { CONFLICT_RULES, conflictsAmong, conflictsAsData, withConflicts } from './conflicts.ts'
import { asData, asText, resultOf } from './positions.ts'
import { promptsOf, type Speak, speaking, withSections } from './prompts.ts'
import {
  askWorker,
  decompose,
  joined,
  nothingDone,
  resultsAsText,
  runTasks,
  statementsOf,
  synthesized,
  TAKEN_APART,
  undone,
} from './run-tasks.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, choosing, namesIn, type Strategy } from './strategy.ts'
import { type Finished, isDone, type PlannedTask } from './tasks.ts'

/** Prompts to the agents that split a task and that combine its results. */
const COLLABORATE = {
  decompose: withSections(
    'Take the task apart into sub-tasks, each of which one member of a team can do alone. Reply with a JSON array of strings and nothing else, one string for each sub-task, in the order in which they are to be done. Reply with [] if the task is simple enough to be done in one piece.',
    { Task: '{query}' },
  ),
  dependencies: withSections(
    'Take the task apart into sub-tasks, each of which one member of a team can do alone. Reply with JSON and nothing else: {"tasks": [{"task": "what to do", "dependsOn": [1]}]}, where dependsOn has the numbers, from 1, of the sub-tasks whose results it needs; it is [] for one that needs none. Add "runIf": {"task": 1, "outcome": "failed"} to one that is done only in that case (completed, failed, skipped), or "runIf": {"task": 1, "compare": "contains", "value": "yes"} to compare the result (equals, differs, contains, lacks, above, below). Reply with [] if the task is simple enough to be done in one piece.',
    { Task: '{query}' },
  ),
  synthesize: withSections(
    'Members of a team have worked on this task. Make one text of their results: say who found what, and of what is missing that it is missing, and why. Add nothing of your own.',
    { Task: '{query}', Results: '{results}' },
  ),
} as const

/**
 * An agent splits the task, each part is routed to a teammate that can do it, and the results are combined.
 *
 * A task goes to a teammate with a capability that occurs in its text, otherwise to one with a tool that does; letter
 * case does not matter. Of several the one with the highest `confidence` gets it, then the first. If there is none, all
 * teammates that take tasks (`canBeDelegatedTo`) get it, and their answers are voted on. This is the team's default
 * `taskRouting`; another one routes in its own way. Teammates that are added during a run get what is routed from then
 * on.
 *
 * A sub-task comes with a `SubTask` as `structuredData`. If a sub-task fails, its error takes the place of the result.
 * If all teammates refuse it, its place says so. The run fails if no sub-task has a result. If the synthesizer fails,
 * the answer is the results, each under its agent's name.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'collaborate', decomposer: 'planner', aggregation: 'join' } })
 */
export interface CollaborateConfig<N extends AgentName = AnyAgent> {
  strategy: 'collaborate'
  /**
   * Agents that get tasks. Default: all agents except the synthesizer that the team has when a task is routed, in its
   * order.
   */
  teammates?: readonly N[]
  /**
   * Agent that splits the task; it may be a teammate. Default: the first teammate, or synthesizer, that a model plays
   * or whose role names a `model`. It is asked for a JSON array of strings. The task stays whole if there is no such
   * agent or it fails. It also stays whole if the answer is anything else, an empty array, or more than 100 sub-tasks.
   * The trace says which. false: the task stays whole.
   */
  decomposer?: N | false
  /**
   * Order of the sub-tasks. Default: 'sequence'.
   *
   * - 'sequence': one sub-task after the other.
   * - 'dependencies': sub-tasks run in parallel, except that each waits for those it builds on and gets their results
   *   as `contextSummary`. The decomposer names the dependencies, and conditions (`runIf`); if it answers with strings
   *   only, the order is 'sequence'.
   */
  order?: 'sequence' | 'dependencies'
  /**
   * Way to combine several results. 'vote': by the weights of the agents that answered. 'join': one per line.
   * 'synthesize': by the synthesizer. Default: results of sub-tasks are joined, and answers of all teammates to a whole
   * task are voted on.
   */
  aggregation?: 'vote' | 'join' | 'synthesize'
  /**
   * Agent that makes one text of the results. Default: the `decomposer` of this configuration. Only for
   * `aggregation: 'synthesize'`.
   */
  synthesizer?: N
  /**
   * Way to settle contradictions between results that are joined or synthesized: 'vote' (by weights), 'priority' (of
   * the agents), 'evidence' (as under `parallel`), 'fail' (the run fails with `ConsensusError`), 'synthesize' (the
   * synthesizer decides). With one of them the synthesizer, if there is one, is asked first what the texts contradict
   * each other about. Default: the synthesizer decides, and only data that differs in a key and sentences in the same
   * words are found. What is found is told with the results, and is in the trace.
   */
  conflictResolution?: 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'
  /** Your own texts instead of `decompose`, `dependencies` and `synthesize`. */
  prompts?: Partial<Record<string, string>>
}

export const collaborate: Strategy<CollaborateConfig> = {
  strategy: 'collaborate',
  routes: true,
  prepare(_config, settings) {
    const { taskRouting } = settings
    const advice =
      'No task of "collaborate" names its agent: take another routing, or assign tasks in a script of your own.'
    if (taskRouting === 'explicit')
      throw refused('taskRouting', taskRouting, TASK_ROUTINGS.filter((by) => by !== taskRouting).join(', '), advice)
    return settings
  },
  protocol(config, team) {
    check(config, team)
    const { decomposer, order = 'sequence' } = config
    const graph = order === 'dependencies'
    const say = speaking(COLLABORATE, config.prompts)
    const choose = choosing(config.teammates, config.synthesizer)
    const how = combination(config)
    return {
      name: 'collaborate',
      async run(orchestrator, query) {
        const teammates = () => {
          const present = namesIn(orchestrator)
          return choose(present).filter((name) => present.includes(name))
        }
        const planner = decomposer ?? plannerAmong(orchestrator, [...teammates(), config.synthesizer])
        const prompt = say(graph ? 'dependencies' : 'decompose', { query })
        const tasks = planner ? await decompose(orchestrator, planner, prompt, graph) : undefined
        if (!tasks) return whole(orchestrator, query, teammates(), how, say)

        const finished = await runTasks(orchestrator, tasks, (task, context) =>
          part(orchestrator, task, context, teammates()),
        )
        const [first, ...others] = finished.filter(isDone)
        if (!first) throw nothingDone(joined(finished), finished)
        if (how.by === 'vote') return elected(orchestrator, [first, ...others]).words
        const conflicts = await conflictsAmong(orchestrator, query, statementsOf(finished), finder(how))
        if (how.by !== 'synthesize') return withConflicts(joined(finished), conflicts)
        const content = say('synthesize', { query, results: withConflicts(resultsAsText(finished), conflicts) })
        return synthesized(orchestrator, how.synthesizer, content, query, finished, conflicts)
      },
    }
  },
}

type Combination = { rule: ConflictRule | undefined } & (
  | { by: 'usual' | 'vote' | 'join' }
  | { by: 'synthesize'; synthesizer: string }
)

/** Returns how contradictions are found and settled. A model is asked only if the configuration wants them settled. */
const finder = (how: Combination) => ({
  rule: how.rule,
  judge: how.rule && how.by === 'synthesize' ? how.synthesizer : undefined,
})

async function whole(
  orchestrator: OrchestratorContext,
  query: string,
  among: string[],
  how: Combination,
  say: Speak<keyof typeof COLLABORATE>,
): Promise<ScriptResult> {
  if (among.length === 0) throw new UnknownAgentError('The team has no teammate to ask. Add one with addAgent().')
  const agent = await routed(orchestrator, query, among)
  if (agent !== null) return resultOf({ agent, message: await lastWord(orchestrator, agent, query) })
  const all = takers(orchestrator, among)
  if (all.length === 0) throw new DelegationRefusedError(nobodyTakes(among), { to: among })
  const outcomes = await orchestrator.requestAll(all, query)
  orchestrator.signal.throwIfAborted()
  const [first, ...others] = outcomes.filter((outcome) => outcome.ok)
  if (!first) throw tooFewAnswers(outcomes, 1, all.length)
  if (how.by === 'usual' || how.by === 'vote')
    return resolveConflict(orchestrator, query, [first, ...others], { rule: 'vote' })
  const conflicts = await conflictsAmong(orchestrator, query, [first, ...others].map(statementOf), finder(how))
  if (how.by !== 'synthesize') return withConflicts(outcomes.map(answerLine).join('\n'), conflicts)
  const content = say('synthesize', { query, results: withConflicts(asText(outcomes), conflicts) })
  const structuredData = { query, ...asData(outcomes), ...conflictsAsData(conflicts) }
  const instead = withConflicts(asText([first, ...others]), conflicts)
  return combinedBy(orchestrator, how.synthesizer, content, { structuredData, metadata: IN_WORDS }, instead)
}

const answerLine = (outcome: Outcome): string =>
  outcome.ok ? resultOf(outcome).content : `("${outcome.agent}" failed: ${outcome.error.message})`

/** Runs a sub-task by the agent that it is routed to, otherwise by all, and elects one of their results. */
async function part(
  orchestrator: OrchestratorContext,
  task: PlannedTask,
  context: string | undefined,
  among: string[],
): Promise<Finished> {
  if (among.length === 0) return undone(orchestrator, task, 'There is no teammate to take it.', 'UNKNOWN_AGENT')
  const agent = await routed(orchestrator, task.description, among)
  if (agent !== null) return askWorker(orchestrator, agent, task, context)
  const all = takers(orchestrator, among)
  if (all.length === 0) return undone(orchestrator, task, nobodyTakes(among), 'DELEGATION_REFUSED')
  const finished = await Promise.all(all.map((name) => askWorker(orchestrator, name, task, context)))
  const [first, ...others] = finished.filter(isDone)
  return first ? elected(orchestrator, [first, ...others]) : nobodys(orchestrator, task, finished)
}

/** Returns the agent that the text is routed to; null: all agents. */
async function routed(orchestrator: OrchestratorContext, text: string, among: string[]): Promise<string | null> {
  const agent = await orchestrator.route(text, { among })
  const all = takers(orchestrator, among)
  if (agent === null && all.length > 0) orchestrator.decide('Who gets it then?', 'all', `That is ${all.join(', ')}.`)
  return agent
}

/** Returns those that get a task which is for nobody in particular: all that take tasks. */
function takers({ agents }: OrchestratorContext, among: readonly string[]): string[] {
  const closed = new Set(agents.flatMap(({ name, canBeDelegatedTo }) => (canBeDelegatedTo === false ? name : [])))
  return among.filter((name) => !closed.has(name))
}

const nobodyTakes = (among: readonly string[]) =>
  `No teammate takes tasks: canBeDelegatedTo is false in the roles of ${among.join(', ')}. Change one of them.`

const elected = (orchestrator: OrchestratorContext, finished: readonly [Finished, ...Finished[]]): Finished =>
  elect(orchestrator, finished, ({ result }) => ({ agent: result.workerAgentRole, value: result.resultData }))

function nobodys(orchestrator: OrchestratorContext, task: PlannedTask, finished: readonly Finished[]): Finished {
  const failures = finished.map(({ result }) => ({ agent: result.workerAgentRole, ...result.errorDetails }))
  const isRefused = failures.every(({ type }) => type === 'TASK_REFUSED')
  const reasons = failures.map(({ agent, message }) => `"${agent}": ${message}`).join('; ')
  return isRefused
    ? undone(orchestrator, task, `Nobody takes it. ${reasons}`, 'TASK_REFUSED')
    : undone(orchestrator, task, `Nobody could do it. ${reasons}`, 'AGENT_FAILED')
}

/** Returns the first agent that has a model: one plays it, or its role names one for its code. */
function plannerAmong(orchestrator: OrchestratorContext, among: readonly (string | undefined)[]): string | undefined {
  const planner = orchestrator.agents.find(
    ({ name, model, playedByModel }) => (playedByModel || model !== undefined) && among.includes(name),
  )
  if (!planner) orchestrator.decide(TAKEN_APART, 'no', 'There is no decomposer, and no teammate has a model.')
  return planner?.name
}

function combination({
  aggregation,
  decomposer,
  synthesizer = decomposer || undefined,
  conflictResolution: rule,
}: CollaborateConfig): Combination {
  if (aggregation !== 'synthesize') return { by: aggregation ?? 'usual', rule }
  const accepted = 'the agent that makes one text of several results'
  if (synthesizer === undefined) throw refused('orchestration.synthesizer', synthesizer, accepted)
  return { by: 'synthesize', rule, synthesizer }
}

function check(config: CollaborateConfig, team: readonly string[]): void {
  const { aggregation, decomposer, order, synthesizer } = config
  const agent = agentOf(team)
  shape<CollaborateConfig>({
    strategy: oneOf('collaborate'),
    teammates: agentsOf(team),
    decomposer: (value, path) => {
      if (value !== false) agent(value, path)
    },
    order: oneOf('sequence', 'dependencies'),
    aggregation: oneOf('vote', 'join', 'synthesize'),
    synthesizer: agent,
    conflictResolution: oneOf(...CONFLICT_RULES),
    prompts: promptsOf(COLLABORATE),
  })(config, 'orchestration')
  if (synthesizer !== undefined && aggregation !== 'synthesize')
    throw refused('orchestration.synthesizer', synthesizer, 'nothing', 'It acts under aggregation: "synthesize" alone.')
  if (order !== undefined && decomposer === false)
    throw refused('orchestration.order', order, 'nothing', 'Nobody takes the task apart: decomposer is false.')
  const { teammates } = config
  if (choosing(teammates, synthesizer)(team).length === 0)
    throw refused('orchestration.teammates', teammates, 'a list of agents', 'Nobody is left but the synthesizer.')
}
