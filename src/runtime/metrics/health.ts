/** Health of a team now, for the probes of the service that it runs in. */
import type { AgentStatus } from '../../actors/definition/task.ts'
import type { RunBook } from '../runs/runs.ts'
import { isReady, statusOf, sumOf } from '../state/busiest.ts'
import type { Cell } from '../state/cell.ts'
import type { Supervisor } from '../supervision/supervisor.ts'

/** State of a team for a service's probes. Durations are in ms. */
export interface Health {
  /** True until the team is closed. */
  live: boolean
  /**
   * True if all agents are ready for messages; of several instances one is enough. A passivated agent is ready: it
   * takes messages. False for good when the durable log is lost: no runs are taken then.
   */
  ready: boolean
  /** True after `close` was called. */
  draining: boolean
  /**
   * State of each agent by name. `queued`: messages that wait. `inFlight`: messages under way. `lastBeatMs`: time since
   * a turn ended. `staleFrames`: dropped frames that threads of the agent wrote after they had been given up; they are
   * counted when such a thread is gone.
   */
  agents: Record<
    string,
    {
      status: AgentStatus
      queued: number
      inFlight: number
      restarts: number
      lastBeatMs: number
      staleFrames: number
    }
  >
  runs: { running: number; queued: number }
  /**
   * Number of repairs of words in the memory that all threads share, because they differed from the host's records.
   * Above 0: code in some thread writes where only the runtime does.
   */
  sharedMemoryRepairs: number
  /** Number of dead letters in the list now. */
  deadLetters: number
  /** Number of dead letters that the full list has discarded: the oldest beyond 10,000, or beyond 64 MiB. */
  deadLettersForgotten: number
  /**
   * State of the durable log. `ok`: false if it is lost, if its disk is full, or if it has not taken something within
   * 10 s. `lagMs`: time that it has been at work on the oldest thing that it has not done.
   */
  log: { ok: boolean; lagMs: number }
}

export function healthOf(supervisor: Supervisor, runs: RunBook): Health {
  const { clock, journal } = supervisor
  const agents = supervisor.directory.agents()
  const now = clock.monotonic()
  return {
    live: !supervisor.loop.closed,
    ready: !runs.closing && !runs.isLost && agents.every(({ instances }) => instances.some(isReady)),
    draining: runs.closing,
    agents: Object.fromEntries(
      agents.map((cell) => [
        cell.name,
        {
          status: statusOf(cell),
          queued: cell.mailbox.waiting + cell.mailbox.parked.length,
          inFlight: cell.mailbox.underWay,
          restarts: sumOf(cell, ({ restarts }) => restarts),
          lastBeatMs: sinceTurn(cell, now),
          staleFrames: sumOf(cell, ({ staleFrames }) => staleFrames),
        },
      ]),
    ),
    runs: runs.counts,
    sharedMemoryRepairs: supervisor.repairs.count,
    deadLetters: journal.deadLetters.length,
    deadLettersForgotten: journal.deadLetters.forgotten,
    log: journal.health,
  }
}

/** Returns the ms since a turn of the agent has ended, or since its thread has started. */
function sinceTurn({ instances }: Cell, now: number): number {
  const ends = instances.flatMap(({ epoch, lastEndAt }) => (epoch === 0 ? [] : [lastEndAt]))
  return ends.length === 0 ? 0 : Math.max(0, now - Math.max(...ends))
}
