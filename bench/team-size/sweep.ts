/** One job done by teams of several sizes: the sections of a long document, each summarized by the next free worker. */
import { readdir, readFile } from 'node:fs/promises'
import { createTeam, type ModelsConfig, type OrchestratorContext } from 'dramatis'
import { median } from '../statistics.ts'

/** What one size took: medians of its rounds. */
export interface SizeReport {
  workers: number
  ms: number
  tokens: number
  calls: number
}

export interface SweepPlan {
  sizes: readonly number[]
  rounds: number
  models: ModelsConfig
}

// seen from dist/bench/team-size
const GUIDES = new URL('../../../docs/how-to/', import.meta.url)
const LIMIT_MS = 30 * 60_000

/** The job: the sections of this project's how-to guides that have something to say. */
export async function sections(): Promise<string[]> {
  const names = (await readdir(GUIDES)).filter((name) => name.endsWith('.md')).sort()
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, GUIDES), 'utf8')))
  const parts = texts
    .join('\n')
    .replaceAll(/```[\s\S]*?```/g, '')
    .split(/^#+ /m)
  return parts.map((part) => part.trim()).filter((part) => part.split(/\s+/).length > 40)
}

/** Each size does the whole job, as often as the rounds say. Sizes alternate, so that a slow minute hits them all. */
export async function sweep(
  { sizes, rounds, models }: SweepPlan,
  signal: AbortSignal,
  told: (report: SizeReport) => void,
): Promise<SizeReport[]> {
  const job = await sections()
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
    }
  })
}

async function once(
  job: readonly string[],
  workers: number,
  models: ModelsConfig,
  signal: AbortSignal,
): Promise<SizeReport> {
  const names = Array.from({ length: workers }, (_, i) => `worker-${i + 1}`)
  const systemPrompt = 'You summarize a section of a manual in one sentence.'
  const team = createTeam({
    agents: [
      ...names.map((name) => ({ name, systemPrompt })),
      { name: 'editor', systemPrompt: 'You make an overview of a manual from summaries of its sections.' },
    ],
    models,
    logger: { debug() {}, info() {}, warn() {}, error: console.error },
    maxConcurrentAgents: workers + 1,
    globalTimeoutMs: LIMIT_MS,
    orchestration: { strategy: 'custom', run: (script) => summarized(script, job, names) },
  })
  try {
    await team.start() // threads that boot are not what is measured
    const { success, error, executionTimeMs: ms, totalTokenUsage } = await team.execute('Summarize.', { signal })
    if (!success) throw error
    return { workers, ms, tokens: totalTokenUsage.totalTokens, calls: totalTokenUsage.calls }
  } finally {
    await team.close()
  }
}

/** Who is free takes the next section; the editor gets all summaries in the order of the sections. */
async function summarized(
  script: OrchestratorContext,
  job: readonly string[],
  names: readonly string[],
): Promise<string> {
  const summaries: string[] = []
  const left = job.entries()
  const work = async (name: string) => {
    for (const [at, section] of left) {
      summaries[at] = (await script.request(name, `Summarize this section:\n${section}`)).content
    }
  }
  await Promise.all(names.map(work))
  return (await script.request('editor', `Make an overview of these summaries:\n${summaries.join('\n')}`)).content
}
