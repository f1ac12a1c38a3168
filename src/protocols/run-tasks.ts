/** Runs the tasks of a plan: in parallel, except those that have to wait. A failed task does not stop the others. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../actors/definition/context.ts'
import type { ScriptResult } from '../actors/definition/protocol.ts'
import { INHERITED, type Inherited, PASS_ON, PASSED_ON } from '../actors/model/conversation.ts'
import { IN_WORDS } from '../actors/model/last-speaker.ts'
import { jsonIn } from '../actors/model/structured-output.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import {
  failedSubTask,
  NO_SUB_TASK,
  resultOfSubTask,
  type SubTask,
  type SubTaskResult,
  skippedSubTask,
} from '../mailbox/sub-task.ts'
import { isObject } from '../shared/checks.ts'
import { AgentFailedError, CancelledError, type DramatisError, ReplyInvalidError } from '../shared/errors.ts'
import { askFor, failureOf, isModel, outcomeOf } from './asking.ts'
import { combinedBy } from './combine.ts'
import type { Statement } from './conflict.ts'
import { type Conflict, conflictsAsData, withConflicts } from './conflicts.ts'
import type { Worker } from './forms.ts'
import { passedOn } from './pass-on.ts'
import type { Ended, RunIf } from './run-if.ts'
import { wordsOf } from './task-results.ts'
import { circleIn, type Finished, isDone, MOST_TASKS, type PlannedTask, runInOrder } from './tasks.ts'

const LATE: ReadonlySet<unknown> = new Set(['REQUEST_TIMEOUT', 'TURN_TIMEOUT', 'MESSAGE_EXPIRED'])

export const isLate = ({ status, errorDetails }: SubTaskResult): boolean =>
  status === 'FAILED' && LATE.has(errorDetails.type)

/** Returns one line per result, in the order of the plan, with the reason where there is none. */
export const joined = (finished: readonly Finished[]): string => finished.map(lineOf).join('\n')

/**
 * Returns the answer of an agent to `content`, which contains the results; it also gets them as data. If it fails, the
 * answer is the results of those who had some, joined.
 */
export async function synthesized(
  orchestrator: OrchestratorContext,
  agent: string,
  content: string,
  query: string,
  finished: readonly Finished[],
  conflicts: readonly Conflict[],
): Promise<ScriptResult> {
  const results = finished.map(({ task, result }) => ({ task: task.description, ...result }))
  const structuredData = { query, results, ...conflictsAsData(conflicts) }
  const found = finished.filter(isDone).map(({ result, words }) => `## ${result.workerAgentRole}\n\n${words}`)
  const instead = withConflicts(found.join('\n\n'), conflicts)
  return combinedBy(orchestrator, agent, content, { structuredData, metadata: IN_WORDS }, instead)
}

export const statementsOf = (finished: readonly Finished[]): Statement[] =>
  finished
    .filter(isDone)
    .map(({ result, words }) => ({ agent: result.workerAgentRole, value: result.resultData, text: words }))

export function resultsAsText(finished: readonly Finished[]): string {
  const headOf = ({ task, result }: Finished) => `## ${task.number}. ${task.description} (by ${result.workerAgentRole})`
  return finished.map((each) => `${headOf(each)}\n\n${lineOf(each)}`).join('\n\n')
}

function lineOf({ task, result, words }: Finished): string {
  if (result.status === 'COMPLETED') return words
  if (result.status === 'SKIPPED')
    return `(sub-task ${task.number} was skipped as planned: ${result.errorDetails.message})`
  return `(sub-task ${task.number} ${isLate(result) ? 'was late' : 'failed'}: ${result.errorDetails.message})`
}

/** `failures`: of agents that had no sub-task; the error has them as data. */
export function nothingDone(text: string, finished: readonly Finished[], failures: readonly Failure[] = []) {
  const listed = failures.map(({ agent, error }) => ({ agent, ...error.toJSON() }))
  const results = finished.map(({ result }) => result)
  return new AgentFailedError(text, { results, ...(listed.length > 0 && { failures: listed }) })
}

export interface Failure {
  readonly agent: string
  readonly error: DramatisError
}

/**
 * Returns the result of each task in the order of the plan, which must have no cycle. A task that builds on a failed
 * one is not run, and counts as failed, unless it is run because that has failed (`runIf`); others go on. It rejects
 * only if the run ends.
 *
 * @param perform runs a task by some agent. `context`: results of the tasks that it builds on. A failure of the task
 *   is in the result and does not reject.
 */
