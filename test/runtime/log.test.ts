/** The log of a run, JSON that is still being written, and sentences. */
import t from 'tap'
import { allocate, type Memory } from '../../src/mailbox/frame.ts'
import { type FrameBlock, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { RunLog } from '../../src/runtime/log/run-log.ts'
import { PartialJson } from '../../src/runtime/runs/stream-parts.ts'
import { sentencesOf } from '../../src/shared/sentences.ts'
import { Dice } from '../dice.ts'

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
