/** Roles that models play: what the role says, which options reach the provider, what it costs. */
import t from 'tap'
import { z } from 'zod'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import type { ModelOptions } from '../../src/actors/definition/model-options.ts'
import { type AgentContext, createTeam, defineAgent, defineTool, type RuntimeEvent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { rehearse, testAgent, testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, heard, localTeam, silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { calls, FakeModel, USAGE } from './fake-model.ts'
import { quietly } from './notices.ts'
import { modelTeam, played } from './teams.ts'

// A role without code is played by a model.

t.test('a role without code answers with what its model says', async (t) => {
  const { team, model } = modelTeam(t, ['forty-two'], [{ name: 'oracle', systemPrompt: 'You know everything.' }])
  const result = await team.execute('What is it?')
  t.equal(result.finalOutput, 'forty-two')
  t.same(model.requests[0]!.messages, [
    { role: 'system', content: 'You know everything.' },
    { role: 'user', content: 'What is it?' },
  ])
  t.same(result.tokenUsage.oracle, USAGE)
  t.same(result.totalTokenUsage, USAGE)
  t.same(team.getAgent('oracle')?.getTokenUsage(), USAGE)
})

t.test('an answer without a word that its model did not end by itself fails the turn, and says why', async (t) => {
  for (const [finishReason, why] of [
    ['content_filter', /withheld it \(content_filter\)/],
    ['length', /used up before the first word\. Raise maxOutputTokens/],
  ] as const) {
    const { team } = modelTeam(t, [[{ finishReason }]], [{ name: 'ann' }])
    const none = await team.execute('What is it?')
    t.match(none, { success: false, error: { code: 'AGENT_FAILED', message: why } })
  }
})

t.test('an answer that is cut off goes on as it is, and a warning says so', async (t) => {
  for (const [finishReason, why] of [
    ['content_filter', 'the provider withheld its rest (content_filter). Ask in another way, or take another model.'],
    ['length', 'its tokens were used up (length). Raise maxOutputTokens, or ask for less.'],
  ] as const) {
    const { logger, lines } = quietly()
    const { team } = modelTeam(t, [[{ text: 'Well' }, { finishReason }], 'Whole.'], [{ name: 'ann' }], { logger })
    t.match(await team.execute('What is it?'), { success: true, finalOutput: 'Well' })
    await team.execute('And now?')
    t.strictSame(lines, [`warn The answer of "ann" was cut off: ${why}`])
  }
})

t.test('it remembers what was said in the same run, and nothing of others', async (t) => {
  const { team, model } = modelTeam(t, ['one', 'two', 'three'], [{ name: 'ann', systemPrompt: 'Count.' }], {
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        await script.request('ann', `${query} first`)
        return (await script.request('ann', `${query} second`)).content
      },
    },
  })
  await team.execute('a')
  const said = (messages: readonly ModelMessage[]) => messages.map(({ role, content }) => `${role}: ${content}`)
  t.same(said(model.requests[1]!.messages), ['system: Count.', 'user: a first', 'assistant: one', 'user: a second'])
  await ask(team, 'ann', 'b')
  t.same(said(model.requests[2]!.messages), ['system: Count.', 'user: b'])
})

// What a role says of its model. Requirements P1, P31; how a model is asked is in think.test.ts.

t.test('each role has the model that it names, at its own address and with its own key', async (t) => {
  const [small, large] = [await modelServer(t), await modelServer(t)]
  for (const server of [small, large]) server.always(({ body }) => `I am ${body.model}.`)
  const agents = [{ name: 'scout', model: 'quick' }, { name: 'judge', model: 'careful' }, { name: 'ann' }]
  const models = {
    quick: { model: 'small-1', baseURL: small.baseURL, apiKey: 'key-of-the-small-one' },
    careful: { model: 'large-1', baseURL: large.baseURL, apiKey: 'key-of-the-large-one' },
    default: new FakeModel(['I am the default.']),
  }
  const team = testTeam({ agents, models, orchestration: { strategy: 'parallel' }, logger: silent })
  t.teardown(() => team.close())
  const { agentOutputs } = await team.execute('Who are you?')
  t.match(agentOutputs, {
    scout: [{ content: 'I am small-1.' }],
    judge: [{ content: 'I am large-1.' }],
    ann: [{ content: 'I am the default.' }],
  })
  const asked = (server: typeof small) => server.calls.map(({ key, body }) => [key, body.model])
  t.same(asked(small), [['key-of-the-small-one', 'small-1']])
  t.same(asked(large), [['key-of-the-large-one', 'large-1']])
})

