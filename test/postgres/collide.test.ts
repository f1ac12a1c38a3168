/**
 * A claim is lost with the primary, and the next one on the new primary gets the same number: both owners believe that
 * they are the last. Only one of them writes.
 */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { howMany } from '../how-many.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const ROUNDS = howMany(1, 5)
const times = { beatMs: 200, suspectMs: 60_000, ttlMs: 60_000, graceMs: 0 }

t.test('two claims of one number', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
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
    await replicas.failOver('kill', 0, { behindMs: 0, detectMs: 0, splitMs: 0 })
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
})
