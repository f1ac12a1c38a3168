/** Roles that a model plays: how its calls are asked for, what they cost, and the answer of their run by a schema or as a conversation. */
import t from 'tap'
import { z } from 'zod'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import type { ModelOptions } from '../../src/actors/definition/model-options.ts'
import {
  type AgentContext,
  createTeam,
  defineAgent,
  defineTool,
  type RunOptions,
  type RuntimeEvent,
} from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { askFor } from '../../src/protocols.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { rehearse, testAgent, testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, heard, localTeam, silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { type Answers, calls, FakeModel, USAGE } from './fake-model.ts'
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
