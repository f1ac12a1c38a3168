/** Splits a task into sub-tasks by asking an agent. Source: document 000, LLM-based task decomposition. */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { jsonIn } from '../../actors/model/structured-output.ts'
import { DramatisError, ReplyInvalidError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import type { RunIf } from './run-if.ts'
import { circleIn, MOST_TASKS, type PlannedTask } from './task-plan.ts'

/** Question of the decision in the trace. */
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
  orchestrator: Pick<OrchestratorContext, 'decide' | 'request' | 'signal'>,
  agent: string,
  content: string,
  graph: boolean,
): Promise<readonly PlannedTask[] | undefined> {
  const whole = (reason: string): undefined => void orchestrator.decide(TAKEN_APART, 'no', reason)
  let message: AgentMessage
  try {
    message = await orchestrator.request(agent, content)
  } catch (error) {
    orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    if (!(error instanceof DramatisError)) throw error
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
    after: 0,
    runIf,
  }))
}

/** Returns undefined if one of them is no condition. */
async function conditionsOf(listed: readonly Dependent[]): Promise<(RunIf | undefined)[] | undefined> {
  if (!listed.some(({ runIf }) => runIf)) return listed.map(() => undefined)
  const { condition } = await import('./answer-forms.ts') // loaded late, because most teams need no zod
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
