import { deepStrictEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { jsonIssue, MESSAGE_TYPES } from '../../src/mailbox/message.ts'
import { parseMessage } from '../../src/mailbox/parse-message.ts'
import { MessageRejectedError } from '../../src/shared/errors.ts'

const least = { recipient: 'ann', content: 'hello' }

/** What the parser throws for a message with that field. */
function refusal(fields: object): MessageRejectedError {
  try {
    parseMessage({ ...least, ...fields })
  } catch (error) {
    if (error instanceof MessageRejectedError) return error
    throw error
  }
  throw new Error('the message was taken')
}

const cycle: Record<string, unknown> = {}
cycle.self = [cycle]

function nested(levels: number): unknown {
  let value: unknown = 0
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { in: value }
  return value
}

t.test('the least message is a recipient and a content', async (t) => {
  t.same(parseMessage(least), least)
})

t.test('every field is taken as it came, but id and time, which the runtime gives', async (t) => {
  const all = {
    type: 'delegate',
    sender: 'bob',
    recipient: ['ann', 'carl'],
    content: '',
    structuredData: [{ 漢: null }],
    priority: -5,
    requiresResponse: true,
    responseTimeoutMs: 0.5,
    threadId: 'thread',
    metadata: { deep: { list: [1] } },
    runId: 'run',
    correlationId: 'id',
  }
  t.same(parseMessage({ ...all, id: 'x', sentAt: 1 }), all)
})

t.test('a message that the runtime gave out can be given back: null is as good as nothing', async (t) => {
  t.same(parseMessage({ ...least, threadId: null, correlationId: null, responseTimeoutMs: null }), least)
})

t.test('all seven types are taken', async (t) => {
  for (const type of MESSAGE_TYPES) t.equal(parseMessage({ ...least, type }).type, type)
})

t.test('nobody is a recipient, as in a broadcast', async (t) => {
  t.equal(parseMessage({ ...least, recipient: null }).recipient, null)
})

// field, what is wrong with it, where exactly if not in the field itself, and what the reason has to say
const wrong: [string, unknown, string?, RegExp?][] = [
  ['type', 'shout', undefined, /"request"\|"response"/],
  ['type', null],
  ['sender', ''],
  ['sender', 5],
  ['recipient', undefined, undefined, /is undefined; a name, a list of names, or null for all is needed/],
  ['recipient', 5, undefined, /is a number; a name/],
  ['recipient', {}, undefined, /is an object; a name/],
  ['recipient', ''],
  ['recipient', []],
  ['recipient', ['ann', ''], 'recipient[1]'],
  ['recipient', [null]],
  ['content', undefined, undefined, /expected string, received undefined/],
  ['content', null],
  ['content', 5],
  ['content', ['a']],
  ['structuredData', () => 1, undefined, /is function; a JSON value is needed/],
  ['structuredData', Symbol('s')],
  ['structuredData', 1n],
  ['structuredData', Number.NaN],
  ['structuredData', { list: [1, { map: new Map() }] }, 'structuredData.list[1].map', /is a Map/],
  ['structuredData', { env: new (class {})() }, 'structuredData.env', /is a class instance/],
  ['structuredData', [undefined], 'structuredData[0]'],
  ['structuredData', new Date()],
  ['structuredData', cycle, 'structuredData.self[0]', /is a cycle/],
  ['structuredData', nested(1_001), undefined, /nested more than 1000 levels deep/],
  ['structuredData', nested(200_000), undefined, /nested more than 1000 levels deep/],
  ['priority', 1.5],
  ['priority', 2 ** 31],
  ['priority', -(2 ** 31) - 1],
  ['priority', '1'],
  ['priority', Number.NaN],
  ['requiresResponse', 1],
  ['responseTimeoutMs', -1],
  ['responseTimeoutMs', 2 ** 31],
  ['responseTimeoutMs', Number.NaN],
  ['responseTimeoutMs', '5'],
  ['threadId', 5],
  ['metadata', null, undefined, /is null; an object is needed/],
  ['metadata', [1], undefined, /is a list; an object is needed/],
  ['metadata', 'text'],
  ['metadata', new Map(), undefined, /is a Map/],
  ['metadata', { a: { b: 1n } }, 'metadata.a.b', /is bigint/],
  ['metadata', { f: () => 0 }, 'metadata.f'],
  ['runId', 5],
  ['correlationId', 5],
  ['id', 5],
  ['sentAt', '2020'],
  ['colour', 'red', undefined, /is no field of a message; there are type, sender, recipient, content/],
]

t.test('what is wrong is refused, with the field, what came and what is needed', async (t) => {
  for (const [field, value, path = field, reason = /./] of wrong) {
    const error = refusal({ [field]: value })
    t.equal(error.details.path, path)
    t.equal(error.code, 'MESSAGE_REJECTED')
    t.ok(error.message.startsWith(`The message was refused: ${path}: `), error.message)
    t.match(error.message, reason)
    t.ok(error.message.length < 1_000)
  }
})

t.test('what is no message at all is refused as a whole', async (t) => {
  for (const value of [undefined, null, 5, 'text', [], () => 1]) {
    const thrown = t.throws(() => parseMessage(value), { code: 'MESSAGE_REJECTED', details: { path: 'message' } })
    t.ok(thrown instanceof MessageRejectedError)
  }
})

t.test('everything that is wrong is listed, not the first alone', async (t) => {
  const { details } = refusal({ priority: 'high', content: 5, colour: 'red', sound: 'loud' })
  t.same(
    (details.issues as { path: string }[]).map(({ path }) => path),
    ['content', 'priority', 'colour', 'sound'],
  )
})

t.test('a value of 1,000 levels is taken', async (t) => {
  const structuredData = nested(1_000)
  t.same(parseMessage({ ...least, structuredData }).structuredData, structuredData)
  JSON.stringify(structuredData)
})

t.test('a key named __proto__ is a key like any other', async (t) => {
  const metadata = JSON.parse('{"__proto__":{"a":1}}') as object
  t.equal(JSON.stringify(parseMessage({ ...least, metadata }).metadata), '{"__proto__":{"a":1}}')
})

const fields = ['type', 'sender', 'recipient', 'content', 'structuredData', 'priority', 'requiresResponse'] as const
const others = ['responseTimeoutMs', 'threadId', 'metadata', 'runId', 'correlationId', 'id', 'sentAt', 'x'] as const

const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withObjectString: true,
  withSparseArray: true,
  withTypedArray: true,
})

