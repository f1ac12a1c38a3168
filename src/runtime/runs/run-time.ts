/** Time limit of a run. Its clock stands still while a person is asked in the run. */
import type { Scheduler, Timer } from '../../clock.ts'

interface Needs {
  readonly clock: Scheduler
  /** Called when the time is up. */
  expire(): void
}

export class RunTime {
  readonly #needs: Needs
  #leftMs: number
  /** Time since which the clock goes, monotonic ms. */
  #since: number
  #timer: Timer | undefined
  #isOver = false
  /** Time for which the clock has stood still, in ms. */
  #pausedMs = 0

  constructor(needs: Needs, limitMs: number) {
    this.#needs = needs
    this.#leftMs = limitMs
    this.#since = needs.clock.monotonic()
    this.#go()
  }

  /** Time that the run still has, in ms. */
  get leftMs(): number {
    return this.#timer ? this.#leftMs - (this.#needs.clock.monotonic() - this.#since) : this.#leftMs
  }

  get pausedMs(): number {
    return this.#pausedMs
  }

  pause(): void {
    if (!this.#timer) return
    this.#leftMs = this.leftMs
    this.#since = this.#needs.clock.monotonic()
    this.#timer.cancel()
    this.#timer = undefined
  }

  resume(): void {
    if (this.#timer || this.#isOver) return
    const now = this.#needs.clock.monotonic()
    this.#pausedMs += now - this.#since
    this.#since = now
    this.#go()
  }

  #go(): void {
    this.#timer = this.#needs.clock.timer(Math.max(0, this.#leftMs), () => this.#needs.expire(), true)
  }

  cancel(): void {
    this.pause()
    this.#isOver = true
  }
}
