/** How a team is now, for the probes of the service that it runs in. */
import type { AgentStatus } from '../../actors/definition/task.ts'
import type { RunBook } from '../runs/runs.ts'
import { statusOf, sumOf } from '../state/busiest.ts'
import type { Cell } from '../state/cell.ts'
import type { Supervisor } from '../supervision/supervisor.ts'

/** What a service's probes ask. Durations in ms. */
export interface Health {
  /** Not closed yet. */
  live: boolean
  /** All agents are ready for messages; of several instances one is enough. */
  ready: boolean
  /** `close` was called. */
  draining: boolean
  /**
   * `queued` messages wait, `inFlight` are under way; `lastBeatMs` ago a turn ended. `staleFrames`: what threads of the
   * agent wrote after they had been given up; it was dropped, and is counted when such a thread is gone.
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
   * How often a word of the memory that all threads share was not what the host knows, and was set right. Above 0: code in some
   * thread writes where only the runtime does.
   */
  sharedMemoryRepairs: number
  /** How many the list has now. */
  deadLetters: number
  /** How many dead letters the list has given up because it was full: the oldest beyond 10,000, or beyond 64 MiB. */
  deadLettersForgotten: number
  log: { ok: boolean; lagMs: number }
}

export function healthOf(supervisor: Supervisor, runs: RunBook): Health {
  const { clock, journal } = supervisor
  const agents = supervisor.directory.agents()
  const now = clock.monotonic()
  return {
    live: !supervisor.loop.closed,
    ready: !runs.closing && agents.every(({ instances }) => instances.some(({ life }) => life?.ready)),
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
    log: { ok: true, lagMs: 0 },
  }
}

/** How long ago a turn of the agent has ended, or its life has begun. */
function sinceTurn({ instances }: Cell, now: number): number {
  const ends = instances.flatMap(({ epoch, lastEndAt }) => (epoch === 0 ? [] : [lastEndAt]))
  return ends.length === 0 ? 0 : Math.max(0, now - Math.max(...ends))
}
