/** A board as agents have it: patterns, and who is told of what is written. */
import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import { Board } from '../../src/blackboard/board.ts'
import { compilePattern, matches } from '../../src/blackboard/entry.ts'
import { type HostBlackboardOptions, hostBlackboard } from '../../src/blackboard/views.ts'
import { jsonIssue } from '../../src/mailbox/message.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { MessageRejectedError, RunAbortedError } from '../../src/shared/errors.ts'
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

t.test('a pattern without stars takes its own key only', async (t) => {
  t.ok(matches('finding.7', 'finding.7'))
  t.notOk(matches('finding.7', 'finding.70'))
  t.notOk(matches('finding.7', 'finding'))
})

t.test('a dot in a pattern is no wildcard', async (t) => {
  t.notOk(matches('a.b', 'axb'))
})

t.test('one star takes exactly one word', async (t) => {
  t.ok(matches('finding.*', 'finding.7'))
  t.notOk(matches('finding.*', 'finding'))
  t.notOk(matches('finding.*', 'finding.7.source'))
  t.ok(matches('*.7.*', 'finding.7.source'))
})

t.test('two stars take any number of words, also none', async (t) => {
  for (const key of ['finding', 'finding.7', 'finding.7.source']) t.ok(matches('finding.**', key), key)
  t.notOk(matches('finding.**', 'findings.7'))
  t.ok(matches('**', 'anything.at.all'))
  t.ok(matches('**.**', 'one'))
})

t.test('two stars in the middle leave the right words to the rest', async (t) => {
  t.ok(matches('a.**.c', 'a.c'))
  t.ok(matches('a.**.c', 'a.c.b.c'))
  t.notOk(matches('a.**.c', 'a.c.b'))
  t.ok(matches('**.b.*.d', 'b.b.c.d'))
})

t.test('characters that a regular expression would read stand for themselves', async (t) => {
  t.ok(matches('cost ($).[eu]+', 'cost ($).[eu]+'))
  t.notOk(matches('cost ($).[eu]+', 'cost ($).e'))
})

t.test('a compiled pattern can be asked again and again', async (t) => {
  const wanted = compilePattern('*.price')
  t.same(['oil.price', 'oil', 'gas.price', 'price'].filter(wanted), ['oil.price', 'gas.price'])
})

t.test('a pattern of many double stars does not run away', async (t) => {
  const pattern = `${'**.a.'.repeat(50)}b`
  t.notOk(matches(pattern, Array(128).fill('a').join('.')))
})

/** The meaning of a pattern, written down as plainly as it can be. */
function naive([first, ...rest]: string[], words: string[]): boolean {
  if (first === undefined) return words.length === 0
  if (first === '**') return naive(rest, words) || (words.length > 0 && naive([first, ...rest], words.slice(1)))
  return words.length > 0 && (first === '*' || first === words[0]) && naive(rest, words.slice(1))
}

t.test('a pattern takes what the plain definition takes', async (t) => {
  const pattern = fc.array(fc.constantFrom('a', 'b', '*', '**'), { minLength: 1, maxLength: 6 })
  const words = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 7 })
  const agrees = fc.property(pattern, words, (pattern, words) => {
    return matches(pattern.join('.'), words.join('.')) === naive(pattern, words)
  })
  t.doesNotThrow(() => fc.assert(agrees, { numRuns: 1_000 }))
})

for (const bad of ['', '***', 'a..b', '.a', 'a.', 'find*', '*.b*d', 'x'.repeat(257)]) {
  t.test(`the pattern "${bad.slice(0, 20)}" is refused`, async (t) => {
    t.throws(() => compilePattern(bad), MessageRejectedError)
  })
}

t.test('the refusal of a pattern says what is accepted', async (t) => {
  t.throws(() => compilePattern('a..b'), { message: /"\*" stands for one word, "\*\*" for any number/ })
})

function startBoard() {
  const errors: unknown[] = []
  const board = new Board({ onCallbackError: (error, entry) => errors.push([entry.key, error]) })
  const write = (key: string) => board.write('ann', key, null, 'fact', {}, 0)
  return { board, write, errors }
}

t.test('a subscriber is told of each matching write before the write returns', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.subscribe('finding.*', ({ key, version }) => seen.push(`${key} v${version}`))
  write('finding.1')
  t.same(seen, ['finding.1 v1'])
  write('other')
  write('finding.1')
  t.same(seen, ['finding.1 v1', 'finding.1 v2'])
})

