/** Tools of MCP servers, also of odd and of restarted ones. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createNetServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import {
  createTeam,
  type DramatisError,
  type Logger,
  type RuntimeEvent,
  type Tool,
  toolParts,
} from '../../src/index.ts'
import { type Era, type McpServer, type McpToolsOptions, mcpTools } from '../../src/mcp/index.ts'
import { block } from '../busy.ts'
import { pluck } from '../kit/lists.ts'
import { type Answers, calls } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { callerModule, desk, ledger, underWay } from '../toolbox/desk.ts'
import { refusal, toolEvents } from '../toolbox/tools.ts'
import { connected } from './connected.ts'
import { httpServer } from './http-server.ts'
import { modernHttp } from './modern-http-server.ts'
import { plainHttp, type Refusal } from './plain-http-server.ts'

// Tools of MCP servers, over stdio and over streamable HTTP: real servers, written with the protocol's own package.

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

t.test('a server behind a shell is gone after the close, though it stays when its input ends', async (t) => {
  const watch = createNetServer().listen(0, '127.0.0.1')
  await once(watch, 'listening')
  t.teardown(() => watch.close())
  const { port } = watch.address() as AddressInfo
  const lives = `require('node:net').connect(${port}); require('node:readline').createInterface({ input: process.stdin })
    .on('line', (line) => {
      const { id, method } = JSON.parse(line)
      const result = method === 'initialize'
        ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'a', version: '1' } }
        : { tools: [{ name: 'a' }] }
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })`
  const env = { NODE: process.execPath, LIVES: lives }
  const connection = once(watch, 'connection') as Promise<[Socket]>
  const mcp = await mcpTools({ command: '/bin/sh', args: ['-c', '"$NODE" -e "$LIVES"; exit 0'], env, era: '2025' })
  const [socket] = await connection
  const gone = once(
    socket.resume().on('error', () => {}),
    'close',
  )
  await mcp.close()
  await gone
  t.pass('it has ended')
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

t.test(
  'a server that dies in a call: nobody knows whether it was done, and the next call starts it again',
  async (t) => {
    const { tools } = await toolsOf(t, stdio())
    const { call } = desk(t, tools)
    for (let deaths = 0; deaths < 2; deaths++) {
      t.match((await call('die', {})).outcomes, [
        { code: 'OUTCOME_UNKNOWN', message: /of the MCP server|"die" was under way: it may have happened, or not/ },
      ])
      t.match((await call('add', { a: 1, b: 2 })).outcomes, [{ output: { sum: 3 } }])
    }
  },
)

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

// Lists of tools as servers of other languages and other years send them.

async function toolsFrom(t: Test, url: string, options: McpToolsOptions = {}) {
  const told: string[] = []
  const write = (_fields: object, text: string) => void told.push(text)
  const logger: Logger = { debug: write, info: write, warn: write, error: write }
  const mcp = await mcpTools({ url }, { logger, ...options })
  t.teardown(() => mcp.close())
  return { tools: mcp.tools, names: mcp.tools.map(({ name }) => name), told }
}

const named = (name: unknown, fields: object = {}) => ({ name, inputSchema: { type: 'object' }, ...fields })

t.test('a keyword that cannot be checked by is told once, sent to the model, and its tool works', async (t) => {
  const inputSchema = {
    $schema: 'http://json-schema.org/draft-04/schema#',
    type: 'object',
    properties: {
      path: { type: 'string', pattern: '(?i)^[a-z.]+$' },
    },
    required: ['path'],
  }
  const outputSchema = { type: 'object', properties: { at: { type: 'string', pattern: '(?i)z$' } } }
  const server = await plainHttp(t, [named('read', { inputSchema, outputSchema }), named('other')])
  const { tools, told } = await toolsFrom(t, server.url)
  const answers: Answers = [calls(['read', { path: '!' }], ['read', { path: 'a.b', times: 2 }], ['read', {}]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools }])
  t.equal((await team.execute('go')).finalOutput, 'done')
  const { $schema: _version, ...sent } = inputSchema
  t.same(
    model.requests[0]!.tools?.map((tool) => tool.inputSchema),
    [sent, { type: 'object', properties: {} }],
  )
  t.match(pluck(model.requests[1]!.messages.slice(-3), 'content'), [
    '{"path":"!"}',
    '{"path":"a.b","times":2}',
    /must have required property 'path'/,
  ])
  t.equal(told.length, 1)
  t.match(
    told[0],
    /^keywords of its tools are not checked here: read: inputSchema\.properties\.path\.pattern \(the pattern .* is not/,
  )
  t.match(told[0], /; read: outputSchema\.properties\.at\.pattern \(.*\)$/)
})

const bad: [given: unknown, label: string, why: RegExp][] = [
  [named(''), 'tool 1 of its list', /its name is ""/],
  [named(5), 'tool 1 of its list', /its name is 5/],
  [null, 'tool 1 of its list', /its name is nothing/],
  [named('bad', { inputSchema: { type: 'string' } }), 'bad', /accepted: a JSON Schema with the type "object"/],
  [named('bad', { inputSchema: [] }), 'bad', /its inputSchema is an empty list/],
  [named('bad', { outputSchema: 'text' }), 'bad', /its outputSchema is "text"/],
  [named('bad', { description: 5 }), 'bad', /its description is 5/],
  [named('bad', { annotations: 'none' }), 'bad', /its annotations are "none"/],
  [named('bad', { execution: { taskSupport: 'required' } }), 'bad', /only as a task/],
  [
    named('bad', { inputSchema: { type: 'object', enum: ['x'.repeat(300_000)] } }),
    'bad',
    /more than 262144 characters/,
  ],
  [named('good', { description: 'Another one.' }), 'good', /another tool has the same name/],
]

t.test('a bad tool among good ones is left out, with its name and the reason', async (t) => {
  for (const [at, [given, label, why]] of bad.entries()) {
    const isSecond = label === 'good'
    const server = await plainHttp(t, isSecond ? [named('good'), given] : [given, named('good')])
    server.isModern = at % 2 === 1
    const { names, told } = await toolsFrom(t, server.url)
    t.same(names, ['good'])
    t.equal(told.length, 1)
    t.ok(told[0]?.startsWith(`the tool "${label}" cannot be used, and is left out: `), told.join())
    t.match(told[0], why)
  }
})

t.test('a bad tool that is asked for by name, or that is the only one, refuses the connection', async (t) => {
  const server = await plainHttp(t, [named('bad', { inputSchema: [] }), named('good')])
  const asked = await refusal(mcpTools({ url: server.url }, { only: ['bad'] }))
  t.match(asked, {
    code: 'CONFIGURATION',
    message: /only: the tool "bad" of .* cannot be used: its inputSchema is an empty list/,
  })
  t.same((await toolsFrom(t, server.url, { only: ['good'] })).told, [])
  server.pages = { '': { tools: [named('bad', { inputSchema: [] })] } }
  const alone = await refusal(mcpTools({ url: server.url }))
  server.pages = { '': { tools: [named('bad', { inputSchema: [] }), named('good')] } }
  t.match(await refusal(mcpTools({ url: server.url }, { onBadTool: 'throw' })), {
    code: 'CONFIGURATION',
    message: /"bad"/,
  })
  t.match(alone, {
    code: 'CONFIGURATION',
    message: /no tool of .* can be used\. The tool "bad": its inputSchema is an empty list/,
  })
})

t.test('without a logger, what is left out is a warning of the process', async (t) => {
  const server = await plainHttp(t, [named('bad', { inputSchema: [] }), named('good')])
  const warned = once(process, 'warning')
  const mcp = await mcpTools({ url: server.url })
  t.teardown(() => mcp.close())
  const [warning] = (await warned) as [Error]
  t.match(warning.message, /^mcpTools: the MCP server at .*: the tool "bad" cannot be used, and is left out/)
})

t.test('fields without a value may be null', async (t) => {
  const nothing = { title: null, description: null, outputSchema: null, annotations: null, execution: null }
  const server = await plainHttp(t, [named('good', nothing)])
  const { names, told } = await toolsFrom(t, server.url)
  t.same([names, told], [['good'], []])
})

const AGAIN = 'its list of tools names a page again, and ends there'

const pages: [
  what: string,
  pages: Record<string, { tools: unknown; nextCursor?: unknown }>,
  asked: number,
  told?: string[],
][] = [
  [
    'repeats its cursor',
    { '': { tools: [named('a')], nextCursor: 'x' }, x: { tools: [named('b')], nextCursor: 'x' } },
    2,
    [AGAIN],
  ],
  [
    'goes round in a circle',
    {
      '': { tools: [named('a')], nextCursor: 'x' },
      x: { tools: [named('b')], nextCursor: 'y' },
      y: { tools: [], nextCursor: 'x' },
    },
    3,
    [AGAIN],
  ],
  [
    'gives the same page whatever the cursor is',
    Object.fromEntries(['', 'x'].map((at) => [at, { tools: [named('a'), named('b')], nextCursor: 'x' }])),
    2,
    [AGAIN],
  ],
  ['has an empty cursor', { '': { tools: [named('a'), named('b')], nextCursor: '' } }, 1],
  ['has no cursor but null', { '': { tools: [named('a'), named('b')], nextCursor: null } }, 1],
]

for (const [what, given, asked, told = []] of pages)
  t.test(`a list that ${what} ends`, async (t) => {
    const server = await plainHttp(t)
    server.pages = given
    const from = await toolsFrom(t, server.url)
    t.same([from.names, from.told], [['a', 'b'], told])
    t.equal(server.asked.filter((method) => method === 'tools/list').length, asked)
  })

t.test('a list that is none, and a cursor that is no text, are refused', async (t) => {
  const server = await plainHttp(t)
  for (const [page, why] of [
    [{ tools: 'none' }, /its list of tools is "none"/],
    [{ tools: [], nextCursor: 5 }, /the next page of its tools is 5/],
  ] as const) {
    server.pages = { '': page }
    t.match(await refusal(mcpTools({ url: server.url })), { code: 'CONFIGURATION', message: why })
  }
})

const text = (properties: object) => ({ type: 'object', properties })

/** Input schemas as servers send them, and as models get them. */
const schemas: [given: unknown, sent: object][] = [
  [{}, text({})],
  [undefined, text({})],
  [null, text({})],
  [{ properties: { a: {} } }, text({ a: {} })],
  [text({ a: { type: 'string', pattern: '^[\\w-.]+$' } }), text({ a: { type: 'string', pattern: '^[\\w\\x2d.]+$' } })],
  [text({ a: { pattern: '\\d{4}\\-\\d{2}\\_' } }), text({ a: { pattern: '\\d{4}\\x2d\\d{2}_' } })],
  [text({ a: { minimum: 1, exclusiveMinimum: true } }), text({ a: { exclusiveMinimum: 1 } })],
  [text({ a: { maximum: 9, exclusiveMaximum: false } }), text({ a: { maximum: 9 } })],
  [text({ a: { $schema: 'https://example.com/x', type: 'string' } }), text({ a: { type: 'string' } })],
  [
    text({ a: { $ref: '#/$defs/nope' }, $ref: { const: { $ref: 'x' } } }),
    text({ a: {}, $ref: { const: { $ref: 'x' } } }),
  ],
  [text({ a: { type: 'integer', format: 'uint32' } }), text({ a: { type: 'integer', format: 'uint32' } })],
]

