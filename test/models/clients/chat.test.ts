/** Clients of chat completions: the contract, fields that go back, and servers that stray. */
import t from 'tap'
import type { ModelMessage, ModelRequest } from '../../../src/actors/definition/model.ts'
import { type ModelMiddleware, wrapModel } from '../../../src/models.ts'
import { rehearsalModel, type Script, scriptedModel } from '../../../src/testing.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { chatWire, errorBody } from '../../fixtures/model-wire.ts'
import { event } from '../../fixtures/wires/wire.ts'
import { BOTH, clientOf, errorOf, KEY } from '../../runtime/models/asking.ts'
import { FakeModel } from '../fake-model.ts'
import { clientContract, collected, providerContract, TOOLS } from './contract.ts'

// The client of chat completions fulfils the contract of clients.

providerContract(t, {
  name: 'chat completions',
  wire: chatWire,
  client: (server) => clientOf(server),
  key: KEY,
  keeps: 'text',
  unknownEvent: event({ object: 'chat.completion.news', choices: [] }),
  errorEvent: event(errorBody('Overloaded.', 'overloaded')),
  tooLong: errorBody('8192 tokens at most.', 'context_length_exceeded'),
  endsAnyhow: true,
})

// Fields of a provider that chat completions do not have: which go back, to whom, and what is said of the others.

const called = { name: 'look', arguments: '{"at":"one"}' }
const signed = { extra_content: { google: { thought_signature: 'c2lnbmVk' } } }
const details = [{ type: 'reasoning.text', text: 'I look.', signature: 'abc', index: 0 }]
const message = {
  content: 'I look.',
  tool_calls: [{ id: 'c1', type: 'function', function: called, ...signed, thought_signature: 'def' }],
  reasoning_details: details,
  provider_specific_fields: { a: 1 },
  thinking_blocks: [{ type: 'thinking', thinking: 'I look.', signature: 'ghi' }],
  mood: { good: true },
}

/** Asks, and asks again with the answer and the result of its call. Returns what went back. */
async function round(server: Awaited<ReturnType<typeof modelServer>>, more: Partial<ModelRequest>, then = more) {
  const client = clientOf(server)
  const first = await collected(client, { tools: TOOLS, ...more })
  const messages: ModelMessage[] = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: first.parts.map(({ block: _, ...part }) => part), toolCalls: first.toolCalls },
    { role: 'tool', toolCallId: 'c1', content: 'seen' },
  ]
  server.answer('Seen.')
  await collected(client, { tools: TOOLS, messages, ...then })
  return { back: server.calls.at(-1)!.body.messages[1]!, warnings: first.warnings }
}

t.test('what comes with an answer goes back with it, to the same model alone', async (t) => {
  const server = await modelServer(t)
  const { mood, ...wanted } = message
  const answer = { body: { choices: [{ message, finish_reason: 'tool_calls' }] } }
  server.answer(answer)
  const { back, warnings } = await round(server, {})
  t.same(back, { role: 'assistant', ...wanted })
  t.match(warnings, [/the field "mood", which stays here/])
  server.answer(answer)
  t.same((await round(server, { giveBack: ['mood'] })).back, { role: 'assistant', ...wanted, mood })
  server.answer(answer)
  const other = await round(server, {}, { model: 'another' })
  t.same(other.back, {
    role: 'assistant',
    content: 'I look.',
    tool_calls: [{ id: 'c1', type: 'function', function: called }],
  })
})

t.test('what a stream sends in parts goes back whole', async (t) => {
  const server = await modelServer(t)
  const chunk = (delta: object, finish_reason: string | null = null) => event({ choices: [{ delta, finish_reason }] })
  server.answer({
    events: [
      chunk({ reasoning_details: [{ type: 'reasoning.text', text: 'I ', index: 0 }] }),
      chunk({ reasoning_details: [{ type: 'reasoning.text', text: 'look.', signature: 'abc', index: 0 }] }),
      chunk({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'xyz', index: 1 }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: 'I ', signature: '' }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: 'look.', signature: '' }] }),
      chunk({ thinking_blocks: [{ type: 'thinking', thinking: '', signature: 'ghi' }] }),
      chunk({ provider_specific_fields: { a: 1 } }),
      chunk({ provider_specific_fields: { b: { c: 2 } } }),
      chunk({
        tool_calls: [{ index: 0, id: 'c1', function: { name: 'look', arguments: '' }, extra_content: { google: {} } }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"at":"one"}' }, ...signed }] }),
      chunk({}, 'tool_calls'),
    ],
  })
  const { back } = await round(server, { stream: true }, {})
  t.same(back, {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: called, ...signed }],
    reasoning_details: [...details, { type: 'reasoning.encrypted', data: 'xyz', index: 1 }],
    thinking_blocks: [{ type: 'thinking', thinking: 'I look.', signature: 'ghi' }],
    provider_specific_fields: { a: 1, b: { c: 2 } },
  })
})

