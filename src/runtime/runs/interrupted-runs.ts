/**
 * Runs that are interrupted: they have no end, and nothing of them runs until they are resumed. A run is interrupted
 * because it is to be resumed by hand, because an agent is missing, or because its code has changed.
 */
import type { DramatisError } from '../../errors.ts'
import type { RunState } from '../state/run-state.ts'

/** Functions that let a run go on. */
export interface Interruption {
  /** Returns why the run cannot go on now, if there is a reason. */
  hindrance(): DramatisError | undefined
  /** Lets the run go on. */
  goOn(): void
}

export class InterruptedRuns {
  readonly #all = new Map<RunState, Interruption>()

  add(run: RunState, interruption: Interruption): void {
    this.#all.set(run, interruption)
  }

  has(run: RunState): boolean {
    return this.#all.has(run)
  }

  hindrance(run: RunState): DramatisError | undefined {
    return this.#all.get(run)?.hindrance()
  }

  /** Lets the run go on, whatever hinders it. */
  goOn(run: RunState): void {
    const interruption = this.#all.get(run)
    this.#all.delete(run)
    interruption?.goOn()
  }

  /** Returns the runs in the order in which they were interrupted. */
  get all(): RunState[] {
    return [...this.#all.keys()]
  }
}