export async function runTasks(
  orchestrator: OrchestratorContext,
  tasks: readonly PlannedTask[],
  perform: (task: PlannedTask, context: string | undefined) => Promise<Finished>,
): Promise<Finished[]> {
  const run = async (task: PlannedTask, needed: Finished[]): Promise<Finished> => {
    orchestrator.signal.throwIfAborted()
    const failed = needed.filter(({ result }) => result.status === 'FAILED').map((each) => each.task.number)
    const missing = failed.filter((number) => number !== task.runIf?.task)
    if (missing.length === 0) return perform(task, needed.length > 0 ? resultsAsText(needed) : undefined)
    const reason = `It builds on what failed: sub-task ${missing.join(', ')}.`
    orchestrator.decide(`Is ${titleOf(task)} run?`, 'no', reason)
    return undone(orchestrator, task, `It was not run. ${reason}`)
  }
  const skip = (task: PlannedTask, reason: string): Finished => {
    orchestrator.decide(`Is ${titleOf(task)} run?`, 'skipped', reason)
    return { task, result: skippedSubTask(subTaskOf(orchestrator, task), reason), words: '' }
  }
  return runInOrder(tasks, { run, skip, ended })
}

const ended = ({ result, words }: Finished): Ended => ({
  outcome: OUTCOME[result.status],
  result: result.errorDetails?.message ?? result.resultData ?? words,
})

const OUTCOME = { COMPLETED: 'completed', FAILED: 'failed', SKIPPED: 'skipped' } as const

export function undone(orchestrator: OrchestratorContext, task: PlannedTask, why: string, type?: string): Finished {
  return { task, result: failedSubTask(subTaskOf(orchestrator, task), why, type), words: '' }
}

function subTaskOf(
  { runId }: OrchestratorContext,
  { number, description, tool, input, keys, replans = 0, ...task }: PlannedTask,
  agent = task.agent ?? 'nobody',
  context?: string,
): SubTask {
  const idOf = (times: number) => (times === 0 ? `${runId}.${number}` : `${runId}.${number}.${times}`)
  return {
    subTaskId: idOf(replans),
    ...(replans > 0 && { replaces: idOf(replans - 1) }),
    parentTaskId: runId,
    assignedAgentRole: agent,
    ...(tool !== undefined && { toolName: tool }),
    subTaskInput: input ?? { task: description },
    ...(context !== undefined && { contextSummary: context }),
    ...(keys !== undefined && { apiKeysConfigRef: keys }),
  }
}

const LONGEST_TITLE = 100

export function titleOf({ number, description }: Pick<PlannedTask, 'number' | 'description'>): string {
  const short = description.length > LONGEST_TITLE ? `${description.slice(0, LONGEST_TITLE)}...` : description
  return `sub-task ${number} (${short})`
}

/** Returns the result of the sub-task. Rejects only if the run ends. `results`: of those that it builds on. */
export async function askWorker(
  orchestrator: OrchestratorContext,
  agent: string,
  task: PlannedTask,
  results: string | undefined,
  options: Pick<RequestOptions, 'metadata' | 'timeoutMs' | 'wallClock'> = {},
): Promise<Finished> {
  const context = results && (await passedOn(orchestrator, agent, results))
  const subTask = subTaskOf(orchestrator, task, agent, context)
  const saysAll = task.tool === undefined && task.input === undefined && context === undefined
  const said = saysAll ? { metadata: { ...options.metadata, ...IN_WORDS } } : {}
  const asked = { ...options, structuredData: subTask, ...said }
  const outcome = await outcomeOf(agent, () => orchestrator.request(agent, task.description, asked))
  orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
  if (!outcome.ok) return { task, result: failedSubTask(subTask, outcome.error.message, outcome.error.code), words: '' }
  const { content, structuredData } = outcome.message
  const result = resultOfSubTask(subTask, content, structuredData)
  return { task, result, words: result.status === 'COMPLETED' ? content || wordsOf(result.resultData) : '' }
}

export const TAKEN_APART = 'Is the task taken apart?'

/**
 * Returns the sub-tasks that the agent names in a JSON array of strings; each runs after the one before it. With
 * `graph` the agent may give dependencies instead: `[{ task, dependsOn, runIf }]`, also under `tasks`. Returns
 * undefined if the task stays whole: the agent finds it atomic, or fails, or answers anything else. The trace has a
 * decision that says which.
 *
 * @throws {ReplyInvalidError} for dependencies that form a cycle, which the error names.
 */
