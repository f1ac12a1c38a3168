/** What a model is shown: of its conversation, of others, and of what says the same twice. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import { countMessages, countTools } from '../../src/actors/model/tokens.ts'
import { type AgentRole, type ContextStrategy, defineAgent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { localTeam, silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

// What roles without code show their models of a conversation, by the strategy of the role.

const SUMMARY = /You sum up the earlier part/
const isSummary = ({ messages }: ModelRequest) => SUMMARY.test(textOf(messages[0]?.content ?? ''))

/** A script that asks one agent so many things, one after the other. */
const asks = (agent: string, count: number, words = 40) => ({
  strategy: 'custom' as const,
  async run(script: { request(to: string, content: string): Promise<{ content: string }> }) {
    let answer = ''
    for (let i = 0; i < count; i++)
      answer = (await script.request(agent, `question ${i} ${'word '.repeat(words)}`)).content
    return answer
  },
})

t.test('a conversation is summarized by the real count of its tokens, at 80 % of maxTokens', async (t) => {
  const maxTokens = 1_500
  const { team, model } = modelTeam(
    t,
    (request) => (isSummary(request) ? 'They spoke.' : 'yes '.repeat(20)),
    [{ name: 'ann', systemPrompt: 'Answer.', maxTokens }],
    { orchestration: asks('ann', 30) },
  )
  t.ok((await team.execute('go')).success)
  const at = model.requests.findIndex(isSummary)
  const [before, , after] = model.requests.slice(at - 1)
  t.ok(countMessages(before!.messages) <= 0.8 * maxTokens)
  const appended: ModelMessage[] = [
    ...before!.messages,
    { role: 'assistant', content: 'yes '.repeat(20) },
    after!.messages.at(-1)!,
  ]
  t.ok(countMessages(appended) > 0.8 * maxTokens)
  t.equal(after!.messages.length, 1 + 1 + 20)
  t.same(after!.messages.slice(2), appended.slice(-20))
  t.match(after!.messages[1], { role: 'user', content: /in place of \d+ messages:\nThey spoke\.$/ })
  for (const { messages } of model.requests) t.ok(countMessages(messages) <= maxTokens)
  const [, second] = model.requests.filter(isSummary)
  t.match(
    second?.messages[1]?.content,
    /^user: Summary of the conversation so far.*They spoke\./s,
    'a summary is summarized',
  )
})

t.test('what a summary costs is part of the usage', async (t) => {
  const { team, model } = modelTeam(t, () => 'yes '.repeat(20), [{ name: 'ann', maxTokens: 1_500 }], {
    orchestration: asks('ann', 20),
  })
  const { totalTokenUsage } = await team.execute('go')
  t.ok(model.requests.some(isSummary))
  t.equal(totalTokenUsage.calls, model.requests.length)
})

t.test('so it is for code that thinks', async (t) => {
  const { value, model } = await played(
    t,
    (request) => (isSummary(request) ? 'They spoke.' : 'ok'),
    (context) => {
      const said = Array.from(
        { length: 40 },
        (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `${i} ${'word '.repeat(30)}` }) as const,
      )
      return context.think({ messages: [...said, { role: 'user', content: 'And?' }] })
    },
    { role: { maxTokens: 1_500 } },
  )
  t.equal(model.requests.length, 2)
  t.match(value, { text: 'ok', usage: { calls: 2 } })
})

t.test('the sub-tasks are those of the turn', async (t) => {
  const contextStrategy: ContextStrategy = { strategy: 'hierarchical', historyKeep: 9 }
  const { team, model } = modelTeam(
    t,
    (_request, nth) => {
      if (nth > 2) return 'done'
      if (nth > 0) return calls(['agent_status', {}])
      return calls(['agent_status', {}], ['decompose_task', { subtasks: ['dig', 'fill'] }])
    },
    [{ name: 'ann', tools: ['agent_status'], contextStrategy }],
    { orchestration: asks('ann', 2, 0) },
  )
  await team.execute('go')
  t.equal(model.requests[3]?.messages[1]?.content, 'Goal: question 0 \nSub-task (1 of 2): dig')
  t.notMatch(JSON.stringify(model.requests[4]?.messages), /Sub-task/)
})

