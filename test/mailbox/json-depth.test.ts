import t from 'tap'
import { jsonIn } from '../../src/mailbox/codec.ts'
import { MOST_LEVELS, nestsTooDeep } from '../../src/mailbox/json.ts'

const nested = (levels: number, open = '[', close = ']') => open.repeat(levels) + close.repeat(levels)

t.test('JSON may be nested 1,000 levels deep, and no deeper', async (t) => {
  const pad = `,"${'x'.repeat(2 * MOST_LEVELS)}"]`
  for (const [text, tooDeep] of [
    [nested(MOST_LEVELS), false],
    [nested(MOST_LEVELS + 1), true],
    [nested(20_000), true],
    [`[${nested(MOST_LEVELS - 1)}${pad}`, false],
    [`[${nested(MOST_LEVELS)}${pad}`, true],
    [nested(600, '{"a":[', ']}'), true],
    [nested(500, '{"a":[', ']}'), false],
  ] as const)
    t.equal(nestsTooDeep(text), tooDeep, text.slice(0, 20))
})

t.test('brackets in strings are no levels, nor are those that stand side by side', async (t) => {
  for (const value of [
    '['.repeat(5_000),
    `"\\${'{'.repeat(5_000)}`,
    Array(5_000).fill([]),
    Array(5_000).fill('\\"{'),
  ]) {
    const text = JSON.stringify(value)
    t.notOk(nestsTooDeep(text))
    t.strictSame(jsonIn(text), value)
  }
})

t.test('what a frame says reads as null where it is nested too deep', async (t) => {
  t.equal(jsonIn(nested(20_000)), null)
  t.strictSame(jsonIn(nested(2)), [[]])
})
