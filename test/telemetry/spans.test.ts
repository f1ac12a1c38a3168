/** What runs, calls of tools and calls of MCP servers look like to OpenTelemetry. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { context, propagation, SpanKind } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  type ModelClient,
  ModelError,
  type ToolContext,
} from '../../src/index.ts'
import { type McpServer, mcpTools } from '../../src/mcp/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { type Cast, type Extras, gate, given, localTeam, never, openTeam, silent } from '../kit/team.ts'
import { httpServer } from '../mcp/http-server.ts'
import { plainHttp } from '../mcp/plain-http-server.ts'
import { FakeModel } from '../models/fake-model.ts'
import { sendRaw } from '../service/mcp/client.ts'
import { desk, ledger, recordModule } from '../toolbox/desk.ts'
import { adder, doing } from '../toolbox/tools.ts'
import { asking } from './asking.ts'
import { errorOf, idOf, isInternal, Measures, msOf, parentOf, Recorder, tookOf, traceOf } from './recorder.ts'

// What a team's runs look like to OpenTelemetry: the tree of spans, their names, attributes, times and ends.

const SECRET = 'the secret of the query'

t.test('a run is a tree: who asked whom, and which model', async (t) => {
  const recorder = new Recorder({ workflowName: 'desk' })
  const cast: Cast = {
    chief: asking('clerk', 'sage'),
    clerk: asking('sage'),
    sage: async (message, context) => {
      await context.sleep(40)
      await context.complete({ prompt: message.content, temperature: 0.5, maxOutputTokens: 99 })
      await context.sleep(2)
      return 'said'
    },
  }
  const model = new FakeModel(async (request) => {
    await request.clock!.sleep(7, request.signal)
    return 'an answer'
  })
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, models: { best: model } })
  const running = team.execute(SECRET, { runId: 'run-1', threadId: 'thread-1' })
  await team.clock.runToIdle()
  const result = await running
  t.ok(result.success)
  t.same(recorder.trees, [
    [
      'invoke_workflow desk',
      [
        'invoke_agent chief',
        ['invoke_agent clerk', ['invoke_agent sage', ['chat best']]],
        ['invoke_agent sage', ['chat best']],
      ],
    ],
  ])
  t.equal(recorder.open, 0)
  t.equal(new Set(recorder.spans.map(traceOf)).size, 1)
  t.ok(recorder.spans.every((span) => errorOf(span) === undefined))
  t.strictSame(recorder.one('invoke_workflow desk').attributes, {
    'gen_ai.operation.name': 'invoke_workflow',
    'gen_ai.workflow.name': 'desk',
    'gen_ai.conversation.id': 'thread-1',
    'dramatis.run.id': 'run-1',
  })
  const chief = recorder.one('invoke_agent chief')
  t.ok(isInternal(chief))
  t.strictSame(chief.attributes, {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': 'chief',
    'gen_ai.conversation.id': 'thread-1',
    'dramatis.run.id': 'run-1',
    'dramatis.message.id': result.messageHistory.find(({ recipient }) => recipient === 'chief')!.id,
    'dramatis.turn.attempt': 1,
  })
  const [chat] = recorder.named('chat best')
  t.equal(chat!.kind, SpanKind.CLIENT)
  t.strictSame(chat!.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'custom',
    'gen_ai.request.model': 'best',
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.max_tokens': 99,
    'gen_ai.agent.name': 'sage',
    'gen_ai.conversation.id': 'thread-1',
    'dramatis.run.id': 'run-1',
    'gen_ai.response.finish_reasons': ['stop'],
    'gen_ai.usage.input_tokens': 10,
    'gen_ai.usage.output_tokens': 5,
  })
  t.equal(tookOf(chat!), 7)
  t.equal(tookOf(recorder.named('invoke_agent sage')[0]!), 49)
  t.equal(tookOf(chief), 98)
  t.equal(tookOf(recorder.one('invoke_workflow desk')), 98)
})

t.test('the provider of a client has the name that the conventions have for it', async (t) => {
  const names: Record<string, string> = {
    'google.generative-ai': 'gcp.gemini',
    'anthropic.messages': 'anthropic',
    'my-server.chat': 'my-server',
  }
  for (const [provider, name] of Object.entries(names)) {
    const recorder = new Recorder()
    const client = {
      provider,
      modelId: 'small',
      async *complete() {
        yield { text: 'Yes.' }
      },
    }
    const chief = async (_message: unknown, context: AgentContext) => (await context.complete({ prompt: 'a' })).text
    await localTeam(t, { chief }, { telemetry: recorder.telemetry, models: { default: client } }).execute('q')
    t.match(recorder.one('chat small').attributes, { 'gen_ai.provider.name': name, 'gen_ai.request.model': 'small' })
  }
})

t.test('what is used and how long it takes is measured, by the names of the conventions', async (t) => {
  const reader = new Measures()
  const meterProvider = new MeterProvider({ readers: [reader] })
  const recorder = new Recorder({ meterProvider, workflowName: 'desk', captureContent: true })
  const usage = { inputTokens: 9, outputTokens: 5, totalTokens: 14, cachedTokens: 4, reasoningTokens: 2, calls: 1 }
  let calls = 0
  const model: ModelClient = {
    offline: true,
    provider: 'anthropic.messages',
    async *complete({ clock, signal }) {
      if (calls++ > 0) throw new ModelError('Broken.', { reason: 'auth' })
      await clock!.sleep(250, signal)
      yield { text: 'said' }
      await clock!.sleep(750, signal)
      yield { usage, finishReason: 'stop' }
    },
  }
  const { tool } = adder()
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, { a: 1 })
    await context.complete({ prompt: 'a', stream: true })
    await context.complete({ prompt: 'b' }).catch(() => {})
    return 'done'
  }
  const options = { telemetry: recorder.telemetry, models: { best: model }, roles: { ann: { tools: [tool] } } }
  const team = localTeam(t, { ann }, options)
  const running = team.execute('go')
  await team.clock.runToIdle()
  await running
  const chat = { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'anthropic', 'gen_ai.request.model': 'best' }
  const failed = { ...chat, 'error.type': 'MODEL' }
  const unknown = { ...chat, 'gen_ai.token.modality': 'unknown' }
  t.same(await reader.measured(), {
    'gen_ai.client.inference.duration': [
      [chat, 1, 's'],
      [failed, 0, 's'],
    ],
    'gen_ai.client.inference.time_to_first_chunk': [[chat, 0.25, 's']],
    'gen_ai.client.inference.usage.input_tokens': [[unknown, 9, '{token}']],
    'gen_ai.client.inference.usage.output_tokens': [[unknown, 5, '{token}']],
    'gen_ai.client.inference.usage.cache_read.input_tokens': [[unknown, 4, '{token}']],
    'gen_ai.client.inference.usage.reasoning.output_tokens': [[unknown, 2, '{token}']],
    'gen_ai.execute_tool.duration': [[{ 'gen_ai.tool.name': 'add', 'gen_ai.tool.type': 'function' }, 0, 's']],
    'gen_ai.invoke_agent.duration': [[{ 'gen_ai.agent.name': 'ann' }, 1, 's']],
    'gen_ai.invoke_workflow.duration': [[{ 'gen_ai.workflow.name': 'desk' }, 1, 's']],
  })
  t.same(recorder.unknownNames, [])
  t.match(recorder.named('chat best')[0]!.attributes, {
    'gen_ai.request.stream': true,
    'gen_ai.response.time_to_first_chunk': 0.25,
    'gen_ai.usage.reasoning.output_tokens': 2,
  })
})

t.test('nothing that is said stands in a span', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = {
    chief: async (message, context) => {
      await context.request('clerk', message.content, { structuredData: { SECRET } }).catch(() => {})
      await context.complete({ prompt: SECRET })
      return SECRET
    },
    clerk: async () => {
      throw new Error(SECRET)
    },
  }
  const models = { default: new FakeModel([SECRET]) }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, models })
  await team.execute(SECRET)
  t.equal(recorder.spans.length, 4)
  t.equal(errorOf(recorder.one('invoke_agent clerk')), 'AGENT_FAILED')
  for (const { attributes, status, events, name } of recorder.spans)
    t.notMatch(JSON.stringify({ attributes, status, events, name }), /secret/)
})

t.test('what is said stands there where it is asked for, without the keys', async (t) => {
  const recorder = new Recorder({ captureContent: true })
  const key = 'sk-12345678901234567890'
  const cast: Cast = {
    chief: async (message, context) => {
      await context.complete({ prompt: `${message.content} with ${key}` })
      throw new Error(`lost ${key}`)
    },
  }
  const team = localTeam(t, cast, {
    telemetry: recorder.telemetry,
    models: { default: new FakeModel([`have ${key}`]) },
  })
  await team.execute(SECRET)
  const { attributes } = recorder.one('chat default')
  t.strictSame(JSON.parse(`${attributes['gen_ai.input.messages']}`), [
    { role: 'user', parts: [{ type: 'text', content: `${SECRET} with [redacted]` }] },
  ])
  t.strictSame(JSON.parse(`${attributes['gen_ai.output.messages']}`), [
    { role: 'assistant', parts: [{ type: 'text', content: 'have [redacted]' }], finish_reason: 'stop' },
  ])
  t.match(recorder.one('invoke_agent chief').status.message, /lost \[redacted\]/)
  t.match(recorder.one('invoke_workflow').attributes['gen_ai.input.messages'], SECRET)
  t.notMatch(JSON.stringify(recorder.spans.map(({ attributes, status }) => ({ attributes, status }))), key)
})

t.test('a model that is reached by its address is called by the format and the address', async (t) => {
  const recorder = new Recorder()
  const server = await modelServer(t)
  server.answer({ text: 'said', usage: { inputTokens: 30, outputTokens: 4 } })
  const { baseURL } = server
  const models = { default: { model: 'small', baseURL, apiKey: 'key-of-the-team-1' } }
  const cast: Cast = { ann: async (_, context) => (await context.complete({ prompt: 'go' })).text }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, models })
  await team.execute('go')
  const { hostname, port } = new URL(baseURL)
  t.match(recorder.one('chat small').attributes, {
    'gen_ai.provider.name': 'openai',
    'server.address': hostname,
    'server.port': Number(port),
    'gen_ai.usage.input_tokens': 30,
    'gen_ai.usage.output_tokens': 4,
  })
})

t.test('runs side by side do not mix', async (t) => {
  const recorder = new Recorder()
  const slow = async (_: AgentMessage, context: AgentContext) => {
    await context.sleep(10)
    return 'done'
  }
  const team = given(t, {
    telemetry: recorder.telemetry,
    maxConcurrentAgents: 9,
    roles: { chief: { concurrency: 8 } },
  }).testTeam({ chief: asking('clerk', 'sage'), clerk: slow, sage: slow })
  const runs = Array.from({ length: 5 }, (_, i) => team.execute(`query ${i}`, { runId: `run-${i}` }))
  await team.clock.runToIdle()
  await Promise.all(runs)
  const tree = ['invoke_workflow', ['invoke_agent chief', ['invoke_agent clerk'], ['invoke_agent sage']]]
  t.same(recorder.trees, Array(5).fill(tree))
  const traces = new Map(
    recorder.named('invoke_workflow').map((run) => [traceOf(run), run.attributes['dramatis.run.id']]),
  )
  t.equal(traces.size, 5)
  for (const span of recorder.spans) t.equal(traces.get(traceOf(span)), span.attributes['dramatis.run.id'])
})

t.test('messages to many and messages that nobody waits for have their turns below them', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = {
    chief: async (_, context) => {
      await context.broadcast('hear')
      await context.send('sage', 'also')
      return 'done'
    },
    clerk: async () => '',
    sage: async () => '',
  }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry })
  await team.execute('go')
  await team.clock.runToIdle()
  const below = recorder.spans.filter((span) => parentOf(span) === idOf(recorder.one('invoke_agent chief')))
  t.same(below.map(({ name }) => name).sort(), ['invoke_agent clerk', 'invoke_agent sage', 'invoke_agent sage'])
  t.equal(recorder.open, 0)
})

t.test('a turn that takes a duty over stands below the one that hands it off', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = {
    chief: asking('clerk'),
    clerk: async (message, context) => {
      await context.handoff('sage', message.content)
      return ''
    },
    sage: async () => 'done',
  }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry })
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  t.same(recorder.trees, [['invoke_workflow', ['invoke_agent chief', ['invoke_agent clerk', ['invoke_agent sage']]]]])
})

t.test('a deadlock and messages that nobody handles are events of the run', async (t) => {
  const recorder = new Recorder()
  const cast: Cast = {
    chief: async (_, context) => {
      const answer = await context.request('clerk', 'go').catch((error: { code: string }) => error)
      return 'code' in answer ? answer.code : answer.content
    },
    clerk: async (_, context) => (await context.request('chief', 'go')).content,
  }
  const team = localTeam(t, cast, { telemetry: recorder.telemetry, supervision: { confirmMs: 10 } })
  const running = team.execute('go')
  await team.clock.runToIdle()
  await running
  const { events } = recorder.one('invoke_workflow')
  const deadlock = events.find(({ name }) => name === 'dramatis.deadlock')
  t.match(deadlock?.attributes?.['dramatis.agents'], ['chief', 'clerk'])
  t.equal(recorder.open, 0)
})

t.test('the time in the queue belongs to the run', async (t) => {
  const recorder = new Recorder()
  const slow = async (_: AgentMessage, context: AgentContext) => {
    await context.sleep(10)
    return 'done'
  }
  const extras: Extras = { telemetry: recorder.telemetry, maxConcurrentRuns: 1 }
  const team = localTeam(t, { clerk: slow }, extras)
  const runs = [team.execute('one'), team.execute('two')]
  await team.clock.runToIdle()
  await Promise.all(runs)
  t.strictSame(recorder.named('invoke_workflow').map(tookOf), [10, 20])
  const [one, two] = recorder.named('invoke_agent clerk')
  t.equal(msOf(two!) - msOf(one!), 10)
})

// Spans of calls of tools, in the host and in the threads of agents.

t.test('a tool of the host stands below the turn that calls it', async (t) => {
  const recorder = new Recorder()
  const { tool, calls } = adder()
  const fails = doing(
    () => {
      throw new Error('a secret')
    },
    { name: 'fails' },
  )
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, { a: 1 })
    await context.tool(fails, {}).catch(() => {})
    return 'done'
  }
  const tools = [tool, fails]
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools } } })
  await team.execute('go', { runId: 'run-1' })
  t.same(recorder.trees, [['invoke_workflow', ['invoke_agent ann', ['execute_tool add'], ['execute_tool fails']]]])
  const add = recorder.one('execute_tool add')
  t.ok(isInternal(add))
  t.strictSame(add.attributes, {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'add',
    'gen_ai.tool.call.id': calls[0]!.key,
    'gen_ai.tool.type': 'function',
    'gen_ai.agent.name': 'ann',
    'dramatis.run.id': 'run-1',
  })
  t.equal(errorOf(add), undefined)
  t.equal(errorOf(recorder.one('execute_tool fails')), 'TOOL_FAILED')
  t.notMatch(JSON.stringify(recorder.spans.map(({ attributes, status }) => ({ attributes, status }))), /secret/)
})

t.test('what goes in and out of a tool stands there where it is asked for', async (t) => {
  const recorder = new Recorder({ captureContent: true })
  const { tool } = adder()
  const ann = async (_: AgentMessage, context: AgentContext) => `${(await context.tool(tool, { a: 1 })).sum}`
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  await team.execute('go')
  t.match(recorder.one('execute_tool add').attributes, {
    'gen_ai.tool.call.arguments': '{"a":1}',
    'gen_ai.tool.call.result': '{"sum":2}',
  })
})

t.test("a script's tools stand below the run", async (t) => {
  const recorder = new Recorder()
  const { tool } = adder()
  const team = given(t, {
    telemetry: recorder.telemetry,
    tools: [tool],
    script: async (script) => `${(await script.tool(tool, { a: 1 })).sum}`,
  }).testTeam({ ann: () => '' })
  await team.execute('go')
  t.same(recorder.trees, [['invoke_workflow', ['execute_tool add']]])
})

t.test('a call goes on over the death of its agent, and has one span', async (t) => {
  const recorder = new Recorder()
  const called = gate()
  const answer = gate()
  const tool = doing(async () => {
    called.open()
    await answer.opened
  })
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, {})
    return 'done'
  }
  const team = openTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const running = team.execute('go')
  await team.clock.advance(5)
  await called.opened
  team.crash('ann')
  await team.clock.advance(5)
  answer.open()
  await team.clock.runToIdle()
  t.ok((await running).success)
  const [first, second] = recorder.named('invoke_agent ann')
  t.equal(parentOf(recorder.one('execute_tool act')), idOf(first!))
  t.equal(errorOf(recorder.one('execute_tool act')), undefined)
  t.equal(errorOf(first!), 'AGENT_CRASHED')
  t.equal(errorOf(second!), undefined)
  t.equal(recorder.open, 0)
})

t.test('a call that is withdrawn, and one that its turn leaves behind, end', async (t) => {
  const recorder = new Recorder()
  const tool = doing(
    ({ signal }: ToolContext) => new Promise((_, reject) => (signal.onabort = () => reject(signal.reason))),
  )
  const ann = async (_: AgentMessage, context: AgentContext) => {
    const run = context.tool(tool, {})
    void run.catch(() => {})
    await context.sleep(10)
    return 'done'
  }
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  t.equal(recorder.open, 0)
  t.equal(errorOf(recorder.one('execute_tool act')), 'CANCELLED')
  t.equal(tookOf(recorder.one('execute_tool act')), 10)
})

t.test('a call that is withdrawn while its turn goes on ends when it is withdrawn', async (t) => {
  const recorder = new Recorder()
  const tool = doing(() => never)
  const lingering = gate()
  const ann = async (_: AgentMessage, context: AgentContext) => {
    await context.tool(tool, {}).catch(() => {})
    await lingering.opened
    return 'done'
  }
  const team = localTeam(t, { ann }, { telemetry: recorder.telemetry, roles: { ann: { tools: [tool] } } })
  const run = team.launch('go')
  await team.clock.advance(10)
  void run.cancel()
  await team.clock.advance(20)
  lingering.open()
  await team.clock.runToIdle()
  t.equal(errorOf(recorder.one('execute_tool act')), 'CANCELLED')
  t.equal(tookOf(recorder.one('execute_tool act')), 10)
  t.equal(tookOf(recorder.one('invoke_agent ann')), 30)
  t.equal(recorder.open, 0)
})

t.test('a call whose turn is not tried again ends with it', async (t) => {
  const recorder = new Recorder()
  const tool = doing(() => never)
  const ann = async (_: AgentMessage, context: AgentContext) => `${await context.tool(tool, {})}`
  const roles = { ann: { tools: [tool], supervision: { maxRestarts: 0 } } }
  const team = openTeam(t, { ann }, { telemetry: recorder.telemetry, roles })
  const running = team.execute('go')
  await team.clock.advance(5)
  team.crash('ann')
  await team.clock.advance(5)
  t.notOk((await running).success)
  t.equal(errorOf(recorder.one('execute_tool act')), 'AGENT_TERMINATED')
  t.equal(recorder.open, 0)
})

t.test('a tool that runs in the thread of its agent stands below its turn too', async (t) => {
  const recorder = new Recorder()
  const { file } = ledger(t)
  const { call, team } = desk(t, [{ module: recordModule }], { telemetry: recorder.telemetry })
  await call('record', { file })
  await team.close()
  const turn = recorder.one('invoke_agent ann')
  const [tool] = recorder.spans.filter(({ name }) => name.startsWith('execute_tool'))
  t.equal(parentOf(tool!), idOf(turn))
  t.equal(errorOf(tool!), undefined)
  t.type(tool!.attributes['gen_ai.tool.call.id'], 'string')
  t.equal(recorder.open, 0)
})

t.test('a tool that dies with the thread of its agent is tried again with the turn', async (t) => {
  const recorder = new Recorder()
  const { file } = ledger(t)
  const { call, team } = desk(t, [{ module: recordModule, export: 'again' }], { telemetry: recorder.telemetry })
  await call('again', { file, act: 'die' })
  await team.close()
  t.same(recorder.trees, [
    ['invoke_agent ann', ['execute_tool again']],
    ['invoke_agent ann', ['execute_tool again']],
  ])
  t.strictSame(recorder.named('execute_tool again').map(errorOf), ['AGENT_CRASHED', undefined])
  t.equal(recorder.open, 0)
})

// Calls of MCP servers in a trace, and a team as such a server: it goes on with the trace that a call names.

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
t.teardown(() => context.disable())

type Test = Pick<typeof t, 'teardown'>

/** Serves a team that says what it knows of its trace. */
async function mcpService(t: Parameters<typeof localTeam>[0], recorder: Recorder): Promise<string> {
  const echo = (_: unknown, { run }: { run: { metadata: Record<string, string> } }) =>
    JSON.stringify([run.metadata.traceparent, run.metadata.baggage])
  const team = localTeam(t, { echo }, { telemetry: recorder.telemetry })
  const api = httpApi({
    teams: { echo: team },
    authorize: () => ({ id: 'ann', may: ['run'] }),
    logger: silent,
    mcp: true,
  })
  const server = createServer(api.node).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    await api.close()
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function calling(t: Test, server: McpServer, recorder: Recorder) {
  const mcp = await mcpTools(server)
  t.teardown(() => mcp.close())
  return desk(t, mcp.tools, { telemetry: recorder.telemetry })
}

t.test('a team that calls another one by MCP is in one trace with it', async (t) => {
  const [outer, inner] = [new Recorder(), new Recorder()]
  const url = await mcpService(t, inner)
  const { team, call } = await calling(t, { url: `${url}/mcp` }, outer)
  const baggage = propagation.createBaggage({ shop: { value: 'a b,c' } })
  const { outcomes } = await context.with(propagation.setBaggage(context.active(), baggage), () =>
    call('ask_echo', { query: 'go' }),
  )
  await team.close()
  const tool = outer.one('execute_tool ask_echo')
  const server = inner.one('tools/call ask_echo')
  const run = inner.one('invoke_workflow')
  t.same(
    [...outer.spans, ...inner.spans].filter((span) => traceOf(span) !== traceOf(tool)),
    [],
  )
  t.strictSame([parentOf(server), parentOf(run)], [idOf(tool), idOf(server)])
  t.same([server.kind, server.parentSpanContext?.isRemote, errorOf(server)], [SpanKind.SERVER, true, undefined])
  t.strictSame(JSON.parse(String(outcomes[0]!.output)), [`00-${traceOf(run)}-${idOf(run)}-01`, 'shop=a%20b%2Cc'])
  const { port } = new URL(url)
  t.match(tool.attributes, {
    'mcp.method.name': 'tools/call',
    'mcp.protocol.version': '2026-07-28',
    'network.transport': 'tcp',
    'server.address': '127.0.0.1',
    'server.port': Number(port),
  })
  t.match(server.attributes, {
    'mcp.method.name': 'tools/call',
    'mcp.protocol.version': '2026-07-28',
    'gen_ai.tool.name': 'ask_echo',
    'network.transport': 'tcp',
    'jsonrpc.request.id': /^\d+$/,
  })
  t.same([...outer.unknownNames, ...inner.unknownNames], [])
})

t.test('the request that brings a call is linked to it, and its parent where the call names none', async (t) => {
  const recorder = new Recorder()
  const url = await mcpService(t, recorder)
  const place = (digit: string) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`
  const send = (tool: string, args: object, meta: object) =>
    sendRaw(
      url,
      { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: tool, arguments: args, _meta: meta } },
      { headers: { traceparent: place('a') } },
    )
  await send('ask_echo', { query: 'go' }, { traceparent: place('b') })
  await send('task_status', { taskId: 'none' }, { traceparent: 'no place' })
  const [asked, status] = [recorder.one('tools/call ask_echo'), recorder.one('tools/call task_status')]
  t.same([traceOf(asked), traceOf(status)], ['b'.repeat(32), 'a'.repeat(32)])
  t.same(
    [asked, status].map(({ links }) => links.map(({ context: { spanId } }) => spanId)),
    [['a'.repeat(16)], []],
  )
  t.same([errorOf(asked), errorOf(status)], [undefined, 'tool_error'])
})

t.test('the span of a call says how its server is reached, and what it refused', async (t) => {
  const recorder = new Recorder()
  const { url } = await httpServer(t)
  const remote = await calling(t, { url, era: '2025' }, recorder)
  t.match((await remote.call('deny', {})).outcomes, [{ code: 'TOOL_FAILED' }])
  const denied = recorder.one('execute_tool deny')
  t.equal(errorOf(denied), 'tool_error')
  t.match(denied.attributes, { 'mcp.protocol.version': /^2025-/, 'mcp.session.id': /^[\da-f-]{36}$/ })

  const server = await plainHttp(t)
  server.refuses = (method) =>
    method === 'tools/call' ? { status: 200, body: '{"error":{"code":-32602,"message":"no"}}' } : undefined
  const plain = await calling(t, { url: server.url, era: '2025' }, recorder)
  t.match((await plain.call('echo', {})).outcomes, [{ code: 'TOOL_FAILED' }])
  const refused = recorder.one('execute_tool echo')
  t.equal(errorOf(refused), '-32602')
  t.equal(refused.attributes['rpc.response.status_code'], '-32602')

  const program = fileURLToPath(new URL('../fixtures/mcp/server.js', import.meta.url))
  const local = await calling(t, { command: process.execPath, args: [program] }, recorder)
  await local.call('add', { a: 1, b: 2 })
  const added = recorder.one('execute_tool add')
  t.equal(errorOf(added), undefined)
  t.match(added.attributes, { 'network.transport': 'pipe' })
  t.same(recorder.unknownNames, [])
})