t.test('fields without measure are left out, and the answer counts', async (t) => {
  const server = await modelServer(t)
  const deep = JSON.parse(`${'['.repeat(3_000)}${']'.repeat(3_000)}`)
  for (const field of [
    { extra_content: 'x'.repeat(2 ** 21) },
    { reasoning_details: deep },
    JSON.parse('{"__proto__":{"a":1}}'),
  ]) {
    server.answer({ body: { choices: [{ message: { ...message, ...field }, finish_reason: 'tool_calls' }] } })
    t.equal((await collected(clientOf(server), { tools: TOOLS })).text, 'I look.')
  }
})

// Answers of chat completions as servers really send them, where they stray from the API: what was meant is read.

const whole = (message: object, more: object = { finish_reason: 'stop' }) => ({ choices: [{ message, ...more }] })
const chunk = (delta: object, more: object = {}) => event({ choices: [{ delta, ...more }] })
const DONE = 'data: [DONE]\n\n'
const wrongType = { headers: { 'content-type': 'text/plain' } }

t.test('an answer has an end, whatever word the server has for it', async (t) => {
  const server = await modelServer(t)
  const words = {
    stop: ['stop', 'eos', 'eos_token', 'EOS', 'end_turn', 'stop_sequence', 'STOP', 'COMPLETE'],
    length: ['length', 'max_tokens', 'MAX_TOKENS', 'model_length'],
    content_filter: ['content_filter', 'SAFETY', 'RECITATION', 'refusal'],
  }
  for (const how of BOTH)
    for (const [finishReason, all] of Object.entries(words))
      for (const word of all) {
        server.answer({ text: 'Four.', finishReason: word })
        t.match(await collected(clientOf(server), how), { text: 'Four.', finishReason, warnings: [] }, word)
      }
})

t.test('an unknown word for the end, or none, keeps the answer and is told', async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH) {
    server.answer({ text: 'Four.', finishReason: 'abducted' })
    const { warnings, ...answer } = await collected(clientOf(server), how)
    t.match(answer, { text: 'Four.', finishReason: 'stop' })
    t.match(warnings, [/the reason "abducted" that is not known/])
    server.answer({ toolCalls: [{ name: 'look', input: { at: 'one' } }], finishReason: 'abducted' })
    t.equal((await collected(clientOf(server), how)).finishReason, 'tool_calls')
  }
  const ends = [[chunk({ content: 'Four.' }), DONE], [chunk({ content: 'Four.' })]]
  for (const events of ends) {
    server.answer({ events })
    const answer = await collected(clientOf(server), { stream: true })
    t.match(answer, { text: 'Four.', finishReason: 'stop', warnings: [/no finish reason/] })
  }
  server.answer({ body: whole({ content: 'Four.' }, {}) })
  t.match(await collected(clientOf(server)), { text: 'Four.', finishReason: 'stop' })
})

t.test('a content that is a list of parts is read', async (t) => {
  const server = await modelServer(t)
  const content = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'Two and two.' }] },
    { type: 'text', text: 'Fo' },
    { type: 'text', text: 'ur.' },
  ]
  server.answer({ body: whole({ content }) })
  server.answer({
    events: [...content.map((part) => chunk({ content: [part] })), chunk({}, { finish_reason: 'stop' })],
  })
  for (const how of BOTH) {
    const { text, parts } = await collected(clientOf(server), how)
    t.equal(text, 'Four.')
    t.match(parts, [
      { type: 'reasoning', text: 'Two and two.' },
      { type: 'text', text: 'Four.' },
    ])
  }
})

