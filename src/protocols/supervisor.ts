/** Strategy `supervisor`: experts work in parallel on what a supervisor plans, and their results become one answer. */
import type { RequestOptions } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { type Colleague, colleagueAsLine } from '../actors/model/prompt.ts'
import { integer, oneOf, refused, shape, wait } from '../shared/checks.ts'
import { type DramatisError, type ErrorCode, ReplyInvalidError, UnknownAgentError } from '../shared/errors.ts'
import { apologize, failuresAsText } from './apologize.ts'
import { failureOf, lastWord } from './asking.ts'
import { CONFLICT_RULES, conflictsAmong, withConflicts } from './conflicts.ts'
import type { Worker } from './forms.ts'
import { resultOf } from './positions.ts'
import { promptsOf, speaking, withSections } from './prompts.ts'
import {
  askWorker,
  type Failure,
  inheritedBy,
  joined,
  nothingDone,
  type Plan,
  planAgain,
  planTasks,
  resultsAsText,
  runTasks,
  statementsOf,
  synthesized,
  titleOf,
  undone,
} from './run-tasks.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, type Strategy } from './strategy.ts'
import { type Finished, isDone, type PlannedTask } from './tasks.ts'

/**
 * Prompts for the planner and the aggregator. `apology` is for the aggregator, if a model plays it and nobody could
 * help; a user's own text in its place is the answer itself.
 */
const SUPERVISOR = {
  plan: withSections(
    'Take this question apart into tasks for the experts below: one task for each thing that is asked for, in the language of the question. An expert may get several tasks, or none. Tasks are worked on at the same time, but for those that depend on others.',
    { Question: '{query}', Experts: '{experts}' },
  ),
  replan: withSections(
    'A task of your plan has failed. Give one task in its place: for another expert, in other words, or with another input. Give none where no task can help.',
    { Question: '{query}', 'The task that failed': '{task} (by {agent})', Why: '{reason}', Experts: '{experts}' },
  ),
  combine: withSections(
    'Answer the question from these results alone, in the language of the question, in your own words. Say of what is missing that it could not be found out, and why.',
    { Question: '{query}', Results: '{results}' },
  ),
  apology: withSections(
    'Nobody could help with this question. Write the answer for who asked it: one or two friendly sentences in the language of the question, which say what could not be found out, and that it can be tried again later. If it took too long, say so. Name no expert, no agent, no tool and no address, and call no tool.',
    { Question: '{query}', 'What was tried': '{failures}' },
  ),
} as const

/** Flow of a team with the strategy `supervisor`: by a plan, by a fixed flow, or as one agent with tools. */
export type FlowMode = 'multi_agent' | 'graph' | 'tools'

/**
 * A supervisor splits the query among experts that work in parallel, and their results become one answer. Durations
 * are in ms.
 *
 * The supervisor answers `{ tasks: [{ agent, task, tool?, input?, dependsOn?, runIf? }], reasoning }`, at most 100
 * tasks. Where agents hold `keys`, a task may name a profile of them, `apiKeysConfigRef`. A code agent gives the plan
 * as data. A model agent calls the function `create_plan`, and may use its own tools before. If the model client does
 * not support functions, JSON is accepted. A plan that does not match the schema, or has a cycle, is sent back once.
 * Each task goes to its expert with a `SubTask` as `structuredData`; one whose `runIf` does not hold is skipped. An
 * expert that fails or is late fails only its own task: the answer says what is missing, and `failures` has the errors.
 * The run fails if nobody could help, with a friendly text in the language of the query: if all tasks fail, or if there
 * is no plan and the fallback fails, too, or there is none. `failures` and `error.details` have the reasons. Wrong
 * options, a budget, a guardrail and the end of the run keep their errors. If the aggregator fails, the answer is the
 * results, each under its expert's name.
 *
 * @example
 * createTeam({
 *   agents,
 *   orchestration: {
 *     strategy: 'supervisor',
 *     supervisor: 'planner',
 *     experts: ['weather', 'finance'],
 *     fallback: 'general',
 *   },
 * })
 */