/** Results of calls as servers send them, and what comes of them. */
const results: [given: object, output: unknown][] = [
  [{}, ''],
  [{ content: null }, ''],
  [{ toolResult: { old: true } }, { old: true }],
  [{ content: [{ type: 'hologram', of: 'a cat' }] }, [{ type: 'hologram', of: 'a cat' }]],
  [{ content: [{ type: 'image', data: 5 }] }, [{ type: 'image', data: 5 }]],
  [{ content: [], structuredContent: { sum: 'many' } }, { sum: 'many' }],
  [{ content: [{ type: 'text', text: 'plain' }], structuredContent: null }, 'plain'],
]

for (const isModern of [false, true])
  t.test(`a server of ${isModern ? 2026 : 2025} is read in all the shapes that it sends`, async (t) => {
    const outputSchema = { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] }
    const server = await plainHttp(
      t,
      schemas.map(([inputSchema], at) => ({ name: `t${at}`, inputSchema, outputSchema })),
    )
    server.isModern = isModern
    const { tools, told } = await toolsFrom(t, server.url)
    t.match(
      told.join(),
      'keywords of its tools are not checked here: t9: $ref (it refers to "#/$defs/nope", which is not',
    )
    t.same(
      tools.map((tool) => Reflect.get(tool, 'inputSchema')),
      schemas.map(([, sent]) => sent),
    )
    const { call } = desk(t, tools)
    for (const [said, output] of results) {
      server.said = said
      t.same((await call('t0', {})).outcomes, [{ output }])
    }
  })

