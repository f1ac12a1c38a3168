/** Answers that cannot be used, failures with their reasons, and thoughts inside of text. */

import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelPiece } from '../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../src/ai-sdk/index.ts'
import {
  type AgentRole,
  type DramatisError,
  defineAgent,
  defineTool,
  ModelError,
  type ModelsConfig,
  type MultiAgentResult,
} from '../../src/index.ts'
import { collect, nothingYet } from '../../src/runtime/providers/collect.ts'
import { Thoughts } from '../../src/runtime/verbs/gateway.ts'
import { testTeam } from '../../src/testing.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import { chatWire } from '../fixtures/model-wire.ts'
import { anthropicWire } from '../fixtures/wires/anthropic.ts'
import { geminiWire } from '../fixtures/wires/gemini.ts'
import { responsesWire } from '../fixtures/wires/responses.ts'
import type { Answer, Wire } from '../fixtures/wires/wire.ts'
import { howMany } from '../how-many.ts'
import { silent } from '../kit/team.ts'
import { request } from '../runtime/models/asking.ts'
import { FakeModel } from './fake-model.ts'
import { ThreadTeam } from './teams.ts'

// What bad input gets, over each wire: the failure of a model has a code of its own, the run ends, and no call is
// made
// twice.

type Entry = ModelsConfig[string]

const WIRES: Record<string, { wire: Wire; entry(baseURL: string): Entry }> = {
  'chat completions': { wire: chatWire, entry: (baseURL) => ({ model: 'small', baseURL }) },
  'the Responses API': { wire: responsesWire, entry: (baseURL) => ({ model: 'small', baseURL, api: 'responses' }) },
  "Anthropic's Messages": {
    wire: anthropicWire,
    entry: (baseURL) => fromAiSdk(createAnthropic({ baseURL, apiKey: 'key-of-the-package' })('claude-sonnet-4-5')),
  },
  Gemini: {
    wire: geminiWire,
    entry: (baseURL) =>
      fromAiSdk(createGoogleGenerativeAI({ baseURL, apiKey: 'key-of-the-package' })('gemini-2.5-flash')),
  },
}

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ at: z.string() }),
  run: ({ at }) => `seen ${at}`,
})

async function open(t: Test, wire: string, role: Partial<AgentRole> = {}) {
  const { wire: spoken, entry } = WIRES[wire]!
  const server = await modelServer(t, spoken)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'You look.', tools: [look], ...role }],
    orchestration: { strategy: 'sequential' },
    models: { default: entry(server.baseURL) },
    logger: silent,
  })
  t.teardown(() => team.close())
  const ask = (query: Parameters<typeof team.execute>[0], options = {}): Promise<MultiAgentResult<unknown>> =>
    team.execute<unknown>(query as string, options)
  return { server, team, ask }
}

const asText = (server: ModelServer) => JSON.stringify(server.calls.at(-1)!.body)

/** Answers that are refused, with the code of each wire, and the number of calls that are made. */
const refused: {
  what: string
  answer: Answer
  code: Record<string, string>
  calls?: number
  role?: Partial<AgentRole>
}[] = [
  {
    what: 'a call of a tool without its name',
    answer: { toolCalls: [{ input: { at: 'one' } }] },
    code: { 'chat completions': 'half_part', 'the Responses API': 'half_part' },
  },
  {
    what: 'a text that is a part of an unknown type',
    answer: {
      whole: true,
      body: { choices: [{ message: { content: [{ type: 'hologram' }] }, finish_reason: 'stop' }] },
    },
    code: { 'chat completions': 'foreign_part' },
  },
  {
    what: 'a part of an unknown type',
    answer: {
      whole: true,
      body: { type: 'message', role: 'assistant', content: [{ type: 'hologram' }], stop_reason: 'end_turn' },
    },
    code: { "Anthropic's Messages": 'foreign_part' },
  },
  {
    what: 'an end that the API does not have',
    answer: { finishReason: 'bored' },
    code: { 'chat completions': 'unknown_end' },
  },
  {
    what: 'calls of a tool that is gone',
    answer: { toolCalls: [{ name: 'gone', input: {} }] },
    code: Object.fromEntries(Object.keys(WIRES).map((name) => [name, 'unknown_tool'])),
    calls: 3,
  },
  {
    what: 'two thousand calls at once',
    answer: {
      toolCalls: Array.from({ length: 2_000 }, (_, i) => ({ id: `c${i}`, name: 'look', input: { at: `${i}` } })),
    },
    code: Object.fromEntries(Object.keys(WIRES).map((name) => [name, 'too_many_calls'])),
  },
  {
    what: 'a text with an image of 30 MB in it',
    answer: { text: 'A'.repeat(40_000_000), whole: true },
    code: Object.fromEntries(
      Object.keys(WIRES)
        .slice(0, howMany(2, 4))
        .map((name) => [name, 'too_large']),
    ),
  },
]

