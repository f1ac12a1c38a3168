/** The client of the Responses API, and turns with reasoning that are cut off. */

import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelMessage } from '../../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { createTeam, defineTool } from '../../../src/index.ts'
import { Redactor } from '../../../src/runtime/logging/redactor.ts'
import { fixedKey, type ModelsConfig } from '../../../src/runtime/providers/provider.ts'
import { openaiClient } from '../../../src/runtime/providers/provider-clients.ts'
import { systemClock } from '../../../src/shared/clock.ts'
import { testTeam } from '../../../src/testing.ts'
import { type ModelServer, modelServer } from '../../fixtures/model-server.ts'
import { chatWire, errorBody } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { geminiWire } from '../../fixtures/wires/gemini.ts'
import { responsesWire } from '../../fixtures/wires/responses.ts'
import { type Answer, namedEvent, type Wire } from '../../fixtures/wires/wire.ts'
import { OpenTeam, silent } from '../../kit/team.ts'
import { BOTH, errorOf, KEY, piecesOf } from '../../runtime/models/asking.ts'
import { killAt } from '../killed-turns.ts'
import { collected, providerContract, TOOLS } from './contract.ts'

// The client of the Responses API fulfils the contract of clients, and what it alone has.

function clientOf({ baseURL }: ModelServer) {
  const redactor = new Redactor()
  const key = fixedKey(KEY, 'the variable TEST_KEY', 'models.test', redactor)
  return openaiClient({ baseURL, key, redactor, clock: systemClock }, 'responses')
}

async function open(t: Test) {
  const server = await modelServer(t, responsesWire)
  server.always('Done.')
  return { server, client: clientOf(server) }
}

const overloaded = { type: 'error', code: 'server_error', message: 'Overloaded.', param: null }

providerContract(t, {
  name: 'Responses API',
  wire: responsesWire,
  client: clientOf,
  key: KEY,
  keeps: 'signature',
  unknownEvent: namedEvent({ type: 'response.news' }),
  errorEvent: namedEvent(overloaded),
  tooLong: errorBody('Your input exceeds the context window of this model.', 'context_length_exceeded'),
})