t.test('hierarchical shows the last exchanges, and where the work stands', async (t) => {
  const { team, model } = modelTeam(
    t,
    () => 'yes',
    [{ name: 'ann', systemPrompt: 'Answer.', contextStrategy: { strategy: 'hierarchical', historyKeep: 2 } }],
    { orchestration: asks('ann', 5, 0) },
  )
  await team.execute('go')
  t.same(
    model.requests.at(-1)?.messages.map(({ content }) => content),
    [
      'Answer.',
      'Goal: question 0 \nTask: question 4 \n(4 messages are left out here; what follows is what was done last.)',
      'question 2 ',
      'yes',
      'question 3 ',
      'yes',
      'question 4 ',
    ],
  )
})

t.test('a delegated task is a goal of its own', async (t) => {
  const contextStrategy: ContextStrategy = { strategy: 'hierarchical', historyKeep: 1 }
  const { team, model } = modelTeam(t, () => 'yes', [{ name: 'ann', contextStrategy }], {
    orchestration: {
      strategy: 'custom',
      async run(script) {
        for (const task of ['dig', 'drill', 'fill']) await script.delegate('ann', task)
        return (await script.request('ann', 'how deep?')).content
      },
    },
  })
  await team.execute('go')
  t.match(model.requests[2]?.messages[1]?.content, /^Goal: fill\n\(2/)
  t.match(model.requests[3]?.messages[1]?.content, /^Goal: fill\nTask: how deep\?/)
})

t.test('a long turn is cut to the window between its rounds', async (t) => {
  const contextStrategy: ContextStrategy = { strategy: 'append_until_full', keepRecent: 4 }
  const ann = { name: 'ann', tools: ['agent_status'], maxTokens: 600, maxRounds: 25, contextStrategy }
  const others = [{ name: 'bob' }]
  const { team, model } = modelTeam(
    t,
    (request, nth) => {
      if (isSummary(request)) return 'Looked around.'
      return nth < 19 ? calls(['agent_status', {}]) : 'done'
    },
    [ann, ...others],
    { orchestration: asks('ann', 1) },
  )
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.ok(model.requests.some(isSummary))
  for (const { messages, tools } of model.requests) {
    const tokens = countMessages(messages) + countTools(tools ?? [])
    t.ok(tokens <= (/Looked around/.test(textOf(messages[1]!.content)) ? 600 : 480))
    const asked = messages.flatMap(({ toolCalls = [] }) => toolCalls).length
    t.equal(messages.filter(({ role }) => role === 'tool').length, asked)
  }
})

t.test('a model that cannot sum up costs no answer', async (t) => {
  const { team, model } = modelTeam(
    t,
    (request) => (isSummary(request) ? [new Error('down')] : 'yes '.repeat(20)),
    [{ name: 'ann', maxTokens: 1_500 }],
    { orchestration: asks('ann', 20) },
  )
  t.ok((await team.execute('go')).success)
  t.match(model.requests.at(-1)?.messages[1]?.content, /could not be summarized/)
})

t.test('a message that is larger than the window fails with the option to change', async (t) => {
  const { team, model } = modelTeam(t, () => 'yes', [{ name: 'ann', maxTokens: 200 }])
  const result = await team.execute(`${randomInt(9)} `.repeat(1_000))
  const cause = { code: 'CONFIGURATION', details: { path: 'maxTokens' } }
  t.match(result.error, { message: /maxTokens is 200/, details: { cause } })
  t.equal(model.requests.length, 0)
})

t.test('buildContext of a definition decides what its model sees', async (t) => {
  const model = new FakeModel((_request, nth) => (nth === 0 ? calls(['agent_status', {}]) : 'done'))
  const histories: number[] = []
  const ann = defineAgent({
    receive: async (message, context) => (await context.think(message.content)).text,
    buildContext: (history, context) => {
      histories.push(history.length)
      return [{ role: 'user', content: `${context.role.name} sees ${history.at(-1)?.role}` }]
    },
  })
  const roles = { ann: { systemPrompt: 'Be brief.', tools: ['agent_status'] } }
  const team = localTeam(t, { ann }, { models: { default: model }, roles })
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.same(histories, [1, 3])
  t.same(
    pluck(model.requests, 'messages'),
    ['user', 'tool'].map((role) => [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: `ann sees ${role}` },
    ]),
  )
})

t.test('what buildContext returns is checked', async (t) => {
  const ann = defineAgent({
    receive: async (message, context) => (await context.think(message.content)).text,
    buildContext: () => [{ role: 'tool' as const, content: 'x', toolCallId: '1' }],
  })
  const team = localTeam(t, { ann }, { models: { default: new FakeModel(() => 'ok') } })
  const cause = { code: 'CONFIGURATION', details: { path: 'buildContext()[0]', agent: 'ann' } }
  t.match((await team.execute('go')).error, { details: { cause } })
})

