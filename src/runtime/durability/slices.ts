/** Lets the event loop turn while long work is done that nobody waits for. */
import type { Scheduler } from '../../shared/clock.ts'

/** Time that such work takes before others have a turn, in ms. */
const SLICE_MS = 4

export class Slices {
  readonly #clock: Pick<Scheduler, 'defer' | 'monotonic'>
  readonly #signal: AbortSignal | undefined
  #since = 0

  /** `signal`: ends the work at its next turn. */
  constructor(clock: Pick<Scheduler, 'defer' | 'monotonic'>, signal?: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
  }

  get isOver(): boolean {
    return this.#clock.monotonic() - this.#since >= SLICE_MS
  }

  /** Resolves after a turn of the event loop if it is time for one. */
  async othersTurn(): Promise<void> {
    if (!this.isOver) return
    await new Promise<void>((resolve) => this.#clock.defer(resolve))
    this.#signal?.throwIfAborted()
    this.#since = this.#clock.monotonic()
  }
}
