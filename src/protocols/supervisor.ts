/** A supervisor splits the query over experts, who work at the same time, and what they found becomes one answer. */
import type { OrchestratorContext, RequestOptions } from '../actors/definition/context/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { colleagueAsLine } from '../actors/model/prompt.ts'
import { DramatisError, ReplyInvalidError, UnknownAgentError } from '../errors.ts'
import { integer, oneOf, shape, wait } from '../runtime/checks/checks.ts'
import { refused } from '../runtime/checks/refused.ts'
import { agentOf, agentsOf } from './checks.ts'
import { promptsOf, speaking } from './prompts/prompts.ts'
import { SUPERVISOR } from './prompts/supervisor.ts'
import { askWorker } from './steps/ask-worker.ts'
import { lastWord } from './steps/last-word.ts'
import { resultOf } from './steps/outputs.ts'
import { type Plan, planAgain, planTasks } from './steps/plan-tasks.ts'
import { runTasks, titleOf, undone } from './steps/run-tasks.ts'
import { joined, nothingDone, resultsAsText, synthesized } from './steps/synthesize.ts'
import { type Finished, isDone, type PlannedTask } from './steps/task-plan.ts'
import type { Strategy } from './strategy.ts'

/** How a team with the strategy `supervisor` works: by a plan, by a fixed flow, or as one agent with tools. */
export type FlowMode = 'multi_agent' | 'graph' | 'tools'

/**
 * A supervisor splits the query over experts, who work at the same time, and what they found becomes one answer. Sources:
 * document 004; document 001, its `OrchestratorAgent`. Durations in ms.
 *
 * The supervisor answers `{ tasks: [{ agent, task, tool?, input?, dependsOn? }], reasoning }`, 100 tasks at most: code as data,
 * a model by calling the function `create_plan`, after tools of its own if it wants them. Where its client knows no functions, JSON
 * is as good. A plan that misses the schema, or goes in a circle, is sent back once. Each task goes to its expert with a `SubTask`
 * as `structuredData`. Who fails or is late fails its own task alone: the answer says what is missing, and `failures` has the
 * errors. The run fails if all tasks do, with a friendly text, and if the aggregator does; what was found is in its history then.
 *
 * @example
 * createTeam({
 *   agents,
 *   orchestration: { strategy: 'supervisor', supervisor: 'planner', experts: ['weather', 'finance'], fallback: 'general' },
 * })
 */
export interface SupervisorConfig<N extends string = string> {
  strategy: 'supervisor'
  /** Plans. */
  supervisor: N
  /**
   * Among whom it chooses: those of them that the team still has. It is told their names, descriptions and capabilities; a tool
   * that it is to name in a plan has to stand there.
   */
  experts: N[]
  /** Gets the tasks that are for nobody among the experts, and the query itself where there is no plan that can be used. */
  fallback?: N
  /**
   * From the start of an expert's turn, or of the fallback's that gets the query for want of a plan; 10,000. The time that models and
   * people take does not count (`communication.modelTimeoutMs`, `questionTimeoutMs`); that of tools does.
   */
  timeoutPerAgentMs?: number
  /** How often the supervisor is asked for another task in the place of one that failed, for each; 0. Not in the flow 'graph'. */
  maxReplans?: number
  /** Makes the answer of the results; the supervisor. */
  aggregator?: N
  /**
   * 'multi_agent': by the plan. 'graph': a fixed flow, each expert gets the query as its task. 'tools': the fallback, or else the
   * supervisor, answers alone; `inFlowMode` gives it the tools of the experts. 'multi_agent'.
   */
  flow?: FlowMode
  /** Texts of your own in the place of `plan`, `replan`, `combine` and `apology`. */
  prompts?: Partial<Record<string, string>>
}

