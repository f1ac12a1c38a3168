/** A database with a synchronous standby: what is refused, what is waited for, and which of its hosts is taken. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { freePort, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { appendAll, blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const times = { beatMs: 200, suspectMs: 60_000, ttlMs: 60_000, graceMs: 0 }

t.test('replicas', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const replicas = await Replicas.start(bin!, 2, true)
  t.teardown(() => replicas.remove())
  const { primary } = replicas

  const joined = async (t: Test, name: string, options: object = {}) => {
    const warnings: string[] = []
    const warn = (text: string) => void warnings.push(text)
    const url = replicas.urlOf(0)
    const store = new PostgresStore({ url, name, shards: 1, durability: 'replicated', times, warn, ...options })
    t.teardown(() => store.leave())
    await store.join({ id: randomUUID() }, () => {})
    return { store, warnings }
  }

  const opened = async (t: Test, name: string, options: object = {}) => {
    const { store } = await joined(t, name, options)
    const log = store.log(0, () => {})
    await log.open()
    await log.append(blockOf(1))
    return log
  }

  /** Tells whether something settles while the database does so many rounds. */
  const settles = async (act: Promise<unknown>, rounds = 30) => {
    let isSettled = false
    const noted = () => {
      isSettled = true
    }
    act.then(noted, noted)
    for (let round = 0; round < rounds; round++) await primary.query('select pg_sleep(0.02)')
    return isSettled
  }

  /** Resolves when a backend waits for a standby. */
  const waits = async () => {
    const text = "select from pg_stat_activity where wait_event = 'SyncRep' and query like 'with submit%'"
    while ((await primary.query(text)).length === 0);
  }

  await t.test('an append is acknowledged when a standby has it', async (t) => {
    const log = await opened(t, 'synchronous')
    replicas.fallBehind()
    const append = log.append(blockOf(2))
    await waits()
    t.equal(await settles(append), false)
    await replicas.catchUp()
    await append
    await log.close()
  })

  await t.test('a wait for the standby that is cancelled is no answer', async (t) => {
    const log = await opened(t, 'cancelled')
    replicas.fallBehind()
    const append = log.append(blockOf(2))
    await waits()
    await primary.query("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
    t.equal(await settles(append), false)
    await replicas.catchUp()
    await append
    t.same(await textOf(log), entries(1, 2))
    await log.close()
  })

  await t.test('a database that answers before a standby has it is refused, or warned of', async (t) => {
    const { store, warnings } = await joined(t, 'safe')
    t.same(warnings, [])
    await store.leave()
    await primary.query('alter role dramatis set synchronous_commit = local')
    t.teardown(() => primary.query('alter role dramatis reset synchronous_commit'))
    await t.rejects(joined(t, 'unsafe'), {
      code: 'CONFIGURATION',
      details: { path: 'cluster.durability' },
      message: /synchronous_standby_names 'ANY 1 \(a,b,c\)' and synchronous_commit 'local'/,
    })
    const other = await joined(t, 'unsafe', { durability: undefined })
    t.equal(other.warnings.length, 1)
    t.match(other.warnings[0], /answers before a replica has what was written/)
  })

  await t.test('hosts are tried in turn: one that is not there, and standbys, are passed over', async (t) => {
    const [head, hosts] = replicas.urlOf(0).split('@') as [string, string]
    const [first, ...standbys] = hosts.replace('/postgres', '').split(',')
    const url = `${head}@127.0.0.1:${await freePort()},${standbys},${first}/postgres`
    const log = await opened(t, 'hosts', { url })
    t.same(await textOf(log), entries(1, 1))
    await log.close()
  })

  await t.test('a host that falls silent keeps nobody waiting when it is there again', async (t) => {
    const log = await opened(t, 'silent')
    const door = replicas.doorOf(0)
    door.fallSilent()
    const appended = appendAll(log, 2, 20)
    t.equal(await settles(appended), false)
    const { store } = await joined(t, 'silent', { url: replicas.urlOf(1) })
    await store.leave() // another way leads there
    door.hold()
    await appended
    t.same(await textOf(log), entries(1, 20))
    await log.close()
  })

  await t.test('a primary that writes nothing for a while is waited for', async (t) => {
    const log = await opened(t, 'read only')
    const readOnly = async (value: string) => {
      await primary.query(`alter system set default_transaction_read_only = ${value}`)
      await primary.query('select pg_reload_conf()')
      const text = 'show default_transaction_read_only'
      while (
        (await primary.query<{ default_transaction_read_only: string }>(text))[0]!.default_transaction_read_only !==
        value
      );
    }
    await readOnly('on')
    t.equal(await settles(log.append(blockOf(2))), false)
    await readOnly('off')
    await appendAll(log, 3, 4)
    t.same(await textOf(log), entries(1, 4))
    await log.close()
  })
})
