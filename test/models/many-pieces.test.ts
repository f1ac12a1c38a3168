/**
 * Answers in thousands of pieces, each in a block of its own: by every wire they cost what is linear in the pieces. What is
 * counted is work, not time.
 */
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelPiece } from '../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../src/ai-sdk/index.ts'
import { defineTool } from '../../src/index.ts'
import { ChatAnswer } from '../../src/runtime/providers/openai-chat.ts'
import { ResponsesAnswer } from '../../src/runtime/providers/openai-responses.ts'
import { PrefixMatch } from '../../src/runtime/runs/stream-parts.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { localSource } from '../../src/service/terminal/source.ts'
import { type TestTeam, testTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { silent } from '../kit/team.ts'
import { FakeTerminal } from '../terminal/fake-terminal.ts'
import { workOf } from '../work.ts'

const PIECES = 1_500
/** Four times the pieces are four times the work, and sixteen times if it grows with the square. */
const LINEAR = 6
const WORD = 'and so on '
const ASKED = { provider: 'p', model: 'm' }
const add = defineTool({ name: 'add', description: 'Adds.', input: z.object({ a: z.string() }), run: () => 'done' })

const numbers = (n: number) => Array.from({ length: n }, (_, i) => i)

/** A client whose first answer comes in pieces. What follows on a call of a tool is short. */
function client(name: string, first: () => Iterable<ModelPiece>): ModelClient {
  let calls = 0
  return {
    provider: name,
    async *complete() {
      calls += 1
      if (calls === 1) yield* first()
      else yield* [{ text: 'done' }, { finishReason: 'stop' }] as ModelPiece[]
    },
  } as ModelClient
}

function* taken(answer: ResponsesAnswer | ChatAnswer, events: Iterable<object>): Generator<ModelPiece> {
  for (const event of events) yield* answer.take(event)
  yield* answer.end()
}

const ENDED = { type: 'response.completed', response: { status: 'completed' } }
const responses = (name: string, events: object[]) =>
  client(name, () => taken(new ResponsesAnswer(ASKED), [...events, ENDED]))

const chat = (name: string, deltas: object[], finish_reason = 'stop') =>
  client(name, () =>
    taken(new ChatAnswer(ASKED, 'https://p.example/v1 m'), [
      ...deltas.map((delta) => ({ choices: [{ delta }] })),
      { choices: [{ delta: {}, finish_reason }] },
    ]),
  )

const inputDelta = (text: string) => ({ tool_calls: [{ index: 0, function: { name: 'add', arguments: text } }] })

function sdk(parts: object[]): ModelClient {
  const finish = { type: 'finish', finishReason: { unified: 'stop', raw: 'stop' }, usage: {} }
  const stream = Readable.toWeb(Readable.from([...parts, finish]))
  const model = { specificationVersion: 'v3', provider: 'p', modelId: 'm', supportedUrls: {}, doGenerate() {} }
  return fromAiSdk({ ...model, doStream: async () => ({ stream }) } as never)
}

const CLIENTS: Record<string, (n: number) => ModelClient> = {
  'the Responses API, text': (n) =>
    responses(
      'r',
      numbers(n).map((i) => ({ type: 'response.output_text.delta', output_index: i, delta: WORD })),
    ),
  'the Responses API, reasoning': (n) =>
    responses('r', [
      ...numbers(n).map((i) => ({ type: 'response.reasoning_text.delta', output_index: i, delta: WORD })),
      { type: 'response.output_text.delta', output_index: n, delta: WORD },
    ]),
  'the Responses API, items that are done': (n) =>
    responses(
      'r',
      numbers(n).flatMap((i) => [
        { type: 'response.output_text.delta', output_index: i, delta: WORD },
        { type: 'response.output_item.done', output_index: i, item: { type: 'message', phase: 'final_answer' } },
      ]),
    ),
  'chat completions, text': (n) =>
    chat(
      'c',
      numbers(n).map(() => ({ content: WORD })),
    ),
  'chat completions, reasoning': (n) =>
    chat('c', [...numbers(n).map(() => ({ reasoning_content: WORD })), { content: WORD }]),
  'chat completions, a call whose parts have its name': (n) =>
    chat('c', [inputDelta('{"a":"'), ...numbers(n).map(() => inputDelta(WORD)), inputDelta('"}')], 'tool_calls'),
  "chat completions, fields of a server's own": (n) =>
    chat(
      'c',
      numbers(n).map((i) => ({ content: WORD, provider_specific_fields: { [`k${i}`]: 'v' }, [`x${i}`]: 'y' })),
    ),
  'the AI SDK, text': (n) => sdk(numbers(n).map((i) => ({ type: 'text-delta', id: `b${i}`, delta: WORD }))),
  'the AI SDK, reasoning': (n) =>
    sdk([
      ...numbers(n).map((i) => ({ type: 'reasoning-delta', id: `b${i}`, delta: WORD })),
      { type: 'text-delta', id: 'end', delta: WORD },
    ]),
  'a client of its own': (n) =>
    client('own', () => [...numbers(n).map((i) => ({ text: WORD, block: `${i}` })), { finishReason: 'stop' }]),
}

/** Plays a role with that client. One that has tools says its answer at the end alone. */
function teamOf(t: Test, model: ModelClient, tool?: typeof add): TestTeam {
  const agents = [{ name: 'ann', ...(tool && { tools: [tool.name] }) }]
  const orchestration = { strategy: 'sequential' as const }
  const team = testTeam({ agents, orchestration, ...(tool && { tools: [tool] }), logger: silent }, { model })
  t.teardown(() => team.close())
  return team
}

const drained = async (all: AsyncIterable<unknown>) => {
  let count = 0
  for await (const _ of all) count += 1
  return count
}

const overHttp = (path: string, body: object) => async (team: TestTeam) => {
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'me', may: ['run'] }) })
  const headers = { 'content-type': 'application/json', accept: 'text/event-stream' }
  const request = new Request(`http://localhost${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const { body: stream } = await api.fetch(request)
  return drained(stream!)
}

/** Resolves to the number of pieces that a conversation at a terminal was given. */
async function inTerminal(team: TestTeam): Promise<number> {
  const terminal = new FakeTerminal()
  const over = new AbortController()
  const source = localSource(team)
  let pieces = 0
  const chat = new Chat({
    source: {
      ...source,
      say(query, thread) {
        const talk = source.say(query, thread)
        const said = async function* () {
          for await (const part of talk.said) {
            pieces += 1
            yield part
          }
          over.abort()
        }
        return { ...talk, said: said() }
      },
    },
    screen: terminal.screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: over.signal,
  })
  await chat.talk('go')
  return pieces
}

const READERS: Record<string, (team: TestTeam) => Promise<number>> = {
  'run.text()': (team) => drained(team.launch('go').text()),
  'run.events()': (team) => drained(team.launch('go', { stream: true }).events()),
  'run.stream()': (team) => drained(team.launch('go', { stream: true }).stream()),
  'events over HTTP': overHttp('/api/tasks?deltas=1', { query: 'go' }),
  '/v1/chat/completions': overHttp('/v1/chat/completions', {
    model: 'desk',
    stream: true,
    messages: [{ role: 'user', content: 'go' }],
  }),
  'a terminal': inTerminal,
  '/v1/responses': overHttp('/v1/responses', { model: 'desk', stream: true, input: 'go' }),
}

async function growth(work: (n: number) => Promise<void>): Promise<number> {
  await work(10) // loads what is loaded late
  const once = await workOf(() => work(PIECES))
  return (await workOf(() => work(4 * PIECES))) / once
}

for (const [name, of] of Object.entries(CLIENTS))
  t.test(`the work is linear in the pieces: ${name}`, async (t) => {
    const grown = await growth(async (n) => {
      const run = teamOf(t, of(n), name.includes('a call') ? add : undefined).launch('go', { stream: true })
      t.ok((await drained(run.stream())) > n)
      t.match(await run.result, { success: true })
    })
    t.ok(grown < LINEAR, `${grown.toFixed(1)} times the work`)
  })

t.test('the work is linear in the pieces: JSON that is read while it is written', async (t) => {
  const grown = await growth(async (n) => {
    const words = numbers(n).map(() => ({ text: WORD }))
    const json = client('own', () => [{ text: '{"a":"' }, ...words, { text: '"}' }, { finishReason: 'stop' }])
    const run = teamOf(t, json).launch('go', { stream: true, output: z.object({ a: z.string() }) })
    t.ok((await drained(run.stream())) > n)
    t.match(await run.result, { success: true })
  })
  t.ok(grown < LINEAR, `${grown.toFixed(1)} times the work`)
})

for (const [name, read] of Object.entries(READERS))
  t.test(`the work is linear in the pieces: ${name}`, async (t) => {
    const of = CLIENTS['a client of its own']!
    const grown = await growth(async (n) => void t.ok((await read(teamOf(t, of(n)))) >= n))
    t.ok(grown < LINEAR, `${grown.toFixed(1)} times the work`)
  })

t.test('a text is compared with what a script says as far as both have come, in any pieces', async (t) => {
  for (let seed = 1; seed <= 300; seed += 1) {
    const dice = new Dice(seed)
    const match = new PrefixMatch()
    const so = { text: '', script: '' }
    const letters = dice.random() < 0.5 ? 'a' : 'ab' // of one letter alone all texts are alike
    for (let step = 0; step < 20; step += 1) {
      const side = dice.pick(['text', 'script'] as const)
      const piece = numbers(dice.upTo(4))
        .map(() => dice.pick([...letters]))
        .join('')
      so[side] += piece
      match.add(side, piece)
      if (match.isScriptCovered !== so.text.startsWith(so.script)) t.fail(`seed ${seed}: ${JSON.stringify(so)}`)
    }
  }
})
