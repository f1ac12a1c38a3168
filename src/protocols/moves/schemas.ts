/**
 * Zod schemas that strategies use. The file is loaded when there is something to check: a team of code agents starts
 * without it.
 */
import { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonIn } from '../../actors/model/structured-output.ts'
import type { SubTask, SubTaskResult } from '../../mailbox/sub-task.ts'
import { isObject } from '../../runtime/checks/checks.ts'
import { absent, condition } from './answer-forms.ts'
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
  replaces: id.optional(),
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
    status: z.enum(['FAILED', 'SKIPPED']),
    resultData: z.null().optional(),
    errorDetails: z.object({ message: z.string(), type: z.string().optional() }),
  }),
])

/** Agent that a plan may name. */
export interface Worker {
  readonly name: string
  /** Profiles of API keys that it holds. */
  readonly keys?: readonly string[]
}

/**
 * Schema of a plan for those agents: `{ tasks, reasoning }`. A plan with a task for another agent, or for one that does
 * not hold its keys, is sent back once, and so is one without `reasoning`. The second time the caller that runs the
 * plan decides what becomes of it. Source: document 004, task decomposition.
 */
export const planSchema = (workers: readonly Worker[]) => {
  const dependsOn = absent(
    z.array(z.int().min(1)).default([]).describe('Numbers, from 1, of the tasks whose results it needs.'),
  )
  const task = taskSchema(workers).extend({ dependsOn, runIf: condition })
  const plan = planOf(workers, task, MOST_TASKS).superRefine(({ tasks }, context) => {
    const circle = circleIn(tasks.map(({ dependsOn, runIf }, at) => ({ number: at + 1, needs: dependsOn, runIf })))
    if (circle) context.addIssue({ code: 'custom', message: circle, path: ['tasks'] })
  })
  return told(task, MOST_TASKS, plan)
}

/**
 * Schema of a task that replaces another, or of none. The planner is not asked for its dependencies or its condition:
 * it waits for what the replaced task waited for.
 */
export const replacementSchema = (workers: readonly Worker[]) => {
  const task = taskSchema(workers)
  return told(task, 1, planOf(workers, task, 1))
}

/** Returns the plan's schema. Models are told that `reasoning` is required. */
function told<T>(task: z.ZodType, most: number, plan: z.ZodType<T>): ModelSchema<unknown, T> {
  const { jsonSchema } = portable(z.object({ tasks: z.array(task).max(most), reasoning: reasoning() }))['~standard']
  return { '~standard': { ...plan['~standard'], jsonSchema } }
}

const reasoning = () => z.string().describe('Why these tasks, in a sentence.')

const taskSchema = (workers: readonly Worker[]) => {
  const profiles = [...new Set(workers.flatMap(({ keys = [] }) => keys))]
  const profile = profiles.length > 0 ? z.enum(profiles) : z.never({ error: 'no agent of the plan holds keys' })
  return z.object({
    agent: z
      .string()
      .min(1)
      .describe('Who is to do it.')
      .meta({ enum: workers.map(({ name }) => name) }),
    task: z.string().trim().min(1).describe('What to do, in the language of the question.'),
    tool: z.string().nullish().describe('The tool to use, if it has to be that one.'),
    input: z.preprocess(fromText, z.record(z.string(), z.unknown()).nullish()).describe('The input of that tool.'),
    apiKeysConfigRef: absent(profile.optional()).describe('The keys to use, if the agent holds several.'),
  })
}

/** Reads an input that is JSON within a text, as models are asked for it. A text without an object says nothing. */
function fromText(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const value = jsonIn(given)?.value
  return isObject(value) ? value : undefined
}

type Assigned = { agent: string; apiKeysConfigRef?: string | undefined }

function planOf<Task extends z.ZodType<Assigned>>(workers: readonly Worker[], task: Task, most: number) {
  let isSentBack = false
  return z
    .object({
      tasks: z.array(task).max(most),
      reasoning: absent(reasoning().optional()),
    })
    .superRefine(({ tasks, reasoning }, context) => {
      if (isSentBack) return
      const faults = tasks.map((task) => whyNot(task, workers))
      const at = faults.findIndex((fault) => fault !== undefined)
      const noReason = 'it is missing; say why these are the tasks'
      if (reasoning === undefined) context.addIssue({ code: 'custom', message: noReason, path: ['reasoning'] })
      if (at >= 0) context.addIssue({ code: 'custom', message: faults[at]!, path: ['tasks', at, 'agent'] })
      isSentBack = reasoning === undefined || at >= 0
    })
}

/** Returns the reason why the task cannot go to its agent, if there is one. */
function whyNot({ agent, apiKeysConfigRef: wanted }: Assigned, workers: readonly Worker[]): string | undefined {
  const worker = workers.find(({ name }) => name === agent)
  if (!worker) return `"${agent}" is none of ${workers.map(({ name }) => name).join(', ')}`
  if (wanted === undefined || worker.keys?.includes(wanted)) return undefined
  const holders = workers.filter(({ keys }) => keys?.includes(wanted)).map(({ name }) => name)
  return `"${agent}" does not hold the keys "${wanted}"; who does: ${holders.join(', ')}`
}
