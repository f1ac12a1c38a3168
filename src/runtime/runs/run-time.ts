/** Time that a run has (`globalTimeoutMs`). It stands still while the run waits for people, and for nobody else. */
import type { Scheduler, Timer } from '../../shared/clock.ts'

export class RunTime {
  readonly #clock: Scheduler
  readonly #expire: () => void
  #leftMs: number
  /** Time since which the clock goes, monotonic ms. */
  #since: number
  #timer: Timer | undefined
  #isOver = false
  #pausedMs = 0

  /** `expire`: called when the time is up. */
  constructor(clock: Scheduler, limitMs: number, expire: () => void) {
    this.#clock = clock
    this.#expire = expire
    this.#leftMs = limitMs
    this.#since = clock.monotonic()
    this.#go()
  }

  get leftMs(): number {
    return this.#timer ? this.#leftMs - (this.#clock.monotonic() - this.#since) : this.#leftMs
  }

  get pausedMs(): number {
    return this.#pausedMs
  }

  pause(): void {
    if (!this.#timer) return
    this.#leftMs = this.leftMs
    this.#since = this.#clock.monotonic()
    this.#timer.cancel()
    this.#timer = undefined
  }

  resume(): void {
    if (this.#timer || this.#isOver) return
    const now = this.#clock.monotonic()
    this.#pausedMs += now - this.#since
    this.#since = now
    this.#go()
  }

  #go(): void {
    this.#timer = this.#clock.timer(Math.max(0, this.#leftMs), this.#expire, true)
  }

  cancel(): void {
    this.pause()
    this.#isOver = true
  }
}
