/** Tools of MCP servers, over stdio and over streamable HTTP: real servers, written with the protocol's own package. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { createTeam, type DramatisError, type RuntimeEvent, type Tool, toolParts } from '../../src/index.ts'
import { type McpServer, type McpToolsOptions, mcpTools } from '../../src/mcp/index.ts'
import { block } from '../busy.ts'
import { callerModule, desk, underWay } from '../toolbox/desk.ts'
import { refusal, toolEvents } from '../toolbox/tools.ts'
import { httpServer } from './http-server.ts'

const program = fileURLToPath(new URL('../fixtures/mcp/server.js', import.meta.url))
const stdio = (...args: string[]): McpServer => ({ command: process.execPath, args: [program, ...args] })

type Test = Pick<typeof t, 'teardown'>

async function toolsOf(t: Test, server: McpServer, options: McpToolsOptions = {}) {
  const mcp = await mcpTools(server, options)
  t.teardown(() => mcp.close())
  return mcp
}

const namesOf = (tools: readonly Tool[]) => tools.map(({ name }) => name)

for (const over of ['stdio', 'HTTP'] as const) {
  const server = async (t: Test): Promise<McpServer> =>
    over === 'stdio' ? stdio() : { url: (await httpServer(t)).url }

  t.test(`over ${over}: agents call the tools of a server as any other`, async (t) => {
    const { tools } = await toolsOf(t, await server(t), { prefix: 'test_' })
    t.same(namesOf(tools), [
      'test_add',
      'test_say',
      'test_dots_and_more',
      'test_draw',
      'test_deny',
      'test_environment',
      'test_die',
      'test_wait',
    ])
    t.match(tools[0], { description: 'Adds.', inputSchema: { type: 'object', required: ['a', 'b'] } })
    const { call } = desk(t, tools)
    t.match((await call('test_add', { a: 1, b: 2 })).outcomes, [{ output: { sum: 3 } }])
    t.match((await call('test_say', { words: 'ah' })).outcomes, [{ output: 'ah\nah' }])
    t.match((await call('test_dots_and_more', {})).outcomes, [{ output: 'odd' }])
    t.match((await call('test_draw', {})).outcomes, [
      {
        output: toolParts([
          { type: 'text', text: 'a dot' },
          { type: 'image', data: 'AAAA', mediaType: 'image/png' },
        ]),
      },
    ])
    t.match((await call('test_deny', {})).outcomes, [
      { code: 'TOOL_FAILED', message: 'Tool "test_deny" failed: it is forbidden' },
    ])
  })

  t.test(`over ${over}: a call that takes too long is given up, and the server goes on`, async (t) => {
    const { tools } = await toolsOf(t, await server(t), { timeoutMs: 300 })
    const patient = tools.map((tool) => (tool.name === 'wait' ? tool : { ...tool, timeoutMs: 120_000 }))
    const { call } = desk(t, patient)
    t.match((await call('wait', {})).outcomes, [{ code: 'TOOL_TIMEOUT' }])
    t.match((await call('add', { a: 1, b: 2 })).outcomes, [{ output: { sum: 3 } }])
  })

  t.test(`over ${over}: a call says how far it is`, async (t) => {
    const { tools } = await toolsOf(t, await server(t))
    const { team, call } = desk(t, tools)
    const events = toolEvents(team)
    const said = underWay(team)
    call('wait', {}).catch(() => {}) // the team is closed before it ends
    await said
    t.match(events[1], { type: 'tool.progress', note: 'half-way' })
  })
}

t.test('input that misses the schema of the server is refused here, with its path', async (t) => {
  const { url, seen } = await httpServer(t)
  const { tools } = await toolsOf(t, { url })
  const { call } = desk(t, tools)
  for (const [input, issue] of [
    [{ a: 'one', b: 2 }, /a: must be number/],
    [{ a: 1, b: -1 }, /b: must be at least 0/],
    [{ a: 1 }, /must have required property 'b'/],
    ['text', /must be object/],
    [null, /must be object/],
  ] as const)
    t.match((await call('add', input)).outcomes, [{ code: 'TOOL_INPUT', message: issue }])
  t.same(seen.calls, [])
})

t.test('a server gets the idempotency key of each call', async (t) => {
  const { url, seen } = await httpServer(t)
  const { tools } = await toolsOf(t, { url })
  const { team, call } = desk(t, tools)
  const events = toolEvents(team)
  await call('add', { a: 1, b: 2 }, 2)
  const ids = events.flatMap((event) => (event.type === 'tool.started' ? [event.callId] : []))
  t.same(seen.calls.map(({ key }) => key).sort(), ids.sort())
  t.equal(new Set(ids).size, 2)
})

t.test('the server is told when nobody waits for a call any more', async (t) => {
  const { url, seen } = await httpServer(t)
  const { tools } = await toolsOf(t, { url })
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools }],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const begun = new Promise<RuntimeEvent>((resolve) => {
    team.events.subscribe((event) => void (event.type === 'tool.progress' && resolve(event)))
  })
  const run = team.launch(JSON.stringify({ tool: 'wait', input: {}, times: 1 }))
  await begun
  await run.cancel('enough')
  await run.result
  while (seen.cancelled === 0) await new Promise((resolve) => setImmediate(resolve))
  t.equal(seen.cancelled, 1)
})

t.test('a server that is started has the environment that is given, and no other', async (t) => {
  process.env.MCP_TEST_SECRET = 'secret'
  t.teardown(() => delete process.env.MCP_TEST_SECRET)
  for (const env of [undefined, { GIVEN: 'yes' }]) {
    const { tools } = await toolsOf(t, { ...stdio(), ...(env && { env }) } as McpServer)
    const { call } = desk(t, tools)
    const [outcome] = (await call('environment', {})).outcomes
    t.same((JSON.parse(String(outcome!.output)) as { env: object }).env, env ?? {})
  }
})

t.test('headers are in each request, and close ends the session', async (t) => {
  const { url, headers, methods } = await httpServer(t)
  const { tools, close } = await mcpTools({ url, headers: { 'x-key': 'k' } })
  const { call } = desk(t, tools)
  await call('add', { a: 1, b: 2 })
  await close()
  t.ok(headers.length > 2)
  t.ok(headers.every((each) => each['x-key'] === 'k'))
  t.ok(methods.includes('DELETE'))
})

t.test('a server that dies: the call fails, later ones too, and the agent goes on', async (t) => {
  const { tools } = await toolsOf(t, stdio())
  const { call } = desk(t, tools)
  for (const tool of ['die', 'add'])
    t.match((await call(tool, { a: 1, b: 2 })).outcomes, [
      {
        code: 'TOOL_FAILED',
        message: /of the MCP server ".*" \("test"\) failed: the server is gone; connect to it again with mcpTools/,
      },
    ])
})

t.test('arguments and variables that are no texts are refused, and no value is shown', async (t) => {
  const wrong = (parts: object) => mcpTools({ ...stdio(), ...parts })
  await t.rejects(wrong({ args: 'server.js' }), { code: 'CONFIGURATION', details: { path: 'args' } })
  await t.rejects(wrong({ args: ['server.js', 3] }), { code: 'CONFIGURATION', details: { path: 'args' } })
  const error = await refusal(wrong({ env: { ROOT: '/', KEY: 77_077 } }))
  t.match(error, { code: 'CONFIGURATION', message: /^mcpTools: env\.KEY: no text;/, details: { path: 'env.KEY' } })
  t.notMatch(error.message, /77/)
  await t.rejects(wrong({ env: 'KEY=x' }), { code: 'CONFIGURATION', details: { path: 'env' } })
})

t.test('an HTTP server that is gone: its calls fail', async (t) => {
  const { url, stop } = await httpServer(t)
  const { tools } = await toolsOf(t, { url })
  const { call } = desk(t, tools)
  await stop()
  t.match((await call('add', { a: 1, b: 2 })).outcomes, [{ code: 'TOOL_FAILED' }])
})

t.test('close ends calls under way and the server; twice is fine', async (t) => {
  const mcp = await mcpTools(stdio())
  const { team, call } = desk(t, mcp.tools)
  const begun = new Promise<RuntimeEvent>((resolve) => {
    team.events.subscribe((event) => void (event.type === 'tool.progress' && resolve(event)))
  })
  const [about] = (await call('environment', {})).outcomes
  const { pid } = JSON.parse(String(about!.output)) as { pid: number }
  const waiting = call('wait', {})
  await begun
  await Promise.all([mcp.close(), mcp.close()])
  await mcp.close()
  t.match((await waiting).outcomes, [{ code: 'TOOL_FAILED', message: /the server is gone/ }])
  t.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
})

t.test('only some tools, by the names of the server', async (t) => {
  const { tools } = await toolsOf(t, stdio(), { only: ['say', 'dots.and.more'] })
  t.same(namesOf(tools), ['say', 'dots_and_more'])
  t.match(await refusal(mcpTools(stdio(), { only: ['sing'] })), {
    code: 'CONFIGURATION',
    message: /has no tool "sing"; it has add, say, /,
  })
})

t.test('what a server prints goes to the logger that is given, and what is no message does no harm', async (t) => {
  const lines: string[] = []
  const write = (fields: object, text: string) => void lines.push(`${JSON.stringify(fields)} ${text}`)
  const { tools } = await toolsOf(t, stdio('odd'), { logger: { debug: write, info: write, warn: write, error: write } })
  t.equal(tools.length, 8)
  t.match(lines.join('\n'), /the server has begun/)
  t.match(lines.join('\n'), /an MCP server or the connection to it failed/)
})

t.test('a server that cannot be reached, or says nothing, is named, and its secrets are not', async (t) => {
  const silent = createServer(() => {})
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  let carried = 0
  const elsewhere = createServer((_request, response) => {
    carried += 1
    response.end()
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  const redirecting = createServer((_request, response) => response.writeHead(307, { location: at(elsewhere) }).end())
  await new Promise<void>((resolve) => redirecting.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    silent.closeAllConnections()
    silent.close()
    redirecting.close()
    elsewhere.close()
  })
  const at = (server: typeof silent) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?key=secret`
  const long = 120_000
  const wrong: [McpServer, RegExp, connectTimeoutMs?: number][] = [
    [{ command: 'no-such-command-at-all', args: ['secret'], env: { KEY: 'secret' } }, /no such command.*env\.PATH/],
    [{ command: process.execPath, args: ['-e', 'process.exit(4)', 'secret'] }, /cannot be used: .*closed/],
    [{ ...stdio('mute'), env: { KEY: 'secret' } } as McpServer, /did not say which tools it has within 500 ms/, 500],
    [
      { url: at(silent), headers: { key: 'secret' } },
      /at http:\/\/127\.0\.0\.1:\d+\/mcp cannot be used: it did not say/,
      500,
    ],
    [{ url: at(redirecting), headers: { key: 'secret' } }, /cannot be used/],
    [{ url: 'http://127.0.0.1:9/mcp', headers: { key: 'secret' } }, /cannot be used: /],
  ]
  for (const [server, text, connectTimeoutMs = long] of wrong) {
    const error: DramatisError = await refusal(mcpTools(server, { connectTimeoutMs }))
    t.equal(error.code, 'CONFIGURATION')
    t.match(error.message, text)
    t.notMatch(JSON.stringify(error), 'secret')
  }
  t.equal(carried, 0, 'no redirect to another origin is followed')
})

/** Answers by HTTP in a thread of its own, and says there when it was asked for its tools. */
const SERVER = `
  const { parentPort } = require('node:worker_threads')
  const description = '-'.repeat(300_000) // it is read in many turns of the event loop
  const results = {
    initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }),
    'tools/list': () => ({ tools: [{ name: 'add', description, inputSchema: { type: 'object' } }] }),
  }
  require('node:http').createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end()
    const text = (await request.toArray()).join('')
    const { id, method, params } = JSON.parse(text)
    const result = results[method]?.(params)
    if (method === 'tools/list') parentPort.postMessage('listed')
    if (!result) return response.writeHead(202).end()
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  }).listen(0, '127.0.0.1', function () { parentPort.postMessage(this.address().port) })`

