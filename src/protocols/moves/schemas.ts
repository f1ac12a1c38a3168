/**
 * Zod schemas that strategies use. The file is loaded when there is something to check: a team of code agents starts
 * without it.
 */
import { z } from 'zod'
import { jsonIn } from '../../actors/model/structured-output.ts'
import type { SubTask, SubTaskResult } from '../../mailbox/sub-task.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import { absent } from './answer-forms.ts'
import { portable } from './portable.ts'
import { circleIn, MOST_TASKS } from './task-plan.ts'

const id = z.string().min(1)
const parties = { subTaskId: id, parentTaskId: id }

/**
 * Schema of a sub-task, for example as the `input` of an agent.
 *
 * @example
 * defineAgent({ input: subTaskSchema, receive: ({ structuredData }) => search(structuredData.subTaskInput) })
 */
export const subTaskSchema: z.ZodType<SubTask> = z.object({
  ...parties,
  assignedAgentRole: id,
  toolName: id.optional(),
  subTaskInput: z.record(z.string(), z.unknown()),
  contextSummary: z.string().optional(),
  apiKeysConfigRef: id.optional(),
})

/** Schema of the result of a sub-task, for example as the `output` of an agent. */
export const subTaskResultSchema: z.ZodType<SubTaskResult> = z.discriminatedUnion('status', [
  z.object({
    ...parties,
    workerAgentRole: id,
    status: z.literal('COMPLETED'),
    resultData: z.unknown(),
    errorDetails: z.null().optional(),
  }),
  z.object({
    ...parties,
    workerAgentRole: id,
    status: z.literal('FAILED'),
    resultData: z.null().optional(),
    errorDetails: z.object({ message: z.string(), type: z.string().optional() }),
  }),
])

/**
 * Schema of a plan for those roles: `{ tasks, reasoning }`. A plan with a task for another agent is sent back once; the
 * second time the caller that runs the plan decides what becomes of it. Source: document 004, task decomposition.
 */
export const planSchema = (roles: readonly string[]) => {
  const dependsOn = absent(
    z.array(z.int().min(1)).default([]).describe('Numbers, from 1, of the tasks whose results it needs.'),
  )
  return portable(
    planOf(roles, taskSchema(roles).extend({ dependsOn }), MOST_TASKS).superRefine(({ tasks }, context) => {
      const circle = circleIn(tasks.map(({ dependsOn }, at) => ({ number: at + 1, needs: dependsOn })))
      if (circle) context.addIssue({ code: 'custom', message: circle, path: ['tasks'] })
    }),
  )
}

/**
 * Schema of a task that replaces another, or of none. The planner is not asked for its dependencies: it waits for what
 * the replaced task waited for.
 */
export const replacementSchema = (roles: readonly string[]) => portable(planOf(roles, taskSchema(roles), 1))

const taskSchema = (roles: readonly string[]) =>
  z.object({
    agent: z.string().min(1).describe('Who is to do it.').meta({ enum: roles }),
    task: z.string().trim().min(1).describe('What to do, in the language of the question.'),
    tool: z.string().nullish().describe('The tool to use, if it has to be that one.'),
    input: z.preprocess(fromText, z.record(z.string(), z.unknown()).nullish()).describe('The input of that tool.'),
  })

/** Reads an input that is JSON within a text, as models are asked for it. A text without an object says nothing. */
function fromText(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const value = jsonIn(given)?.value
  return isObject(value) ? value : undefined
}

function planOf<Task extends z.ZodType<{ agent: string }>>(roles: readonly string[], task: Task, most: number) {
  let isSentBack = false
  return z
    .object({
      tasks: z.array(task).max(most),
      reasoning: absent(z.string().default('').describe('Why these tasks, in a sentence.')),
    })
    .superRefine(({ tasks }, context) => {
      const at = tasks.findIndex(({ agent }) => !roles.includes(agent))
      if (at < 0 || isSentBack) return
      isSentBack = true
      const message = `"${tasks[at]!.agent}" is none of ${roles.join(', ')}`
      context.addIssue({ code: 'custom', message, path: ['tasks', at, 'agent'] })
    })
}
