/** How many executes begin, and when, on a clock of the test's own. */
import t from 'tap'
import { Generator } from '../../bench/load/generator.ts'
import type { Plan } from '../../bench/load/options.ts'
import { virtualClock } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'

const LINGER_MS = 500
const never = () => new Promise<void>(() => {})

/** Runs a plan of one second to its end. `execute` is told when it was due, and that there is a clock. */
async function generate(
  fields: Partial<Plan>,
  execute: (dueAt: number, clock: ReturnType<typeof virtualClock>) => Promise<void>,
  controller = new AbortController(),
) {
  const clock = virtualClock()
  const plan: Plan = { file: 'team.ts', concurrency: null, rate: null, seconds: 1, size: 1, ...fields }
  const generator = new Generator(plan, clock)
  const before = generator.behind
  const began: { at: number; dueAt: number }[] = []
  let endedAt: number | undefined
  const run = async (dueAt: number) => {
    began.push({ at: clock.monotonic(), dueAt })
    await execute(dueAt, clock)
  }
  const ended = generator.run(run, LINGER_MS, controller.signal).then(() => {
    endedAt = clock.monotonic()
  })
  await clock.runToIdle()
  await ended
  return { generator, before, began, endedAt }
}

t.test('without a rate the next begins when one has ended, and so many are under way at a time', async (t) => {
  const { generator, began, endedAt } = await generate({ concurrency: 3 }, (_, clock) => clock.sleep(50))
  t.strictSame(
    pluck(began, 'at'),
    Array.from({ length: 60 }, (_, i) => Math.floor(i / 3) * 50),
  )
  t.ok(
    began.every(({ at, dueAt }) => at === dueAt),
    'due when it begins',
  )
  t.match(generator, { begun: 60, running: 0, behind: 0, notBegun: 0 })
  t.equal(endedAt, 1_000)
})

t.test('with a rate they begin at fixed times, whether or not others have ended', async (t) => {
  const { generator, began, endedAt } = await generate({ rate: 50 }, never)
  t.strictSame(
    began,
    Array.from({ length: 50 }, (_, i) => ({ at: i * 20, dueAt: i * 20 })),
  )
  t.match(generator, { begun: 50, running: 50, behind: 0, notBegun: 0 })
  t.equal(endedAt, 1_000 + LINGER_MS, 'those under way have so long')
})

t.test('what is due while too many are under way waits its turn, which counts from when it was due', async (t) => {
  const { generator, before, began } = await generate({ rate: 20, concurrency: 1 }, (_, clock) => clock.sleep(100))
  t.equal(before, 0)
  t.strictSame(
    began,
    Array.from({ length: 10 }, (_, i) => ({ at: i * 100, dueAt: i * 50 })),
  )
  t.match(generator, { begun: 10, running: 0, behind: 10, notBegun: 10 })
})

t.test('an abort ends it at once: nothing new begins, and nobody waits for those under way', async (t) => {
  const controller = new AbortController()
  const abortSoon = async (_: number, clock: ReturnType<typeof virtualClock>) => {
    await clock.sleep(30)
    controller.abort()
    await never()
  }
  const { generator, endedAt } = await generate({ rate: 50 }, abortSoon, controller)
  t.equal(endedAt, 30)
  t.match(generator, { begun: 2, running: 2, notBegun: 0 })
})
