/** Turns the answer of a worker into the result of its sub-task. */
import type { Outcome } from '../../actors/definition/context/context.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { failedSubTask, resultOfSubTask, type SubTask, type SubTaskResult } from '../../mailbox/sub-task.ts'

/** Returns the result of a request to a worker. */
export function resultFrom(subTask: SubTask, outcome: Outcome): SubTaskResult {
  if (!outcome.ok) return failedSubTask(subTask, outcome.error.message, outcome.error.code)
  const { content, structuredData } = outcome.message
  return resultOfSubTask(subTask, content, structuredData)
}

const LATE: ReadonlySet<unknown> = new Set(['REQUEST_TIMEOUT', 'TURN_TIMEOUT', 'MESSAGE_EXPIRED'])

/** Checks for a sub-task that failed because its worker was late. */
export const isLate = ({ status, errorDetails }: SubTaskResult): boolean =>
  status === 'FAILED' && LATE.has(errorDetails.type)

/** Returns an answer as text: its content, or the data of its result if it has no content. */
export function wordsOf({ content }: AgentMessage, { resultData }: SubTaskResult): string {
  if (content !== '') return content
  return typeof resultData === 'string' ? resultData : JSON.stringify(resultData ?? null)
}
