/** How the options of a call reach the providers of the AI SDK, and what is said where they do not. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import type { Test } from 'tap'
import t from 'tap'
import type { ModelClient, ModelMessage } from '../../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { type ModelServer, modelServer } from '../../fixtures/model-server.ts'
import { chatWire } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { geminiWire } from '../../fixtures/wires/gemini.ts'
import type { Wire } from '../../fixtures/wires/wire.ts'
import { pluck } from '../../kit/lists.ts'
import { errorOf, piecesOf } from '../../runtime/models/asking.ts'
import { TOOLS } from './contract.ts'

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
