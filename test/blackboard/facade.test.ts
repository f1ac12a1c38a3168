import { getEventListeners } from 'node:events'
import t from 'tap'
import { z } from 'zod'
import { Board } from '../../src/blackboard/board.ts'
import { type HostBlackboardOptions, hostBlackboard } from '../../src/blackboard/views.ts'
import { jsonIssue } from '../../src/mailbox/message.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { RunAbortedError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'

/** Timers that fire when the test says so. */
function manualScheduler() {
  const timers = new Map<() => void, number>()
  const scheduler: Scheduler = {
    ...systemClock,
    now: () => 1_000,
    timer(ms, task) {
      timers.set(task, ms)
      return { cancel: () => void timers.delete(task) }
    },
  }
  const fire = () => {
    for (const task of [...timers.keys()]) task()
  }
  return { scheduler, timers, fire }
}

function start(options: Partial<HostBlackboardOptions> = {}) {
  const manual = manualScheduler()
  const board = new Board({ onCallbackError: () => {} })
  const blackboard = hostBlackboard(board, {
    author: '$user',
    scheduler: manual.scheduler,
    check: jsonIssue,
    ...options,
  })
  return { board, blackboard, ...manual }
}

t.test('a write has the given author and the time of the clock', async (t) => {
  const { blackboard } = start()
  t.match(await blackboard.write('a', 1, 'fact'), { author: '$user', timestamp: 1_000, version: 1, confidence: 1 })
})

t.test('a write passes its options on', async (t) => {
  const { blackboard } = start()
  await blackboard.write('a', 1, 'fact', { confidence: 0.3 })
  await t.rejects(blackboard.write('a', 2, 'fact', { ifVersion: 0 }), {
    code: 'MESSAGE_REJECTED',
    details: { expected: 0, actual: 1 },
  })
  t.match(await blackboard.read('a'), { confidence: 0.3, value: 1 })
})

t.test("a written object stays the writer's own", async (t) => {
  const { blackboard } = start()
  const value = { list: [1] }
  await blackboard.write('a', value, 'fact')
  value.list.push(2)
  t.same((await blackboard.read('a'))?.value, { list: [1] })
})

t.test('a value that is no JSON value is refused with its path', async (t) => {
  const { blackboard } = start()
  await t.rejects(blackboard.write('a', { list: [1, Number.NaN] }, 'fact'), {
    code: 'MESSAGE_REJECTED',
    message: /^The value of "a" is no JSON value: value\.list\[1\] is NaN/,
    details: { key: 'a', path: 'value.list[1]' },
  })
})

t.test('undefined is no value', async (t) => {
  await t.rejects(start().blackboard.write('a', undefined, 'fact'), {
    code: 'MESSAGE_REJECTED',
    details: { path: 'value', got: 'undefined' },
  })
})

t.test('read gives undefined for a key that nobody wrote, with a schema too', async (t) => {
  t.equal(await start().blackboard.read('a', z.string()), undefined)
})

t.test("read with a schema gives the schema's output and leaves the entry as it is", async (t) => {
  const { blackboard, board } = start()
  await blackboard.write('a', '2024-05-01', 'date')
  const entry = await blackboard.read(
    'a',
    z.string().transform((text) => text.length),
  )
  t.match(entry, { key: 'a', value: 10, version: 1 })
  t.equal(board.read('a')?.value, '2024-05-01')
})

t.test('read waits for a schema that answers later', async (t) => {
  const { blackboard } = start()
  await blackboard.write('a', 'x', 'fact')
  const later = z.string().refine(async () => false, 'not that one')
  await t.rejects(blackboard.read('a', later), { message: /not that one/ })
})

t.test('a value that misses the schema is refused with key, author and issues', async (t) => {
  const { blackboard } = start()
  await blackboard.write('a', { rows: 'three' }, 'fact')
  await t.rejects(blackboard.read('a', z.object({ rows: z.number() })), {
    code: 'MESSAGE_REJECTED',
    message: /^"a" on the blackboard \(version 1, by "\$user"\) is not what the reader's schema wants: rows: /,
    details: { key: 'a', version: 1, author: '$user' },
  })
})

t.test("query, history and subscribe are the board's", async (t) => {
  const { blackboard } = start()
  const seen: number[] = []
  const stop = await blackboard.subscribe('a', (entry) => seen.push(entry.version))
  await blackboard.write('a', 1, 'fact')
  stop()
  await blackboard.write('a', 2, 'fact')
  t.same(seen, [1])
  t.same(pluck(await blackboard.query({ key: 'a' }), 'version'), [2])
  t.same(pluck(await blackboard.getHistory('a'), 'version'), [1, 2])
})

