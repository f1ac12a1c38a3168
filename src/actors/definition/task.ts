/**
 * Types of tasks. A task is a piece of work that an agent, or the protocol script, has given to another agent. Source:
 * document 002, 2.5.
 */

/**
 * State of a task: in progress, or how it ended.
 *
 * - 'pending': for plans only; the runtime's own board has no task without an assigned agent.
 * - 'assigned': its agent has not begun.
 * - 'blocked': it waits for the tasks that it depends on, or its agent waits for work that it has delegated for it.
 * - 'handed_off': another task, whose parent it is, has replaced it.
 * - 'refused': its agent has refused it, or the runtime has before the agent began.
 * - 'cancelled': its result is no longer needed.
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
 * State of an agent. 'waiting': its turn waits for other agents. 'passivated': it has no thread until its next message.
 * 'failed': stopped permanently, or until its cool-down is over.
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

/** A task of a run. */
export interface AgentTask {
  /** Id of the message that asked for the task. */
  id: string
  description: string
  /** Names of capabilities, in any letter case. Only an agent that declares all of them is given the task. */
  requiredCapabilities: string[]
  assignedTo: string | null
  status: TaskStatus
  /** Priority in the agent's mailbox; higher goes first. Default: 0. */
  priority: number
  /** Deadline in epoch ms. The agent that gave the task waits until then, wherever the task is. */
  deadline: number | null
  /** Ids of tasks of the same run. The agent gets this task when all of them are completed. */
  dependencies: string[]
  /** The structured data of the answer, or its content if there is no structured data. */
  result: unknown
  /** Id of the task that this one is a part of: the task of the turn that gave it. */
  parentTask: string | null
}

/** A task that was given: a promise of the completed task. `id` resolves as soon as the task is on its way. */
export type PendingTask = Promise<AgentTask> & { readonly id: Promise<string> }

/**
 * A task as a caller gives it: a description alone, or an object with more fields. `assignedTo` becomes the agent it is
 * given to. `parentTask` defaults to the task of the calling turn. An existing task can be given again: it becomes a
 * new one.
 */
export type TaskInput =
  | string
  | (Pick<AgentTask, 'description'> &
      Partial<Omit<AgentTask, 'id' | 'status' | 'result' | 'requiredCapabilities' | 'dependencies'>> & {
        requiredCapabilities?: readonly string[]
        dependencies?: readonly string[]
      })

/** Key of the metadata of a task's message that has what its giver adds to it: a JSON value. */
export const CONTEXT = 'context'
