/** Types of a sub-task and its result. The mailboxes are the queues. Source: document 001, 3. */

/**
 * Data of a sub-task, sent as `structuredData` to the agent that runs it; its description is the content of the
 * message. It comes by the mailbox of its role: if the role has several `instances`, a free one takes it. It never
 * contains an API key. Source: document 001, 3.A.
 */
export interface SubTask {
  subTaskId: string
  /** Identifier of the run. */
  parentTaskId: string
  assignedAgentRole: string
  /** Name of the tool that the planner suggests. */
  toolName?: string
  /** Input for that tool, otherwise the description under `task`. */
  subTaskInput: Record<string, unknown>
  /** Results of the sub-tasks that it builds on. */
  contextSummary?: string
  /** Name of a set of API keys, for your own workers that have several sets. Built-in strategies never set it. */
  apiKeysConfigRef?: string
}

/**
 * Result of a sub-task. A code agent may answer with one as `structuredData`, and so let the sub-task fail without an
 * exception. Any other answer counts as COMPLETED, with its data or its content as `resultData`. FAILED is an answer
 * like any other: the run's `failures` lists only sub-tasks that ended with an error. Source: document 001, 3.B.
 */
export type SubTaskResult = { subTaskId: string; parentTaskId: string; workerAgentRole: string } & (
  | { status: 'COMPLETED'; resultData: unknown; errorDetails?: null }
  | { status: 'FAILED'; resultData?: null; errorDetails: { message: string; type?: string } }
)
