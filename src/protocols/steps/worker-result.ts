/** From the answer of a worker to the result of its sub-task. */
import type { Outcome } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { resultOf } from './outputs.ts'
import type { SubTask, SubTaskResult } from './sub-task.ts'

/** What came of asking a worker. What claims to be a result and is none, or another's, is a failure. */
export async function resultFrom(subTask: SubTask, outcome: Outcome): Promise<SubTaskResult> {
  if (!outcome.ok) return failed(subTask, outcome.error.message, outcome.error.code)
  const { message } = outcome
  const { content, structuredData } = message
  if (!isClaim(structuredData))
    return { ...headOf(subTask), status: 'COMPLETED', resultData: structuredData ?? content }
  const { subTaskResultSchema, issuesOf } = await import('./schemas.ts')
  const { data, error } = subTaskResultSchema.safeParse(structuredData)
  const invalid = (why: string) => failed(subTask, `Its answer is no result of a sub-task: ${why}`, 'REPLY_INVALID')
  if (!data) return invalid(issuesOf(error))
  const head = headOf(subTask)
  if (data.subTaskId !== head.subTaskId) return invalid(`it is of ${data.subTaskId}, not of ${head.subTaskId}.`)
  // Whatever it calls itself: it was asked by that name.
  return data.status === 'FAILED' ? { ...data, ...head } : { ...data, ...head, resultData: data.resultData ?? null }
}

/** The result of a sub-task that did not come to an answer. */
export function failed(subTask: SubTask, message: string, type?: string): SubTaskResult {
  return { ...headOf(subTask), status: 'FAILED', resultData: null, errorDetails: { message, ...(type && { type }) } }
}

/** An answer in words: its own, or its data where it has none. */
export function wordsOf(message: AgentMessage): string {
  const { content, structuredData } = message
  if (content !== '' || !isClaim(structuredData)) return resultOf({ agent: message.sender, message }).content
  const { resultData } = structuredData
  return typeof resultData === 'string' ? resultData : JSON.stringify(resultData ?? null)
}

const headOf = ({ subTaskId, parentTaskId, assignedAgentRole }: SubTask) => ({
  subTaskId,
  parentTaskId,
  workerAgentRole: assignedAgentRole,
})

function isClaim(data: unknown): data is { subTaskId: unknown; resultData?: unknown } {
  return typeof data === 'object' && data !== null && 'subTaskId' in data && 'status' in data
}
