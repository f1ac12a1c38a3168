/** The one clock for round trips, so that the runtime's and the relay's are taken in the same way. */
import { percentile } from './statistics.ts'

/** In us. */
export interface RoundTrips {
  p50: number
  p99: number
}

/** So many rounds go by before any counts: code is compiled, threads are awake. */
const WARM_UP = 5_000

/** Asks `count` times with `inFlight` requests open at any time, each lane asking again when its answer is there. */
export async function measureRoundTrips(
  request: (i: number) => Promise<unknown>,
  count: number,
  inFlight: number,
): Promise<RoundTrips> {
  const tookMs: number[] = []
  let next = -WARM_UP
  const lane = async () => {
    while (next < count) {
      const i = next++
      const startedAt = performance.now()
      await request(i)
      if (i >= 0) tookMs.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return { p50: percentile(tookMs, 0.5) * 1_000, p99: percentile(tookMs, 0.99) * 1_000 }
}
