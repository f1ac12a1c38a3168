/**
 * Allows code in a rehearsal to reach outside, within a step whose result is recorded. From its first real call on,
 * virtual time stands still until the step is done, and all that the step waits for is real.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { AgentFailedError } from '../../../errors.ts'
import type { SteppedClock } from '../virtual-clock.ts'
import type { Outside } from './outside.ts'

const LIMIT_MS = 60_000

export class Reach {
  readonly #clock: SteppedClock
  readonly #step: string
  readonly #limitMs: number
  readonly #over = new AbortController()
  #begun = false
  #late: (error: Error) => void = () => {}

  /** `step`: name of the step, for errors. `limitMs`: limit in real time, counted from the step's first real call. */
  constructor(clock: SteppedClock, step: string, limitMs = LIMIT_MS) {
    this.#clock = clock
    this.#step = step
    this.#limitMs = limitMs
  }

  get begun(): boolean {
    return this.#begun
  }

  /** True if the step has made a real call and is not over. */
  get lasts(): boolean {
    return this.#begun && !this.#over.signal.aborted
  }

  /**
   * Runs the step. Rejects if it takes too long, most likely because it waits for the team, which waits for the step.
   */
  run<T>(work: () => Promise<T> | T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#late = reject
      reaching.run(this, async () => work()).then(resolve, reject)
    })
  }

  /** Begins real time for the step. Returns false once the step is over. */
  begin(): boolean {
    if (this.#over.signal.aborted) return false
    if (this.#begun) return true
    this.#begun = true
    const text = `Step "${this.#step}" did not end within ${this.#limitMs} ms of its first real input or output. Time stands still in a rehearsal meanwhile: ask other agents, and sleep, outside of the step.`
    const timer = setTimeout(() => this.#late(new AgentFailedError(text, { step: this.#step })), this.#limitMs)
    const over = new Promise<void>((resolve) => {
      this.#over.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    void this.#clock.outside(over).then(() => clearTimeout(timer))
    return true
  }

  end(): void {
    this.#over.abort()
  }
}

const reaching = new AsyncLocalStorage<Reach>()

/** Checks whether a call may be real. If so, the step is real from now on. */
export const mayReach = (): boolean => reaching.getStore()?.begin() ?? false

/** Checks whether the calling code runs in real time. */
export const isReal = (): boolean => reaching.getStore()?.lasts ?? false

/** Stops the clock for work, except for code that has stopped it already: such code cannot wait for the clock. */
export const outsideOf =
  (clock: SteppedClock): Outside =>
  (work) =>
    isReal() ? work : clock.outside(work)
