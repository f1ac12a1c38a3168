/** JSON that is still being written: what is there is read, what is not known yet is left out. */
import t from 'tap'
import { PartialJson } from '../../src/runtime/runs/stream-parts.ts'
import { Dice } from '../dice.ts'

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
