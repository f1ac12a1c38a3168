/** Options of model calls: by the team's model, the role and the call, and how they reach a provider. */
import t from 'tap'
import { z } from 'zod'
import type { ModelOptions } from '../../src/actors/definition/model-options.ts'
import { type AgentContext, createTeam, defineTool } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { localTeam, silent } from '../kit/team.ts'
import { clientOf, piecesOf } from '../runtime/models/asking.ts'
import { calls } from './fake-model.ts'
import { modelTeam, played } from './teams.ts'

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
