/** What a chat shows of a run: pieces of all models, also many at once. */

import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelPiece } from '../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../src/ai-sdk/index.ts'
import { defineTool, type OrchestratorContext, type Run, type RuntimeEvent, type StreamPart } from '../../src/index.ts'
import { ChatAnswer } from '../../src/runtime/providers/openai-chat.ts'
import { ResponsesAnswer } from '../../src/runtime/providers/openai-responses.ts'
import { PrefixMatch, StreamParts } from '../../src/runtime/runs/stream-parts.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { Chat } from '../../src/service/terminal/chat.ts'
import { localSource } from '../../src/service/terminal/source.ts'
import { ModelError } from '../../src/shared/errors.ts'
import { type TestTeam, testTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { localTeam, type Receive, silent } from '../kit/team.ts'
import { FakeTerminal } from '../terminal/fake-terminal.ts'
import { workOf } from '../work.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

// What a chat shows of a run: pieces of all models as they come, and marks on what does not count.

const pieces = (...texts: string[]): Answer => texts.map((text) => ({ text }))

async function partsOf<T>(run: Pick<Run<T>, 'stream'>, after?: number): Promise<StreamPart<T>[]> {
  const parts: StreamPart<T>[] = []
  for await (const part of run.stream(after === undefined ? {} : { after })) parts.push(part)
  return parts
}

/** The parts in short, but for who speaks. */
function shown(parts: readonly StreamPart<unknown>[]): string[] {
  return parts.flatMap((part) => {
    switch (part.type) {
      case 'text':
        return `${part.agent} ${part.round}${part.final ? '' : ' draft'}: ${part.text}`
      case 'reasoning':
        return `${part.agent} ${part.round} thinks: ${part.text}`
      case 'tool.input':
        return `${part.agent} ${part.round} ${part.tool} ${part.toolCallId}: ${part.text}`
      case 'superseded':
        return `${part.agent} ${part.round} superseded: ${part.reason}`
      case 'object':
        return JSON.stringify(part.object)
      case 'speaker':
        return []
      default:
        return part.type
    }
  })
}

/** What is left when all that was superseded is gone. */
function answerIn(parts: readonly StreamPart<unknown>[]): string {
  let texts: { callId: string; text: string }[] = []
  for (const part of parts) {
    if (part.type === 'text' && part.final) texts.push(part)
    if (part.type === 'superseded') texts = texts.filter(({ callId }) => callId !== part.callId)
  }
  return texts.map(({ text }) => text).join('')
}

const add = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
})

t.test(
  'a role with tools streams: each round, its reasoning, its tool inputs, and what is not the answer',
  async (t) => {
    const answers: Answers = [
      [
        { reasoning: 'They want ' },
        { reasoning: 'a sum.' },
        { text: 'Let me ' },
        { text: 'add.' },
        { toolInput: { id: 'c1', name: 'add', text: '{"a":1,' } },
        { toolInput: { id: 'c1', name: 'add', text: '"b":2}' } },
        { toolCall: { id: 'c1', name: 'add', input: '{"a":1,"b":2}' } },
      ],
      pieces('It is ', '3.'),
    ]
    const { team } = modelTeam(t, answers, [{ name: 'ann', tools: ['add'] }], { tools: [add] })
    const run = team.launch('go')
    const parts = await partsOf(run)
    t.same(shown(parts), [
      'ann 1 thinks: They want ',
      'ann 1 thinks: a sum.',
      'ann 1: Let me ',
      'ann 1: add.',
      'ann 1 add c1: {"a":1,',
      'ann 1 add c1: "b":2}',
      'ann 1 superseded: tool_calls',
      'tool.started',
      'tool.finished',
      'ann 2: It is ',
      'ann 2: 3.',
      'run.finished',
    ])
    t.equal(answerIn(parts), 'It is 3.')
    t.equal(new Set(parts.map(({ seq }) => seq)).size, parts.length, 'each has a number of its own')
    t.same(await partsOf(run), parts, 'who comes later gets the same')
    for (const [i, { seq }] of parts.entries()) t.same(await partsOf(run, seq), parts.slice(i + 1), `after ${seq}`)
  },
)

t.test('a client that gives the input of a tool as a whole is read along too', async (t) => {
  const answers = [calls(['add', { a: 1, b: 2 }]), 'three']
  const { team } = modelTeam(t, answers, [{ name: 'ann', tools: ['add'] }], { tools: [add] })
  const parts = await partsOf(team.launch('go'))
  t.same(shown(parts).slice(0, 1), ['ann 1 add call-0: {"a":1,"b":2}'])
})

