/** Rule 13 and `limits.maxExternalMb`: what a thread may hold outside of its heap. */
import t from 'tap'
import { ExternalMemory } from '../../src/actors/turn/own-work.ts'
import { EXTERNAL_KIB } from '../../src/mailbox/channel.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { never, outcomeOf } from './teams.ts'

/** A worker that may hold 10 MiB, and is at its first turn. */
async function working(watchdogMs: number | false = 5_000) {
  const bare = new BareSupervisor(
    { worker: (_message, { attempt }) => (attempt > 1 ? `attempt ${attempt}` : never) },
    [restarts, watchdog],
    { supervision: { watchdogMs }, roles: { worker: { limits: { maxExternalMb: 10 } } } },
  )
  await bare.start()
  const asked = outcomeOf(bare.ask('worker'))
  await bare.clock.advance(1)
  const cell = bare.host.directory.cell('worker')!
  const holds = (kib: number) => Atomics.store(cell.life!.window.words, EXTERNAL_KIB, kib)
  return { bare, asked, cell, holds }
}

for (const watchdogMs of [5_000, false] as const)
  t.test(`rule 13: a thread that holds more than maxExternalMb is ended (watchdogMs ${watchdogMs})`, async (t) => {
    const { bare, asked, cell, holds } = await working(watchdogMs)
    holds(10 * 1_024)
    await bare.clock.advance(5_000)
    t.equal(cell.epoch, 1)
    holds(10 * 1_024 + 1)
    await bare.clock.advance(1_500)
    t.equal(cell.epoch, 2)
    t.match(asked, { value: 'attempt 2' })
    t.match(cell.restartTimes, [{ epoch: 1 }], 'it counts as a crash')
  })

t.test('rule 13: it is told what it held, what it may hold, and what to do', async (t) => {
  const { bare, asked, holds } = await working()
  const exits: DramatisError[] = []
  bare.host.journal.records$.subscribe((batch) => {
    for (const entry of batch) if (entry.kind === 'agent.exited') exits.push(entry.error)
  })
  holds(12 * 1_024)
  await bare.clock.advance(1_500)
  t.match(asked, { value: 'attempt 2' })
  t.match(exits[0], {
    code: 'AGENT_CRASHED',
    message: /"worker" holds 12\.0 MiB outside of its heap .* at most 10 are allowed \(limits\.maxExternalMb\)/,
    details: { agent: 'worker', heldMb: 12, maxExternalMb: 10 },
  })
})

t.test('rule 13: a turn that has ended is looked at too, without a timer', async (t) => {
  const bare = new BareSupervisor({ worker: () => 'done' }, [restarts, watchdog], {
    roles: { worker: { limits: { maxExternalMb: 10 } } },
  })
  await bare.start()
  const cell = bare.host.directory.cell('worker')!
  await bare.ask('worker')
  Atomics.store(cell.life!.window.words, EXTERNAL_KIB, 11 * 1_024)
  await bare.ask('worker')
  await bare.clock.advance(0)
  t.equal(cell.epoch, 2)
})

t.test('rule 13: a thread with a limit is asked every 250 ms while it has a turn', async (t) => {
  for (const watchdogMs of [5_000, false] as const) {
    const { bare, cell } = await working(watchdogMs)
    const { thread } = cell.life!
    const ring = thread.ring.bind(thread)
    let rings = 0
    thread.ring = () => {
      rings += 1
      ring()
    }
    await bare.clock.advance(1_000)
    t.equal(rings, 4)
  }
})

t.test(
  'rule 13: a thread that blocks is ended by what Node says of it, when that cannot be garbage alone',
  async (t) => {
    const { bare, asked, cell } = await working()
    const { thread } = cell.life!
    bare.threads.get('worker')!.ailments.add('deaf')
    let heldMb = 276
    thread.held = async () => heldMb * 2 ** 20
    await bare.clock.advance(1_000)
    t.equal(cell.epoch, 1)
    heldMb = 277
    await bare.clock.advance(1_000)
    t.match(cell.restartTimes, [{ epoch: 1 }])
    t.match(asked, { value: 'attempt 2' })
  },
)

t.test('rule 13: a thread that Node cannot be asked about goes on', async (t) => {
  const { bare, cell } = await working()
  cell.life!.thread.held = () => Promise.reject(new Error('it has ended'))
  await bare.clock.advance(1_000)
  t.equal(cell.epoch, 1)
})

// ---- in the thread

/** Samples of a thread whose garbage is `garbage` MiB and which holds `held`. */
function sampled(limitMb: number, memory: { held: number; garbage: number; tookMs?: number }) {
  const words = new Int32Array(new SharedArrayBuffer(512))
  const time = { now: 0 }
  let collections = 0
  const collect = () => {
    collections += 1
    memory.garbage = 0
    time.now += memory.tookMs ?? 0
  }
  const external = () => (memory.held + memory.garbage) * 2 ** 20
  const sampler = new ExternalMemory(words, limitMb, { external, collect }, () => time.now)
  return {
    at(ms: number) {
      time.now = ms
      sampler.sample()
      return (words[EXTERNAL_KIB] ?? 0) / 1_024
    },
    collections: () => collections,
  }
}

t.test('a sample is taken every 100 ms at most', async (t) => {
  const memory = { held: 1, garbage: 0 }
  const { at } = sampled(10, memory)
  t.equal(at(0), 1)
  memory.held = 2
  t.equal(at(99), 1)
  t.equal(at(100), 2)
})

t.test('garbage is collected before it is held against anybody', async (t) => {
  const memory = { held: 3, garbage: 9 }
  const { at, collections } = sampled(10, memory)
  t.equal(at(0), 3)
  memory.garbage = 5
  t.equal(at(100), 8)
  t.equal(collections(), 1)
  memory.garbage = 50
  t.equal(at(200), 3)
  t.equal(collections(), 2)
  memory.held = 11
  t.equal(at(300), 11)
})

t.test('a collection that took long is made again the later, after a second at the latest', async (t) => {
  for (const [tookMs, pauseMs] of [
    [5, 100],
    [40, 400],
    [500, 1_000],
  ] as const) {
    const memory = { held: 3, garbage: 9, tookMs }
    const { at, collections } = sampled(10, memory)
    at(0)
    memory.garbage = 50
    at(tookMs + pauseMs - 1)
    t.equal(collections(), 1, `${tookMs} ms`)
    at(tookMs + pauseMs)
    t.equal(collections(), 2, `${tookMs} ms`)
  }
})
