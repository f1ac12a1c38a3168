/** What all rooms share: clocks, words of errors, texts of strangers, signals. And that a test that throws fails. */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { getEventListeners, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import { jsonIn as jsonOfAnswer } from '../src/actors/model/structured-output.ts'
import { OwnWork, unseenBy } from '../src/actors/turn/own-work.ts'
import { nestsTooDeep } from '../src/mailbox/json.ts'
import { Redactor } from '../src/runtime/logging/redactor.ts'
import { failureOf } from '../src/runtime/providers/openai-caller.ts'
import { ProviderRefusal } from '../src/runtime/providers/refusals.ts'
import { contributionsOf } from '../src/runtime/runs/result.ts'
import { oneLine } from '../src/service/shared/failure.ts'
import { SseFrames } from '../src/shared/answers.ts'
import { type Clock, ownScheduler, type Scheduler, schedulerFrom, systemClock } from '../src/shared/clock.ts'
import { ModelError, ToolFailedError } from '../src/shared/errors.ts'
import { anyAborted, onAbort } from '../src/shared/on-abort.ts'
import { digestOf } from '../src/shared/random.ts'
import { sentencesOf } from '../src/shared/sentences.ts'
import { nearest, optionMeant, visible } from '../src/shared/text.ts'
import { describe, errorOf, thrownData } from '../src/shared/thrown.ts'
import { canonical } from '../src/shared/values.ts'
import { plainLine } from '../src/tools/text-bytes.ts'
import { block } from './busy.ts'
import { Dice } from './dice.ts'
import { growthOf, LINEAR } from './growth.ts'
import { ask, localTeam, never, type Receive } from './kit/team.ts'
import { request } from './runtime/models/asking.ts'

// Timers of an event loop that was busy: what has come is taken in before any of them has a say.

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

// Whatever reads text of models, providers, pages, servers and agents takes time that grows with its length. A
// pattern that takes the
// square of it blocks the process for as long as a stranger likes, and no time limit can act. Measured as a ratio of
// processor time.

const redactor = new Redactor()
redactor.learn('aaaaaaaab-key')

function refusalOf(message: string): unknown {
  const asked = { provider: 'host', model: 'small' }
  return failureOf(new ProviderRefusal({ message }), {
    asked,
    request: request(),
    keyAdvice: 'Check KEY.',
    isKeyless: false,
    speaks: 'chat completions',
    redactor,
    now: 0,
  })
}

function contributions(text: string): unknown {
  const known = { finalOutput: text, messageHistory: [], tokenUsage: {}, agentExecutionTimesMs: { ann: 1, bob: 1 } }
  const speeches = ['ann', 'bob'].map((agent) => ({ agent, texts: [text] }))
  return contributionsOf(known, { query: text, speeches, tasks: [] })
}

const frames = (text: string) => [...new SseFrames().take(Buffer.from(text))]
const pieces = (text: string) => {
  const reader = redactor.pieces(() => {})
  for (let at = 0; at < text.length; at += 50) reader.push(text.slice(at, at + 50))
  reader.end()
}

/** Who reads, the text of `size` characters or about, and a size that takes some milliseconds. */
const readers: [reader: string, read: (text: string) => unknown, text: (size: number) => string, size: number][] = [
  ['an answer that is a fence of blank lines', jsonOfAnswer, (size) => `\`\`\`${'\n'.repeat(size)}`, 50_000],
  ['an answer of fences', jsonOfAnswer, (size) => '``` x'.repeat(size / 5), 50_000],
  ['an answer of fences with one line', jsonOfAnswer, (size) => `${'``` x'.repeat(size / 5)}\n`, 50_000],
  ['an answer of fences that are not closed', jsonOfAnswer, (size) => '``` x\n'.repeat(size / 6), 50_000],
  ['an answer of open brackets', jsonOfAnswer, (size) => '{['.repeat(size / 2), 50_000],
  ['an answer of wrong objects', jsonOfAnswer, (size) => '{a} '.repeat(size / 4), 5_000],
  ['a failure of dots', refusalOf, (size) => `${'.'.repeat(size)}x`, 100_000],
  ['a failure of dots and blanks', refusalOf, (size) => '. '.repeat(size / 2), 100_000],
  ['sentences', sentencesOf, (size) => 'It is so. '.repeat(size / 10), 10_000],
  ['one sentence without an end', sentencesOf, (size) => 'so it is, '.repeat(size / 10), 10_000],
  ['one word without an end', sentencesOf, (size) => 'a'.repeat(size), 10_000],
  ['lines that are marked', sentencesOf, (size) => '- a\n'.repeat(size / 4), 5_000],
  ['blanks', sentencesOf, (size) => ' '.repeat(size), 100_000],
  ['contributions of many sentences', contributions, (size) => numbered(size / 12), 3_000],
  ['brackets in JSON', nestsTooDeep, (size) => `[${'[],'.repeat(size / 3)}1]`, 100_000],
  ['quotes in JSON', nestsTooDeep, (size) => `["${'[\\"'.repeat(size / 3)}"]`, 100_000],
  ['a key that never ends', (text) => redactor.data(text), (size) => 'a'.repeat(size), 25_000],
  ['what looks like keys', (text) => redactor.text(text), (size) => 'Bearer sk-gho_'.repeat(size / 14), 25_000],
  ['a key that never ends, in pieces', pieces, (size) => 'a'.repeat(size), 10_000],
  ['names of fields', (text) => redactor.fields({ [text]: 'x' }), (size) => 'aA_key-'.repeat(size / 7), 25_000],
  ['a line of HTML', (text) => plainLine(text, 100), (size) => '<a &amp'.repeat(size / 7), 25_000],
  ['a line for a terminal', oneLine, (size) => ' \u001b'.repeat(size / 2), 25_000],
  ['text for a person', visible, (size) => 'a\u202e'.repeat(size / 2), 25_000],
  ['blank lines of a stream', frames, (size) => '\n'.repeat(size), 100_000],
  ['events of a stream', frames, (size) => 'data: 1\n\n'.repeat(size / 9), 25_000],
  ['one line of a stream', frames, (size) => `data: ${'x'.repeat(size)}`, 1_000_000],
]

function numbered(count: number): string {
  return Array.from({ length: count }, (_, at) => `It is ${at}.`).join(' ')
}

for (const [reader, read, text, size] of readers)
  t.test(`the time for ${reader} grows with the length`, async (t) => {
    const growth = growthOf((of) => void read(text(of)), size)
    t.ok(growth <= LINEAR, `four times the length takes ${growth.toFixed(1)} times as long`)
  })

// A cube, which four times the size makes 64 times as long: of a square the least of several tries can come near the bound.
t.test('the check itself tells what grows faster from what grows with the length', async (t) => {
  let sum = 0
  const cube = (size: number) => {
    for (let one = 0; one < size ** 3; one += 1) sum += one ^ size
  }
  t.ok(growthOf(cube, 50) > LINEAR)
  t.ok(sum > 0)
  t.ok(refusalOf('no') instanceof ModelError)
})

t.test('a value has one text and one digest, those of RFC 8785', (t) => {
  const vectors: [value: unknown, text: string][] = [
    [
      JSON.parse(
        String.raw`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
      ),
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    ],
    [
      { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\ud83d\ude00': 5, '\u0080': 6, '\u00f6': 7 },
      '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\ud83d\ude00":5,"\ufb33":3}',
    ],
    [{ b: [{ d: 1, c: undefined }], a: -0 }, '{"a":0,"b":[{"d":1}]}'],
  ]
  for (const [value, text] of vectors) t.equal(canonical(value), text)
  t.equal(digestOf({ b: 1, a: [] }), createHash('sha256').update('{"a":[],"b":1}').digest('hex'))
  t.end()
})

t.test('the nearest name is found over typing errors, case and underscores', async (t) => {
  const known = ['model', 'module', 'maxTokens', 'env']
  t.equal(nearest('modul', known), 'module')
  t.equal(nearest('modul', ['module', 'model']), 'module')
  t.equal(nearest('max_tokens', known), 'maxTokens')
  t.equal(nearest('MAXTOKEN', known), 'maxTokens')
  t.equal(nearest('nev', known), 'env')
  t.equal(nearest('moedl', known), 'model')
})

t.test('there is no nearest name if none is near', async (t) => {
  t.equal(nearest('timeout', ['module', 'env']), undefined)
  t.equal(nearest('a', ['b']), undefined)
  t.equal(nearest('x'.repeat(1_000_000), ['x'.repeat(999_999)]), undefined)
  t.equal(nearest('x', []), undefined)
})

t.test('an option is found by the word that other libraries have for it, where there is such an option', async (t) => {
  const role = ['name', 'systemPrompt', 'canDelegateTo', 'output', 'model', 'maxRounds']
  for (const [word, own] of [
    ['instructions', 'systemPrompt'],
    ['system_message', 'systemPrompt'],
    ['handoffs', 'canDelegateTo'],
    ['output_type', 'output'],
    ['llm', 'model'],
    ['maxSteps', 'maxRounds'],
    ['nmae', 'name'],
    ['constructor', undefined],
  ] as const)
    t.equal(optionMeant(word, role), own, word)
  t.equal(optionMeant('instructions', ['name', 'module']), undefined)
  t.equal(optionMeant('schema', ['name', 'input', 'run']), 'input')
  t.equal(nearest('instructions', role), undefined, 'names of agents and tools have no such words')
})

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

/** What Node warns of meanwhile. */
async function warningsOf(act: () => Promise<unknown>): Promise<string[]> {
  const found: string[] = []
  const note = ({ name }: Error) => found.push(name)
  process.on('warning', note)
  await act()
  await new Promise((resolve) => setImmediate(resolve)) // warnings come in a later tick
  process.off('warning', note)
  return found
}

t.test('many wait under one signal with one listener, and are told in order', async (t) => {
  const controller = new AbortController()
  const told: number[] = []
  for (let i = 0; i < 30; i++) onAbort(controller.signal, () => told.push(i))
  t.equal(listeners(controller.signal), 1)
  controller.abort()
  t.same(
    told,
    Array.from({ length: 30 }, (_, i) => i),
  )
  t.equal(listeners(controller.signal), 0)
})

t.test('who took it back is not told, and the last one takes the listener along', async (t) => {
  const controller = new AbortController()
  const { signal } = controller
  const told: string[] = []
  const stop = ['a', 'b', 'c'].map((name) => onAbort(signal, () => told.push(name)))
  stop[0]!()
  stop[1]!()
  t.equal(listeners(signal), 1)
  stop[2]!()
  t.equal(listeners(signal), 0)
  onAbort(signal, () => told.push('later'))
  for (const again of stop) again()
  controller.abort()
  t.same(told, ['later'])
})

t.test('one that is taken back by who was told before it is not told', async (t) => {
  const controller = new AbortController()
  const told: string[] = []
  onAbort(controller.signal, () => stop())
  const stop = onAbort(controller.signal, () => told.push('late'))
  controller.abort()
  t.same(told, [])
})

t.test('a hundred waits under one signal cause no warning, and leave no listener', async (t) => {
  const { signal } = new AbortController()
  const everybody = Array.from({ length: 100 }, () => 'worker')
  const acts: Record<string, (...given: Parameters<Receive>) => unknown> = {
    requests: (_message, context) => Promise.all(everybody.map((name) => context.request(name, '', { signal }))),
    requestAny: (_message, context) => context.requestAny(everybody, '', { signal }),
    sleeps: (_message, context) => Promise.all(everybody.map(() => context.sleep(1))),
    'waits for an entry': async (_message, { blackboard }) => {
      const waits = everybody.map(() => blackboard.waitFor('key', { signal }))
      await blackboard.write('key', 1, 'fact')
      await Promise.all(waits)
    },
    'listeners of its own on the signal of its turn': (_message, context) => {
      for (const _ of everybody) context.signal.addEventListener('abort', () => {})
    },
  }
  const team = localTeam(t, {
    caller: async (message, context) => void (await acts[message.content]!(message, context)),
    worker: () => '',
  })
  for (const name of Object.keys(acts)) {
    const warnings = await warningsOf(async () => {
      const asked = ask(team, 'caller', name)
      await team.clock.advance(10)
      await asked
    })
    t.same(warnings, [], name)
    t.equal(listeners(signal), 0, name)
  }
})

t.test('the same for runs, and for the clock of the machine', async (t) => {
  const controller = new AbortController()
  const { signal } = controller
  const team = localTeam(t, { worker: () => never }, { maxConcurrentRuns: 100 })
  const warnings = await warningsOf(async () => {
    const runs = Array.from({ length: 30 }, () => team.execute('', { signal }).catch(({ code }) => code))
    const sleeps = Array.from({ length: 30 }, () => systemClock.sleep(1_000_000, signal).catch(() => 'aborted'))
    await team.clock.advance(1)
    t.equal(listeners(signal), 1)
    controller.abort()
    await team.clock.runToIdle()
    await Promise.all(runs)
    t.same(new Set(await Promise.all(sleeps)), new Set(['aborted']))
  })
  t.same(warnings, [])
  t.equal(listeners(signal), 0)
})

t.test('a signal of several is aborted with the first, and lets go of all when it is forgotten', async (t) => {
  const [a, b] = [new AbortController(), new AbortController()]
  const either = anyAborted([a.signal, b.signal])
  b.abort('b')
  a.abort('a')
  t.equal(either.signal.reason, 'b')
  const late = new AbortController()
  const atOnce = anyAborted([late.signal, b.signal])
  t.equal(atOnce.signal.reason, 'b', 'also of one that is aborted before')
  atOnce.forget()
  const forgotten = anyAborted([late.signal])
  forgotten.forget()
  t.equal(listeners(late.signal), 0)
  late.abort()
  t.notOk(forgotten.signal.aborted)
})

/** The events of a stream that comes in these chunks. */
function framesOf(chunks: readonly Uint8Array[]): string[] {
  const frames = new SseFrames()
  const events = chunks.flatMap((chunk) => [...frames.take(chunk)])
  return [...events, ...frames.end()].map((event) => Buffer.from(event).toString())
}

const whole = (text: string) => framesOf([Buffer.from(text)])

t.test('a stream is cut into its events, with one line feed a line', async (t) => {
  t.strictSame(whole('data: 1\n\ndata: 2\r\n\r\ndata: 3\r\revent: e\ndata: 4\n\n'), [
    'data: 1\n\n',
    'data: 2\n\n',
    'data: 3\n\n',
    'event: e\ndata: 4\n\n',
  ])
})

t.test('blank lines, comments and events without data are left out, and counted', async (t) => {
  const frames = new SseFrames()
  const sent = ['\n\n', ': a comment\n\n', 'id: 1\n\n', 'data: 1\n: within\n\n']
  const events = sent.flatMap((text) => [...frames.take(Buffer.from(text))])
  t.strictSame(events.map(String), [Buffer.from('data: 1\n\n')].map(String))
  t.equal(frames.empty, '\n\n: a comment\n\nid: 1\n\n: within\n'.length)
  t.equal(frames.pending, 0)
})

t.test('a last event without its blank line comes at the end, also one without a line feed', async (t) => {
  t.strictSame(whole('data: 1\n'), ['data: 1\n\n'])
  t.strictSame(whole('data: 1'), ['data: 1\n\n'])
  t.strictSame(whole(''), [])
})

t.test('where the chunks are cut makes no difference', async (t) => {
  const dice = new Dice(7)
  const text = 'data: {"a":"\u00e4\u{1f600}"}\r\n\r\n: ping\n\nevent: x\rdata: 2\r\rdata\n\ndatum: 3\n\ndata:4\n\n'
  const expected = whole(text)
  t.strictSame(expected.slice(1), ['event: x\ndata: 2\n\n', 'data\n\n', 'data:4\n\n'])
  const bytes = Buffer.from(text)
  for (let round = 0; round < 500; round += 1) {
    const chunks: Uint8Array[] = []
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + dice.upTo(9)
      chunks.push(bytes.subarray(at, at + length))
      at += length
    }
    t.strictSame(framesOf(chunks), expected)
  }
})

// What is thrown in words and as data: whatever it is, within bounds.

const caused = (message: string, cause: unknown) => new Error(message, { cause })
const coded = (message: string, fields: object) => Object.assign(new Error(message), fields)
const refused = (address: string) => coded(`connect ECONNREFUSED ${address}`, { code: 'ECONNREFUSED', port: 9 })
const both = Object.assign(new AggregateError([refused('::1:9'), refused('127.0.0.1:9')], ''), { code: 'ECONNREFUSED' })
const cycle = caused('round', undefined)
cycle.cause = caused('and round', cycle)
const hostile = new Proxy(new Error('hidden'), {
  get: () => {
    throw new Error('no')
  },
  has: () => {
    throw new Error('no')
  },
})

const WORDS: [string, unknown, string][] = [
  ['a text', 'no', 'no'],
  ['an object', { code: 7 }, '{"code":7}'],
  ['an error', new RangeError('far'), 'RangeError: far'],
  ['no message', new RangeError(), 'RangeError'],
  ['a code', coded('boom', { code: 'E_BOOM' }), 'Error: boom (E_BOOM)'],
  ['a code in its message', coded('E_BOOM: boom', { code: 'E_BOOM' }), 'Error: E_BOOM: boom'],
  ['a code and a status', coded('boom', { code: 'E_BOOM', status: 503 }), 'Error: boom (E_BOOM, status 503)'],
  ['a status by its other name', coded('boom', { statusCode: 502 }), 'Error: boom (status 502)'],
  [
    'what fetch throws',
    Object.assign(new TypeError('fetch failed'), { cause: refused('127.0.0.1:9') }),
    'TypeError: fetch failed; cause: Error: connect ECONNREFUSED 127.0.0.1:9',
  ],
  [
    'what fetch throws of a host with two addresses',
    caused('fetch failed', both),
    'Error: fetch failed; cause: AggregateError (ECONNREFUSED); error: Error: connect ECONNREFUSED ::1:9; error: Error: connect ECONNREFUSED 127.0.0.1:9',
  ],
  [
    'causes of causes',
    caused('a', caused('b', caused('c', 'd'))),
    'Error: a; cause: Error: b; cause: Error: c; cause: d',
  ],
  [
    'a cause whose words it has',
    caused('cannot load: the disk is full', new Error('the disk is full')),
    'Error: cannot load: the disk is full',
  ],
  [
    'a cause whose words it has, with a code',
    caused('cannot load: the disk is full', coded('the disk is full', { code: 'EIO' })),
    'Error: cannot load: the disk is full; cause: Error (EIO)',
  ],
  [
    'an error of this library',
    new ToolFailedError('Tool "t" failed: no', {}, new Error('no')),
    'ToolFailedError: Tool "t" failed: no',
  ],
  ['an error of another realm', runInNewContext('new TypeError("far")'), 'TypeError: far'],
  ['a cycle', cycle, 'Error: round; cause: Error: and round'],
  ['what throws when it is looked at', hostile, 'what throws when it is looked at'],
]

t.test('what is thrown is described on one line, with what lies beneath it', async (t) => {
  for (const [what, thrown, words] of WORDS) t.equal(describe(thrown), words, what)
})

t.test('an error made again of its JSON has names, codes, statuses, causes and errors', async (t) => {
  const thrown = Object.assign(new TypeError('fetch failed', { cause: both }), { status: 503 })
  const again = errorOf(JSON.parse(JSON.stringify(thrownData(thrown))))
  t.match(again, {
    name: 'TypeError',
    message: 'fetch failed',
    status: 503,
    stack: thrown.stack,
    cause: {
      name: 'AggregateError',
      code: 'ECONNREFUSED',
      errors: [{ message: 'connect ECONNREFUSED ::1:9' }, { code: 'ECONNREFUSED', port: 9 }],
    },
  })
  t.ok(again instanceof TypeError && again.cause instanceof AggregateError)
  t.same(thrownData(again), thrownData(thrown))
  for (const [what, odd] of WORDS) t.same(thrownData(errorOf(odd)).message, thrownData(odd).message, what)
  t.match(errorOf({ message: 'a row is missing', code: 'PGRST116' }), { message: 'a row is missing', code: 'PGRST116' })
})

t.test('what looks like a key is in neither words nor data, also where they are cut', async (t) => {
  const key = 'sk-0123456789abcdefghij'
  for (const message of [
    key,
    `Bearer ${key}`,
    `${'a word '.repeat(284)}${key} and more`,
    `${key} `.repeat(500),
    `"${key}",`.repeat(500),
  ]) {
    const thrown = caused('no', coded(message, { code: key }))
    t.notMatch(describe(thrown), /sk-0123/)
    t.notMatch(JSON.stringify(thrownData(thrown)), /sk-0123/)
  }
})

t.test('data and words are bounded, whatever is thrown', async (t) => {
  const long = 'x'.repeat(1e6)
  const wide = new AggregateError(
    Array.from({ length: 1e4 }, () => coded(long, { code: long })),
    long,
  )
  let deep: Error = new Error(long)
  for (let level = 0; level < 1e4; level++) deep = coded(long, { cause: deep, stack: long })
  const endless: object = Object.create(null, { cause: { get: () => Object.create(endless) } })
  for (const thrown of [wide, deep, endless, caused('a', wide), long, { cause: long, errors: long, name: 7 }]) {
    t.ok(describe(thrown).length <= 2_003)
    t.ok(JSON.stringify(thrownData(thrown)).length < 100_000)
    errorOf(thrown)
  }
})

t.test('what cannot be seen, or changes the order of what can, is written out', async (t) => {
  for (const [text, shown] of [
    ['rm -rf \u202e/emoh', 'rm -rf \\u{202e}/emoh'],
    ['a\u200bb\u2060c\ufeffd', 'a\\u{200b}b\\u{2060}c\\u{feff}d'],
    ['\u{e0072}\u{e006d}', '\\u{e0072}\\u{e006d}'],
    ['\u3164\u2800\u115f', '\\u{3164}\\u{2800}\\u{115f}'],
    ['a\u00a0b\u3000c\u2028d', 'a\\u{a0}b\\u{3000}c\\u{2028}d'],
    ['\u001b[2J\u009b1A\r\n', '\\u{1b}[2J\\u{9b}1A\\u{d}\\u{a}'],
    ['\ue000\ufdd0\ud800', '\\u{e000}\\u{fdd0}\\u{d800}'],
  ] as const)
    t.equal(visible(text), shown)
})

t.test('letters of any script, signs, emoji and plain spaces stay as they are', async (t) => {
  for (const text of ['plain text, "quoted" \\ {}', 'Grüße, 台北, สวัสดี, مرحبا', '😀 €5 – ½'])
    t.equal(visible(text), text)
})

t.test('a kind of character can be let through', async (t) => {
  t.equal(visible('two\nlines\r', '\n'), 'two\nlines\\u{d}')
})

// The tap of compiled tests has no domains: what throws outside of a test must fail its file all the same.

const file = fileURLToPath(new URL('./fixtures/tap/throws-outside.js', import.meta.url))

for (const [manner, code] of [
  ['thrown', 1],
  ['rejected', 1],
  ['not at all', 0],
] as const)
  t.test(`outside of a test: ${manner}`, async (t) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [file, manner], { encoding: 'utf8' })
    t.equal(status, code, stdout)
    t.equal(/^not ok 1 - waits/m.test(stdout), code === 1, stdout)
    t.equal(stderr.includes(`Error: ${manner} outside`), code === 1, stderr)
  })