t.test('what is sent under a wrong content type, or none, is read for what it is', async (t) => {
  const server = await modelServer(t)
  const json = JSON.stringify(whole({ content: 'Four.' }))
  const events = [': keep-alive\n\n', chunk({ content: 'Four.' }, { finish_reason: 'stop' }), DONE]
  for (const type of ['text/plain', 'application/octet-stream', '', 'text/event-stream']) {
    server.answer({ body: `\n ${json}`, headers: { 'content-type': type } })
    t.equal((await collected(clientOf(server))).text, 'Four.', `JSON as "${type}"`)
  }
  for (const type of ['text/plain', '', 'application/json']) {
    server.answer({ events, headers: { 'content-type': type } })
    t.equal((await collected(clientOf(server), { stream: true })).text, 'Four.', `events as "${type}"`)
  }
  for (const type of ['text/event-stream', 'application/json']) {
    server.answer({ body: events.join(''), headers: { 'content-type': type } })
    t.equal((await collected(clientOf(server))).text, 'Four.', `events as "${type}" that nobody has asked for`)
  }
  server.answer({ body: json, ...wrongType })
  t.equal((await collected(clientOf(server), { stream: true })).text, 'Four.', 'JSON in place of a stream')
})

t.test('events that are empty, have blanks, or stand line by line are read as they are meant', async (t) => {
  const server = await modelServer(t)
  const [first, last] = [chunk({ content: 'Fo' }), chunk({ content: 'ur.' }, { finish_reason: 'stop' })]
  const pretty = JSON.stringify({ choices: [{ delta: { content: 'ur.' }, finish_reason: 'stop' }] }, null, 2)
  const streams = {
    'empty ones': ['data:\n\n', first, 'data: null\n\n', 'data: \n\n', last, DONE],
    'blanks around the end': [first, last, 'data:   [DONE]  \n\n'],
    'one line break between two': [first.trimEnd(), last.trimEnd(), 'data: [DONE]'].map((line) => `${line}\n`),
    'no line break at the end': [first, last.trimEnd()],
    'two characters at a line break': [first, last, DONE].map((event) => event.replaceAll('\n', '\r\n')),
    'JSON over several lines': [first, `${pretty.replace(/^/gm, 'data: ')}\n\n`, DONE],
    'cut in the middle of lines': [...`${first}${last}${DONE}`],
  }
  for (const [title, events] of Object.entries(streams)) {
    server.answer({ events })
    const { text, warnings } = await collected(clientOf(server), { stream: true })
    t.same({ text, warnings }, { text: 'Four.', warnings: [] }, title)
  }
})

t.test('of several choices the first is read, also where their chunks come in turn', async (t) => {
  const server = await modelServer(t)
  const of = (index: number, content: string, finish_reason?: string) => ({ index, delta: { content }, finish_reason })
  const chunks = [[of(1, 'Fi'), of(0, 'Fo')], [of(1, 've.', 'stop')], [of(0, 'ur.', 'stop')]]
  server.answer({ events: chunks.map((choices) => event({ choices })) })
  t.equal((await collected(clientOf(server), { stream: true })).text, 'Four.')
})

t.test('a connection that breaks off behind the reason of the end takes nothing away', async (t) => {
  const server = await modelServer(t)
  server.answer({ events: [chunk({ content: 'Four.' }, { finish_reason: 'stop' }), DONE], hangUp: 1 })
  const answer = await collected(clientOf(server), { stream: true })
  t.match(answer, { text: 'Four.', finishReason: 'stop', warnings: [/broke off behind the end/] })
  server.answer({ events: [chunk({ content: 'Four.' }), DONE], hangUp: 1 })
  t.match((await errorOf(clientOf(server), { stream: true })).modelFailure, { reason: 'unreachable', retryable: true })
})

t.test('a part that nobody knows is left out, and told of', async (t) => {
  const server = await modelServer(t)
  const content = [
    { type: 'text', text: 'Four.' },
    { type: 'cite', of: 1 },
  ]
  server.answer({ body: whole({ content }) })
  server.answer({ events: [chunk({ content }, { finish_reason: 'stop' })] })
  for (const how of BOTH)
    t.match(await collected(clientOf(server), how), { text: 'Four.', warnings: [/a part of the type "cite"/] })
})

