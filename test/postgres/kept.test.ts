/** What a cluster keeps in its database, and how much of it is read: checkpoints, compaction, outcomes that are old. */
import { randomBytes, randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { createTeam } from '../../src/index.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { appendAll, entries, textOf } from '../../src/runtime/store/contract.ts'
import { howMany } from '../how-many.ts'
import { CuttingProxy } from './cutting-proxy.ts'

const bin = postgresFolder()
const RUNS = Math.max(500, howMany(500, 10_000)) // fewer make no log that is worth a checkpoint
const BYTES = RUNS > 500 ? 10_000 : 40_000
const MB = 2 ** 20

t.test('what is kept', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const server = await PostgresServer.start(bin!)
  t.teardown(() => server.remove())

  const memberOf = (t: Test, url: string, name: string, keep: { runs: number }) => {
    const team = createTeam({
      agents: [{ name: 'ann', module: new URL('../fixtures/cluster/echo.js', import.meta.url) }],
      orchestration: { strategy: 'sequential' },
      cluster: { url, name, shards: 1 },
      stateManagement: { keep },
      threads: { warmSpares: 0 },
      logger: { debug() {}, info() {}, warn: (...said) => t.comment(...said), error: (...said) => t.comment(...said) },
    })
    t.teardown(() => team.close())
    return team
  }

  /** Plays runs whose texts have so many bytes, and nothing in common. */
  const play = async (team: ReturnType<typeof memberOf>, runs: number, bytes: number) => {
    const text = () => randomBytes(bytes / 2).toString('hex')
    for (let done = 0; done < runs; done += 50)
      await Promise.all(Array.from({ length: Math.min(50, runs - done) }, () => team.execute(text())))
  }

  /** Bytes of the log of a cluster. */
  const logged = async (name: string) => {
    const [row] = await server.query<{ bytes: number; first: number }>(
      `select sum(length(bytes))::float8 as bytes, min(position)::float8 as first from dramatis.chunk where cluster = '${name}'`,
    )
    return row!
  }

  /** Copies what there is of a cluster in this moment: as if its processes had been killed. */
  const copy = (from: string, to: string) => {
    const rows = (table: string) => {
      const columns = `(select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
        where attrelid = 'dramatis.${table}'::regclass and attnum > 0 and not attisdropped and attname not in ('cluster', 'owner'))`
      return `execute (select format('insert into dramatis.${table} (cluster, %1$s) select %2$L, %1$s from dramatis.${table} where cluster = %3$L',
        ${columns}, '${to}', '${from}'));`
    }
    return server.query(
      `begin isolation level repeatable read; do $$ begin ${['cluster', 'shard', 'chunk', 'checkpoint'].map(rows).join(' ')} end $$; commit`,
    )
  }

  await t.test(`a shard with ${RUNS} ended runs is opened by its checkpoint`, async (t) => {
    const team = memberOf(t, server.url, 'many', { runs: 2 * RUNS })
    await play(team, RUNS, BYTES)
    const behind = `select (position - checkpoint_at)::float8 as bytes from dramatis.shard where cluster = 'many'`
    while ((await server.query<{ bytes: number }>(behind))[0]!.bytes > 4 * MB) await team.execute('one more')
    await copy('many', 'taken')
    const { bytes } = await logged('taken')
    const proxy = await CuttingProxy.before(server.port)
    t.teardown(() => proxy.close())
    const next = memberOf(t, proxy.url, 'taken', { runs: 2 * RUNS }) // nothing is given up meanwhile, which reads too
    await next.execute('order')
    t.comment(`read ${proxy.received} of ${bytes} bytes`)
    t.ok(bytes > 18 * MB, `the log has ${bytes} bytes`)
    // the checkpoint has a row for each run, and each byte has two digits on the way
    t.ok(proxy.received < 16 * MB + 1_000 * RUNS, `${proxy.received} bytes were read`)
    const runs = await next.held.get(0)?.listRuns({ limit: 1 })
    t.equal(runs?.length, 1)
  })

  await t.test('chunks of runs that are forgotten are dropped', async (t) => {
    const team = memberOf(t, server.url, 'few', { runs: 10 })
    await play(team, 400, 100_000)
    while ((await logged('few')).first === 0) await team.execute('one more')
    await team.close()
    const { bytes, first } = await logged('few')
    t.comment(`${bytes} bytes from ${first} on`)
    t.ok(first > 0)
    t.ok(bytes < 40 * MB, `${bytes} bytes are left`)
    const next = memberOf(t, server.url, 'few', { runs: 10 })
    t.equal((await next.execute('order')).success, true)
  })

  await t.test('outcomes go some time after their end, and nothing else does', async (t) => {
    const store = new PostgresStore({ url: server.url, name: 'old', shards: 1, keep: { days: 2 } })
    await store.join({ id: randomUUID() }, () => {})
    t.teardown(() => store.leave())
    const submit = (id: string) => store.submit({ id, shard: 0, hash: id, body: Buffer.from(id) })
    const ids = Array.from({ length: 1_200 }, (_, i) => `old ${i}`)
    const done = { status: 'finished', body: Buffer.from('done') } as const
    for (const id of [...ids, 'young', 'open']) await submit(id)
    for (const id of [...ids, 'young']) await store.settle(id, done)
    await server.query(`update dramatis.task set at = at - interval '49 hours', settled = settled - interval '49 hours'
      where cluster = 'old' and id <> 'young'`)
    const other = new PostgresStore({ url: server.url, name: 'old', shards: 1, keep: { days: 2 } })
    await other.join({ id: randomUUID() }, () => {})
    t.teardown(() => other.leave())
    while (await other.outcome(ids.at(-1)!)) await new Promise((resolve) => setImmediate(resolve))
    const left = await server.query<{ id: string }>("select id from dramatis.task where cluster = 'old' order by id")
    t.same(left, [{ id: 'open' }, { id: 'young' }])
    t.equal(await submit('young'), 'known')
  })

  await t.test('tables of an earlier version are brought to this one, with what they have', async (t) => {
    const joined = async () => {
      const store = new PostgresStore({ url: server.url, name: 'older', shards: 1 })
      await store.join({ id: randomUUID() }, () => {})
      return store
    }
    const before = await joined()
    const log = before.log(0, () => {})
    await log.open()
    await appendAll(log, 1, 10)
    await before.submit({ id: 'a', shard: 0, hash: 'a', body: Buffer.from('a') })
    await log.close()
    await before.leave()
    await server.query(`drop table dramatis.checkpoint;
      alter table dramatis.cluster drop channel;
      alter table dramatis.shard drop cut, drop checkpoint, drop checkpoint_at;
      delete from dramatis.schema_version where version > 1`)
    const [store] = await Promise.all([joined(), joined().then((other) => other.leave())])
    t.teardown(() => store.leave())
    const again = store.log(0, () => {})
    t.equal((await again.open()).lastSeq, 10)
    t.same(await textOf(again), entries(1, 10))
    t.same(
      (await store.take(again)).map(({ id }) => id),
      ['a'],
    )
    await again.close()
  })

  await t.test('who asks for an outcome that is gone is told that it is kept no more', async (t) => {
    const team = memberOf(t, server.url, 'gone', { runs: 10 })
    const run = await team.launch('order', { runId: 'a' })
    await run.result()
    await server.query("delete from dramatis.task where cluster = 'gone'")
    await t.rejects(run.result(), { code: 'UNKNOWN_RUN', message: /kept no more \(cluster\.keep\)/ })
  })
})