for (const { what, answer, code, calls = 1, role } of refused)
  for (const [wire, expected] of Object.entries(code))
    t.test(`${what}, over ${wire}, is "${expected}"`, async (t) => {
      const { server, ask } = await open(t, wire, role)
      server.always(answer)
      const { success, error } = await ask('Look.')
      t.equal(success, false)
      t.equal(error?.modelFailure?.code, expected, String(error))
      t.equal(server.calls.length, calls)
    })

for (const wire of Object.keys(WIRES)) {
  t.test(`reasoning without a signature, over ${wire}, does not keep a tool from its result`, async (t) => {
    const { server, ask } = await open(t, wire)
    server.answer({
      reasoning: { text: 'I look.', signature: '' },
      toolCalls: [{ id: 'c1', name: 'look', input: { at: 'one' } }],
    })
    server.always('Seen.')
    t.equal((await ask('Look.')).finalOutput, 'Seen.')
    t.match(asText(server), 'seen one')
    t.equal(server.calls.length, 2)
  })

  t.test(`two calls with the same id, over ${wire}, have a result each`, async (t) => {
    const { server, ask } = await open(t, wire)
    server.answer({
      toolCalls: [
        { id: 'c1', name: 'look', input: { at: 'one' } },
        { id: 'c1', name: 'look', input: { at: 'two' } },
      ],
    })
    server.always('Seen.')
    const result = await ask('Look.')
    t.equal(result.finalOutput, 'Seen.', String(result.error))
    const said = asText(server)
    t.match(said, 'seen one')
    t.match(said, 'seen two')
  })

  t.test(`a thousand calls at once, over ${wire}, are all made, and all answered`, async (t) => {
    const { server, ask } = await open(t, wire)
    server.answer({
      toolCalls: Array.from({ length: 1_000 }, (_, i) => ({ id: `c${i}`, name: 'look', input: { at: `<${i}>` } })),
    })
    server.always('Seen.')
    t.equal((await ask('Look.')).finalOutput, 'Seen.')
    const said = asText(server)
    t.ok([0, 1, 500, 999].every((i) => said.includes(`seen <${i}>`)))
    t.equal(server.calls.length, 2)
  })

  t.test(`an image to a model of texts, over ${wire}, is "part_not_taken", and is asked once`, async (t) => {
    const { server, ask } = await open(t, wire)
    server.always({ status: 400, body: WIRES[wire]!.wire.error(400, 'This model does not support image input.') })
    const { error } = await ask([{ type: 'image', data: Buffer.from('image'), mediaType: 'image/png' }])
    t.match(error?.modelFailure, { code: 'part_not_taken', reason: 'rejected', status: 400 })
    t.equal(server.calls.length, 1)
  })

  t.test(
    `a stream that stops for ten minutes, over ${wire}, is "stream_stalled", and its socket is left`,
    async (t) => {
      const { server, team } = await open(t, wire)
      server.always({ text: ['One', ' two', ' three'], between: new Promise(() => {}) })
      const run = team.launch('Look.')
      const begun = new Promise<void>((resolve) => {
        team.events.subscribe(({ type }) => void (type === 'model.delta' && resolve()))
      })
      await begun
      const began = team.clock.now()
      await team.clock.advance(600_000)
      const { error } = await run.result
      t.match(error?.modelFailure, { code: 'stream_stalled', reason: 'timeout' })
      t.ok(team.clock.now() - began <= 600_000)
      t.equal(await server.calls[0]!.ended, 'left')
      t.equal(server.calls.length, 1)
    },
  )

  t.test(`JSON that never closes, over ${wire}, is "unclosed_json" after it was asked for once more`, async (t) => {
    const { server, ask } = await open(t, wire, { tools: [] })
    server.always('{"list": [1, 2')
    const { error } = await ask('Look.', { output: z.object({ list: z.array(z.number()) }) })
    t.equal(error?.modelFailure?.code, 'unclosed_json', String(error))
    t.equal(server.calls.length, 2)
  })
}

