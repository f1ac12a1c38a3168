/** Types of executors: agents that take tasks of another, as that other sees them. */
import type { AgentStatus, TaskStatus } from './task.ts'

/** How far the turn of a model is. */
export interface Progress {
  /** The sub-task that it works on, with its place; undefined if it has not taken its task apart. */
  subtask?: string
  /** Number of times that its model was asked for the sub-task, or for the task. */
  round: number
  maxRounds: number
  /** The last of what was said in the turn, cut short. */
  lastMessages: { role: string; text: string }[]
}

/** An agent that takes tasks of another, as that other sees it. */
export interface Executor {
  executor: string
  status: AgentStatus
  tasks: { id: string; task: string; status: TaskStatus; progress?: Progress }[]
}
