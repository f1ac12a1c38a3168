/** What a chat shows of a run: pieces of all models as they come, and marks on what does not count. */
import t from 'tap'
import { z } from 'zod'
import { defineTool, type OrchestratorContext, type Run, type RuntimeEvent, type StreamPart } from '../../src/index.ts'
import { StreamParts } from '../../src/runtime/runs/stream-parts.ts'
import { ModelError } from '../../src/shared/errors.ts'
import { testTeam } from '../../src/testing.ts'
import { localTeam, type Receive, silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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

t.test('a stream that breaks is retried, and what was read of it is marked', async (t) => {
  let asked = 0
  const model = {
    async *complete() {
      asked += 1
      if (asked > 1) return yield* [{ text: 'Twice upon a time' }]
      yield { text: 'Once ' }
      yield { toolInput: { id: 'c1', name: 'add', text: '{"a":' } }
      throw new ModelError('the line broke', { retryable: true })
    },
  }
  const options = {
    agents: [{ name: 'ann', tools: ['add'] }],
    tools: [add],
    orchestration: { strategy: 'sequential' as const },
  }
  const team = testTeam({ ...options, logger: silent, models: { default: model } })
  t.teardown(() => team.close())
  const run = team.launch('go')
  const reading = partsOf(run)
  await team.clock.advance(60_000)
  t.same(shown(await reading), [
    'ann 1: Once ',
    'ann 1 add c1: {"a":',
    'ann 1 superseded: retried',
    'ann 1: Twice upon a time',
    'run.finished',
  ])
  t.match(await run.result, { finalOutput: 'Twice upon a time', totalTokenUsage: { calls: 1 } })
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
