/**
 * What bad input gets, over each wire: the failure of a model has a code of its own, the run ends, and no call is made
 * twice.
 */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { fromAiSdk } from '../../src/ai-sdk/index.ts'
import { type AgentRole, defineTool, type ModelsConfig, type MultiAgentResult } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import { chatWire } from '../fixtures/model-wire.ts'
import { anthropicWire } from '../fixtures/wires/anthropic.ts'
import { geminiWire } from '../fixtures/wires/gemini.ts'
import { responsesWire } from '../fixtures/wires/responses.ts'
import type { Answer, Wire } from '../fixtures/wires/wire.ts'
import { silent } from '../kit/team.ts'

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
    code: Object.fromEntries(Object.keys(WIRES).map((name) => [name, 'too_large'])),
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
