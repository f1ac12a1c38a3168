/** Claims on two primaries: both owners believe that they are the last, and only one of them writes. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { appendAll, blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { howMany } from '../how-many.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const ROUNDS = howMany(1, 5)
const times = { beatMs: 200, suspectMs: 60_000, ttlMs: 60_000, graceMs: 0 }

t.test(
  'a claim is lost with its primary, and the next one gets the same number',
  { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 },
  async (t) => {
    const replicas = await Replicas.start(bin!, 2, false)
    t.teardown(() => replicas.remove())
    const stores = await Promise.all(
      [0, 1].map(async (process) => {
        const url = replicas.urlOf(process)
        const store = new PostgresStore({ url, name: 'collide', shards: ROUNDS, times, warn() {} })
        await store.join({ id: randomUUID() }, () => {})
        t.teardown(() => store.leave())
        return store
      }),
    )
    for (let shard = 0; shard < ROUNDS; shard++) {
      if (shard > 0) await replicas.restore()
      const [lost, next] = stores.map((store) => store.log(shard, () => {}))
      replicas.fallBehind()
      const { incarnation } = await lost!.open()
      await replicas.failOver('kill', 0, 0)
      for (;;) {
        const opened = await next!.open().catch(() => undefined) // until it has found the new primary
        if (opened) {
          t.equal(opened.incarnation, incarnation)
          break
        }
      }
      await next!.append(blockOf(1))
      await t.rejects(lost!.append(blockOf(1)), { code: 'LOG_LOST', message: /was taken by another process/ })
      t.same(await textOf(next!), entries(1, 1))
      await next!.close()
    }
  },
)

t.test(
  'a claim on the old primary takes nothing from who has gone on behind it on the new one',
  { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 },
  async (t) => {
    const replicas = await Replicas.start(bin!, 2, false)
    t.teardown(() => replicas.remove())
    const judges = { beatMs: 100, suspectMs: 300, ttlMs: 600, graceMs: 60_000 }
    const [owner, other] = await Promise.all(
      [0, 1].map(async (process) => {
        const url = replicas.urlOf(process)
        const store = new PostgresStore({ url, name: 'split', shards: 1, times: judges, warn() {} })
        await store.join({ id: randomUUID() }, () => {})
        t.teardown(() => store.leave())
        return store
      }),
    )
    const log = owner!.log(0, () => {})
    await log.open()
    await appendAll(log, 1, 5)
    await replicas.failOver('split', 1, 0)
    while (!(await other!.view()).free.includes(0));
    const taken = other!.log(0, () => {})
    await taken.open()
    await appendAll(taken, 6, 8)
    await appendAll(log, 6, 12)
    other!.hear(owner!.news) // now it leaves the old primary, which would take more
    const more = taken.append(blockOf(9))
    replicas.heal(1)
    await t.rejects(more, { code: 'LOG_LOST', message: /was taken by another process/ })
    await log.append(blockOf(13))
    t.same(await textOf(log), entries(1, 13))
    await log.close()
  },
)