export interface SupervisorConfig<N extends AgentName = AnyAgent> {
  strategy: 'supervisor'
  /** Agent that makes the plan. */
  supervisor: N
  /**
   * Agents among which the supervisor chooses; those that have left the team are skipped. It is told their names,
   * descriptions and capabilities. A tool that a plan should name must be mentioned in these.
   */
  experts: readonly N[]
  /** Agent that gets the tasks for which the plan names no expert, and the query itself if there is no usable plan. */
  fallback?: N
  /**
   * Time limit in ms, by wall clock from the start of the turn of an expert to its answer, or of the fallback that gets
   * the query because there is no plan. Default: 60,000. It counts models, tools and all tries of the turn; only the
   * time in which a person is asked does not count (`answerWithinMs`).
   */
  timeoutPerAgentMs?: number
  /**
   * Number of times that the supervisor is asked to replace a failed task, for each task. Default: 0. Not used in the
   * flow 'graph'.
   */
  maxReplans?: number
  /** Agent that makes the answer from the results. Default: the supervisor. */
  aggregator?: N
  /**
   * Flow of the team. Default: 'multi_agent'.
   *
   * - 'multi_agent': by the plan.
   * - 'graph': a fixed flow, in which each expert gets the query as its task.
   * - 'tools': the fallback, or without one the supervisor, answers alone; `inFlowMode` gives it the tools of the
   *   experts.
   */
  flow?: FlowMode
  /**
   * Way to settle contradictions between the results: 'vote' (by weights), 'priority' (of the agents), 'evidence' (as
   * under `parallel`), 'fail' (the run fails with `ConsensusError`), 'synthesize' (the aggregator decides). With one of
   * them the aggregator is asked first what the texts contradict each other about, by one more call. Default: the
   * aggregator decides, and the strategy finds only data that differs in a key, and sentences in the same words. What
   * is found is told with the results, and is in the trace.
   */
  conflictResolution?: 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'
  /**
   * Your own texts instead of `plan`, `replan` and `combine`, and instead of the answer if nobody could help
   * (`apology`). Left out, the aggregator writes that, if a model plays it and it has not failed itself; else it is a
   * fixed sentence by the script of the query.
   */
  prompts?: Partial<Record<string, string>>
}

export const supervisor: Strategy<SupervisorConfig> = {
  strategy: 'supervisor',
  protocol(config, team) {
    check(config, team)
    const { fallback, timeoutPerAgentMs = 60_000, aggregator = config.supervisor, flow } = config
    const limit = { timeoutMs: timeoutPerAgentMs, wallClock: true }
    const planner = config.supervisor
    const maxReplans = flow === 'graph' ? 0 : (config.maxReplans ?? 0)
    const experts = [...config.experts]
    const all = [...new Set(fallback === undefined ? experts : [...experts, fallback])]
    const say = speaking(SUPERVISOR, config.prompts)
    return {
      name: 'supervisor',
      async run(orchestrator, query) {
        /** Failures of those who were to plan, to answer alone, or to combine. */
        const failed: Failure[] = []
        const alone = async (agent: string, options?: RequestOptions): Promise<ScriptResult> => {
          try {
            return resultOf({ agent, message: await lastWord(orchestrator, agent, query, options) })
          } catch (thrown) {
            throw await nobodyHelped(agent, thrown)
          }
        }
        if (flow === 'tools') return alone(fallback ?? planner)

        const workers = () => all.flatMap((name) => orchestrator.agents.find((agent) => agent.name === name) ?? [])
        if (workers().length === 0) throw nobodyLeft(all)
        const known = () => ({ query, experts: workers().map(expertAsLine).join('\n') })
        const { tasks, message: plan } = flow === 'graph' ? sameForAll() : await planned()
        if (tasks.length === 0) return alone(fallback ?? planner, limit)
        const finished = await runTasks(orchestrator, tasks, perform)
        const failures = finished.filter(({ result }) => result.status === 'FAILED')
        if (failures.length > 0 && !finished.some(isDone))
          throw nothingDone(await apology(failures, aggregator), finished)
        const { conflictResolution: rule } = config
        const how = { rule, judge: rule && aggregator }
        const conflicts = await conflictsAmong(orchestrator, query, statementsOf(finished), how)
        const content = say('combine', { query, results: withConflicts(resultsAsText(finished), conflicts) })
        try {
          return await synthesized(orchestrator, aggregator, content, query, finished, conflicts)
        } catch (thrown) {
          throw await nobodyHelped(aggregator, thrown)
        }

        /** Returns the plan of the fixed flow: the query as the task of each expert. */
        function sameForAll(): Pick<Plan, 'tasks' | 'message'> {
          const present = workers().filter(({ name }) => experts.includes(name))
          return {
            tasks: present.map(({ name }, at) => ({ number: at + 1, description: query, needs: [], agent: name })),
          }
        }

        /** `speaker`: who is asked for the words, if anybody is. */
        async function apology(failures: readonly Finished[], speaker: string | undefined): Promise<string> {
          if (config.prompts?.apology !== undefined) return say('apology', { query, failures: joined(failures) })
          const prompt = say('apology', { query, failures: failuresAsText(failures) })
          return apologize(orchestrator, speaker, prompt, { query, finished: failures }, limit)
        }

        /** Returns the error of a run whose last hope was that agent: the apology, or the failure itself. */
        async function nobodyHelped(agent: string, thrown: unknown): Promise<DramatisError> {
          const error = failureOf(orchestrator, thrown)
          if (TOLD.has(error.code)) return error
          failed.push({ agent, error })
          const finished = failed.map(({ agent, error }, at) => {
            const task = { number: at + 1, description: query, needs: [], agent }
            return undone(orchestrator, task, error.message, error.code)
          })
          const isDown = failed.some((failure) => failure.agent === aggregator)
          return nothingDone(await apology(finished, isDown ? undefined : aggregator), finished, failed)
        }

        /** Returns the plan; one without tasks if the fallback has to answer without a plan. */
        async function planned(): Promise<Pick<Plan, 'tasks' | 'message'>> {
          try {
            const plan = await planTasks(orchestrator, planner, say('plan', known()), workers())
            const { tasks, reasoning } = plan
            const none = `The plan of "${planner}" has no task. Name a fallback for what no expert can do.`
            if (tasks.length === 0) throw new ReplyInvalidError(none, { agent: planner })
            const many = tasks.length === 1 ? '1 task' : `${tasks.length} tasks`
            orchestrator.decide('What is to be done?', many, reasoning)
            return plan
          } catch (thrown) {
            const error = failureOf(orchestrator, thrown)
            const next = fallback === undefined ? 'nothing' : fallback
            const reason = `${fallback === undefined ? '' : 'It gets the query. '}No plan: ${error.message}`
            orchestrator.decide('What is to be done?', next, reason)
            if (fallback === undefined) throw await nobodyHelped(planner, error)
            failed.push({ agent: planner, error })
            return { tasks: [] }
          }
        }

        async function perform(task: PlannedTask, context: string | undefined): Promise<Finished> {
          let finished = await assigned(task, context)
          for (let replans = 0; replans < maxReplans && !isDone(finished); replans++) {
            const next = await replanned(finished)
            if (!next) break
            finished = await assigned(next, context)
          }
          return finished
        }

        async function assigned(task: PlannedTask, context: string | undefined): Promise<Finished> {
          const { agent = '' } = task
          const present = workers().map(({ name }) => name)
          const isKnown = present.includes(agent)
          const worker = isKnown ? agent : fallback
          const reason = isKnown
            ? 'The plan says so.'
            : `"${agent}", whom the plan names, is none of ${present.join(', ')}.`
          orchestrator.decide(`Who does ${titleOf(task)}?`, worker ?? 'nobody', reason)
          if (worker === undefined) return undone(orchestrator, task, reason, 'UNKNOWN_AGENT')
          const metadata = inheritedBy(orchestrator, worker, plan)
          return askWorker(orchestrator, worker, task, context, { ...limit, ...(metadata && { metadata }) })
        }

        /** Returns a task that replaces a failed one; undefined if there is none. */
        async function replanned({ task, result }: Finished): Promise<PlannedTask | undefined> {
          const question = `What is done in the place of ${titleOf(task)}?`
          const reason = result.errorDetails?.message ?? ''
          const failed = { task: task.description, agent: result.workerAgentRole, reason }
          let plan: Plan
          try {
            plan = await planAgain(orchestrator, planner, say('replan', { ...known(), ...failed }), workers(), task)
          } catch (error) {
            plan = { tasks: [], reasoning: `No plan: ${failureOf(orchestrator, error).message}` }
          }
          const [next] = plan.tasks
          orchestrator.decide(question, next?.description ?? 'nothing', plan.reasoning)
          return next
        }
      },
    }
  },
}