/** Plans, has each task done, and makes one answer of what came of them. */
export const supervisor: Strategy<SupervisorConfig> = {
  strategy: 'supervisor',
  protocol(config, team) {
    check(config, team)
    const { fallback, timeoutPerAgentMs = 10_000, aggregator = config.supervisor, flow } = config
    const planner = config.supervisor
    const maxReplans = flow === 'graph' ? 0 : (config.maxReplans ?? 0)
    const experts = [...config.experts]
    const all = [...new Set(fallback === undefined ? experts : [...experts, fallback])]
    const say = speaking(SUPERVISOR, config.prompts)
    return {
      name: 'supervisor',
      async run(orchestrator, query) {
        const alone = async (agent: string, options?: RequestOptions): Promise<ScriptResult> =>
          resultOf({ agent, message: await lastWord(orchestrator, agent, query, options) })
        if (flow === 'tools') return alone(fallback ?? planner)

        const present = (names: readonly string[]) =>
          names.filter((name) => orchestrator.agents.some((agent) => agent.name === name))
        const roles = () => present(all)
        if (roles().length === 0) throw nobodyLeft(all)
        const known = () => ({ query, experts: expertsAsText(orchestrator, roles()) })
        const tasks = flow === 'graph' ? sameForAll(query, present(experts)) : await planned()
        if (tasks.length === 0) return alone(fallback ?? planner, { timeoutMs: timeoutPerAgentMs })
        const finished = await runTasks(orchestrator, tasks, perform)
        const failures = finished.filter((each) => !isDone(each))
        if (failures.length === finished.length)
          throw nothingDone(say('apology', { query, failures: joined(failures) }), finished)
        const content = say('combine', { query, results: resultsAsText(finished) })
        return synthesized(orchestrator, aggregator, content, query, finished)

        /** Empty where the fallback has to do without a plan. */
        async function planned(): Promise<readonly PlannedTask[]> {
          try {
            const { tasks, reasoning } = await planTasks(orchestrator, planner, say('plan', known()), roles())
            if (tasks.length === 0) throw noTask(planner)
            orchestrator.decide(
              'What is to be done?',
              tasks.length === 1 ? '1 task' : `${tasks.length} tasks`,
              reasoning,
            )
            return tasks
          } catch (error) {
            orchestrator.signal.throwIfAborted() // the end of the run is no failure of its agents
            if (fallback === undefined || !(error instanceof DramatisError)) throw error
            orchestrator.decide('What is to be done?', fallback, `It gets the query. No plan: ${error.message}`)
            return []
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
          const isKnown = roles().includes(agent)
          const worker = isKnown ? agent : fallback
          const reason = isKnown
            ? 'The plan says so.'
            : `"${agent}", whom the plan names, is none of ${roles().join(', ')}.`
          orchestrator.decide(`Who does ${titleOf(task)}?`, worker ?? 'nobody', reason)
          if (worker === undefined) return undone(orchestrator, task, reason, 'UNKNOWN_AGENT')
          return askWorker(orchestrator, worker, task, context, { timeoutMs: timeoutPerAgentMs })
        }

        /** Another task in its place; undefined where there is none. */
        async function replanned({ task, result }: Finished): Promise<PlannedTask | undefined> {
          const question = `What is done in the place of ${titleOf(task)}?`
          const reason = result.errorDetails?.message ?? ''
          const failed = { task: task.description, agent: result.workerAgentRole, reason }
          let plan: Plan
          try {
            plan = await planAgain(orchestrator, planner, say('replan', { ...known(), ...failed }), roles(), task)
          } catch (error) {
            orchestrator.signal.throwIfAborted()
            if (!(error instanceof DramatisError)) throw error
            plan = { tasks: [], reasoning: `No plan: ${error.message}` }
          }
          const [next] = plan.tasks
          orchestrator.decide(question, next?.description ?? 'nothing', plan.reasoning)
          return next
        }
      },
    }
  },
}

/** The plan of the fixed flow. */
const sameForAll = (query: string, experts: readonly string[]): PlannedTask[] =>
  experts.map((agent, at) => ({ number: at + 1, description: query, needs: [], after: 0, agent }))

const noTask = (agent: string) =>
  new ReplyInvalidError(`The plan of "${agent}" has no task. Name a fallback for what no expert can do.`, { agent })

const nobodyLeft = (roles: readonly string[]) =>
  new UnknownAgentError(`None of the experts is in the team any more: ${roles.join(', ')}. Add one with addAgent().`)

/** Who there is, and what each can do. */
const expertsAsText = ({ agents }: OrchestratorContext, roles: readonly string[]): string =>
  roles.map((role) => colleagueAsLine(agents.find(({ name }) => name === role) ?? { name: role })).join('\n')

function check(config: SupervisorConfig, team: readonly string[]): void {
  const agent = agentOf(team)
  const options = shape<SupervisorConfig>(
    {
      strategy: oneOf('supervisor'),
      supervisor: agent,
      experts: agentsOf(team),
      fallback: agent,
      timeoutPerAgentMs: wait(),
      maxReplans: integer(0),
      aggregator: agent,
      flow: oneOf('multi_agent', 'graph', 'tools'),
      prompts: promptsOf(SUPERVISOR),
    },
    'supervisor',
    'experts',
  )
  options(config, 'orchestration')
  const { experts, supervisor } = config
  const at = experts.indexOf(supervisor)
  if (at >= 0)
    throw refused(`orchestration.experts[${at}]`, supervisor, 'an expert', 'The supervisor plans for the others.')
}
