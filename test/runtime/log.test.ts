/** The log of a run, pieces of JSON and sentences, moments of the wall clock, and streams. */

import t, { type Test } from 'tap'
import {
  createTeam,
  type MultiAgentPatternOptions,
  type OrchestratorContext,
  type RuntimeEvent,
} from '../../src/index.ts'
import { allocate, type Memory } from '../../src/mailbox/frame.ts'
import { DueTimes } from '../../src/runtime/host/due-times.ts'
import { type FrameBlock, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { RunLog } from '../../src/runtime/log/run-log.ts'
import type { Timer } from '../../src/shared/clock.ts'
import { PartialJson } from '../../src/shared/partial-json.ts'
import { Dice as RandomDice } from '../../src/shared/random.ts'
import { sentencesOf } from '../../src/shared/sentences.ts'
import { Dice } from '../dice.ts'
import { piece } from '../fixtures/stream-emitter.ts'
import type { Reading } from '../fixtures/stream-reader.ts'
import { howMany } from '../how-many.ts'

// The log of a run, JSON that is still being written, and sentences.

const FRAME = 1_000 // bytes
const BLANK_ENTRY = {
  key: 'k',
  author: 'a',
  timestamp: 0,
  entryType: 'fact',
  confidence: 1,
  supersedes: null,
  references: [],
  version: 1,
}

function logOf(count: number): RunLog {
  const log = new RunLog()
  for (let n = 0; n < count; n++) log.appendOwned(n * SEQ_STEP, 0, 1, allocate(FRAME), FRAME)
  return log
}

t.test('a reader misses nothing that is still there when the oldest are given up behind it', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries()) {
    seen.push(seq / SEQ_STEP)
    if (seq === 4 * SEQ_STEP) log.trim(8 * FRAME)
  }
  t.same(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  t.equal(log.forgotten, 3)
})

t.test('a reader goes on with the oldest that is left when it was itself too slow', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries()) {
    seen.push(seq / SEQ_STEP)
    if (seq === 0) log.trim(4 * FRAME)
  }
  t.same(seen, [0, 7, 8, 9])
})

t.test('a reader ends where it was told to, whatever is given up meanwhile', async (t) => {
  const log = logOf(10)
  const seen: number[] = []
  for (const { seq } of log.entries(-1, 6)) {
    seen.push(seq / SEQ_STEP)
    if (seq === 2 * SEQ_STEP) log.trim(8 * FRAME)
    if (seq === 4 * SEQ_STEP) log.trim(2 * FRAME)
  }
  t.same(seen, [0, 1, 2, 3, 4])
})

t.test('records count too, those with a text by its length', async (t) => {
  const log = new RunLog()
  const record = (n: number) => ({
    kind: 'decision' as const,
    seq: n * SEQ_STEP,
    at: 0,
    run: 1,
    question: '',
    choice: '',
    reason: '',
  })
  for (let n = 0; n < 10; n++) log.append(record(n))
  const each = log.bytes / 10
  t.ok(each > 0)
  log.trim(8 * each)
  t.equal(log.forgotten, 3)
  t.equal(log.bytes, 7 * each)
  log.append({ ...record(10), kind: 'blackboard', entry: { ...BLANK_ENTRY, value: 'x'.repeat(1_000) } })
  t.equal(log.bytes, 8 * each + 2_000)
})

const MIB = 2 ** 20
const FILL = 2 ** 18 // four to a chunk, once chunks are large

/** Writes so many frames into the log, each of them all of one byte, and gives up what is beyond 4 MiB. */
function fill(log: RunLog, count: number, byte: number, held = () => new Set<Memory>()): FrameBlock[] {
  const from = allocate(FILL)
  from.u8.fill(byte)
  return Array.from({ length: count }, () => {
    const block = log.appendFrames(log.length * SEQ_STEP, 0, 1, from, 0, FILL, 1)
    log.trim(4 * MIB, held)
    return block
  })
}

const bytesOf = ({ memory, from, to }: FrameBlock) => new Set(memory.u8.subarray(from, to))

t.test('memory of what was given up is written again', async (t) => {
  const log = new RunLog()
  const buffers = new Set(fill(log, 400, 7).map(({ memory }) => memory.u8.buffer))
  t.ok(buffers.size < 20, `${buffers.size} chunks for 100 MiB`)
  const left = [...log.entries()].filter((entry) => entry.kind === 'frames')
  t.ok(left.length >= 14)
  for (const block of left) t.same(bytesOf(block), new Set([7]))
})

