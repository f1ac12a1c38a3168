/** Rules 4, 12, 13 and 17: threads that are stuck, that hold too much or do not end. */
import { existsSync } from 'node:fs'
import { close, open } from 'node:inspector'
import { availableParallelism } from 'node:os'
import t from 'tap'
import { ExternalMemory } from '../../src/actors/turn/own-work.ts'
import { createTeam, type RuntimeEvent } from '../../src/index.ts'
import { CLAIM, EXTERNAL_KIB } from '../../src/mailbox/channel.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import type { ThreadTimes } from '../../src/runtime/threads/thread.ts'
import { halfOfMemoryMb } from '../../src/runtime/threads/worker-thread.ts'
import type { Scheduler } from '../../src/shared/clock.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { roomOf } from '../kit/accounts.ts'
import { ahead, BareSupervisor } from '../kit/bare-supervisor.ts'
import { ask, askAll, never, outcomeOf, type Receive, silent } from '../kit/team.ts'

const parts = [restarts, watchdog]
const supervision = { watchdogMs: 1_000 }

/** An agent in a turn of its own. */
async function inTurn(receive: Receive, options: ConstructorParameters<typeof BareSupervisor>[2] = { supervision }) {
  const bare = new BareSupervisor({ worker: receive }, parts, options)
  await bare.start()
  const asked = outcomeOf(bare.ask('worker'))
  await bare.clock.advance(1)
  return { bare, asked, agent: bare.host.directory.agent('worker')!, thread: bare.threads.get('worker')! }
}

/** The timers that are set. */
function counted() {
  const open = new Set<object>()
  const watch = (clock: Scheduler): Scheduler => ({
    ...ahead(clock, () => 0),
    timer(ms, task) {
      const set = clock.timer(ms, () => {
        open.delete(timer)
        task()
      })
      const timer = { cancel: () => open.delete(timer) && set.cancel() }
      open.add(timer)
      return timer
    },
  })
  return { open, watch }
}

t.test('rule 13: a thread that is silent in its turn for watchdogMs is ended and replaced', async (t) => {
  const { bare, asked, agent, thread } = await inTurn((_message, { attempt }) =>
    attempt > 1 ? `attempt ${attempt}` : never,
  )
  thread.ailments.add('deaf')
  await bare.clock.advance(900)
  t.equal(agent.epoch, 1)
  await bare.clock.advance(600)
  t.equal(agent.epoch, 2)
  t.match(asked, { value: 'attempt 2' })
})

