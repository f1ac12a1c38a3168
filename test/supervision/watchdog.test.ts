/** Rule 13 in virtual time: threads that are stuck, and threads that only look so. */
import { close, open } from 'node:inspector'
import t from 'tap'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import type { ThreadTimes } from '../../src/runtime/threads/thread.ts'
import { halfOfMemoryMb } from '../../src/runtime/threads/worker-thread.ts'
import type { Scheduler } from '../../src/shared/clock.ts'
import { ahead, BareSupervisor } from './bare-supervisor.ts'
import { never, outcomeOf, type Receive } from './teams.ts'

const parts = [restarts, watchdog]
const supervision = { watchdogMs: 1_000 }

/** An agent in a turn of its own. */
async function inTurn(receive: Receive, options: ConstructorParameters<typeof BareSupervisor>[2] = { supervision }) {
  const bare = new BareSupervisor({ worker: receive }, parts, options)
  await bare.start()
  const asked = outcomeOf(bare.ask('worker'))
  await bare.clock.advance(1)
  return { bare, asked, cell: bare.host.directory.cell('worker')!, thread: bare.threads.get('worker')! }
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
  const { bare, asked, cell, thread } = await inTurn((_message, { attempt }) =>
    attempt > 1 ? `attempt ${attempt}` : never,
  )
  thread.ailments.add('deaf')
  await bare.clock.advance(900)
  t.equal(cell.epoch, 1)
  await bare.clock.advance(600)
  t.equal(cell.epoch, 2)
  t.match(asked, { value: 'attempt 2' })
})

