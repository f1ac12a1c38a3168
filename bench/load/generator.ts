/**
 * Begins executes: each when one has ended, or at fixed times. At fixed times an execute is measured from when it was
 * due; measured from when it began, a team that cannot keep up would look as quick as one that can.
 */
import { type Clock, systemClock } from '../../src/shared/clock.ts'
import type { Plan } from './options.ts'

export class Generator {
  begun = 0
  running = 0
  readonly #plan: Plan
  readonly #clock: Clock
  /** How many there are to be; without a rate, as many as there can be. */
  readonly #total: number
  readonly #limit: number
  #startedAt: number | undefined
  #changed = () => {}

  constructor(plan: Plan, clock: Clock = systemClock) {
    this.#plan = plan
    this.#clock = clock
    this.#total = plan.rate === null ? Number.POSITIVE_INFINITY : Math.max(1, Math.round(plan.rate * plan.seconds))
    this.#limit = plan.concurrency ?? Number.POSITIVE_INFINITY
  }

  /** Executes that are due and have not begun. */
  get behind(): number {
    const { rate } = this.#plan
    if (rate === null || this.#startedAt === undefined) return 0
    const passed = (this.#clock.monotonic() - this.#startedAt) / 1_000
    return Math.min(this.#total, Math.floor(passed * rate) + 1) - this.begun
  }

  /** Executes that should have begun and did not; those after an abort are not meant to. */
  notBegun = 0

  /**
   * Calls `execute` with the time it was due, for as long as the plan says or until `signal`; then waits up to
   * `lingerMs` for those under way. `execute` never rejects.
   */
  async run(execute: (dueAt: number) => Promise<void>, lingerMs: number, signal: AbortSignal): Promise<void> {
    const { rate, seconds } = this.#plan
    const onAbort = () => this.#changed()
    signal.addEventListener('abort', onAbort)
    const startedAt = this.#clock.monotonic()
    const endAt = startedAt + seconds * 1_000
    this.#startedAt = startedAt
    for (let now = startedAt; now < endAt && !signal.aborted; now = this.#clock.monotonic()) {
      const dueAt = rate === null ? now : startedAt + (this.begun * 1_000) / rate
      if (this.running >= this.#limit || this.begun >= this.#total) await this.#change(endAt - now)
      else if (dueAt > now) await this.#change(Math.min(dueAt, endAt) - now)
      else void this.#begin(execute(dueAt))
    }
    if (!signal.aborted && rate !== null) this.notBegun = this.#total - this.begun
    const lingerUntil = this.#clock.monotonic() + lingerMs
    for (let leftMs = lingerMs; this.running > 0 && leftMs > 0 && !signal.aborted; ) {
      await this.#change(leftMs)
      leftMs = lingerUntil - this.#clock.monotonic()
    }
    signal.removeEventListener('abort', onAbort)
  }

  async #begin(executed: Promise<void>): Promise<void> {
    this.begun += 1
    this.running += 1
    await executed
    this.running -= 1
    this.#changed()
  }

  /** Until an execute has ended or the signal is aborted, but no longer than that. */
  async #change(forMs: number): Promise<void> {
    const changed = new AbortController()
    this.#changed = () => changed.abort()
    await this.#clock.sleep(forMs, changed.signal).catch(() => {})
  }
}
