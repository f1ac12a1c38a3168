import t from 'tap'
import type { ModelMessage } from '../../../src/actors/definition/model.ts'
import { countPrompt, countTokens } from '../../../src/actors/model/tokens.ts'
import { rehearsalModel } from '../../../src/testing.ts'
import { ask } from './pieces.ts'

const tool = (name: string, properties: object) => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
})
const SEARCH = tool('search', { query: { type: 'string' } })
const ADD = tool('add', { a: { type: 'number' }, b: { type: 'number' } })

t.test('it says that it is none, and what it was asked', async (t) => {
  const model = rehearsalModel()
  t.equal(model.rehearsal, true)
  const { text, finishReason } = await ask(model, 'REST or\n  GraphQL?', { agent: 'critic' })
  t.match(text, /^\[rehearsal\] critic was asked "REST or GraphQL\?"\. /)
  t.equal(finishReason, 'stop')
})

t.test('a long question is quoted in short, and its label is not said again', async (t) => {
  const { text } = await ask(rehearsalModel(), `[rehearsal] ${'why '.repeat(10_000)}`)
  t.ok(text.length < 400, text)
  t.equal(text.split('[rehearsal]').length, 2)
})

t.test('its text comes in several pieces', async (t) => {
  const { texts } = await ask(rehearsalModel(), 'why?')
  t.ok(texts.length > 2, JSON.stringify(texts))
})

t.test('the same seed and question have the same answer, whatever else was asked', async (t) => {
  const [one, other] = [rehearsalModel(7), rehearsalModel(7)]
  const questions = ['a', 'b', 'c', 'd', 'e', 'f']
  const forth = await Promise.all(questions.map((question) => ask(one, question, { agent: 'ann' })))
  await ask(other, 'something else', { agent: 'bob' })
  const back = await Promise.all(questions.toReversed().map((question) => ask(other, question, { agent: 'ann' })))
  t.same(forth, back.toReversed())
  const text = async (seed: number, agent: string) => {
    const { toolCalls } = await ask(rehearsalModel(seed), 'a', { agent, tools: [ADD] })
    return toolCalls[0]!.input
  }
  t.not(await text(7, 'ann'), await text(8, 'ann'), 'another seed')
  t.not(await text(7, 'ann'), await text(7, 'bob'), 'another agent')
})

t.test('the ids of an earlier call change nothing', async (t) => {
  const said = (id: string): ModelMessage[] => [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: '', toolCalls: [{ id, name: 'search', input: '{}' }] },
    { role: 'tool', content: 'found', toolCallId: id },
  ]
  t.same(
    await ask(rehearsalModel(), said('x'), { runId: 'r1' }),
    await ask(rehearsalModel(), said('y'), { runId: 'r2' }),
  )
})

t.test('asked for JSON it answers with a value that fits', async (t) => {
  const properties = { plan: { type: 'string' }, steps: { type: 'integer', minimum: 3, maximum: 5 } }
  const jsonSchema = { type: 'object', properties, required: ['plan', 'steps'], additionalProperties: false }
  const answerFunction = { name: 'create_plan', description: 'Plans.' }
  for (const wanted of [{ jsonSchema }, { jsonSchema, answerFunction }]) {
    const { text, texts } = await ask(rehearsalModel(), 'Plan it.', wanted)
    const { plan, steps } = JSON.parse(text)
    t.equal(plan, '[rehearsal] plan')
    t.ok([3, 4, 5].includes(steps))
    t.ok(texts.length > 0)
  }
})

t.test('tools are called once, with arguments that fit; then it says what they answered', async (t) => {
  const model = rehearsalModel()
  const tools = [SEARCH, ADD]
  const first = await ask(model, 'What is new?', { tools })
  t.same([first.finishReason, first.text], ['tool_calls', ''])
  t.same(
    first.toolCalls.map(({ name }) => name),
    ['search', 'add'],
  )
  t.equal(new Set(first.toolCalls.map(({ id }) => id)).size, 2)
  t.match(JSON.parse(first.toolCalls[0]!.input), { query: /^\[rehearsal\] query$/ })
  t.match(JSON.parse(first.toolCalls[1]!.input), { a: Number, b: Number })
  const [search, add] = first.toolCalls
  const conversation: ModelMessage[] = [
    { role: 'user', content: 'What is new?' },
    { role: 'assistant', content: '', toolCalls: first.toolCalls },
    { role: 'tool', content: 'Nothing.', toolCallId: search!.id },
    { role: 'tool', content: '42', toolCallId: add!.id },
  ]
  const second = await ask(model, conversation, { tools })
  t.same(second.toolCalls, [])
  t.match(second.text, /was asked "What is new\?"\. search said "Nothing\."\. add said "42"\./)
  const again = await ask(model, [...conversation, { role: 'user', content: 'And now?' }], { tools })
  t.equal(again.toolCalls.length, 2, 'a new question')
})

t.test('tools come before JSON', async (t) => {
  const jsonSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const { toolCalls, text } = await ask(rehearsalModel(), 'go', { tools: [ADD], jsonSchema })
  t.same([toolCalls.length, text], [1, ''])
})

t.test('what a role may do with its team it does not do by chance', async (t) => {
  const names = ['request', 'delegate', 'publish', 'handoff', 'escalate', 'refuse', 'spawn']
  const tools = names.map((name) => tool(name, { to: { type: 'string' } }))
  const { toolCalls, text } = await ask(rehearsalModel(), 'go', { tools })
  t.same(toolCalls, [])
  t.match(text, /was asked "go"/)
})

t.test('its usage is what it was asked and has said', async (t) => {
  const messages: ModelMessage[] = [{ role: 'user', content: 'How many tokens are there in this?' }]
  const { usage, texts } = await ask(rehearsalModel(), messages, { model: 'gpt-4o' })
  const outputTokens = texts.reduce((sum, text) => sum + countTokens(text, 'gpt-4o'), 0)
  const inputTokens = countPrompt({ messages, model: 'gpt-4o' })
  t.same(usage, { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 })
})

t.test('it is cut off at maxOutputTokens', async (t) => {
  for (const maxOutputTokens of [0, 1, 5, 10]) {
    const { usage, finishReason, text } = await ask(rehearsalModel(), 'a question of some words', { maxOutputTokens })
    t.equal(finishReason, 'length')
    t.ok(usage!.outputTokens <= maxOutputTokens && countTokens(text) <= maxOutputTokens, text)
  }
  t.same((await ask(rehearsalModel(), 'go', { tools: [ADD], maxOutputTokens: 2 })).toolCalls, [])
})

t.test('its signal ends it between two pieces', async (t) => {
  const controller = new AbortController()
  const reason = new Error('enough')
  const { signal } = controller
  const pieces = rehearsalModel().complete({ model: 'test', messages: [{ role: 'user', content: 'go' }], signal })
  const heard: unknown[] = []
  const listening = (async () => {
    for await (const { text } of pieces) {
      heard.push(text)
      controller.abort(reason)
    }
  })()
  await t.rejects(listening, reason)
  t.equal(heard.length, 1)
  await t.rejects(ask(rehearsalModel(), 'go', { signal: AbortSignal.abort(reason) }), reason)
})