t.test('names that become one are told apart, in the same way each time', async (t) => {
  const server = await plainHttp(
    t,
    ['a.b', 'a_b', 'a b', `${'x'.repeat(70)}1`, `${'x'.repeat(70)}2`].map((name) => named(name)),
  )
  const { names, tools } = await toolsFrom(t, server.url)
  t.same(names, ['a_b', 'a_b_648f', 'a_b_c868', 'x'.repeat(64), `${'x'.repeat(59)}_4b2c`])
  t.same((await toolsFrom(t, server.url)).names, names)
  t.match((await desk(t, tools).call('a_b_648f', {})).outcomes, [{ output: '{}' }])
})

const modern = fileURLToPath(new URL('../fixtures/mcp/modern.js', import.meta.url))
const odd = fileURLToPath(new URL('../fixtures/mcp/first-question.js', import.meta.url))

/** How a server answers a question that it does not know, when it is the first one; and how often it is started. */
const firsts: [how: string, era: Era | undefined, starts: number][] = [
  ['error', undefined, 1],
  ['silent', undefined, 1],
  ['exit', undefined, 2],
  ['exit', '2025', 1],
]

for (const [how, era, starts] of firsts)
  t.test(
    `a server of 2025 that answers a first question with ${how} (era ${era}) is started ${starts} times`,
    async (t) => {
      const { file, runs } = ledger(t)
      const server = { command: process.execPath, args: [odd, how, file], ...(era && { era }) }
      const { tools } = await toolsOf(t, server)
      t.same(namesOf(tools), ['a'])
      t.equal(runs(), starts)
    },
  )

