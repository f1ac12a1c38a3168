/** What went through the queues of a run, as its messages have it: sub-tasks to the workers, and their results. */
import type { AgentMessage } from 'dramatis'
import { type SubTask, type SubTaskResult, subTaskResultSchema, subTaskSchema } from 'dramatis/protocols'

/** In the order in which they were given. */
export const subTasksIn = (messages: readonly AgentMessage[]): SubTask[] =>
  messages.flatMap(({ structuredData }) => subTaskSchema.safeParse(structuredData).data ?? [])

/** In the order in which the workers answered. */
export const resultsIn = (messages: readonly AgentMessage[]): SubTaskResult[] =>
  messages.flatMap(({ structuredData }) => subTaskResultSchema.safeParse(structuredData).data ?? [])