t.test('rule 13: its message counts the attempt, and the same again is poison', async (t) => {
  const { bare, asked, cell, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  await bare.clock.advance(1_500)
  bare.threads.get('worker')!.ailments.add('deaf')
  await bare.clock.advance(1_500)
  t.equal(cell.epoch, 3)
  t.match(asked.error, {
    code: 'AGENT_CRASHED',
    message: /is stuck: with a turn under way it gave no sign of life for 1000 ms/,
  })
})

t.test('rule 13: a thread that answers its bells may take as long as it likes', async (t) => {
  const { bare, cell } = await inTurn(() => never)
  await bare.clock.advance(60_000)
  t.equal(cell.epoch, 1)
})

t.test('rule 13: a thread that writes is alive, though it answers no bell', async (t) => {
  const { bare, cell, thread } = await inTurn(async (_message, context) => {
    for (let i = 0; i < 10; i++) {
      await context.sleep(400)
      context.now()
    }
    return never
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(4_900)
  t.equal(cell.epoch, 1)
  await bare.clock.advance(600)
  t.equal(cell.epoch, 2)
})

for (const priority of [0, 5])
  t.test(
    `rule 13: a thread that takes messages of priority ${priority} is alive, though no bell is heard`,
    async (t) => {
      const cast: Record<string, Receive> = {
        worker: async ({ content }, context) => (content === 'quick' ? '' : context.sleep(400).then(() => 'done')),
      }
      const bare = new BareSupervisor(cast, parts, { supervision })
      await bare.start()
      for (let i = 0; i < 50; i++) await bare.ask('worker', 'quick', priority) // then more than one is handed over
      for (let i = 0; i < 6; i++) outcomeOf(bare.ask('worker', 'slow', priority))
      await bare.clock.advance(1)
      t.equal(bare.host.directory.cell('worker')!.mailbox.handed.size, 6)
      bare.threads.get('worker')!.ailments.add('deaf').add('mute')
      await bare.clock.advance(2_300)
      t.equal(bare.host.directory.cell('worker')!.epoch, 1)
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
  t.test(
    `rule 13: a thread whose loop stands while the process grows, ${title}: ended after ${afterMs} ms`,
    async (t) => {
      const { bare, cell, thread } = await inTurn(() => never)
      thread.ailments.add('deaf')
      let looks = 0
      const rss = process.memoryUsage.rss
      t.teardown(() => {
        process.memoryUsage.rss = rss
      })
      process.memoryUsage.rss = () => (looks > 1 ? grownMb + 1_000 : 1_000) * 2 ** 20
      cell.life!.thread.times = () => {
        looks += 1
        const taken = looks > 1 ? ownMb : 0
        return { cpuMs: looks * 250, waitedMs: 0, runnable: true, takenMb: taken }
      }
      await bare.clock.advance(afterMs - 1)
      t.equal(cell.epoch, 1)
      await bare.clock.advance(251)
      t.equal(cell.epoch, 2)
    },
  )

t.test('rule 13: a thread without a turn under way is not watched', async (t) => {
  const { bare, cell, thread } = await inTurn(() => 'done')
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(cell.epoch, 1)
})

t.test('rule 13: watchdogMs false: nobody watches', async (t) => {
  const { open, watch } = counted()
  const { bare, cell, thread } = await inTurn(() => never, { supervision: { watchdogMs: false }, watch })
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(cell.epoch, 1)
  t.equal(open.size, 0)
})

t.test('rule 13: watchdogMs false: nobody watches one whose memory has a limit either', async (t) => {
  const { bare, cell, thread } = await inTurn(() => never, {
    supervision: { watchdogMs: false },
    roles: { worker: { limits: { maxExternalMb: 100 } } },
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(cell.epoch, 1)
})

t.test('rule 13: time in which the host itself was late counts as one interval', async (t) => {
  let lost = 0
  const { bare, cell, thread } = await inTurn(() => never, {
    supervision,
    watch: (clock) => ahead(clock, () => lost),
  })
  thread.ailments.add('deaf')
  await bare.clock.advance(400)
  lost = 10_000 // the host did not run for ten seconds
  await bare.clock.advance(800)
  t.equal(cell.epoch, 1)
  await bare.clock.advance(600)
  t.equal(cell.epoch, 2)
})

t.test('rule 13: a host that is late each time finds a thread that is stuck', async (t) => {
  const { bare, cell, thread } = await inTurn(() => never, {
    supervision,
    watch: (clock) => ahead(clock, () => 9 * clock.monotonic()),
  })
  await bare.clock.advance(5_000)
  t.equal(cell.epoch, 1)
  thread.ailments.add('deaf')
  await bare.clock.advance(1_500)
  t.equal(cell.epoch, 2)
})

t.test('rule 13: it pauses while a debugger is attached', async (t) => {
  const { bare, cell, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  open(0, '127.0.0.1')
  await bare.clock.advance(10_000)
  close()
  t.equal(cell.epoch, 1)
  await bare.clock.advance(1_500)
  t.equal(cell.epoch, 2)
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
  t.equal(bare.host.directory.cell('quick')!.epoch, 2)
  t.equal(bare.host.directory.cell('slow')!.epoch, 1)
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
  const { bare, cell } = await told(
    () => never,
    (ms) => ({ cpuMs: ms / 100, waitedMs: (99 * ms) / 100, runnable: true }),
  )
  await bare.clock.advance(90_000)
  t.equal(cell.epoch, 1)
  await bare.clock.advance(20_000)
  t.equal(cell.epoch, 2, 'it has used watchdogMs of processor time')
})

t.test('rule 13: a thread that is blocked is ended, though it uses no processor', async (t) => {
  const { bare, asked, cell } = await told(
    (_message, { attempt }) => (attempt > 1 ? `attempt ${attempt}` : never),
    () => ({ cpuMs: 7, waitedMs: 7, runnable: false }),
  )
  await bare.clock.advance(2_000)
  t.equal(cell.epoch, 2)
  t.match(asked, { value: 'attempt 2' })
})

t.test('rule 13: where nobody knows whether it waits for a processor, it has ten times as long', async (t) => {
  const { bare, cell } = await told(
    () => never,
    () => ({ cpuMs: 0, waitedMs: 0, runnable: true }),
  )
  await bare.clock.advance(9_500)
  t.equal(cell.epoch, 1)
  await bare.clock.advance(1_500)
  t.equal(cell.epoch, 2)
})

t.test(
  'rules 7 and 13: a message is not charged with a death for which a processor may have been missing',
  async (t) => {
    const { bare, asked, cell, make } = await told(
      () => never,
      () => ({ cpuMs: 0, waitedMs: 0, runnable: true }),
    )
    for (let life = 1; life <= 3; life++) {
      t.equal(cell.epoch, life)
      make()
      await bare.clock.advance(20_000)
    }
    t.notOk(asked.settled, 'three deaths would have been poison, and two of the same kind')
    for (let life = 4; life <= 5; life++) {
      make()
      await bare.clock.advance(20_000)
    }
    t.match(asked.error, { code: 'AGENT_CRASHED', message: /died 2 times on this message/ }, 'but not for ever')
  },
)

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
  const { bare, cell, thread } = await inTurn(() => never)
  thread.ailments.add('deaf')
  await bare.clock.advance(900)
  thread.terminate()
  await bare.clock.advance(1)
  t.equal(cell.epoch, 2)
  bare.threads.get('worker')!.ailments.add('deaf')
  await bare.clock.advance(900)
  t.equal(cell.epoch, 2)
  await bare.clock.advance(600)
  t.equal(cell.epoch, 3)
})

t.test("rule 13: a protocol script in the host's own thread is not watched", async (t) => {
  const { bare, cell, thread } = await inTurn(() => never)
  thread.isolated = false
  thread.ailments.add('deaf')
  await bare.clock.advance(60_000)
  t.equal(cell.epoch, 1)
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
  const { bare, asked, cell, thread } = await inTurn(async (_message, context) => {
    lives += 1
    const life = lives
    await context.sleep(5_000 - life) // another one in each life: a step that is the same would be over for both at once
    void context.step(`life ${life}`, () => 1)
    return `life ${life}`
  })
  thread.ailments.add('deaf').add('stubborn')
  await bare.clock.advance(1_300) // stuck, and told to end
  t.equal(cell.epoch, 1)
  await bare.clock.advance(1_000)
  t.equal(cell.epoch, 2)
  await bare.clock.advance(3_000) // the fenced one wakes up and answers
  t.notOk(asked.settled)
  t.equal(cell.staleFrames, 0)
  thread.ailments.clear()
  thread.terminate() // and ends after all
  await bare.clock.advance(0)
  t.equal(cell.staleFrames, 4, 'the end of its sleep, the beginning and the end of its step, and its answer')
  await bare.clock.advance(2_000)
  t.equal(asked.value, 'life 2')
  t.equal(cell.epoch, 2)
})
