/**
 * A process of the cluster. Its parent sends what to do, and it answers each with the same number. SIGTERM gives its
 * shards over to the others.
 */
import { type ClusterOptions, type ClusterRun, createTeam } from 'dramatis'

export interface MemberSettings {
  readonly cluster: ClusterOptions & { url: string }
  /** File to which agents append what they do. */
  readonly effects: string
}

export interface Asked {
  readonly number: number
  readonly ask: 'submit' | 'outcome' | 'shards'
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
  const { success, finalOutput, error } = await run.result()
  return { success, finalOutput, code: error?.code ?? null }
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
