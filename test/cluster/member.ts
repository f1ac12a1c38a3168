/** A process of a cluster under test. Its parent sends what to do, and it answers each with the same number. */
import { createTeam } from 'dramatis'
import { PostgresStore } from 'dramatis/postgres'
import { ClusterProcess } from '../../src/runtime/cluster/process.ts'
import { TeamShard } from '../../src/runtime/cluster/team-shard.ts'
import { systemClock } from '../../src/shared/clock.ts'
import type { Asked, MemberSettings } from './nemesis.ts'

const { store: options, shards, effects } = JSON.parse(process.argv[2] ?? '') as MemberSettings
const quiet = { debug() {}, info() {}, warn() {}, error() {} }

const member = new ClusterProcess({
  store: new PostgresStore({ ...options, shards, warn() {} }),
  shards,
  clock: systemClock,
  logger: { ...quiet, warn: (fields, text) => console.error(JSON.stringify(fields), text) },
  hold: (log) => {
    const team = createTeam({
      agents: [
        { name: 'clerk', module: new URL('./clerk.js', import.meta.url), concurrency: 64, data: { effects } },
        { name: 'helper', module: new URL('./helper.js', import.meta.url) },
      ],
      orchestration: { strategy: 'sequential', agentOrder: ['clerk'] },
      stateManagement: { store: log, resume: 'manual' },
      threads: { warmSpares: 0 },
      logger: quiet,
    })
    return new TeamShard(team, log)
  },
})

await member.start()
process.send?.({ ready: true })
process.on('message', async ({ number, id, ask }: Asked) => {
  const answer = (value: unknown) => process.send?.({ number, value })
  try {
    if (ask === 'shards') return answer(member.shards)
    if (ask === 'outcome') {
      const outcome = await member.outcome(id)
      return answer(outcome && { status: outcome.status, result: JSON.parse(Buffer.from(outcome.body).toString()) })
    }
    const body = Buffer.from(JSON.stringify({ query: `order ${id}`, options: {} }))
    answer(await member.submit({ id, shard: Number(id.split(' ')[1]) % shards, hash: id, body }))
  } catch (error) {
    process.send?.({ number, error: String(error) })
  }
})
process.on('SIGTERM', async () => {
  await member.close()
  process.exit()
})
