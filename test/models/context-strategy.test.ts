/** What roles without code show their models of a conversation, by the strategy of the role. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import { countMessages, countTools } from '../../src/actors/model/tokens.ts'
import { type ContextStrategy, defineAgent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { localTeam } from '../kit/team.ts'
import { calls, FakeModel } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

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
