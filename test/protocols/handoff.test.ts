/** Strategy handoff: one conversation, and one agent that speaks in it until it hands off. */
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import {
  type AgentRole,
  type ConversationStore,
  createTeam,
  defineAgent,
  defineTool,
  type MultiAgentPatternOptions,
  type StoredConversation,
} from '../../src/index.ts'
import type { HandoffHistory } from '../../src/protocols.ts'
import { rehearse, testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { faultsOf } from '../fixtures/strict-history.ts'
import { gate, silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from '../models/fake-model.ts'

type Options = Partial<MultiAgentPatternOptions>

const handsTo = (to: string, input: object = {}, words = ''): Answer => [
  ...(words === '' ? [] : [{ text: words }]),
  ...(calls(['handoff', { to, task: 'Look at the invoice.', ...input }]) as []),
]

const agents: AgentRole[] = [
  { name: 'triage', systemPrompt: 'You find out.', canHandoffTo: ['billing', 'tech'] },
  { name: 'billing', systemPrompt: 'You know invoices.', canHandoffTo: ['triage'] },
  { name: 'tech', systemPrompt: 'You know the product.', canHandoffTo: ['triage'] },
]

type Code = Record<string, ReturnType<typeof defineAgent>>

function deskOf(
  t: Test,
  answers: Answers | FakeModel,
  { seed = 1, modules = {}, ...options }: Options & { seed?: number; modules?: Code } = {},
) {
  const model = answers instanceof FakeModel ? answers : new FakeModel(answers)
  const team = testTeam(
    { agents, orchestration: { strategy: 'handoff', start: 'triage' }, logger: silent, ...options },
    { model, modules, seed },
  )
  t.teardown(() => team.close())
  return { team, model, told: (agent: string) => conversations(model.requests, agent) }
}

/** What a model was told, each time that it was asked, without its system prompt. */
const conversations = (requests: readonly ModelRequest[], agent: string): string[][] =>
  requests.filter((request) => request.agent === agent).map(({ messages }) => messages.slice(1).map(shown))

const shown = ({ role, content, toolCalls = [] }: ModelMessage) =>
  [`${role}: ${textOf(content)}`, ...toolCalls.map(({ name }) => `(${name})`)].join(' ')

const toBilling: Answers = ({ agent, messages }) =>
  agent === 'triage' ? handsTo('billing', {}, 'One moment.') : `billing: ${messages.length}`

const NOTE = 'user: triage has handed this conversation to you: Look at the invoice.'

t.test('who has spoken last gets the next message of the thread, and reads what all have said', async (t) => {
  const { team, told, model } = deskOf(t, toBilling)
  const first = await team.execute('My invoice is wrong.', { threadId: 'ann' })
  t.equal(first.speaker, 'billing')
  const second = await team.execute('And this one?', { threadId: 'ann' })
  t.equal(second.speaker, 'billing')
  t.same(told('triage'), [['user: My invoice is wrong.']], 'it is not asked again')
  t.same(told('billing'), [
    ['user: My invoice is wrong.', 'assistant: One moment.', NOTE],
    ['user: My invoice is wrong.', 'assistant: One moment.', `assistant: ${first.finalOutput}`, 'user: And this one?'],
  ])
  const other = await team.execute('My invoice is wrong.', { threadId: 'bob' })
  t.equal(other.speaker, 'billing', 'another thread begins with the one that starts')
  t.equal(model.requests.filter(({ agent }) => agent === 'triage').length, 2)
})

t.test('a server that takes no empty words, no tool that is not offered and no result without its call', async (t) => {
  const server = await modelServer(t)
  server.always(({ body }) => {
    const names = ((body.tools ?? []) as { function: { name: string } }[]).map((tool) => tool.function.name)
    const asked = body.messages.at(-1)!
    const isDone = asked.role === 'tool'
    if (names.includes('find')) {
      if (!isDone) return { toolCalls: [{ name: 'find', input: { id: 'A-1' } }] }
      return { toolCalls: [{ name: 'handoff', input: { to: 'billing', task: 'Look at the invoice.' } }] }
    }
    const isBilling = String(body.messages[0]?.content).startsWith('You are "billing"')
    if (isBilling && String(asked.content).includes('crashes'))
      return { toolCalls: [{ name: 'handoff', input: { to: 'tech', task: 'It crashes.' } }] }
    if (names.includes('refund') && !isDone) return { toolCalls: [{ name: 'refund', input: { id: 'A-1' } }] }
    return `It is done: ${body.messages.length}.`
  })
  const refunded: string[] = []
  const tool = (name: string, run: (id: string) => string) =>
    defineTool({ name, description: name, input: z.object({ id: z.string() }), run: ({ id }) => run(id) })
  const team = createTeam({
    agents: [
      { name: 'triage', canHandoffTo: ['billing'], tools: [tool('find', (id) => `${id}: 49 euros`)] },
      {
        name: 'billing',
        canHandoffTo: ['tech'],
        tools: [
          tool('refund', (id) => {
            refunded.push(id)
            return 'refunded'
          }),
        ],
      },
      { name: 'tech', canHandoffTo: ['billing'] },
    ],
    orchestration: { strategy: 'handoff', start: 'triage' },
    models: { default: { model: 'm', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  const speakers: (string | null)[] = []
  for (const query of ['My invoice is wrong.', 'The app crashes.', 'Thanks.']) {
    const result = await team.execute(query, { threadId: 'ann' })
    t.equal(result.error, null)
    speakers.push(result.speaker)
  }
  t.same(speakers, ['billing', 'tech', 'tech'])
  t.same(refunded, ['A-1'])
  t.same(
    server.calls.flatMap(({ body }) => faultsOf(body)),
    [],
  )
  const { messages } = server.calls.at(-1)!.body
  t.match(messages.map(({ role }) => role).join(), /^system,user,user,user,assistant,user,assistant,user$/)
  t.match(messages[2]?.content, /The tool find was called with .*A-1.* Its result:\nA-1: 49 euros/)
})

t.test('two agents that always hand off: an answer of the one to whom it came last', async (t) => {
  const offered: boolean[] = []
  let said = 0
  const answers: Answers = ({ agent, tools = [] }) => {
    const may = tools.some(({ name }) => name === 'handoff')
    offered.push(may)
    if (!may) return `${agent} answers`
    return handsTo(agent === 'triage' ? 'billing' : 'triage', {}, `Word ${said++}.`)
  }
  const { team, told } = deskOf(t, answers)
  const result = await team.execute('My invoice is wrong.')
  t.same([result.finalOutput, result.speaker], ['triage answers', 'triage'])
  t.same(offered, [...Array<boolean>(10).fill(true), false])
  t.match(told('triage').at(-1)?.at(-1), /It cannot be handed on again: answer it yourself\.$/)
  t.match(
    result.orchestrationTrace.decisions.map(({ reason }) => reason),
    ['This is handoff number 10 of the run (maxHandoffs).'],
  )

  const { team: bounded } = deskOf(t, answers, { maxHandoffs: 1 })
  t.equal((await bounded.execute('go')).speaker, 'billing')
})

t.test('to and fro twice with nothing in between ends it too; a word begins anew', async (t) => {
  const silentAnswers: Answers = ({ agent, tools = [] }) =>
    tools.some(({ name }) => name === 'handoff')
      ? handsTo(agent === 'triage' ? 'billing' : 'triage')
      : `${agent} answers`
  const { team, model } = deskOf(t, silentAnswers)
  const result = await team.execute('My invoice is wrong.')
  t.same([result.finalOutput, model.requests.length], ['triage answers', 5])
  t.match(result.orchestrationTrace.decisions, [
    { reason: '"triage" and "billing" have handed off to each other twice with nothing in between.' },
  ])
  const { team: talking, model: asked } = deskOf(t, (request, nth) =>
    nth === 2 ? handsTo('billing', {}, 'Hm.') : (silentAnswers as (request: ModelRequest) => Answer)(request),
  )
  await talking.execute('My invoice is wrong.')
  t.ok(asked.requests.length > 5)
})

t.test('code that hands off beyond the bound is refused, and has the duty still', async (t) => {
  const errors: unknown[] = []
  const router = defineAgent({
    async receive(_message, context) {
      await context.handoff('triage', 'Again.').catch((error: unknown) => errors.push(error))
      return 'By code.'
    },
  })
  const team = testTeam(
    {
      agents: [
        { name: 'triage', canHandoffTo: ['router'] },
        { name: 'router', canHandoffTo: ['triage'] },
      ],
      orchestration: { strategy: 'handoff', start: 'triage' },
      maxHandoffs: 1,
      logger: silent,
    },
    { model: new FakeModel(() => handsTo('router')), modules: { router } },
  )
  t.teardown(() => team.close())
  t.match(await team.execute('go'), { finalOutput: 'By code.', speaker: 'router' })
  t.match(errors, [{ code: 'DELEGATION_REFUSED', details: { bound: 'maxHandoffs', limit: 1 } }])
})

t.test('who is unknown, refuses or may not be handed to is an error of the call; the duty stays', async (t) => {
  const tries: Answer[] = [handsTo('nobody'), handsTo('tech'), handsTo('billing'), 'I answer it myself.']
  const model = new FakeModel(tries)
  const billing = defineAgent({
    receive(_message, context) {
      throw context.refuse('It is no invoice.')
    },
  })
  const agents = [
    { name: 'triage', canHandoffTo: ['billing'] },
    { name: 'billing', canHandoffTo: ['tech'] },
    { name: 'tech' },
  ]
  const orchestration = { strategy: 'handoff', start: 'triage' } as const
  const team = testTeam({ agents, orchestration, logger: silent }, { model, modules: { billing } })
  t.teardown(() => team.close())
  t.match(await team.execute('go', { threadId: 'ann' }), { finalOutput: 'I answer it myself.', speaker: 'triage' })
  const results = model.requests.at(-1)!.messages.filter(({ role }) => role === 'tool')
  t.match(
    results.map(({ content }) => textOf(content)),
    [/no agent "nobody"|nobody/, /"triage" may hand off to "billing" alone \(canHandoffTo\)/, /It is no invoice/],
  )
})

t.test(
  'a model that speaks and refuses has answered with its reason; beside a handoff the first of both counts',
  async (t) => {
    const hand: Answer = handsTo('billing')
    const refuse: Answer = calls(['refuse', { reason: 'I give no credit.' }])
    const find = defineTool({ name: 'find', description: 'find', input: z.object({}), run: () => 'found' })
    const worked: Answers = ({ agent, messages }) => {
      if (agent === 'triage') return hand
      return messages.at(-1)!.role === 'tool' ? refuse : calls(['find', {}])
    }
    const byTriage =
      (answer: Answer): Answers =>
      ({ agent }) =>
        agent === 'triage' ? answer : 'billing answers'
    const last =
      (answer: Answer): Answers =>
      ({ agent }) =>
        agent === 'triage' ? hand : answer
    const cases: [what: string, Answers, speaker: string, answer: string, text?: string][] = [
      ['a handoff, then a refusal', byTriage([...hand, ...refuse] as Answer), 'billing', 'billing answers'],
      ['a refusal, then a handoff', byTriage([...refuse, ...hand] as Answer), 'triage', 'I give no credit.'],
      ['by the first speaker', byTriage(refuse), 'triage', 'I give no credit.'],
      ['by the second speaker', last(refuse), 'billing', 'I give no credit.'],
      ['by the second, behind its work', worked, 'billing', 'I give no credit.'],
      [
        'by the second, behind words',
        last([{ text: 'Sorry.' }, ...refuse] as Answer),
        'billing',
        'I give no credit.',
        'Sorry.\n\nI give no credit.',
      ],
    ]
    for (const [what, answers, speaker, answer, text = answer] of cases) {
      const { team, model } = deskOf(t, answers, {
        agents: agents.map((role) => (role.name === 'billing' ? { ...role, tools: [find] } : role)),
      })
      const run = team.launch('Lend me money.', { threadId: 'ann' })
      let said = ''
      for await (const piece of run.text()) said += piece
      t.match(await run.result, { success: true, speaker, finalOutput: answer }, what)
      t.equal(said, text, what)
      await team.execute('Why?', { threadId: 'ann' })
      t.match(conversations(model.requests, speaker).at(-1)!.join('\n'), answer, `${what}: the thread has it`)
    }
    const Reply = z.object({ text: z.string() })
    const { team } = deskOf(t, ({ agent, messages }) => {
      if (agent === 'triage') return hand
      return messages.at(-1)!.role === 'user' && textOf(messages.at(-1)!.content).includes('JSON')
        ? '{"text":"I give no credit."}'
        : refuse
    })
    t.match(await team.execute('Lend me money.', { output: Reply }), {
      speaker: 'billing',
      data: { text: 'I give no credit.' },
    })
  },
)

t.test('what code has answered last stands in the shared conversation', async (t) => {
  const clerk = defineAgent({ receive: ({ content }) => ({ content: `By code: ${content}` }) })
  const rows = new Map<string, StoredConversation>()
  const store: ConversationStore = {
    load: async () => structuredClone([...rows.values()]),
    save: async (_thread, stored) => !!rows.set(stored.agent, structuredClone(stored)),
  }
  const kinds: [what: string, () => Options][] = [
    ['in memory', () => ({})],
    ['in a store of several processes', () => ({ conversations: store })],
  ]
  for (const [what, kind] of kinds) {
    const options = (): Options => ({
      agents: [
        { name: 'triage', systemPrompt: 'You find out.', canHandoffTo: ['clerk'] },
        { name: 'clerk', canHandoffTo: ['triage'] },
      ],
      ...kind(),
    })
    let hands = true
    const answers: Answers = () => (hands ? handsTo('clerk', { task: 'File it.' }, 'One moment.') : 'Filed.')
    const model = new FakeModel(answers)
    let seed = 1
    let { team } = deskOf(t, model, { ...options(), modules: { clerk }, seed })
    const next = async () => {
      if (what === 'in memory') return
      await team.close()
      team = deskOf(t, model, { ...options(), modules: { clerk }, seed: ++seed }).team // ids of its own
    }
    t.match(await team.execute('My form.', { threadId: 'ann' }), { speaker: 'clerk', finalOutput: 'By code: File it.' })
    await next()
    t.match(await team.execute('And this?', { threadId: 'ann' }), { finalOutput: 'By code: And this?' })
    await next()
    hands = false
    t.equal((await team.execute('Is it done?', { threadId: 'ann', speaker: 'triage' })).finalOutput, 'Filed.')
    await next()
    await team.execute('Thanks.', { threadId: 'ann' })
    t.same(
      conversations(model.requests, 'triage').at(-1),
      [
        'user: My form.',
        'assistant: One moment.',
        'assistant: By code: File it.',
        'user: And this?',
        'assistant: By code: And this?',
        'user: Is it done?',
        'assistant: Filed.',
        'user: Thanks.',
      ],
      what,
    )
  }
  const { team, told } = deskOf(t, () => 'Filed.', {
    agents: [{ name: 'clerk', canHandoffTo: ['triage'] }, { name: 'triage' }],
    orchestration: { strategy: 'handoff', start: 'clerk' },
    modules: { clerk },
  })
  await team.execute('Before all.', { threadId: 'ann' })
  await team.execute('Is it done?', { threadId: 'ann', speaker: 'triage' })
  t.same(told('triage'), [['user: Before all.', 'assistant: By code: Before all.', 'user: Is it done?']])
})

t.test('what the next speaker sees is an option, and stays what it sees', async (t) => {
  const answers: Answers = ({ agent, tools = [], messages }) => {
    if (textOf(messages[0]!.content).startsWith('You sum up')) return 'A summary.'
    return agent === 'triage' && tools.length > 0 ? handsTo('billing', { summary: 'For ann.' }, 'One moment.') : 'Done.'
  }
  const query = 'My invoice is wrong, card 4242.'
  const seen = async (history: HandoffHistory) => {
    const { team, told } = deskOf(t, answers, { orchestration: { strategy: 'handoff', start: 'triage', history } })
    for (const each of [query, 'Thanks.']) await team.execute(each, { threadId: 'ann' })
    await team.execute('Hello.', { threadId: 'ann', speaker: 'tech' })
    return { billing: told('billing'), tech: told('tech') }
  }
  const whole = [
    `user: ${query}`,
    'assistant: One moment.',
    'assistant: Done.',
    'user: Thanks.',
    'assistant: Done.',
    'user: Hello.',
  ]
  t.same(await seen('task'), {
    billing: [[`${NOTE} For ann.`], ['assistant: Done.', 'user: Thanks.']],
    tech: [whole],
  })
  const given: unknown[] = []
  const hides: HandoffHistory = (messages, handoff) => {
    given.push(handoff)
    return messages.map((message) => ({ ...message, content: textOf(message.content).replace(/\d{4}/, '****') }))
  }
  t.same(await seen(hides), {
    billing: [
      ['user: My invoice is wrong, card ****.', 'assistant: One moment.', `${NOTE} For ann.`],
      ['user: My invoice is wrong, card ****.', 'assistant: One moment.', 'assistant: Done.', 'user: Thanks.'],
    ],
    tech: [whole],
  })
  t.same(given, [{ from: 'triage', to: 'billing', task: 'Look at the invoice.', summary: 'For ann.' }])
  t.match((await seen('summary')).billing[0], [/^user: triage has handed .*For ann\.\s[\s\S]*One moment/])
})

t.test('a function for the history that throws is an error of the call', async (t) => {
  const history: HandoffHistory = () => {
    throw new Error('no filter')
  }
  const { team, model } = deskOf(t, [handsTo('billing'), 'I answer it myself.'], {
    orchestration: { strategy: 'handoff', start: 'triage', history },
  })
  t.equal((await team.execute('go')).finalOutput, 'I answer it myself.')
  t.match(textOf(model.requests.at(-1)!.messages.at(-1)!.content), /orchestration\.history has thrown: .*no filter/)
})

t.test('whoever answers is asked in the schema of the run, and its words are read', async (t) => {
  const Reply = z.object({ category: z.string() })
  const { team } = deskOf(t, ({ agent, jsonSchema }) => {
    if (agent === 'triage') return handsTo('billing', {}, 'One moment.')
    return jsonSchema ? [{ text: '{"category":' }, { text: '"invoice"}' }] : 'no schema'
  })
  const run = team.launch('My invoice is wrong.', { threadId: 'ann', output: Reply })
  const said: string[] = []
  const spoke: unknown[] = []
  const reading = (async () => {
    for await (const part of run.stream()) if (part.type === 'speaker') spoke.push([part.from, part.agent])
  })()
  for await (const piece of run.text()) said.push(piece)
  await reading
  const result = await run.result
  t.match(result, { data: { category: 'invoice' }, speaker: 'billing' })
  t.equal(run.speaker, 'billing')
  t.same(said, ['One moment.', '\n\n', '{"category":', '"invoice"}'])
  t.same(spoke, [
    [null, 'triage'],
    ['triage', 'billing'],
  ])
})

t.test('a run that fails leaves the speaker as it was; an agent that has gone is replaced by the first', async (t) => {
  let next = 'billing'
  const { team } = deskOf(t, ({ agent }) => {
    if (agent === next) return agent === 'tech' ? [new Error('no line')] : String(agent)
    return handsTo(agent === 'triage' ? next : 'triage')
  })
  const say = async () => (await team.execute('go', { threadId: 'ann' })).speaker
  t.equal(await say(), 'billing')
  next = 'tech'
  t.match(await team.execute('go', { threadId: 'ann' }), { success: false, speaker: 'tech' })
  next = 'billing'
  t.equal(await say(), 'billing')
  await team.removeAgent('billing')
  next = 'triage'
  t.equal(await say(), 'triage')
})

t.test(
  'of runs of a thread at once the last to end counts, and one that is aborted leaves the speaker as it was',
  async (t) => {
    const [held, hold] = [gate(), gate()]
    const { team } = deskOf(t, async ({ agent, messages }) => {
      const query = textOf(messages.findLast(({ content }) => /^to /.test(textOf(content)))!.content)
      const to = query.slice('to '.length).split(',')[0]!
      if (query.endsWith('later') && agent === to) {
        held.open()
        await hold.opened
      }
      return agent === to ? agent : handsTo(to)
    })
    const slow = team.launch('to billing,later', { threadId: 'ann' })
    await held.opened
    t.equal((await team.execute('to tech', { threadId: 'ann' })).speaker, 'tech')
    t.equal((await team.thread('ann'))?.speaker, 'tech')
    hold.open()
    t.equal((await slow.result).speaker, 'billing')
    t.equal((await team.thread('ann'))?.speaker, 'billing')
    const cut = team.launch('to triage', { threadId: 'ann' })
    await cut.cancel()
    t.equal((await team.thread('ann'))?.speaker, 'billing')
  },
)

t.test('whoever answers is checked by its own guardrails, and by no other', async (t) => {
  const output = (agent: string) => [
    { name: agent, check: (text: string) => (agent === 'triage' ? { refuse: 'No.' } : { change: `${text}!` }) },
  ]
  const { team, told } = deskOf(t, toBilling, {
    agents: agents.map((role) => ({ ...role, guardrails: { output: output(role.name) } })),
  })
  t.equal((await team.execute('My invoice is wrong.', { threadId: 'ann' })).finalOutput, 'billing: 4!')
  t.same(team.deadLetters.list(), [])
  await team.execute('And this one?', { threadId: 'ann' })
  t.same(told('billing').at(-1)!.slice(0, 3), [
    'user: My invoice is wrong.',
    'assistant: One moment.',
    'assistant: billing: 4!',
  ])
})

t.test('in a rehearsal the seed chooses who hands to whom', async (t) => {
  const speakers = new Set<string>()
  const { failures } = await rehearse(
    () => ({ agents, orchestration: { strategy: 'handoff', start: 'triage' }, logger: silent }),
    {
      query: 'My invoice is wrong.',
      seeds: 40,
      faults: ['crash', 'duplicate', 'delay'],
      check(outcome) {
        if (!outcome.ok) throw outcome.error
        speakers.add(/^\[rehearsal\] (\w+) was asked/.exec(outcome.message.content)?.[1] ?? outcome.message.content)
      },
    },
  )
  t.same(failures, [])
  t.same([...speakers].sort(), ['billing', 'tech', 'triage'])
})

t.test('a team without a handoff in it is refused, and so is a speaker where there is none', async (t) => {
  const model = new FakeModel(() => 'ok')
  const make = (options: Options) => () =>
    testTeam({ agents, orchestration: { strategy: 'handoff', start: 'triage' }, logger: silent, ...options }, { model })
  t.throws(make({ agents: [{ name: 'triage' }, { name: 'billing' }] }), {
    code: 'CONFIGURATION',
    message: 'orchestration.start: "triage" can hand off to nobody: name agents in canHandoffTo.',
  })
  t.throws(make({ orchestration: { strategy: 'handoff', start: 'nobody' } as never }), {
    message: /orchestration\.start/,
  })
  t.throws(make({ agents: [{ name: 'triage', canHandoffTo: ['nobody'] }] }), {
    message: /agents\[0\]\.canHandoffTo\[0\]/,
  })
  t.throws(make({ orchestration: { strategy: 'handoff', start: 'triage', agents: ['tech'] } }), {
    message: /orchestration\.agents: .*"triage", which speaks first/,
  })
  const { team } = deskOf(t, () => 'ok')
  await t.rejects(team.execute('go', { speaker: 'nobody' }), {
    message: /speaker: got "nobody"; accepted: triage, billing, tech/,
  })
  const plain = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
    { model },
  )
  t.teardown(() => plain.close())
  await t.rejects(plain.execute('go', { speaker: 'ann' }), { message: /strategy "handoff"/ })
  t.equal((await plain.execute('go')).speaker, 'ann', 'the last speaker of other strategies is known too')
})

t.test('a store of conversations has the shared one, and who has spoken last, for each process', async (t) => {
  const rows = new Map<string, StoredConversation>()
  const conversations: ConversationStore = {
    load: async () => structuredClone([...rows.values()]),
    async save(_thread, stored) {
      if ((rows.get(stored.agent)?.version ?? 0) !== stored.version - 1) return false
      rows.set(stored.agent, structuredClone(stored))
      return true
    },
  }
  const one = deskOf(t, toBilling, { conversations })
  await one.team.execute('My invoice is wrong.', { threadId: 'ann' })
  t.same([...rows.keys()], ['$thread'])
  const other = deskOf(t, toBilling, { conversations, seed: 2 })
  await other.team.execute('Hello.')
  t.equal((await other.team.execute('And this one?', { threadId: 'ann' })).speaker, 'billing')
  t.match(other.told('billing').slice(1), [
    ['user: My invoice is wrong.', 'assistant: One moment.', 'assistant: billing: 4', 'user: And this one?'],
  ])
})