t.test('a server that speaks other years than those asked for is refused', async (t) => {
  const { file } = ledger(t)
  const old = { command: process.execPath, args: [odd, 'error', file], era: '2026' as const }
  t.match(await refusal(mcpTools(old)), { code: 'CONFIGURATION', message: /2026-07-28/ })
  t.match(await refusal(mcpTools({ ...old, era: '2024' as '2025' })), { details: { path: 'era' } })
})

for (const over of ['stdio', 'HTTP'] as const)
  for (const era of [undefined, '2025', '2026'] as const)
    t.test(`over ${over}: tools of a server that speaks both years, with era ${era}`, async (t) => {
      const { file, keys } = ledger(t)
      const address =
        over === 'stdio' ? { command: process.execPath, args: [modern, file] } : { url: await modernHttp(t, file) }
      const { tools } = await toolsOf(t, { ...address, ...(era && { era }) })
      const { team, call } = desk(t, tools)
      const events = toolEvents(team)
      t.match((await call('add', { a: 1, b: 2 })).outcomes, [{ output: { sum: 3 } }])
      t.match((await call('count', {})).outcomes, [{ output: 'counted' }])
      t.same(keys(), [(events.at(-1) as { callId?: string }).callId])
    })

// Servers over HTTP that know a session no more, and what is said of those that refuse.

const rpcError = (message: string) => JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32000, message } })

/** How servers say that they do not know a session. */
const lost: Refusal[] = [
  { status: 404 },
  { status: 404, body: rpcError('Session not found') },
  { status: 404, body: '<html><title>Not Found</title></html>' },
  { status: 400, body: rpcError('Bad Request: No valid session ID provided') },
  { status: 400, body: rpcError('Bad Request: Server not initialized') },
  { status: 400, body: 'Missing SESSION id' },
  { status: 410 },
  { status: 500, body: '{"error":"Error POSTing to endpoint: Bad Request: No valid session ID provided"}' },
  { status: 200, body: '{"error":{"code":-32001,"message":"Session not found"}}' },
]