t.test('each option has the name of the Responses API; what it lacks is a warning', async (t) => {
  const { server, client } = await open(t)
  const inputSchema = { $schema: 'x', type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
  const pieces = await piecesOf(client, {
    temperature: 0.1,
    topP: 0.9,
    reasoningEffort: 'low',
    parallelToolCalls: false,
    maxOutputTokens: 50,
    strict: true,
    seed: 7,
    stop: ['END'],
    extraBody: { service_tier: 'flex' },
    tools: [{ name: 'add', description: 'Adds.', inputSchema }],
    toolChoice: { tool: 'add' },
    jsonSchema: inputSchema,
  })
  const closed = { additionalProperties: false, type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
  t.match(server.calls[0]!.body, {
    store: false,
    include: ['reasoning.encrypted_content'],
    temperature: 0.1,
    top_p: 0.9,
    reasoning: { effort: 'low' },
    parallel_tool_calls: false,
    max_output_tokens: 50,
    service_tier: 'flex',
    tools: [{ type: 'function', name: 'add', description: 'Adds.', parameters: closed, strict: true }],
    tool_choice: { type: 'function', name: 'add' },
    text: { format: { type: 'json_schema', name: 'answer', schema: closed, strict: true } },
  })
  t.match(
    pieces.flatMap(({ warning }) => warning ?? []),
    [/^stop has no effect/, /^seed has no effect/],
  )
  await piecesOf(client, {})
  t.strictSame(Object.keys(server.calls[1]!.body).sort(), ['include', 'input', 'model', 'store', 'stream'])
})

t.test('a model that does not reason is not asked for its reasoning', async (t) => {
  const { server, client } = await open(t)
  for (const model of ['gpt-4o', 'gpt-4.1-mini', 'ft:gpt-4o:desk', 'gpt-5-chat-latest'])
    await piecesOf(client, { model })
  for (const { body } of server.calls) t.notOk('include' in body, body.model)
})

t.test('an answer as a function is the call of a tool', async (t) => {
  const { server, client } = await open(t)
  const answerFunction = { name: 'give', description: 'Gives it.' }
  await piecesOf(client, { jsonSchema: { type: 'object' }, answerFunction })
  t.match(server.calls[0]!.body, { tools: [{ name: 'give', strict: false }], tool_choice: 'required' })
  t.notOk('text' in server.calls[0]!.body)
})

t.test('files and images go along, sounds are refused', async (t) => {
  const { server, client } = await open(t)
  const content = [
    { type: 'image', data: 'https://pictures.example/one.png' },
    { type: 'file', data: 'https://papers.example/one.pdf' },
    { type: 'file', data: 'cGRm', mediaType: 'application/pdf', name: 'one.pdf' },
  ] as const
  const image = { type: 'image', data: 'AQID', mediaType: 'image/png' } as const
  const messages: ModelMessage[] = [
    { role: 'user', content },
    { role: 'tool', toolCallId: 'c1', content: [{ type: 'text', text: 'seen' }, image] },
  ]
  await piecesOf(client, { messages })
  t.match(server.calls[0]!.body.input, [
    {
      content: [
        { type: 'input_image', image_url: 'https://pictures.example/one.png' },
        { type: 'input_file', file_url: 'https://papers.example/one.pdf' },
        { type: 'input_file', file_data: 'data:application/pdf;base64,cGRm', filename: 'one.pdf' },
      ],
    },
    {
      type: 'function_call_output',
      output: [
        { type: 'input_text', text: 'seen' },
        { type: 'input_image', image_url: 'data:image/png;base64,AQID' },
      ],
    },
  ])
  const sound = { type: 'audio', data: 'c291bmQ=', mediaType: 'audio/wav' } as const
  t.match((await errorOf(client, { messages: [{ role: 'user', content: [sound] }] })).modelFailure, {
    reason: 'rejected',
  })
})

const reasoning = (id: string) => ({ type: 'reasoning', id, summary: [], encrypted_content: `secret ${id}` })
const call = (id: string) => ({ type: 'function_call', id: `fc_${id}`, call_id: id, name: 'look', arguments: '{}' })

t.test('reasoning between calls goes back between them', async (t) => {
  const output = [reasoning('r1'), call('c1'), reasoning('r2'), call('c2'), call('c3')]
  const body = { object: 'response', status: 'completed', output }
  const events = [
    ...output.flatMap((item, output_index) => [
      namedEvent({ type: 'response.output_item.added', output_index, item } as { type: string }),
      namedEvent({ type: 'response.output_item.done', output_index, item } as { type: string }),
    ]),
    namedEvent({ type: 'response.completed', response: body } as { type: string }),
  ]
  for (const how of BOTH) {
    const { server, client } = await open(t)
    server.answer(how.stream ? { events } : { body })
    const { parts, toolCalls } = await collected(client, { tools: TOOLS, ...how })
    const messages: ModelMessage[] = [
      { role: 'assistant', content: parts.map(({ block: _, ...part }) => part), toolCalls },
      ...toolCalls.map(({ id }) => ({ role: 'tool' as const, toolCallId: id, content: 'seen' })),
    ]
    await piecesOf(client, { messages, tools: TOOLS, ...how })
    const input = server.calls[1]!.body.input as { type: string; id?: string; call_id?: string }[]
    t.same(
      input.map(({ id, call_id: callId }) => id ?? callId),
      ['r1', 'c1', 'r2', 'c2', 'c3', 'c1', 'c2', 'c3'],
    )
  }
})

t.test('a refusal is told, and its words are the text', async (t) => {
  const { server, client } = await open(t)
  const refused = { type: 'message', id: 'm', content: [{ type: 'refusal', refusal: 'No.' }] }
  server.answer({ body: { object: 'response', status: 'completed', output: [refused] } })
  t.match(await collected(client), { text: 'No.', finishReason: 'content_filter' })
  server.answer({
    events: [
      namedEvent({ type: 'response.refusal.delta', output_index: 0, delta: 'No.' } as { type: string }),
      namedEvent({ type: 'response.completed', response: { status: 'completed', output: [] } } as { type: string }),
    ],
  })
  t.match(await collected(client, { stream: true }), { text: 'No.', finishReason: 'content_filter' })
})

t.test('the phase of a text goes back with it', async (t) => {
  const { server, client } = await open(t)
  const said = { type: 'message', id: 'm', phase: 'commentary', content: [{ type: 'output_text', text: 'I look.' }] }
  server.answer({ body: { object: 'response', status: 'completed', output: [said, call('c1')] } })
  const { parts, toolCalls } = await collected(client)
  const content = parts.map(({ block: _, ...part }) => part)
  await piecesOf(client, { messages: [{ role: 'assistant', content, toolCalls }] })
  t.match(server.calls[1]!.body.input, [
    { role: 'assistant', content: 'I look.', phase: 'commentary' },
    { call_id: 'c1' },
  ])
})

t.test('an item that has no place in an answer is a warning', async (t) => {
  const { server, client } = await open(t)
  const output = [
    { type: 'web_search_call', id: 'w' },
    { type: 'message', content: [{ type: 'output_text', text: 'Yes.' }] },
  ]
  server.answer({ body: { object: 'response', status: 'completed', output } })
  t.match(await collected(client), { text: 'Yes.', warnings: [/"web_search_call"/] })
})

t.test('a response that failed has the reason of its error', async (t) => {
  const { server, client } = await open(t)
  const failed = {
    object: 'response',
    status: 'failed',
    output: [],
    error: { code: 'rate_limit_exceeded', message: 'No.' },
  }
  server.answer({ body: failed })
  t.match((await errorOf(client)).modelFailure, { reason: 'rate_limit', retryable: true })
  server.answer({ events: [namedEvent({ type: 'response.failed', response: failed } as { type: string })] })
  t.match((await errorOf(client, { stream: true })).modelFailure, { reason: 'rate_limit', retryable: true })
  server.answer({ body: { object: 'response', status: 'queued', output: [] } })
  t.match(await errorOf(client), { message: /the status "queued"/, modelFailure: { reason: 'invalid_answer' } })
})

t.test('a team takes the Responses API by its api, and shares the queue of the address', async (t) => {
  const chat = (path: string) => chatWire.path.test(path)
  const server = await modelServer(t, {
    ...responsesWire,
    path: /\/(responses|chat\/completions)$/,
    whole: (call, answer) => (chat(call.path) ? chatWire : responsesWire).whole(call, answer),
    prompt: (body) => ('messages' in body ? chatWire : responsesWire).prompt(body),
  })
  server.always(({ path }) => (chat(path) ? 'By chat.' : 'By responses.'))
  const at = { model: 'small', baseURL: server.baseURL, apiKey: KEY }
  const team = testTeam({
    agents: [
      { name: 'ann', systemPrompt: 'Be brief.' },
      { name: 'bob', systemPrompt: 'Be brief.', model: 'other' },
    ],
    orchestration: { strategy: 'parallel' },
    models: { default: { ...at, api: 'responses', maxConcurrent: 1 }, other: at },
    logger: silent,
  })
  t.teardown(() => team.close())
  const said = JSON.stringify((await team.execute('go')).messageHistory)
  t.match(said, 'By responses.')
  t.match(said, 'By chat.')
  t.equal(server.mostOpen, 1)
  const wrong = { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' as const } }
  t.throws(() => createTeam({ ...wrong, models: { default: { ...at, api: 'completions' as 'chat' } } }), {
    code: 'CONFIGURATION',
    details: { path: 'models.default.api' },
  })
})

// A turn with reasoning and three tools side by side, cut off at each of its places: its provider is asked each
// thing once.

const apiKey = 'key-of-the-package-7'
const REASONING = { text: 'I look thrice.', signature: 'c2lnbmVk' }
const PLACES = ['one', 'two', 'three']
const LOOKS: Answer = {
  reasoning: REASONING,
  toolCalls: PLACES.map((at) => ({ id: at, name: 'look', input: { at } })),
}
const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ at: z.string() }),
  idempotent: true,
  run: ({ at }) => `seen ${at}`,
})