t.test('a strategy and a definition that do not fit each other are refused before any message', async (t) => {
  const receive = () => 'ok'
  const builds = defineAgent({ receive, buildContext: (history) => [...history] })
  const plain = defineAgent({ receive })
  for (const [definition, contextStrategy] of [
    [builds, { strategy: 'hierarchical' }],
    [plain, { strategy: 'custom' }],
  ] as const) {
    const team = localTeam(t, { ann: definition }, { roles: { ann: { contextStrategy } } })
    await t.rejects(team.start(), { code: 'CONFIGURATION', details: { path: 'agents[0].contextStrategy.strategy' } })
  }
})

// What `getContextSummary` says of an agent that a model plays.

t.test('says what the context holds, of the run that it heard of last', async (t) => {
  const { team, model } = modelTeam(t, () => 'Well, well.', [
    { name: 'ann', systemPrompt: 'Answer.', maxTokens: 1_000 },
  ])
  const { getContextSummary } = team.getAgent('ann')!
  t.match(
    getContextSummary(),
    /its context holds 0 messages, \d+ of 1000 tokens \(1 %\); it is summarized beyond 800 tokens\.$/,
  )
  await team.execute('hello '.repeat(100))
  const tokens = countMessages([...model.requests[0]!.messages, { role: 'assistant', content: 'Well, well.' }])
  const percent = Math.round(tokens / 10)
  t.match(
    getContextSummary(),
    `holds 2 messages, ${tokens} of 1000 tokens (${percent} %); it is summarized beyond 800 tokens.`,
  )
  await team.execute('hi')
  t.match(getContextSummary(), /holds 2 messages, \d\d of 1000/)
})

t.test('says what was summarized', async (t) => {
  const { team, model } = modelTeam(
    t,
    ({ messages }) => (/You sum up/.test(textOf(messages[0]?.content ?? '')) ? 'They "spoke".' : 'yes '.repeat(20)),
    [
      {
        name: 'ann',
        systemPrompt: 'Go.',
        maxTokens: 1_500,
        contextStrategy: { strategy: 'append_until_full', threshold: 0.5 },
      },
    ],
    {
      orchestration: {
        strategy: 'custom',
        async run(script) {
          for (let i = 0; i < 15; i++) await script.request('ann', `${i} ${'hello '.repeat(30)}`)
          return ''
        },
      },
    },
  )
  await team.execute('go')
  const tokens = countMessages([...model.requests.at(-1)!.messages, { role: 'assistant', content: 'yes '.repeat(20) }])
  t.match(team.getAgent('ann')?.getContextSummary(), `${tokens} of 1500 tokens`)
  t.match(
    team.getAgent('ann')?.getContextSummary(),
    /of 1500 tokens \(\d+ %\); it is summarized beyond 750 tokens; \d+ messages are left out, and the last summary is: "They \\"spoke\\"\."\.$/,
  )
})

t.test('hierarchical says what is left out', async (t) => {
  const { team } = modelTeam(t, () => 'yes', [
    { name: 'ann', contextStrategy: { strategy: 'hierarchical', historyKeep: 1 } },
  ])
  for (const query of ['a', 'b', 'c']) await team.execute(query, { threadId: '1' })
  t.match(
    team.getAgent('ann')?.getContextSummary(),
    /holds 4 messages, \d+ of 128000 tokens \(0 %\); 2 messages are left out\.$/,
  )
})

t.test('code keeps its own', async (t) => {
  const team = localTeam(t, { ann: () => 'ok' })
  t.match(team.getAgent('ann')?.getContextSummary(), /its code keeps its own context\.$/)
})

// What a model is shown of a message that says the same in words and as data.

const asking = (metadata: object): OrchestrationConfig => ({
  strategy: 'custom',
  run: async (script, query) =>
    (await script.request('ann', query, { structuredData: { secret: 42 }, metadata })).content,
})

