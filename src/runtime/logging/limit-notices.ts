/**
 * Says what waits for a limit: as a line in the log, each limit at most once a minute; as an event, at most once a
 * minute for each run; and as data, at any time.
 */
import type { Logger } from '../../actors/definition/tool.ts'
import type { Scheduler } from '../../shared/clock.ts'

const PAUSE_MS = 60_000
/** Number of notices from which on those that are over are forgotten: there is one for each run that waits. */
const MANY = 1_000

export interface LimitReached {
  readonly option: string
  /** Value of the option; null where only a provider knows it. */
  readonly limit: number | null
  readonly runId?: string | undefined
  readonly agent?: string | undefined
}

export interface LimitWait extends LimitReached {
  /** Message whose turn waits, or for which a turn is to begin. */
  readonly messageId?: string | undefined
  /** Epoch ms. */
  readonly since: number
  /** Epoch ms at which the wait ends at the latest, if that is known. */
  readonly until?: number | undefined
  /**
   * Nobody waits, but people should know: a budget is used up, or another model of a list answers. `until`: when that
   * may change.
   */
  readonly trouble?: { readonly kind: 'budget' | 'switched'; readonly words: string }
}

export class LimitNotices {
  readonly #clock: Pick<Scheduler, 'monotonic'>
  readonly #logger: Logger
  readonly #said = new Map<string, number>()
  readonly #sources: (() => Iterable<LimitWait>)[] = []
  #told: (reached: LimitReached) => void = () => {}

  constructor(clock: Pick<Scheduler, 'monotonic'>, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  watch(waits: () => Iterable<LimitWait>): void {
    this.#sources.push(waits)
  }

  /** Sets who is told that a limit is reached: at most once a minute for each run. */
  onReached(told: (reached: LimitReached) => void): void {
    this.#told = told
  }

  *waits(): IterableIterator<LimitWait> {
    for (const source of this.#sources) yield* source()
  }

  /** Notes that something waits for a limit. `waits`: says what, for the log. */
  reached(reached: LimitReached, waits: string, fields: object = {}): void {
    const { option, limit } = reached
    if (this.#isDue(`${option} of ${reached.runId}`)) this.#told(reached)
    if (!this.#isDue(option)) return
    const height = limit === null ? '' : ` (${limit})`
    this.#logger.info({ event: 'limit.reached', ...reached, ...fields }, `${option}${height} is reached: ${waits}`)
  }

  /** Notes that more than the limit is used. `why`: says what would happen otherwise. */
  exceeded(option: string, limit: number, why: string, fields: object = {}): void {
    if (!this.#isDue(`${option} exceeded`)) return
    this.#logger.warn({ ...fields, option, limit }, `${option} (${limit}) is exceeded: ${why}`)
  }

  #isDue(notice: string): boolean {
    const now = this.#clock.monotonic()
    if (now - (this.#said.get(notice) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return false
    if (this.#said.size >= MANY) for (const [old, at] of this.#said) if (now - at >= PAUSE_MS) this.#said.delete(old)
    this.#said.set(notice, now)
    return true
  }
}
