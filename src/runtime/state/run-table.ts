/** Runs whose logs are kept, by their index in frames and by id. */
import type { Clock } from '../../clock.ts'
import type { Launched } from '../log/records.ts'
import { RunOutput } from './run-output.ts'
import { RunState } from './run-state.ts'

/** Bytes that the log of one run has in memory, and those of all kept runs together. */
export const KEPT_BYTES = 64 * 2 ** 20

export class RunTable {
  readonly #clock: Clock
  readonly #runs = new Map<number, RunState>()
  #last = 0
  /** Bytes that the log of a run may have in memory. */
  most = KEPT_BYTES
  /** Runs whose log has more than that. */
  readonly large = new Set<RunState>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  open(id: string, query: string, metadata?: Readonly<Record<string, string>>, threadId?: string): RunState {
    const run = new RunState(++this.#last, id, query, this.#clock.now(), metadata, threadId)
    this.#add(run)
    return run
  }

  /** Adds a run that an earlier process has begun, under its index there. */
  reopen(
    index: number,
    {
      id,
      query,
      startedAt,
      metadata,
      threadId,
      models,
      budget,
      script,
      streams,
      messages,
      output,
      traceHeaders,
      parts,
    }: Launched,
  ): RunState {
    const run = new RunState(index, id, query, startedAt, metadata, threadId)
    run.models = models
    run.budget = budget
    run.script = script
    run.streams = streams === true
    run.messages = messages ?? []
    run.output = output && RunOutput.ofLog(output, id)
    run.traceHeaders = traceHeaders
    run.parts = parts
    this.#add(run)
    return run
  }

  #add(run: RunState): void {
    this.#runs.set(run.index, run)
    run.log.most = this.most
    run.log.onLarge = () => this.large.add(run)
  }

  /** Moves the runs that there are behind those of earlier processes, of which `last` is the highest index. */
  continueFrom(last: number): void {
    const runs = [...this.#runs.values()]
    this.#runs.clear()
    for (const run of runs) {
      run.index += last
      this.#runs.set(run.index, run)
    }
    this.#last += last
  }

  /** Highest index that a run has had. */
  get last(): number {
    return this.#last
  }

  get(index: number): RunState | undefined {
    return this.#runs.get(index)
  }

  /** Finds a run, or the work that a message from outside has caused, by id. */
  find(id: string): RunState | undefined {
    for (const run of this.#runs.values()) if (run.id === id) return run
    return undefined
  }

  /** Checks whether something of a thread is under way. */
  isOpen(threadId: string): boolean {
    for (const run of this.#runs.values()) if (run.threadId === threadId && (!run.over || run.open > 0)) return true
    return false
  }

  /** Returns the id of a run; '' if it is forgotten. */
  idOf(index: number): string {
    return this.#runs.get(index)?.id ?? ''
  }

  has(index: number): boolean {
    return this.#runs.has(index)
  }

  values(): Iterable<RunState> {
    return this.#runs.values()
  }

  get size(): number {
    return this.#runs.size
  }

  /** Forgets a run that is over and quiet. Its log is no longer kept. */
  forget(run: RunState): void {
    this.#runs.delete(run.index)
  }
}
