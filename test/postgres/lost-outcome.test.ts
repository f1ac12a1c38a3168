/** An outcome that a failover has lost: who owns the shard is given the task again, and says what its log has. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const times = { beatMs: 200, suspectMs: 60_000, ttlMs: 60_000, graceMs: 0 }

t.test('lost outcome', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const replicas = await Replicas.start(bin!, 2, false)
  t.teardown(() => replicas.remove())
  const [client, owner] = [0, 1].map(
    (process) => new PostgresStore({ url: replicas.urlOf(process), name: 'outcome', shards: 1, times, warn() {} }),
  ) as [PostgresStore, PostgresStore]
  for (const store of [client, owner]) await store.join({ id: randomUUID() }, () => {})
  t.teardown(() => owner.leave())
  const log = owner.log(0, (error) => t.fail(error.message))
  await log.open()
  const taken = async () => {
    for (;;) {
      const tasks = await owner.take(log).catch(() => [])
      if (tasks.length > 0) return tasks.map(({ id }) => id)
    }
  }
  await client.submit({ id: 'a', shard: 0, hash: 'a', body: Buffer.from('a') })
  t.same(await taken(), ['a'])
  t.same(await owner.take(log), [], 'the database has it that this one was given')
  await client.leave()
  const behind = 'select from pg_stat_replication where replay_lsn < pg_current_wal_lsn()'
  while ((await replicas.primary.query(behind)).length > 0);
  replicas.fallBehind()
  await owner.settle('a', { status: 'finished', body: Buffer.from('done') })
  await replicas.failOver('kill', 0, 0)
  t.same(await taken(), ['a'])
  await owner.settle('a', { status: 'finished', body: Buffer.from('done') })
  t.equal((await owner.outcome('a'))?.outcome?.status, 'finished')
  await log.close()
})