t.test(
  'an image of 30 MB reaches the provider once; one beyond the limit is refused before a model is asked',
  async (t) => {
    const { server, ask } = await open(t, 'chat completions')
    server.answer('A cat')
    const { finalOutput } = await ask([{ type: 'image', data: Buffer.alloc(30_000_000), mediaType: 'image/png' }])
    t.equal(finalOutput, 'A cat')
    const sent = JSON.stringify(server.calls[0]?.body).length
    t.ok(sent > 40_000_000 && sent < 40_010_000, `${sent} characters`)
    const large = { type: 'image' as const, data: new Uint8Array(2 ** 28 + 1), mediaType: 'image/png' }
    await t.rejects(ask([large]), { code: 'CONFIGURATION', message: /query\[0\]\.data.*at most 268435456 bytes/ })
    t.equal(server.calls.length, 1)
  },
)

// Why a model gave no answer, as its caller reads it: however deep it lies, over threads, and in JSON.

type ModelFailuresTest = Pick<typeof t, 'teardown'>

const add = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number() }),
  run: ({ a }) => `${a}`,
})

const sequential = { strategy: 'sequential' } as const

t.test('a run whose model gives no answer says why in one place, also in JSON', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 401 })
  const team = new ThreadTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const result = await team.execute('go')
  const provider = new URL(server.baseURL).host
  const failure = {
    reason: 'auth',
    code: 'auth',
    agent: 'ann',
    provider,
    model: 'small',
    status: 401,
    retryable: false,
  }
  t.equal(result.error?.code, 'AGENT_FAILED')
  t.same(result.error?.modelFailure, failure)
  t.same(result.failures[0]?.error.modelFailure, failure)
  t.same(JSON.parse(JSON.stringify(result)).error.modelFailure, failure)
})

/** Of a run whose last agent is played by a model that throws, with as many agents of code before it. */
async function failureOf(t: ModelFailuresTest, thrown: Error, depth = 0): Promise<DramatisError | null> {
  const model = new FakeModel(() => [thrown])
  const names = Array.from({ length: depth }, (_, i) => `asker${i}`)
  const asks = (next: string) =>
    defineAgent({ receive: async ({ content }, context) => (await context.request(next, content)).content })
  const modules = Object.fromEntries(names.map((name, i) => [name, asks(names[i + 1] ?? 'ann')]))
  const team = testTeam(
    {
      agents: [...names.map((name) => ({ name })), { name: 'ann', systemPrompt: 'Answer.' }],
      orchestration: { strategy: 'sequential', agentOrder: [names[0] ?? 'ann'] },
      logger: silent,
    },
    { model, modules },
  )
  t.teardown(() => team.close())
  return (await team.execute('go')).error
}

t.test('it is found below the failures of agents that have asked each other', async (t) => {
  const error = await failureOf(t, new ModelError('No.', { reason: 'filtered' }), 3)
  t.match(error, { code: 'AGENT_FAILED', modelFailure: { reason: 'filtered', agent: 'ann' } })
})

