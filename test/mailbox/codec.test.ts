/** Messages as bytes and back, and what is no message. */
import { deepStrictEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { validate, version } from 'uuid'
import {
  decodeMessage,
  errorOf,
  isFailure,
  isMessage,
  jsonIn,
  messageIdOf,
  ReceivedMessage,
} from '../../src/mailbox/codec.ts'
import { type DeadLetter, DeadLetterList } from '../../src/mailbox/dead-letters.ts'
import {
  allocate,
  attemptOf,
  copyFrame,
  correlationOf,
  END,
  FAILED,
  type FrameFields,
  flagsOf,
  HEADER,
  ID,
  IdSource,
  idOf,
  isPolling,
  kindOf,
  lengthOf,
  limitOf,
  type Memory,
  memoryOn,
  plainFrameBytes,
  priorityOf,
  REQUEST,
  RESPONSE,
  readBody,
  readId,
  recipientOf,
  runOf,
  SEND,
  STEP_DONE,
  STREAMS,
  sameStep,
  senderOf,
  setAttempt,
  setFlag,
  setKind,
  setLimit,
  setTimes,
  setTurn,
  startedOf,
  stepOf,
  TO_ALL,
  timeOf,
  turnOf,
  typeOf,
  waitingOf,
  writeControl,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import { MOST_LEVELS, nestsTooDeep } from '../../src/mailbox/json.ts'
import { jsonIssue, MESSAGE_TYPES } from '../../src/mailbox/message.ts'
import { parseMessage } from '../../src/mailbox/parse-message.ts'
import { AgentFailedError, MailboxFullError, MessageRejectedError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { ANN, anyText, BOB, bytesOf, directory, fieldsOf, frameOf, SENT_AT } from './frames.ts'

const MIB = 2 ** 20

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
const json = maybe(fc.jsonValue({ stringUnit: 'binary' }).map((value) => JSON.stringify(value)))
const record = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(fields, { noNullPrototype: true })
const body = record({ content: anyText, data: json, metadata: json, threadId: maybe(anyText), name: maybe(anyText) })
const int32 = fc.oneof(fc.constantFrom(0, 1, -1, 2 ** 31 - 1, -(2 ** 31)), fc.integer())

const contents: Record<string, string> = {
  'an empty text': '',
  'plain text': 'The quick brown fox',
  'latin1 to its last letter': String.fromCharCode(...Array.from({ length: 256 }, (_, code) => code)),
  'Chinese, Japanese and Korean': '漢字かな交じり文 한국어',
  'emoji of several code points': '👩‍👩‍👧‍👦🏳️‍🌈🙂',
  'lone surrogates': 'a\ud800b\udc00\ud800',
  'NUL in its midst': 'before\0after\0',
  'a byte order mark': '\ufefftext',
  '10 MiB of one byte each': 'x'.repeat(10 * MIB),
  '10 MiB of two bytes each': '語'.repeat(5 * MIB),
}

for (const [title, content] of Object.entries(contents)) {
  t.test(`${title} comes back as it was`, async (t) => {
    const { memory, bytes } = frameOf({ content })
    t.equal(bytes, plainFrameBytes(content))
    t.ok(readBody(memory, 0).content === content)
    t.ok(decodeMessage(memory, 0, directory).content === content)
  })
}

t.test('any text in any part of the body comes back, whatever parts there are', async () => {
  fc.assert(
    fc.property(body, (parts) => {
      deepStrictEqual(readBody(frameOf(parts).memory, 0), parts)
    }),
    { numRuns: 500 },
  )
})

t.test('any JSON value comes back from structured data and metadata', async () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      const text = JSON.stringify(value)
      const message = decodeMessage(frameOf({ data: text, metadata: `{"value":${text}}` }).memory, 0, directory)
      deepStrictEqual(message.structuredData, JSON.parse(text))
      deepStrictEqual(message.metadata, { value: JSON.parse(text) as unknown })
    }),
  )
})