t.test('all models of a run are read along; only the last speaker has the answer', async (t) => {
  const answers: Answers = ({ agent }) => (agent === 'ann' ? pieces('A ', 'draft') : pieces('The ', 'answer'))
  const { team } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob' }])
  const run = team.launch('go')
  t.same(shown(await partsOf(run)), [
    'ann 1 draft: A ',
    'ann 1 draft: draft',
    'bob 1: The ',
    'bob 1: answer',
    'run.finished',
  ])
  const events = []
  for await (const event of run.events({ types: ['model.delta'] })) if (event.type === 'model.delta') events.push(event)
  t.match(events[0], {
    agent: 'ann',
    round: 1,
    answerOf: 'turn',
    part: 'text',
    text: 'A ',
    callId: String,
    messageId: String,
  })
})

t.test('an answer with a schema grows as an object, also where it comes a second time', async (t) => {
  const answers = [pieces('{"city": "Os', 'lo", "high": "x"}'), pieces('{"city": "Oslo", "hi', 'gh": 3}')]
  const { team } = modelTeam(t, answers, [{ name: 'ann' }])
  const run = team.launch('go', { output: z.object({ city: z.string(), high: z.number() }) })
  const parts = await partsOf(run)
  t.same(shown(parts), [
    'ann 1: {"city": "Os',
    '{"city":"Os"}',
    'ann 1: lo", "high": "x"}',
    '{"city":"Oslo","high":"x"}',
    'ann 1 superseded: retried',
    'ann 2: {"city": "Oslo", "hi',
    '{"city":"Oslo"}',
    'ann 2: gh": 3}',
    '{"city":"Oslo","high":3}',
    'run.finished',
  ])
  t.same(answerIn(parts), (await run.result).finalOutput)
})

for (const when of ['while it goes on', 'when it has ended'])
  t.test(`who joins a run with a schema of their own reads its answer as an object, ${when}`, async (t) => {
    const { team } = modelTeam(t, [pieces('{"city": "Os', 'lo"}')], [{ name: 'ann' }])
    const begun = team.launch('go', { runId: 'one', stream: true })
    if (when.includes('ended')) await begun.result
    const parts = await partsOf(team.launch('go', { runId: 'one', output: z.object({ city: z.string() }) }))
    t.same(shown(parts), ['ann 1: {"city": "Os', '{"city":"Os"}', 'ann 1: lo"}', '{"city":"Oslo"}', 'run.finished'])
    t.match(parts.at(-1), { result: { data: { city: 'Oslo' } } })
  })

for (const tools of [['add'], []])
  t.test(`a stream that breaks is retried, and what was read of it is marked; tools: ${tools}`, async (t) => {
    const beside: ModelPiece[] = tools.length > 0 ? [{ toolInput: { id: 'c1', name: 'add', text: '{"a":' } }] : []
    let asked = 0
    const model = {
      async *complete() {
        asked += 1
        if (asked > 1) return yield* [{ text: 'Twice upon a time' }]
        yield* [{ text: 'Once ' }, ...beside]
        throw new ModelError('the line broke', { retryable: true })
      },
    }
    const options = {
      agents: [{ name: 'ann', tools }],
      ...(tools.length > 0 && { tools: [add] }),
      orchestration: { strategy: 'sequential' as const },
    }
    const team = testTeam({ ...options, logger: silent, models: { default: model } })
    t.teardown(() => team.close())
    const run = team.launch('go', { stream: true })
    const reading = partsOf(run)
    await team.clock.advance(60_000)
    t.same(shown(await reading), [
      'ann 1: Once ',
      ...beside.map(() => 'ann 1 add c1: {"a":'),
      'ann 1 superseded: retried',
      'ann 1: Twice upon a time',
      'run.finished',
    ])
    t.match(await run.result, { finalOutput: 'Twice upon a time', totalTokenUsage: { calls: 1 } })
    let calls = 0
    for await (const _ of run.events({ types: ['model.called'] })) calls += 1
    t.equal(calls, 1, 'its turn knows nothing of it')
  })

