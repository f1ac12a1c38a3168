/** Models of both versions of the AI SDK's specification, made by the test: parts, ends, and what is no such model. */
import t from 'tap'
import type { ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'
import { type AiSdkModel, fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { errorOf, piecesOf } from '../../runtime/models/asking.ts'

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
