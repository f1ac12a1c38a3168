/** What is thrown in words and as data: whatever it is, within bounds. */
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { ToolFailedError } from '../src/shared/errors.ts'
import { describe, errorOf, thrownData } from '../src/shared/thrown.ts'

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