t.test('data stands below the words, unless the words say it all', async (t) => {
  for (const [metadata, shows] of [
    [{}, true],
    [{ inWords: true }, false],
  ] as const) {
    const { team, model } = modelTeam(t, ['fine'], [{ name: 'ann' }], { orchestration: asking(metadata) })
    const { messageHistory } = await team.execute('What is it?')
    const shown = textOf(model.requests[0]?.messages.at(-1)?.content ?? '')
    t.match(shown, /^What is it\?/)
    t.equal(shown.includes('42'), shows)
    t.match(
      messageHistory.find(({ recipient }) => recipient === 'ann'),
      { structuredData: { secret: 42 } },
      'code has it in any case',
    )
  }
})

t.test('a debater reads each argument once', async (t) => {
  const answers = ({ agent, jsonSchema }: { agent?: string; jsonSchema?: object }) => {
    if (agent !== 'judge') return JSON.stringify({ argument: `${agent} is right`, evidence: ['a fact'] })
    return jsonSchema ? JSON.stringify({ winner: 'pro', reasons: '' }) : 'pro it is'
  }
  const { team, model } = modelTeam(t, answers, [{ name: 'pro' }, { name: 'con' }, { name: 'judge' }], {
    orchestration: { strategy: 'debate', debaters: ['pro', 'con'], judge: 'judge', maxRounds: 2 },
  })
  t.equal((await team.execute('Which?')).finalOutput, 'pro it is')
  const last = model.requests.findLast(({ agent }) => agent === 'con')?.messages ?? []
  const read = last.filter(({ role }) => role === 'user').map(({ content }) => textOf(content))
  for (const [round, text] of read.entries()) t.equal(text.split('pro is right').length - 1, 1, `round ${round + 1}`)
})

// What one agent's model gets to see of another's conversation: nothing, unless a role says otherwise.

const SECRET = 'the vault opens at nine'
const boss: AgentRole = {
  name: 'boss',
  systemPrompt: 'Lead.',
  delegationAllowed: true,
  tools: ['request', 'delegate', 'handoff'],
}
const worker = (inherit?: 'none' | 'summary' | 'full'): AgentRole => ({
  name: 'bob',
  systemPrompt: 'Dig.',
  ...(inherit && { contextStrategy: { strategy: 'append_until_full', inherit } }),
})
const promptsOf = (requests: readonly ModelRequest[], agent: string) =>
  requests.filter(
    (request) => request.agent === agent && !/You sum up/.test(textOf(request.messages[0]?.content ?? '')),
  )
const orchestration = {
  strategy: 'custom' as const,
  run: async (script: { request(to: string, content: string): Promise<{ content: string }> }, query: string) =>
    (await script.request('boss', query)).content,
}

/** The boss hears a secret and gives a task by that verb. */
const giving =
  (verb: string, input: object): Answers =>
  ({ agent, messages }) => {
    if (/You sum up/.test(textOf(messages[0]?.content ?? ''))) return 'In short: nine.'
    if (agent !== 'boss' || messages.at(-1)?.role === 'tool') return 'done'
    return calls([verb, { to: 'bob', ...input }])
  }

for (const [verb, input] of [
  ['delegate', { task: 'dig' }],
  ['request', { content: 'dig' }],
] as const) {
  t.test(
    `${verb}: by default no word of another agent's conversation is in a prompt, and nothing is paid for one`,
    async (t) => {
      for (const inherit of [undefined, 'none'] as const) {
        const { team, model } = modelTeam(t, giving(verb, input), [boss, worker(inherit)], { orchestration })
        const result = await team.execute(SECRET)
        t.equal(result.finalOutput, 'done')
        const [prompt] = promptsOf(model.requests, 'bob')
        t.equal(prompt?.messages.length, 2)
        t.notMatch(JSON.stringify(prompt?.messages), /vault|nine|Lead/)
        const toBob = result.messageHistory.filter(({ recipient }) => recipient === 'bob')
        t.notMatch(JSON.stringify(toBob), /vault/)
        t.equal(model.requests.length, 3)
      }
    },
  )

  t.test(`${verb}: a worker inherits the whole conversation where its role says so`, async (t) => {
    const { team, model } = modelTeam(t, giving(verb, input), [boss, worker('full')], { orchestration })
    await team.execute(SECRET)
    const [prompt] = promptsOf(model.requests, 'bob')
    t.equal(prompt?.messages[1]?.content, `What "boss" has of its own conversation about this:\nuser: ${SECRET}`)
    t.match(prompt?.messages[2]?.content, /dig$/)
    t.notMatch(JSON.stringify(prompt), /Lead/, 'the system prompt is nobody else’s')
  })
}

