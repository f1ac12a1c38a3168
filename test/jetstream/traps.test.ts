/** What JetStream does in ways that would cost a task or an entry, and what becomes of it here. */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { JetStreamStore } from '../../src/jetstream/index.ts'
import type { ClusterNotice, ShardLog } from '../../src/runtime/cluster/cluster-store.ts'
import { appendAll, blockOf, entries, textOf } from '../../src/runtime/store/contract.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { freezeOwners } from '../cluster/frozen-owner.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { CuttingProxy } from '../postgres/cutting-proxy.ts'
import { NatsBrokers, natsServer, WHY_NOT } from './nats-brokers.ts'

const program = natsServer()

t.test('traps', { skip: !program && WHY_NOT }, async (t) => {
  const brokers = await NatsBrokers.start(program!)
  t.teardown(() => brokers.remove())
  const { manager } = await brokers.admin()
  const times = { beatMs: 100, suspectMs: 300, ttlMs: 1_000 }
  const streamOf = (name: string, kind: string) => `dramatis_${name}_${kind}`

  const joined = async (t: Test, name: string, rest: object = {}, notices: ClusterNotice[] = []) => {
    const store = new JetStreamStore({ url: brokers.url, name, shards: 4, times, ...rest })
    t.teardown(() => store.leave())
    await store.join({ id: randomUUID() }, (notice) => notices.push(notice))
    return store
  }
  const opened = async (store: JetStreamStore, lost: Error[] = []): Promise<ShardLog> => {
    const log = store.log(0, (error) => lost.push(error))
    await log.open()
    return log
  }
  const insist = async <T>(act: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await act()
      } catch {
        await sleep(20) // a broker begins to lead
      }
    }
  }
  const task = (id: string, body = 'body') => ({ id, shard: 0, hash: 'h', body: Buffer.from(body) })

  await t.test('a condition is kept while another broker begins to lead: each claim ends the one before', async (t) => {
    const name = randomUUID()
    const store = await joined(t, name)
    const written: { text: string; incarnation: number }[] = []
    let log = await opened(store)
    for (let incarnation = 1; incarnation <= 12; incarnation++) {
      const mine = log
      const writes = (async () => {
        for (let n = 0; ; n++) {
          const text = `${incarnation} ${n}`
          const seq = n + 1
          const entry = { firstSeq: seq, lastSeq: seq, carried: false, runs: [1], entries: Buffer.from(text) }
          await mine.append(entry)
          written.push({ text, incarnation })
          await sleep(10) // a claim of one's own comes between two writes
        }
      })()
      if (incarnation % 3 === 0) await brokers.moveLeader(streamOf(name, 'log_0'))
      while (written.at(-1)?.incarnation !== incarnation) await sleep(5)
      log = await insist(() => opened(store))
      await t.rejects(writes, { code: 'LOG_LOST' })
    }
    const there: { text: string; incarnation: number }[] = []
    for await (const { entries: bytes, incarnation } of log.read())
      there.push({ text: Buffer.from(bytes).toString(), incarnation })
    const texts = new Set(there.map(({ text }) => text))
    t.same(
      written.filter(({ text }) => !texts.has(text)),
      [],
    )
    t.equal(texts.size, there.length)
    t.same(
      there,
      [...there].sort((one, other) => one.incarnation - other.incarnation),
    )
  })

  await t.test('a task is accepted once by several processes while other brokers begin to lead', async (t) => {
    const name = randomUUID()
    const stores = [await joined(t, name), await joined(t, name), await joined(t, name)]
    const ids = Array.from({ length: 40 }, (_, n) => `task ${n}`)
    const moves = (async () => {
      for (let n = 0; n < 4; n++) {
        await brokers.moveLeader(streamOf(name, 'tasks'))
        await sleep(100)
      }
    })()
    const said = await Promise.all(
      ids.map((id) => Promise.all(stores.map((store) => insist(() => store.submit(task(id)))))),
    )
    await moves
    t.same(
      said.filter((each) => each.filter((one) => one === 'fresh').length > 1),
      [],
    )
    const log = await insist(() => opened(stores[0]!))
    const taken: string[] = []
    for (let some = ['']; some.length > 0; taken.push(...some))
      some = (await insist(() => stores[0]!.take(log))).map(({ id }) => id)
    t.same(taken.sort(), ids.sort())
  })

  await t.test('an owner that wakes behind its successor has nothing written', async (t) => {
    const name = randomUUID()
    const quick = { beatMs: 100, suspectMs: 300, ttlMs: 600 }
    const store = new JetStreamStore({ url: brokers.url, name, shards: 1, times: quick })
    await freezeOwners(t, store, brokers.url, name, howMany(1, 50))
  })

  await t.test(
    'a log that is closed while the brokers are away keeps nobody waiting, and is taken by others',
    async (t) => {
      const name = randomUUID()
      const patient = { times: { beatMs: 100, suspectMs: 60_000, ttlMs: 60_000 } } // the owner lives, and is known to
      const [store, other] = [await joined(t, name, patient), await joined(t, name, patient)]
      const log = await opened(store)
      for (const { process } of brokers.all) process?.kill('SIGSTOP')
      const appended = t.rejects(log.append(blockOf(1)), { code: 'LOG_LOST', message: /closed while the brokers were/ })
      await log.close()
      await appended
      for (const { process } of brokers.all) process?.kill('SIGCONT')
      await brokers.ready()
      await insist(() => opened(other))
      t.ok((await other.view()).members.length > 0)
    },
  )

  await t.test('an append whose answer is lost is written once', async (t) => {
    const name = randomUUID()
    const door = await CuttingProxy.before(brokers.all[0]!.port)
    t.teardown(() => door.close())
    const store = await joined(t, name, { url: brokers.urlBy([door.port]) })
    const log = await opened(store)
    for (let seq = 1; seq <= 30; seq++) {
      door.cutAfter(4 * seq)
      await log.append(blockOf(seq))
    }
    t.same(await textOf(log), entries(1, 30))
  })

  await t.test('a refused submit wakes nobody', async (t) => {
    const notices: ClusterNotice[] = []
    const store = await joined(t, randomUUID(), {}, notices)
    await store.submit(task('a'))
    t.equal(await store.submit({ ...task('a'), hash: 'other' }), 'conflict')
    store.tell({ settled: 'end' })
    while (!notices.some((notice) => 'settled' in notice)) await sleep(5)
    t.same(notices, [{ shard: 0 }, { settled: 'end' }])
  })

  await t.test('nothing is purged that a log needs: neither all of it, nor its last message', async (t) => {
    const name = randomUUID()
    const store = await joined(t, name)
    const log = await opened(store)
    await log.dropBefore(0)
    const position = await log.append(blockOf(1))
    await log.dropBefore(4_096)
    await log.dropBefore(position)
    t.same(await textOf(log), entries(1, 1))
    await log.close()
    const again = store.log(0, () => {})
    t.match(await again.open(), { incarnation: 2, lastSeq: 1 })
    t.same(await textOf(again), entries(1, 1))
  })

  await t.test(
    'messages that are gone from the begin of a log are missed, but for those that it has dropped',
    async (t) => {
      const name = randomUUID()
      const store = await joined(t, name)
      const log = await opened(store)
      for (let seq = 1; seq <= 5; seq++) await appendAll(log, seq, seq)
      const position = await log.append(blockOf(6))
      await log.dropBefore(position - 2 * 4_096)
      await log.close()
      const again = await opened(store)
      t.same(await textOf(again), entries(4, 6))
      const later = await opened(store) // in the own name
      await t.rejects(again.dropBefore(position), { code: 'LOG_LOST' })
      t.same(await textOf(later), entries(4, 6))
      await later.close()
      await manager.streams.purge(streamOf(name, 'log_0'), { seq: 6 })
      await t.rejects(store.log(0, () => {}).open(), {
        code: 'LOG_CORRUPT',
        message: /^message 5 of .* nobody has dropped it/,
      })
    },
  )

  await t.test('a log that the brokers have lost is given up, and what was under way is told', async (t) => {
    const name = randomUUID()
    const store = await joined(t, name)
    const lost: Error[] = []
    const log = await opened(store, lost)
    await store.submit(task('before'))
    await appendAll(log, 1, 20)
    await store.view()
    await manager.streams.delete(streamOf(name, 'log_0'))
    const { config } = await manager.streams.info(streamOf(name, 'tasks'))
    const subjects = [config.subjects[0]!.replace('task.*.*.*', 'log.0')]
    await manager.streams.add({ name: streamOf(name, 'log_0'), subjects, num_replicas: 3 })
    await t.rejects(log.append(blockOf(21)), {
      code: 'LOG_LOST',
      message: /have lost acknowledged entries: they have 0/,
    })
    t.equal(lost.length, 1)
    const next = store.log(0, () => {})
    t.match(await next.open(), { incarnation: 2, lastSeq: 0 })
    t.ok((next.lost ?? 0) > 0)
    await store.submit(task('later'))
    const doubtful = (await store.take(next)).map((each) => [each.id, each.doubtful])
    t.same(doubtful, [
      ['before', true],
      ['later', true],
    ])
    await store.submit(task('last'))
    t.same(
      (await store.take(next)).map((each) => [each.id, each.doubtful]),
      [['last', false]],
    )
    await next.close()
    const third = await opened(store)
    t.equal(third.lost, undefined)
  })

  await t.test('streams that are gone are made again, and what comes then is accepted and given', async (t) => {
    const name = randomUUID()
    const warnings: string[] = []
    const warn = (text: string) => warnings.push(text)
    const store = await joined(t, name, { times: { ...times, ttlMs: 300 }, warn })
    const log = await opened(store)
    await appendAll(log, 1, 20)
    for (const id of ['a', 'b', 'c']) await store.submit(task(id))
    t.equal((await store.take(log)).length, 3)
    await store.view()
    await manager.streams.delete(streamOf(name, 'log_0'))
    await manager.streams.delete(streamOf(name, 'tasks'))
    await t.rejects(log.append(blockOf(21)), {
      code: 'LOG_LOST',
      message: /have lost acknowledged entries: they have 0/,
    })
    const next = store.log(0, () => {})
    t.match(await next.open(), { incarnation: 2, lastSeq: 0 })
    t.ok((next.lost ?? 0) > 0)
    t.same(await insist(() => store.take(next)), [])
    t.match(warnings.at(-1), /have lost stream .*_tasks, with all tasks and outcomes: it is made again/)
    t.equal(await store.outcome('a'), undefined)
    t.equal(await store.submit(task('d')), 'fresh') // its number was there before
    t.same(
      (await store.take(next)).map(({ id }) => id),
      ['d'],
    )
  })

  await t.test('tasks that are open are given again behind a cut: their end may have been lost', async (t) => {
    const door = await CuttingProxy.before(brokers.all[0]!.port)
    t.teardown(() => door.close())
    const store = await joined(t, randomUUID(), { url: brokers.urlBy([door.port]) })
    const log = await opened(store)
    for (const id of ['a', 'b']) await store.submit(task(id))
    t.equal((await store.take(log)).length, 2)
    await store.settle('a', { status: 'finished', body: Buffer.from('yes') })
    t.same(await store.take(log), [])
    door.cut()
    let given: string[] = []
    while (given.length === 0) given = (await insist(() => store.take(log))).map(({ id }) => id)
    t.same(given, ['b'])
    t.same(await store.take(log), [])
  })

  await t.test('a part of a log that the brokers have lost, and one of a stranger, are told', async (t) => {
    const name = randomUUID()
    const subject = `dramatis.${name}.log.0`
    // one that a store makes lets nobody delete a message
    await manager.streams.add({ name: streamOf(name, 'log_0'), subjects: [subject], num_replicas: 3 })
    const store = await joined(t, name)
    const log = await opened(store)
    await appendAll(log, 1, 1)
    await appendAll(log, 2, 2)
    await manager.streams.deleteMessage(streamOf(name, 'log_0'), 2)
    await t.rejects(textOf(log), { code: 'LOG_CORRUPT', message: /^message 2 of stream .*_log_0 is not there/ })
    await log.close()
    const { connection } = await brokers.admin()
    await connection.request(subject, 'a stranger')
    await t.rejects(store.log(0, () => {}).open(), { code: 'LOG_CORRUPT', message: /is none of its owner$/ })
  })

  await t.test('what is larger than a message goes in parts, which go with it', async (t) => {
    const name = randomUUID()
    const store = await joined(t, name)
    const log = await opened(store)
    const [large, larger] = ['body '.repeat(400_000), 'outcome '.repeat(400_000)]
    t.equal(await store.submit(task('a', large)), 'fresh')
    t.equal(await store.submit(task('a', large)), 'known')
    const [taken] = await store.take(log)
    t.equal(Buffer.from(taken!.body).toString(), large)
    const parts = { subjects_filter: `dramatis.${name}.part.*.*` }
    const partsThere = async () =>
      Object.keys((await manager.streams.info(streamOf(name, 'tasks'), parts)).state.subjects ?? {})
    t.equal((await partsThere()).length, 3)
    await store.settle('a', { status: 'finished', body: Buffer.from(larger) })
    const state = await store.outcome('a')
    t.equal(Buffer.from(state!.outcome!.body).toString(), larger)
    t.equal((await partsThere()).length, 5)
  })

  await t.test('outcomes are kept for their days, and tasks without one for ever', async (t) => {
    const store = await joined(t, randomUUID(), { keep: { days: 1 / 86_400 } })
    await store.submit(task('open'))
    await store.submit(task('done'))
    await store.settle('done', { status: 'finished', body: Buffer.from('yes') })
    while ((await store.outcome('done')) !== undefined) await sleep(100)
    t.equal(await store.submit(task('done')), 'fresh')
    t.same(await store.outcome('open'), { shard: 0, outcome: undefined })
  })

  await t.test('an append that waits for long is told, with who leads its stream', async (t) => {
    const name = randomUUID()
    const warnings: string[] = []
    const store = await joined(t, name, {
      times: { ...times, ttlMs: 100 },
      warn: (text: string) => warnings.push(text),
    })
    const log = await opened(store)
    const [, ...rest] = brokers.all
    for (const broker of rest) await brokers.kill(broker)
    const appended = log.append(blockOf(1))
    while (warnings.length === 0) await sleep(20)
    for (const broker of rest) brokers.run(broker)
    await appended
    t.match(
      warnings[0],
      new RegExp(`^an append to shard 0 has waited for 0.3 s: stream dramatis_${name}_log_0 is led by `),
    )
    t.same(await textOf(log), entries(1, 1))
    await brokers.ready()
  })
})

