/**
 * Runs that are over: they wait until their last messages are handled, are kept while the log has room for them, and
 * are then forgotten.
 */
import type { Timer } from '../../clock.ts'
import { AgentTerminatedError, type DramatisError, RunAbortedError, RunTimeoutError } from '../../errors.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import { KEPT_BYTES } from '../state/run-table.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { cancelOpenTasks } from '../tasks/task-board.ts'
import type { Holds } from './process-holds.ts'

const KEPT_RUNS = 100

interface Told {
  /** Called with each run of which nothing is under way any more. */
  quiet(run: RunState): void
  /** Called with each run that is forgotten. */
  forgotten(run: RunState): void
}

export class EndedRuns {
  readonly #supervisor: Supervisor
  readonly #holds: Holds
  readonly #quietWithinMs: number
  readonly #tell: Told
  /** Runs that still have messages under way that nobody waits for. */
  readonly #quieting = new Map<RunState, Timer | undefined>()
  /** Those of them that may be quiet by now. */
  readonly due = new Set<RunState>()
  /** Runs that are over and quiet, oldest first, with the bytes that each has in memory. */
  readonly #kept = new Map<RunState, number>()
  #keptBytes = 0

  /** `quietWithinMs` limits the time for all work that a message from outside has caused, in ms. */
  constructor(supervisor: Supervisor, holds: Holds, quietWithinMs: number, tell: Told) {
    this.#supervisor = supervisor
    this.#holds = holds
    this.#quietWithinMs = quietWithinMs
    this.#tell = tell
  }

  add(run: RunState): void {
    if (this.#quieting.has(run)) return
    this.#quieting.set(run, undefined)
    this.#await(run)
    this.#holds.begin()
  }

  /** Opens a run for a message from outside of any run. It ends when the work that the message has caused is done. */
  open(threadId: string | undefined): RunState {
    const run = this.#supervisor.runs.open(this.#supervisor.frames.id(), '', undefined, threadId)
    this.#supervisor.journal.keep(run, {
      kind: 'run.launched',
      id: run.id,
      query: '',
      startedAt: run.startedAt,
      metadata: {},
      ...(threadId !== undefined && { threadId }),
      models: {},
      timeoutMs: this.#quietWithinMs,
      priority: 0,
      target: 0,
      own: true,
    })
    this.takeUp(run)
    return run
  }

  /** Waits for the end of the work that a message from outside has caused. `leftMs`: how long it may still take. */
  takeUp(run: RunState, leftMs = this.#quietWithinMs): void {
    run.over = true
    run.isOwn = true
    run.log.isUnderWay = false
    this.#holds.begin()
    const limit = this.#quietWithinMs
    this.#quieting.set(
      run,
      this.#supervisor.clock.timer(leftMs, () => {
        const text = `What a message caused did not fall quiet within ${limit} ms (globalTimeoutMs).`
        windDown(this.#supervisor, run, new RunTimeoutError(text, { runId: run.id, timeoutMs: limit }))
      }),
    )
    this.#await(run)
  }

  #await(run: RunState): void {
    run.onQuiet = () => this.due.add(run)
    if (run.open <= 0) this.due.add(run)
  }

  /** Adds a run that had ended in an earlier process. Nothing else may be under way, so no reader may be called. */
  addOld(run: RunState): void {
    this.add(run)
    this.#supervisor.clock.defer(() => this.settle())
  }

  get areQuiet(): boolean {
    return this.#quieting.size === 0
  }

  /** Retires runs that have become quiet. */
  settle(): void {
    for (const run of this.due) {
      this.due.delete(run)
      if (run.open <= 0 && this.#quieting.has(run)) this.#retire(run)
    }
  }

  abort(run: RunState, error: DramatisError): void {
    if (this.#quieting.has(run)) windDown(this.#supervisor, run, error)
  }

  abortAll(error: DramatisError): void {
    for (const run of this.#quieting.keys()) this.abort(run, error)
  }

  #retire(run: RunState): void {
    this.#quieting.get(run)?.cancel()
    this.#quieting.delete(run)
    this.#holds.end()
    run.onQuiet = undefined
    run.end(() => new RunAbortedError('The run is over.', { runId: run.id }))
    for (const stop of run.subscriptions.values()) stop()
    run.subscriptions.clear()
    run.watches.clear()
    endAgentsOf(run, this.#supervisor)
    this.#supervisor.replies.runOver(run)
    const bytes = bytesOf(run)
    this.#kept.set(run, bytes)
    this.#keptBytes += bytes
    this.#tell.quiet(run)
    this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const [oldest, bytes] of this.#kept) {
      if (this.#kept.size === 1 || (this.#kept.size <= KEPT_RUNS && this.#keptBytes <= KEPT_BYTES)) return
      this.#kept.delete(oldest)
      this.#keptBytes -= bytes
      this.#tell.forgotten(oldest)
      this.#supervisor.parts.release(oldest)
      this.#supervisor.runs.forget(oldest)
    }
  }
}

/** Returns the bytes that a run has in memory. Parts that several runs refer to count for each. */
function bytesOf({ log, stored }: RunState): number {
  let bytes = log.bytes
  for (const part of stored.values()) bytes += part.length
  return bytes
}

/** Trims the log of a run. One run may use as many bytes as the logs of all kept runs together. */
export const trimLog = (run: RunState, cells: readonly Cell[], keptBytes: number): void =>
  run.log.trim(keptBytes, () => new Set(memoriesOf(cells)))

/** Yields the memory of each message that is not finished. */
function* memoriesOf(cells: readonly Cell[]): IterableIterator<Memory> {
  for (const cell of cells) for (const { memory } of cell.messages()) yield memory
}

/** Removes the agents that belong to the run alone. */
function endAgentsOf(run: RunState, { lifecycle, directory, journal, sharedStates }: Supervisor): void {
  for (const index of run.agents.values()) {
    const cell = directory.cells[index]
    if (cell?.run !== run) continue // it went in an earlier process
    const gone = new AgentTerminatedError(`Agent "${cell.name}" went with its run.`, { agent: cell.name })
    void lifecycle.remove(cell, gone).then(() => {
      journal.keep(run, { kind: 'agent.left', index })
      for (const each of cell.instances) each.state = undefined
      sharedStates.forget(index)
      directory.vacate(index)
    })
  }
}

/** Asks all open work of the run to stop, and accepts nothing more. */
export function windDown(supervisor: Supervisor, run: RunState, error: DramatisError): void {
  run.ending = error
  const { blocked, cancellation, directory, loop, ready } = supervisor
  for (const cell of directory.cells) {
    const { mailbox, instances } = cell
    const handed = instances.flatMap((each) => [...each.mailbox.handed.all()])
    for (const envelope of [...mailbox.parked, ...mailbox.queued(), ...handed]) {
      if (envelope.run !== run) continue
      cancellation.fail(cell, envelope, error)
    }
  }
  // Replies that are held back until a turn has its permit again are not limited any more.
  for (const cell of directory.actors) if (cell.suspended.has(run.index)) ready.touch(cell)
  loop.wake()
  for (const { callee, envelope } of blocked.all) if (envelope.run === run) cancellation.fail(callee, envelope, error)
  cancelOpenTasks(supervisor, run)
  run.end(() => error)
}
