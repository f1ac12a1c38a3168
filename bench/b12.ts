/**
 * The search for a deadlock, which is made whenever a turn begins to wait: among a few turns and among many. Beside it: what a
 * whole look takes, with the reading of who waits; and what the detectors cost B1, B4 and B14.
 */
import { atMost, type Benchmark, type Detail } from './benchmark.ts'
import { runProgram } from './child.ts'
import type { AllToAll } from './programs/all-to-all.ts'
import type { DeadlockCheck } from './programs/deadlock-check.ts'
import { DETECTORS, type Detectors } from './programs/detectors.ts'
import type { RoundTripPlan, RoundTrips } from './round-trips.ts'
import { median } from './statistics.ts'
import { SIZE } from './workload.ts'

const FEW = 32
const MANY = 2_048
const AMONG_FEW = 'us for a check, 32 turns'
const AMONG_MANY = 'ms for a check, 2,048 turns'
const ROUNDS = 5
const LOADED_ROUNDS = 3
const CHECKS_AMONG_FEW = 50_000
const CHECKS_AMONG_MANY = 2_000

export const b12: Benchmark<typeof AMONG_FEW | typeof AMONG_MANY> = {
  id: 'B12',
  question: 'deadlock check for each wait',
  must: { [AMONG_FEW]: atMost(50), [AMONG_MANY]: atMost(1) },
  goal: { [AMONG_FEW]: atMost(20), [AMONG_MANY]: atMost(0.25) },
  async run() {
    const few: DeadlockCheck[] = []
    const many: DeadlockCheck[] = []
    for (let round = 0; round < ROUNDS; round++) {
      few.push(await runProgram<DeadlockCheck>('deadlock-check', [FEW, CHECKS_AMONG_FEW]))
      many.push(await runProgram<DeadlockCheck>('deadlock-check', [MANY, CHECKS_AMONG_MANY]))
    }
    const toName = (checks: DeadlockCheck[]) => median(checks.map(({ msToName }) => msToName))
    return {
      ratios: {
        [AMONG_FEW]: few.map(({ msPerCheck }) => msPerCheck * 1_000),
        [AMONG_MANY]: many.map(({ msPerCheck }) => msPerCheck),
      },
      details: [
        { label: 'to find and name a cycle of 32', value: toName(few), unit: 'ms' },
        { label: 'to find and name a cycle of 2,048', value: toName(many), unit: 'ms' },
        ...(await wholeLooks()),
        ...(await costs()),
      ],
    }
  },
}

async function wholeLooks(): Promise<Detail[]> {
  const details: Detail[] = []
  for (const [turns, checks, waiting] of [
    [FEW, 5_000, 0],
    [FEW, 5_000, 50_000],
    [MANY, 200, 0],
  ] as const)
    details.push({
      label: `a whole look, ${turns} turns, each waits for the next${waiting > 0 ? `, ${waiting.toLocaleString('en')} messages wait` : ''}`,
      value: await runProgram<number>('live-deadlock-check', [turns, checks, waiting]),
      unit: 'ms',
    })
  return details
}

const PLAN = JSON.stringify({ count: 20_000, inFlight: 1, warmUp: 5_000, pauseMs: 0 } satisfies RoundTripPlan)

/** Each gives more for what is worse. */
const LOADS: Readonly<Record<string, (env: NodeJS.ProcessEnv) => Promise<number>>> = {
  'B1, time of a message': async (env) => 1 / (await runProgram<number>('one-way', [400_000, SIZE, 1], env)),
  'B4, p50 of a round trip': async (env) => (await runProgram<RoundTrips>('round-trip', [PLAN], env)).p50,
  'B14, time of a message': async (env) => 1 / (await runProgram<AllToAll>('all-to-all', [16, 1_500], env)).rate,
}

/** What each load takes with these detectors, over what it takes with none. */
async function costs(): Promise<Detail[]> {
  const details: Detail[] = []
  for (const [label, load] of Object.entries(LOADS)) {
    const taken: Record<Detectors, number[]> = { none: [], default: [], all: [] }
    for (let round = 0; round < LOADED_ROUNDS; round++)
      for (const detectors of ['none', 'default', 'all'] as const)
        taken[detectors].push(await load({ [DETECTORS]: detectors }))
    for (const detectors of ['default', 'all'] as const)
      details.push({
        label: `${label}, ${detectors === 'all' ? 'both detectors' : 'the deadlock detector'} over none`,
        value: median(taken[detectors].map((time, round) => time / taken.none[round]!)),
        unit: 'x',
      })
  }
  return details
}
