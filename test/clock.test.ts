/** Timers of an event loop that was busy: what has come is taken in before any of them has a say. */
import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import { OwnWork, unseenBy } from '../src/actors/turn/own-work.ts'
import { type Clock, ownScheduler, type Scheduler, schedulerFrom, systemClock } from '../src/shared/clock.ts'
import { block } from './busy.ts'

const ofUser: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  random: () => systemClock.random(),
  sleep: (ms, signal) => systemClock.sleep(ms, signal),
}

const clocks: Record<string, Scheduler> = {
  'the machine': systemClock,
  'an agent': unseenBy(new OwnWork(), systemClock),
  'a user': schedulerFrom(ofUser),
}

for (const [whose, clock] of Object.entries(clocks))
  t.test(
    `a message that came while the event loop was busy cancels a timer that was due before it was read: the clock of ${whose}`,
    async (t) => {
      const { port1, port2 } = new MessageChannel()
      const told: string[] = []
      const read = once(port1, 'message')
      await new Promise((resolve) => setImmediate(resolve)) // timers come next
      const timer = clock.timer(5, () => told.push('late'))
      port2.postMessage('came')
      block(20)
      await read
      told.push('came')
      timer.cancel()
      port1.close()
      await clock.sleep(1)
      t.same(told, ['came'])
    },
  )

for (const [whose, clock] of Object.entries(clocks))
  t.test(
    `a message that came while the event loop was busy is read before a sleep ends: the clock of ${whose}`,
    async (t) => {
      const { port1, port2 } = new MessageChannel()
      const told: string[] = []
      const read = once(port1, 'message').then(() => told.push('came'))
      await new Promise((resolve) => setImmediate(resolve)) // timers come next
      const slept = clock.sleep(5).then(() => told.push('slept'))
      port2.postMessage('came')
      block(20)
      await Promise.all([read, slept])
      port1.close()
      t.same(told, ['came', 'slept'])
    },
  )

t.test('a sleep that is aborted behind its timer, in the same turn, rejects', async (t) => {
  const enough = new AbortController()
  const slept = systemClock.sleep(1, enough.signal)
  setTimeout(() => enough.abort(new Error('enough')), 1)
  block(5)
  await t.rejects(slept, { message: 'enough' })
})

t.test('an owner looks before the task of a limit, which what is found can cancel', (t) => {
  const due: (() => void)[] = []
  const told: string[] = []
  const never: Scheduler = {
    ...systemClock,
    timer: (_ms, task) => {
      due.push(task)
      return { cancel: () => {} }
    },
  }
  let found = () => {}
  const clock = ownScheduler(never, () => {
    told.push('look')
    found()
  })
  clock.timer(1, () => told.push('no limit'))
  clock.timer(1, () => told.push('limit'), true)
  const ended = clock.timer(1, () => told.push('limit that was kept'), true)
  due[0]!()
  due[1]!()
  t.same(told.splice(0), ['no limit', 'look', 'limit'])
  found = () => ended.cancel()
  due[2]!()
  t.same(told, ['look'])
  t.end()
})
