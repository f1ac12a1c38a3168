/** A clock that stands still until it is told to go on. */
import t from 'tap'
import { SteppedClock } from '../../src/runtime/testing/virtual-clock.ts'
import { virtualClock } from '../../src/testing.ts'

t.test('it begins at 0, or when it is told to, and stands still', async (t) => {
  t.same([virtualClock().now(), virtualClock().monotonic()], [0, 0])
  const clock = virtualClock({ startAt: 1_000_000 })
  await clock.advance(5)
  t.same([clock.now(), clock.monotonic()], [1_000_005, 5])
})

t.test('advance wakes sleepers when they are due, in the order of their times', async (t) => {
  const clock = virtualClock()
  const woken: [string, number][] = []
  for (const [name, ms] of Object.entries({ late: 30, early: 10, middle: 20, never: 31 }))
    void clock.sleep(ms).then(() => woken.push([name, clock.now()]))
  await clock.advance(30)
  t.same(woken, [
    ['early', 10],
    ['middle', 20],
    ['late', 30],
  ])
  t.equal(clock.now(), 30)
})

t.test('sleepers of the same time wake in the order in which they fell asleep', async (t) => {
  const clock = virtualClock()
  const woken: string[] = []
  for (const name of ['a', 'b', 'c']) void clock.sleep(10).then(() => woken.push(name))
  await clock.advance(10)
  t.same(woken, ['a', 'b', 'c'])
})

t.test('what follows from a wake-up happens at its time, new sleepers too', async (t) => {
  const clock = virtualClock()
  const times: number[] = []
  void (async () => {
    for (let i = 0; i < 3; i++) {
      await clock.sleep(10)
      times.push(clock.now())
    }
  })()
  await clock.advance(25)
  t.same(times, [10, 20])
  await clock.advance(5)
  t.same(times, [10, 20, 30])
})

t.test('a sleep of 0 needs no time, but an advance', async (t) => {
  const clock = virtualClock()
  let woken = false
  void clock.sleep(0).then(() => {
    woken = true
  })
  await null
  t.equal(woken, false)
  await clock.advance(0)
  t.equal(woken, true)
})

t.test('runToIdle does not wait for what comes again and again', async (t) => {
  const clock = virtualClock()
  let looks = 0
  const look = () => {
    looks += 1
    clock.timer(10, look, 'background')
  }
  look()
  void clock.sleep(25)
  await clock.runToIdle()
  t.same([looks, clock.now()], [3, 25])
})

t.test('runToIdle lets time pass until nothing is due', async (t) => {
  const clock = virtualClock()
  let woken = 0
  void (async () => {
    for (let i = 0; i < 5; i++, woken++) await clock.sleep(1_000)
  })()
  await clock.runToIdle()
  t.same([woken, clock.now()], [5, 5_000])
  await clock.runToIdle()
  t.equal(clock.now(), 5_000)
})

t.test('a sleep ends with its signal, and leaves nothing that is due', async (t) => {
  const clock = virtualClock()
  const controller = new AbortController()
  const asleep = clock.sleep(10, controller.signal)
  controller.abort(new Error('enough'))
  await t.rejects(asleep, { message: 'enough' })
  await t.rejects(clock.sleep(10, controller.signal), { message: 'enough' })
  await clock.runToIdle()
  t.equal(clock.now(), 0)
})

t.test('a signal that comes after the wake-up does nothing', async (t) => {
  const clock = virtualClock()
  const controller = new AbortController()
  const asleep = clock.sleep(10, controller.signal)
  await clock.advance(10)
  await asleep
  controller.abort()
  t.equal(clock.now(), 10)
})

t.test('the same seed draws the same numbers, another seed others', async (t) => {
  const draw = (seed?: number) => {
    const clock = virtualClock(seed === undefined ? {} : { seed })
    return Array.from({ length: 5 }, () => clock.random())
  }
  t.same(draw(7), draw(7))
  t.same(draw(), draw(1))
  t.notSame(draw(7), draw(8))
  t.ok(draw(7).every((number) => number >= 0 && number < 1))
})

t.test('what the machine itself is at takes no time, and comes in the order in which it was begun', async (t) => {
  const clock = new SteppedClock(1, 0)
  const order: string[] = []
  const later = (turns: number): Promise<void> =>
    new Promise((resolve) => (turns === 0 ? resolve() : setImmediate(() => void later(turns - 1).then(resolve))))
  void clock.sleep(1).then(() => order.push(`timer at ${clock.monotonic()}`))
  clock.defer(() => order.push('task'))
  void clock.outside(later(20)).then(() => order.push(`slow at ${clock.monotonic()}`))
  clock.outside(Promise.reject(new Error('quick'))).catch((error: Error) => order.push(error.message))
  await clock.runToIdle()
  t.same(order, ['slow at 0', 'quick', 'task', 'timer at 1'])
})

t.test('runUntil stops when it is done, when nothing is due, and when no time passes', async (t) => {
  const clock = new SteppedClock(1, 0, 50)
  let woken = 0
  const wake = () => {
    woken += 1
    if (woken < 10) clock.timer(5, wake)
  }
  wake()
  t.equal(await clock.runUntil(() => woken === 3), 'done')
  t.equal(clock.monotonic(), 10)
  t.equal(await clock.runUntil(() => false), 'idle')
  t.equal(woken, 10)
  const again = () => clock.defer(again)
  again()
  t.equal(await clock.runUntil(() => false), 'endless')
})
