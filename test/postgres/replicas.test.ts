/** A database with a synchronous standby, and what becomes of a cluster when it fails over. */

import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { freePort, postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { PostgresStore } from '../../src/postgres/index.ts'
import { appendAll, blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import { clusterTeam, served, sharedBy } from '../cluster/served.ts'
import { howMany } from '../how-many.ts'
import { Replicas } from './replicas.ts'

// A database with a synchronous standby: what is refused, what is waited for, and which of its hosts is taken.

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

// An outcome that a failover has lost: who owns the shard is given the task again, and says what its log has.

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

// The database fails over to a standby that lacks the end of a log, and the owner of that log is dead: all is told.

const PROGRAM = fileURLToPath(new URL('../cluster/served-member.js', import.meta.url))

const skip = !bin && 'no PostgreSQL is installed here'

t.test('what is lost with its owner is told', { skip }, async (t) => {
  const { before, behind, other, lostBytes } = await cut(t, 'tell')
  for (const run of [before, behind])
    t.match((await run.result()).error, { code: 'PAST_LOST', message: /lost its last moments/ }, run.id)
  t.ok(lostBytes() > 0, `the log says that ${lostBytes()} bytes are lost`)
  t.match(await other.execute('slow'), { success: true, finalOutput: 'slow, done' }, 'others go on')
})

t.test('or what the log has goes on, and the rest is done again', { skip }, async (t) => {
  const { before, behind, lostBytes } = await cut(t, 'continue')
  for (const run of [before, behind]) {
    let question: { questionId: string } | undefined
    while (!question) [question] = await run.questions()
    await run.answer(question.questionId, 'yes')
    t.match(await run.result(), { success: true, finalOutput: 'order: yes' }, run.id)
  }
  t.ok(lostBytes() > 0)
})

/** Has a standby take over that lacks the end of a log whose owner dies at the same time. */
async function cut(t: Test, onCut: 'tell' | 'continue') {
  const replicas = await Replicas.start(bin!, 2, false)
  t.teardown(() => replicas.remove())
  const options = (member: number) => ({ url: replicas.urlOf(member), name: 'past', shards: 1, onCut })
  const owner = fork(PROGRAM, [JSON.stringify(options(0))], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  t.teardown(() => owner.kill('SIGKILL'))
  await once(owner, 'message')
  const held = async () => {
    owner.send('held?')
    return ((await once(owner, 'message'))[0] as number[]).length
  }
  while ((await held()) < 1) await sleep(20)

  const warned: { lostBytes?: number }[] = []
  const logger = { debug() {}, info() {}, warn: (fields: object) => void warned.push(fields), error() {} }
  const other = clusterTeam(options(1), { logger })
  t.teardown(() => other.close())
  await other.start()
  const asked = async (runId: string) => {
    const run = await other.launch('order', { runId })
    while ((await run.questions()).length === 0) await sleep(20)
    return run
  }
  const before = await asked('before')
  await replicas.catchUp()
  replicas.fallBehind()
  const behind = await asked('behind')
  let looks = 0
  const enough = await (await other.door()).onLook(() => {
    looks += 1
  })
  while (looks < 3) await sleep(20) // it has seen how long the log is
  enough()

  owner.kill('SIGKILL')
  await replicas.failOver('kill', 0)
  const lostBytes = () => warned.reduce((sum, { lostBytes: some = 0 }) => sum + some, 0)
  return { before, behind, other, lostBytes }
}

// Processes tell each other of a failover: who still reaches the old primary leaves it.

const TRIES = 20

t.test('news', { skip: !bin && 'no PostgreSQL is installed here', timeout: 0 }, async (t) => {
  const replicas = await Replicas.start(bin!, 2, false)
  t.teardown(() => replicas.remove())
  const times = { beatMs: 200, suspectMs: 1_000, graceMs: 500 }
  const [one, apart] = await Promise.all(
    [0, 1].map((process) => served(t, { url: replicas.urlOf(process), name: 'news', times })),
  )
  await sharedBy(one!, apart!)
  await replicas.failOver('split', 1)
  let last: Promise<unknown> | undefined
  let isAccepted = true
  for (let tries = 0; isAccepted && tries < TRIES; tries++) {
    isAccepted = false
    last = apart!.team.launch('slow').then(() => {
      isAccepted = true
    })
    await one!.team.execute('slow')
  }
  t.equal(isAccepted, false, 'the old primary takes no more runs')
  replicas.heal(1)
  await last
  t.equal((await apart!.team.execute('slow')).success, true)
})

// Claims on two primaries: both owners believe that they are the last, and only one of them writes.

const ROUNDS = howMany(1, 5)

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