t.test('one odd number leaves the other counts of tokens', async (t) => {
  const server = await modelServer(t)
  const usages: [given: object, expected: object][] = [
    [
      { prompt_tokens: 9, completion_tokens: -1 },
      { inputTokens: 9, outputTokens: 0, totalTokens: 9 },
    ],
    [
      { prompt_tokens: 'nine', completion_tokens: 4, total_tokens: 13 },
      { inputTokens: 9, outputTokens: 4 },
    ],
    [
      { prompt_tokens: 9, total_tokens: 13 },
      { inputTokens: 9, outputTokens: 4, totalTokens: 13 },
    ],
    [{ total_tokens: 13 }, { inputTokens: 13, outputTokens: 0, totalTokens: 13 }],
    [
      { prompt_tokens: 8.6, completion_tokens: '4' },
      { inputTokens: 9, outputTokens: 4 },
    ],
    [{ prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 1.5 } }, { totalTokens: 13 }],
    [{ prompt_tokens: 9, completion_tokens: 4, completion_tokens_details: 'none' }, { totalTokens: 13 }],
  ]
  for (const [usage, expected] of usages) {
    server.answer({ body: { ...whole({ content: 'Four.' }), usage } })
    t.match((await collected(clientOf(server))).usage, { ...expected, calls: 1 })
  }
  server.answer({
    body: { ...whole({ content: 'Four.' }), x_groq: { usage: { prompt_tokens: 9, completion_tokens: 4 } } },
  })
  t.match((await collected(clientOf(server))).usage, { totalTokens: 13 }, 'where Groq has it')
})

interface Part {
  index?: number | string
  id?: string
  name?: string
  input?: string | object
}

const meant = (...inputs: object[]) => inputs
/** Calls in parts, as streams of servers have them, and the inputs that were meant. */
const inParts: { title: string; parts: Part[]; calls: object[] }[] = [
  {
    title: 'the head of the second call at the index of the first, its tail at its own',
    parts: [
      { index: 0, id: 'a', name: 'look', input: '{"at":"one"}' },
      { index: 0, id: 'b', name: 'add', input: '' },
      { index: 1, input: '{"at":"two"}' },
    ],
    calls: meant({ look: 'one' }, { add: 'two' }),
  },
  {
    title: 'no index',
    parts: [
      { id: 'a', name: 'look', input: '{"at":' },
      { input: '"one"}' },
      { id: 'b', name: 'add', input: '{"at":"two"}' },
    ],
    calls: meant({ look: 'one' }, { add: 'two' }),
  },
  {
    title: 'no index, and the id in each part',
    parts: [
      { id: 'a', name: 'look', input: '{"at":' },
      { id: 'b', name: 'add', input: '{"at":' },
      { id: 'a', input: '"one"}' },
      { id: 'b', input: '"two"}' },
    ],
    calls: meant({ look: 'one' }, { add: 'two' }),
  },
  {
    title: 'no index, and id and name in each part',
    parts: [
      { id: 'a', name: 'look', input: '{"at":' },
      { id: 'a', name: 'look', input: '"one"}' },
    ],
    calls: meant({ look: 'one' }),
  },
  {
    title: 'the name in a later part of the same id',
    parts: [{ id: 'a' }, { id: 'a', name: 'look' }, { id: 'a', input: '{"at":"one"}' }],
    calls: meant({ look: 'one' }),
  },
  {
    title: 'the name in a later part of the same index',
    parts: [
      { index: 0, id: 'a', input: '' },
      { index: 0, name: 'look', input: '{"at":"one"}' },
    ],
    calls: meant({ look: 'one' }),
  },
  {
    title: 'an index that is text',
    parts: [
      { index: '0', id: 'a', name: 'look', input: '{"at":"one"}' },
      { index: '1', id: 'b', name: 'add', input: '{"at":' },
      { index: '1', input: '"two"}' },
    ],
    calls: meant({ look: 'one' }, { add: 'two' }),
  },
  {
    title: 'arguments that are an object',
    parts: [
      { index: 0, id: 'a', name: 'look', input: { at: 'one' } },
      { index: 1, id: 'b', name: 'add', input: { at: 'two' } },
    ],
    calls: meant({ look: 'one' }, { add: 'two' }),
  },
  {
    title: 'two calls under one id',
    parts: [
      { index: 0, id: 'a', name: 'look', input: '{"at":"one"}' },
      { index: 1, id: 'a', name: 'look', input: '{"at":"two"}' },
      { id: 'a', name: 'add', input: '{"at":"three"}' },
    ],
    calls: meant({ look: 'one' }, { look: 'two' }, { add: 'three' }),
  },
  {
    title: 'two calls under one id, the second in parts',
    parts: [
      { index: 0, id: 'a', name: 'look', input: '{"at":"one"}' },
      { index: 1, id: 'a', name: 'look', input: '' },
      { index: 1, input: '{"at":"two"}' },
    ],
    calls: meant({ look: 'one' }, { look: 'two' }),
  },
  {
    title: 'the whole call once more at its end',
    parts: [
      { index: 0, id: 'a', name: 'look', input: '{"at":' },
      { index: 0, id: 'a', name: 'look', input: '"one"}' },
      { index: 0, id: 'a', name: 'look', input: '{"at":"one"}' },
      { index: 1, id: 'b', name: 'look', input: '{"at":"one"}' },
      { index: 1, id: 'b', input: '{"at":"one"}' },
    ],
    calls: meant({ look: 'one' }, { look: 'one' }),
  },
  {
    title: 'all at the index 0, without ids',
    parts: [
      { index: 0, id: '', name: 'look', input: '{"at":"one"}' },
      { index: 0, id: '', name: 'look', input: '{"at":"two"}' },
    ],
    calls: meant({ look: 'one' }, { look: 'two' }),
  },
]

