/** Answers of chat completions as servers really send them, where they stray from the API: what was meant is read. */
import t from 'tap'
import { modelServer } from '../../fixtures/model-server.ts'
import { event } from '../../fixtures/wires/wire.ts'
import { BOTH, clientOf } from '../../runtime/models/asking.ts'
import { collected, TOOLS } from './contract.ts'

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
  server.answer({ body: json, ...wrongType })
  t.equal((await collected(clientOf(server), { stream: true })).text, 'Four.', 'JSON in place of a stream')
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
