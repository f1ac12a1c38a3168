/** Strategy `hierarchical`: a manager plans and gives tasks to workers. */

import type { OrchestratorContext } from '../actors/definition/context.ts'
import type { AgentRole } from '../actors/definition/role.ts'
import { type AgentSettings, depthBound, MAX_DELEGATION_DEPTH } from '../runtime/settings/agent-settings.ts'
import type { TeamSettings } from '../runtime/settings/settings.ts'
import { flag, integer, oneOf, refused, shape } from '../shared/checks.ts'
import { DelegationRefusedError, UnknownAgentError } from '../shared/errors.ts'
import { CONFLICT_RULES, conflictsAmong, withConflicts } from './conflicts.ts'
import { type Autonomy, LedTasks } from './led-task.ts'
import type { Plan } from './manager.ts'
import { resultOf } from './positions.ts'
import { HIERARCHICAL, promptsOf, speaking } from './prompts.ts'
import type { Ended } from './run-if.ts'
import { titleOf } from './run-tasks.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, type Strategy } from './strategy.ts'
import { joinedResults, nothingDone, statementsOf, type TaskResult } from './task-results.ts'
import { runInOrder, unmetNeeds } from './tasks.ts'

/** Returns the settings with the changes of the hierarchy, which also apply to agents that are added later. */
function organized(settings: TeamSettings, config: HierarchicalConfig): TeamSettings {
  const { maxDelegationDepth = 2, workerAutonomy = 'low' } = config
  const why = `with workerAutonomy "${workerAutonomy}" the manager alone delegates`
  const isWorker = ({ name }: AgentSettings) => config.workers.includes(name)
  const names = settings.agents.map(({ name }) => name)
  return {
    ...settings,
    agents: settings.agents.map((agent, i) => {
      const others = names.filter((name) => name !== agent.name)
      return isWorker(agent) ? settings.newcomer(roleOf(agent, config), `agents[${i}]`, others) : agent
    }),
    newcomer(role, path, others, expected) {
      const agent = settings.newcomer(role, path, others, expected)
      return isWorker(agent) ? settings.newcomer(roleOf(agent, config), path, others, expected) : agent
    },
    delegation: workerAutonomy === 'high' ? depthBound(maxDelegationDepth) : { limit: 1, name: 'workerAutonomy', why },
  }
}

/** Returns a worker's role with its superior, and with verbs as tools for a model: code has all verbs. */
function roleOf({ role, playedByModel }: AgentSettings, config: HierarchicalConfig): AgentRole {
  const { maxDelegationDepth = 2, workerAutonomy = 'low', progressReporting = true } = config
  const { escalateTo = config.manager, tools = [], trust, delegationAllowed = true, canDelegateTo } = role
  const placed = { ...role, escalateTo }
  if (!playedByModel || trust === 'untrusted') return placed
  const isFree = workerAutonomy === 'high'
  const mayDelegate = delegationAllowed && canDelegateTo?.length !== 0 && maxDelegationDepth > 1
  const verbs = [
    ...(progressReporting ? ['report'] : []),
    ...(isFree ? ['request'] : []),
    ...(isFree && mayDelegate ? ['delegate'] : []),
  ]
  return { ...placed, tools: [...tools, ...verbs.filter((verb) => !tools.includes(verb))] }
}

/**
 * A manager plans and gives tasks to workers.
 *
 * The manager is asked for a plan, `{ tasks: [{ worker, task, dependsOn?, runIf? }], reasoning? }`, of up to 100 tasks.
 * `dependsOn` has the numbers, from 1, of the tasks whose results a task needs. The script delegates the tasks in the
 * manager's name, as parts of the manager's own task, as many at once as the dependencies allow. It delegates only to
 * workers to whom the manager's role may delegate; others are left out, which the trace says. A dependency that cannot
 * be met is left out. A task with `runIf` is skipped if its condition does not hold. A plan that does not match the
 * schema is sent back once; after that the run fails with `ReplyInvalidError`. A code agent as manager plans by
 * `structuredData`. A manager that answers without `tasks` has done the work itself, perhaps by `context.delegate`: its
 * answer is the result. A manager that gives no tasks (`tasks: []`) is asked for the answer.
 *
 * A worker gets its task by a message of type delegate, with the results of the tasks that it depends on. If the worker
 * fails or refuses, the manager decides once which worker gets the task next, if any. A task that stays undone is
 * listed in `failures`, and the others go on. The run fails if no task was done. A worker without `escalateTo`
 * escalates to the manager.
 *
 * Besides the text that a model reads, the manager gets data in `metadata.hierarchical`: `step` ('plan', 'approve',
 * 'review', 'reassign', 'alone' or 'summary') with those of `query`, `workers`, `worker`, `task`, `proposal`, `result`,
 * `error` and `results` that concern the step. A worker that is asked for a proposal gets `{ step: 'propose', task }`.
 * To approve or review, the manager answers `{ approved, remarks? }`. To reassign, it answers `{ worker, remarks? }`,
 * where `worker` can be null. If the manager's answer about a proposal cannot be understood, the task is not done. If
 * its answer about a result cannot be understood, the result counts.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'hierarchical', manager: 'lead', workers: ['ann', 'bob'] } })
 */