t.test('a worker inherits a summary of what is long, paid for once however many get it', async (t) => {
  const answers: Answers = (request) => {
    const { agent, messages } = request
    if (/You sum up/.test(textOf(messages[0]?.content ?? ''))) return 'In short: nine.'
    if (agent !== 'boss' || messages.at(-1)?.role === 'tool') return 'done'
    return calls(['delegate', { to: 'bob', task: 'dig' }], ['delegate', { to: 'cid', task: 'fill' }])
  }
  const heirs = [worker('summary'), { ...worker('summary'), name: 'cid' }]
  const { team, model } = modelTeam(t, answers, [{ ...boss, maxTokens: 2_000 }, ...heirs], { orchestration })
  await team.execute(`${SECRET} `.repeat(60))
  for (const agent of ['bob', 'cid'])
    t.match(promptsOf(model.requests, agent)[0]?.messages[1]?.content, /^What "boss" has.*:\nIn short: nine\.$/s)
  t.equal(model.requests.filter(({ messages }) => /You sum up/.test(textOf(messages[0]?.content ?? ''))).length, 1)
})

t.test('what is short is passed on as it was said', async (t) => {
  const { team, model } = modelTeam(t, giving('delegate', { task: 'dig' }), [boss, worker('summary')], {
    orchestration,
  })
  await team.execute(SECRET)
  t.match(promptsOf(model.requests, 'bob')[0]?.messages[1]?.content, `user: ${SECRET}`)
  t.equal(model.requests.length, 3)
})

t.test('a whole conversation has a bound: what was before its end is summed up', async (t) => {
  const { team, model } = modelTeam(t, giving('delegate', { task: 'dig' }), [boss, worker('full')], {
    orchestration: {
      strategy: 'custom',
      async run(script) {
        for (let i = 0; i < 3; i++) await script.request('boss', `${i} ${'long '.repeat(4_000)}`)
        return ''
      },
    },
  })
  await team.execute('go')
  const prompts = promptsOf(model.requests, 'bob')
  const inherited = prompts.at(-1)?.messages.at(-2)?.content ?? ''
  t.match(inherited, /:\n\(\d+ messages are summed up here\.\)\nIn short: nine\.\n\n/)
  t.ok(inherited.length < 34_000)
})

t.test('a handoff to code carries a summary where the model gave none', async (t) => {
  const summaries: unknown[] = []
  const code = defineAgent({
    receive({ metadata }) {
      summaries.push(Object(metadata.handoff).summary)
      return 'done'
    },
  })
  for (const summary of [{}, { summary: 'half is dug' }]) {
    const model = new FakeModel(giving('handoff', { task: 'dig on', ...summary }))
    const agents = [boss, { name: 'bob' }]
    const team = testTeam({ agents, orchestration, logger: silent }, { model, modules: { bob: code } })
    t.teardown(() => team.close())
    await team.execute(SECRET)
  }
  t.same(summaries, [`user: ${SECRET}`, 'half is dug'])
})

t.test('an escalation carries a summary', async (t) => {
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'chief') return 'Try the key.'
    return messages.at(-1)?.role === 'tool' ? 'open' : calls(['escalate', { reason: 'it is locked' }])
  }
  const agents = [{ ...boss, escalateTo: 'chief' }, { name: 'chief' }]
  const { team, model } = modelTeam(t, answers, agents, { orchestration })
  t.equal((await team.execute(SECRET)).finalOutput, 'open')
  t.match(promptsOf(model.requests, 'chief')[0]?.messages.at(-1)?.content, new RegExp(`"summary": "user: ${SECRET}"`))
})

t.test('so does one whose rounds are used up', async (t) => {
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'chief') return 'Stop.'
    return /Your manager says/.test(textOf(messages.at(-1)?.content ?? ''))
      ? 'stopped'
      : calls(['request', { to: 'bob', content: 'x' }])
  }
  const agents = [
    { ...boss, maxRounds: 1, escalateTo: 'chief' },
    { name: 'chief' },
    { name: 'bob', systemPrompt: 'No.' },
  ]
  const { team, model } = modelTeam(
    t,
    (request, nth) => (request.agent === 'bob' ? 'no' : (answers as Extract<Answers, Function>)(request, nth)),
    agents,
    { orchestration },
  )
  t.equal((await team.execute(SECRET)).finalOutput, 'stopped')
  t.match(promptsOf(model.requests, 'chief')[0]?.messages.at(-1)?.content, /"summary": "user: the vault.*tool: no"/s)
})

