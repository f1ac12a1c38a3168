/** A process of a cluster that does what its parent tells it, and listens for bare notices beside it. */
import pg from 'pg'
import { createTeam } from '../../src/index.ts'

export interface Order {
  readonly runs?: { readonly count: number; readonly open: number; readonly prefix: string }
  readonly keys?: readonly string[]
  readonly shards?: true
  /** Answers bare notices from now on. */
  readonly answers?: true
}

const { url, name, log } = JSON.parse(process.argv[2] ?? '{}') as { url?: string; name: string; log?: string }
const agent = (file: string) => new URL(`../agents/${file}.js`, import.meta.url)
const options = {
  agents: [
    { name: 'key-asker', module: agent('key-asker'), concurrency: 64 },
    { name: 'echo', module: agent('echo'), concurrency: 64 },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['key-asker'] },
  threads: { warmSpares: 0 },
  logger: { debug() {}, info() {}, warn() {}, error() {} },
} as const
const cluster = url ? createTeam({ ...options, cluster: { url, name, shards: 6 } }) : undefined
const team = cluster ?? createTeam({ ...options, stateManagement: { path: log ?? '', durability: 'commit' } })
await team.start()

async function answerNotices(): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  client.on('notification', ({ payload }) => void client.query('select pg_notify($1, $2)', ['bare_back', payload]))
  await client.query('listen bare_to')
}

async function done({ runs, keys, answers }: Order): Promise<unknown> {
  if (keys)
    return JSON.parse((await team.execute(JSON.stringify(keys), { threadId: keys[0] as string })).finalOutput ?? '[]')
  if (answers) return answerNotices()
  if (!runs) return [...(cluster?.held.keys() ?? [])]
  let next = 0
  const one = async () => {
    while (next < runs.count) {
      const { success } = await team.execute('[]', { runId: `${runs.prefix} ${next++}` })
      if (!success) throw new Error('a run has failed')
    }
  }
  const since = performance.now()
  await Promise.all(Array.from({ length: runs.open }, one))
  return performance.now() - since
}

process.send?.('ready')
process.on('message', (order: Order) => {
  done(order).then(
    (value) => process.send?.({ value }),
    (error) => process.send?.({ error: String(error) }),
  )
})
