/** What one agent's model gets to see of another's conversation: nothing, unless a role says otherwise. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentRole, defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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

const isSummary = ({ messages }: ModelRequest) => /You sum up/.test(textOf(messages[0]?.content ?? ''))
const asks = (request: ModelRequest, words: RegExp) => words.test(textOf(request.messages.at(-1)?.content ?? ''))
const heir = (name: string, inherit?: 'none' | 'summary' | 'full'): AgentRole => ({ ...worker(inherit), name })

/** The boss plans for those under it, who inherit different parts of its conversation. */
const plannedBy = (key: 'agent' | 'worker', names: readonly string[]): Answers => {
  return (request) => {
    if (isSummary(request)) return 'In short: nine.'
    if (request.agent !== 'boss') return 'dug'
    const tasks = names.map((name) => ({ [key]: name, task: 'dig' }))
    if (request.answerFunction || asks(request, /^Plan /)) return JSON.stringify({ tasks, reasoning: 'a hole' })
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
  t.equal(model.requests.filter(isSummary).length, 1)
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
