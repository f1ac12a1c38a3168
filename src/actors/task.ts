/** A piece of work that the protocol script has asked an agent for. */
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

export type AgentStatus =
  | 'starting'
  | 'idle'
  | 'running'
  | 'waiting'
  | 'restarting'
  | 'passivated'
  | 'stopped'
  | 'failed'

/** `deadline` is epoch ms. Its id is the id of the message that asked for it. */
export interface AgentTask {
  id: string
  description: string
  requiredCapabilities: string[]
  assignedTo: string | null
  status: TaskStatus
  priority: number
  deadline: number | null
  dependencies: string[]
  result: unknown
  parentTask: string | null
}

export type TaskInput = string | (Pick<AgentTask, 'description'> & Partial<Omit<AgentTask, 'id' | 'status' | 'result'>>)