t.test('maxRounds is 12 where the role says nothing', async (t) => {
  const asksBob = calls(['request', { to: 'bob', content: 'again' }])
  const rounds = async (role: object) => {
    let nth = 0
    const model = new FakeModel(({ agent }) => (agent === 'bob' ? `no ${nth++}` : asksBob))
    const { team } = modelTeam(t, model, [{ name: 'ann', canDelegateTo: ['bob'], ...role }, { name: 'bob' }], {
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    })
    t.match((await team.execute('go')).error, { code: 'TASK_REFUSED' })
    return model.requests.filter(({ agent }) => agent === 'ann').length
  }
  t.equal(await rounds({}), 12)
  t.equal(await rounds({ maxRounds: 3 }), 3)
})

// Teams that have no model: the rehearsal model plays their roles, and says so.

const agents = [{ name: 'ann' }, { name: 'bob' }]
const orchestration = { strategy: 'sequential' } as const

t.test('a team that asks for it is rehearsed, labelled everywhere, without a notice', async (t) => {
  const { logger, lines } = quietly()
  const team = testTeam({ agents, orchestration, models: 'rehearsal', logger })
  t.teardown(() => team.close())
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  const result = await team.execute('REST or GraphQL?')
  t.match(result, { success: true, rehearsed: true, finalOutput: /^\[rehearsal\] bob was asked/ })
  t.ok(result.totalTokenUsage.inputTokens > 10 && result.totalTokenUsage.calls === 2)
  const called = events.filter(({ type }) => type === 'model.called')
  t.match(called, [{ rehearsed: true }, { rehearsed: true }])
  t.same(lines, [])
})

t.test('the same team says the same again', async (t) => {
  const said = async () => {
    const team = testTeam({ agents, orchestration, models: 'rehearsal' })
    const { finalOutput } = await team.execute('Why?')
    await team.close()
    return finalOutput
  }
  t.equal(await said(), await said())
})

t.test('an answer in a schema fits it', async (t) => {
  const team = testTeam({ agents, orchestration, models: 'rehearsal' })
  t.teardown(() => team.close())
  const output = z.object({ winner: z.enum(['REST', 'GraphQL']), points: z.int().min(1).max(10) })
  const result = await team.execute('REST or GraphQL?', { output })
  t.ok(result.success && output.safeParse(result.data).success)
})

t.test('without a model and a key it is rehearsed with one notice; in production that is an error', async (t) => {
  const { logger, lines } = quietly()
  const options = { agents, orchestration, logger }
  const settings = settingsFrom(options, { env: {} })
  for (const path of ['first', 'second']) t.equal(settings.models.resolve(undefined, path).client.rehearsal, true)
  t.match(lines, ['warn no model is configured, so the rehearsal model answers'])
  t.equal(lines.length, 1)
  t.throws(() => settingsFrom(options, { env: { NODE_ENV: 'production' } }), {
    code: 'CONFIGURATION',
    details: { path: 'agents[0].module' },
  })
  t.ok(settingsFrom({ ...options, models: 'rehearsal' }, { env: { NODE_ENV: 'production' } }))
})

t.test('it can be played through many schedules', async (t) => {
  const options = { agents, orchestration, models: 'rehearsal' } as const
  const plan = { query: 'REST or GraphQL?', seeds: 5 }
  const { outcomes, failures } = await rehearse(options, { ...plan, faults: ['crash', 'delay'] })
  t.same(failures, [])
  t.equal(outcomes.done, 5)
})

// Options of model calls: by the team's model, the role and the call, and how they reach a provider.

const everyOption: Required<ModelOptions> = {
  temperature: 0.1,
  topP: 0.9,
  stop: ['END'],
  seed: 7,
  reasoningEffort: 'low',
  toolChoice: 'required',
  parallelToolCalls: false,
  strict: true,
  promptCaching: true,
  headers: { 'x-desk': 'one' },
  extraBody: { top_k: 3 },
  providerOptions: { local: { mode: 'fast' } },
  maxOutputTokens: 50,
}

