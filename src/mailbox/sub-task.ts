/** Sub-tasks and their results, as messages carry them. The mailboxes are the queues. */
import { AgentFailedError } from '../shared/errors.ts'

/**
 * Data of a sub-task, sent as `structuredData` to the agent that runs it; its description is the content of the
 * message. It comes by the mailbox of its role: if the role has several `instances`, a free one takes it. It never
 * contains an API key.
 */
export interface SubTask {
  subTaskId: string
  /** Identifier of the failed sub-task in whose place it was planned. */
  replaces?: string
  /** Identifier of the run. */
  parentTaskId: string
  assignedAgentRole: string
  /**
   * Name of the tool to use. If a model plays the worker and has that tool, the runtime calls it with `subTaskInput`.
   * If the input does not fit, the model has to call it first; another first answer is sent back once.
   */
  toolName?: string
  /** Input for that tool, otherwise the description under `task`. */
  subTaskInput: Record<string, unknown>
  /** Results of the sub-tasks that it builds on. */
  contextSummary?: string
  /**
   * Name of a profile of API keys (`keys` of the team) with which it is to be done. In a team with profiles it goes
   * only to an agent that holds that one.
   */
  apiKeysConfigRef?: string
}

/**
 * Result of a sub-task: the `structuredData` of each response to a message with a `SubTask`, also of one that is an
 * error, and to a task of the strategy `hierarchical`, whose id is `subTaskId`. The runtime makes it of the answer: its
 * data or else its content is `resultData`, and an error is FAILED, with its code as `type`. A code agent may answer
 * with a result of its own, and so let the sub-task fail without an exception: the run's `failures` lists only those
 * that ended with an error. SKIPPED is a sub-task that was not run, as its plan says (`runIf`); its `errorDetails` have
 * the reason.
 */
export type SubTaskResult = { subTaskId: string; parentTaskId: string; workerAgentRole: string } & (
  | { status: 'COMPLETED'; resultData: unknown; errorDetails?: null }
  | { status: 'FAILED' | 'SKIPPED'; resultData?: null; errorDetails: { message: string; type?: string } }
)

/** Fields of a sub-task that its result has too. */
export type SubTaskHead = Pick<SubTask, 'subTaskId' | 'parentTaskId' | 'assignedAgentRole'>

/**
 * Field of the metadata with the head of the sub-task that a message gives or answers. Nobody else may use it. Without
 * `subTaskId` that is the id of the message; without `assignedAgentRole` the message is no sub-task, but the tasks that
 * are given for it are.
 */
export const SUB_TASK = '$subTask'

/** Returns the metadata of a task without a `SubTask`, which is to be answered with a result all the same. */
export const asSubTask = (parentTaskId: string, assignedAgentRole?: string): Record<string, unknown> => ({
  [SUB_TASK]: { parentTaskId, ...(assignedAgentRole !== undefined && { assignedAgentRole }) },
})

/** Metadata of a request with which a strategy leads the work, or makes one answer of the results. */
export const NO_SUB_TASK: Readonly<Record<string, unknown>> = { [SUB_TASK]: {} }

/** Returns the head of a sub-task; undefined for any other value. */
export function headIn(value: unknown): SubTaskHead | undefined {
  const { subTaskId, parentTaskId, assignedAgentRole } = Object(value) as Partial<Record<keyof SubTask, unknown>>
  if (!isId(subTaskId) || !isId(parentTaskId) || !isId(assignedAgentRole)) return undefined
  return { subTaskId, parentTaskId, assignedAgentRole }
}

/**
 * Returns the result of a sub-task that was answered. An answer that claims to be a result, but is invalid or belongs
 * to another sub-task, is a failure.
 */
export function resultOfSubTask(head: SubTaskHead, content: string, data: unknown): SubTaskResult {
  if (!isClaim(data)) return { ...shared(head), status: 'COMPLETED', resultData: data ?? content }
  const fault = faultOf(data, head)
  if (fault) return failedSubTask(head, `Its answer is no result of a sub-task: ${fault}.`, 'REPLY_INVALID')
  // The worker's name is the one it was asked by, whatever its answer says.
  if (data.status === 'COMPLETED') return { ...shared(head), status: 'COMPLETED', resultData: data.resultData ?? null }
  const { message, type } = Object(data.errorDetails) as { message: string; type?: string }
  return failedSubTask(head, message, type)
}

/** Returns the result of a sub-task that has no answer. */
export function failedSubTask(head: SubTaskHead, message: string, type?: string): SubTaskResult {
  return { ...shared(head), status: 'FAILED', resultData: null, errorDetails: { message, ...(type && { type }) } }
}

/** Returns the result of a sub-task that is not run, as its plan says. */
export function skippedSubTask(head: SubTaskHead, reason: string): SubTaskResult {
  return { ...shared(head), status: 'SKIPPED', resultData: null, errorDetails: { message: reason } }
}

/**
 * Returns the data of a result.
 *
 * @throws {AgentFailedError} for one that is FAILED.
 */
export function dataOfResult(result: unknown, agent: string): unknown {
  const { resultData, errorDetails } = Object(result) as Partial<SubTaskResult>
  if (!errorDetails) return resultData
  const { message, type } = errorDetails
  throw new AgentFailedError(message, { agent, ...(type !== undefined && { type }) })
}

const shared = ({ subTaskId, parentTaskId, assignedAgentRole }: SubTaskHead) => ({
  subTaskId,
  parentTaskId,
  workerAgentRole: assignedAgentRole,
})

type Claim = { subTaskId: unknown; status: unknown; resultData?: unknown; errorDetails?: unknown }

function isClaim(data: unknown): data is Claim {
  return typeof data === 'object' && data !== null && 'subTaskId' in data && 'status' in data
}

function faultOf({ subTaskId, status, resultData, errorDetails }: Claim, head: SubTaskHead): string | undefined {
  if (subTaskId !== head.subTaskId) return `it is of ${String(subTaskId)}, not of ${head.subTaskId}`
  if (status === 'COMPLETED')
    return (errorDetails ?? null) === null ? undefined : 'it is COMPLETED, and has errorDetails'
  if (status !== 'FAILED') return `its status is ${JSON.stringify(status)}; COMPLETED or FAILED is needed`
  if ((resultData ?? null) !== null) return 'it is FAILED, and has resultData'
  const { message, type } = Object(errorDetails) as { message?: unknown; type?: unknown }
  const isTold = typeof message === 'string' && (type === undefined || typeof type === 'string')
  return isTold ? undefined : 'it is FAILED, and its errorDetails are no { message, type? } of texts'
}

const isId = (value: unknown): value is string => typeof value === 'string' && value !== ''