for (const each of lost)
  t.test(
    `a restarted server says ${each.status} ${each.body ?? ''}: another session, and the call once more`,
    async (t) => {
      const server = await plainHttp(t)
      server.lost = each
      const { call } = await connected(t, { url: server.url })
      for (let restarts = 0; restarts < 2; restarts++) {
        server.restart()
        t.match(await call('echo'), { content: [{ text: '{}' }] })
        t.same(server.asked, ['tools/call!', 'initialize', 'tools/list', 'tools/call'])
        t.match(await call('echo'), { content: [{ text: '{}' }] })
        t.same(server.asked.slice(4), ['tools/call'])
      }
    },
  )

t.test('calls that lose one session share the next one', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url })
  server.restart()
  await Promise.all(Array.from({ length: 8 }, () => call('echo')))
  t.equal(server.asked.filter((method) => method === 'initialize').length, 1)
  t.equal(server.asked.filter((method) => method === 'tools/call').length, 8)
})

t.test(
  'a server that knows no session for long: the call is made twice, and fails with status and server',
  async (t) => {
    const server = await plainHttp(t)
    const { call, connection } = await connected(t, { url: server.url })
    server.restart()
    server.refuses = (method) => (method === 'tools/call' ? { status: 404, body: rpcError('gone') } : undefined)
    await t.rejects(call('echo'), {
      code: 'TOOL_FAILED',
      message: `The tool "echo" of ${connection.name} failed: it answered 404 Not Found: gone`,
    })
    t.same(server.asked, ['tools/call!', 'initialize', 'tools/list', 'tools/call!'])
  },
)

t.test(
  'a server that begins no session any more: the call fails with that, and the next one tries again',
  async (t) => {
    const server = await plainHttp(t)
    const { call } = await connected(t, { url: server.url })
    server.restart()
    server.refuses = (method) => (method === 'initialize' ? { status: 401, body: rpcError('expired') } : undefined)
    await t.rejects(call('echo'), {
      message: /of the MCP server at .* failed: it answered 401 Unauthorized: expired; /,
    })
    server.refuses = () => undefined
    t.match(await call('echo'), { content: [{ text: '{}' }] })
  },
)

t.test('other refusals are not repeated', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url })
  for (const [status, body, said] of [
    [400, rpcError('Bad Request: no such tool'), '400 Bad Request: Bad Request: no such tool'],
    [400, 'argument sessionDate must be a date', '400 Bad Request: argument sessionDate must be a date'],
    [401, '', '401 Unauthorized; send what it asks for in headers'],
    [403, '{"error":"insufficient_scope","error_description":"read only"}', '403 Forbidden: read only; send'],
    [500, '<html><h1>Oops</h1></html>', '500 Internal Server Error'],
  ] as const) {
    server.asked.length = 0
    server.refuses = () => ({ status, body })
    await t.rejects(call('echo'), { message: `failed: it answered ${said}` })
    t.same(server.asked, ['tools/call!'])
  }
})

/** How a call fails that a server has not answered, and how often it is made: of a tool that may run once, and of another. */
const cuts: [
  what: string,
  refusal: Refusal,
  once: [calls: number, code: string],
  twice: [calls: number, code: string],
][] = [
  ['429', { status: 429, body: 'slow down\nplease' }, [4, 'TOOL_FAILED'], [4, 'TOOL_FAILED']],
  ['503', { status: 503, body: '{"message":"session store is down"}' }, [4, 'TOOL_FAILED'], [4, 'TOOL_FAILED']],
  ['502', { status: 502 }, [1, 'OUTCOME_UNKNOWN'], [4, 'TOOL_FAILED']],
  ['504', { status: 504 }, [1, 'OUTCOME_UNKNOWN'], [4, 'TOOL_FAILED']],
  ['a cut connection', { status: 0 }, [1, 'OUTCOME_UNKNOWN'], [4, 'TOOL_FAILED']],
  ['a stream without the answer', { status: 200 }, [1, 'OUTCOME_UNKNOWN'], [4, 'TOOL_FAILED']],
]

