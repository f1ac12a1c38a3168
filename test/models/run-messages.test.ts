/** A conversation that its caller keeps: it goes into a run, and comes back with the query and the answer. */
import t from 'tap'
import { z } from 'zod'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { defineTool, type RunOptions } from '../../src/index.ts'
import { localTeam } from '../kit/team.ts'
import { type Answers, calls, type FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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
