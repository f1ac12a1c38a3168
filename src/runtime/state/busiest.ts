/** Status and figures of an agent over all its instances. The agent's status is that of its busiest instance. */
import type { AgentStatus } from '../../actors/definition/task.ts'
import type { Cell } from './cell.ts'
import type { RunState } from './run-state.ts'

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

/** Checks whether an instance takes messages: with its thread, or passivated. */
export const isReady = ({ life, dormant }: Cell): boolean => life?.ready === true || dormant !== false

/** Sums a figure over all instances of an agent. */
export const sumOf = ({ instances }: Cell, figure: (each: Cell) => number): number =>
  instances.reduce((sum, each) => sum + figure(each), 0)

/** Returns the status of an agent: that of its busiest instance. */
export const statusOf = ({ instances }: Cell): AgentStatus => busiest(instances.map(statusOfOne))

/**
 * Returns the status of one instance. Its thread is the same between turns and within them, so the status follows from
 * its mailbox.
 */
function statusOfOne(cell: Cell): AgentStatus {
  if (cell.status !== 'idle' || cell.mailbox.handed.isEmpty) return cell.status
  return waitsForOthers(cell) ? 'waiting' : 'running'
}

/**
 * Checks whether each turn that an instance has under way waits: for other agents, for a person, for its reader, or,
 * when the person has answered, for the turn that has its place.
 */
export function waitsForOthers(cell: Cell): boolean {
  const calls = [...cell.first.calls.values()].filter(({ isOwnWork }) => !isOwnWork)
  const waiting = new Set([...cell.first.open.values(), ...calls].map(({ turn }) => turn))
  const { life } = cell
  for (const { turn, run } of cell.underWay)
    if (!waiting.has(turn) && !life?.parked(run) && !life?.awaitReader.has(turn) && !lacksPlace(cell, turn, run))
      return false
  return true
}

const lacksPlace = (cell: Cell, turn: number, run: RunState): boolean =>
  cell.mailbox.handed.shelved.has(turn) && !cell.mayReturn(run)
