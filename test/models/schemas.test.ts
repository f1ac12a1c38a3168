/** Answers by a schema: how models are told, and what they wrap around. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { AnswerFunction } from '../../src/actors/definition/model.ts'
import { jsonSchemaOf } from '../../src/actors/model/structured-output.ts'
import { countPrompt } from '../../src/actors/model/tokens.ts'
import { VERB_NAMES, verbTool } from '../../src/actors/model/verb-tools.ts'
import type { AgentRole, ModelClient } from '../../src/index.ts'
import { askFor } from '../../src/protocols/asking.ts'
import * as forms from '../../src/protocols/forms.ts'
import { planSchema, replacementSchema } from '../../src/protocols/forms.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { testTeam } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { pluck } from '../kit/lists.ts'
import { OpenTeam, silent } from '../kit/team.ts'
import { BOTH, clientOf } from '../runtime/models/asking.ts'
import { Recorder } from '../telemetry/recorder.ts'
import { adder, doing } from '../toolbox/tools.ts'
import { calls, FakeModel, USAGE } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { modelTeam } from './teams.ts'

// Answers that are wanted as the arguments of a function: by OpenAI's own client on the wire, and by any other.

const schema = z.object({ side: z.enum(['left', 'right']) })
const asFunction = { name: 'take_side', description: 'Says which side it is.' }

const orchestration = asking(asFunction)

function asking(asFunction: AnswerFunction): OrchestrationConfig {
  return {
    strategy: 'custom',
    run: async (script, query) => (await askFor(script, 'ann', query, schema, { asFunction })).value.side,
  }
}

const requesting = (metadata: object): OrchestrationConfig => ({
  strategy: 'custom',
  run: async (script, query) => (await script.request('ann', query, { metadata })).content,
})

const taking = (...inputs: (object | string)[]): Answer => ({
  toolCalls: inputs.map((input) => ({ name: 'take_side', input })),
})
const left = taking({ side: 'left' })

/** A role that is played by a provider which answers so, one call after the other. */
async function asked(
  t: Tap,
  answers: (string | Answer)[],
  role: Partial<AgentRole> = {},
  how: { stream: boolean } = BOTH[0],
) {
  const server = await modelServer(t)
  server.answer(...answers)
  const client = clientOf(server)
  const model: ModelClient = { complete: (request) => client.complete({ ...request, ...how }) }
  const recorder = new Recorder()
  const { telemetry } = recorder
  const team = testTeam({ agents: [{ name: 'ann', ...role }], orchestration, telemetry, logger: silent }, { model })
  t.teardown(() => team.close())
  const result = await team.execute('Which?')
  t.equal(server.unused, 0)
  const offered = server.calls.map(({ body }) => namesIn(body.tools))
  return { result, offered, recorder, bodies: server.calls.map(({ body }) => body), prompts: promptsOf(server) }
}
type Tap = Parameters<typeof modelServer>[0] & Pick<typeof t, 'equal'>

const namesIn = (tools: unknown) => (tools as { function: { name: string } }[]).map((tool) => tool.function.name)
const promptsOf = ({ calls }: { calls: readonly { prompt: string }[] }) => calls.map(({ prompt }) => prompt)

for (const how of BOTH)
  t.test(`the answer is the arguments of the function that a model must call, stream: ${how.stream}`, async (t) => {
    const { result, bodies, recorder } = await asked(t, [{ ...left, text: 'I think' }], {}, how)
    t.match(result, { success: true, finalOutput: 'left' })
    t.same(result.agentOutputs.ann, [{ content: '{"side":"left"}', structuredData: { side: 'left' } }])
    t.match(bodies[0], {
      tools: [
        {
          type: 'function',
          function: {
            ...asFunction,
            parameters: { type: 'object', properties: { side: { enum: ['left', 'right'] } }, required: ['side'] },
          },
        },
      ],
      tool_choice: 'required',
    })
    t.notOk('response_format' in bodies[0]!)
    t.equal(bodies[0]?.stream, how.stream)
    t.match(recorder.one('chat default').attributes, {
      'gen_ai.output.type': 'json',
      'gen_ai.response.finish_reasons': ['stop'],
    })
  })

t.test('a provider that answers with JSON in its words has answered', async (t) => {
  const { result, bodies } = await asked(t, ['So be it:\n{"side":"right"}'])
  t.match(result, { success: true, finalOutput: 'right' })
  t.equal(bodies.length, 1)
})

