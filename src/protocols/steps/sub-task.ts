/** A part of a task on its way to a worker, and what comes back. The queues are the mailboxes. Source: document 001, 3. */

/**
 * What goes with a sub-task to the agent that is to do it, as `structuredData`; its description is the message's content.
 * It comes by the mailbox of its role: where a role has several `instances`, whoever is free takes it. No key is ever in it.
 * Source: document 001, 3.A.
 */
export interface SubTask {
  subTaskId: string
  /** The id of the run. */
  parentTaskId: string
  assignedAgentRole: string
  /** The tool that the planner has in mind. */
  toolName?: string
  /** For that tool, or else the description under `task`. */
  subTaskInput: Record<string, unknown>
  /** What came of the sub-tasks that it builds on. */
  contextSummary?: string
  /** The name of a set of keys, for workers of your own that have several. Built-in strategies name none. */
  apiKeysConfigRef?: string
}

/**
 * What came of a sub-task. An agent of code may answer with one as `structuredData`, and so fail it without throwing; any
 * other answer is taken for COMPLETED, with its data or its words as `resultData`. FAILED is an answer like any other: the run's
 * `failures` has those alone that ended with an error. Source: document 001, 3.B.
 */
export type SubTaskResult = { subTaskId: string; parentTaskId: string; workerAgentRole: string } & (
  | { status: 'COMPLETED'; resultData: unknown; errorDetails?: null }
  | { status: 'FAILED'; resultData?: null; errorDetails: { message: string; type?: string } }
)