t.test('a frame takes exactly the bytes that were reckoned, and touches none beyond them', async () => {
  fc.assert(
    fc.property(body, fc.integer({ min: 0, max: 40 }), (parts, lead) => {
      const fields = fieldsOf(parts)
      const at = lead * 8
      const bytes = bytesOf(fields)
      const memory = memoryOn(new SharedArrayBuffer(at + bytes + 64))
      memory.u8.fill(0x5a)
      deepStrictEqual(writeFrame(memory, at, fields, SENT_AT), bytes)
      deepStrictEqual(bytes % 8, 0)
      deepStrictEqual(lengthOf(memory, at), bytes)
      deepStrictEqual(readBody(memory, at), parts)
      for (const outside of [memory.u8.subarray(0, at), memory.u8.subarray(at + bytes)])
        deepStrictEqual(
          outside.every((byte) => byte === 0x5a),
          true,
        )
    }),
  )
})

t.test('nothing of what stood there before is in a frame, which goes to the log', async () => {
  const idOn = ({ u8 }: Memory) => u8.fill(0, 4 * ID, 4 * ID + 16) // the caller writes it
  fc.assert(
    fc.property(body, (parts) => {
      const [one, other] = [0xa5, 0x5a].map((residue) => frameOf(parts, residue).memory)
      for (const memory of [one!, other!]) idOn(memory)
      deepStrictEqual(one!.u8, other!.u8)
    }),
  )
})

t.test('every field of the header comes back, over its whole range', async () => {
  const index = fc.integer({ min: 0, max: 0xffff })
  const header = record({
    kind: fc.integer({ min: 1, max: 30 }),
    flags: fc.constantFrom(0, STREAMS, FAILED, TO_ALL, STREAMS | FAILED | TO_ALL),
    type: fc.constantFrom(...MESSAGE_TYPES),
    sender: index,
    recipient: index,
    run: int32,
    turn: int32,
    correlation: int32,
    step: int32,
    attempt: fc.integer({ min: 1, max: 256 }),
    polling: fc.boolean(),
    limit: int32,
    priority: int32,
    waiting: fc.integer({ min: 0, max: 15 }),
  })
  fc.assert(
    fc.property(header, anyText, (fields, content) => {
      const { memory } = frameOf({ ...fields, content })
      deepStrictEqual(headerOf(memory), fields)
      deepStrictEqual(timeOf(memory, 0), SENT_AT)
    }),
  )
})

t.test('what is set afterwards leaves all else as it was', async (t) => {
  const setters: Record<string, [(memory: Memory) => void, Partial<FrameFields>]> = {
    kind: [(memory) => setKind(memory, 0, RESPONSE), { kind: RESPONSE }],
    flag: [(memory) => setFlag(memory, 0, FAILED), { flags: TO_ALL | FAILED }],
    attempt: [(memory) => setAttempt(memory, 0, 7), { attempt: 7 }],
    turn: [(memory) => setTurn(memory, 0, -7), { turn: -7 }],
    limit: [(memory) => setLimit(memory, 0, 7), { limit: 7 }],
  }
  const fields = { flags: TO_ALL, type: 'report', attempt: 3, sender: 0xffff, priority: -1, content: 'c' } as const
  for (const [name, [set, changed]] of Object.entries(setters)) {
    const { memory } = frameOf(fields)
    const before = headerOf(memory)
    set(memory)
    t.same(headerOf(memory), { ...before, ...changed }, name)
    t.equal(readBody(memory, 0).content, 'c')
  }
})

t.test('an attempt beyond 256 stays 256 and spills into no other field', async (t) => {
  for (const attempt of [256, 257, 1_000, 2 ** 31 - 1]) {
    const fields = { attempt, flags: TO_ALL, type: 'report' } as const
    const { memory } = frameOf(fields)
    t.match(headerOf(memory), { ...fields, attempt: 256 })
    const later = frameOf({ ...fields, attempt: 1 }).memory
    setAttempt(later, 0, attempt)
    t.match(headerOf(later), { ...fields, attempt: 256 })
  }
})

