/** Turns the answer of a worker into the result of its sub-task. */
import type { Outcome } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { resultOf } from './outputs.ts'
import type { SubTask, SubTaskResult } from './sub-task.ts'

/**
 * Returns the result of a request to a worker. An answer that claims to be a sub-task result, but is invalid or belongs
 * to another sub-task, counts as a failure.
 */
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
  // The worker's name is the one it was asked by, whatever its answer says.
  return data.status === 'FAILED' ? { ...data, ...head } : { ...data, ...head, resultData: data.resultData ?? null }
}

/** Returns the result of a sub-task that has no answer. */
export function failed(subTask: SubTask, message: string, type?: string): SubTaskResult {
  return { ...headOf(subTask), status: 'FAILED', resultData: null, errorDetails: { message, ...(type && { type }) } }
}

/** Returns an answer as text: its content, or its data if it has no content. */
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