t.test('memory that a mailbox points to is not written again', async (t) => {
  const log = new RunLog()
  const waiting = fill(log, 20, 1).at(-1)!
  fill(log, 200, 2, () => new Set([waiting.memory]))
  t.notOk([...log.entries()].includes(waiting), 'it was given up')
  t.same(bytesOf(waiting), new Set([1]))
})

t.test('nothing is written where a reader stands, however long', async (t) => {
  const log = new RunLog()
  fill(log, 20, 1)
  const reader = log.entries()
  for (let i = 0; i < 10; i++) reader.next() // the first chunks are small, and never written again
  const stands = reader.next().value as FrameBlock
  fill(log, 200, 2)
  t.same(bytesOf(stands), new Set([1]))
  reader.return?.()
  const left = fill(log, 200, 3)
  t.ok(new Set(left.map(({ memory }) => memory.u8.buffer)).size < 40, 'and when it has gone memory is written again')
})

t.test('who still holds memory that is written again finds nothing there', async (t) => {
  const log = new RunLog()
  const stale = fill(log, 20, 1).at(-1)!
  fill(log, 200, 2)
  t.equal(stale.memory.u8.length, 0)
})

// JSON that is still being written: what is there is read, what is not known yet is left out.

/** The value after the whole text came as one piece. */
const readIn = (text: string): unknown => new PartialJson().push(text)?.value

t.test('what is open is closed, and what is not known yet is left out', (t) => {
  const cases: [text: string, value: unknown][] = [
    ['{', {}],
    ['{"a', {}],
    ['{"a"', {}],
    ['{"a":', {}],
    ['{"a":"', { a: '' }],
    ['{"a":"x', { a: 'x' }],
    ['{"a":1', {}],
    ['{"a":1,', { a: 1 }],
    ['{"a":tru', {}],
    ['{"a":true}', { a: true }],
    ['{"a":1,"b":[1,2', { a: 1, b: [1] }],
    ['{"a":{"b":["x","y', { a: { b: ['x', 'y'] } }],
    ['[{"a":null},{', [{ a: null }, {}]],
    ['{"a":"}]', { a: '}]' }],
    [String.raw`{"a:{\"":"b\\`, { 'a:{"': 'b\\' }],
    [String.raw`{"a":"b\\\\`, { a: 'b\\\\' }],
    [String.raw`{"a":"b\\\\\\`, { a: 'b\\\\\\' }],
    ['{"a":"b\\', { a: 'b' }],
    ['{"a":"b\\\\\\', { a: 'b\\' }],
    [String.raw`{"a":"b\u00e`, { a: 'b' }],
    [String.raw`{"a":"b\ud83d`, { a: 'b' }],
    [String.raw`{"a":"b\ud83d\ude`, { a: 'b' }],
    [String.raw`{"a":"b\ud83d\ude00`, { a: 'b😀' }],
    ['```json\n{"a":"x', { a: 'x' }],
    ['{"a":1}\n``` and {"more', { a: 1 }],
  ]
  for (const [text, value] of cases) t.strictSame(readIn(text), value, text)
  t.end()
})

t.test('what is no JSON has no value, and does no harm', (t) => {
  for (const text of ['', 'Well', '"text"', '{]', '{a:1,', '}']) t.strictSame(readIn(text), undefined, text)
  t.doesNotThrow(() => readIn('['.repeat(100_000)))
  t.end()
})

t.test('in any pieces the value only grows, and is the whole in the end', (t) => {
  const whole = {
    name: 'Ann "the" \\ émigré 😀\n',
    tags: ['a', '', 'ü'],
    size: -1.5e3,
    ok: [true, false, null],
    deep: [{ x: [[]] }],
  }
  const text = JSON.stringify(whole, null, 1)
  for (let seed = 1; seed <= 200; seed += 1) {
    const dice = new Dice(seed)
    const json = new PartialJson()
    let last: unknown
    for (let at = 0; at < text.length; ) {
      const end = Math.min(text.length, at + 1 + dice.upTo(9))
      const read = json.push(text.slice(at, end))
      if (read) {
        t.ok(isPart(last, read.value), `seed ${seed}: ${JSON.stringify(last)} grows to ${JSON.stringify(read.value)}`)
        last = read.value
      }
      at = end
    }
    t.strictSame(last, whole, `seed ${seed}`)
  }
  t.end()
})

t.test('a long text is read so seldom that its length does not count twice', (t) => {
  const item = '{"text":"some words","n":1},'
  const json = new PartialJson()
  json.push('[')
  let reads = 0
  for (let n = 0; n < 40_000; n += 1) if (json.push(item)) reads += 1
  t.ok(reads < 500, `${reads} reads of 40,000 pieces`)
  t.end()
})

