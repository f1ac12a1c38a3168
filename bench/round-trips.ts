/** The one clock for round trips, so that the runtime's and the relay's are taken in the same way. */
import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from './statistics.ts'

/** In us. */
export interface RoundTrips {
  p50: number
  p99: number
  /** Processor time of the whole process, for each request that counts. */
  cpuUs: number
}

export interface RoundTripPlan {
  count: number
  /** Requests open at any time. */
  inFlight: number
  /** So many go by before any counts: code is compiled, threads are awake. */
  warmUp: number
  /** From an answer to the next request; 0: at once. */
  pauseMs: number
}

/** Asks `count` times; each of `inFlight` lanes asks again when its answer is there. */
export async function measureRoundTrips(
  request: (i: number) => Promise<unknown>,
  { count, inFlight, warmUp, pauseMs }: RoundTripPlan,
): Promise<RoundTrips> {
  const tookMs: number[] = []
  let next = -warmUp
  let cpu = process.cpuUsage()
  const lane = async () => {
    while (next < count) {
      const i = next++
      if (i === 0) cpu = process.cpuUsage()
      const startedAt = performance.now()
      await request(i)
      if (i >= 0) tookMs.push(performance.now() - startedAt)
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  const { user, system } = process.cpuUsage(cpu)
  return { p50: percentile(tookMs, 0.5) * 1_000, p99: percentile(tookMs, 0.99) * 1_000, cpuUs: (user + system) / count }
}
