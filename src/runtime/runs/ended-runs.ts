/**
 * Runs that are over: what they caused falls quiet, they are kept as long as the log has room for them, and then they
 * are forgotten.
 */
import type { Timer } from '../../clock.ts'
import { AgentTerminatedError, type DramatisError, RunAbortedError, RunTimeoutError } from '../../errors.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { cancelOpenTasks } from '../tasks/task-board.ts'
import type { Holds } from './process-holds.ts'

const KEPT_RUNS = 100
const KEPT_BYTES = 64 * 2 ** 20

export class EndedRuns {
  readonly #supervisor: Supervisor
  readonly #holds: Holds
  readonly #quietWithinMs: number
  readonly #forgotten: (run: RunState) => void
  /** Messages that nobody waits for are still under way in them. */
  readonly #quieting = new Map<RunState, Timer | undefined>()
  /** Over and quiet, oldest first. */
  readonly #kept: RunState[] = []

  /** `quietWithinMs` is the time that what a message from outside has caused may take; `forgotten` is told of each. */
  constructor(supervisor: Supervisor, holds: Holds, quietWithinMs: number, forgotten: (run: RunState) => void) {
    this.#supervisor = supervisor
    this.#holds = holds
    this.#quietWithinMs = quietWithinMs
    this.#forgotten = forgotten
  }

  add(run: RunState): void {
    this.#quieting.set(run, undefined)
    this.#holds.begin()
  }

  /** A message from outside a run is a run of its own that ends when what it caused is quiet. */
  open(threadId: string | undefined): RunState {
    const run = this.#supervisor.runs.open(this.#supervisor.frames.id(), '', undefined, threadId)
    run.over = true
    this.#holds.begin()
    const limit = this.#quietWithinMs
    this.#quieting.set(
      run,
      this.#supervisor.clock.timer(limit, () => {
        const text = `What a message caused did not fall quiet within ${limit} ms (globalTimeoutMs).`
        windDown(this.#supervisor, run, new RunTimeoutError(text, { runId: run.id, timeoutMs: limit }))
      }),
    )
    return run
  }

  get areQuiet(): boolean {
    return this.#quieting.size === 0
  }

  /** Retires those that fell quiet, and trims the logs of the others. */
  settle(): void {
    for (const run of this.#quieting.keys()) if (run.open <= 0) this.#retire(run)
    for (const run of this.#quieting.keys()) trimLog(run, this.#supervisor.directory.cells)
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
    run.boardOver.abort(new RunAbortedError('The run is over.', { runId: run.id }))
    for (const stop of run.subscriptions.values()) stop()
    run.subscriptions.clear()
    run.watches.clear()
    endAgentsOf(run, this.#supervisor)
    this.#supervisor.replies.runOver(run)
    this.#kept.push(run)
    this.#forgetOldest()
  }

  #forgetOldest(): void {
    let bytes = this.#kept.reduce((sum, { log }) => sum + log.bytes, 0)
    while (this.#kept.length > 1 && (this.#kept.length > KEPT_RUNS || bytes > KEPT_BYTES)) {
      const oldest = this.#kept.shift()!
      bytes -= oldest.log.bytes
      this.#forgotten(oldest)
      this.#supervisor.runs.forget(oldest)
    }
  }
}

/** One run takes as much of the log as all that are kept. */
export const trimLog = (run: RunState, cells: readonly Cell[]): void =>
  run.log.trim(KEPT_BYTES, () => new Set(memoriesOf(cells)))

/** Where messages stand that are not done with. */
function* memoriesOf(cells: readonly Cell[]): IterableIterator<Memory> {
  for (const cell of cells) for (const { memory } of cell.messages()) yield memory
}

/** The run's own agents go with it. */
function endAgentsOf(run: RunState, { lifecycle, directory }: Supervisor): void {
  for (const index of run.agents.values()) {
    const cell = directory.cells[index]!
    const gone = new AgentTerminatedError(`Agent "${cell.name}" went with its run.`, { agent: cell.name })
    void lifecycle.remove(cell, gone).then(() => directory.vacate(index))
  }
}

/** Everything that is under way in the run is told to stop, and nothing more is taken. */
export function windDown(supervisor: Supervisor, run: RunState, error: DramatisError): void {
  run.ending = error
  const { blocked, cancellation, directory, loop, ready } = supervisor
  for (const cell of directory.cells) {
    const { mailbox, instances } = cell
    const handed = instances.flatMap((each) => [...each.mailbox.handed.values()])
    for (const envelope of [...mailbox.parked, ...mailbox.queued(), ...handed]) {
      if (envelope.run !== run) continue
      cancellation.fail(cell, envelope, error)
    }
  }
  // What is held back until its turn has its permit again is not limited any more.
  for (const cell of directory.actors) if (cell.suspended.has(run.index)) ready.touch(cell)
  loop.wake()
  for (const { callee, envelope } of blocked.all) if (envelope.run === run) cancellation.fail(callee, envelope, error)
  cancelOpenTasks(supervisor, run)
  run.boardOver.abort(error)
}