export interface HierarchicalConfig<N extends AgentName = AnyAgent> {
  strategy: 'hierarchical'
  /** Agent that plans and gives the final answer; it may not be a worker. */
  manager: N
  /** Agents to which the manager may give tasks. */
  workers: readonly N[]
  /**
   * Maximum depth of nested delegations, from 1 to 8. Default: 2. The manager's delegation is the first, also one that
   * it makes itself by `context.delegate`; with 1 no other agent delegates. A deeper delegation rejects with
   * `DelegationRefusedError` and is a dead letter. A handoff counts as a delegation. A task that the manager reassigns
   * when a worker escalates does not count.
   */
  maxDelegationDepth?: number
  /**
   * true: the manager makes the answer from the results. false, or if the manager fails then: the answer is the
   * results, each under its worker's name. Default: true.
   */
  managerSummarizes?: boolean
  /**
   * Level of what a worker may do without asking. Default: 'low'.
   *
   * - 'low': nothing. A request asks the worker how it would do its task, and the manager approves or corrects the
   *   proposal. Then the worker gets the task, and the manager reviews the result.
   * - 'medium': its own task. The manager reviews the result.
   * - 'high': also ask others, and give parts of its task to them, as far as its role and `maxDelegationDepth` allow.
   *   The result is not reviewed. A model agent has `request` and `delegate` as tools for that.
   *
   * A reviewed result is sent back with remarks at most once. Under 'low' and 'medium' all delegations and handoffs of
   * a worker are refused with `DelegationRefusedError`; it can still escalate. A `request` of a worker is not refused.
   */
  workerAutonomy?: Autonomy
  /**
   * true: a worker that is a model agent has the tool `report`; reports of workers go to the manager's `observe`.
   * Default: true.
   */
  progressReporting?: boolean
  /**
   * Way to settle contradictions between the results: 'vote' (by weights), 'priority' (of the agents), 'evidence' (as
   * under `parallel`), 'fail' (the run fails with `ConsensusError`), 'synthesize' (the manager decides). With one of
   * them the manager is asked first what the texts contradict each other about, by one more call. Default: the
   * manager decides, and the strategy finds only data that differs in a key, and sentences in the same words. What
   * is found is told with the results, and is in the trace.
   */
  conflictResolution?: 'vote' | 'priority' | 'evidence' | 'synthesize' | 'fail'
  /**
   * Your own texts by name, with the `{places}` of those in prompts.ts. `plan`, `alone`, `approve`,
   * `review`, `reassign` and `summary` are for the manager; `propose`, `task`, `earlier`, `agreed`, `remarks` and
   * `again` are for workers.
   */
  prompts?: Partial<Record<string, string>>
}

export const hierarchical: Strategy<HierarchicalConfig> = {
  strategy: 'hierarchical',
  prepare: (config, settings) => organized(settings, config),
  protocol(config, team) {
    check(config, team)
    const { managerSummarizes = true, workerAutonomy = 'low', conflictResolution: rule } = config
    const say = speaking(HIERARCHICAL, config.prompts)
    const loading = import('./manager.ts') // loaded late, because most teams need no zod
    const listed = { manager: config.manager, workers: [...config.workers] }
    return {
      name: 'hierarchical',
      async run(orchestrator, query) {
        const workers = withinReach(orchestrator, listed)
        const { Manager } = await loading
        const manager = new Manager(orchestrator, listed.manager, workers, query, say)
        const { value: plan, message } = await manager.plan()
        if (!plan || plan.tasks.length === 0) {
          const reason = plan ? `Its plan has no tasks. ${plan.reasoning}` : 'It has answered without a plan.'
          orchestrator.decide('Who does the work?', manager.name, reason)
          return resultOf({ agent: manager.name, message: plan ? await manager.alone() : message })
        }
        const led = new LedTasks(orchestrator, manager, workerAutonomy, say, message)
        const tasks = withoutUnmet(plan, orchestrator)
        const results = await runInOrder(tasks, {
          run: (task, earlier: TaskResult[]) => led.run({ ...task, parentTask: message.correlationId, earlier }),
          skip: ({ number, worker, task }, skipped): TaskResult => {
            orchestrator.decide(`Is ${titleOf({ number, description: task })} run?`, 'skipped', skipped)
            return { agent: worker, task, ok: false, skipped }
          },
          ended,
        })
        if (!results.some(({ ok }) => ok) && results.some(({ error }) => error)) throw nothingDone(results)
        const how = { rule, judge: rule && manager.name }
        const conflicts = await conflictsAmong(orchestrator, query, statementsOf(results), how)
        if (!managerSummarizes) return withConflicts(joinedResults(results), conflicts)
        return manager.summarize(results, conflicts)
      },
    }
  },
}