t.test('arguments that miss the schema are sent back once', async (t) => {
  const better = await asked(t, [taking({ side: 'up' }), left])
  t.equal(better.result.finalOutput, 'left')
  t.match(better.prompts[1], /^Which\?\n\nYour last answer cannot be used: side: /)
  t.same(better.offered, [['take_side'], ['take_side']])

  const worse = await asked(t, [taking({ side: 'up' }), taking({ side: 'down' })])
  t.match(worse.result.error, { code: 'REPLY_INVALID', message: /side: / })
})

t.test('arguments that are no JSON are told to the model itself', async (t) => {
  const { result, prompts, bodies } = await asked(t, [taking('{"side": "le'), left])
  t.equal(result.finalOutput, 'left')
  t.match(prompts[1], /misses the JSON schema that it has to fit: it is no JSON\. Call take_side again\.$/)
  t.match(bodies[1]?.messages.at(-2), { role: 'assistant', content: '{"side": "le' })
})

t.test('of several calls none is taken for the answer', async (t) => {
  const { result, prompts } = await asked(t, [taking({ side: 'left' }, { side: 'right' }), left])
  t.equal(result.finalOutput, 'left')
  t.match(prompts[1], /cannot be used: .*expected object/)
})

t.test('a call of a function that there is not is told so, and fails the turn if it goes on', async (t) => {
  const lost: Answer = { toolCalls: [{ name: 'shrug', input: {} }] }
  const found = await asked(t, [lost, left])
  t.equal(found.result.finalOutput, 'left')
  t.equal(found.prompts[1], 'There is no tool "shrug". There are: take_side.')
  const { result } = await asked(t, [lost, lost, lost])
  t.match(result.error, { code: 'AGENT_FAILED', message: /ModelError.*called only tools that do not exist.*shrug/ })
})

t.test('tools of the role are offered beside it, and may be called before', async (t) => {
  const { tool, calls: made } = adder()
  const add = { name: 'add', input: { a: 2, b: 3 } }
  const { result, bodies, offered, prompts } = await asked(
    t,
    [{ toolCalls: [add, ...left.toolCalls!] }, taking('left'), left],
    { tools: [tool] },
  )
  t.equal(result.finalOutput, 'left')
  t.equal(made.length, 1)
  t.equal(prompts[1], '{"sum":5}', 'it answers again when it knows what its tools say')
  t.match(bodies[1]?.messages.at(-2)?.tool_calls, [{ function: { name: 'add' } }])
  t.equal(bodies[1]?.messages.at(-2)?.tool_calls?.length, 1)
  t.same(offered, [['add', 'take_side'], ['add', 'take_side'], ['take_side']], 'a wrong answer is only put right')
  t.same(pluck(bodies, 'tool_choice'), ['required', 'required', 'required'])
})

t.test('where a tool of the role has that name the answer is JSON', async (t) => {
  const tool = doing(() => 'left, it says', { name: 'take_side' })
  const { result, bodies, offered } = await asked(t, [taking({}), '{"side":"left"}'], { tools: [tool] })
  t.equal(result.finalOutput, 'left')
  t.same(offered, [['take_side'], ['take_side']])
  t.match(bodies[0]?.response_format, { type: 'json_schema' })
  t.notOk('tool_choice' in bodies[0]!)
})

t.test('the answer of the run is asked for in the schema of the run', async (t) => {
  const model = new FakeModel(['{"x":5}'])
  const metadata = { answerSchema: { type: 'object' }, answerFunction: asFunction, lastSpeaker: true }
  const { team } = modelTeam(t, model, [{ name: 'ann' }], { orchestration: requesting(metadata) })
  t.match(await team.execute('go', { output: z.object({ x: z.number() }) }), { data: { x: 5 } })
  t.match(model.requests[0]?.jsonSchema, { properties: { x: {} } })
  t.notOk(model.requests[0]?.answerFunction)
})

t.test('a client of any kind may call it, or leave it aside', async (t) => {
  for (const answer of [calls(['take_side', { side: 'left' }]), '{"side":"left"}']) {
    const { team, model } = modelTeam(t, [answer], [{ name: 'ann' }], { orchestration })
    const result = await team.execute('Which?')
    t.match(result, { finalOutput: 'left', tokenUsage: { ann: USAGE } })
    t.match(model.requests[0], { answerFunction: asFunction, jsonSchema: { type: 'object' } })
  }
})

t.test('no function is asked for by a name that providers refuse', async (t) => {
  for (const answerFunction of [{ ...asFunction, name: 'take a side' }, { name: 'take_side' }, 'take_side', null]) {
    const { team, model } = modelTeam(t, ['{}'], [{ name: 'ann' }], {
      orchestration: requesting({ answerSchema: {}, answerFunction }),
    })
    t.ok((await team.execute('go')).success)
    t.match(model.requests[0], { jsonSchema: {}, answerFunction: undefined })
  }
})