export async function decompose(
  orchestrator: OrchestratorContext,
  agent: string,
  content: string,
  graph: boolean,
): Promise<readonly PlannedTask[] | undefined> {
  const whole = (reason: string): undefined => void orchestrator.decide(TAKEN_APART, 'no', reason)
  let message: AgentMessage
  try {
    message = await orchestrator.request(agent, content)
  } catch (thrown) {
    const error = failureOf(orchestrator, thrown)
    return whole(`"${agent}" failed: ${error.code}: ${error.message}`)
  }
  const answer = message.structuredData ?? jsonIn(message.content)?.value
  const tasks = await tasksIn(answer, graph)
  if (!tasks) return whole(`"${agent}" was asked for a list of sub-tasks in JSON, and answered something else.`)
  if (tasks.length === 0) return whole(`"${agent}" finds that it is done best in one piece.`)
  if (tasks.length > MOST_TASKS)
    return whole(`"${agent}" named ${tasks.length} sub-tasks, and ${MOST_TASKS} are the most.`)
  const circle = circleIn(tasks)
  if (circle) throw new ReplyInvalidError(`The plan of "${agent}" cannot be carried out: ${circle}.`, { agent, circle })
  orchestrator.decide(TAKEN_APART, `into ${tasks.length}`, `"${agent}" named them.`)
  return tasks
}

/** Returns undefined if the answer is no list of sub-tasks, and an empty list if it has no work in it. */
async function tasksIn(answer: unknown, graph: boolean): Promise<PlannedTask[] | undefined> {
  if (isListOf(answer, isText)) {
    const described = answer.map((text) => text.trim()).filter((text) => text !== '')
    return described.map((description, at) => ({ number: at + 1, description, needs: [], after: at }))
  }
  const listed: unknown = isObject(answer) && 'tasks' in answer ? answer.tasks : answer
  if (!graph || !isListOf(listed, isDependent)) return undefined
  if (listed.some(({ dependsOn }) => dependsOn?.some((number) => number > listed.length))) return undefined
  const conditions = await conditionsOf(listed)
  return conditions?.map((runIf, at) => ({
    number: at + 1,
    description: listed[at]!.task,
    needs: [...new Set(listed[at]!.dependsOn)],
    runIf,
  }))
}