const ended = (result: TaskResult): Ended =>
  result.ok
    ? { outcome: 'completed', result: result.result }
    : { outcome: result.error ? 'failed' : 'skipped', result: result.error?.message ?? result.skipped }

const MOST_SHOWN = 5

/** The numbered tasks of a plan, without the dependencies that cannot be met; the trace says which. */
function withoutUnmet({ tasks }: Plan, orchestrator: OrchestratorContext) {
  const numbered = tasks.map(({ worker, task, dependsOn, runIf }, at) => ({
    number: at + 1,
    worker,
    task,
    needs: [...new Set(dependsOn)],
    runIf,
  }))
  const unmet = unmetNeeds(numbered).map(({ number, need }) => `${number} on ${need}`)
  if (unmet.length === 0) return numbered
  const shown = unmet.slice(0, MOST_SHOWN).join(', ') + (unmet.length > MOST_SHOWN ? ', and others' : '')
  const reason = `They close a circle, or name no task of the plan: ${shown}.`
  orchestrator.decide('How many dependencies of the plan are left out?', `${unmet.length}`, reason)
  const left = new Set(unmet)
  return numbered.map((task) => ({
    ...task,
    needs: task.needs.filter((need) => !left.has(`${task.number} on ${need}`)),
  }))
}

/** Returns the workers to which the manager may delegate: the host only sees that the script delegates. */
function withinReach(
  orchestrator: OrchestratorContext,
  { manager, workers }: Pick<HierarchicalConfig, 'manager' | 'workers'>,
): OrchestratorContext['agents'] {
  const role = orchestrator.agents.find(({ name }) => name === manager)
  const gone = `The manager "${manager}" has left the team: add it again with addAgent().`
  if (!role) throw new UnknownAgentError(gone, { agent: manager })
  const delegates = role.delegationAllowed !== false && role.trust !== 'untrusted'
  const reached = orchestrator.agents.filter(
    ({ name, canBeDelegatedTo }) =>
      workers.includes(name) && delegates && canBeDelegatedTo !== false && (role.canDelegateTo?.includes(name) ?? true),
  )
  const names = reached.map(({ name }) => name)
  const left = workers.filter((name) => !names.includes(name)).map((name) => `"${name}"`)
  const why = `not to ${left.join(', ')}: the roles forbid it (canDelegateTo, delegationAllowed, canBeDelegatedTo, trust), or they have left the team`
  const none = `"${manager}" may give tasks to none of its workers, ${why}. Change the roles.`
  if (names.length === 0) throw new DelegationRefusedError(none, { from: manager, to: [...workers] })
  if (left.length > 0)
    orchestrator.decide(`To whom may "${manager}" give tasks?`, names.join(', '), `N${why.slice(1)}.`)
  return reached
}

function check(config: HierarchicalConfig, team: readonly string[]): void {
  shape<HierarchicalConfig>(
    {
      strategy: oneOf('hierarchical'),
      manager: agentOf(team),
      workers: agentsOf(team),
      maxDelegationDepth: integer(1, MAX_DELEGATION_DEPTH),
      managerSummarizes: flag,
      workerAutonomy: oneOf('low', 'medium', 'high'),
      progressReporting: flag,
      conflictResolution: oneOf(...CONFLICT_RULES),
      prompts: promptsOf(HIERARCHICAL),
    },
    'manager',
    'workers',
  )(config, 'orchestration')
  const at = config.workers.indexOf(config.manager)
  if (at < 0) return
  const advice = 'Nobody delegates to itself; the manager answers without tasks where it needs nobody.'
  throw refused(`orchestration.workers[${at}]`, config.manager, 'an agent that is not the manager', advice)
}