t.test('what it adds to the prompt is reserved', async (t) => {
  const open = modelTeam(t, ['{"side":"left"}'], [{ name: 'ann' }], { orchestration })
  await open.team.execute('Which?')
  const [request] = open.model.requests
  const { answerFunction: _function, ...plain } = request!
  t.ok(countPrompt(request!) > countPrompt(plain))
  const budget = { perRun: { tokens: 1 } }
  const role = { name: 'ann', maxOutputTokens: 50 }
  const { team, model } = modelTeam(t, [], [role], { orchestration, budget })
  const { error } = await team.execute('Which?')
  t.match(error?.message, new RegExp(`${countPrompt({ ...request!, model: 'default' }) + 50}`))
  t.equal(model.requests.length, 0)
})

t.test('what it adds to the prompt has to fit into the window', async (t) => {
  const long = { ...asFunction, description: 'It says which side it is. '.repeat(100) }
  const { team } = modelTeam(t, [], [{ name: 'ann', maxTokens: 600 }], { orchestration: asking(long) })
  const { error } = await team.execute('Which?')
  t.match(error?.message, /its tools and the answer need \d{3} more/)
})

t.test('a turn whose thread dies at any of its steps asks for nothing twice', async (t) => {
  const play = async (deaths: (place: number) => boolean) => {
    const model = new FakeModel([calls(['take_side', '{"side": "le']), calls(['take_side', { side: 'left' }])])
    const options = { agents: [{ name: 'ann' }], models: { default: model }, orchestration, logger: silent }
    const team = new OpenTeam({ ...options, supervision: { backoff: { baseMs: 0, capMs: 0 } } }, new Map(), 1)
    t.teardown(() => team.close())
    await team.start()
    const places = killAt({ host: team.host, end: (agent) => team.crash(agent) }, 'ann', deaths)
    const { finalOutput } = await team.execute('Which?')
    return { finalOutput, asked: model.requests.length, places: places() }
  }
  const { places } = await play(() => false)
  t.ok(places >= 4)
  for (let at = 1; at <= places; at++)
    t.match(await play((place) => place === at), { finalOutput: 'left', asked: 2 }, `at ${at}`)
})

// Answers whose schema is no object at its root, and answers around which a model has put words.

async function open(t: Test) {
  const server = await modelServer(t)
  const team = testTeam({
    agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
    orchestration: { strategy: 'sequential' },
    models: { default: { model: 'small', baseURL: server.baseURL } },
    logger: silent,
  })
  t.teardown(() => team.close())
  return { server, team }
}

type Tree = { name: string; parts: Tree[] }
const tree: z.ZodType<Tree> = z.lazy(() => z.object({ name: z.string(), parts: z.array(tree) }))
const roots: [what: string, schema: z.ZodType, data: unknown][] = [
  ['a list', z.array(z.number()), [1, 2]],
  ['a string', z.string(), 'four'],
  ['a number', z.number(), 4],
  ['one of some words', z.enum(['yes', 'no']), 'yes'],
  ['a union', z.union([z.object({ a: z.number() }), z.object({ b: z.string() })]), { b: 'x' }],
  ['null or an object', z.object({ a: z.number() }).nullable(), null],
  ['anything', z.any(), { value: 3 }],
  ['a list of trees', z.array(tree), [{ name: 'a', parts: [{ name: 'b', parts: [] }] }]],
]

for (const [what, output, data] of roots)
  t.test(`the answer to a schema that is ${what} is asked for in an object, and taken out of it`, async (t) => {
    const { server, team } = await open(t)
    server.answer(
      JSON.stringify({ value: data }),
      `Here it is:\n\`\`\`json\n${JSON.stringify({ value: data })}\n\`\`\``,
    )
    for (const _ of ['plain', 'fenced']) t.same((await team.execute('Go', { output })).data, data)
    const { schema } = Object(server.calls[0]!.body.response_format).json_schema
    t.equal(schema.type, 'object')
    const references = [...JSON.stringify(schema).matchAll(/"\$ref":"#\/([^"]*)"/g)].map(([, path]) => path!.split('/'))
    for (const path of references)
      t.ok(
        path.reduce<unknown>((part, key) => Object(part)[key], schema),
        `${path.join('/')} is there`,
      )
  })

t.test('a list grows in the stream of its run, without the object around it', async (t) => {
  const { server, team } = await open(t)
  server.answer({ text: ['{', '"value":[1,', '2,3', ']}'] })
  const objects: unknown[] = []
  for await (const part of team.launch('Go', { output: z.array(z.number()), stream: true }).stream())
    if (part.type === 'object') objects.push(part.object)
  t.same(objects[0], [1])
  t.same(objects.at(-1), [1, 2, 3])
})