t.test('a control frame is a header alone, with nothing left of what stood there', async (t) => {
  const memory = allocate(HEADER)
  memory.u8.fill(0xff)
  t.equal(writeControl(memory, 0, SEND, ANN, BOB, 1, 2, 3, 4), HEADER)
  t.match(headerOf(memory), { kind: SEND, flags: 0, attempt: 1, limit: 0, priority: 0 })
  t.same(readBody(memory, 0), {
    content: '',
    data: undefined,
    metadata: undefined,
    threadId: undefined,
    name: undefined,
  })
})

t.test('the times of an END stand where limit and priority of a message do', async (t) => {
  const { memory } = frameOf({ kind: END, content: 'answer' })
  setTimes(memory, 0, 1_700_000_000_001.25, 1_700_000_000_002.75)
  t.equal(startedOf(memory, 0), 1_700_000_000_001.25)
  t.equal(timeOf(memory, 0), 1_700_000_000_002.75)
  t.equal(readBody(memory, 0).content, 'answer')
})

t.test('a copied frame is the same frame, small or large, wherever it stands', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 3_000 }), fc.nat(9), fc.nat(9), (length, from, to) => {
      const content = 'y'.repeat(length)
      const bytes = plainFrameBytes(content)
      const source = allocate(from * 8 + bytes)
      writeFrame(source, from * 8, fieldsOf({ content }), SENT_AT)
      const target = memoryOn(new SharedArrayBuffer(to * 8 + bytes + 8))
      copyFrame(source, from * 8, target, to * 8, bytes)
      deepStrictEqual(readBody(target, to * 8).content, content)
      deepStrictEqual(target.i32[(to * 8 + bytes) >> 2], 0)
    }),
  )
})

// ---- messages

t.test('a message shows every field of its frame', async (t) => {
  const { memory } = frameOf({
    type: 'delegate',
    content: 'c',
    data: '[1]',
    metadata: '{"m":1}',
    threadId: 'thread',
    limit: 500,
    priority: -2,
  })
  new IdSource(() => 0).write(memory.i32, 0, 0)
  t.same(decodeMessage(memory, 0, directory), {
    id: idOf(memory, 0),
    type: 'delegate',
    sender: 'ann',
    recipient: 'bob',
    content: 'c',
    structuredData: [1],
    priority: -2,
    requiresResponse: true,
    responseTimeoutMs: 500,
    threadId: 'thread',
    metadata: { m: 1 },
    runId: 'run-1',
    correlationId: null,
    sentAt: SENT_AT,
  })
})

t.test('a message without options has no data, no thread, no limit', async (t) => {
  const message = decodeMessage(frameOf({ kind: SEND }).memory, 0, directory)
  t.match(message, { structuredData: null, metadata: {}, threadId: null, responseTimeoutMs: null, priority: 0 })
  t.equal(message.requiresResponse, false)
})

t.test('a limit of 0 is a limit', async (t) => {
  t.equal(decodeMessage(frameOf({ limit: 0 }).memory, 0, directory).responseTimeoutMs, 0)
})

t.test('a message to all has no recipient', async (t) => {
  t.equal(decodeMessage(frameOf({ flags: TO_ALL }).memory, 0, directory).recipient, null)
})

t.test('a recipient that the sender knew by name alone keeps that name', async (t) => {
  t.equal(decodeMessage(frameOf({ recipient: 0xffff, name: 'späte' }).memory, 0, directory).recipient, 'späte')
})

t.test('who receives a message sees what the host sees', async () => {
  const header = record({
    kind: fc.constantFrom(SEND, REQUEST, END, RESPONSE),
    type: fc.constantFrom(...MESSAGE_TYPES.filter((type) => type !== 'response')),
    flags: fc.constantFrom(0, TO_ALL),
    priority: int32,
    waiting: fc.integer({ min: 0, max: 15 }),
    limit: int32,
  })
  const objects = maybe(fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)))
  fc.assert(
    fc.property(header, body, objects, (fields, parts, metadata) => {
      const { memory } = frameOf({ ...fields, ...parts, metadata })
      const received = new ReceivedMessage(memory, 0, readId(memory, 0), directory)
      const whole = decodeMessage(memory, 0, directory)
      memory.u8.fill(0) // the ring's memory is written over while the turn goes on
      deepStrictEqual(received.toJSON(), whole)
      deepStrictEqual(JSON.stringify(received), JSON.stringify(whole))
    }),
    { numRuns: 300 },
  )
})