t.test('a turn that is tried again marks what its first attempt has said', async (t) => {
  let asked = 0
  const answers: Answers = () => {
    asked += 1
    return asked === 1 ? [{ text: 'Once ' }, new Error('no more')] : 'Twice'
  }
  const agents = [{ name: 'ann', tools: ['add'] }]
  const { team } = modelTeam(t, answers, agents, { tools: [add], supervision: { onHandlerError: 'retry' } })
  const run = team.launch('go')
  t.same(shown(await partsOf(run)), ['ann 1: Once ', 'ann 1 superseded: retried', 'ann 1: Twice', 'run.finished'])
})

t.test('after the death of a thread in the middle of an answer no piece comes twice', async (t) => {
  const model = {
    async *complete({ clock }: { clock?: { sleep(ms: number): Promise<void> } }) {
      for (let n = 0; n < 10; n++) {
        yield { text: `${n} ` }
        await clock?.sleep(100)
      }
    },
  }
  const options = {
    agents: [{ name: 'ann', tools: ['add'] }],
    tools: [add],
    orchestration: { strategy: 'sequential' as const },
  }
  const team = testTeam({ ...options, logger: silent }, { model })
  t.teardown(() => team.close())
  const run = team.launch('go')
  const reading = partsOf(run)
  await team.clock.advance(450)
  team.crash('ann')
  await team.clock.advance(10_000)
  t.same(shown(await reading), [...Array.from({ length: 10 }, (_, n) => `ann 1: ${n} `), 'run.finished'])
})

t.test('where a script or code makes the answer, that is the answer, and what a model said is not', async (t) => {
  const scripts: [run: (script: OrchestratorContext, query: string) => Promise<string>, answer: string][] = [
    [
      async (script, query) =>
        `Indeed: ${(await script.request('ann', query, { metadata: { lastSpeaker: true } })).content}`,
      'Indeed: yes',
    ],
    [
      async (script, query) => {
        script.emit('Well, ')
        const { content } = await script.request('ann', query, { metadata: { lastSpeaker: true } })
        script.emit(content)
        return `Well, ${content}`
      },
      'Well, yes',
    ],
    [
      async (script, query) => {
        script.emit('a draft')
        return (await script.request('ann', query, { metadata: { lastSpeaker: true } })).content
      },
      'yes',
    ],
    [
      async (script, query) => {
        const { content } = await script.request('ann', query, { metadata: { lastSpeaker: true } })
        script.emit(content)
        return `${content}!`
      },
      'yes!',
    ],
    [
      async (script, query) => {
        const asked = { metadata: { lastSpeaker: true } }
        const said = await Promise.all([script.request('ann', query, asked), script.request('ann', query, asked)])
        return said[0].content
      },
      'yes',
    ],
  ]
  for (const [run, answer] of scripts) {
    const { team } = modelTeam(t, () => pieces('y', 'es'), [{ name: 'ann' }], {
      orchestration: { strategy: 'custom', run },
    })
    const launched = team.launch('go')
    const parts = await partsOf(launched)
    t.equal((await launched.result).finalOutput, answer)
    t.equal(answerIn(parts), answer, shown(parts).join('; '))
  }
  const coded = localTeam(t, { ann: () => 'by code' })
  t.same(shown(await partsOf(coded.launch('go'))), ['$orchestrator 1: by code', 'run.finished'])
})

t.test('calls of code side by side are told apart, and are no answer', async (t) => {
  const model = new FakeModel(({ messages }) => pieces(`${messages.at(-1)?.content} `, 'done'))
  const ann: Receive = async (_message, context) => {
    const both = await Promise.all([context.complete({ prompt: 'one' }), context.think({ prompt: 'two' })])
    return [...both, await context.think({ prompt: 'three' })].map(({ text }) => text).join(', ')
  }
  const team = localTeam(t, { ann }, { models: { default: model } })
  const parts = await partsOf(team.launch('go'))
  t.same(shown(parts).sort(), [
    '$orchestrator 1: one done, two done, three done',
    'ann 1 draft: done',
    'ann 1 draft: done',
    'ann 1 draft: done',
    'ann 1 draft: one ',
    'ann 1 draft: three ',
    'ann 1 draft: two ',
    'run.finished',
  ])
})

