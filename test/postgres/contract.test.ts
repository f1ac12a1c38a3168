/** What every engine of a cluster does, on PostgreSQL, and what connections that break change of it. */

import { randomUUID } from 'node:crypto'
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { clusterStoreContract } from '../../src/runtime/cluster/contract.ts'
import { appendAll, blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { freezeOwners } from '../cluster/frozen-owner.ts'
import { CuttingProxy } from './cutting-proxy.ts'
import { poolerFile, poolerIn } from './pooler.ts'

// What every engine of a cluster does, on PostgreSQL.

const bin = postgresFolder()

t.test('the contract', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 5_000, graceMs: 100 }
  const make = (name: string) => new PostgresStore({ url: server.url, name, shards: 8, times })
  for (const { name, run } of clusterStoreContract(make)) await t.test(name, run)
})

// Connections that break, owners that freeze, poolers: what a log on PostgreSQL promises all the same.

const times = { beatMs: 100, suspectMs: 300, ttlMs: 600, graceMs: 100 }
/** Bytes of the longest answer to an append, and some more. */
const ANSWER_BYTES = 60

t.test('faults', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())

  await t.test('an append whose answer is cut at any byte is written once', async (t) => {
    const proxy = await CuttingProxy.before(server.port)
    t.teardown(() => proxy.close())
    const patient = { beatMs: 60_000, suspectMs: 60_000, ttlMs: 60_000 }
    const store = new PostgresStore({ url: proxy.url, name: 'cut', shards: 1, times: patient, warn() {} })
    await store.join({ id: randomUUID() }, () => {})
    const log = store.log(0, () => {})
    await log.open()
    await log.append(blockOf(1))
    let cuts = 0
    for (let bytes = 0; bytes < ANSWER_BYTES; bytes++) {
      proxy.cutAfter(bytes)
      await log.append(blockOf(bytes + 2))
      if (proxy.hasCut) cuts += 1
    }
    t.ok(cuts > 20, `${cuts} answers were cut`)
    t.same(await textOf(log), entries(1, ANSWER_BYTES + 1))
    await log.close()
    await store.leave()
  })

  await t.test('an owner that wakes behind its successor has nothing written', async (t) => {
    const name = 'frozen'
    await freezeOwners(t, new PostgresStore({ url: server.url, name, shards: 1, times }), server.url, name, 3)
  })

  await t.test('what is asked while the database restarts is done when it is there again', async (t) => {
    const store = new PostgresStore({ url: server.url, name: 'restarted', shards: 1, times })
    await store.join({ id: randomUUID() }, () => {})
    const log = store.log(0, () => {})
    await log.open()
    await appendAll(log, 1, 10)
    await server.kill()
    const appended = appendAll(log, 11, 20)
    await server.run()
    await appended
    t.same(await textOf(log), entries(1, 20))
    await log.close()
    await store.leave()
  })

  await t.test('a log that is closed while the database is away is lost, and keeps nobody waiting', async (t) => {
    const store = new PostgresStore({ url: server.url, name: 'away', shards: 1, times })
    await store.join({ id: randomUUID() }, () => {})
    const log = store.log(0, () => {})
    await log.open()
    await server.kill()
    const appended = t.rejects(log.append(blockOf(1)), {
      code: 'LOG_LOST',
      message: /closed while the database was away/,
    })
    await log.close()
    await appended
    await store.leave()
    await server.run()
  })

  await t.test('what cannot be joined says why', async (t) => {
    const join = (options: object) =>
      new PostgresStore({ url: server.url, name: 'wrong', shards: 4, times, warn() {}, ...options }).join(
        { id: randomUUID() },
        () => {},
      )
    await new PostgresStore({ url: server.url, name: 'wrong', shards: 4, times }).join({ id: randomUUID() }, () => {})
    await t.rejects(join({ shards: 8 }), { code: 'CLUSTER_SHARDS_DIFFER', details: { got: 8, accepted: 4 } })
    await t.rejects(join({ durability: 'replicated' }), { code: 'CONFIGURATION', message: /synchronous standby/ })
    await t.rejects(join({ url: 'postgres://ann:secret@127.0.0.1:1,127.0.0.1:2/desk' }), {
      code: 'CLUSTER_UNREACHABLE',
      message: /postgres:..127\.0\.0\.1:1,127\.0\.0\.1:2.desk, cannot be reached: .*ECONNREFUSED/,
    })
    t.throws(() => new PostgresStore({ url: 'mysql://here' }), {
      code: 'CONFIGURATION',
      message: /accepted is postgres:/,
    })
  })

  await t.test('a newer schema is refused', async (t) => {
    const first = new PostgresStore({ url: server.url, name: 'newer', shards: 1, times })
    await first.join({ id: randomUUID() }, () => {})
    await server.query('insert into dramatis.schema_version values (99)')
    const second = new PostgresStore({ url: server.url, name: 'newer', shards: 1, times })
    await t.rejects(
      second.join({ id: randomUUID() }, () => {}),
      { code: 'CLUSTER_VERSION', details: { got: 99 } },
    )
    await server.query('delete from dramatis.schema_version where version = 99')
    await first.leave()
  })

  const skip = !poolerFile() && 'no PgBouncer is installed here'
  await t.test('a pooler in transaction mode is refused, one in session mode is not', { skip }, async (t) => {
    for (const mode of ['transaction', 'session']) {
      const url = await poolerIn(t, mode, server)
      const store = new PostgresStore({ url, name: mode, shards: 1, times })
      const joined = store.join({ id: randomUUID() }, () => {})
      if (mode === 'session') await joined
      else await t.rejects(joined, { code: 'CONFIGURATION', message: /pooler in transaction mode/ })
      await store.leave()
    }
  })
})

// What a process writes at the same time goes to the database in one commit, and what is refused alone is refused
// alone.

t.test('together', { skip: !bin && 'no PostgreSQL is installed here' }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())
  const store = new PostgresStore({ url: server.url, name: 'together', shards: 4 })
  await store.join({ id: randomUUID() }, () => {})
  t.teardown(() => store.leave())
  const submit = (id: string) => store.submit({ id, shard: 0, hash: id, body: Buffer.from(id) })

  await t.test('one commit', async (t) => {
    const logs = [0, 1, 2, 3].map((shard) => store.log(shard, (error) => t.fail(error.message)))
    await Promise.all(logs.map((log) => log.open()))
    await submit('early')
    await Promise.all([
      ...Array.from({ length: 50 }, (_, i) => submit(`task ${i}`)),
      ...logs.flatMap((log) => [1, 2, 3].map((seq) => log.append(blockOf(seq)))),
      store.settle('early', { status: 'finished', body: Buffer.from('done') }),
    ])
    const [row] = await server.query<{ commits: number; rows: number }>(
      `select count(distinct xmin::text)::int as commits, count(*)::int as rows from (
        select xmin from dramatis.task union all select xmin from dramatis.chunk) written`,
    )
    t.same(row, { commits: 1, rows: 55 }, '51 tasks, and a chunk for each log')
    await Promise.all(logs.map((log) => log.close()))
  })

  await t.test('what the database cannot take harms nothing else', async (t) => {
    const said = await Promise.allSettled([submit('one'), submit('no\0text'), submit('two')])
    t.same(
      said.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    t.same((await store.outcome('two'))?.outcome, undefined)
  })
})