t.test('structured data is one value, however often it is read', async (t) => {
  const { memory } = frameOf({ data: '{"list":[1]}' })
  const message = new ReceivedMessage(memory, 0, readId(memory, 0), directory)
  t.equal(message.structuredData, message.structuredData)
  t.same(message.structuredData, { list: [1] })
})

t.test('messages, responses and replies are messages; a commit without a reply and a step are none', async (t) => {
  const seen = (fields: Partial<FrameFields>) => isMessage(frameOf(fields).memory, 0)
  t.ok(seen({ kind: SEND, correlation: 0 }))
  t.ok(seen({ kind: REQUEST }))
  t.ok(seen({ kind: END, correlation: 9 }))
  t.ok(seen({ kind: RESPONSE, correlation: 9 }))
  t.notOk(seen({ kind: END, correlation: 0 }))
  t.notOk(seen({ kind: STEP_DONE }))
})

// ---- ids

const clockOf = (...times: number[]) => {
  let last = times[0]!
  return () => {
    last = times.shift() ?? last
    return last
  }
}

function idsOf(source: IdSource, now: () => number, count: number): string[] {
  const memory = allocate(HEADER)
  return Array.from({ length: count }, () => {
    source.write(memory.i32, 0, now())
    return idOf(memory, 0)
  })
}

t.test('ids are UUIDs of version 7, and ascend, also many in one millisecond', async (t) => {
  const ids = idsOf(new IdSource(Math.random), clockOf(1_700_000_000_000), 300_000)
  t.ok(ids.every((id) => validate(id) && version(id) === 7))
  t.ok(ids.every((id, i) => i === 0 || ids[i - 1]! < id))
})

t.test('an id begins with the time at which it was made', async (t) => {
  const [id] = idsOf(new IdSource(Math.random), clockOf(1_700_000_000_123.9), 1)
  t.equal(Number.parseInt(id!.replaceAll('-', '').slice(0, 12), 16), 1_700_000_000_123)
})

t.test('ids ascend when the clock goes on, stands still and is set back', async (t) => {
  const now = 1_700_000_000_000
  const ids = idsOf(new IdSource(Math.random), clockOf(now, now + 5, now + 5, now - 60_000, now + 6), 400)
  t.ok(ids.every((id, i) => i === 0 || ids[i - 1]! < id))
})

t.test('two sources share no id, even in the same millisecond', async (t) => {
  const make = (seed: number) => idsOf(new IdSource(() => seed), clockOf(1_700_000_000_000), 1_000)
  t.equal(new Set([...make(0), ...make(0.5), ...make(1 - 2 ** -30), ...make(2 ** -30)]).size, 4_000)
})

t.test("a response's id is its request's with the last bit set, and it names the request", async (t) => {
  const { memory } = frameOf({ kind: REQUEST })
  new IdSource(Math.random).write(memory.i32, 0, Date.now())
  const requestId = messageIdOf(memory, 0)
  t.match(requestId, /[02468ace]$/)
  const expected = requestId.slice(0, -1) + (Number.parseInt(requestId.slice(-1), 16) + 1).toString(16)
  for (const kind of [END, RESPONSE]) {
    setKind(memory, 0, kind)
    const received = new ReceivedMessage(memory, 0, readId(memory, 0), directory)
    for (const response of [decodeMessage(memory, 0, directory), received]) {
      t.match(response, { id: expected, correlationId: requestId, type: 'response', requiresResponse: false })
      t.ok(validate(response.id))
    }
    t.equal(messageIdOf(memory, 0), expected)
  }
})

// ---- errors

