/** An agent may have several instances, and one status: that of the one that does most. */
import type { AgentStatus } from '../../actors/definition/task.ts'

const BY_WORK: readonly AgentStatus[] = [
  'running',
  'waiting',
  'idle',
  'starting',
  'restarting',
  'passivated',
  'failed',
  'stopped',
]

export const busiest = (statuses: readonly AgentStatus[]): AgentStatus =>
  statuses.length === 1 ? statuses[0]! : (BY_WORK.find((status) => statuses.includes(status)) ?? 'idle')
