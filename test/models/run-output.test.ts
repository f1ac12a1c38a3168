/** Conversations that go into a run, and the answer by a schema that comes of it. */
import t from 'tap'
import { z } from 'zod'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { createTeam, defineTool, type RunOptions } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { askFor } from '../../src/protocols.ts'
import { localTeam } from '../kit/team.ts'
import { type Answers, calls, type FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

// The answer of a run by a schema of its caller.

const output = z.object({ x: z.string().transform(Number) })
const pair = [{ name: 'ann' }, { name: 'bob' }]
const JSON_TEXT = '{"x":"5"}'

t.test('the last speaker answers in the schema of the run, and nobody else', async (t) => {
  const answers: Answers = ({ agent }) => (agent === 'bob' ? JSON_TEXT : 'in words')
  const { team, model } = modelTeam(t, answers, pair)
  const result = await team.execute('go', { output })
  t.match(result, { success: true, data: { x: 5 }, finalOutput: JSON_TEXT })
  t.same(result.agentOutputs.bob, [{ content: JSON_TEXT, structuredData: { x: '5' } }])
  const schemas = model.requests.map(({ agent, jsonSchema }) => [agent, jsonSchema !== undefined])
  t.same(schemas, [
    ['ann', false],
    ['bob', true],
  ])
})

t.test('an answer that misses it is asked for once more, with what is wrong', async (t) => {
  const { team, model } = modelTeam(t, ['{"x":5}', JSON_TEXT], [{ name: 'ann' }])
  t.match(await team.execute('go', { output }), { data: { x: 5 } })
  t.match(model.requests[1]?.messages.at(-1)?.content, /misses the JSON schema.*x: .*string/)
  const { team: hopeless } = modelTeam(t, () => 'words', [{ name: 'ann' }])
  t.match((await hopeless.execute('go', { output })).error, { code: 'AGENT_FAILED', message: /ModelError.*twice/ })
})

t.test('each strategy knows who speaks last', async (t) => {
  const strategies: [orchestration: OrchestrationConfig, last: string[]][] = [
    [{ strategy: 'parallel', agents: ['ann'] }, ['ann']],
    [{ strategy: 'parallel', agents: ['ann'], aggregationStrategy: 'custom', aggregator: 'bob' }, ['bob']],
    [{ strategy: 'parallel', aggregationStrategy: 'vote' }, ['ann', 'bob']],
    [{ strategy: 'blackboard', agents: ['ann'], synthesizer: 'bob' }, ['bob']],
    [
      {
        strategy: 'custom',
        async run(script, query) {
          await script.request('ann', query)
          return (await script.request('bob', query, { metadata: { lastSpeaker: true } })).content
        },
      },
      ['bob'],
    ],
  ]
  for (const [orchestration, last] of strategies) {
    const publishes = calls(['publish', { key: 'x', value: 5, entryType: 'fact' }])
    const answers: Answers = ({ tools = [], messages }) =>
      tools.some(({ name }) => name === 'publish') && messages.at(-1)?.role === 'user' ? publishes : JSON_TEXT
    const { team, model } = modelTeam(t, answers, pair, { orchestration })
    t.match(await team.execute('go', { output }), { data: { x: 5 } }, orchestration.strategy)
    const asked = model.requests.flatMap(({ agent, jsonSchema }) => (jsonSchema ? [agent] : []))
    t.same(asked.sort(), last)
  }
})

t.test('an agent that is run alone speaks last', async (t) => {
  const { team, model } = modelTeam(t, [JSON_TEXT], [{ name: 'ann' }])
  t.equal(await team.getAgent('ann')?.run('go', { output: output as never }), JSON_TEXT)
  t.ok(model.requests[0]?.jsonSchema)
})

t.test('the text of an answer may be JSON that fits the schema', async (t) => {
  const orchestration: OrchestrationConfig = { strategy: 'custom', run: async () => `\`\`\`json\n${JSON_TEXT}\n\`\`\`` }
  const { team } = modelTeam(t, [], pair, { orchestration })
  t.match(await team.execute('go', { output }), { data: { x: 5 } })
  t.match(await team.execute('go', { output: z.string() }), { data: /^```json/ })
})

t.test('the output of a team is that of each run which brings none of its own', async (t) => {
  for (const ofTeam of [output, { type: 'object', properties: { x: { type: 'string' } }, required: ['x'] }]) {
    const { team, model } = modelTeam(t, () => JSON_TEXT, [{ name: 'ann' }], { output: ofTeam })
    t.match(await team.execute<unknown>('go'), { success: true, data: { x: ofTeam === output ? 5 : '5' } })
    t.match(await team.execute('go', { output: z.object({ x: z.literal('5') }) }), { data: { x: '5' } })
    const { team: wordy } = modelTeam(t, () => 'words', [{ name: 'ann' }], { output: ofTeam })
    t.match(await wordy.execute('go'), { success: false })
    t.equal(await wordy.getAgent('ann')?.run('go'), 'words', 'an agent alone is no run of the team')
    t.ok(model.requests.every(({ jsonSchema }) => jsonSchema))
  }
})

t.test('the output of a role is asked of it, whoever asks, unless a request brings its own', async (t) => {
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    async run(script) {
      const { structuredData } = await script.request('ann', 'in the schema of the role')
      const { value } = await askFor(script, 'ann', 'in another one', z.object({ y: z.number() }))
      return JSON.stringify([structuredData, value])
    },
  }
  const answers: Answers = ({ jsonSchema }) => (JSON.stringify(jsonSchema).includes('"y"') ? '{"y":1}' : JSON_TEXT)
  const { team } = modelTeam(t, answers, [{ name: 'ann', output }, { name: 'bob' }], { orchestration })
  t.match(await team.execute('go'), { finalOutput: '[{"x":"5"},{"y":1}]', data: undefined })
})

t.test('an answer that misses the output of its role is asked for once more, then its turn fails', async (t) => {
  const { team, model } = modelTeam(t, ['{"x":5}', JSON_TEXT, 'words', 'words'], [{ name: 'ann', output }])
  t.match(await team.execute('go'), { success: true })
  t.match(model.requests[1]?.messages.at(-1)?.content, /misses the JSON schema.*x: .*string/)
  t.match((await team.execute('go')).error, { code: 'AGENT_FAILED', message: /ModelError.*twice/ })
})

t.test('a run without a schema has its data from the role that speaks last', async (t) => {
  const answers: Answers = ({ agent, jsonSchema }) => (jsonSchema && agent === 'bob' ? JSON_TEXT : 'in words')
  const { team } = modelTeam(t, answers, [{ name: 'ann' }, { name: 'bob', output }])
  t.match(await team.execute<unknown>('go'), { finalOutput: JSON_TEXT, data: { x: 5 } })
  t.match(
    await team.execute('go', { output: z.object({ x: z.string() }) }),
    { data: { x: '5' } },
    'that of the run first',
  )
  const { team: other } = modelTeam(t, ({ agent }) => (agent === 'ann' ? JSON_TEXT : 'in words'), [
    { name: 'ann', output },
    { name: 'bob' },
  ])
  t.match(await other.execute('go'), { finalOutput: 'in words', data: undefined })
})

t.test('an output that no model can be asked in is refused', (t) => {
  const wrong: [options: object, path: string][] = [
    [{ output: 'x' }, 'output'],
    [{ output: { type: 'nonsense' } }, 'output'],
    [{ output: z.date() }, 'output'],
    [{ agents: [{ name: 'ann', output: 5 }] }, 'agents[0].output'],
    [{ agents: [{ name: 'ann', module: new URL('file:///a.js'), output }] }, 'agents[0].output'],
  ]
  const orchestration = { strategy: 'sequential' } as const
  for (const [options, path] of wrong)
    t.throws(() => createTeam({ agents: [{ name: 'ann' }], orchestration, ...options }), {
      code: 'CONFIGURATION',
      details: { path },
    })
  t.end()
})

// A conversation that its caller keeps: it goes into a run, and comes back with the query and the answer.

const said = ({ requests }: FakeModel, nth: number) =>
  requests[nth]!.messages.slice(1).map(({ role, content }) => `${role}: ${content}`)

const user = (content: string): ModelMessage => ({ role: 'user', content })
const assistant = (content: string): ModelMessage => ({ role: 'assistant', content })

const add = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
})

t.test('a run begins with the messages that it is given, and gives them back with its own', async (t) => {
  const { team, model } = modelTeam(
    t,
    ['Hello Ann', 'You are Ann', 'Still Ann'],
    [{ name: 'bot', systemPrompt: 'Be.' }],
  )
  const first = await team.execute('I am Ann')
  t.same(first.messages, [user('I am Ann'), assistant('Hello Ann')])
  const second = await team.execute('Who am I?', { messages: first.messages })
  t.same(second.messages, [...first.messages, user('Who am I?'), assistant('You are Ann')])
  t.same(said(model, 1), ['user: I am Ann', 'assistant: Hello Ann', 'user: Who am I?'])
  await team.execute('And now?', { messages: second.messages })
  t.equal(said(model, 2).length, 5)
})

t.test('calls of tools and their results are a part of it, for models that have tools', async (t) => {
  const answers: Answers = [calls(['add', { a: 1, b: 2 }]), 'three', 'yes', 'no tools here']
  const { team, model } = modelTeam(t, answers, [{ name: 'bot', tools: ['add'] }], { tools: [add] })
  const { messages } = await team.execute('1 + 2?')
  t.match(messages, [
    user('1 + 2?'),
    { role: 'assistant', toolCalls: [{ name: 'add', input: '{"a":1,"b":2}' }] },
    { role: 'tool', content: '3' },
    assistant('three'),
  ])
  await team.execute('Sure?', { messages })
  t.match(model.requests[2]!.messages.slice(1), [...messages, user('Sure?')])
  const { team: plain, model: other } = modelTeam(t, ['fine'], [{ name: 'bot' }])
  await plain.execute('Sure?', { messages })
  t.same(
    other.requests[0]!.messages.filter(({ role }) => role !== 'system'),
    [user('1 + 2?'), assistant('three'), user('Sure?')],
  )
})

t.test('all model agents of the team begin with it; its end is the query and the answer of the team', async (t) => {
  const { team, model } = modelTeam(t, ({ agent }) => `${agent} speaks`, [{ name: 'ann' }, { name: 'bob' }])
  const messages = [user('before'), assistant('then')]
  const result = await team.execute('go', { messages })
  t.ok(model.requests.every(({ messages: shown }) => shown.some(({ content }) => content === 'then')))
  t.same(result.messages, [...messages, user('go'), assistant('bob speaks')])
})

t.test('an agent with several threads, which remembers nothing, begins with it too', async (t) => {
  const { team, model } = modelTeam(t, () => 'yes', [{ name: 'bot', instances: 2 }])
  await team.execute('now', { messages: [user('before'), assistant('then')] })
  t.match(
    model.requests[0]!.messages.filter(({ role }) => role !== 'system'),
    [user('before'), assistant('then'), user('now')],
  )
})

t.test('a run that fails adds nothing, one of code its query and its answer', async (t) => {
  const { team } = modelTeam(t, () => [new Error('no')], [{ name: 'bot' }])
  const messages = [user('before'), assistant('then')]
  t.same((await team.execute('now', { messages })).messages, messages)
  const coded = localTeam(t, { ann: () => 'by code' })
  t.same((await coded.execute('go')).messages, [user('go'), assistant('by code')])
})

t.test('what is no conversation is refused, with the field and what is accepted', async (t) => {
  const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }])
  const wrong: [messages: unknown, said: RegExp][] = [
    ['text', /messages: got "text"; accepted: a list of messages/],
    [[5], /messages\[0\]: got 5/],
    [[{ role: 'system', content: 'x' }], /messages\[0\]\.role.*systemPrompt/],
    [[{ role: 'user' }], /messages\[0\]\.content/],
    [[{ role: 'user', content: [{ type: 'video' }] }], /messages\[0\]\.content\[0\]\.type/],
    [[{ role: 'user', content: 'x', name: 'y' }], /messages\[0\]\.name: got a field that a message does not have/],
    [[{ role: 'user', content: 'x', toolCalls: [] }], /messages\[0\]\.toolCalls/],
    [[{ role: 'assistant', content: '', toolCalls: [{ id: 'a', name: 'b' }] }], /messages\[0\]\.toolCalls\[0\]\.input/],
    [[{ role: 'tool', content: 'x' }], /messages\[0\]\.toolCallId/],
    [[{ role: 'tool', content: 'x', toolCallId: 'a' }], /messages\[0\]\.toolCallId: got "a".*earlier message/],
    [Array.from({ length: 2_001 }, () => user('x')), /2001 messages; accepted: at most 2000/],
    [[user('x'.repeat(2 ** 22 + 1))], /4194305 characters/],
  ]
  for (const [messages, said] of wrong)
    t.throws(() => team.launch('go', { messages } as RunOptions), { code: 'CONFIGURATION', message: said })
})

t.test('a thread begins with the messages that its first run is given, and keeps its own later', async (t) => {
  const { team, model } = modelTeam(t, ['You are Ann', 'Still Ann', 'Ann'], [{ name: 'bot', systemPrompt: 'Be.' }])
  const messages = [user('I am Ann'), assistant('Hello Ann')]
  await team.execute('Who am I?', { threadId: 'one', messages })
  await team.execute('And now?', { threadId: 'one' })
  const all = ['user: I am Ann', 'assistant: Hello Ann', 'user: Who am I?', 'assistant: You are Ann', 'user: And now?']
  t.same(said(model, 1), all)
  await team.execute('And then?', { threadId: 'one', messages: [user('I am Bob')] })
  t.same(said(model, 2), [...all, 'assistant: Still Ann', 'user: And then?'])
})

t.test('what the runtime tells a model within a turn is no part of it', async (t) => {
  const answers: Answers = ({ messages }) =>
    String(messages.at(-1)?.content).startsWith('No progress') ? 'three' : calls(['add', { a: 1, b: 2 }])
  const { team, model } = modelTeam(t, answers, [{ name: 'bot', tools: ['add'] }], { tools: [add] })
  t.same((await team.execute('1 + 2?')).messages, [user('1 + 2?'), assistant('three')])
  t.ok(model.requests.length > 2)
})

t.test('large media do not count for its length', async (t) => {
  const { team } = modelTeam(t, () => 'a dot', [{ name: 'bot' }])
  const image = { type: 'image', data: new Uint8Array(5_000_000), mediaType: 'image/png' } as const
  const { messages } = await team.execute([{ type: 'text', text: 'What is it?' }, image])
  const kept = JSON.parse(JSON.stringify(messages)) as ModelMessage[]
  t.match(await team.execute('Sure?', { messages: kept }), { success: true, finalOutput: 'a dot' })
})

t.test('agents of code, and those that a run makes, do not begin with it', async (t) => {
  const messages = [user('before'), assistant('then')]
  const coded = localTeam(t, { ann: (_message, context) => JSON.stringify(context.runState ?? null) })
  const plain = (await coded.execute('go')).finalOutput
  t.equal((await coded.execute('go', { messages })).finalOutput, plain)
  const answers: Answers = ({ agent, messages }) => {
    if (agent === 'dan') return messages.some(({ content }) => content === 'then') ? 'I know' : 'I am new'
    const made = messages.filter(({ role }) => role === 'tool').length
    if (made === 0) return calls(['spawn', { name: 'dan', systemPrompt: 'You are new.' }])
    return made === 1 ? calls(['request', { to: 'dan', content: 'who?' }]) : String(messages.at(-1)?.content)
  }
  const ann = { name: 'ann', trust: 'privileged' as const, tools: ['request'] }
  const { team } = modelTeam(t, answers, [ann])
  t.equal((await team.execute('go', { messages })).finalOutput, 'I am new')
})

t.test('an exchange of the caller is not taken for that of the run', async (t) => {
  const { team: asked } = modelTeam(t, [calls(['add', { a: 1, b: 2 }]), '3'], [{ name: 'bot', tools: ['add'] }], {
    tools: [add],
  })
  const { messages } = await asked.execute('1 + 2?')
  t.equal(messages.length, 4)
  const { team } = modelTeam(t, () => [new Error('no')], [{ name: 'bot', tools: ['add'] }], {
    tools: [add],
    orchestration: {
      strategy: 'custom',
      run: (script, query) =>
        script.request('bot', query).then(
          ({ content }) => content,
          () => '3',
        ),
    },
  })
  t.same((await team.execute('1 + 2?', { messages })).messages, [...messages, user('1 + 2?'), assistant('3')])
})
