/** Watches how long a store takes for what it is given, and tells when that is too long, and when it is over. */
import type { Scheduler, Timer } from '../../clock.ts'

/** Time in ms after which a store takes long: all that waits for the log waits so long, too. */
export const SLOW_MS = 10_000

export class StoreWatch {
  readonly #clock: Scheduler
  readonly #tell: (isSlow: boolean) => void
  /** Times since which the store is at work on something, the oldest first. */
  readonly #work = new Set<{ since: number }>()
  #look: Timer | undefined
  #isSlow = false
  #isOver = false

  constructor(clock: Scheduler, tell: (isSlow: boolean) => void) {
    this.#clock = clock
    this.#tell = tell
  }

  /** Has the store do something. What it throws is a rejection: a store of somebody's own may do that. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const entry = { since: this.#clock.monotonic() }
    this.#work.add(entry)
    this.#lookIn(SLOW_MS)
    let result: T
    try {
      result = await work()
    } finally {
      this.#work.delete(entry)
    }
    if (this.#isSlow && this.lagMs < SLOW_MS) this.#setSlow(false)
    return result
  }

  /** Time in ms that the store has been at work on the oldest thing that it has not done. */
  get lagMs(): number {
    const [oldest] = this.#work
    return oldest ? this.#clock.monotonic() - oldest.since : 0
  }

  /** Ends the watch: nothing is told any more. */
  end(): void {
    this.#isOver = true
    this.#look?.cancel()
  }

  #lookIn(ms: number): void {
    if (this.#isOver) return
    this.#look ??= this.#clock.timer(ms, () => {
      this.#look = undefined
      if (this.#work.size === 0) return
      const { lagMs } = this
      if (lagMs >= SLOW_MS && !this.#isSlow) this.#setSlow(true)
      this.#lookIn(lagMs < SLOW_MS ? SLOW_MS - lagMs : SLOW_MS)
    })
  }

  #setSlow(isSlow: boolean): void {
    this.#isSlow = isSlow
    if (!this.#isOver) this.#tell(isSlow)
  }
}
