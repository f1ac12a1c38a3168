import t from 'tap'
import type { ModelMessage } from '../../../src/actors/definition/model.ts'
import { NO_KEY } from '../../../src/runtime/providers/provider.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { BOTH, clientOf, KEY, piecesOf, request, textOf } from './asking.ts'

t.test('an answer comes as its text, what it cost, and why it ended', async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH) {
    server.answer({ text: 'Forty-two.', usage: { inputTokens: 9, outputTokens: 4, cachedTokens: 5 } })
    t.strictSame(await piecesOf(clientOf(server), how), [
      { text: 'Forty-two.' },
      { usage: { inputTokens: 9, outputTokens: 4, totalTokens: 13, cachedTokens: 5, calls: 1 } },
      { finishReason: 'stop' },
    ])
  }
})

t.test('a stream is yielded piece by piece, while it comes', async (t) => {
  const server = await modelServer(t)
  const read = withResolvers()
  server.answer({ text: ['Forty', '-two.'], between: read.promise })
  const texts: string[] = []
  for await (const { text } of clientOf(server).complete(request({ stream: true }))) {
    if (text) texts.push(text)
    read.resolve() // the server sends the rest only now
  }
  t.strictSame(texts, ['Forty', '-two.'])
})

t.test('what is asked reaches the provider', async (t) => {
  const server = await modelServer(t)
  const messages: ModelMessage[] = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Add 1 and 2.' },
    { role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'add', input: '{"a":1}' }] },
    { role: 'tool', content: '3', toolCallId: 'c1' },
    { role: 'assistant', content: 'It is 3.' },
  ]
  const inputSchema = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' }
  const tools = [{ name: 'add', description: 'Adds.', inputSchema }]
  const jsonSchema = { type: 'object', properties: { sum: { type: 'number' } } }
  server.always('Done.')
  await piecesOf(clientOf(server), { messages, tools, jsonSchema, temperature: 0.2, maxOutputTokens: 50 })
  const called = { type: 'function', function: { name: 'add', arguments: '{"a":1}' } }
  t.strictSame(server.calls[0]?.body, {
    model: 'small',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Add 1 and 2.' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c1', ...called }] },
      { role: 'tool', content: '3', tool_call_id: 'c1' },
      { role: 'assistant', content: 'It is 3.' },
    ],
    tools: [{ type: 'function', function: { name: 'add', description: 'Adds.', parameters: { type: 'object' } } }],
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: jsonSchema } },
    temperature: 0.2,
    max_tokens: 50,
    stream: false,
  })
  await piecesOf(clientOf(server), { stream: true })
  const { stream, stream_options } = server.calls[1]!.body
  t.strictSame([stream, stream_options], [true, { include_usage: true }])
})

t.test('calls of tools come whole, with the JSON that the model wrote, right or wrong', async (t) => {
  const server = await modelServer(t)
  const toolCalls = [
    { id: 'c1', name: 'add', input: { a: 1, b: 2 } },
    { id: 'c2', name: 'search', input: '{"query": "unfinis' },
  ]
  for (const how of BOTH) {
    server.answer({ toolCalls })
    const pieces = await piecesOf(clientOf(server), how)
    const inputs = pieces.flatMap(({ toolInput }) => toolInput ?? [])
    const inputOf = (id: string) => inputs.map((input) => (input.id === id ? input.text : '')).join('')
    const inParts = how.stream ? ['{"a":1,"b":2}', '{"query": "unfinis'] : ['', '']
    t.same([inputOf('c1'), inputOf('c2')], inParts, 'a stream has their inputs in parts too')
    t.match(pieces.slice(inputs.length), [
      { toolCall: { id: 'c1', name: 'add', input: '{"a":1,"b":2}' } },
      { toolCall: { id: 'c2', name: 'search', input: '{"query": "unfinis' } },
      { usage: { calls: 1 } },
      { finishReason: 'tool_calls' },
    ])
  }
})

