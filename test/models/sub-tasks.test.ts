/** Models that hand work on: handoffs, sub-tasks and escalations. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import { defineAgent, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/index.ts'
import { where } from '../kit/lists.ts'
import { silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const pieces = (...texts: string[]): Answer => texts.map((text) => ({ text }))
const handsTo = (to: string, input: object = {}, words = ''): Answer => [
  ...(words === '' ? [] : [{ text: words }]),
  ...(calls(['handoff', { to, task: 'Refund order-7.', ...input }]) as []),
]

const desk = [
  { name: 'triage', systemPrompt: 'Find out what it is about.', canDelegateTo: ['refunds'] },
  { name: 'refunds', systemPrompt: 'You refund.', canDelegateTo: ['triage'] },
]

function deskOf(t: Test, answers: Answers, options: Partial<MultiAgentPatternOptions> & { modules?: object } = {}) {
  const { modules = {}, ...others } = options
  const model = new FakeModel(answers)
  const team = testTeam(
    {
      agents: desk,
      orchestration: { strategy: 'sequential', agentOrder: ['triage'] },
      logger: silent,
      ...others,
    },
    { model, modules: modules as Record<string, ReturnType<typeof defineAgent>> },
  )
  t.teardown(() => team.close())
  return { team, model, told: (agent: string) => conversations(model.requests, agent) }
}

/** What a model was told, each time that it was asked, without its system prompt. */
const conversations = (requests: readonly ModelRequest[], agent: string): string[][] =>
  requests.filter((request) => request.agent === agent).map(({ messages }) => messages.slice(1).map(shown))

const shown = ({ role, content, toolCalls = [] }: ModelMessage) =>
  [`${role}: ${textOf(content)}`, ...toolCalls.map(({ name }) => `(${name})`)].join(' ')

/** Triage hands each message to refunds. */
const byRule =
  (words = '', answer: Answer = 'It is refunded.'): Answers =>
  ({ agent }) =>
    agent === 'triage' ? handsTo('refunds', {}, words) : answer

const HANDED = 'user: triage has handed this conversation to you: Refund order-7.'

t.test('who answers is told the conversation, and the task once', async (t) => {
  const { team, told } = deskOf(t, byRule('One moment.'))
  t.equal((await team.execute('My lamp is broken.')).finalOutput, 'It is refunded.')
  t.same(told('refunds'), [['user: My lamp is broken.', 'assistant: One moment.', HANDED]])
})

t.test('a task that says again what was asked is not told again; a summary is told', async (t) => {
  const answers: Answers = ({ agent }) =>
    agent === 'triage' ? handsTo('refunds', { task: 'Refund it.', summary: 'It is order-7.' }) : 'done'
  const { team, told } = deskOf(t, answers)
  await team.execute('Refund it.')
  const note = 'user: triage has handed this conversation to you. It is order-7.'
  t.same(told('refunds'), [['user: Refund it.', note]])
})

t.test('the thread remembers what was said: each message has its answer, and no agent has said nothing', async (t) => {
  const { team, told, model } = deskOf(t, byRule())
  for (const query of ['My lamp is broken.', 'And the bulb?', 'Thanks.']) await team.execute(query, { threadId: 'ann' })
  t.same(told('triage').at(-1), [
    'user: My lamp is broken.',
    'assistant: It is refunded.',
    'user: And the bulb?',
    'assistant: It is refunded.',
    'user: Thanks.',
  ])
  t.same(told('refunds').at(-1), [
    'user: My lamp is broken.',
    HANDED,
    'assistant: It is refunded.',
    'user: And the bulb?',
    HANDED,
    'assistant: It is refunded.',
    'user: Thanks.',
    HANDED,
  ])
  const messages = model.requests.flatMap((request) => request.messages)
  t.notOk(messages.some(({ role, content }) => role === 'tool' || textOf(content) === ''))
})