/** Checks that a value has all of an earlier one. */
function isPart(before: unknown, after: unknown): boolean {
  if (before === undefined || before === after) return true
  if (typeof before === 'string') return typeof after === 'string' && after.startsWith(before)
  if (typeof before !== 'object' || before === null || typeof after !== 'object' || after === null) return false
  return Object.entries(before).every(([key, value]) => isPart(value, Reflect.get(after, key)))
}

const cases: [what: string, text: string, sentences: string[]][] = [
  ['a text', 'Cats sleep. Dogs bark! Why?', ['Cats sleep.', 'Dogs bark!', 'Why?']],
  ['numbers', 'It fell by 3.5 mm. That is little.', ['It fell by 3.5 mm.', 'That is little.']],
  ['Chinese', '猫在睡觉。狗在叫!为什么?', ['猫在睡觉。', '狗在叫!', '为什么?']],
  ['Hindi', 'बिल्ली सोती है। कुत्ता भौंकता है।', ['बिल्ली सोती है।', 'कुत्ता भौंकता है।']],
  ['lines that go on', 'Cats\n  sleep\tall\r\nday. Dogs bark.', ['Cats sleep all day.', 'Dogs bark.']],
  ['an empty line', 'Cats sleep\n\nDogs bark', ['Cats sleep', 'Dogs bark']],
  ['a heading', '# Cats\nThey sleep.\n## Dogs', ['Cats', 'They sleep.', 'Dogs']],
  ['a list', '- cats\n  and dogs\n* birds\n2. fish\n> a quotation', ['cats and dogs', 'birds', 'fish', 'a quotation']],
  ['one letter written in two ways', 'Cafe\u0301 ouvert.', ['Caf\u00e9 ouvert.']],
  ['what has no words', '---\n\n```\n\n... !', []],
  ['nothing', '', []],
]

for (const [what, text, sentences] of cases) t.test(what, async (t) => t.same(sentencesOf(text), sentences))

t.test('a long paragraph has the sentences that it has in parts', async (t) => {
  const lines = Array.from({ length: 2_000 }, (_, at) => `Line ${at} has ${'so many words, '.repeat(at % 40)}and ends.`)
  t.strictSame(sentencesOf(lines.join(' ')), lines)
  const endless = `${'no end, '.repeat(2_000)}here.`
  t.strictSame(sentencesOf(`${endless} Next.`), [endless, 'Next.'])
})

// Moments of the wall clock: each comes once, however the clock is set, and whichever process goes on.

/** A machine whose wall clock can be set; its timers go by another one. */
class Machine {
  #mono = 0
  #ahead = 1e12
  #timers: { at: number; act: () => void }[] = []
  looks = 0

