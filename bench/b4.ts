/** An agent's `context.request` to another and the answer, against the same through a relay of posted objects. */
import { atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import type { ManyCosts } from './many.ts'
import type { RoundTripPlan, RoundTrips } from './round-trips.ts'
import { median } from './statistics.ts'

const ONE = 'p50 over the relay, 1 in flight'
const SIXTEEN = 'p50 over the relay, 16 in flight'
const ROUNDS = 5
const REQUESTS = 20_000
const WARM_UP = 5_000

export const b4: Benchmark<typeof ONE | typeof SIXTEEN> = {
  id: 'B4',
  question: 'request round trip',
  must: { [ONE]: atMost(1.25), [SIXTEEN]: atMost(1.1) },
  goal: { [ONE]: atMost(1.05), [SIXTEEN]: atMost(0.9) },
  async run() {
    const one = await compare(1)
    const sixteen = await compare(16)
    return {
      ratios: { [ONE]: one.ratios, [SIXTEEN]: sixteen.ratios },
      details: [...one.details, ...sixteen.details],
    }
  },
}

async function compare(inFlight: number): Promise<{ ratios: number[]; details: Detail[] }> {
  const plan = JSON.stringify({ count: REQUESTS, inFlight, warmUp: WARM_UP, pauseMs: 0 } satisfies RoundTripPlan)
  const relay: RoundTrips[] = []
  const dramatis: RoundTrips[] = []
  const floors: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    relay.push(await runProgram<RoundTrips>('relay', ['round-trip', plan]))
    dramatis.push(await runProgram<RoundTrips>('round-trip', [plan]))
    if (inFlight > 1) continue // then messages share wake-ups
    const { warm } = await runProgram<ManyCosts>('wake-ups', ['ring', 2, 2 * REQUESTS])
    floors.push(2 * warm.us)
  }
  const detail = (name: string, times: RoundTrips[], key: keyof RoundTrips): Detail => ({
    label: `${name}, ${inFlight} in flight, ${key}`,
    value: median(times.map((time) => time[key])),
    unit: 'us',
  })
  const p50s = dramatis.map(({ p50 }) => p50)
  return {
    ratios: dramatis.map((time, round) => time.p50 / relay[round]!.p50),
    details: [
      detail('relay of posted objects', relay, 'p50'),
      detail('dramatis', dramatis, 'p50'),
      detail('relay of posted objects', relay, 'p99'),
      detail('dramatis', dramatis, 'p99'),
      ...(floors.length > 0 ? floorDetails('four wake-ups alone, mean', 'us', p50s, floors) : []),
    ],
  }
}