t.test('rule 13: its message counts the attempt, and the same again is poison', async (t) => {
  const { bare, asked, agent, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  await bare.clock.advance(1_500)
  bare.threads.get('worker')!.ailments.add('deaf')
  await bare.clock.advance(1_500)
  t.equal(agent.epoch, 3)
  t.match(asked.error, {
    code: 'AGENT_CRASHED',
    message: /is stuck: with a turn under way it gave no sign of life for 1000 ms/,
  })
})

t.test('rule 13: a thread that answers its bells may take as long as it likes', async (t) => {
  const { bare, agent } = await inTurn(() => never)
  await bare.clock.advance(60_000)
  t.equal(agent.epoch, 1)
})

t.test('rule 13: a thread that writes is alive, though it answers no bell', async (t) => {
  const { bare, agent, thread } = await inTurn(async (_message, context) => {
    for (let i = 0; i < 10; i++) {
      await context.sleep(400)
      context.now()
    }
    return never
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(4_900)
  t.equal(agent.epoch, 1)
  await bare.clock.advance(600)
  t.equal(agent.epoch, 2)
})

for (const priority of [0, 5])
  t.test(
    `rule 13: a thread that takes messages of priority ${priority} is alive though it hears no bell`,
    async (t) => {
      const cast: Record<string, Receive> = {
        worker: async ({ content }, context) => (content === 'quick' ? '' : context.sleep(400).then(() => 'done')),
      }
      const bare = new BareSupervisor(cast, parts, { supervision })
      await bare.start()
      for (let i = 0; i < 50; i++) await bare.ask('worker', 'quick', priority) // then more than one is handed over
      for (let i = 0; i < 6; i++) outcomeOf(bare.ask('worker', 'slow', priority))
      await bare.clock.advance(1)
      t.equal(bare.host.directory.agent('worker')!.mailbox.handed.size, 6)
      bare.threads.get('worker')!.ailments.add('deaf').add('mute')
      await bare.clock.advance(2_300)
      t.equal(bare.host.directory.agent('worker')!.epoch, 1)
    },
  )

const GROWING: { title: string; grownMb: number; ownMb: number; afterMs: number }[] = [
  { title: 'not at all', grownMb: 0, ownMb: 0, afterMs: 1_250 },
  { title: 'by garbage that is collected', grownMb: -10, ownMb: 500, afterMs: 1_250 },
  { title: 'by too little', grownMb: 63, ownMb: 63, afterMs: 1_250 },
  { title: 'by what others have taken', grownMb: 100, ownMb: 24, afterMs: 1_250 },
  { title: 'by what it has taken, some of it by helpers', grownMb: 100, ownMb: 25, afterMs: 750 },
  { title: 'beyond half of the memory', grownMb: halfOfMemoryMb(), ownMb: halfOfMemoryMb(), afterMs: 500 },
]

for (const { title, grownMb, ownMb, afterMs } of GROWING)
  t.test(`rule 13: its loop stands while the process grows, ${title}: ended after ${afterMs} ms`, async (t) => {
    const { bare, agent, thread } = await inTurn(() => never)
    thread.ailments.add('deaf')
    let looks = 0
    const rss = process.memoryUsage.rss
    t.teardown(() => {
      process.memoryUsage.rss = rss
    })
    process.memoryUsage.rss = () => (looks > 1 ? grownMb + 1_000 : 1_000) * 2 ** 20
    agent.incarnation!.thread.times = () => {
      looks += 1
      const taken = looks > 1 ? ownMb : 0
      return { cpuMs: looks * 250, waitedMs: 0, runnable: true, takenMb: taken }
    }
    await bare.clock.advance(afterMs - 1)
    t.equal(agent.epoch, 1)
    await bare.clock.advance(251)
    t.equal(agent.epoch, 2)
  })

t.test('rule 13: a thread without a turn under way is not watched', async (t) => {
  const { bare, agent, thread } = await inTurn(() => 'done')
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(agent.epoch, 1)
})

t.test('rule 13: watchdogMs false: nobody watches', async (t) => {
  const { open, watch } = counted()
  const { bare, agent, thread } = await inTurn(() => never, { supervision: { watchdogMs: false }, watch })
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(agent.epoch, 1)
  t.equal(open.size, 0)
})

t.test('rule 13: watchdogMs false: nobody watches one whose memory has a limit either', async (t) => {
  const { bare, agent, thread } = await inTurn(() => never, {
    supervision: { watchdogMs: false },
    roles: { worker: { limits: { maxExternalMb: 100 } } },
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(agent.epoch, 1)
})

t.test('rule 13: time in which the host itself was late counts as one interval', async (t) => {
  let lost = 0
  const { bare, agent, thread } = await inTurn(() => never, {
    supervision,
    watch: (clock) => ahead(clock, () => lost),
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(400)
  lost = 10_000 // the host did not run for ten seconds
  await bare.clock.advance(800)
  t.equal(agent.epoch, 1)
  await bare.clock.advance(600)
  t.equal(agent.epoch, 2)
})

t.test('rule 13: a host that is late each time finds a thread that is stuck', async (t) => {
  const { bare, agent, thread } = await inTurn(() => never, {
    supervision,
    watch: (clock) => ahead(clock, () => 9 * clock.monotonic()),
  })
  await bare.clock.advance(5_000)
  t.equal(agent.epoch, 1)
  thread.ailments.add('deaf')
  await bare.clock.advance(1_500)
  t.equal(agent.epoch, 2)
})

t.test('rule 13: it pauses while a debugger is attached', async (t) => {
  const { bare, agent, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  open(0, '127.0.0.1')
  await bare.clock.advance(10_000)
  close()
  t.equal(agent.epoch, 1)
  await bare.clock.advance(1_500)
  t.equal(agent.epoch, 2)
})

t.test('rule 13: one agent has its own watchdogMs, whatever the others have', async (t) => {
  const bare = new BareSupervisor({ quick: () => never, slow: () => never }, parts, {
    supervision: { watchdogMs: 1_000_000 },
    roles: { quick: { supervision: { watchdogMs: 100 } } },
  })
  await bare.start()
  outcomeOf(bare.ask('slow'))
  await bare.clock.advance(1)
  outcomeOf(bare.ask('quick'))
  await bare.clock.advance(1)
  for (const thread of bare.threads.values()) thread.ailments.add('deaf')
  await bare.clock.advance(200)
  t.equal(bare.host.directory.agent('quick')!.epoch, 2)
  t.equal(bare.host.directory.agent('slow')!.epoch, 1)
})

/** One that is deaf, and of which the system says that. */
async function told(receive: Receive, times: (ms: number) => ThreadTimes) {
  const team = await inTurn(receive)
  const { clock, threads } = team.bare
  const make = () => {
    const thread = threads.get('worker')!
    thread.ailments.add('deaf')
    thread.times = () => times(clock.monotonic())
  }
  make()
  return { ...team, make }
}

t.test('rule 13: a thread that waits for a processor is not stuck, however long it waits', async (t) => {
  const { bare, agent } = await told(
    () => never,
    (ms) => ({ cpuMs: ms / 100, waitedMs: (99 * ms) / 100, runnable: true }),
  )
  await bare.clock.advance(90_000)
  t.equal(agent.epoch, 1)
  await bare.clock.advance(20_000)
  t.equal(agent.epoch, 2, 'it has used watchdogMs of processor time')
})

t.test('rule 13: a thread that is blocked is ended, though it uses no processor', async (t) => {
  const { bare, asked, agent } = await told(
    (_message, { attempt }) => (attempt > 1 ? `attempt ${attempt}` : never),
    () => ({ cpuMs: 7, waitedMs: 7, runnable: false }),
  )
  await bare.clock.advance(2_000)
  t.equal(agent.epoch, 2)
  t.match(asked, { value: 'attempt 2' })
})

t.test('rule 13: where nobody knows whether it waits for a processor, it has ten times as long', async (t) => {
  const { bare, agent } = await told(
    () => never,
    () => ({ cpuMs: 0, waitedMs: 0, runnable: true }),
  )
  await bare.clock.advance(9_500)
  t.equal(agent.epoch, 1)
  await bare.clock.advance(1_500)
  t.equal(agent.epoch, 2)
})

t.test('rules 7, 13: a message is not charged with a death for which a processor may have been missing', async (t) => {
  const { bare, asked, agent, make } = await told(
    () => never,
    () => ({ cpuMs: 0, waitedMs: 0, runnable: true }),
  )
  for (let life = 1; life <= 3; life++) {
    t.equal(agent.epoch, life)
    make()
    await bare.clock.advance(20_000)
  }
  t.notOk(asked.settled, 'three deaths would have been poison, and two of the same kind')
  for (let life = 4; life <= 5; life++) {
    make()
    await bare.clock.advance(20_000)
  }
  t.match(asked.error, { code: 'AGENT_CRASHED', message: /died 2 times on this message/ }, 'but not for ever')
})

t.test('rule 13: its death says what the thread did with the time', async (t) => {
  const { bare, asked, make } = await told(
    () => never,
    (ms) => ({ cpuMs: ms / 2, waitedMs: ms / 2, runnable: true }),
  )
  await bare.clock.advance(4_000)
  make()
  await bare.clock.advance(4_000)
  t.match(
    asked.error?.message,
    /used 1000 ms of processor time, was blocked for 0 ms and waited 1000 ms for a processor/,
  )
})

t.test('rule 13: what a thread did is read only where a look finds it silent', async (t) => {
  let readings = 0
  const { bare, thread } = await inTurn(() => never)
  thread.times = () => {
    readings += 1
    return undefined
  }
  await bare.clock.advance(60_000)
  t.equal(readings, 0)
  thread.ailments.add('deaf')
  await bare.clock.advance(600)
  t.ok(readings > 0)
})

t.test('rule 13: a new life has all of its time, however long the one before it was silent', async (t) => {
  const { bare, agent, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  await bare.clock.advance(900)
  thread.terminate()
  await bare.clock.advance(1)
  t.equal(agent.epoch, 2)
  bare.threads.get('worker')!.ailments.add('deaf')
  await bare.clock.advance(900)
  t.equal(agent.epoch, 2)
  await bare.clock.advance(600)
  t.equal(agent.epoch, 3)
})

t.test("rule 13: a protocol script in the host's own thread is not watched", async (t) => {
  const { bare, agent, thread } = await inTurn(() => never)
  thread.isolated = false
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(agent.epoch, 1)
})

t.test('rule 13: a team in which nobody has a turn has no timer', async (t) => {
  const { open, watch } = counted()
  const { bare, asked } = await inTurn((_message, context) => context.sleep(2_000), { supervision, watch })
  t.equal(open.size, 1)
  await bare.clock.advance(3_000)
  t.ok(asked.settled)
  t.equal(open.size, 0)
})

t.test('rules 4 and 13: a thread that does not end is fenced off after a second, and seen no more', async (t) => {
  let lives = 0
  const { bare, asked, agent, thread } = await inTurn(async (_message, context) => {
    lives += 1
    const life = lives
    await context.sleep(5_000 - life) // another one in each life: a step that is the same would be over for both at once
    void context.step(`life ${life}`, () => 1)
    return `life ${life}`
  })
  thread.ailments.add('deaf').add('stubborn')
  await bare.clock.advance(1_300) // stuck, and told to end
  t.equal(agent.epoch, 1)
  await bare.clock.advance(1_000)
  t.equal(agent.epoch, 2)
  await bare.clock.advance(3_000) // the fenced one wakes up and answers
  t.notOk(asked.settled)
  t.equal(agent.staleFrames, 0)
  thread.ailments.clear()
  thread.terminate() // and ends after all
  await bare.clock.advance(0)
  t.equal(agent.staleFrames, 4, 'the end of its sleep, the beginning and the end of its step, and its answer')
  await bare.clock.advance(2_000)
  t.equal(asked.value, 'life 2')
  t.equal(agent.epoch, 2)
})

// Rules 4, 12, 13 and 17: a thread that does not end when it is told to is fenced off, and does no harm from then on.

const CAPACITY = 4
const BYTES = 2_000_000
const communication = { mailboxCapacity: CAPACITY, mailboxBytes: BYTES }

/** A worker whose thread is fenced off in its first turn; it goes on after five seconds, and sends what `text` says. */
async function fenced(text: string) {
  const heard: string[] = []
  const bare = new BareSupervisor(
    {
      async worker(_message, context) {
        if (context.attempt > 1) return 'done'
        await context.sleep(5_000)
        await context.send('other', text)
      },
      other: ({ content }) => void heard.push(content),
    },
    [restarts, watchdog],
    { supervision: { watchdogMs: 1_000 }, roles: { other: { communication } } },
  )
  await bare.start()
  const { host, clock } = bare
  const [worker, other] = [host.directory.agent('worker')!, host.directory.agent('other')!]
  const asked = outcomeOf(bare.ask('worker'))
  await clock.advance(1)
  const incarnation = worker.incarnation!
  const thread = bare.threads.get('worker')!
  thread.ailments.add('deaf').add('stubborn')
  const endsAtLast = async () => {
    thread.ailments.clear()
    thread.terminate()
    await clock.advance(0)
  }
  /** Whether all of its bytes are free. */
  const allBytes = () => {
    const all = host.team.reserve(other.index, BYTES)
    if (all) host.team.release(other.index, BYTES)
    const more = host.team.reserve(other.index, BYTES + 1)
    return all && !more
  }
  const room = () => ({ messages: roomOf(host, other), allBytes: allBytes() })
  return { bare, host, clock, worker, other, asked, incarnation, heard, endsAtLast, room }
}

for (const [size, text] of [
  ['a message', 'stale'],
  ['a message that crosses in parts', 'x'.repeat(300_000)],
] as const)
  t.test(`rules 4 and 17: ${size} of a fenced thread is dropped, and its room given back once`, async (t) => {
    const { clock, worker, asked, heard, endsAtLast, room } = await fenced(text)
    await clock.advance(3_000)
    t.same([worker.epoch, asked.value], [2, 'done'])
    await clock.advance(3_000) // it sends
    await endsAtLast()
    t.ok(worker.staleFrames > 0)
    t.same(heard, [])
    t.same(room(), { messages: CAPACITY, allBytes: true })
  })

for (const when of ['before', 'after'])
  t.test(`rule 17: a claim that it had made ${when} it was fenced off is given back once, at its end`, async (t) => {
    const { host, clock, other, incarnation, endsAtLast, room } = await fenced('stale')
    const claim = () => {
      host.team.reserve(other.index, 500)
      incarnation.channel.words.set([other.index + 1, 500, 7, 9], CLAIM)
    }
    if (when === 'before') claim()
    await clock.advance(3_000)
    if (when === 'after') claim()
    t.equal(roomOf(host, other), CAPACITY - 1, 'its thread may use it yet')
    await endsAtLast()
    t.same(room(), { messages: CAPACITY, allBytes: true })
  })

t.test('rule 12: closing does not hang on a thread that does not end, nor on one that was fenced off', async (t) => {
  const { bare, host, clock, worker } = await fenced('stale')
  await clock.advance(3_000)
  bare.threads.get('worker')!.ailments.add('stubborn')
  bare.threads.get('other')!.ailments.add('stubborn')
  const ended = outcomeOf(Promise.all(host.directory.byIndex.map((agent) => host.lifecycle.end(agent))))
  await clock.advance(6_000)
  t.equal(ended.settled, true)
  t.equal(worker.incarnation === undefined, true)
})

t.test('rules 1 and 4: agents that are restarted together wait a second for one that does not end', async (t) => {
  const bare = new BareSupervisor({ a: () => 'a', b: () => 'b' }, [restarts], {
    supervision: { strategy: 'one_for_all' },
  })
  await bare.start()
  bare.threads.get('b')!.ailments.add('stubborn')
  bare.threads.get('a')!.terminate()
  await bare.clock.advance(999)
  t.same([bare.host.directory.agent('a')!.epoch, bare.host.directory.agent('b')!.epoch], [1, 1])
  await bare.clock.advance(1)
  t.same([bare.host.directory.agent('a')!.epoch, bare.host.directory.agent('b')!.epoch], [2, 2])
  t.equal(await bare.ask('b'), 'b')
})

// Rule 13 and `limits.maxExternalMb`: what a thread may hold outside of its heap.

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
  const agent = bare.host.directory.agent('worker')!
  const holds = (kib: number) => Atomics.store(agent.incarnation!.channel.words, EXTERNAL_KIB, kib)
  return { bare, asked, agent, holds }
}

for (const watchdogMs of [5_000, false] as const)
  t.test(`rule 13: a thread that holds more than maxExternalMb is ended (watchdogMs ${watchdogMs})`, async (t) => {
    const { bare, asked, agent, holds } = await working(watchdogMs)
    holds(10 * 1_024)
    await bare.clock.advance(5_000)
    t.equal(agent.epoch, 1)
    holds(10 * 1_024 + 1)
    await bare.clock.advance(1_500)
    t.equal(agent.epoch, 2)
    t.match(asked, { value: 'attempt 2' })
    t.match(agent.restartTimes, [{ epoch: 1 }], 'it counts as a crash')
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
  const agent = bare.host.directory.agent('worker')!
  await bare.ask('worker')
  Atomics.store(agent.incarnation!.channel.words, EXTERNAL_KIB, 11 * 1_024)
  await bare.ask('worker')
  await bare.clock.advance(0)
  t.equal(agent.epoch, 2)
})

t.test('rule 13: a thread with a limit is asked every 250 ms while it has a turn', async (t) => {
  for (const watchdogMs of [5_000, false] as const) {
    const { bare, agent } = await working(watchdogMs)
    const { thread } = agent.incarnation!
    const ring = thread.wake.bind(thread)
    let rings = 0
    thread.wake = () => {
      rings += 1
      ring()
    }
    await bare.clock.advance(1_000)
    t.equal(rings, 4)
  }
})

t.test('rule 13: a thread that blocks is ended by what Node says of it when that is more than garbage', async (t) => {
  const { bare, asked, agent } = await working()
  const { thread } = agent.incarnation!
  bare.threads.get('worker')!.ailments.add('deaf')
  let heldMb = 276
  thread.held = async () => heldMb * 2 ** 20
  await bare.clock.advance(1_000)
  t.equal(agent.epoch, 1)
  heldMb = 277
  await bare.clock.advance(1_000)
  t.match(agent.restartTimes, [{ epoch: 1 }])
  t.match(asked, { value: 'attempt 2' })
})

t.test('rule 13: a thread that Node cannot be asked about goes on', async (t) => {
  const { bare, agent } = await working()
  agent.incarnation!.thread.held = () => Promise.reject(new Error('it has ended'))
  await bare.clock.advance(1_000)
  t.equal(agent.epoch, 1)
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

// Rule 13 where there are more threads than processors: who was given none is not stuck. The figures are of Linux.

const module = new URL('../fixtures/supervision/computes.js', import.meta.url)
const skip = !existsSync('/proc/thread-self/schedstat') && 'the kernel tells no figures of threads here'

function teamOf(t: { teardown(end: () => Promise<void>): void }, agents: number, watchdogMs: number) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    maxConcurrentAgents: agents,
    supervision: { watchdogMs },
    agents: Array.from({ length: agents }, (_, i) => ({ name: `worker-${i}`, module })),
    orchestration: askAll,
  })
  const crashes: Extract<RuntimeEvent, { type: 'agent.crashed' }>[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashes.push(event)))
  t.teardown(() => team.close())
  return { team, crashes }
}

t.test('rule 13: agents that work at once, more of them than processors, are left alone', { skip }, async (t) => {
  const crowd = Math.min(24, 3 * availableParallelism())
  const { team, crashes } = teamOf(t, crowd, 350)
  const { agentOutputs } = await team.execute('compute 200')
  const answers = Object.values(agentOutputs).flatMap((outputs) => outputs.map(({ content }) => content))
  t.same(answers, Array(crowd).fill('attempt 1'))
  t.same(crashes, [])
})

t.test('rule 13: a thread that computes for watchdogMs is ended, and its death says so', { skip }, async (t) => {
  const { team, crashes } = teamOf(t, 1, 300)
  await t.rejects(ask(team, 'worker-0', 'compute 1000000'), { code: 'AGENT_CRASHED', message: /died 2 times/ })
  for (const { error } of crashes) {
    t.match(error.message, /it used \d+ ms of processor time, was blocked for \d+ ms and waited \d+ ms for a processor/)
    t.ok(Number(error.details?.processorMs) >= 150, `processor time ${error.details?.processorMs}`)
  }
})

t.test('rule 13: a thread that sleeps without its event loop uses no processor, and is ended', { skip }, async (t) => {
  const { team, crashes } = teamOf(t, 1, 300)
  t.equal(await ask(team, 'worker-0', 'sleep'), 'attempt 2')
  t.match(crashes, [{ error: { code: 'AGENT_CRASHED' } }])
  t.ok(Number(crashes[0]!.error.details?.blockedMs) >= 150)
})