t.test('an error keeps its class, its code, its fields and the stack of its cause', async (t) => {
  const cause = new TypeError('x is not a function')
  const data = { code: 'AGENT_FAILED', message: 'it failed', details: { agent: 'bob', 漢: [1] }, stack: cause.stack }
  const { memory } = frameOf({ kind: RESPONSE, flags: FAILED, data: JSON.stringify(data) })
  t.ok(isFailure(memory, 0))
  const error = errorOf(memory, 0)
  t.ok(error instanceof AgentFailedError)
  t.match(error, { code: 'AGENT_FAILED', message: 'it failed', details: { agent: 'bob', 漢: [1] } })
  t.equal((error.cause as Error).stack, cause.stack)
})

t.test('a failed response reads as its error: the text as content, the rest in the metadata', async (t) => {
  const data = { code: 'MAILBOX_FULL', message: 'no room for "é漢"', details: { agent: 'bob' } }
  const { memory } = frameOf({ kind: END, flags: FAILED, data: JSON.stringify(data) })
  t.ok(errorOf(memory, 0) instanceof MailboxFullError)
  t.match(decodeMessage(memory, 0, directory), {
    content: 'no room for "é漢"',
    structuredData: null,
    metadata: { error: data },
  })
})

t.test('an answer that is no failure is none', async (t) => {
  t.notOk(isFailure(frameOf({ kind: END, data: '{"code":"AGENT_FAILED"}' }).memory, 0))
})

// ---- the same step

const step: Partial<FrameFields> = {
  kind: REQUEST,
  content: 'abc',
  data: '{"a":1}',
  metadata: '{}',
  threadId: 'x',
  recipient: BOB,
}

t.test('a step that is asked again is the same step, whatever stood in memory before', async () => {
  fc.assert(
    fc.property(body, fc.nat(255), fc.nat(255), (parts, one, other) => {
      const again = { turn: 9, step: 9, correlation: 9, run: 9, attempt: 9 }
      const a = frameOf(parts, one).memory
      const b = frameOf({ ...parts, ...again }, other).memory
      deepStrictEqual(sameStep(a, 0, b, 0), true)
    }),
  )
})

t.test('a step with another kind, recipient, type, part or text is another step', async (t) => {
  const others: Partial<FrameFields>[] = [
    { kind: SEND },
    { recipient: ANN },
    { type: 'delegate' },
    { content: 'abd' },
    { content: 'ab' },
    { content: 'abc\0' },
    { data: '{"a":2}' },
    { data: undefined },
    { metadata: undefined, name: '{}' },
    { threadId: 'y' },
    { name: 'x' },
  ]
  const a = frameOf(step).memory
  for (const other of others) t.notOk(sameStep(a, 0, frameOf({ ...step, ...other }).memory, 0), JSON.stringify(other))
})

t.test('a text with wide letters is not the text with the same bytes', async (t) => {
  t.notOk(sameStep(frameOf({ content: '\u6161' }).memory, 0, frameOf({ content: 'aa' }).memory, 0))
})

t.test('steps are compared where they stand', async (t) => {
  const { bytes } = frameOf(step)
  const memory = allocate(64 + bytes)
  writeFrame(memory, 64, fieldsOf(step), SENT_AT)
  t.ok(sameStep(memory, 64, frameOf(step).memory, 0))
  t.ok(sameStep(frameOf(step).memory, 0, memory, 64))
})

function headerOf(memory: Memory): Omit<FrameFields, 'content' | 'data' | 'metadata' | 'threadId' | 'name'> {
  return {
    kind: kindOf(memory, 0),
    flags: flagsOf(memory, 0),
    type: typeOf(memory, 0),
    sender: senderOf(memory, 0),
    recipient: recipientOf(memory, 0),
    run: runOf(memory, 0),
    turn: turnOf(memory, 0),
    correlation: correlationOf(memory, 0),
    step: stepOf(memory, 0),
    attempt: attemptOf(memory, 0),
    polling: isPolling(memory, 0),
    limit: limitOf(memory, 0),
    priority: priorityOf(memory, 0),
    waiting: waitingOf(memory, 0),
  }
}

