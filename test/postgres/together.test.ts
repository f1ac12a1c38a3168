/** What a process writes at the same time goes to the database in one commit, and what is refused alone is refused alone. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { PostgresServer, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { blockOf } from '../../src/runtime/store/contract.ts'

const bin = postgresFolder()

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
