/** Models of the AI SDK: the contract of clients, options of a call, and parts of answers. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import t, { type Test } from 'tap'
import type { ModelClient, ModelMessage, ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'
import { type AiSdkModel, fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { type ModelServer, modelServer } from '../../fixtures/model-server.ts'
import { chatWire, errorBody } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { geminiWire } from '../../fixtures/wires/gemini.ts'
import { event, namedEvent, type Wire } from '../../fixtures/wires/wire.ts'
import { pluck } from '../../kit/lists.ts'
import { errorOf, piecesOf } from '../../runtime/models/asking.ts'
import { providerContract, TOOLS } from './contract.ts'

// Models of the AI SDK fulfil the contract of clients: the provider packages themselves, in front of loopback
// servers.

const KEY = 'key-of-the-package-7'

providerContract(t, {
  name: 'AI SDK, Anthropic',
  wire: anthropicWire,
  client: ({ baseURL }) => fromAiSdk(createAnthropic({ baseURL, apiKey: KEY })('claude-sonnet-4-5')),
  key: KEY,
  keeps: 'signature',
  unknownEvent: namedEvent({ type: 'content_block_news' }),
  errorEvent: namedEvent({ type: 'error', ...anthropicWire.error(529, 'Overloaded') }),
  tooLong: anthropicWire.error(400, 'prompt is too long: 210000 tokens > 200000 maximum'),
})

providerContract(t, {
  name: 'AI SDK, Gemini',
  wire: geminiWire,
  client: ({ baseURL }) => fromAiSdk(createGoogleGenerativeAI({ baseURL, apiKey: KEY })('gemini-2.5-flash')),
  key: KEY,
  keeps: 'signature',
  hasNoIds: true,
  unknownEvent: event({ news: [] }),
  errorEvent: event(geminiWire.error(503, 'The model is overloaded.')),
  tooLong: geminiWire.error(
    400,
    'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).',
  ),
})

providerContract(t, {
  name: 'AI SDK, OpenAI compatible',
  wire: chatWire,
  client({ baseURL }) {
    const provider = createOpenAICompatible({ name: 'local', baseURL, apiKey: KEY, includeUsage: true })
    return fromAiSdk(provider('small'))
  },
  key: KEY,
  keeps: 'text',
  unknownEvent: event({ object: 'chat.completion.news', choices: [] }),
  errorEvent: event(errorBody('Overloaded.', 'overloaded')),
  tooLong: errorBody("This model's maximum context length is 8192 tokens.", null),
})

// How the options of a call reach the providers of the AI SDK, and what is said where they do not.

const apiKey = 'key-of-the-package-7'

async function open(t: Test, wire: Wire, make: (server: ModelServer) => ModelClient) {
  const server = await modelServer(t, wire)
  server.always('Done.')
  return { server, client: make(server) }
}

const claude = (t: Test, model = 'claude-sonnet-4-5') =>
  open(t, anthropicWire, ({ baseURL }) => fromAiSdk(createAnthropic({ baseURL, apiKey })(model)))
const gemini = (t: Test, model = 'gemini-3-pro-preview') =>
  open(t, geminiWire, ({ baseURL }) => fromAiSdk(createGoogleGenerativeAI({ baseURL, apiKey })(model)))
const local = (t: Test) =>
  open(t, chatWire, ({ baseURL }) => {
    const provider = createOpenAICompatible({ name: 'my-server', baseURL, apiKey, supportsStructuredOutputs: true })
    return fromAiSdk(provider('small'))
  })

const warningsIn = (pieces: { warning?: string }[]) => pieces.flatMap(({ warning }) => warning ?? [])

const usual = { temperature: 0.5, topP: 0.9, stop: ['END'], maxOutputTokens: 50 }
const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  properties: { a: { type: 'string' } },
}

t.test('Anthropic gets the options under its names', async (t) => {
  const { server, client } = await claude(t)
  const more = { ...usual, topP: undefined, reasoningEffort: 'low', parallelToolCalls: false, strict: true }
  await piecesOf(client, { ...more, tools: TOOLS, toolChoice: { tool: 'look' } } as object)
  t.match(server.calls[0]!.body, {
    temperature: 0.5,
    stop_sequences: ['END'],
    max_tokens: 50,
    output_config: { effort: 'low' },
    tool_choice: { type: 'tool', name: 'look', disable_parallel_tool_use: true },
    tools: [{ name: 'look', strict: true }, { name: 'add' }],
  })
  await piecesOf(client, { reasoningEffort: 'none' })
  t.match(server.calls[1]!.body, { thinking: { type: 'disabled' } })
})

t.test('Gemini gets the options under its names', async (t) => {
  const { server, client } = await gemini(t)
  const pieces = await piecesOf(client, {
    ...usual,
    seed: 7,
    reasoningEffort: 'low',
    tools: TOOLS,
    toolChoice: 'required',
  })
  t.match(server.calls[0]!.body, {
    generationConfig: {
      temperature: 0.5,
      topP: 0.9,
      stopSequences: ['END'],
      maxOutputTokens: 50,
      seed: 7,
      thinkingConfig: { thinkingLevel: 'low' },
    },
    toolConfig: { functionCallingConfig: { mode: 'ANY' } },
  })
  t.same(warningsIn(pieces), [])
})

t.test('a server of chat completions gets the options under their names, and more fields', async (t) => {
  const { server, client } = await local(t)
  const more = { seed: 7, reasoningEffort: 'low', parallelToolCalls: false, strict: false, extraBody: { top_k: 3 } }
  const pieces = await piecesOf(client, { ...usual, ...more, tools: TOOLS, toolChoice: 'none', jsonSchema: schema })
  t.match(server.calls[0]!.body, {
    temperature: 0.5,
    top_p: 0.9,
    stop: ['END'],
    max_tokens: 50,
    seed: 7,
    reasoning_effort: 'low',
    parallel_tool_calls: false,
    top_k: 3,
    tool_choice: 'none',
    response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: false } },
  })
  t.notMatch(JSON.stringify(server.calls[0]!.body), '$schema')
  t.same(warningsIn(pieces), [])
})

t.test('an answer as a function is the call of a tool', async (t) => {
  const { server, client } = await local(t)
  const answerFunction = { name: 'give', description: 'Gives it.' }
  await piecesOf(client, { jsonSchema: schema, answerFunction })
  t.match(server.calls[0]!.body, { tools: [{ function: { name: 'give' } }], tool_choice: 'required' })
  t.notOk('response_format' in server.calls[0]!.body)
})

t.test('options of the provider take precedence over those that are made of others', async (t) => {
  const { server, client } = await claude(t)
  await piecesOf(client, { reasoningEffort: 'low', providerOptions: { anthropic: { effort: 'high' } } })
  t.match(server.calls[0]!.body, { output_config: { effort: 'high' } })
})

t.test('what a provider does not have is a warning, by the option', async (t) => {
  const { client } = await claude(t)
  const pieces = await piecesOf(client, { seed: 7, extraBody: { top_k: 3 }, reasoningEffort: 'enormous' })
  t.match(warningsIn(pieces), [
    /^reasoningEffort 'enormous' has no effect/,
    /^extraBody has no effect.*providerOptions/,
    /^seed is not supported\./,
  ])
  const other = await gemini(t)
  t.match(warningsIn(await piecesOf(other.client, { parallelToolCalls: false, tools: TOOLS })), [/^parallelToolCalls/])
})

t.test('models before Gemini 3 get a budget of reasoning, which they know in place of levels', async (t) => {
  for (const [model, reasoningEffort, thinkingConfig] of [
    ['gemini-2.5-flash', 'medium', { thinkingBudget: 8_192 }],
    ['gemini-2.5-flash', 'none', { thinkingBudget: 0 }],
    ['gemini-3-pro-preview', 'medium', { thinkingLevel: 'medium' }],
  ] as const) {
    const { server, client } = await gemini(t, model)
    t.same(warningsIn(await piecesOf(client, { reasoningEffort })), [])
    t.match(server.calls[0]!.body, { generationConfig: { thinkingConfig } })
  }
})

const conversation: ModelMessage[] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Look.' },
  { role: 'assistant', content: 'I look.', toolCalls: [{ id: 'c1', name: 'look', input: '{"at":"one"}' }] },
  { role: 'tool', toolCallId: 'c1', content: 'seen' },
]

t.test('promptCaching marks the system prompt and the end of the conversation, for Anthropic alone', async (t) => {
  const { server, client } = await claude(t)
  const asked = { messages: conversation, tools: TOOLS }
  await piecesOf(client, { ...asked, promptCaching: true })
  const { system, messages } = server.calls[0]!.body as unknown as {
    system: object[]
    messages: { content: object[] }[]
  }
  const mark = { cache_control: { type: 'ephemeral' } }
  t.match(system.at(-1), mark)
  t.match(messages.at(-1)!.content.at(-1), { type: 'tool_result', ...mark })
  t.equal(JSON.stringify(server.calls[0]!.body).split('cache_control').length - 1, 2, 'and nothing else')
  await piecesOf(client, asked)
  t.notMatch(JSON.stringify(server.calls[1]!.body), 'cache_control')
  const other = await gemini(t)
  t.same(warningsIn(await piecesOf(other.client, { promptCaching: true })), [], 'Gemini caches by itself')
})

t.test('the results of one answer are one message, also if a result has an image', async (t) => {
  const { server, client } = await claude(t)
  const calls = ['c1', 'c2'].map((id) => ({ id, name: 'look', input: '{}' }))
  const image = { type: 'image', data: 'iVBORw0KGgo=', mediaType: 'image/png' } as const
  await piecesOf(client, {
    messages: [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: '', toolCalls: calls },
      { role: 'tool', toolCallId: 'c1', content: 'one' },
      { role: 'tool', toolCallId: 'c2', content: [{ type: 'text', text: 'two' }, image] },
    ],
  })
  const messages = server.calls[0]!.body.messages as unknown as { role: string; content: object[] }[]
  t.same(pluck(messages, 'role'), ['user', 'assistant', 'user'])
  t.match(messages[2]!.content, [
    { type: 'tool_result', tool_use_id: 'c1' },
    { tool_use_id: 'c2', content: [{ text: 'two' }, { type: 'image', source: { data: 'iVBORw0KGgo=' } }] },
  ])
})

t.test('Gemini gets the results of one answer as one content, which it demands', async (t) => {
  const { server, client } = await gemini(t)
  const calls = ['c1', 'c2'].map((id) => ({ id, name: 'look', input: '{}' }))
  await piecesOf(client, {
    messages: [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: '', toolCalls: calls },
      ...calls.map(({ id }) => ({ role: 'tool' as const, toolCallId: id, content: id })),
    ],
  })
  const contents = server.calls[0]!.body.contents as { role: string; parts: object[] }[]
  t.same(
    contents.map(({ role, parts }) => [role, parts.length]),
    [
      ['user', 1],
      ['model', 2],
      ['user', 2],
    ],
  )
})

t.test('a URL is passed on where the provider fetches it, and is an error elsewhere', async (t) => {
  const link = { type: 'image', data: 'https://pictures.example/one.png' } as const
  const messages: ModelMessage[] = [{ role: 'user', content: [link] }]
  const { server, client } = await claude(t)
  await piecesOf(client, { messages })
  t.same(anthropicWire.asked(server.calls[0]!.body).media, [link.data])
  const other = await gemini(t)
  t.match(await errorOf(other.client, { messages }), {
    message: /takes no URL of this kind for image\/\*\. Give the bytes in place of the URL\.$/,
    modelFailure: { reason: 'rejected', retryable: false },
  })
  t.equal(other.server.calls.length, 0)
  const file: ModelMessage[] = [{ role: 'user', content: [{ type: 'file', data: 'https://papers.example/one' }] }]
  t.match((await errorOf(client, { messages: file })).message, 'without its media type')
})

t.test('content that a package does not know is refused in its words', async (t) => {
  const { client } = await claude(t)
  const sound = { type: 'audio', data: 'c291bmQ=', mediaType: 'audio/mpeg' } as const
  t.match(await errorOf(client, { messages: [{ role: 'user', content: [sound] }] }), {
    message: /does not support what it was asked for: .*audio\/mpeg/,
    modelFailure: { reason: 'rejected', retryable: false },
  })
})

t.test('a package without its key says how to give it one', async (t) => {
  const { baseURL } = await modelServer(t, anthropicWire)
  const kept = process.env.ANTHROPIC_API_KEY
  delete process.env.ANTHROPIC_API_KEY
  t.teardown(() => {
    if (kept !== undefined) process.env.ANTHROPIC_API_KEY = kept
  })
  t.match(await errorOf(fromAiSdk(createAnthropic({ baseURL })('claude-sonnet-4-5'))), {
    message: /has no key or setting: .*ANTHROPIC_API_KEY/,
    modelFailure: { reason: 'auth', retryable: false },
  })
})

t.test("reasons that only a provider's own words tell", async (t) => {
  const { server, client } = await claude(t)
  server.answer({ status: 400, body: anthropicWire.error(400, 'Your credit balance is too low to access the API.') })
  t.match((await errorOf(client)).modelFailure, { reason: 'quota', retryable: false })
  const google = await gemini(t)
  const details = [
    { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' },
    { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '37s' },
  ]
  const withDetails = (status: number, detail: object | undefined) => ({
    status,
    body: { error: { ...Object(geminiWire.error(status, 'No.')).error, details: [detail] } },
  })
  google.server.answer(withDetails(400, details[0]))
  t.match((await errorOf(google.client)).modelFailure, { reason: 'auth', retryable: false })
  google.server.answer(withDetails(429, details[1]))
  t.match((await errorOf(google.client)).modelFailure, { reason: 'rate_limit', retryAfterMs: 37_000 })
})

// Models of both versions of the AI SDK's specification, made by the test: parts, ends, and what is no such model.

const USAGE = { inputTokens: { total: 7 }, outputTokens: { total: 3 } }
const STOP = { type: 'finish', finishReason: { unified: 'stop', raw: 'end' }, usage: USAGE }

type Asked = Record<string, unknown> & { prompt: { content: object[] }[] }

/** A model that answers with these parts, and keeps what it was asked. */
function modelOf(
  version: 'v3' | 'v4',
  parts: readonly unknown[],
  asked: Asked[] = [],
  provider = 'test.chat',
): AiSdkModel {
  const { finishReason, usage } = Object(parts.at(-1))
  return {
    specificationVersion: version,
    provider,
    modelId: 'tiny',
    supportedUrls: { 'image/*': [/^https:/] },
    doGenerate: async (options: Asked) => {
      asked.push(options)
      return { content: parts.slice(0, -1), finishReason, usage, warnings: [] }
    },
    doStream: async (options: Asked) => {
      asked.push(options)
      const stream = new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(part)
          controller.close()
        },
      })
      return { stream }
    },
  }
}

