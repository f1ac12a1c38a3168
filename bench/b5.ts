/** A request of high priority to an agent whose mailbox another keeps full, against a relay, which has no priorities. */
import { atMost, type Benchmark } from './benchmark.ts'
import { runProgram } from './child.ts'
import { floorDetails } from './floors.ts'
import type { RoundTripPlan, RoundTrips } from './round-trips.ts'
import { median } from './statistics.ts'

const FIGURE = 'p50 over the relay'
const ROUNDS = 5
const p50s = (rounds: readonly RoundTrips[]) => rounds.map(({ p50 }) => p50)
const plan: RoundTripPlan = { count: 300, inFlight: 1, warmUp: 50, pauseMs: 2 }

export const b5: Benchmark<typeof FIGURE> = {
  id: 'B5',
  question: 'high priority to a flooded agent',
  must: { [FIGURE]: atMost(0.1) },
  goal: { [FIGURE]: atMost(0.01) },
  async run() {
    const relay: RoundTrips[] = []
    const dramatis: RoundTrips[] = []
    const floors: RoundTrips[] = []
    for (let round = 0; round < ROUNDS; round++) {
      relay.push(await runProgram<RoundTrips>('relay', ['beside-a-flood', JSON.stringify(plan)]))
      dramatis.push(await runProgram<RoundTrips>('round-trip', [JSON.stringify(plan), 'flooded']))
      floors.push(await runProgram<RoundTrips>('flooded', [JSON.stringify(plan)]))
    }
    return {
      ratios: { [FIGURE]: dramatis.map(({ p50 }, round) => p50 / relay[round]!.p50) },
      details: [
        { label: 'relay of posted objects, p50', value: median(p50s(relay)), unit: 'us' },
        { label: 'dramatis, p50', value: median(p50s(dramatis)), unit: 'us' },
        { label: 'relay of posted objects, p99', value: median(relay.map(({ p99 }) => p99)), unit: 'us' },
        { label: 'dramatis, p99', value: median(dramatis.map(({ p99 }) => p99)), unit: 'us' },
        ...floorDetails('four wake-ups beside such a flood, p50', 'us', p50s(dramatis), p50s(floors)),
      ],
    }
  },
}
