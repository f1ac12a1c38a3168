import t from 'tap'
import { defaultLogger, lineLogger } from '../../src/runtime/logging/logger.ts'

/** What each entry becomes. */
function linesOf(...entries: [fields: object, text: string][]): string[] {
  const lines: string[] = []
  const logger = lineLogger((line) => lines.push(line.trimEnd()))
  for (const [fields, text] of entries) logger.warn(fields, text)
  return lines
}

t.test('the default logger writes one line an event, from info up', async (t) => {
  const lines: string[] = []
  const logger = lineLogger((line) => lines.push(line))
  logger.debug({}, 'not shown')
  logger.info({ agent: 'ann' }, 'started')
  logger.warn({}, 'two\nlines \u001b[31m')
  logger.error({ agent: 'ann', error: new Error('boom') }, 'failed')
  logger.error({ error: 'why' }, 'failed')
  logger.error({ error: null }, 'failed')
  t.strictSame(lines, [
    'info ann started\n',
    'warn two lines  [31m\n',
    'error ann failed: boom\n',
    'error failed: why\n',
    'error failed\n',
  ])
})

t.test('the fields of an entry stand behind its text, in words that people can read', async (t) => {
  const waits = [
    { agent: 'ann', for: ['bob'], kind: 'request' },
    { agent: 'bob', for: ['ann'], kind: 'request' },
  ]
  t.strictSame(
    linesOf(
      [{ event: 'deadlock', runId: 'r-1', cycle: ['ann', 'bob'], tail: [], waits, victim: null }, 'agents wait'],
      [{ agent: 'ann', epoch: 2, restartInMs: 12.5, warm: false, error: new Error('gone') }, 'crashed'],
      [{ note: 'two words', quoted: 'a "b"', empty: '', why: new RangeError('too far'), none: undefined }, 'said'],
    ),
    [
      'warn agents wait runId=r-1 cycle=[ann, bob] waits=[{agent=ann for=[bob] kind=request}, {agent=bob for=[ann] kind=request}]',
      'warn ann crashed: gone epoch=2 restartInMs=12.5 warm=false',
      'warn said note="two words" quoted="a \\"b\\"" empty="" why="too far"',
    ],
  )
})

t.test('fields are cut where they are long or deep, and what agents say is not shown', async (t) => {
  const [long, many, deep, words] = linesOf(
    [{ text: 'x'.repeat(5_000), after: 1 }, 'long'],
    [{ list: Array.from({ length: 5_000 }, (_, i) => i), after: 1 }, 'many'],
    [{ a: { b: { c: { d: { e: 1 } } } } }, 'deep'],
    [
      {
        prompt: 'a secret plan',
        messages: ['one', 'two'],
        content: { a: 'secret' },
        at: { messages: 7, query: 'secret' },
      },
      'words',
    ],
  )
  t.equal(long, `warn long text=${'x'.repeat(200)}... after=1`)
  t.match(many, /^warn many list=\[0, 1, .*, 19, \.\.\. 4980 more\] after=1$/)
  t.equal(deep, 'warn deep a={b={c={d={...}}}}')
  t.equal(
    words,
    'warn words prompt=(13 characters) messages=(2 items) content=(not shown) at={messages=7 query=(6 characters)}',
  )
  const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`field${i}`, 'value']))
  const [whole = ''] = linesOf([wide, 'wide'])
  t.ok(whole.length < 1_100 && whole.endsWith(' ...'), 'and all of them together')
})

t.test('the default logger writes to stderr', async (t) => {
  const written = t.capture(process.stderr, 'write', () => true)
  defaultLogger.info({}, 'hello')
  t.strictSame(written.args(), [['info hello\n']])
})
