/** How a model says what becomes of its task: that it takes it apart, and that a part is done. */
import { z } from 'zod'
import type { TaskStatus } from '../actors/definition/task.ts'
import { defineTool, type ToolContext } from '../actors/definition/tool.ts'

const MOST_SUBTASKS = 20

/** Fields of a tool by which a model says something, and no more. */
const STATEMENT = { readOnly: true, idempotent: true, sequential: true, timeoutMs: 5_000 }

const text = z.string().trim().min(1).max(2_000)

/** A part of a task, as `decompose_task` gives it back, or a task of a plan. */
export interface Subtask {
  /** Place in the list, from '1' on; the argument of `mark_subtask_complete`. */
  id: string
  description: string
  status: TaskStatus
}

/**
 * The tool `decompose_task`: a model names the parts of its task, in order; the answer numbers them.
 *
 * It is a statement and no more: the parts are no tasks of the team's board and nobody is given them (that is
 * `delegate`). Whoever reads the call's answer has them in this form.
 *
 * @example
 * const tools = [decomposeTask, markSubtaskComplete, ...workspace({ root: './work' })]
 */
export const decomposeTask = defineTool({
  name: 'decompose_task',
  description: 'Breaks the current task into subtasks, in the order in which they are to be done.',
  input: z.strictObject({
    task: text.optional().describe('The task that is broken up; the current one if it is left out.'),
    subtasks: z.array(text).min(1).max(MOST_SUBTASKS).describe('What is to be done in each.'),
  }),
  ...STATEMENT,
  run({ task = null, subtasks }, context) {
    tell(context, `broke its task into ${subtasks.length} subtasks`, { subtasks: subtasks.length })
    return { task, subtasks: numbered(subtasks) }
  },
})

/**
 * The tool `create_task_plan`: a model writes down the tasks of a request before it gives them away. A statement, as
 * {@link decomposeTask}: nobody is given them by it.
 */
export const createTaskPlan = defineTool({
  name: 'create_task_plan',
  description: 'Writes down the tasks of a request, in order, before they are delegated.',
  input: z.strictObject({
    goal: text.optional().describe('What the request is to come to.'),
    tasks: z.array(text).min(1).max(MOST_SUBTASKS).describe('What is to be done in each.'),
  }),
  ...STATEMENT,
  run({ goal = null, tasks }, context) {
    tell(context, `planned ${tasks.length} tasks`, { tasks: tasks.length })
    return { goal, tasks: numbered(tasks) }
  },
})

const numbered = (descriptions: readonly string[]): Subtask[] =>
  descriptions.map((description, index) => ({ id: `${index + 1}`, description, status: 'pending' }))

const UNNAMED =
  'No subtask was named, so this is for the first that decompose_task has listed and that is not done. If there is none, nothing was marked: name a subtask, or answer.'

/**
 * The tool `mark_subtask_complete`: a model says that a subtask is done, or that it failed and why. As with {@link
 * decomposeTask}, that is a statement: it ends no task of the team's board, which ends with its agent's reply. Whether
 * a subtask is open is not looked up: where none is named, the answer has a `note` that tells the model so.
 */
export const markSubtaskComplete = defineTool({
  name: 'mark_subtask_complete',
  description: 'Says that a subtask is done, or that it could not be done.',
  input: z.strictObject({
    subtask: text.optional().describe('Its id or its description; the current one if it is left out.'),
    success: z.boolean().default(true).describe('False if it could not be done.'),
    reason: text.optional().describe('What was done, or why it could not be.'),
  }),
  ...STATEMENT,
  run({ subtask = null, success, reason = null }, context) {
    const status: TaskStatus = success ? 'completed' : 'failed'
    tell(context, `says that a subtask is ${status}`, { status })
    return { subtask, status, reason, ...(subtask === null && { note: UNNAMED }) }
  },
})

/** Without what the model wrote: a log has no prompts in it. */
function tell(context: ToolContext, what: string, fields: object): void {
  const { runId, log } = context
  context.progress(what)
  log.info({ runId, ...fields }, what)
}