/** Failures with which the run fails as they are: whoever runs the team has to do something about it. */
const TOLD: ReadonlySet<unknown> = new Set<ErrorCode>([
  'CONFIGURATION',
  'BUDGET_EXCEEDED',
  'GUARDRAIL',
  'UNKNOWN_AGENT',
])

const nobodyLeft = (roles: readonly string[]) =>
  new UnknownAgentError(`None of the experts is in the team any more: ${roles.join(', ')}. Add one with addAgent().`)

/** Returns a line with the expert's name, its capabilities, and the keys among which a plan may choose. */
function expertAsLine(expert: Colleague & Worker): string {
  const { keys = [] } = expert
  return keys.length === 0 ? colleagueAsLine(expert) : `${colleagueAsLine(expert)}; keys: ${keys.join(', ')}`
}

function check(config: SupervisorConfig, team: readonly string[]): void {
  const agent = agentOf(team)
  shape<SupervisorConfig>(
    {
      strategy: oneOf('supervisor'),
      supervisor: agent,
      experts: agentsOf(team),
      fallback: agent,
      timeoutPerAgentMs: wait(),
      maxReplans: integer(0),
      aggregator: agent,
      flow: oneOf('multi_agent', 'graph', 'tools'),
      conflictResolution: oneOf(...CONFLICT_RULES),
      prompts: promptsOf(SUPERVISOR),
    },
    'supervisor',
    'experts',
  )(config, 'orchestration')
  const { experts, supervisor } = config
  const at = experts.indexOf(supervisor)
  if (at >= 0)
    throw refused(`orchestration.experts[${at}]`, supervisor, 'an expert', 'The supervisor plans for the others.')
}
