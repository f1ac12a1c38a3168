/** What an agent prints, as lines: cut where they are too long, left out where they are too many. */
import t from 'tap'
import { PrintedLines } from '../../src/runtime/logging/printed-lines.ts'

function printer() {
  const heard: (string | number | { leftOut: number })[] = []
  let now = 0
  const lines = new PrintedLines(
    {
      line: (text) => heard.push(text),
      flooded: () => heard.push('flooded'),
      leftOut: (count) => heard.push({ leftOut: count }),
    },
    () => now,
  )
  return {
    lines,
    heard,
    pass(ms: number) {
      now += ms
    },
  }
}

t.test('a line is told when its end is there, in whatever pieces it comes', async (t) => {
  const { lines, heard } = printer()
  lines.write('on')
  lines.write('e\ntwo\n\nth')
  t.same(heard, ['one', 'two', ''])
  lines.write('ree')
  lines.end()
  t.same(heard.slice(3), ['three'])
})

t.test('of a line without end the beginning is kept, and the rest counted', async (t) => {
  const { lines, heard } = printer()
  for (let i = 0; i < 100; i++) lines.write('x'.repeat(10_000))
  lines.write('\nnext\n')
  t.same(heard, [`${'x'.repeat(16_384)} ... (${1_000_000 - 16_384} characters left out)`, 'next'])
})

t.test('lines beyond the most of a second are left out and counted', async (t) => {
  const { lines, heard, pass } = printer()
  lines.write('line\n'.repeat(12_000))
  t.equal(heard.length, 10_001)
  t.same(heard.slice(9_999), ['line', 'flooded'])
  pass(999)
  lines.write('line\n')
  t.equal(heard.length, 10_001)
  pass(1)
  lines.write('again\n')
  t.same(heard.slice(10_001), [{ leftOut: 2_001 }, 'again'])
})

t.test('so are those beyond the most characters', async (t) => {
  const { lines, heard } = printer()
  lines.write(`${'x'.repeat(16_383)}\n`.repeat(70))
  lines.end()
  t.equal(heard.length, 66)
  t.same(heard.slice(64), ['flooded', { leftOut: 6 }])
})