t.test('so does a thread whose answers code gives, and one that is handed on and back', async (t) => {
  const modules = { router: defineAgent({ receive: () => ({ content: 'By code.' }) }) }
  const byCode = deskOf(t, ({ agent }) => (agent === 'triage' ? handsTo('router') : 'never'), {
    agents: [{ name: 'triage', canDelegateTo: ['router'] }, { name: 'router' }],
    modules,
  })
  for (const query of ['one', 'two']) await byCode.team.execute(query, { threadId: 'ann' })
  t.same(byCode.told('triage').at(-1), ['user: one', 'assistant: By code.', 'user: two'])

  let asked = 0
  const back = deskOf(t, ({ agent }) => {
    if (agent === 'refunds') return handsTo('triage', { task: 'It is no refund.' })
    asked += 1
    return asked % 2 === 1 ? handsTo('refunds') : 'It is a lamp.'
  })
  for (const query of ['one', 'two']) await back.team.execute(query, { threadId: 'ann' })
  const note = 'user: refunds has handed this conversation to you: It is no refund.'
  t.same(back.told('triage').at(1), ['user: one', HANDED, note])
  t.same(back.told('refunds').at(-1), ['user: one', HANDED, 'assistant: It is a lamp.', 'user: two', HANDED])
})

t.test('output is asked of who answers, and its words are read as the answer', async (t) => {
  const answers: Answers = ({ agent, jsonSchema }) => {
    if (agent === 'triage') return handsTo('refunds', {}, 'One moment.')
    return jsonSchema ? pieces('{"euros":', '49}') : 'no schema was asked for'
  }
  const { team } = deskOf(t, answers)
  const run = team.launch('My lamp is broken.', { output: z.object({ euros: z.number() }) })
  const texts: string[] = []
  for await (const text of run.text()) texts.push(text)
  t.same(texts, ['One moment.', '\n\n', '{"euros":', '49}'])
  t.match(await run.result, { data: { euros: 49 }, finalOutput: '{"euros":49}' })
})

t.test('the pieces of who answers are those of the run, also where it was handed on', async (t) => {
  const agents = [desk[0]!, { ...desk[1]!, canDelegateTo: ['tech'] }, { name: 'tech' }]
  const answers: Answers = ({ agent }) =>
    agent === 'triage' ? handsTo('refunds') : agent === 'refunds' ? handsTo('tech') : pieces('Turn ', 'it ', 'off.')
  const { team } = deskOf(t, answers, { agents })
  const run = team.launch('My lamp is broken.')
  const final: string[] = []
  for await (const event of run.events({ types: ['output.delta'] }))
    if (event.type === 'output.delta' && event.final) final.push(event.chunk)
  t.same(final, ['Turn ', 'it ', 'off.'])
  t.equal((await run.result).finalOutput, 'Turn it off.')
})

t.test('a piece of who answers comes once, also when its thread dies in the middle', async (t) => {
  const model = {
    async *complete({ agent, clock }: { agent: string; clock?: { sleep(ms: number): Promise<void> } }) {
      if (agent === 'triage') return yield* handsTo('refunds') as []
      for (let n = 0; n < 10; n++) {
        yield { text: `${n} ` }
        await clock?.sleep(100)
      }
    },
  }
  const team = testTeam(
    { agents: desk, orchestration: { strategy: 'sequential', agentOrder: ['triage'] }, logger: silent },
    { model: model as never },
  )
  t.teardown(() => team.close())
  const run = team.launch('go')
  const reading = (async () => {
    const final: string[] = []
    for await (const event of run.events({ types: ['output.delta'] }))
      if (event.type === 'output.delta' && event.final) final.push(event.chunk)
    return final.join('')
  })()
  await team.clock.advance(450)
  team.crash('refunds')
  await team.clock.advance(10_000)
  t.equal(await reading, '0 1 2 3 4 5 6 7 8 9 ')
})

t.test('code that hands off to a model gives it the request; the form of the answer goes along', async (t) => {
  const modules = {
    router: defineAgent({
      async receive(message, context) {
        await context.handoff('refunds', message.content)
      },
    }),
  }
  const { team, told, model } = deskOf(t, () => '{"euros":49}', {
    agents: [{ name: 'router', canDelegateTo: ['refunds'] }, { name: 'refunds' }],
    modules,
    orchestration: { strategy: 'sequential', agentOrder: ['router'] },
  })
  const result = await team.execute('My lamp is broken.', { output: z.object({ euros: z.number() }) })
  t.match(result.data, { euros: 49 })
  t.same(told('refunds'), [['user: My lamp is broken.', 'user: router has handed this conversation to you.']])
  t.ok(model.requests[0]?.jsonSchema)
})

