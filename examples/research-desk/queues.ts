/** What went through the queues of a run, as its messages have it: sub-tasks to the workers, and their results. */
import type { AgentMessage } from 'dramatis'
import { type SubTask, type SubTaskResult, subTaskResultSchema, subTaskSchema } from 'dramatis/protocols'
import { z } from 'zod'

/** In the order in which they were given. */
export const subTasksIn = (messages: readonly AgentMessage[]): SubTask[] =>
  messages.flatMap(({ structuredData }) => subTaskSchema.safeParse(structuredData).data ?? [])

const withResults = z.object({ results: z.array(subTaskResultSchema) })

/** As who makes the answer gets them. */
export const resultsIn = (messages: readonly AgentMessage[]): SubTaskResult[] =>
  messages.flatMap(({ structuredData }) => withResults.safeParse(structuredData).data?.results ?? [])