  now = () => this.#mono + this.#ahead
  timer = (ms: number, act: () => void): Timer => {
    const timer = { at: this.#mono + ms, act }
    this.#timers.push(timer)
    return { cancel: () => this.#timers.splice(this.#timers.indexOf(timer) >>> 0, 1) }
  }

  jump(ms: number): void {
    this.#ahead += ms
  }

  die(): void {
    this.#timers = []
  }

  pass(ms: number): void {
    const until = this.#mono + ms
    for (;;) {
      const [next] = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)
      if (!next) break
      this.#timers.splice(this.#timers.indexOf(next), 1)
      this.#mono = Math.max(this.#mono, next.at)
      this.looks += 1
      next.act()
    }
    this.#mono = until
  }
}

const HOUR = 3_600_000
const SEEDS = howMany(1_500, 10_000)

t.test('each is met once under clocks that jump by an hour and processes that die', async (t) => {
  for (let seed = 0; seed < SEEDS; seed++) {
    const dice = new RandomDice(seed, 'jumps')
    const machine = new Machine()
    /** What the log has: when each is due, and which have come. */
    const asked = new Map<number, number>()
    const come = new Map<number, number>()
    let dues = new DueTimes(machine)
    const timers = new Map<number, Timer>()
    const put = (id: number, at: number) => {
      timers.set(
        id,
        dues.add(at, () => {
          if (machine.now() < at) throw new Error(`seed ${seed}: ${id} comes too early`)
          come.set(id, (come.get(id) ?? 0) + 1)
        }),
      )
    }
    for (let step = 0; step < 20; step++) {
      if (dice.chance(0.5)) {
        const at = machine.now() + dice.upTo(2 * HOUR)
        asked.set(step, at)
        put(step, at)
      }
      if (dice.chance(0.3)) machine.jump(dice.upTo(2 * HOUR) - HOUR)
      if (dice.chance(0.1)) {
        machine.die()
        dues = new DueTimes(machine)
        for (const [id, at] of asked) if (!come.has(id)) put(id, at)
      }
      if (dice.chance(0.1)) {
        const [id] = [...asked.keys()].filter((each) => !come.has(each))
        if (id !== undefined) {
          timers.get(id)!.cancel()
          asked.delete(id)
        }
      }
      machine.pass(dice.upTo(HOUR))
      const late = [...asked].filter(([id, at]) => !come.has(id) && at < machine.now() - 61_000)
      machine.pass(60_000)
      for (const [id] of late) if (!come.has(id)) throw new Error(`seed ${seed}: ${id} is late`)
    }
    machine.pass(6 * HOUR)
    for (const id of asked.keys()) if (come.get(id) !== 1) throw new Error(`seed ${seed}: ${id}, ${come.get(id)} times`)
    if (come.size !== asked.size) throw new Error(`seed ${seed}: one came that was given up`)
  }
  t.pass(`${SEEDS} seeds`)
})

t.test('nothing is looked at while nothing is due, and moments come in their order', async (t) => {
  const machine = new Machine()
  const dues = new DueTimes(machine)
  machine.pass(HOUR)
  t.equal(machine.looks, 0)
  const order: string[] = []
  const at = machine.now() + 1_000
  for (const [name, ms] of [
    ['c', 20],
    ['a', 10],
    ['d', 20],
    ['b', 10],
  ] as const)
    dues.add(at + ms, () => order.push(name))
  dues.add(at - 5_000, () => order.push('past'))
  t.same(order, [])
  machine.pass(0)
  t.same(order, ['past'])
  machine.pass(2_000)
  t.same(order, ['past', 'a', 'b', 'c', 'd'])
  machine.pass(HOUR)
  t.ok(machine.looks <= 5)
})

// Answers in pieces, between real threads, and as the caller of a run sees them.

const CREDIT = 64 // pieces on their way before the writer waits
const BATCH = 16 // in which the reader says what it has read

const numbered = (count: number) => Array.from({ length: count }, (_, n) => piece(n))

// ---- between threads

t.test('the pieces come in order, and then the answer', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300 } })
  t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null })
})

t.test('pieces that cross in parts come whole', async (t) => {
  const { pieces } = await read(t, { emission: { pieces: 5, size: 100_000 } })
  t.equal(pieces.length, 5)
  t.ok(pieces.every((text, n) => text === piece(n, 100_000)))
})

for (const verb of ['send', 'request', 'step', 'publish', 'sleep', 'two at once'] as const) {
  t.test(`a writer that awaits ${verb} does not run away from its reader`, async (t) => {
    const team = teamOf(t, { emission: { pieces: 300, verb }, after: 'the writer waits' })
    const run = team.launch('go')
    let emitted = 0
    for await (const { type } of run.events({ types: ['output.delta'] })) {
      emitted += type === 'output.delta' ? 1 : 0
      if (emitted === CREDIT + 1) await run.blackboard?.write('the writer waits', true, 'fact')
    }
    t.equal(emitted, 300)
    let unread = 0
    let most = 0
    for (const { eventType, details } of (await run.result).orchestrationTrace.events) {
      if (eventType === 'output.delta') unread += 1
      if (eventType === 'step.finished' && 'step' in details && details.step === 'read') unread -= 1
      most = Math.max(most, unread)
    }
    t.ok(most <= CREDIT + BATCH + 1, `${most} pieces unread`)
  })
}

t.test('who waits for the answer alone does not hold the writer up', async (t) => {
  t.match(await read(t, { emission: { pieces: 300 }, answerOnly: true }), { answer: '300 pieces' })
})

t.test('a stream gets on when one agent alone may be active', async (t) => {
  const { pieces } = await read(t, { emission: { pieces: 300 } }, { maxConcurrentAgents: 1 })
  t.same(pieces, numbered(300))
})

t.test('leaving the loop cancels the writer', async (t) => {
  const run = async (orchestrator: OrchestratorContext) => {
    const reading: Reading = { emission: { pieces: 100_000 }, leaveAfter: 3 }
    const { content, structuredData } = await orchestrator.request('reader', 'read', { structuredData: reading })
    const ended = await orchestrator.request('emitter', 'how did it end?')
    return JSON.stringify({ answer: content, structuredData, ended: ended.content })
  }
  const result = await teamOf(t, run).execute('go')
  t.same(JSON.parse(result.finalOutput ?? ''), {
    answer: 'CANCELLED',
    structuredData: { pieces: numbered(3), failed: null },
    ended: 'CANCELLED',
  })
})

