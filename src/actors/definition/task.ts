/** A piece of work that one agent, or the protocol script, has given to another. Source: document 002, 2.5. */

/**
 * Where a task is: under way, or how it ended. 'assigned': its agent has not begun. 'blocked': it waits for the tasks that it
 * depends on, or its agent for what it has delegated of it. 'handed_off': another task, whose parent it is, has taken its place.
 * 'refused': by its agent, or by the runtime before it began. 'cancelled': nobody wants it any more. 'pending' is for plans:
 * the runtime's own board has no task that nobody is to do.
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
  /** Names of capabilities: only an agent that declares them all is given it. Case does not count. */
  requiredCapabilities: string[]
  assignedTo: string | null
  status: TaskStatus
  /** In the mailbox of its agent higher goes first; 0. */
  priority: number
  /** Epoch ms: who gave the task waits for it until then, wherever it is. */
  deadline: number | null
  /** Ids of tasks of the same run: it comes to its agent when they are all completed. */
  dependencies: string[]
  /** What came of it: the structured data of the answer, or its content. */
  result: unknown
  /** The id of the task that it is a part of: the one that its giver's turn was at. */
  parentTask: string | null
}

/** A task that was given: the promise of it when it is done, and its id as soon as it is on its way. */
export type PendingTask = Promise<AgentTask> & { readonly id: Promise<string> }

/**
 * A task as one asks for it: what it is about, or that and more. `assignedTo` becomes whom it is given to; `parentTask` is the
 * task that the turn is at, unless it says otherwise. A task that there is can be given again: it becomes a new one.
 */
export type TaskInput = string | (Pick<AgentTask, 'description'> & Partial<Omit<AgentTask, 'id' | 'status' | 'result'>>)
