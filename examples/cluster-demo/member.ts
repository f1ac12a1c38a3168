/**
 * A process of the cluster. Its parent sends what to do, and it answers each with the same number. SIGTERM gives its
 * shards over to the others.
 */
import { type ClusterOptions, type ClusterRun, createTeam, RunEndedError } from 'dramatis'

export interface MemberSettings {
  readonly cluster: ClusterOptions & { url: string }
  /** File to which agents append what they do. */
  readonly effects: string
}

export interface Asked {
  readonly number: number
  readonly ask: 'submit' | 'outcome' | 'say' | 'shards'
  readonly id: string
}

const { cluster, effects } = JSON.parse(process.argv[2] ?? '') as MemberSettings

const team = createTeam({
  agents: [
    { name: 'clerk', module: new URL('./clerk.js', import.meta.url), concurrency: 64, data: { effects } },
    { name: 'helper', module: new URL('./helper.js', import.meta.url) },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['clerk'] },
  cluster,
  threads: { warmSpares: 0 },
})

/** Runs that this process has accepted. One that it has not is submitted again, as a client behind a balancer does. */
const runs = new Map<string, ClusterRun>()

async function done({ ask, id }: Asked): Promise<unknown> {
  if (ask === 'shards') return [...team.held.keys()]
  const run = runs.get(id) ?? (await team.launch(`order ${id}`, { runId: id }))
  runs.set(id, run)
  if (ask === 'submit') return run.shard
  if (ask === 'say') return said(run)
  const { success, finalOutput, error } = await run.result()
  return { success, finalOutput, code: error?.code ?? null }
}

/** Says something to a run, once however often it is asked; `at`: null if the run had ended before. */
async function said(run: ClusterRun): Promise<{ at: number | null }> {
  try {
    const { at } = await run.steer('Faster, please.', { id: `for ${run.id}` })
    return { at }
  } catch (error) {
    if (error instanceof RunEndedError) return { at: null }
    throw error
  }
}

await team.start()
process.send?.({ ready: true })
process.on('message', (asked: Asked) => {
  const answer = (told: object) => process.connected && process.send?.({ number: asked.number, ...told })
  done(asked).then(
    (value) => answer({ value }),
    (error) => answer({ error: String(error) }),
  )
})
process.on('SIGTERM', async () => {
  await team.close()
  process.exit()
})