t.test('an error ends the loop, after the pieces before it', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300, throwAt: 200 } })
  t.same(outcome, { answer: 'AGENT_FAILED', pieces: numbered(200), failed: 'AGENT_FAILED' })
})

t.test('a reader that dies gets every piece again, once', async (t) => {
  for (const dieAfter of [1, 70, 299]) {
    const outcome = await read(t, { emission: { pieces: 300 }, dieAfter })
    t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null }, `after ${dieAfter}`)
  }
})

t.test('a writer that dies goes on where it was', async (t) => {
  for (const dieAt of [0, 70, 299]) {
    const outcome = await read(t, { emission: { pieces: 300, dieAt } })
    t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null }, `before ${dieAt}`)
  }
})

t.test('both may die', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300, dieAt: 150 }, dieAfter: 100 })
  t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null })
})

// ---- a run as its caller sees it

t.test("run.text() has the pieces of the script, and nobody else's", async (t) => {
  const run = teamOf(t, async (orchestrator) => {
    for await (const text of orchestrator.requestStream('emitter', 'emit', { structuredData: { pieces: 10 } }))
      orchestrator.emit(`<${text}>`)
    return 'the whole'
  }).launch('go')
  t.same(
    await collected(run.text()),
    numbered(10).map((text) => `<${text}>`),
  )
})

t.test('run.text() has the answer in one piece when the script emits none', async (t) => {
  t.same(
    await collected(
      teamOf(t, async () => 'the whole')
        .launch('go')
        .text(),
    ),
    ['the whole'],
  )
})

t.test('run.text() ends without a word when the run fails', async (t) => {
  const run = teamOf(t, async () => Promise.reject(new Error('no'))).launch('go')
  t.same(await collected(run.text()), [])
})

t.test('run.events({ after }) goes on where a reader had left', async (t) => {
  const run = teamOf(t, { emission: { pieces: 50 } }).launch('go')
  const seen: RuntimeEvent[] = []
  while (seen.at(-1)?.type !== 'run.finished') {
    let taken = 0
    for await (const event of run.events({ after: seen.at(-1)?.seq ?? -1 })) {
      seen.push(event)
      if (++taken === 7) break
    }
  }
  const all = await collected(run.events())
  t.same(
    seen.map(({ seq, type }) => [seq, type]),
    all.map(({ seq, type }) => [seq, type]),
  )
  t.same(
    seen.filter(({ seq }, i) => seq === seen[i - 1]?.seq),
    [],
  )
  t.ok(seen.length > 50)
})

t.test('leaving run.events() does not end the run', async (t) => {
  const run = teamOf(t, { emission: { pieces: 50 } }).launch('go')
  for await (const { type } of run.events()) if (type === 'output.delta') break
  t.match(await run.result, { success: true })
})

t.test('leaving team.stream() aborts the run and what goes on in it', async (t) => {
  const team = teamOf(t, { emission: { pieces: 1_000_000 } })
  for await (const { type } of team.stream('go')) if (type === 'output.delta') break
  t.match(await team.listRuns(), [{ status: 'aborted' }])
  const emitter = team.getAgent('emitter')
  t.equal(await emitter?.run('how did it end?'), 'RUN_ABORTED')
})

// ----

type Script = (orchestrator: OrchestratorContext) => Promise<string>

/** A team whose script has the reader read, or is the one given. */
function teamOf(t: Test, script: Reading | Script, options: Partial<MultiAgentPatternOptions> = {}) {
  const run = typeof script === 'function' ? script : scriptFor(script)
  const agents = ['reader', 'emitter', 'bystander'].map((name) => ({
    name,
    module: new URL(`../fixtures/stream-${name}.js`, import.meta.url),
  }))
  const team = createTeam({ agents, orchestration: { strategy: 'custom', run }, enableBlackboard: true, ...options })
  t.teardown(() => team.close())
  return team
}

function scriptFor(reading: Reading): Script {
  return async (orchestrator) => {
    const { content, structuredData } = await orchestrator.request('reader', 'read', { structuredData: reading })
    return JSON.stringify({ answer: content, ...(structuredData as object) })
  }
}

async function read(
  t: Test,
  reading: Reading,
  options?: Partial<MultiAgentPatternOptions>,
): Promise<{ answer: string; pieces: string[]; failed: string | null }> {
  const result = await teamOf(t, reading, options).execute('go')
  if (!result.success) throw result.error
  return JSON.parse(result.finalOutput)
}

async function collected<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const each of from) all.push(each)
  return all
}
