/** Types of executors: agents that take tasks of another, as that other sees them. */
import type { AgentStatus, TaskStatus } from './task.ts'

/** A sub-task, as the model that works on it has said. */
export interface SubtaskProgress {
  description: string
  status: 'pending' | 'in_progress' | 'completed' | 'failed'
  /** Parts that it was taken apart into. */
  subtasks: SubtaskProgress[]
}

/** How far an agent is with the message that it handles. */
export interface AgentProgress {
  runId: string
  /** Id of the message, which is that of its task if the message is one. */
  taskId: string
  /** The sub-task that it works on, with its place; undefined if it has not taken its task apart. */
  subtask?: string
  /** Sub-tasks that it has taken its task apart into. */
  subtasks: SubtaskProgress[]
  /** Number of times that its model was asked for the sub-task, or for the task. */
  round: number
  /** Number of rounds that it has for it: `maxRounds` of its role, and as many again with guidance of its manager. */
  maxRounds: number
  /** Number of messages that its model was asked with last. */
  messages: number
  /** The last of what was said in the turn, cut short. */
  lastMessages: { role: string; text: string }[]
}

/** How far the turn of a model is. */
export type Progress = Omit<AgentProgress, 'runId' | 'taskId'>

/** An agent that takes tasks of another, as that other sees it. */
export interface Executor {
  executor: string
  status: AgentStatus
  tasks: { id: string; task: string; status: TaskStatus; progress?: Progress }[]
}
