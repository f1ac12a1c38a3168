/** Answers that are wanted as the arguments of a function: by OpenAI's own client on the wire, and by any other. */
import t from 'tap'
import { z } from 'zod'
import type { AnswerFunction } from '../../src/actors/definition/model.ts'
import { countPrompt } from '../../src/actors/model/tokens.ts'
import type { AgentRole, ModelClient } from '../../src/index.ts'
import { askFor } from '../../src/protocols/asking.ts'
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
