/** The client of servers that speak as OpenAI does: what it sends, what it makes of wrong, large and hostile answers. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { ModelMessage } from '../../../src/actors/definition/model.ts'
import { Redactor } from '../../../src/runtime/logging/redactor.ts'
import { boundedFetch, failureOf } from '../../../src/runtime/providers/openai-caller.ts'
import { NO_KEY } from '../../../src/runtime/providers/provider.ts'
import { systemClock } from '../../../src/shared/clock.ts'
import type { ModelFailureReason } from '../../../src/shared/errors.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { type Answer, errorBody } from '../../fixtures/model-wire.ts'
import { pluck } from '../../kit/lists.ts'
import { BOTH, clientOf, errorOf, KEY, piecesOf, request, textOf } from './asking.ts'
import { forever, hostileServer } from './hostile-server.ts'

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
  'calls of tools are told apart where the provider numbers them badly, and get ids if it gives none',
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

t.test('an answer in one piece is understood where a stream was asked for; a wrong usage is left out', async (t) => {
  const server = await modelServer(t)
  const body = {
    choices: [{ message: { content: 'Yes.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 'many' },
  }
  server.answer({ body })
  t.strictSame(await piecesOf(clientOf(server), { stream: true }), [{ text: 'Yes.' }, { finishReason: 'stop' }])
})

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
  t.strictSame(pluck(server.calls, 'key'), [undefined, KEY])
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

t.test('each status has its own words, its advice, and is worth another try or not', async (t) => {
  const server = await modelServer(t)
  const statuses: Record<number, [reason: ModelFailureReason, says: string, retryable: boolean]> = {
    400: ['rejected', 'refused the request (400): It is a 400.', false],
    401: ['auth', 'does not accept the key (401): It is a 401. Check the key in the variable TEST_KEY.', false],
    402: ['quota', 'wants to be paid first (402): It is a 402. Look at the account', false],
    403: ['auth', 'may not be used (403): It is a 403. Check the key in the variable TEST_KEY.', false],
    404: ['not_found', 'does not exist, or its address is wrong (404): It is a 404. Check model and baseURL.', false],
    408: ['timeout', 'gave up waiting for the request (408)', true],
    413: ['too_long', 'was asked too much at once (413)', false],
    418: ['rejected', 'refused the request (418)', false],
    422: ['rejected', 'refused the request (422)', false],
    429: ['rate_limit', 'is asked too often (429)', true],
    500: ['server', 'has a failure of its own (500)', true],
    503: ['server', 'has a failure of its own (503)', true],
  }
  for (const how of BOTH)
    for (const [status, [reason, says, retryable]] of Object.entries(statuses)) {
      server.answer({ status: Number(status) })
      const { message, details, modelFailure } = await errorOf(clientOf(server), how)
      t.match(message, says)
      t.match(modelFailure, { reason, status: Number(status), retryable, model: 'small' })
      t.match(details, { status: Number(status), retryable, model: 'small', provider: new URL(server.baseURL).host })
    }
})

t.test('a provider that wants a key where none is given says so', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 401 })
  t.match(
    (await errorOf(clientOf(server, { key: NO_KEY }))).message,
    'wants a key (401): It is a 401. Give the model an',
  )
})

t.test('a failure with a code of its own: no quota is left, the conversation is too long', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 429, body: errorBody('You exceeded your quota.', 'insufficient_quota') })
  t.match(await errorOf(clientOf(server)), {
    message: /has no quota left for this key/,
    modelFailure: { reason: 'quota', retryable: false },
  })
  server.answer({ status: 400, body: errorBody('8192 tokens at most.', 'context_length_exceeded') })
  t.match(await errorOf(clientOf(server)), {
    message: /a conversation that is too long for it \(400\).*maxTokens/,
    modelFailure: { reason: 'too_long' },
  })
})

t.test('an error in place of an answer has the reason that its code or type says', async (t) => {
  const server = await modelServer(t)
  const reasons: Record<string, ModelFailureReason> = {
    rate_limit_exceeded: 'rate_limit',
    429: 'rate_limit',
    overloaded: 'server',
    insufficient_quota: 'quota',
    content_filter: 'filtered',
    context_length_exceeded: 'too_long',
    model_not_found: 'not_found',
    invalid_api_key: 'auth',
    timeout: 'timeout',
  }
  for (const [code, reason] of Object.entries(reasons)) {
    server.answer({ body: errorBody('No.', code) })
    t.match(await errorOf(clientOf(server)), { code: 'MODEL', modelFailure: { reason } }, code)
  }
  server.answer({ body: errorBody('No.') })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'rejected', retryable: false })
  server.answer({ body: { error: 'No.' } })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'other', retryable: false })
  server.answer({ hangUp: 'at once' })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'unreachable', retryable: true })
})

t.test('how long it wants to be left alone is told', async (t) => {
  const server = await modelServer(t)
  const waits = {
    7000: { 'retry-after': '7' },
    1500: { 'retry-after': '1.5' },
    250: { 'retry-after-ms': '250', 'retry-after': '7' },
    20000: { 'retry-after': 'Thu, 01 Jan 1970 00:00:30 GMT' },
  }
  const clock = { ...systemClock, now: () => 10_000 }
  for (const [ms, headers] of Object.entries(waits)) {
    server.answer({ status: 429, headers })
    t.equal((await errorOf(clientOf(server, { clock }))).details.retryAfterMs, Number(ms), JSON.stringify(headers))
  }
  for (const after of ['soon', '-5', '']) {
    server.answer({ status: 503, headers: { 'retry-after': after } })
    t.notOk('retryAfterMs' in (await errorOf(clientOf(server))).details, after)
  }
})

t.test('a provider that says whether to try again is believed', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 500, headers: { 'x-should-retry': 'false' } })
  t.equal((await errorOf(clientOf(server))).details.retryable, false)
  server.answer({ status: 400, headers: { 'x-should-retry': 'true' } })
  t.equal((await errorOf(clientOf(server))).details.retryable, true)
})

t.test('neither the key nor the prompt is in an error, whatever the provider says back', async (t) => {
  const server = await modelServer(t)
  const prompt = 'Our secret plan is to paint the harbour blue on Tuesday.'
  const echoes = [
    `Incorrect API key provided: ${KEY}.`,
    `Authorization: Bearer ${KEY} is invalid`,
    `I do not understand "${prompt}".`,
    'Cannot answer "plan is to paint the harbour blue on T..."',
    `{"messages":[{"content":"${prompt}"}]}`,
  ]
  const messages = request().messages.concat({ role: 'user', content: prompt })
  for (const how of BOTH)
    for (const echo of echoes)
      for (const answer of [
        { status: 401, body: errorBody(echo) },
        { body: errorBody(echo) },
        { body: { error: echo } },
      ]) {
        server.answer(answer)
        const error = await errorOf(clientOf(server), { ...how, messages })
        const all = `${error.stack} ${JSON.stringify(error)} ${error.cause}`
        t.notOk(all.includes(KEY), echo)
        t.notOk(all.includes('harbour'), echo)
      }
  server.answer({ status: 400, body: errorBody('x'.repeat(5_000)) })
  t.ok((await errorOf(clientOf(server))).message.length < 600, 'and its words are not without end')
})

const choice = (fields: object) => ({ choices: [{ index: 0, finish_reason: 'stop', ...fields }] })
const event = (data: object | string) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const half = event(choice({ delta: { content: 'Half' }, finish_reason: null }))
const silence = { delta: { role: 'assistant' }, finish_reason: null }

interface Case {
  title: string
  answer: Answer
  stream?: boolean
  says: string | RegExp
  retryable: boolean
}

const cases: Case[] = [
  { title: 'no choices', answer: { body: { choices: [] } }, says: 'answered without any choice', retryable: true },
  { title: 'nothing at all', answer: { body: {} }, says: 'answered without any choice', retryable: true },
  {
    title: 'a stream without choices',
    stream: true,
    answer: { events: [event('[DONE]')] },
    says: 'answered without any choice',
    retryable: true,
  },
  {
    title: 'a stream that ends before its first word',
    stream: true,
    answer: { events: [event(choice(silence))] },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a stream that is done before its first word',
    stream: true,
    answer: { events: [event(choice(silence)), event('[DONE]')] },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a body without words and without an end',
    answer: { body: choice({ message: { content: '' }, finish_reason: null }) },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a choice without a message',
    answer: { body: choice({ message: null }) },
    says: 'answered without a message',
    retryable: true,
  },
  {
    title: 'an end by an error',
    answer: { text: 'Well', finishReason: 'error' },
    says: 'ended its answer with an error',
    retryable: true,
  },
  {
    title: 'a tool without its name',
    answer: { toolCalls: [{ input: {} }] },
    says: 'called a tool without its name',
    retryable: false,
  },
  {
    title: 'broken server-sent events',
    stream: true,
    answer: { events: [half, 'data: {"choices": [{"del\n\n'] },
    says: 'sent what is no JSON, or broken server-sent events',
    retryable: true,
  },
  {
    title: 'half a body',
    answer: { body: '{"choices": [{"mess' },
    says: 'sent what is no JSON, or broken server-sent events',
    retryable: true,
  },
  {
    title: 'an error with status 200',
    answer: { body: errorBody('The model is asleep.', 'server_error') },
    says: 'answered with an error: The model is asleep.',
    retryable: true,
  },
  {
    title: 'an error with status 200 that says which status it is',
    answer: { body: { error: { message: 'Slow down.', code: 429 } } },
    says: 'is asked too often (429): Slow down.',
    retryable: true,
  },
  {
    title: 'an error that is a text',
    answer: { body: { error: 'model "small" not found' } },
    says: 'answered with an error: model "small" not found',
    retryable: false,
  },
  {
    title: 'an error in place of a stream',
    stream: true,
    answer: { body: errorBody('No such tool.', 'bad_tool') },
    says: 'answered with an error: No such tool.',
    retryable: false,
  },
  {
    title: 'an error in the middle of a stream',
    stream: true,
    answer: { events: [half, event(errorBody('Overheated.', 'overloaded'))] },
    says: 'answered with an error: Overheated.',
    retryable: true,
  },
  {
    title: 'a web page',
    answer: { body: '<html>Welcome</html>', headers: { 'content-type': 'text/html; charset=utf-8' } },
    says: 'answered with text/html, where JSON or a stream of events is due',
    retryable: false,
  },
  {
    title: 'a web page in place of a stream',
    stream: true,
    answer: { body: '<html>Welcome</html>', headers: { 'content-type': 'text/html' } },
    says: 'answered with text/html, where JSON or a stream of events is due',
    retryable: false,
  },
  {
    title: 'content that is no text',
    answer: { body: choice({ message: { content: { a: 1 } } }) },
    says: 'answered with something else than chat completions at choices.0.message.content, where string is due',
    retryable: false,
  },
  {
    title: 'a list',
    answer: { body: [1, 2] },
    says: 'answered with something else than chat completions at the body, where object is due',
    retryable: false,
  },
  {
    title: 'a reason that nobody knows',
    answer: { finishReason: 'abducted' },
    says: 'stopped for the reason "abducted" that chat completions do not have',
    retryable: false,
  },
]

t.test('what a provider answers wrongly is a ModelError that says what it was', async (t) => {
  const server = await modelServer(t)
  const provider = new URL(server.baseURL).host
  for (const { title, answer, stream = false, says, retryable } of cases) {
    server.answer(answer)
    const { message, details } = await errorOf(clientOf(server), { stream })
    t.match(message, `Model "small" of ${provider} ${says}`, title)
    t.match(details, { provider, model: 'small', retryable }, title)
    t.match(message, /\. [A-Z].*\.$/, `${title}: what to do`)
  }
})

t.test('a body that nobody reads to its end does not keep its socket', async (t) => {
  const server = await modelServer(t)
  server.always({ body: '<html>', headers: { 'content-type': 'text/html' }, between: new Promise(() => {}) })
  for (const how of BOTH) {
    await errorOf(clientOf(server), how)
    t.equal(await server.calls.at(-1)?.ended, 'left')
  }
})

t.test('a provider that hangs up is named as that, wherever it does', async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH)
    for (const hangUp of ['at once', 'in the body'] as const) {
      server.answer({ text: ['One', 'two'], hangUp })
      const { message, details } = await errorOf(clientOf(server), how)
      t.match(message, /broke the connection off \(\w+\)\. /, hangUp)
      t.match(details, { model: 'small', retryable: true, status: undefined }, hangUp)
    }
})

t.test('a server that does not listen is named as that', async (t) => {
  const server = await modelServer(t)
  const { baseURL } = server
  await server.close()
  const refused = await errorOf(clientOf({ baseURL }))
  t.match(refused.message, 'refuses the connection (ECONNREFUSED). Check its baseURL, and that the server runs.')
  t.equal(refused.details.retryable, true)
})

t.test('what the system says is told by its code, and whether it can pass', async (t) => {
  const sdk = await import('openai')
  const failed = (code: string) => {
    const cause = new TypeError('fetch failed', { cause: Object.assign(new Error('secret words'), { code }) })
    const asked = { provider: 'a.host', model: 'small' }
    const words = { keyAdvice: 'Check KEY.', isKeyless: false, speaks: 'chat completions' }
    const call = { asked, request: request(), ...words, redactor: new Redactor(), now: 0 }
    return failureOf(new sdk.APIConnectionError({ cause }), call)
  }
  const says: Record<string, [says: string, retryable: boolean]> = {
    ENOTFOUND: ['cannot be found: no such host (ENOTFOUND). Check its baseURL.', false],
    EAI_AGAIN: ['cannot be reached (EAI_AGAIN). Check its baseURL', true],
    CERT_HAS_EXPIRED: ['has a certificate that is not trusted (CERT_HAS_EXPIRED)', false],
    DEPTH_ZERO_SELF_SIGNED_CERT: ['has a certificate that is not trusted', false],
    UND_ERR_HEADERS_TIMEOUT: ['was silent for too long (UND_ERR_HEADERS_TIMEOUT)', true],
    ECONNRESET: ['broke the connection off (ECONNRESET)', true],
  }
  for (const [code, [text, retryable]] of Object.entries(says)) {
    const error = failed(code)
    t.match(error, { message: `Model "small" of a.host ${text}`, details: { retryable } })
    t.notMatch(String(error), 'secret words')
  }
})

// The words, the reason and the pause of a provider's error, in all the shapes in which servers send one.

const words = 'The model is asleep.'
const shapes: Record<string, object | string> = {
  'an error with its words': { error: { message: words } },
  'a list with an error': [{ error: { code: 400, message: words, status: 'INVALID_ARGUMENT' } }],
  'an error without an envelope': { object: 'error', message: words, type: 'BadRequestError', code: 400 },
  'a detail': { detail: words },
  'a list of details': { detail: [{ type: 'missing', loc: ['body', 'model'], msg: words }] },
  'a message': { message: words },
  'a message within the message': { error: { message: { message: words } } },
  'JSON within the message': { error: { message: JSON.stringify({ error: { message: words } }) } },
  'a list of errors': { errors: [{ message: words }] },
  'a list of texts': { errors: [words] },
  'what a gateway was told': { error: { message: 'Provider returned error', code: 400, metadata: { raw: words } } },
  'what a gateway was told, as JSON': {
    error: { message: 'Provider returned error', metadata: { raw: JSON.stringify({ error: { message: words } }) } },
  },
  'an error of the choice': { choices: [{ error: { code: 400, message: words } }] },
}

t.test("the provider's words reach the caller, with the status of an error or with 200", async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH)
    for (const [shape, body] of Object.entries(shapes))
      for (const status of [400, 200]) {
        server.answer({ status, body })
        const { message, modelFailure } = await errorOf(clientOf(server), how)
        t.match(message, words, `${shape}, with ${status}`)
        t.equal(modelFailure?.retryable, false, `${shape}, with ${status}: not asked again`)
      }
})

t.test('of plain text and of a page the first line is told', async (t) => {
  const server = await modelServer(t)
  const page = `<!doctype html>\n<html><head><style>b { color: red }</style><title>${words}</title></head><body><h1>Oh</h1></body></html>`
  for (const how of BOTH)
    for (const [body, type] of [
      [words, 'text/plain'],
      [page, 'text/html'],
    ] as const)
      for (const status of [502, 400, 200]) {
        server.answer({ status, body, headers: { 'content-type': type } })
        const { message } = await errorOf(clientOf(server), how)
        t.match(message, words, `${type}, with ${status}`)
        t.notMatch(message, /<|color/)
      }
})

t.test('the reason is read from codes, types and words', async (t) => {
  const server = await modelServer(t)
  const cases: [status: number, body: object, reason: string, retryable: boolean][] = [
    [400, { error: { code: 400, type: 'exceed_context_size_error', message: 'too long' } }, 'too_long', false],
    [500, { error: { code: 500, type: 'exceed_context_size_error', message: 'too long' } }, 'too_long', false],
    [400, { message: "This model's maximum context length is 2048 tokens.", code: 400 }, 'too_long', false],
    [400, [{ error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] } }], 'auth', false],
    [403, { error: { code: 403, message: 'Input was flagged.', type: 'moderation' } }, 'filtered', false],
    [400, { error: { code: 'content_filter', message: 'No.' } }, 'filtered', false],
    [429, { error: { code: 'insufficient_quota', message: 'No.' } }, 'quota', false],
    [400, { error: { message: 'Insufficient Balance' } }, 'quota', false],
    [400, { error: 'Trying to keep the first 5000 tokens when context the overflows.' }, 'too_long', false],
    [
      429,
      [{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'You exceeded your quota.' } }],
      'rate_limit',
      true,
    ],
    [200, { error: { code: 503, message: 'Busy.' } }, 'server', true],
    [200, { choices: [{ error: { code: 429, message: 'Slow down.' } }] }, 'rate_limit', true],
    [200, { object: 'error', code: 40_001, message: 'No such tool.' }, 'other', false],
  ]
  for (const [status, body, reason, retryable] of cases) {
    server.answer({ status, body })
    t.match((await errorOf(clientOf(server))).modelFailure, { reason, retryable }, JSON.stringify(body))
  }
})

t.test('the pause is read wherever it is said', async (t) => {
  const server = await modelServer(t)
  const pauses: [body: object, ms: number][] = [
    [[{ error: { details: [{ '@type': 'google.rpc.RetryInfo', retryDelay: '34.5s' }] } }], 34_500],
    [{ error: { details: [{ retryDelay: { seconds: '34', nanos: 500_000_000 } }] } }, 34_500],
    [{ error: { message: 'Slow down.', retry_after: 7 } }, 7_000],
    [{ error: { message: 'Slow down.', retry_after_ms: 70 } }, 70],
    [{ error: { message: 'Rate limit reached. Please try again in 6m0s.' } }, 360_000],
    [{ error: { message: 'Please retry in 34.5s.' } }, 34_500],
    [{ detail: 'Too many requests, retry after 12 seconds' }, 12_000],
  ]
  for (const [body, ms] of pauses) {
    server.answer({ status: 429, body })
    t.equal((await errorOf(clientOf(server))).modelFailure?.retryAfterMs, ms, JSON.stringify(body))
  }
})

t.test('a body of any shape is an error, and costs little', async (t) => {
  const server = await modelServer(t)
  let deep: object = { message: 'deep' }
  for (let depth = 0; depth < 1_000; depth++) deep = { error: deep }
  const bodies: (object | string)[] = [
    deep,
    [[[[[[[['deep']]]]]]]],
    { error: Array.from({ length: 10_000 }, () => ({ message: '' })) },
    '<'.repeat(60_000),
    '<script '.repeat(8_000),
    `{"error":"${'{'.repeat(60_000)}"}`,
    'wait '.repeat(10_000),
    { error: { message: 7, code: {}, details: 'none', metadata: [] } },
  ]
  for (const body of bodies)
    for (const status of [400, 200]) {
      server.answer({ status, body })
      t.ok((await errorOf(clientOf(server))).message.length < 600)
    }
})

// What a hostile or broken model server can make the host hold, read or send: bounded.

const JSON_TYPE = { 'content-type': 'application/json' }
const EVENTS = { 'content-type': 'text/event-stream' }
const SMALL = { body: 1_000, stream: 4_000, event: 1_000, empty: 200, events: 50, values: 20 }

const callDelta = (input: string) =>
  `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: input } }] } }] })}\n\n`

const floods = [
  ['JSON without an end', JSON_TYPE, '{"choices":[', `${' '.repeat(65_535)}\n`, 'sends a body of more than 16 MiB'],
  ['blank lines', EVENTS, '', '\n'.repeat(65_536), 'sends a stream without data of more than 1 MiB'],
  ['comments', EVENTS, '', ': still here\n\n'.repeat(4_096), 'sends a stream without data of more than 1 MiB'],
  ['events without data', EVENTS, '', 'id: 1\n\n'.repeat(8_192), 'sends a stream without data of more than 1 MiB'],
  ['one line without an end', EVENTS, 'data: ', 'x'.repeat(65_536), 'sends an event of more than 16 MiB'],
  ['arguments without an end', EVENTS, '', callDelta('x'.repeat(65_536)), 'answer of more than 8388608 characters'],
] as const

for (const [what, headers, head, again, message] of floods)
  t.test(`an answer of ${what} ends the call with an error that says so, and is not asked for again`, async (t) => {
    const server = await hostileServer(t, (response) => forever(response, head, again, headers))
    const error = await errorOf(clientOf(server), { stream: true })
    t.match(error.message, message)
    t.notOk(error.details.retryable)
    t.equal(server.requests, 1)
  })

t.test('timers have their turn while a flood is read', async (t) => {
  const server = await hostileServer(t, (response) =>
    forever(response, '', 'data: {"choices":[]}\n\n'.repeat(3_000), EVENTS),
  )
  const left = new AbortController()
  let turns = 0
  const counting = setInterval(() => {
    turns += 1
    if (turns === 5) left.abort(new Error('enough'))
  }, 1)
  t.teardown(() => clearInterval(counting))
  await t.rejects(piecesOf(clientOf(server), { stream: true, signal: left.signal }), { message: 'enough' })
})

t.test('a small body that grows when it is decompressed is bounded by what it grows to', async (t) => {
  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '))
  const server = await hostileServer(t, (response) =>
    response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(bomb),
  )
  for (const how of BOTH) t.match((await errorOf(clientOf(server), how)).message, 'sends a body of more than 16 MiB')
})

t.test('JSON of millions of values is refused before it is parsed, in one piece and as an event', async (t) => {
  const body = (values: number) => JSON.stringify({ choices: [], more: Array.from({ length: values }, () => ({})) })
  const server = await hostileServer(t, (response) => response.writeHead(200, JSON_TYPE).end(body(1_000_000)))
  t.match((await errorOf(clientOf(server))).message, 'sends a body of more than 65536 JSON values')
  const stream = await hostileServer(t, (response) =>
    response.writeHead(200, EVENTS).end(`data: ${body(1_000_000)}\n\n`),
  )
  t.match((await errorOf(clientOf(stream), { stream: true })).message, 'sends an event of more than 65536 JSON values')
})

t.test('arguments of millions of values are refused, in one piece and in many', async (t) => {
  const server = await modelServer(t)
  const input = { n: Array.from({ length: 70_000 }, () => ({})) }
  for (const how of BOTH) {
    server.answer({ toolCalls: [{ name: 'f', input }] })
    t.match((await errorOf(clientOf(server), how)).message, 'called a tool with more than 65536 JSON values')
  }
})

t.test('what looks like values within a string counts as one', async (t) => {
  const content = '[{},"\\",{}],'.repeat(10_000)
  const answer = JSON.stringify({ choices: [{ message: { content }, finish_reason: 'stop' }] })
  const server = await hostileServer(t, async (response) => {
    response.writeHead(200, JSON_TYPE)
    for (let at = 0; at < answer.length; at += 997) response.write(answer.slice(at, at + 997))
    response.end()
  })
  t.equal(await textOf(clientOf(server)), content)
})

t.test('the text of a refusal is bounded too', async (t) => {
  const server = await hostileServer(t, (response) => {
    response.statusCode = 500
    response.end('x'.repeat(20 * 2 ** 20))
  })
  const { message } = await errorOf(clientOf(server))
  t.match(message, /\(500\)/)
  t.ok(message.length < 1_000)
})

t.test('an answer with more than 1,024 calls of tools is refused, in one piece and in many', async (t) => {
  const server = await modelServer(t)
  const call = (index: number) => ({ index, id: `c${index}`, function: { name: 'f', arguments: '{}' } })
  const calls = Array.from({ length: 1_025 }, (_, index) => call(index))
  server.answer({ body: { choices: [{ message: { tool_calls: calls }, finish_reason: 'tool_calls' }] } })
  t.match((await errorOf(clientOf(server))).message, 'something else than chat completions')
  server.answer({
    events: calls.map((one) => `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [one] } }] })}\n\n`),
  })
  t.match((await errorOf(clientOf(server), { stream: true })).message, 'called more than 1024 tools at once')
})

t.test('only the first of many choices is looked at', async (t) => {
  const server = await modelServer(t)
  const wrong = Array.from({ length: 1_000 }, () => 5)
  server.answer({ body: { choices: [{ message: { content: 'Yes.' }, finish_reason: 'stop' }, ...wrong] } })
  t.equal(await textOf(clientOf(server)), 'Yes.')
})

t.test('each limit holds, and what is within it comes as it was sent', async (t) => {
  const event = (size: number) => `data: ${'x'.repeat(size - 8)}\n\n`
  const cases: [string, string, string | undefined][] = [
    ['a body within', 'x'.repeat(1_000), undefined],
    ['a body beyond', 'x'.repeat(1_001), 'sends a body'],
    ['events within', event(900).repeat(4), undefined],
    ['a stream beyond', event(900).repeat(5), 'sends a stream of'],
    ['many events within', event(10).repeat(50), undefined],
    ['many events beyond', event(10).repeat(51), 'sends a stream of more than 50 events'],
    ['an event beyond', event(1_100), 'sends an event'],
    ['a body of values within', `[${'{},'.repeat(9)}1]`, undefined],
    ['a body of values beyond', `[${'{},'.repeat(10)}1]`, 'sends a body of more than 20 JSON values'],
    ['an event of values beyond', `data: [${'{},'.repeat(10)}1]\n\n`, 'sends an event of more than 20 JSON values'],
    ['a last event of values beyond', `data: [${'{},'.repeat(10)}1]`, 'sends an event of more than 20 JSON values'],
    ['nothing within', `${'\n'.repeat(190)}${event(10)}`, undefined],
    ['nothing beyond', '\n'.repeat(201), 'sends a stream without data'],
  ]
  for (const [name, sent, refused] of cases) {
    const headers = name.startsWith('a body') ? JSON_TYPE : EVENTS
    const server = await hostileServer(t, (response) => response.writeHead(200, headers).end(sent))
    const read = boundedFetch(SMALL)(server.baseURL).then((response) => response.text())
    if (refused === undefined) t.equal(await read, sent.trimStart(), name)
    else await t.rejects(read, { name: 'Error', what: new RegExp(refused) }, name)
  }
})

t.test('a redirect to another origin is an error that names it, and nothing is sent there', async (t) => {
  const other = await hostileServer(t, (response) => response.end('{}'))
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await hostileServer(t, (response) =>
      response.writeHead(status, { location: `${other.baseURL}/chat/completions` }).end(),
    )
    const error = await errorOf(clientOf(server))
    t.match(error.message, `sends its callers elsewhere (${status} to ${new URL(other.baseURL).host})`)
    t.match(error.message, 'Set baseURL to the address that is meant')
  }
  t.equal(other.requests, 0)
})

t.test('a redirect within the origin is followed with the whole request, a few times', async (t) => {
  const answer = JSON.stringify({ choices: [{ message: { content: 'Here.' }, finish_reason: 'stop' }] })
  const server = await hostileServer(t, (response, path) =>
    path === '/v2/chat'
      ? response.writeHead(200, JSON_TYPE).end(answer)
      : response.writeHead(308, { location: '/v2/chat' }).end(),
  )
  t.equal(await textOf(clientOf(server)), 'Here.')
  const round = await hostileServer(t, (response) => response.writeHead(307, { location: '/v1' }).end())
  t.match((await errorOf(clientOf(round))).message, 'redirects more than 3 times')
  t.equal(round.requests, 4)
  const lost = await hostileServer(t, (response) => response.writeHead(302, { location: '/v1' }).end())
  t.match((await errorOf(clientOf(lost))).message, 'in a way that loses the request (302)')
})
