/** Loads a team as a plan says, and measures it. */
import type { Health, Team } from 'dramatis'
import { Generator } from './generator.ts'
import type { Plan } from './options.ts'
import { type Sample, Sampler } from './sampler.ts'
import { type Failure, type Latencies, Tally } from './tally.ts'
import { growthOf, type Trend } from './trend.ts'

/** What grows, by the name of its series. */
export type Growing = Partial<Record<keyof typeof LEAST_RISES, Trend>>

export interface Loaded {
  plan: Plan
  /** Ctrl-C came before the end. */
  interrupted: boolean
  /** From the first execute to the end of the last. */
  seconds: number
  begun: number
  answered: number
  failed: number
  failures: Failure[]
  /** Had not ended when the test did; they were aborted. */
  unfinished: number
  /** Were due and never began, since too many were under way. */
  notBegun: number
  /** Answered per second. */
  throughput: number
  latenciesMs: Latencies | null
  restarts: number
  /** The list holds the last 10,000. */
  deadLetters: number
  /** Share of the time that the host's event loop worked, the load's own work among it; 0 to 1. */
  hostBusy: number
  samples: Sample[]
  /** null: too short to tell. */
  growing: Growing | null
}

/** How long executes that are under way at the end may take. */
const LINGER_MS = 10_000
const MIB = 2 ** 20
/** What rises less over the second half does not count: bytes, and for `queued` a number. */
export const LEAST_RISES = { rss: 8 * MIB, heap: 4 * MIB, external: 4 * MIB, queued: 20 }

/** Loads a team that has started. `signal` ends that; what there is until then is the result. */
export async function load(team: Team, plan: Plan, signal: AbortSignal): Promise<Loaded> {
  const query = 'x'.repeat(plan.size)
  const ending = new AbortController()
  const generator = new Generator(plan)
  const tally = new Tally()
  let ended = false
  const execute = async (dueAt: number) => {
    try {
      const result = await team.execute(query, { signal: ending.signal })
      if (ended) return
      if (result.success) tally.answer(performance.now() - dueAt)
      else tally.fail(result.error)
    } catch (error) {
      if (!ended) tally.fail(error)
    }
  }
  const before = team.health()
  const loop = performance.eventLoopUtilization()
  const startedAt = performance.now()
  const sampler = new Sampler(team, () => generator.behind, plan.seconds)
  try {
    await generator.run(execute, LINGER_MS, signal)
  } finally {
    ended = true
    sampler.stop()
  }
  const hostBusy = performance.eventLoopUtilization(loop).utilization
  const seconds = Math.round(performance.now() - startedAt) / 1_000
  const after = team.health()
  const unfinished = generator.running
  ending.abort(new Error('the load test is over'))
  return {
    plan,
    interrupted: signal.aborted,
    seconds,
    begun: generator.begun,
    answered: tally.answered,
    failed: tally.failed,
    failures: tally.failures,
    unfinished,
    notBegun: generator.notBegun,
    throughput: tally.answered / seconds,
    latenciesMs: tally.latencies,
    restarts: restartsOf(after) - restartsOf(before),
    deadLetters: after.deadLetters,
    hostBusy,
    samples: sampler.samples,
    growing: growingOf(sampler.samples),
  }
}

function restartsOf({ agents }: Health): number {
  return Object.values(agents).reduce((sum, { restarts }) => sum + restarts, 0)
}

export function growingOf(samples: readonly Sample[]): Growing | null {
  const growing: Growing = {}
  for (const [name, atLeast] of Object.entries(LEAST_RISES) as [keyof typeof LEAST_RISES, number][]) {
    const trend = growthOf(
      samples.map((sample) => [sample.seconds, sample[name]]),
      atLeast,
    )
    if (trend === undefined) return null
    if (trend) growing[name] = trend
  }
  return growing
}
