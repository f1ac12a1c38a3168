/** The runs whose logs are kept: by the index that frames have for them, and by id. */
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

  /** A run, or what a message from outside has caused. */
  find(id: string): RunState | undefined {
    for (const run of this.#runs.values()) if (run.id === id) return run
    return undefined
  }

  /** '' where the run is forgotten. */
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

  /** The run is over and quiet, and its log is no longer kept. */
  forget(run: RunState): void {
    this.#runs.delete(run.index)
  }
}
