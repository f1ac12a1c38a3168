/** A model that hands its task off: who answers then is the last speaker, and goes on with the conversation. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import { defineAgent, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'

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
