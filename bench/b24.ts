/** The first requests of two agents, whose code is not compiled yet, against a relay that begins as cold. */
import { atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { RoundTripPlan, RoundTrips } from './round-trips.ts'
import { median } from './statistics.ts'

const ROUNDS = 7

interface Question {
  readonly figure: string
  readonly of: 'p50' | 'cpuUs'
  readonly plan: Pick<RoundTripPlan, 'count' | 'warmUp'>
  readonly flags: readonly string[]
  readonly must: number
  readonly goal: number
}

const questions: readonly Question[] = [
  {
    figure: 'first 30 requests, p50 over the relay',
    of: 'p50',
    plan: { count: 30, warmUp: 0 },
    flags: [],
    must: 3.5,
    goal: 2.5,
  },
  {
    figure: 'requests 30 to 130, processor time over the relay',
    of: 'cpuUs',
    plan: { count: 100, warmUp: 30 },
    flags: [],
    must: 3,
    goal: 2,
  },
  {
    figure: 'without the optimizer, p50 over the relay',
    of: 'p50',
    plan: { count: 1_000, warmUp: 130 },
    flags: ['--no-opt'],
    must: 2.5,
    goal: 1.5,
  },
]

export const b24: Benchmark = {
  id: 'B24',
  question: 'first requests of an agent',
  must: Object.fromEntries(questions.map(({ figure, must }) => [figure, atMost(must)])),
  goal: Object.fromEntries(questions.map(({ figure, goal }) => [figure, atMost(goal)])),
  async run() {
    const ratios: Record<string, number[]> = {}
    const details: Detail[] = []
    for (const { figure, of, plan, flags } of questions) {
      const text = JSON.stringify({ ...plan, inFlight: 1, pauseMs: 0 } satisfies RoundTripPlan)
      const relay: number[] = []
      const dramatis: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        relay.push((await runProgram<RoundTrips>('relay', ['round-trip', text], {}, flags))[of])
        dramatis.push((await runProgram<RoundTrips>('round-trip', [text], {}, flags))[of])
      }
      ratios[figure] = dramatis.map((us, round) => us / relay[round]!)
      const what = figure.replace(' over the relay', '')
      details.push({ label: `relay of posted objects, ${what}`, value: median(relay), unit: 'us' })
      details.push({ label: `dramatis, ${what}`, value: median(dramatis), unit: 'us' })
    }
    return { ratios, details }
  },
}