async function conditionsOf(listed: readonly Dependent[]): Promise<(RunIf | undefined)[] | undefined> {
  if (!listed.some(({ runIf }) => runIf)) return listed.map(() => undefined)
  const { condition } = await import('./forms.ts') // loaded late, because most teams need no zod
  const read = listed.map(({ runIf }) => condition.safeParse(runIf))
  return read.every(({ success }) => success) ? read.map(({ data }) => data) : undefined
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isPlace = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 1

function isListOf<T>(value: unknown, is: (each: unknown) => each is T): value is T[] {
  return Array.isArray(value) && value.every(is)
}

interface Dependent {
  task: string
  dependsOn?: number[] | null
  runIf?: unknown
}

function isDependent(value: unknown): value is Dependent {
  if (!isObject(value) || !('task' in value) || !isText(value.task) || value.task.trim() === '') return false
  return !('dependsOn' in value) || value.dependsOn === null || isListOf(value.dependsOn, isPlace)
}

/* Inheritance of workers: a part of the conversation of the agent that plans for them. */

type Roles = Partial<Pick<OrchestratorContext, 'agents'>>

/**
 * Returns the metadata by which a planner's answer brings what those workers inherit. It is empty if none of them
 * inherits anything, and if the planner is code, which keeps its own conversation.
 */
export function passingOn(
  { agents = [] }: Roles,
  planner: string,
  workers: readonly string[],
): Record<string, unknown> {
  const inherits = new Set(agents.flatMap((agent) => (workers.includes(agent.name) ? (agent.inherits ?? []) : [])))
  return isModel(agents, planner) && inherits.size > 0 ? { [PASS_ON]: [...inherits] } : {}
}

/** Returns the metadata for a message to that worker with what it inherits, as the planner's answer has brought it. */
export function inheritedBy(
  { agents = [] }: Roles,
  worker: string,
  plan: AgentMessage | undefined,
): Record<string, unknown> | undefined {
  const inherits = agents.find(({ name }) => name === worker)?.inherits
  const text: unknown = inherits && Object(plan?.metadata[PASSED_ON])[inherits]
  if (!plan || typeof text !== 'string') return undefined
  return { [INHERITED]: { text, from: plan.sender } satisfies Inherited }
}

/* Asks an agent for a plan that assigns tasks to agents. */

export interface Plan {
  tasks: PlannedTask[]
  reasoning: string
  message?: AgentMessage
}

const CREATE_PLAN = { name: 'create_plan', description: 'Sets down the tasks, who is to do each, and why.' }

/**
 * Asks the planner for a plan for those agents. A plan that does not match the schema, or has a cycle, is sent back
 * once.
 *
 * @throws {ReplyInvalidError} when the second plan has such a fault too. A failure of the planner rejects as it is.
 */
export async function planTasks(
  orchestrator: OrchestratorContext,
  planner: string,
  content: string,
  workers: readonly Worker[],
): Promise<Plan> {
  const { planSchema } = await import('./forms.ts')
  const names = workers.map(({ name }) => name)
  const options = { asFunction: CREATE_PLAN, metadata: { ...passingOn(orchestrator, planner, names), ...NO_SUB_TASK } }
  const { value, message } = await askFor(orchestrator, planner, content, planSchema(workers), options)
  const tasks = value.tasks.map(({ dependsOn, runIf, ...task }, at) => {
    const named = [...new Set(dependsOn)]
    const needs = named.filter((number) => number <= value.tasks.length)
    const others = named.filter((number) => number > value.tasks.length)
    if (others.length > 0)
      orchestrator.decide(`What does sub-task ${at + 1} wait for?`, needs.join() || 'nothing', `There is no ${others}.`)
    return { ...planned(task, at + 1, needs), runIf }
  })
  return { tasks, reasoning: reasonOf(value, planner), message }
}

/** Asks for one task, or none, that replaces the given one. Rejects as `planTasks` does. */
export async function planAgain(
  orchestrator: OrchestratorContext,
  planner: string,
  content: string,
  workers: readonly Worker[],
  { number, needs, replans = 0 }: PlannedTask,
): Promise<Plan> {
  const { replacementSchema } = await import('./forms.ts')
  const schema = replacementSchema(workers)
  const options = { asFunction: CREATE_PLAN, metadata: NO_SUB_TASK }
  const { value } = await askFor(orchestrator, planner, content, schema, options)
  const tasks = value.tasks.map((task) => ({ ...planned(task, number, needs), replans: replans + 1 }))
  return { tasks, reasoning: reasonOf(value, planner) }
}

interface NamedTask {
  agent: string
  task: string
  tool?: string | null | undefined
  input?: Record<string, unknown> | null | undefined
  apiKeysConfigRef?: string | undefined
}

const planned = (
  { agent, task, tool, input, apiKeysConfigRef: keys }: NamedTask,
  number: number,
  needs: readonly number[],
): PlannedTask => ({
  number,
  description: task,
  needs,
  agent,
  ...(tool && { tool }),
  ...(input && (tool || Object.keys(input).length > 0) && { input }), // an empty input counts only with a tool
  ...(keys !== undefined && { keys }),
})

const reasonOf = ({ reasoning }: { reasoning?: string | undefined }, planner: string): string =>
  reasoning || `"${planner}" gave no reason.`

interface Asked {
  /** Number of requests that it may still get. */
  rounds: number
  readonly outcomes: Outcome[]
  now: { turn: Promise<void>; stop: AbortController } | undefined
}

export class Workers {
  readonly #orchestrator: OrchestratorContext
  readonly #answered: () => Promise<void>
  readonly #workers: ReadonlyMap<string, Asked>

  /** Each agent is asked at most `rounds` times, and is busy until `answered`, called after each answer, resolves. */
  constructor(
    orchestrator: OrchestratorContext,
    agents: readonly string[],
    rounds: number,
    answered: () => Promise<void>,
  ) {
    this.#orchestrator = orchestrator
    this.#answered = answered
    this.#workers = new Map(agents.map((agent) => [agent, { rounds, outcomes: [], now: undefined }]))
  }

  /** Turns that are open now. A turn does not reject if its request fails. */
  get turns(): Promise<void>[] {
    return [...this.#workers.values()].flatMap(({ now }) => now?.turn ?? [])
  }

  /** Outcomes of the requests that were not cancelled, agent by agent. */
  get outcomes(): Outcome[] {
    return [...this.#workers.values()].flatMap(({ outcomes }) => outcomes)
  }

  isFree(agent: string): boolean {
    const worker = this.#workers.get(agent)
    return worker !== undefined && !worker.now && worker.rounds > 0
  }

  ask(agent: string, content: string, options: RequestOptions): void {
    const worker = this.#workers.get(agent)
    if (!worker) return
    const stop = new AbortController()
    worker.rounds -= 1
    worker.now = { stop, turn: this.#turn(agent, worker, content, { ...options, signal: stop.signal }) }
  }

  async #turn(agent: string, worker: Asked, content: string, options: RequestOptions): Promise<void> {
    const outcome = await outcomeOf(agent, () => this.#orchestrator.request(agent, content, options))
    if (!options.signal?.aborted && !this.#orchestrator.signal.aborted) {
      worker.outcomes.push(outcome)
      await this.#answered()
    }
    worker.now = undefined
  }

  /** Lets some agents finish their turns, cancels the others, and returns the names of the cancelled ones. */
  async stopAllBut(some: ReadonlySet<string>, reason: string): Promise<string[]> {
    const others = [...this.#workers].filter(([agent, { now }]) => now && !some.has(agent))
    for (const [, { now }] of others) now?.stop.abort(new CancelledError(reason))
    await Promise.all(this.turns)
    return others.map(([agent]) => agent)
  }
}