t.test('metadata are read once, and what a handler writes into them stays', async (t) => {
  const parts = [{ type: 'text', text: 'hi' }]
  const { memory } = frameOf({ metadata: JSON.stringify({ m: 1, $parts: parts }) })
  const message = new ReceivedMessage(memory, 0, readId(memory, 0), directory)
  message.metadata.seen = true
  t.strictSame(message.metadata, { m: 1, seen: true })
  t.strictSame(message.toJSON().metadata, { m: 1, seen: true })
  t.same(message.parts, parts)
  t.equal(message.parts, message.parts)
})

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
  t.same(pluck(details.issues as { path: string }[], 'path'), ['content', 'priority', 'colour', 'sound'])
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

const brackets = (levels: number, open = '[', close = ']') => open.repeat(levels) + close.repeat(levels)

t.test('JSON may be nested 1,000 levels deep, and no deeper', async (t) => {
  const pad = `,"${'x'.repeat(2 * MOST_LEVELS)}"]`
  for (const [text, tooDeep] of [
    [brackets(MOST_LEVELS), false],
    [brackets(MOST_LEVELS + 1), true],
    [brackets(20_000), true],
    [`[${brackets(MOST_LEVELS - 1)}${pad}`, false],
    [`[${brackets(MOST_LEVELS)}${pad}`, true],
    [brackets(600, '{"a":[', ']}'), true],
    [brackets(500, '{"a":[', ']}'), false],
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
  t.equal(jsonIn(brackets(20_000)), null)
  t.strictSame(jsonIn(brackets(2)), [[]])
})

const letter = (id: string): DeadLetter => ({
  id,
  message: decodeMessage(frameOf({ content: id }).memory, 0, directory),
  reason: 'rejected',
  errors: [new MailboxFullError('full')],
  at: 1,
})

t.test('a dead letter is listed as it was added', async (t) => {
  const list = new DeadLetterList()
  const added = letter('a')
  list.add(added, 64)
  t.same(list.list(), [added])
  t.equal(list.total, 1)
})

t.test('the oldest go when the list is full, and are still counted', async (t) => {
  const list = new DeadLetterList(3)
  for (const id of ['a', 'b', 'c', 'd', 'e']) list.add(letter(id), 64)
  t.same(pluck(list.list(), 'id'), ['c', 'd', 'e'])
  t.equal(list.total, 5)
  t.equal(list.forgotten, 2)
})

t.test('so they do when the letters are too large together', async (t) => {
  const list = new DeadLetterList(10, 300)
  for (const id of ['a', 'b', 'c', 'd']) list.add(letter(id), 100)
  const ids = () => list.list().map(({ id }) => id)
  t.same(ids(), ['b', 'c', 'd'])
  t.equal(list.forgotten, 1)
  list.add(letter('large'), 1_000)
  t.same(ids(), ['large'], 'the newest stays, whatever its size')
  list.add(letter('e'), 100)
  t.same(ids(), ['e'])
  t.equal(list.forgotten, 5)
})

t.test('a list that was given out is not the list itself', async (t) => {
  const list = new DeadLetterList()
  list.add(letter('a'), 64)
  list.list().pop()
  t.equal(list.list().length, 1)
})

t.test('10,000 are kept', async (t) => {
  const list = new DeadLetterList()
  const one = letter('a')
  for (let i = 0; i < 10_100; i++) list.add({ ...one, id: `${i}` }, 64)
  t.equal(list.list().length, 10_000)
  t.equal(list.total, 10_100)
})

t.test('a letter that was taken out makes room, and is not among the forgotten', async (t) => {
  const list = new DeadLetterList(10, 300)
  for (const id of ['a', 'b', 'c']) list.add(letter(id), 100)
  t.equal(list.get('b')?.id, 'b')
  t.ok(list.delete('b'))
  t.notOk(list.delete('b'))
  list.add(letter('d'), 100)
  t.same([list.list().map(({ id }) => id), list.total, list.forgotten], [['a', 'c', 'd'], 4, 0])
})