t.test('each option reaches a provider under the name that chat completions have for it', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const inputSchema = { type: 'object', properties: { a: { type: 'object', properties: {} } }, required: ['a'] }
  const tools = [{ name: 'add', description: 'Adds.', inputSchema }]
  await piecesOf(clientOf(server), { tools, jsonSchema: inputSchema, ...everyOption })
  const [{ body, headers }] = server.calls as [(typeof server.calls)[number]]
  const closed = {
    additionalProperties: false,
    ...inputSchema,
    properties: { a: { additionalProperties: false, type: 'object', properties: {} } },
  }
  t.match(body, {
    temperature: 0.1,
    top_p: 0.9,
    stop: ['END'],
    seed: 7,
    reasoning_effort: 'low',
    tool_choice: 'required',
    parallel_tool_calls: false,
    max_tokens: 50,
    top_k: 3,
  })
  t.same(body.tools, [
    { type: 'function', function: { name: 'add', description: 'Adds.', parameters: closed, strict: true } },
  ])
  t.same(body.response_format, { type: 'json_schema', json_schema: { name: 'answer', schema: closed, strict: true } })
  t.equal(headers['x-desk'], 'one')
  t.notOk(JSON.stringify(body).includes('fast'), 'options of another provider are not sent')
})

t.test('a request without options has none', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  await piecesOf(clientOf(server), {})
  t.strictSame(Object.keys(server.calls[0]!.body).sort(), ['messages', 'model', 'stream'])
})

t.test('a tool is chosen by its name', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const tools = [{ name: 'add', description: 'Adds.', inputSchema: { type: 'object' } }]
  await piecesOf(clientOf(server), { tools, toolChoice: { tool: 'add' } })
  t.same(server.calls[0]!.body.tool_choice, { type: 'function', function: { name: 'add' } })
  await piecesOf(clientOf(server), { toolChoice: 'required' })
  t.notOk('tool_choice' in server.calls[1]!.body, 'nothing is chosen where nothing is offered')
})

t.test('the call has precedence over its role, and the role over the model of the team', async (t) => {
  const server = await modelServer(t)
  server.always('Done.')
  const models = {
    default: { model: 'small', baseURL: server.baseURL, apiKey: 'none', seed: 1, topP: 0.1, reasoningEffort: 'high' },
  }
  const ann = async (_message: unknown, context: AgentContext) =>
    (await context.complete({ prompt: 'a', seed: 3 })).text
  const team = localTeam(t, { ann }, { models, roles: { ann: { topP: 0.5, seed: 2 } } })
  await team.execute('q')
  t.match(server.calls[0]!.body, { seed: 3, top_p: 0.5, reasoning_effort: 'high' })
})

t.test('a choice that demands a tool holds until the model has called one', async (t) => {
  const tool = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' })
  const { team, model } = modelTeam(
    t,
    [calls(['nothing_like_it', {}]), calls(['look', {}]), 'Done.'],
    [{ name: 'ann', systemPrompt: 'Look.', tools: [tool], toolChoice: 'required' }],
  )
  t.equal((await team.execute('q')).finalOutput, 'Done.')
  t.same(pluck(model.requests, 'toolChoice'), ['required', 'required', undefined])
})

t.test('tokens of reasoning are counted apart', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: 'Done.', usage: { inputTokens: 3, outputTokens: 9, reasoningTokens: 7 } })
  const pieces = await piecesOf(clientOf(server), {})
  t.match(pieces[1], { usage: { outputTokens: 9, reasoningTokens: 7, totalTokens: 12 } })
})

const wrong: [keyof ModelOptions, unknown][] = [
  ['topP', 0],
  ['topP', 1.1],
  ['stop', []],
  ['stop', ['']],
  ['stop', 'END'],
  ['seed', 1.5],
  ['reasoningEffort', 'very much so'],
  ['toolChoice', 'any'],
  ['toolChoice', { tool: '' }],
  ['parallelToolCalls', 1],
  ['strict', 'yes'],
  ['headers', { 'a b': 'c' }],
  ['headers', { a: 'c\nd: e' }],
  ['extraBody', []],
  ['extraBody', { f: () => {} }],
  ['providerOptions', { openai: 1 }],
]

