/** A piece of work that the protocol script has asked an agent for. Source: document 002, 2.5. */

/** Where a task is: under way, or how it ended. */
export type TaskStatus =
  | 'pending'
  | 'assigned'
  | 'in_progress'
  | 'blocked'
  | 'handed_off'
  | 'completed'
  | 'failed'
  | 'refused'
  | 'cancelled'

/**
 * What an agent does. 'waiting': its turn waits for other agents. 'failed': stopped for good, or until its cool-down is
 * over.
 */
export type AgentStatus =
  | 'starting'
  | 'idle'
  | 'running'
  | 'waiting'
  | 'restarting'
  | 'passivated'
  | 'stopped'
  | 'failed'

/** One task of a run. */
export interface AgentTask {
  /** The id of the message that asked for it. */
  id: string
  description: string
  requiredCapabilities: string[]
  assignedTo: string | null
  status: TaskStatus
  /** Higher goes first; 0. */
  priority: number
  /** Epoch ms. */
  deadline: number | null
  /** Ids of tasks. */
  dependencies: string[]
  /** What came of it: the structured data of the answer, or its content. */
  result: unknown
  /** The id of a task. */
  parentTask: string | null
}

/** A task as one asks for it: what it is about, or that and more. */
export type TaskInput = string | (Pick<AgentTask, 'description'> & Partial<Omit<AgentTask, 'id' | 'status' | 'result'>>)
