import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { validate, version } from 'uuid'
import { decodeMessage, errorOf, isFailure, isMessage, messageIdOf, ReceivedMessage } from '../../src/mailbox/codec.ts'
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
import { MESSAGE_TYPES } from '../../src/mailbox/message.ts'
import { AgentFailedError, MailboxFullError } from '../../src/shared/errors.ts'
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
