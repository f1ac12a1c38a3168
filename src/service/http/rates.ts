/** How often a caller may send requests of a kind. */
import { BurstyRateLimiter, RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import { HttpError } from './problem.ts'

const BURST_S = 10

export class Rates {
  readonly #limiter: BurstyRateLimiter
  readonly #names: string

  /** `burst`: requests beyond `perSecond` within 10 seconds. `names`: the limits, as an error names them. */
  constructor({ perSecond, burst, names }: { perSecond: number; burst: number; names: string }) {
    this.#names = names
    this.#limiter = new BurstyRateLimiter(
      new RateLimiterMemory({ keyPrefix: 'rate', points: perSecond, duration: 1 }),
      new RateLimiterMemory({ keyPrefix: 'burst', points: burst, duration: BURST_S }),
    )
  }

  /**
   * Counts a request of a caller.
   *
   * @throws HttpError if there were too many.
   */
  async count(caller: string): Promise<void> {
    try {
      await this.#limiter.consume(caller)
    } catch (refused) {
      const waitS = Math.max(1, Math.ceil((refused as RateLimiterRes).msBeforeNext / 1_000))
      const detail = `Too many requests of "${caller}" (${this.#names}). Try again in ${waitS} s.`
      throw new HttpError('RATE_LIMITED', detail, { headers: { 'retry-after': String(waitS) } })
    }
  }
}