t.test('what tools have answered is told in words; calls beside the handoff stay with their results', async (t) => {
  const find = defineTool({
    name: 'find',
    description: 'Finds an order.',
    input: z.object({ id: z.string() }),
    readOnly: true,
    run: ({ id }) => `${id} cost 49 euros`,
  })
  let asked = 0
  const answers: Answers = ({ agent }) => {
    if (agent !== 'triage') return 'It is refunded.'
    asked += 1
    if (asked === 1) return calls(['find', { id: 'order-7' }])
    if (asked > 2) return 'You are welcome.'
    return calls(
      ['find', { id: 'order-8' }],
      ['handoff', { to: 'refunds', task: 'Refund.' }],
      ['find', { id: 'order-9' }],
    )
  }
  const agents = [{ ...desk[0]!, tools: [find] }, desk[1]!]
  const { team, told } = deskOf(t, answers, { agents })
  await team.execute('My lamp is broken.', { threadId: 'ann' })
  t.match(told('refunds')[0], [
    'user: My lamp is broken.',
    /^user: "triage" has used its tools:\nassistant: \(calls find .*order-7.*\)\ntool: order-7 cost 49 euros\nassistant: \(calls find .*order-8.*\)\ntool: order-8 cost 49 euros$/,
    /handed this conversation to you: Refund\.$/,
  ])
  await team.execute('Thanks.', { threadId: 'ann' })
  t.same(told('triage').at(-1), [
    'user: My lamp is broken.',
    'assistant:  (find)',
    'tool: order-7 cost 49 euros',
    'assistant:  (find)',
    'tool: order-8 cost 49 euros',
    'assistant: It is refunded.',
    'user: Thanks.',
  ])
})

t.test('of a long conversation the oldest turns are left out, and it is said', async (t) => {
  const long = (nth: number) => `${nth} ${'x'.repeat(12_000)}`
  const { team, told } = deskOf(t, ({ agent, messages }) => {
    if (agent !== 'triage') return 'ok'
    return textOf(messages.at(-1)!.content) === 'Refund it.' ? handsTo('refunds') : 'Go on.'
  })
  for (let nth = 0; nth < 5; nth++) await team.execute(long(nth), { threadId: 'ann' })
  await team.execute('Refund it.', { threadId: 'ann' })
  t.same(told('refunds')[0], [
    'user: (6 messages are left out here.)',
    `user: ${long(3)}`,
    'assistant: Go on.',
    `user: ${long(4)}`,
    'assistant: Go on.',
    'user: Refund it.',
    HANDED,
  ])
})

// A worker that was told a tool uses it with the input of its sub-task.

/** A chief whose plan is one task for `worker`, whose model answers that one after the other. */
async function played(t: Test, task: object, answers: readonly Answer[], fails = false) {
  const inputs: unknown[] = []
  const tool = (name: string) =>
    defineTool({
      name,
      description: 'Looks things up.',
      input: z.object({ query: z.string() }),
      run(input) {
        inputs.push({ [name]: input })
        if (fails) throw new Error('the service is down')
        return `found ${input.query}`
      },
    })
  const model = new FakeModel(({ agent, messages }, nth) => {
    if (agent === 'worker') return answers[model.requests.filter((each) => each.agent === 'worker').length - 1]!
    const plan = { tasks: [{ agent: 'worker', task: 'Look it up.', ...task }], reasoning: '' }
    return nth === 0 ? JSON.stringify(plan) : textOf(messages.at(-1)?.content ?? '')
  })
  const team = testTeam(
    {
      agents: [{ name: 'chief' }, { name: 'worker', tools: [tool('search'), tool('archive')] }],
      orchestration: { strategy: 'supervisor', supervisor: 'chief', experts: ['worker'] },
      logger: silent,
    },
    { model },
  )
  t.teardown(() => team.close())
  const result = await team.execute('What?')
  const asked = model.requests.filter(({ agent }) => agent === 'worker')
  return { inputs, asked, result, said: asked.map(({ messages }) => textOf(messages.at(-1)?.content ?? '')) }
}

const choices = (asked: Awaited<ReturnType<typeof played>>['asked']) => asked.map(({ toolChoice }) => toolChoice)

t.test('an input that fits is given to the tool before the model is asked, and its result is told', async (t) => {
  const { inputs, asked, said, result } = await played(t, { tool: 'search', input: { query: 'rain' } }, ['It rains.'])
  t.same(inputs, [{ search: { query: 'rain' } }])
  t.match(said, [/The tool "search" was called with the input of this sub-task\. Its result:\n\nfound rain/])
  t.same(choices(asked), [undefined])
  t.match(result, { success: true, finalOutput: /It rains/ })
})

