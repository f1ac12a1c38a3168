/** Calls of MCP servers in a trace, and a team as such a server: it goes on with the trace that a call names. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { context, propagation, SpanKind } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import t from 'tap'
import { type McpServer, mcpTools } from '../../src/mcp/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { localTeam, silent } from '../kit/team.ts'
import { httpServer } from '../mcp/http-server.ts'
import { plainHttp } from '../mcp/plain-http-server.ts'
import { sendRaw } from '../service/mcp/client.ts'
import { desk } from '../toolbox/desk.ts'
import { errorOf, idOf, parentOf, Recorder, traceOf } from './recorder.ts'

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
t.teardown(() => context.disable())

type Test = Pick<typeof t, 'teardown'>

/** Serves a team that says what it knows of its trace. */
async function served(t: Parameters<typeof localTeam>[0], recorder: Recorder): Promise<string> {
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
  const url = await served(t, inner)
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
  const url = await served(t, recorder)
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