t.test(
  'a client of your own may name the reason; what it does not name, or in a word of its own, is other',
  async (t) => {
    for (const [thrown, reason] of [
      [new ModelError('No.', { reason: 'quota', retryable: false }), 'quota'],
      [new ModelError('No.', { reason: 'tired' }), 'other'],
      [new ModelError('No.'), 'other'],
      [new TypeError('oops'), 'other'],
    ] as const)
      t.match((await failureOf(t, thrown))?.modelFailure, { reason, agent: 'ann', retryable: false })
  },
)

t.test('of several agents that fail it is the first', async (t) => {
  const team = testTeam(
    {
      agents: [
        { name: 'ann', systemPrompt: 'Answer.' },
        { name: 'bob', systemPrompt: 'Answer.' },
      ],
      orchestration: { strategy: 'parallel' },
      logger: silent,
    },
    { model: new FakeModel(() => [new ModelError('No.', { reason: 'rate_limit', retryAfterMs: 5 })]) },
  )
  t.teardown(() => team.close())
  t.match((await team.execute('go')).error?.modelFailure, { reason: 'rate_limit', retryAfterMs: 5 })
})

t.test('an agent that throws by itself has no failure of a model', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: sequential, logger: silent },
    {
      modules: {
        ann: defineAgent({
          receive() {
            throw new Error('oops')
          },
        }),
      },
    },
  )
  t.teardown(() => team.close())
  const { error } = await team.execute('go')
  t.equal(error?.code, 'AGENT_FAILED')
  t.equal(error?.modelFailure, undefined)
  t.notOk('modelFailure' in JSON.parse(JSON.stringify(error)))
})