t.test('metadata that somebody made up is not shown to who inherits nothing', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [worker()])
  const message = {
    recipient: 'bob',
    content: 'dig',
    requiresResponse: true,
    metadata: { inherited: { text: SECRET } },
  }
  await team.sendMessage(message)
  t.notMatch(JSON.stringify(model.requests[0]?.messages), /vault/)
})

const inheritanceIsSummary = ({ messages }: ModelRequest) => /You sum up/.test(textOf(messages[0]?.content ?? ''))
const inheritanceAsks = (request: ModelRequest, words: RegExp) =>
  words.test(textOf(request.messages.at(-1)?.content ?? ''))
const heir = (name: string, inherit?: 'none' | 'summary' | 'full'): AgentRole => ({ ...worker(inherit), name })

/** The boss plans for those under it, who inherit different parts of its conversation. */
const plannedBy = (key: 'agent' | 'worker', names: readonly string[]): Answers => {
  return (request) => {
    if (inheritanceIsSummary(request)) return 'In short: nine.'
    if (request.agent !== 'boss') return 'dug'
    const tasks = names.map((name) => ({ [key]: name, task: 'dig' }))
    if (request.answerFunction || inheritanceAsks(request, /^Plan /))
      return JSON.stringify({ tasks, reasoning: 'a hole' })
    return request.jsonSchema ? '{"approved":true}' : 'done'
  }
}

for (const workerAutonomy of ['low', 'medium', 'high'] as const)
  t.test(`hierarchical: a worker inherits of its manager's conversation (${workerAutonomy})`, async (t) => {
    const agents = [{ name: 'boss', systemPrompt: 'Lead.' }, heir('bob', 'full'), heir('cid')]
    const { team, model } = modelTeam(t, plannedBy('worker', ['bob', 'cid']), agents, {
      orchestration: { strategy: 'hierarchical', manager: 'boss', workers: ['bob', 'cid'], workerAutonomy },
    })
    const result = await team.execute(SECRET)
    t.equal(result.finalOutput, 'done')
    const inherited = textOf(promptsOf(model.requests, 'bob')[0]?.messages[1]?.content ?? '')
    t.match(inherited, /^What "boss" has of its own conversation about this:\nuser: Plan /)
    t.match(inherited, new RegExp(`${SECRET}[^]*\\nassistant: .*a hole`))
    const heard = promptsOf(model.requests, 'bob').at(-1)?.messages ?? []
    t.equal(heard.filter(({ content }) => /What "boss" has/.test(textOf(content))).length, 1, 'it is told once')
    t.notMatch(JSON.stringify(promptsOf(model.requests, 'cid')), /vault|Lead/)
    t.notMatch(JSON.stringify(promptsOf(model.requests, 'bob')), /Lead\./)
  })

t.test('supervisor: experts inherit a summary of a long conversation, which is paid for once', async (t) => {
  const agents = [{ name: 'boss', maxTokens: 2_000 }, heir('bob', 'summary'), heir('cid', 'summary')]
  const { team, model } = modelTeam(t, plannedBy('agent', ['bob', 'cid']), agents, {
    orchestration: { strategy: 'supervisor', supervisor: 'boss', experts: ['bob', 'cid'] },
  })
  await team.execute(`${SECRET} `.repeat(60))
  for (const agent of ['bob', 'cid'])
    t.match(promptsOf(model.requests, agent)[0]?.messages[1]?.content, /^What "boss" has.*:\nIn short: nine\.$/s)
  t.equal(model.requests.filter(inheritanceIsSummary).length, 1)
})

t.test('where nobody inherits anything the planner passes nothing on', async (t) => {
  for (const [strategy, lead, team] of [
    ['hierarchical', 'manager', 'workers'],
    ['supervisor', 'supervisor', 'experts'],
  ] as const) {
    const orchestration = { strategy, [lead]: 'boss', [team]: ['bob'] } as never
    const played = modelTeam(
      t,
      plannedBy(lead === 'manager' ? 'worker' : 'agent', ['bob']),
      [{ name: 'boss' }, heir('bob', 'none')],
      {
        orchestration,
      },
    )
    const { messageHistory } = await played.team.execute(SECRET)
    t.notMatch(JSON.stringify(messageHistory.map(({ metadata }) => metadata)), /pass|inherited/)
  }
})
