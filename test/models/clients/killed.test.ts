/** A turn with reasoning and three tools side by side, cut off at each of its places: its provider is asked each thing once. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import t from 'tap'
import { z } from 'zod'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { defineTool } from '../../../src/index.ts'
import type { ModelsConfig } from '../../../src/runtime/providers/provider.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { chatWire } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { geminiWire } from '../../fixtures/wires/gemini.ts'
import { responsesWire } from '../../fixtures/wires/responses.ts'
import type { Answer, Wire } from '../../fixtures/wires/wire.ts'
import { OpenTeam, silent } from '../../kit/team.ts'
import { killAt } from '../killed-turns.ts'

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