for (const [what, refused, once, twice] of cuts)
  t.test(
    `${what}: a call that was not made is made again, and one that may have been only where it may be`,
    async (t) => {
      const server = await plainHttp(t, [named('once'), named('twice', { annotations: { idempotentHint: true } })])
      const { call } = await connected(t, { url: server.url })
      for (const [tool, [calls, code]] of [
        ['once', once],
        ['twice', twice],
      ] as const) {
        server.asked.length = 0
        server.refuses = () => refused
        t.match(await refusal(call(tool)), { code })
        t.equal(server.asked.length, calls)
        server.asked.length = 0
        server.refuses = () => (server.asked.length === 0 ? refused : undefined)
        if (calls > 1) t.match(await call(tool), { content: [{ text: '{}' }] }, 'the next one is answered')
      }
    },
  )

t.test(
  'a list is read again with each session: a tool that is gone fails by its name, and a new schema counts',
  async (t) => {
    const server = await plainHttp(t, [named('kept'), named('gone')])
    const { tools } = await toolsFrom(t, server.url)
    const { call } = desk(t, tools)
    server.pages = { '': { tools: [named('kept', { inputSchema: { type: 'object', required: ['now'] } })] } }
    server.restart()
    t.match((await call('gone', {})).outcomes, [
      { code: 'TOOL_FAILED', message: /"gone" of .* the server has it no more/ },
    ])
    t.match((await call('kept', {})).outcomes, [{ code: 'TOOL_INPUT', message: /'now'/ }])
    t.match((await call('kept', { now: 1 })).outcomes, [{ output: '{"now":1}' }])
  },
)

t.test('a server that loses its sessions all the time is left alone for a while', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url })
  for (let begins = 0; begins < 5; begins++) {
    server.restart()
    t.match(await call('echo'), { content: [{ text: '{}' }] })
  }
  server.restart()
  await t.rejects(call('echo'), { message: 'it was begun anew 5 times within a minute; wait a minute' })
  t.same(server.asked, ['tools/call!'])
})

t.test('a server that wants a key says so at once, by its status, and no header is shown', async (t) => {
  const server = await plainHttp(t)
  server.refuses = () => ({ status: 401, body: rpcError('the token abcdef-123 is unknown') })
  const headers = { authorization: 'Bearer abcdef-123' }
  const error = await refusal(mcpTools({ url: server.url, headers }))
  t.match(error, { code: 'CONFIGURATION', details: { path: 'url' } })
  t.match(
    error.message,
    /the MCP server at http:.*\/mcp cannot be used: it answered 401 Unauthorized: the token \[header\] is/,
  )
})

t.test('a connection that is closed while another session begins leaves none open', async (t) => {
  const server = await plainHttp(t)
  const { call, connection } = await connected(t, { url: server.url })
  server.restart()
  let closing: Promise<void> | undefined
  server.refuses = (method) => {
    if (method === 'initialize') closing = connection.close()
    return undefined
  }
  await t.rejects(call('echo'), { message: 'failed: the server is gone; connect to it again with mcpTools' })
  await closing
})

t.test(
  'a server that wants to be asked later than anybody waits: the call fails at once, with its status',
  async (t) => {
    const server = await plainHttp(t)
    const { call } = await connected(t, { url: server.url })
    server.asked.length = 0
    server.refuses = () => ({ status: 429, headers: { 'retry-after': '3600' } })
    await t.rejects(call('echo', {}, {}, 30_000), { code: 'TOOL_FAILED', message: /it answered 429/ })
    t.same(server.asked, ['tools/call!'])
  },
)

t.test('an error that a server says holds no header', async (t) => {
  const server = await plainHttp(t)
  server.said = { isError: true, content: [{ type: 'text', text: 'no right for abcdef-123' }] }
  const { tools, close } = await mcpTools({ url: server.url, headers: { authorization: 'Bearer abcdef-123' } })
  t.teardown(close)
  t.match((await desk(t, tools).call('echo', {})).outcomes, [{ message: 'failed: no right for [header]' }])
})
