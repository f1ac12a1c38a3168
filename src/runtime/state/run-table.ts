/** Runs whose logs are kept, by their index in frames and by id. */
import type { Clock } from '../../clock.ts'
import { RunState } from './run-state.ts'

export class RunTable {
  readonly #clock: Clock
  readonly #runs = new Map<number, RunState>()
  #last = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  open(id: string, query: string, metadata?: Readonly<Record<string, string>>, threadId?: string): RunState {
    const run = new RunState(++this.#last, id, query, this.#clock.now(), metadata, threadId)
    this.#runs.set(run.index, run)
    return run
  }

  get(index: number): RunState | undefined {
    return this.#runs.get(index)
  }

  /** Finds a run, or the work that a message from outside has caused, by id. */
  find(id: string): RunState | undefined {
    for (const run of this.#runs.values()) if (run.id === id) return run
    return undefined
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