t.test('a tool that fails is told to the model', async (t) => {
  const { inputs, said } = await played(t, { tool: 'search', input: { query: 'rain' } }, ['Nothing.'], true)
  t.equal(inputs.length, 1)
  t.match(said, [/was called with the input of this sub-task\. Error: .*the service is down/])
})

for (const [what, task] of [
  ['an input that does not fit', { tool: 'search', input: { city: 'Oslo' } }],
  ['no input', { tool: 'search' }],
] as const)
  t.test(`with ${what} the model has to call the tool first`, async (t) => {
    const { inputs, asked } = await played(t, task, [calls(['search', { query: 'Oslo' }]), 'It rains.'])
    t.same(inputs, [{ search: { query: 'Oslo' } }])
    t.same(choices(asked), [{ tool: 'search' }, undefined])
  })

for (const [what, first] of [
  ['a call of another tool', calls(['archive', { query: 'Oslo' }])],
  ['words', 'I know that.'],
] as const)
  t.test(`in the place of the first call, ${what} is sent back once`, async (t) => {
    const once = await played(t, { tool: 'search' }, [first, calls(['search', { query: 'Oslo' }]), 'It rains.'])
    t.same(once.inputs, [{ search: { query: 'Oslo' } }])
    t.match(once.said[1], /this sub-task names the tool "search"/)
    t.same(choices(once.asked), [{ tool: 'search' }, { tool: 'search' }, undefined])
    const again = await played(t, { tool: 'search' }, [first, 'I know that.'])
    t.match(again.result, { success: true, finalOutput: /I know that/ })
    t.same(again.inputs, [])
  })

t.test('a tool that the worker does not have is a suggestion, as ever', async (t) => {
  const { asked, inputs } = await played(t, { tool: 'weather', input: { city: 'Oslo' } }, ['It rains.'])
  t.same([choices(asked), inputs], [[undefined], []])
})

// `maxRounds` counts for each sub-task: `decompose_task` begins the first, `mark_subtask_complete` the next.

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ at: z.string() }),
  run: ({ at }) => at,
})
const parts = (count: number) =>
  calls(['decompose_task', { subtasks: Array.from({ length: count }, (_, i) => `part ${i}`) }])
const done = calls(['mark_subtask_complete', {}])

/** Plays a model by letters: d takes its task apart, l looks, c completes a sub-task, e ends. */
async function subtaskRoundsPlayed(
  test: Parameters<typeof modelTeam>[0],
  way: string,
  tools = [look, decomposeTask, markSubtaskComplete],
) {
  const answers: Answers = (_request, nth) => {
    const letter = way[nth] ?? 'e'
    if (letter === 'd') return parts(3)
    if (letter === 'l') return calls(['look', { at: `${nth}` }])
    return letter === 'c' ? done : 'done'
  }
  const { team, model } = modelTeam(test, answers, [{ name: 'ann', maxRounds: 3 }], { tools })
  const result = await team.execute('go')
  return { result, asked: model.requests.length }
}

for (const [way, succeeds] of [
  ['ll', true],
  ['lll', false],
  ['lldllcllcll', true],
  ['dlll', false],
  ['dllclll', false],
  ['ddlll', false], // taking it apart again begins nothing
  ['ccc', false], // nothing was taken apart
  ['dcccccc', false], // there are no more
] as const)
  t.test(`with 3 rounds the way ${way} ${succeeds ? 'comes to its end' : 'escalates'}`, async (t) => {
    const { result, asked } = await subtaskRoundsPlayed(t, way)
    if (succeeds) t.match(result, { success: true, finalOutput: 'done' })
    else
      t.match(result, {
        success: false,
        error: { code: 'TASK_REFUSED', message: /after 3 rounds of calling tools.*\(maxRounds\)/ },
      })
    t.ok(asked <= way.length + 1)
  })

t.test('the reason names the sub-task', async (t) => {
  t.match(
    (await subtaskRoundsPlayed(t, 'dllclll')).result.error?.message,
    /3 rounds of calling tools in sub-task 2 \(maxRounds\)/,
  )
})

t.test('tools that the model does not have begin nothing', async (t) => {
  t.match((await subtaskRoundsPlayed(t, 'ldllll', [look])).result, { success: false })
})

t.test('a model that goes on taking its task apart comes to an end', async (t) => {
  const { result, asked } = await subtaskRoundsPlayed(t, 'dccc'.repeat(100))
  t.match(result, { success: false })
  t.ok(asked < 100, `${asked}`)
})

