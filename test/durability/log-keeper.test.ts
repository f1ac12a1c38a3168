/** What goes into one block, who waits for it, and what is told when nothing can be written any more. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { LogKeeper } from '../../src/runtime/durability/log-keeper.ts'
import { type LogEntry, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { type DramatisError, LogLostError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { decoded } from './log-entries.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

async function kept(commits = false, clock: Scheduler = systemClock) {
  const disk = new MemoryDisk()
  const store = new MemoryStore(disk)
  await store.open()
  const lost: DramatisError[] = []
  const slow: boolean[] = []
  let told = () => {}
  const journal = { tell: () => told(), keep: () => {} }
  const options = {
    clock,
    journal,
    store,
    commits,
    syncMs: 60_000,
    end: 0,
    lost: (error: DramatisError) => lost.push(error),
    slow: (isSlow: boolean) => slow.push(isSlow),
  }
  const keeper = new LogKeeper(options)
  let seq = 0
  const log = (reason: string) => {
    keeper.take({ kind: 'run.aborted', reason, run: 1, at: 0, seq })
    seq += SEQ_STEP
  }
  const blocks = () => disk.blocks.map(({ entries }) => decoded(entries).map(reasonOf))
  const onTell = (listener: () => void) => {
    told = listener
  }
  return { store, keeper, lost, slow, log, blocks, onTell }
}

const reasonOf = (entry: LogEntry) => (entry.kind === 'run.aborted' ? entry.reason : entry.kind)

t.test('what one task logs is one block, with its promises and what readers log about it', async (t) => {
  const { keeper, log, blocks, onTell } = await kept()
  onTell(() => {
    onTell(() => {})
    log('a reader')
  })
  log('first')
  await Promise.resolve()
  log('second')
  await keeper.written()
  await turn()
  log('third')
  await keeper.written()
  t.same(blocks(), [['first', 'second', 'a reader'], ['third']])
  await keeper.close()
})

t.test('close writes what is left, and takes nothing after that', async (t) => {
  const { keeper, log, blocks } = await kept()
  log('left')
  await keeper.close()
  log('late')
  await turn()
  t.same(blocks(), [['left']])
  await t.rejects(keeper.written(), { code: 'TEAM_CLOSED' })
})

t.test('close ends what waits for room on the disk, and says that it is not written', async (t) => {
  const { store, keeper, lost, log } = await kept()
  let refuse = (_reason: Error) => {}
  store.append = () =>
    new Promise((_, reject) => {
      refuse = reject
    })
  const close = store.close.bind(store)
  store.close = async () => {
    refuse(new LogLostError('there was no room'))
    await close()
  }
  log('left')
  const told = keeper.written()
  await Promise.all([
    t.rejects(keeper.close(), { code: 'LOG_LOST', message: 'there was no room' }),
    t.rejects(told, { code: 'LOG_LOST', message: 'there was no room' }),
  ])
  t.same([store.state, lost], ['closed', []])
})

t.test('a store that throws loses the log, and its error is told', async (t) => {
  for (const method of ['append', 'sync'] as const) {
    const { store, keeper, lost, log } = await kept(true)
    store[method] = () => {
      throw new Error('no connection')
    }
    log('first')
    await t.rejects(keeper.written(), /no connection/)
    t.match(lost, [{ code: 'LOG_LOST', message: /no connection/ }])
    t.match(keeper.health, { ok: false })
    await keeper.close()
  }
})

t.test('a store that takes long is told of, once, and that it has done all', async (t) => {
  let now = 0
  let timers: { at: number; task: () => void }[] = []
  const pass = (ms: number) => {
    now += ms
    const due = timers.filter(({ at }) => at <= now)
    timers = timers.filter(({ at }) => at > now)
    for (const { task } of due) task()
  }
  const timer = (ms: number, task: () => void) => {
    const entry = { at: now + ms, task }
    timers.push(entry)
    return {
      cancel() {
        timers = timers.filter((each) => each !== entry)
      },
    }
  }
  const { store, keeper, slow, log } = await kept(false, { ...systemClock, monotonic: () => now, timer })
  const append = store.append.bind(store)
  const releases: (() => void)[] = []
  store.append = async (block) => {
    await new Promise<void>((resolve) => releases.push(resolve))
    return append(block)
  }
  log('first')
  await turn()
  pass(9_000)
  log('second')
  await turn()
  t.match(keeper.health, { ok: true, lagMs: 9_000 })
  releases.shift()!()
  await turn()
  pass(9_000)
  t.same([slow, keeper.health], [[], { ok: true, lagMs: 9_000 }], 'each of them took less than 10 s')
  pass(1_000)
  log('third')
  await turn()
  pass(10_000)
  t.same([slow, keeper.health], [[true], { ok: false, lagMs: 20_000 }])
  for (const release of releases.splice(0)) release()
  await keeper.written()
  t.same([slow, keeper.health], [[true, false], { ok: true, lagMs: 0 }])
  await keeper.close()
  t.same(timers, [])
})

t.test('with commit nobody is told before the block is synced', async (t) => {
  const { store, keeper, log, blocks } = await kept(true)
  let synced = () => {}
  const syncing = new Promise<void>((resolve) => {
    synced = resolve
  })
  store.sync = () => syncing
  log('paid')
  let isTold = false
  const told = keeper.written().then(() => {
    isTold = true
  })
  for (let turns = 0; turns < 5; turns++) await turn()
  t.same([blocks(), isTold], [[['paid']], false])
  synced()
  await told
  t.ok(isTold)
})

t.test('with commit a block is synced when somebody is told of it, and those before it with it', async (t) => {
  const { store, keeper, log, blocks } = await kept(true)
  let syncs = 0
  store.sync = async () => {
    syncs += 1
  }
  log('nobody waits')
  await turn()
  await turn()
  t.same([blocks(), syncs], [[['nobody waits']], 0])
  await Promise.all([keeper.written(), keeper.written()])
  t.equal(syncs, 1, 'whoever asks later waits for the disk too')
  await keeper.written()
  t.equal(syncs, 1, 'and what is on the disk is not synced again')
  log('first')
  await turn()
  log('told')
  await keeper.written()
  t.same([blocks().length, syncs], [3, 2])
  await keeper.close()
})

t.test('a block that cannot be written ends it: all who wait get the reason, and it is told once', async (t) => {
  const { store, keeper, lost, log, blocks } = await kept()
  store.append = async () => {
    throw new LogLostError('the disk is gone')
  }
  log('first')
  const waiting = keeper.written()
  await t.rejects(waiting, { code: 'LOG_LOST' })
  log('second')
  await t.rejects(keeper.written(), { code: 'LOG_LOST', message: 'the disk is gone' })
  await turn()
  t.same(pluck(lost, 'code'), ['LOG_LOST'])
  t.same(blocks(), [])
})