const piecesFrom = (parts: readonly unknown[], more: Partial<ModelRequest> = {}): Promise<ModelPiece[]> =>
  piecesOf(fromAiSdk(modelOf('v4', parts)), more)

t.test('media go to version 3 as base64 or URL, and to version 4 with a tag', async (t) => {
  const content = [
    { type: 'image', data: new Uint8Array([1, 2, 3]), mediaType: 'image/png' },
    { type: 'image', data: 'https://pictures.example/one.png' },
    { type: 'file', data: 'data:application/pdf;base64,cGRm', name: 'one.pdf' },
  ] as const
  const url = new URL('https://pictures.example/one.png')
  const inV3: Asked[] = []
  await piecesOf(fromAiSdk(modelOf('v3', [STOP], inV3)), { stream: true, messages: [{ role: 'user', content }] })
  t.same(inV3[0]!.prompt[0]!.content, [
    { type: 'file', mediaType: 'image/png', data: 'AQID' },
    { type: 'file', mediaType: 'image/*', data: url },
    { type: 'file', mediaType: 'application/pdf', data: 'cGRm', filename: 'one.pdf' },
  ])
  const inV4: Asked[] = []
  await piecesOf(fromAiSdk(modelOf('v4', [STOP], inV4)), { stream: true, messages: [{ role: 'user', content }] })
  t.same(inV4[0]!.prompt[0]!.content, [
    { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AQID' } },
    { type: 'file', mediaType: 'image/*', data: { type: 'url', url } },
    { type: 'file', mediaType: 'application/pdf', data: { type: 'data', data: 'cGRm' }, filename: 'one.pdf' },
  ])
})

t.test('media in the result of a tool go to each version as it has them', async (t) => {
  const image = { type: 'image', data: 'AQID', mediaType: 'image/png' } as const
  const messages: ModelRequest['messages'] = [{ role: 'tool', toolCallId: 'c1', content: [image] }]
  const results: unknown[] = []
  for (const version of ['v3', 'v4'] as const) {
    const asked: Asked[] = []
    const model = modelOf(version, [STOP], asked, 'anthropic.messages')
    await piecesOf(fromAiSdk(model), { stream: true, messages })
    results.push(...asked[0]!.prompt[0]!.content.map((part) => Object(part).output.value))
  }
  t.same(results, [
    [{ type: 'image-data', mediaType: 'image/png', data: 'AQID' }],
    [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AQID' } }],
  ])
})

t.test('media in results follow as a message of the user, where a package would write them as text', async (t) => {
  const image = { type: 'image', data: 'AQID', mediaType: 'image/png' } as const
  const messages: ModelRequest['messages'] = [
    { role: 'tool', toolCallId: 'c1', content: [{ type: 'text', text: 'Here.' }, image] },
    { role: 'tool', toolCallId: 'c2', content: [image] },
    { role: 'assistant', content: 'I see.' },
  ]
  for (const provider of ['test.chat', 'openai.chat']) {
    const asked: Asked[] = []
    await piecesOf(fromAiSdk(modelOf('v3', [STOP], asked, provider)), { stream: true, messages })
    t.match(asked[0]!.prompt, [
      {
        role: 'tool',
        content: [{ output: { type: 'text', value: 'Here.' } }, { output: { type: 'text', value: /./ } }],
      },
      {
        role: 'user',
        content: [
          { text: 'Result of the call c1:' },
          { type: 'file', mediaType: 'image/png', data: 'AQID' },
          { text: 'Result of the call c2:' },
          { type: 'file', mediaType: 'image/png', data: 'AQID' },
        ],
      },
      { role: 'assistant' },
    ])
  }
})

t.test('version 4 gets the effort of reasoning as its own option', async (t) => {
  const asked: Asked[] = []
  const pieces = await piecesOf(fromAiSdk(modelOf('v4', [STOP], asked)), { stream: true, reasoningEffort: 'xhigh' })
  t.equal(asked[0]!.reasoning, 'xhigh')
  t.same(
    pieces.filter(({ warning }) => warning),
    [],
  )
  t.match(await piecesFrom([STOP], { stream: true, reasoningEffort: 'enormous' }), [
    { warning: /'enormous' has no effect/ },
  ])
})

t.test('blocks of a stream keep the data of their provider, with or without words', async (t) => {
  const signed = { test: { signature: 'c2ln', none: undefined } }
  const pieces = await piecesFrom(
    [
      { type: 'stream-start', warnings: [{ type: 'other', message: 'Beware.' }] },
      { type: 'reasoning-start', id: 'r' },
      { type: 'reasoning-delta', id: 'r', delta: 'Hm.' },
      { type: 'reasoning-end', id: 'r', providerMetadata: signed },
      { type: 'text-start', id: 't' },
      { type: 'text-delta', id: 't', delta: 'Yes.' },
      { type: 'text-end', id: 't' },
      { type: 'ping' },
      { type: 'tool-input-start', id: 'c1', toolName: 'look' },
      { type: 'tool-input-delta', id: 'c1', delta: '{' },
      { type: 'tool-input-delta', id: 'c2', delta: 'lost' },
      { type: 'tool-input-delta', id: 'c1', delta: '}' },
      { type: 'tool-call', toolCallId: 'c1', toolName: 'look', input: '{}', providerMetadata: signed },
      STOP,
    ],
    { stream: true },
  )
  const providerData = { test: { signature: 'c2ln' } }
  t.strictSame(pieces, [
    { warning: 'Beware.' },
    { reasoning: 'Hm.', block: 'r' },
    { reasoning: '', block: 'r', providerData },
    { text: 'Yes.', block: 't' },
    { toolInput: { id: 'c1', name: 'look', text: '{' } },
    { toolInput: { id: 'c1', name: 'look', text: '}' } },
    { toolCall: { id: 'c1', name: 'look', input: '{}', providerData } },
    { usage: { inputTokens: 7, outputTokens: 3, totalTokens: 10, calls: 1 } },
    { finishReason: 'tool_calls' },
  ])
})

t.test('a part that has no place in an answer is a warning', async (t) => {
  const parts = [
    { type: 'source', sourceType: 'url', id: 's', url: 'https://a.example' },
    { type: 'file', mediaType: 'image/png', data: 'AQID' },
    { type: 'tool-call', toolCallId: 'c', toolName: 'web_search', input: '{}', providerExecuted: true },
    { type: 'news' },
    { type: 7 },
    { type: 'text', text: 'Yes.' },
    STOP,
  ]
  for (const how of [{ stream: false }, { stream: true }]) {
    const pieces = await piecesFrom(how.stream ? parts.filter((part) => part.type !== 'text') : parts, how)
    const warnings = pieces.flatMap(({ warning }) => warning ?? [])
    const said = ['"source"', '"file"', '"tool-call"', '"news"', 'no known type']
    t.equal(warnings.length, said.length)
    for (const [at, what] of said.entries()) t.match(warnings[at], what)
    t.equal(pieces.filter(({ toolCall }) => toolCall).length, 0, 'the provider has run its tool')
  }
})

t.test('citations are a warning, and provider data that is none is left out', async (t) => {
  const text = {
    type: 'text',
    text: 'Yes.',
    citations: [{ url: 'https://a.example' }],
    providerMetadata: { test: 'x' },
  }
  const [said, warned] = await piecesFrom([text, STOP])
  t.strictSame(said, { text: 'Yes.', block: '0' })
  t.match(warned, { warning: /citations/ })
  const end = { type: 'text-end', id: 't', citations: [{}] }
  t.match(await piecesFrom([end, STOP], { stream: true }), [{ warning: /citations/ }])
})

t.test('an answer in a schema is the text that version 4 names for it', async (t) => {
  const model = modelOf('v4', [])
  const generated = {
    content: [
      { type: 'text', text: 'Let me see.' },
      { type: 'text', text: '{"a":1}' },
    ],
    structuredOutputText: '{"a":1}',
    finishReason: STOP.finishReason,
    usage: USAGE,
    warnings: [],
  }
  const client = fromAiSdk({ ...model, doGenerate: async () => generated })
  const textFor = async (more: Partial<ModelRequest>) =>
    (await piecesOf(client, more)).map(({ text = '' }) => text).join('')
  t.equal(await textFor({ jsonSchema: { type: 'object' } }), '{"a":1}')
  t.equal(await textFor({}), 'Let me see.{"a":1}')
})

t.test('half a part is an error of its own', async (t) => {
  const halves: unknown[] = [
    null,
    'text',
    { type: 'text' },
    { type: 'reasoning', text: 7 },
    { type: 'tool-call', toolCallId: 'c', input: '{}' },
    { type: 'tool-call', toolName: 'look', input: '{}' },
    { type: 'tool-call', toolCallId: 'c', toolName: 'look', input: {} },
  ]
  const inStreams = [
    { type: 'text-delta', id: 't' },
    { type: 'text-delta', delta: 'a' },
    ...halves.slice(0, 2),
    ...halves.slice(4),
  ]
  for (const [stream, all] of [[false, halves] as const, [true, inStreams] as const])
    for (const half of all)
      t.match(
        (await errorOf(fromAiSdk(modelOf('v3', [half, STOP])), { stream })).modelFailure,
        { reason: 'invalid_answer', retryable: false },
        `${stream} ${JSON.stringify(half)}`,
      )
})

t.test('an answer ends as its model says', async (t) => {
  const ends: [unified: string, raw: string | undefined, finishReason: string][] = [
    ['stop', 'x', 'stop'],
    ['length', 'x', 'length'],
    ['content-filter', 'x', 'content_filter'],
    ['tool-calls', 'x', 'stop'], // of tools that the provider ran itself
    ['other', 'pause_turn', 'stop'],
  ]
  for (const [unified, raw, finishReason] of ends) {
    const pieces = await piecesFrom([{ ...STOP, finishReason: { unified, raw } }], { stream: true })
    t.match(
      pieces.find((piece) => piece.finishReason),
      { finishReason },
      unified,
    )
    t.equal(
      pieces.some(({ warning }) => warning?.includes('pause_turn')),
      unified === 'other',
    )
  }
  const failures: [unified: string, raw: string | undefined, reason: string, retryable: boolean][] = [
    ['error', 'MALFORMED_FUNCTION_CALL', 'server', true],
    ['other', undefined, 'unreachable', true],
    ['interrupted', undefined, 'unreachable', true],
    ['because', 'x', 'invalid_answer', false],
  ]
  for (const [unified, raw, reason, retryable] of failures) {
    const client = fromAiSdk(modelOf('v4', [{ ...STOP, finishReason: { unified, raw } }]))
    t.match((await errorOf(client, { stream: true })).modelFailure, { reason, retryable }, unified)
  }
  t.match((await errorOf(fromAiSdk(modelOf('v3', [{ type: 'text-start', id: 'a' }])), { stream: true })).modelFailure, {
    reason: 'unreachable',
    retryable: true,
  })
})

t.test('what a package throws is told by its kind, and never with the prompt', async (t) => {
  const failing = (error: unknown) => ({
    ...modelOf('v3', []),
    doGenerate: async () => {
      throw error
    },
  })
  const named = (name: string, message: string) => Object.assign(new Error(message), { name })
  const prompt = 'What is the answer to all of it?'
  const errors: [error: unknown, reason: string, retryable: boolean][] = [
    [named('AI_TypeValidationError', prompt), 'invalid_answer', false],
    [named('AI_JSONParseError', prompt), 'invalid_answer', true],
    [named('AI_EmptyResponseBodyError', 'empty'), 'invalid_answer', false],
    [named('AI_NoSuchModelError', 'no such'), 'not_found', false],
    [Object.assign(named('AI_APICallError', 'x'), { statusCode: 200 }), 'invalid_answer', false],
    [Object.assign(named('AI_APICallError', 'x'), { cause: { code: 'ECONNRESET' } }), 'unreachable', true],
    [new TypeError('fetch failed'), 'unreachable', true],
    [new TypeError(`cannot read ${prompt}`), 'other', false],
    ['a text', 'other', false],
    [undefined, 'other', false],
  ]
  for (const [error, reason, retryable] of errors) {
    const thrown = await errorOf(fromAiSdk(failing(error)))
    t.match(thrown.modelFailure, { reason, retryable }, `${error}`)
    t.notMatch(thrown.message, prompt)
  }
})

t.test('what is no model of version 3 or 4 is refused where it is given', async (t) => {
  const model = modelOf('v3', [])
  const wrong: [given: unknown, says: RegExp][] = [
    ['anthropic/claude', /got "anthropic\/claude"/],
    [undefined, /got nothing/],
    [{ ...model, specificationVersion: 'v2' }, /specification version "v2".*Update its package/],
    [{ ...model, provider: undefined }, /without provider and modelId/],
    [{ ...model, doStream: undefined }, /without doGenerate and doStream/],
  ]
  for (const [given, says] of wrong)
    t.throws(() => fromAiSdk(given as AiSdkModel), { code: 'CONFIGURATION', message: says })
})