/** By issues 7549 and 7556 of nats-server such bits cost acknowledged messages: nothing that is gone is taken for all. */
t.test('bits that flip on the disk of one broker', { skip: !program && WHY_NOT, timeout: 0 }, async (t) => {
  const dice = new Dice(7)
  const stream = 'dramatis_bits_log_0'
  for (let n = 0; n < howMany(1, 20); n++) {
    const brokers = await NatsBrokers.start(program!)
    t.teardown(() => brokers.remove())
    const times = { beatMs: 100, suspectMs: 1_000, ttlMs: 3_000 }
    const make = () => new JetStreamStore({ url: brokers.url, name: 'bits', shards: 1, times, warn() {} })
    const [before, next] = [make(), make()]
    await before.join({ id: randomUUID() }, () => {})
    const log = before.log(0, () => {})
    await log.open()
    for (let seq = 1; seq <= 100; seq++) await log.append(blockOf(seq))
    await log.close()
    await next.join({ id: randomUUID() }, () => {})
    await next.view()

    const broker = brokers.all[n % 3]!
    await brokers.kill(broker)
    const folder = join(brokers.folder, broker.name, 'jetstream', '$G', 'streams', stream, 'msgs')
    const file = join(folder, dice.pick(readdirSync(folder)))
    const bytes = readFileSync(file)
    const flips = Array.from({ length: 1 + (n % 4) }, () => dice.upTo(bytes.length))
    for (const at of flips) bytes[at]! ^= 1 << dice.upTo(8)
    writeFileSync(file, bytes)
    brokers.run(broker)
    await brokers.ready()
    for (let moves = 0; moves < 20 && (await brokers.leaderOf(stream)) !== broker; moves++)
      await brokers.moveLeader(stream)

    const again = next.log(0, () => {})
    const read = async () => {
      await again.open()
      return textOf(again)
    }
    const told = await read().catch((error: DramatisError) => error)
    const what = told instanceof Error ? told.message : `lost ${again.lost}`
    t.comment(`${broker.name}, ${file.split('/').at(-1)}, ${flips} of ${bytes.length}: ${what}`)
    if (told instanceof Error) t.match(told.code, /^(LOG_CORRUPT|LOG_LOST)$/)
    else if (again.lost === undefined) t.same(told, entries(1, 100))
    else t.same(told, entries(1, told.length))
    await Promise.all([before.leave(), next.leave()])
    await brokers.remove()
  }
})