t.test('only what the last speaker writes is an object of the answer', async (t) => {
  const answers: Answers = ({ agent }) => pieces('{"n":', agent === 'ann' ? '1}' : '2}')
  const { team } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob' }])
  const run = team.launch('go', { output: z.object({ n: z.number() }) })
  const objects: unknown[] = []
  for await (const part of run.stream()) if (part.type === 'object') objects.push([part.agent, part.object.n ?? null])
  t.same(objects.at(-1), ['bob', 2])
  t.ok(
    objects.every((each) => (each as string[])[0] === 'bob'),
    JSON.stringify(objects),
  )
})

t.test('a key of the team is in no piece, wherever it is cut', async (t) => {
  const key = 'k3y-of-the-team'
  const answers: Answers = [
    [
      { reasoning: 'It is k3y-of' },
      { reasoning: '-the-team.' },
      { toolInput: { id: 'c1', name: 'add', text: '{"a":"k3y' } },
      { toolInput: { id: 'c1', name: 'add', text: '-of-the-team"}' } },
      { toolCall: { id: 'c1', name: 'add', input: '{"a":"k3y-of-the-team"}' } },
    ],
    'done',
  ]
  const { team } = modelTeam(t, answers, [{ name: 'ann', tools: ['add'] }], {
    tools: [add],
    models: { other: { model: 'other', apiKey: key } },
  })
  const parts = await partsOf(team.launch('go'))
  const thoughts = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')
  const inputs = parts.map((part) => (part.type === 'tool.input' ? part.text : '')).join('')
  t.same([thoughts, inputs], ['It is [redacted].', '{"a":"[redacted]"}'])
})

t.test('a run without pieces has its answer at the end, one that fails has its error', async (t) => {
  const { team } = modelTeam(t, (_request, nth) => (nth === 0 ? pieces('The ', 'whole') : [new Error('no')]), [
    { name: 'ann' },
  ])
  t.same(shown(await partsOf(team.launch('go', { stream: false }))), ['$orchestrator 1: The whole', 'run.finished'])
  const parts = await partsOf(team.launch('go'))
  t.match(parts, [
    { type: 'speaker', agent: 'ann', from: null },
    { type: 'run.finished', result: { success: false } },
  ])
  t.throws(() => team.launch('go', { stream: 'yes' as never }), {
    code: 'CONFIGURATION',
    message: /stream.*true or false/,
  })
})

t.test('a client that gives nonsense for a piece of an input gets a ModelError', async (t) => {
  for (const toolInput of [5, {}, { id: 'a', name: 'b' }, { id: 'a', name: 'b', text: 3 }]) {
    const { team } = modelTeam(t, () => [{ toolInput } as never, { text: 'x' }], [{ name: 'ann' }])
    t.match((await team.execute('go')).error?.message, /a part of the input of a tool without an id, a name or a text/)
  }
})

t.test('a call that begins anew has an object of its own, and what nobody has seen is not superseded', (t) => {
  const stream = new StreamParts((answer) => answer)
  const of = { runId: 'one', agent: 'bot', messageId: 'm', callId: 'c', round: 1, model: 'small' } as const
  let seq = 0
  const parts = (event: object) => {
    seq += 8
    return stream.of({ ...of, seq, at: 0, ...event } as unknown as RuntimeEvent)
  }
  const delta = (text: string) => parts({ type: 'model.delta', answerOf: 'run', part: 'text', text })
  const superseded = () => parts({ type: 'model.superseded', reason: 'retried' })
  t.same(superseded(), [])
  t.match(delta('{"a":1,'), [{ type: 'text' }, { type: 'object', object: { a: 1 } }])
  t.match(superseded(), [{ type: 'superseded' }])
  t.same(superseded(), [])
  const again = delta('{"b":2,')
  t.match(again, [{ type: 'text' }, { type: 'object' }])
  t.strictSame(Object(again[1]).object, { b: 2 })
  t.ok(again[1]!.seq > again[0]!.seq)
  t.end()
})

// Answers in thousands of pieces, each in a block of its own: by every wire they cost what is linear in the pieces.
// What is
// counted is work, not time.

const PIECES = howMany(750, 1_500)
/** Four times the pieces are four times the work, and sixteen times if it grows with the square. */
const LINEAR = 6
const WORD = 'and so on '
const ASKED = { provider: 'p', model: 'm' }
const manyPiecesAdd = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.string() }),
  run: () => 'done',
})

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
function teamOf(t: Test, model: ModelClient, tool?: typeof manyPiecesAdd): TestTeam {
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
      const run = teamOf(t, of(n), name.includes('a call') ? manyPiecesAdd : undefined).launch('go', { stream: true })
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