t.test('a subscriber is not told of what was there before', async (t) => {
  const { board, write } = startBoard()
  write('a')
  board.subscribe('**', () => t.fail('called'))
})

t.test('a subscription that has ended is not called', async (t) => {
  const { board, write } = startBoard()
  const stop = board.subscribe('**', () => t.fail('called'))
  stop()
  stop()
  write('a')
})

t.test('ending one subscription leaves another of the same callback', async (t) => {
  const { board, write } = startBoard()
  let calls = 0
  const callback = () => void calls++
  const stop = board.subscribe('**', callback)
  board.subscribe('**', callback)
  stop()
  write('a')
  t.equal(calls, 1)
})

t.test('a bad pattern is refused when it is subscribed to', async (t) => {
  t.throws(() => startBoard().board.subscribe('a..b', () => {}), { code: 'MESSAGE_REJECTED' })
})

t.test('a callback that throws stops neither the write nor the others', async (t) => {
  const { board, write, errors } = startBoard()
  const seen: string[] = []
  board.subscribe('**', () => {
    throw new Error('broken')
  })
  board.subscribe('**', ({ key }) => seen.push(key))
  write('a')
  t.equal(board.read('a')?.version, 1)
  t.same(seen, ['a'])
  t.match(errors, [['a', { message: 'broken' }]])
})

t.test('a callback whose promise rejects is reported like one that throws', async (t) => {
  const { board, write, errors } = startBoard()
  board.subscribe('**', async () => {
    throw new Error('broken later')
  })
  write('a')
  await new Promise(setImmediate)
  t.match(errors, [['a', { message: 'broken later' }]])
})

t.test('all see the same order, also when a callback writes', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.subscribe('**', ({ key }) => {
    seen.push(`first: ${key}`)
    if (key === 'a') write('b')
  })
  board.subscribe('**', ({ key }) => seen.push(`second: ${key}`))
  write('a')
  t.same(seen, ['first: a', 'second: a', 'first: b', 'second: b'])
})

t.test('a callback that writes is not called again before it has returned', async (t) => {
  const { board, write } = startBoard()
  const steps: string[] = []
  board.subscribe('**', ({ key }) => {
    steps.push(`begins ${key}`)
    if (key === 'a') write('b')
    steps.push(`ends ${key}`)
  })
  write('a')
  t.same(steps, ['begins a', 'ends a', 'begins b', 'ends b'])
})

t.test('who subscribes in a callback is told of later writes only', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.once('a', () => {
    write('b')
    board.subscribe('**', ({ key }) => seen.push(key))
    write('c')
  })
  write('a')
  t.same(seen, ['c'])
})

t.test('a subscription that another callback ends is not called any more', async (t) => {
  const { board, write } = startBoard()
  board.subscribe('**', () => stop())
  const stop = board.subscribe('**', () => t.fail('called'))
  write('a')
})

t.test('once calls back at once when the key is there', async (t) => {
  const { board, write } = startBoard()
  write('a')
  let version = 0
  board.once('a', (entry) => {
    version = entry.version
  })
  t.equal(version, 1)
})

t.test('once waits for the first write of exactly that key and then ends', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.once('a', ({ key, version }) => seen.push(`${key} v${version}`))
  for (const key of ['a.b', 'b', 'a', 'a']) write(key)
  t.same(seen, ['a v1'])
})

t.test('once ends also when its callback writes the key again', async (t) => {
  const { board, write } = startBoard()
  let calls = 0
  board.once('a', () => {
    calls++
    write('a')
  })
  write('a')
  t.equal(calls, 1)
})

t.test('once that was given up is not called', async (t) => {
  const { board, write } = startBoard()
  board.once('a', () => t.fail('called'))()
  write('a')
})

t.test('a callback of once that throws is reported, also when the key is there', async (t) => {
  const { board, write, errors } = startBoard()
  const broken = () => {
    throw new Error('broken')
  }
  board.once('a', broken)
  write('a')
  board.once('a', broken)
  t.equal(errors.length, 2)
})

t.test('once refuses a key that no entry can have', async (t) => {
  t.throws(() => startBoard().board.once('', () => {}), { code: 'MESSAGE_REJECTED', details: { path: 'key' } })
})
