/** A piece of work that one agent, or the protocol script, has given to another. Source: document 002, 2.5. */

/**
 * Where a task is: under way, or how it ended. 'blocked': its agent waits for what it has delegated of it. 'refused': by its
 * agent, or by the delegation graph.
 */
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
  /** Epoch ms: who gave the task waits for it until then. */
  deadline: number | null
  /** Ids of tasks, for whoever plans; the runtime waits for none of them. */
  dependencies: string[]
  /** What came of it: the structured data of the answer, or its content. */
  result: unknown
  /** The id of the task that it is a part of: the one that its giver's turn was at. */
  parentTask: string | null
}

/**
 * A task as one asks for it: what it is about, or that and more. `assignedTo` becomes whom it is given to; `parentTask` is the
 * task that the turn is at, unless it says otherwise. A task that there is can be given again: it becomes a new one.
 */
export type TaskInput = string | (Pick<AgentTask, 'description'> & Partial<Omit<AgentTask, 'id' | 'status' | 'result'>>)