for (const [what, output] of Object.entries<z.ZodType>({
  'a date': z.object({ on: z.date() }),
  'a bigint': z.bigint(),
  'a map': z.map(z.string(), z.number()),
}))
  t.test(`a run that wants ${what}, which no JSON can be, is refused at its start`, async (t) => {
    const { server, team } = await open(t)
    await t.rejects(team.execute('Go', { output }), {
      code: 'CONFIGURATION',
      message: /^output: got what cannot be asked of a model \(.*represented/,
    })
    t.equal(server.calls.length, 0)
  })

t.test('a model that leaves the object out is understood', async (t) => {
  const { server, team } = await open(t)
  server.answer('[1,2]')
  t.same((await team.execute('Go', { output: z.array(z.number()) })).data, [1, 2])
  t.equal(server.calls.length, 1)
})

t.test('JSON with words around it is read when it is the only one', async (t) => {
  const { server, team } = await open(t)
  const output = z.object({ n: z.number() })
  server.answer('It is {"n":1}, I think [as far as I know].')
  t.same((await team.execute('Go', { output })).data, { n: 1 })
  server.answer('Either {"n":1} or {"n":2}.', '{"n":2}')
  t.same((await team.execute('Go', { output })).data, { n: 2 })
  t.equal(server.calls.length, 3, 'of two neither counts')
})

t.test('a refusal is told in its words, and is not asked again', async (t) => {
  const { server, team } = await open(t)
  const refused = {
    choices: [{ message: { content: null, refusal: 'I cannot help with that.' }, finish_reason: 'stop' }],
  }
  server.answer({ body: refused })
  const { error } = await team.execute('Go', { output: z.object({ n: z.number() }) })
  t.match(error, { message: /I cannot help with that/, modelFailure: { reason: 'filtered' } })
  t.equal(server.calls.length, 1)
})

// Schemas that models are told: in words that OpenAI's strict mode, Gemini and Anthropic take alike.

const names = ['ann', 'bob']
const workers = names.map((name) => ({ name }))
const strategies: Record<string, object> = {
  plan: jsonSchemaOf(planSchema(workers)),
  replacement: jsonSchemaOf(replacementSchema(workers)),
  'plan with keys': jsonSchemaOf(planSchema([{ name: 'ann', keys: ['free', 'paid'] }, ...workers])),
  choice: jsonSchemaOf(forms.choiceOf(3)),
  view: jsonSchemaOf(forms.viewAmong(names)),
  opinion: jsonSchemaOf(forms.opinion),
  argument: jsonSchemaOf(forms.citedArgument),
  verdict: jsonSchemaOf(forms.verdictAmong(names)),
  contradictions: jsonSchemaOf(forms.contradictionsAmong(names)),
}

const WORDS = ['type', 'properties', 'required', 'items', 'enum', 'anyOf', 'description', 'additionalProperties']
type Json = Record<string, unknown>

/** What of a schema is outside of the subset, by its path. */
function faults(schema: Json, path: string, requiresAll: boolean): string[] {
  const { type, properties = {}, required = [], items, anyOf = [] } = schema
  const words = Object.keys(schema).filter((word) => !WORDS.includes(word))
  const isObject = type === 'object'
  const optional = Object.keys(properties as Json).filter((name) => !(required as string[]).includes(name))
  return [
    ...words.map((word) => `${path}: ${word}`),
    ...(Array.isArray(type) ? [`${path}: several types`] : []),
    ...(isObject && schema.additionalProperties !== false ? [`${path}: open`] : []),
    ...(requiresAll ? optional.map((name) => `${path}.${name}: optional`) : []),
    ...Object.entries(properties as Json).flatMap(([name, inner]) =>
      faults(inner as Json, `${path}.${name}`, requiresAll),
    ),
    ...(anyOf as Json[]).flatMap((inner, at) => faults(inner, `${path}.anyOf[${at}]`, requiresAll)),
    ...(items ? faults(items as Json, `${path}[]`, requiresAll) : []),
  ]
}

t.test('schemas of strategies are in the subset', async (t) => {
  for (const [name, schema] of Object.entries(strategies)) t.same(faults(schema as Json, name, true), [])
})

t.test('a plan names keys only where agents hold some', async (t) => {
  t.match(JSON.stringify(strategies['plan with keys']), /"apiKeysConfigRef":\{.*"enum":\["free","paid"\]/)
  t.notMatch(JSON.stringify(strategies.plan), /apiKeysConfigRef/)
})

t.test('schemas of verbs are in the subset, with fields that may be left out', async (t) => {
  for (const name of VERB_NAMES) t.same(faults(verbTool(name)!.spec.inputSchema as Json, name, false), [])
})