t.test(
  'a server that has said its tools in time is used, though this process was busy until the time was up',
  async (t) => {
    const worker = new Worker(SERVER, { eval: true })
    t.teardown(() => worker.terminate())
    const [port] = await once(worker, 'message')
    const connectTimeoutMs = 5_000
    worker.once('message', () => block(connectTimeoutMs)) // its time has begun before
    const { tools } = await toolsOf(t, { url: `http://127.0.0.1:${port}/mcp` }, { connectTimeoutMs })
    t.same(namesOf(tools), ['add'])
  },
)

t.test('wrong options are refused', async (t) => {
  t.match(await refusal(mcpTools({ url: 'http://user:secret@127.0.0.1/' })), { message: /send them in headers/ })
  const wrong = [
    [{}, {}],
    [{ command: '' }, {}],
    [{ url: 'file:///etc/passwd' }, {}],
    [{ url: 'not a url' }, {}],
    [{ command: 'node', url: 'http://127.0.0.1/' }, {}],
    [{ url: 'http://user:secret@127.0.0.1/' }, {}],
    [null, {}],
    [stdio(), { prefix: 5 }],
    [stdio(), { only: 'add' }],
    [stdio(), { timeoutMs: 0 }],
    [stdio(), { connectTimeoutMs: Number.NaN }],
    [stdio(), { timeoutMS: 5 }],
  ] as [McpServer, McpToolsOptions][]
  for (const [server, options] of wrong) {
    const error = await refusal(mcpTools(server, options))
    t.equal(error.code, 'CONFIGURATION', JSON.stringify([server, options]))
    t.notMatch(error.message, 'secret')
  }
})

t.test('what a server says of its tools counts in a rehearsal: which only look, and what they answer', async (t) => {
  const { tools } = await toolsOf(t, stdio(), { only: ['add', 'dots.and.more', 'die'] })
  const { team, call } = desk(t, tools, {
    agents: [
      { name: 'ann', module: callerModule, tools },
      { name: 'mia', systemPrompt: 'Played by nobody.' },
    ],
    models: 'rehearsal',
  })
  const events = toolEvents(team)
  t.match((await call('add', { a: 1, b: 2 })).outcomes, [{ output: { sum: Number } }])
  t.match((await call('dots_and_more', {})).outcomes, [{ output: 'odd' }])
  t.match((await call('die', {})).outcomes, [{ output: /"die" was not run/ }])
  const started = events.filter(({ type }) => type === 'tool.started')
  t.match(started, [{ simulated: true }, { tool: 'dots_and_more', simulated: undefined }, { simulated: true }])
})
