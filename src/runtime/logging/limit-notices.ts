/** Logs that something waits for a limit: which limit, and how high it is. Each limit at most once a minute. */
import type { Logger } from '../../actors/definition/logger.ts'
import type { Scheduler } from '../../clock.ts'

const PAUSE_MS = 60_000

export class LimitNotices {
  readonly #clock: Pick<Scheduler, 'monotonic'>
  readonly #logger: Logger
  /** Time of the last notice, by limit and kind. */
  readonly #said = new Map<string, number>()

  constructor(clock: Pick<Scheduler, 'monotonic'>, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** `option`: the option that sets the limit. `waits`: says who or what waits for it. */
  reached(option: string, limit: number, waits: string, fields: object = {}): void {
    if (this.#isDue(option))
      this.#logger.info({ ...fields, option, limit }, `${option} (${limit}) is reached: ${waits}`)
  }

  /** Notes that more than the limit is used. `why`: says what would happen otherwise. */
  exceeded(option: string, limit: number, why: string, fields: object = {}): void {
    if (!this.#isDue(`${option} exceeded`)) return
    this.#logger.warn({ ...fields, option, limit }, `${option} (${limit}) is exceeded: ${why}`)
  }

  #isDue(notice: string): boolean {
    const now = this.#clock.monotonic()
    if (now - (this.#said.get(notice) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return false
    this.#said.set(notice, now)
    return true
  }
}
