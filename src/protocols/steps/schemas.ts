/** What strategies check by zod. Loaded when there is something to check: a team of code starts without it. */
import { z } from 'zod'
import type { SubTask, SubTaskResult } from './sub-task.ts'

const id = z.string().min(1)
const parties = { subTaskId: id, parentTaskId: id }

/**
 * Checks a sub-task: as `input` of an agent, for one.
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

/** Checks a result: as `output` of an agent, for one. */
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

export const issuesOf = (error: z.ZodError): string => z.prettifyError(error)