for (const { title, parts, calls } of inParts)
  t.test(`calls of tools in parts: ${title}`, async (t) => {
    const server = await modelServer(t)
    const events = parts.map(({ index, id, name, input }) => {
      const called = { ...(name !== undefined && { name }), ...(input !== undefined && { arguments: input }) }
      return chunk({
        tool_calls: [{ ...(index !== undefined && { index }), ...(id !== undefined && { id }), function: called }],
      })
    })
    server.answer({ events: [...events, chunk({}, { finish_reason: 'tool_calls' }), DONE] })
    const { toolCalls } = await collected(clientOf(server), { stream: true, tools: TOOLS })
    t.same(
      toolCalls.map(({ name, input }) => ({ [name]: JSON.parse(input).at })),
      calls,
    )
    t.equal(new Set(toolCalls.map(({ id }) => id)).size, calls.length, 'each has an id of its own')
  })

t.test('whole calls keep apart, also under one id, and with arguments that are an object', async (t) => {
  const server = await modelServer(t)
  const call = (at: string, input: unknown = JSON.stringify({ at })) => ({
    id: 'a',
    function: { name: 'look', arguments: input },
  })
  server.answer({ body: whole({ content: null, tool_calls: [call('one'), call('two', { at: 'two' })] }) })
  const { toolCalls } = await collected(clientOf(server), { tools: TOOLS })
  t.same(
    toolCalls.map(({ input }) => JSON.parse(input).at),
    ['one', 'two'],
  )
  t.equal(new Set(toolCalls.map(({ id }) => id)).size, 2)
})

// Clients that contact nobody fulfil the contract of clients, and so does a client with middleware around it.

clientContract(t, 'scripted', (_t, { text = '', toolCalls = [] }) => {
  const [call] = toolCalls
  const entry: Script = call
    ? { toolCall: { name: call.name!, input: Object(call.input) } }
    : { reply: [text].flat().join('') }
  return scriptedModel([entry])
})

clientContract(t, 'rehearsal', () => rehearsalModel())

clientContract(t, 'with middleware', async (t, answer) => {
  const server = await modelServer(t)
  server.always(answer)
  return wrapModel(clientOf(server), (request, next) => next(request))
})

const request = { model: 'small', messages: [], signal: new AbortController().signal }

t.test('the first middleware is outermost', async (t) => {
  const seen: string[] = []
  const named = (name: string): ModelMiddleware =>
    async function* (request, next) {
      seen.push(`${name} in`)
      yield* next(request)
      seen.push(`${name} out`)
    }
  const client = wrapModel(new FakeModel(['Yes.']), [named('a'), named('b')])
  for await (const _ of client.complete(request)) seen.push('piece')
  t.same(seen, ['a in', 'b in', 'piece', 'piece', 'b out', 'a out'])
})

t.test('a wrapped client says of itself what the client said', async (t) => {
  const complete = () => new FakeModel(['Yes.']).complete(request)
  const said = { offline: true, rehearsal: true, provider: 'here', modelId: 'tiny' }
  t.match(wrapModel({ ...said, complete }, []), said)
  const { offline } = wrapModel({ complete }, (request, next) => next(request))
  t.equal(offline, undefined)
})

t.test('what is no client or no middleware is refused', async (t) => {
  const wrap = (client: unknown, middleware: unknown) => () => Reflect.apply(wrapModel, undefined, [client, middleware])
  t.throws(wrap({}, []), { code: 'CONFIGURATION', message: /^wrapModel: client is .*a method complete/ })
  t.throws(wrap(undefined, []), { code: 'CONFIGURATION', details: { path: 'client' } })
  t.throws(wrap(new FakeModel([]), [7]), { code: 'CONFIGURATION', details: { path: 'middleware' } })
})
