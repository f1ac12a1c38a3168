/** Interruptions of runs. One run can have several: one for each turn whose code has changed. */
import type { DramatisError } from '../../errors.ts'
import type { OnMismatch } from '../../mailbox/envelope.ts'
import type { RunState } from '../state/run-state.ts'

/** Functions that let a run go on. */
export interface Interruption {
  /** Returns why the run cannot go on now, if there is a reason. */
  hindrance(): DramatisError | undefined
  /** Lets the run go on. `onMismatch`: what becomes of it if its code has changed. */
  goOn(onMismatch: OnMismatch): void
}

export class Interruptions {
  readonly #all = new Map<RunState, Interruption[]>()

  add(run: RunState, interruption: Interruption): void {
    const others = this.#all.get(run)
    if (others) others.push(interruption)
    else this.#all.set(run, [interruption])
  }

  has(run: RunState): boolean {
    return this.#all.has(run)
  }

  hindrance(run: RunState): DramatisError | undefined {
    for (const interruption of this.#all.get(run) ?? []) {
      const error = interruption.hindrance()
      if (error) return error
    }
    return undefined
  }

  /** Lets the run go on, whatever hinders it. */
  goOn(run: RunState, onMismatch: OnMismatch): void {
    const all = this.#all.get(run) ?? []
    this.#all.delete(run)
    for (const interruption of all) interruption.goOn(onMismatch)
  }

  /** Returns the runs in the order in which they were interrupted. */
  get all(): RunState[] {
    return [...this.#all.keys()]
  }
}