t.test('a wrong option is named, in a call, in a role and in a model', async (t) => {
  for (const [option, value] of wrong) {
    const { error, model } = await played(t, [], (context) => context.complete({ prompt: 'a', [option]: value }))
    t.match(error, { code: 'MESSAGE_REJECTED', details: { path: option } }, option)
    t.equal(model.requests.length, 0)
    const orchestration = { strategy: 'sequential' } as const
    const role = { name: 'ann', systemPrompt: 'a', [option]: value }
    t.throws(() => createTeam({ agents: [role], orchestration, models: 'rehearsal' }), {
      code: 'CONFIGURATION',
      details: { path: `agents[0].${option}` },
    })
    const models = { default: { model: 'm', apiKey: 'k', [option]: value } }
    t.throws(() => createTeam({ agents: [{ name: 'ann', systemPrompt: 'a' }], orchestration, models }), {
      code: 'CONFIGURATION',
      details: { path: `models.default.${option}` },
    })
  }
})

t.test('a secret in a header of a model is taken out of what leaves the team', async (t) => {
  const server = await modelServer(t)
  const secret = 'gateway-secret-0815'
  server.always(`The header is ${secret}.`)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Be brief.' }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: { model: 'm', baseURL: server.baseURL, apiKey: 'none', headers: { Authorization: `Basic ${secret}` } },
    },
    logger: silent,
  })
  t.teardown(() => team.close())
  const result = await team.execute('q')
  t.equal(server.calls[0]!.headers.authorization, `Basic ${secret}`)
  t.notMatch(JSON.stringify(result), secret)
})

// What models cost: in events, results, runs and agents.

t.test('each call is an event', async (t) => {
  const { events } = await played(t, ['a', [new Error('down')]], async (context) => {
    await context.complete({ prompt: '1' })
    await context.complete({ prompt: '2' }).catch(() => {})
  })
  t.match(where(events, 'type', 'model.called'), [
    { agent: 'ann', model: 'default', usage: USAGE, durationMs: 0, rehearsed: false, error: null },
    { agent: 'ann', usage: { totalTokens: 0, calls: 1 }, error: { code: 'MODEL', message: /Error: down/ } },
  ])
})

t.test('what was paid counts also where there is no answer', async (t) => {
  const { team } = modelTeam(t, [[{ text: 'half' }, { usage: USAGE }, new Error('hung up')]], [{ name: 'ann' }], {
    communication: { turnRetries: 0 },
  })
  const result = await team.execute('go')
  t.match(result, { success: false, totalTokenUsage: USAGE, tokenUsage: { ann: USAGE } })
})

t.test('what no model has said is labelled wherever it appears', async (t) => {
  const model = Object.assign(new FakeModel(['as if']), { rehearsal: true })
  const { team } = modelTeam(t, model, [{ name: 'ann' }])
  const labels = heard(team, 'model.called', (event) => event.rehearsed)
  t.match(await team.execute('go'), { finalOutput: 'as if', rehearsed: true })
  t.same(labels, [true])
})

t.test('a script and an agent under test may ask a model too', async (t) => {
  const orchestration: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script, query) => (await script.complete({ prompt: query })).text,
  }
  const { team } = modelTeam(t, ['yes'], [{ name: 'ann' }], { orchestration })
  t.match(await team.execute('go'), { finalOutput: 'yes', tokenUsage: { ann: { calls: 0 }, $orchestrator: USAGE } })
  const asks = defineAgent({
    receive: async ({ content }, context) => (await context.complete({ prompt: content })).text,
  })
  const model = new FakeModel(['hi'])
  t.match(await testAgent(asks, { model }).request('say hi'), { content: 'hi' })
  t.match(model.requests[0], { agent: 'agent', messages: [{ content: 'say hi' }] })
})

t.test('results, runs and agents add up', async (t) => {
  const { team } = modelTeam(t, () => 'ok', [{ name: 'ann' }, { name: 'bob' }])
  const run = team.launch('one')
  await run.result
  await team.execute('two')
  t.match(await run.result, {
    tokenUsage: { ann: { calls: 1 }, bob: { calls: 1 } },
    totalTokenUsage: { totalTokens: 30, calls: 2 },
    rehearsed: false,
  })
  t.match(run.usage, { totalTokens: 30, calls: 2 })
  t.match(team.getAgent('bob')?.getTokenUsage(), { totalTokens: 30, calls: 2 })
})