t.test('a bad pattern rejects', async (t) => {
  await t.rejects(
    start().blackboard.subscribe('***', () => {}),
    { code: 'MESSAGE_REJECTED' },
  )
})

t.test('waitFor resolves at once when the key is there', async (t) => {
  const { blackboard, timers } = start()
  await blackboard.write('a', 1, 'fact')
  t.match(await blackboard.waitFor('a'), { value: 1 })
  t.equal(timers.size, 0)
})

t.test('waitFor resolves with the first write and drops its timer', async (t) => {
  const { blackboard, timers } = start()
  const waiting = blackboard.waitFor('a')
  t.equal(timers.size, 1)
  await blackboard.write('a', 1, 'fact')
  await blackboard.write('a', 2, 'fact')
  t.match(await waiting, { value: 1 })
  t.equal(timers.size, 0)
})

t.test('waitFor without timeoutMs has a deadline all the same', async (t) => {
  const { blackboard, timers, fire } = start()
  const waiting = blackboard.waitFor('a')
  t.same([...timers.values()], [60_000])
  fire()
  await t.rejects(waiting, { code: 'REQUEST_TIMEOUT' })
})

t.test('waitFor names the key that did not come', async (t) => {
  const { blackboard, fire } = start()
  const waiting = blackboard.waitFor('a.b', { timeoutMs: 50 })
  fire()
  await t.rejects(waiting, {
    message: /^Nobody wrote "a\.b" to the blackboard within 50 ms/,
    details: { key: 'a.b', waitedMs: 50 },
  })
})

for (const timeoutMs of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
  t.test(`waitFor refuses a timeoutMs of ${timeoutMs}`, async (t) => {
    await t.rejects(start().blackboard.waitFor('a', { timeoutMs }), {
      code: 'MESSAGE_REJECTED',
      details: { path: 'timeoutMs' },
    })
  })
}

t.test('waitFor refuses a key that no entry can have', async (t) => {
  const { blackboard, timers } = start()
  await t.rejects(blackboard.waitFor(''), { code: 'MESSAGE_REJECTED', details: { path: 'key' } })
  t.equal(timers.size, 0)
})

t.test('a signal ends the wait and its timer', async (t) => {
  const { blackboard, timers } = start()
  const gone = new AbortController()
  const waiting = blackboard.waitFor('a', { signal: gone.signal })
  gone.abort(new Error('no longer needed'))
  await t.rejects(waiting, { code: 'CANCELLED', details: { key: 'a' }, cause: { message: 'no longer needed' } })
  t.equal(timers.size, 0)
})

t.test('a signal that is aborted before the wait ends it at once', async (t) => {
  const { blackboard } = start()
  await blackboard.write('a', 1, 'fact')
  await t.rejects(blackboard.waitFor('a', { signal: AbortSignal.abort() }), { code: 'CANCELLED' })
})

t.test('the end of the run ends the waits with its own reason', async (t) => {
  const run = new AbortController()
  const { blackboard, timers } = start({ signal: run.signal })
  const waiting = blackboard.waitFor('a', { signal: new AbortController().signal })
  run.abort(new RunAbortedError('The run was aborted.'))
  await t.rejects(waiting, { code: 'RUN_ABORTED' })
  t.equal(timers.size, 0)
})

t.test('a wait that is over leaves no listener on its signal', async (t) => {
  const { blackboard, fire } = start()
  const { signal } = new AbortController()
  const written = blackboard.waitFor('a', { signal })
  const late = blackboard.waitFor('b', { signal })
  t.equal(getEventListeners(signal, 'abort').length, 1, 'one for both')
  await blackboard.write('a', 1, 'fact')
  fire()
  await Promise.allSettled([written, late])
  t.equal(getEventListeners(signal, 'abort').length, 0)
})

t.test('a wait that is over leaves no subscription on the board', async (t) => {
  const { blackboard, board, fire } = start()
  const stopped: string[] = []
  const once = board.once.bind(board)
  board.once = (key, callback) => {
    const stop = once(key, callback)
    return () => {
      stopped.push(key)
      stop()
    }
  }
  const late = blackboard.waitFor('a')
  fire()
  await t.rejects(late)
  t.same(stopped, ['a'])
})