t.test(
  'calls of tools are told apart where the provider numbers them badly, and get ids where it gives none',
  async (t) => {
    const server = await modelServer(t)
    const called = (name: string, id?: string, index?: number) => ({ index, id, function: { name, arguments: '{}' } })
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ choices: [{ delta, finish_reason }] })}\n\n`
    const streams = {
      'all numbered 0': [called('one', 'a', 0), called('two', 'b', 0)],
      'not numbered': [called('one', 'a'), called('two', 'b')],
      'without ids': [called('one', undefined, 0), called('two', '', 1)],
    }
    for (const [title, calls] of Object.entries(streams)) {
      server.answer({ events: [...calls.map((call) => chunk({ tool_calls: [call] })), chunk({}, 'stop')] })
      const pieces = await piecesOf(clientOf(server), { stream: true })
      const seen = pieces.flatMap(({ toolCall }) => toolCall ?? [])
      t.strictSame(
        seen.map(({ name, input }) => [name, input]),
        [
          ['one', '{}'],
          ['two', '{}'],
        ],
        title,
      )
      t.equal(new Set(seen.map(({ id }) => id)).size, 2, title)
      t.notOk(
        seen.some(({ id }) => id === ''),
        title,
      )
      t.strictSame(pieces.at(-1), { finishReason: 'tool_calls' }, title)
    }
  },
)

t.test('the reasons why a model stops, and a refusal, which is the filter of the model itself', async (t) => {
  const server = await modelServer(t)
  for (const finishReason of ['stop', 'length', 'content_filter', 'LENGTH']) {
    server.answer({ text: 'Well', finishReason })
    t.strictSame((await piecesOf(clientOf(server))).at(-1), { finishReason: finishReason.toLowerCase() })
  }
  server.answer({ body: { choices: [{ message: { content: null, refusal: 'No.' }, finish_reason: 'stop' }] } })
  t.strictSame(await piecesOf(clientOf(server)), [{ text: 'No.' }, { finishReason: 'content_filter' }])
})

t.test(
  'an answer in one piece is understood where a stream was asked for; a usage that is none is left out',
  async (t) => {
    const server = await modelServer(t)
    const body = {
      choices: [{ message: { content: 'Yes.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 'many' },
    }
    server.answer({ body })
    t.strictSame(await piecesOf(clientOf(server), { stream: true }), [{ text: 'Yes.' }, { finishReason: 'stop' }])
  },
)

t.test('the key goes with the call, and nothing where there is none', async (t) => {
  const server = await modelServer(t)
  server.always('Yes.')
  await textOf(clientOf(server))
  t.equal(server.calls[0]?.key, KEY)
  await textOf(clientOf(server, { key: NO_KEY }))
  t.equal(server.calls[1]?.headers.authorization, undefined)
})

t.test('what the environment has for OpenAI goes to nobody else', async (t) => {
  const server = await modelServer(t)
  server.always('Yes.')
  const theirs = {
    OPENAI_ORG_ID: 'org-1',
    OPENAI_PROJECT_ID: 'proj-1',
    OPENAI_ADMIN_KEY: 'admin-1',
    OPENAI_API_KEY: 'k-1',
    OPENAI_CUSTOM_HEADERS: 'Authorization: Bearer other-1\nx-gateway-key: gate-1\nno header name: at-all',
  }
  t.teardown(() => {
    for (const name of Object.keys(theirs)) delete process.env[name]
  })
  Object.assign(process.env, theirs)
  await textOf(clientOf(server, { key: NO_KEY }))
  await textOf(clientOf(server))
  t.strictSame(
    server.calls.map(({ key }) => key),
    [undefined, KEY],
  )
  const sent = JSON.stringify(server.calls.map(({ headers }) => headers))
  for (const secret of ['org-1', 'proj-1', 'admin-1', 'k-1', 'other-1', 'gate-1'])
    t.notOk(sent.includes(secret), secret)
  t.match(process.env, theirs, 'and it is still there')
})

t.test('an abort reaches the socket, before the answer and in the middle of a stream', async (t) => {
  const server = await modelServer(t)
  const never = new Promise(() => {})
  for (const [answer, how] of [
    [{ text: 'Late.', after: never }, {}],
    [{ text: 'Late.', after: never }, { stream: true }],
    [{ text: ['First', 'Late.'], between: never }, { stream: true }],
  ] as const) {
    server.answer(answer)
    const aborting = new AbortController()
    const outcome = piecesOf(clientOf(server), { ...how, signal: aborting.signal })
    const call = await server.called(server.calls.length + 1)
    const reason = new Error('enough')
    aborting.abort(reason)
    await t.rejects(outcome, reason)
    t.equal(await call.ended, 'left')
  }
})

t.test('a call that is aborted before it begins is not made', async (t) => {
  const server = await modelServer(t)
  await t.rejects(piecesOf(clientOf(server), { signal: AbortSignal.abort(new Error('enough')) }), { message: 'enough' })
  t.equal(server.calls.length, 0)
})

t.test('a reader that leaves ends the call', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: ['First', 'Late.'], between: new Promise(() => {}) })
  for await (const { text } of clientOf(server).complete(request({ stream: true }))) if (text === 'First') break
  t.equal(await server.calls[0]?.ended, 'left')
})

function withResolvers() {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