interface Subject {
  name: string
  wire: Wire
  model(baseURL: string): ModelsConfig[string]
  keeps: 'text' | 'signature'
}

const subjects: Subject[] = [
  {
    name: 'chat completions',
    wire: chatWire,
    model: (baseURL) => ({ model: 'small', baseURL, apiKey }),
    keeps: 'text',
  },
  {
    name: 'the Responses API',
    wire: responsesWire,
    model: (baseURL) => ({ model: 'small', baseURL, apiKey, api: 'responses' }),
    keeps: 'signature',
  },
  {
    name: 'Anthropic',
    wire: anthropicWire,
    model: (baseURL) => fromAiSdk(createAnthropic({ baseURL, apiKey })('claude-sonnet-4-5')),
    keeps: 'signature',
  },
  {
    name: 'Gemini',
    wire: geminiWire,
    model: (baseURL) => fromAiSdk(createGoogleGenerativeAI({ baseURL, apiKey })('gemini-2.5-flash')),
    keeps: 'signature',
  },
]

class MortalTeam extends OpenTeam {
  end(agent: string): void {
    this.crash(agent)
  }
}

for (const { name, wire, model, keeps } of subjects)
  t.test(`${name} is asked once for each round, wherever the thread is ended`, async (t) => {
    const play = async (place: number) => {
      const server = await modelServer(t, wire)
      server.always(({ body }) => (wire.asked(body).results.length > 0 ? 'Seen.' : LOOKS))
      const team = new MortalTeam(
        {
          agents: [{ name: 'ann', systemPrompt: 'Look.', tools: [look] }],
          orchestration: { strategy: 'sequential' },
          models: { default: model(server.baseURL) },
          supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, poisonAttempts: 100 },
          logger: silent,
        },
        new Map(),
        1,
      )
      await team.start()
      const places = killAt(team, 'ann', (at) => at === place)
      const { finalOutput } = await team.execute('What is there?')
      await team.close()
      await server.close()
      return { finalOutput, asked: server.calls.map(({ body }) => wire.asked(body)), places: places() }
    }
    const whole = await play(0)
    t.equal(whole.finalOutput, 'Seen.')
    t.equal(whole.asked.length, 2)
    t.match(whole.asked[1], {
      reasoning: [REASONING[keeps]],
      calls: ['look', 'look', 'look'],
      results: PLACES.map((at) => `seen ${at}`),
    })
    t.ok(whole.places >= 8)
    for (let place = 1; place <= whole.places; place += 1) {
      const { finalOutput, asked } = await play(place)
      t.strictSame({ finalOutput, asked }, { finalOutput: 'Seen.', asked: whole.asked }, `at ${place}`)
    }
  })