t.test('a provider that wants to be left alone for longer than the run has is not asked again', async (t) => {
  const server = await modelServer(t)
  const team = new ThreadTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const tomorrow = Date.now() + 86_400_000
  const waits: Record<string, string>[] = [
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${tomorrow}` },
    { 'retry-after': `${Math.ceil(tomorrow / 1_000)}` },
    { 'retry-after': '45' },
  ]
  for (const headers of waits) {
    const before = server.calls.length
    server.answer({ status: 429, headers })
    const { error } = await team.execute('go', { timeoutMs: 40_000 })
    t.match(error?.modelFailure, { reason: 'rate_limit' })
    t.ok(error!.modelFailure!.retryAfterMs! > 40_000, 'its time is told')
    t.ok(server.calls.length <= before + 1)
  }
  t.equal(server.calls.length, 1, 'those that come meanwhile fail without a call')
})

t.test('history goes back in a form that strict servers take', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.', tools: [add] }],
    orchestration: sequential,
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const inputs = ['', '{"a":1', 'null', '[]', '{"a":NaN}', '```json\n{"a":1}\n```', '"{\\"a\\":1}"', '7', '{"a":1}']
  for (const input of inputs) {
    server.answer({ toolCalls: [{ name: 'add', input }] }, 'Done.')
    await team.execute('go')
    const messages = server.calls.at(-1)!.body.messages as { tool_calls?: { function: { arguments: string } }[] }[]
    const [call] = messages.flatMap(({ tool_calls: calls = [] }) => calls)
    const given: unknown = JSON.parse(call!.function.arguments)
    t.ok(typeof given === 'object' && given !== null && !Array.isArray(given), `${input} goes back as an object`)
  }
  server.answer('', '', 'Done.')
  for (const threadId of ['t1', 't1', 't1']) await team.execute('go', { threadId })
  const said = server.calls.at(-1)!.body.messages.filter(({ role }) => role === 'assistant')
  t.same(said, [], 'nothing was said, so nothing goes back')
})

// Thoughts that a model writes into its text are reasoning: nothing parses them, and nobody is given them.

const saying = (texts: readonly string[]): ModelClient => ({
  async *complete(): AsyncGenerator<ModelPiece> {
    for (const text of texts) yield { text }
    yield { finishReason: 'stop' }
  },
})

async function read(texts: readonly string[], thinks = false) {
  const into = nothingYet()
  let found = 0
  const heard: string[] = []
  await collect(
    saying(texts),
    request({ stream: true }),
    into,
    (part) => void heard.push(part.part === 'restart' ? '<>' : part.text),
    new Thoughts({ thinks, found: () => void found++ }),
  )
  const reasoning = into.parts.flatMap(({ type, text }) => (type === 'reasoning' ? [text] : [])).join('')
  return { text: into.text, reasoning, found, heard }
}

const cases: { said: string; text: string; reasoning: string; thinks?: boolean }[] = [
  { said: 'Four.', text: 'Four.', reasoning: '' },
  { said: '<think>two and two</think>Four.', text: 'Four.', reasoning: 'two and two' },
  { said: '\n <think>\ntwo\n</think>\n\nFour.', text: 'Four.', reasoning: '\ntwo\n' },
  { said: '<think></think>Four.', text: 'Four.', reasoning: '' },
  { said: '<think>without an end', text: '', reasoning: 'without an end' },
  { said: 'two and two</think>Four.', text: 'Four.', reasoning: 'two and two' },
  { said: 'a</think>b</think>c', text: 'b</think>c', reasoning: 'a' },
  { said: '<think>a</think>b</think>c', text: 'b</think>c', reasoning: 'a' },
  { said: 'see ```\n</think>\n``` there', text: 'see ```\n</think>\n``` there', reasoning: '' },
  { said: 'Write <think>so</think> first.', text: 'Write <think>so</think> first.', reasoning: '' },
  { said: 'a ```x``` b</think>Four.', text: 'Four.', reasoning: 'a ```x``` b' },
  { said: '<thin air>', text: '<thin air>', reasoning: '' },
  { said: '  Four.', text: '  Four.', reasoning: '' },
  { said: 'two</think>Four.', text: 'Four.', reasoning: 'two', thinks: true },
  { said: 'no tag at all', text: 'no tag at all', reasoning: '', thinks: true },
  { said: '<think>two</think>Four.', text: 'Four.', reasoning: 'two', thinks: true },
]

t.test('thoughts at the start of an answer are reasoning, wherever a stream cuts them', async (t) => {
  for (const { said, text, reasoning, thinks = false } of cases)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(said.length), { maxLength: 8 }), async (cuts) => {
        const ends = [...cuts, said.length].sort((a, b) => a - b)
        const texts = ends.map((end, i) => said.slice(ends[i - 1] ?? 0, end))
        const answer = await read(texts, thinks)
        t.same([answer.text, answer.reasoning], [text, reasoning], JSON.stringify(texts))
      }),
      { numRuns: 20 },
    )
})

t.test('the words of a model that thinks are held until the tag; of others they are taken back once', async (t) => {
  const texts = ['two ', 'and two', '</think>', 'Four', '.']
  t.same((await read(texts, true)).heard, ['two and two', 'Four', '.'])
  t.same(await read(texts), {
    text: 'Four.',
    reasoning: 'two and two',
    found: 1,
    heard: ['two ', 'and two', '<>', 'two and two', 'Four', '.'],
  })
})

t.test('an answer in a schema is read behind the thoughts, and the second such answer is held', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const thought = 'Perhaps\n```json\n{"celsius":-99}\n```\n'
  const output = z.object({ celsius: z.number() })
  for (const text of [`<think>${thought}</think>{"celsius":4}`, `${thought}</think>{"celsius":4}`]) {
    server.answer(text)
    t.same((await team.execute('How warm?', { output })).data, { celsius: 4 })
  }
  t.equal(server.calls.length, 2, 'neither was asked for again')
  server.answer({ text: ['Hm', 'm.</think>', 'Warm.'] })
  const run = team.launch('How warm?', { stream: true })
  let said = ''
  for await (const text of run.text()) said += text
  t.equal(said, 'Warm.')
})

t.test('a model that is said to think is held from its first answer on', async (t) => {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL, thinks: true } },
    logger: silent,
  })
  t.teardown(() => team.close())
  server.answer({ text: ['Hm', 'm.</think>', 'Warm.'] })
  const run = team.launch('How warm?', { stream: true })
  let said = ''
  for await (const text of run.text()) said += text
  t.equal(said, 'Warm.')
  t.equal((await run.result).finalOutput, 'Warm.')
})