t.test('who is helped by its manager has as many rounds again, and its progress says so', async (t) => {
  const rounds: unknown[] = []
  const answers: Answers = ({ agent }) => {
    if (agent === 'boss') return 'Look less.'
    const { round, maxRounds } = team.getAgent('ann')!.getProgress()!
    rounds.push([round, maxRounds])
    return rounds.length > 4 ? 'done' : calls(['look', { at: `${rounds.length}` }])
  }
  const agents = [{ name: 'ann', maxRounds: 3, escalateTo: 'boss', tools: [look] }, { name: 'boss' }]
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team } = modelTeam(t, answers, agents, { orchestration })
  t.match(await team.execute('go'), { finalOutput: 'done' })
  t.same(rounds, [
    [1, 3],
    [2, 3],
    [3, 3],
    [4, 6],
    [5, 6],
  ])
})

// A manager without code decides on an escalation: its model has the four answers of document 002, 2.6.2.

const lastOf = (request: ModelRequest | undefined) => request?.messages.at(-1)
const toolNames = (request: ModelRequest | undefined) => request?.tools?.map(({ name }) => name)

const agents: MultiAgentPatternOptions['agents'] = [
  { name: 'ann', escalateTo: 'lead' },
  { name: 'lead', escalateTo: 'boss' },
  { name: 'boss' },
  { name: 'bob' },
]

/** Has ann escalate; the others answer as they are told. */
async function escalated(test: Pick<typeof t, 'teardown'>, others: Record<string, ReturnType<typeof calls> | string>) {
  const answers: Answers = (request) => {
    const said = lastOf(request)
    if (request.agent !== 'ann') return others[request.agent!] ?? `${request.agent} did it`
    return said?.role === 'tool' ? `told: ${said.content}` : calls(['escalate', { reason: 'no spade' }])
  }
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team, model } = modelTeam(test, answers, agents, { orchestration })
  const result = await team.execute('dig')
  return { result, model, asked: (agent: string) => model.requests.filter((request) => request.agent === agent) }
}

t.test('its words are guidance', async (t) => {
  const { result, asked } = await escalated(t, { lead: 'Take a spoon.' })
  t.equal(result.finalOutput, 'told: Take a spoon.')
  t.same(toolNames(asked('lead')[0]), ['escalate', 'refuse', 'reassign', 'take_over'])
  t.match(asked('lead')[0]?.messages[0]?.content, /- bob/)
  t.same(toolNames(asked('ann')[0]), ['escalate', 'refuse'])
})

t.test('it gives the task to another agent', async (t) => {
  const { result, asked } = await escalated(t, { lead: calls(['reassign', { to: 'bob', guidance: 'Use the spade.' }]) })
  t.equal(result.finalOutput, 'bob did it')
  t.equal(lastOf(asked('bob')[0])?.content, 'Task from "ann":\ndig')
  t.match(
    where(result.orchestrationTrace.events, 'eventType', 'reassignment'),
    ['requested', 'done'].map((step) => ({ agent: 'lead', details: { step, from: 'ann', to: 'bob' } })),
  )
})

t.test('it takes the task over', async (t) => {
  const { result, asked } = await escalated(t, { lead: calls(['take_over', { result: 'I dug it.' }]) })
  t.equal(result.finalOutput, 'I dug it.')
  t.equal(asked('ann').length, 1)
})

t.test('it passes the escalation on: its own manager decides', async (t) => {
  const { result, asked } = await escalated(t, {
    lead: calls(['escalate', { reason: 'not mine' }]),
    boss: calls(['take_over', { result: 'The boss dug it.' }]),
  })
  t.equal(result.finalOutput, 'The boss dug it.')
  t.match(lastOf(asked('boss')[0])?.content, /"passedBy": \[\s+"lead"/)
  t.same(toolNames(asked('boss')[0]), ['reassign', 'take_over'])
})

t.test('it is told to whom it may give the task', async (t) => {
  const tried: Answers = ({ agent, messages }) => {
    if (agent === 'ann') return messages.at(-1)?.role === 'tool' ? 'so be it' : calls(['escalate', { reason: 'no' }])
    const tools = messages.filter(({ role }) => role === 'tool')
    return tools.length === 0 ? calls(['reassign', { to: 'ann' }]) : `heard: ${tools.at(-1)?.content}`
  }
  const { team, model } = modelTeam(t, tried, agents, {
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  })
  await team.execute('dig')
  t.match(lastOf(model.requests.at(-1))?.content, /heard: Error: "to" is "ann"; you may give the task to: boss, bob/)
})
