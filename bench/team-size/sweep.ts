/** One job done by teams of several sizes. */
import { createTeam, type ModelsConfig } from 'dramatis'
import { median } from '../statistics.ts'
import type { Job } from './jobs.ts'

/** What one size took: medians of its rounds. */
export interface SizeReport {
  workers: number
  ms: number
  tokens: number
  calls: number
  /** Share of right answers, where some are right. */
  right?: number
}

export interface SweepPlan {
  job: Job
  sizes: readonly number[]
  rounds: number
  models: ModelsConfig
}

const LIMIT_MS = 30 * 60_000

/** Each size does the whole job, as often as the rounds say. Sizes alternate, so that a slow minute hits them all. */
export async function sweep(
  { job, sizes, rounds, models }: SweepPlan,
  signal: AbortSignal,
  told: (report: SizeReport) => void,
): Promise<SizeReport[]> {
  const measured = new Map(sizes.map((workers) => [workers, [] as SizeReport[]]))
  for (let round = 0; round < rounds; round++) {
    for (const workers of sizes) {
      const report = await once(job, workers, models, signal)
      measured.get(workers)?.push(report)
      told(report)
    }
  }
  return sizes.map((workers) => {
    const all = measured.get(workers) ?? []
    const middle = (of: (report: SizeReport) => number) => median(all.map(of))
    return {
      workers,
      ms: middle(({ ms }) => ms),
      tokens: middle(({ tokens }) => tokens),
      calls: middle(({ calls }) => calls),
      ...(all[0]?.right !== undefined && { right: middle(({ right = 0 }) => right) }),
    }
  })
}

async function once(job: Job, workers: number, models: ModelsConfig, signal: AbortSignal): Promise<SizeReport> {
  const names = Array.from({ length: workers }, (_, i) => `worker-${i + 1}`)
  const { systemPrompt } = job
  let right: number | undefined
  const team = createTeam({
    agents: [
      ...names.map((name) => ({ name, systemPrompt })),
      { name: 'editor', systemPrompt: 'You make an overview of a manual from summaries of its sections.' },
    ],
    models,
    logger: { debug() {}, info() {}, warn() {}, error: console.error },
    maxConcurrentAgents: workers + 1,
    globalTimeoutMs: LIMIT_MS,
    orchestration: {
      strategy: 'custom',
      async run(script) {
        right = await job.run(script, names)
        return 'done'
      },
    },
  })
  try {
    await team.start() // threads that boot are not what is measured
    const { success, error, executionTimeMs: ms, totalTokenUsage } = await team.execute('Do it.', { signal })
    if (!success) throw error
    const { totalTokens: tokens, calls } = totalTokenUsage
    return { workers, ms, tokens, calls, ...(right !== undefined && { right }) }
  } finally {
    await team.close()
  }
}