t.test('any fuzzed field is taken as JSON or refused by its name', async () => {
  fc.assert(
    fc.property(fc.constantFrom(...fields, ...others), anything, (field, value) => {
      const refused = attempt({ ...least, [field]: value })
      if (refused) ok(String(refused.details.path).startsWith(field))
    }),
    { numRuns: 600 },
  )
})

t.test('anything at all is taken as JSON or refused with a reason', async () => {
  const message = fc.dictionary(fc.constantFrom(...fields, ...others, '__proto__', 'constructor'), anything)
  fc.assert(
    fc.property(fc.oneof(anything, message), (value) => {
      const refused = attempt(value)
      if (refused) ok(refused.message.startsWith('The message was refused: '))
    }),
    { numRuns: 300 },
  )
})

t.test('-0 is a JSON value, and arrives as the 0 that it is equal to', async (t) => {
  t.equal(jsonIssue({ list: [-0, JSON.parse('-0')] }), undefined)
  t.ok(Object.is(JSON.parse(JSON.stringify(parseMessage({ ...least, structuredData: -0 }).structuredData)), 0))
})

t.test('jsonIssue finds in a value just what JSON would change', async () => {
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), anything), (value) => {
      if (jsonIssue(value) === undefined) deepStrictEqual(roundTrip(value), plain(value))
      else ok(!unchanged(value))
    }),
    { numRuns: 600 },
  )
})

/** The refusal, or undefined; whatever was taken has to be JSON. */
function attempt(value: unknown): MessageRejectedError | undefined {
  try {
    const message = parseMessage(value)
    deepStrictEqual(roundTrip(message), plain(message))
    return undefined
  } catch (error) {
    if (error instanceof MessageRejectedError) return error
    throw error
  }
}

function roundTrip(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown
}

function unchanged(value: unknown): boolean {
  try {
    deepStrictEqual(roundTrip(value), plain(value))
    return true
  } catch {
    return false
  }
}

/** The value as JSON may give it back: without absent properties and prototypes, and without the sign of 0. */
function plain(value: unknown): unknown {
  if (value === 0) return 0
  if (Array.isArray(value)) return Array.from(value, plain)
  if (typeof value !== 'object' || value === null) return value
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype) return value
  const entries = Object.entries(value).filter(([, field]) => field !== undefined)
  return Object.fromEntries(entries.map(([key, field]) => [key, plain(field)]))
}
