/** How often a caller may send what changes something. */
import { BurstyRateLimiter, RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import type { HttpLimits } from './options.ts'
import { HttpError } from './problem.ts'

const BURST_S = 10

export class Rates {
  readonly #limiter: BurstyRateLimiter

  constructor({ postsPerSecond, burst }: Pick<HttpLimits, 'postsPerSecond' | 'burst'>) {
    this.#limiter = new BurstyRateLimiter(
      new RateLimiterMemory({ keyPrefix: 'rate', points: postsPerSecond, duration: 1 }),
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
      const detail = `Too many requests of "${caller}" (limits.postsPerSecond, limits.burst). Try again in ${waitS} s.`
      throw new HttpError('RATE_LIMITED', detail, { headers: { 'retry-after': String(waitS) } })
    }
  }
}
