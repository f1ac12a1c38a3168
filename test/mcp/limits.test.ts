/** Servers of MCP that flood, offer too much or change what they offer: bounds hold. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createMcpHandler, McpServer as ModernServer } from '@modelcontextprotocol/server'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { type Logger, toolParts } from '../../src/index.ts'
import { type McpServer, type McpToolsOptions, mcpTools, type ToolChanges } from '../../src/mcp/index.ts'
import { Lines } from '../../src/shared/answers.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { growthOf, LINEAR } from '../growth.ts'
import { pluck } from '../kit/lists.ts'
import { forever } from '../runtime/models/hostile-server.ts'
import { desk } from '../toolbox/desk.ts'
import { refusal, toolEvents } from '../toolbox/tools.ts'
import { connected } from './connected.ts'
import { floodingHttp } from './flooding-http-server.ts'
import { plainHttp } from './plain-http-server.ts'

// What a server over HTTP can make the host hold or read: bounded, and over a bound the connection ends with an
// error that says so.

const JSON_TYPE = { 'content-type': 'application/json' }
const EVENTS = { 'content-type': 'text/event-stream' }
const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '))
const overHttp: [string, string, (response: ServerResponse) => unknown][] = [
  ['a body without an end', 'a body of more than 16 MiB', (to) => forever(to, '[', ' '.repeat(65_536), JSON_TYPE)],
  [
    'an event without an end',
    'an event of more than 16 MiB',
    (to) => forever(to, 'data: ', 'x'.repeat(65_536), EVENTS),
  ],
  [
    'a body of millions of values',
    'a body of more than 1048576 JSON values',
    (to) => to.writeHead(200, JSON_TYPE).end(`{"a":[${'{},'.repeat(4_000_000)}{}]}`),
  ],
  ['comments', 'a stream without data of more than 1 MiB', (to) => forever(to, '', ': so\n\n'.repeat(9_999), EVENTS)],
  [
    'a body that grows when it is decompressed',
    'a body of more than 16 MiB',
    (to) => to.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(bomb),
  ],
]

for (const [what, bound, flood] of overHttp)
  t.test(`over HTTP, ${what}: calls under way fail with the bound, and later ones too`, async (t) => {
    const { url } = await floodingHttp(t, { flood })
    const { call } = await connected(t, { url })
    const ended = {
      code: 'TOOL_FAILED',
      message: `failed: it sends ${bound}, so the connection to it was ended; connect`,
    }
    await Promise.all(['wait', 'flood'].map((each) => t.rejects(call(each), ended)))
    await t.rejects(call('say'), ended)
  })

t.test('over HTTP, a server that asks without end and reads no answer is given up', async (t) => {
  const ping = `data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n\n`
  const server = await floodingHttp(t, { lifelong: ping })
  const { call } = await connected(t, { url: server.url })
  server.more(ping.repeat(5_000))
  await t.rejects(call('wait'), { message: 'it does not read the 1000 answers sent to it' })
})

t.test('over HTTP, the stream that stays open is bounded by its events, not by what it carries in all', async (t) => {
  const server = await floodingHttp(t, { lifelong: `${': still here\n\n'.repeat(200_000)}data: ` })
  const { call } = await connected(t, { url: server.url })
  t.match(await call('say'), { content: [{ text: 'said' }] })
  server.more('x'.repeat(17 * 2 ** 20))
  await t.rejects(call('wait'), { message: 'it sends an event of more than 16 MiB' })
})

// What a server over stdio can make the host hold or read: bounded, and over a bound the connection ends with an
// error that says so.

const program = fileURLToPath(new URL('../fixtures/mcp/flooding-server.js', import.meta.url))
const stdio = (...args: string[]): McpServer => ({ command: process.execPath, args: [program, ...args] })

const overStdio = [
  ['line', 'sends a line of more than 16 MiB'],
  ['values', 'sends a line of more than 1048576 JSON values'],
  ['noise', 'sends more than 10000 lines that are no message'],
  ['pings', 'does not read the 1000 answers sent to it'],
] as const

for (const [tool, what] of overStdio)
  t.test(`a server that ${what}: calls under way fail with that, later ones too, and it is ended`, async (t) => {
    const { connection, call } = await connected(t, stdio())
    const said = await call('say')
    const ended = {
      code: 'TOOL_FAILED',
      message: `${connection.name} failed: it ${what}, so the connection to it was ended; connect to it again`,
    }
    await Promise.all(['wait', tool].map((each) => t.rejects(call(each), ended)))
    await t.rejects(call('say'), ended)
    await connection.close()
    t.throws(() => process.kill(Number((said.content as { text: string }[])[0]!.text), 0), { code: 'ESRCH' })
  })

t.test('a server that floods before it has said its tools is refused, and named', async (t) => {
  for (const [how, what] of [
    ['line', /the MCP server ".*" \("flooding"\) cannot be used: it sends a line of more than 16 MiB/],
    ['greeting', /cannot be used: it begins with more than 262144 characters of itself/],
  ] as const) {
    const error = await refusal(mcpTools(stdio(how), { connectTimeoutMs: 120_000 }))
    t.match(error, { code: 'CONFIGURATION', message: what })
  }
})

t.test('of what a server prints on stderr, 1 MiB a minute is passed on', async (t) => {
  const lines: string[] = []
  const write = (_fields: object, text: string) => void lines.push(text)
  const { call } = await connected(t, stdio(), { debug: write, info: write, warn: write, error: write })
  t.match(await call('print'), { content: [{ type: 'text' }] }, 'and it goes on')
  t.match(lines.join('\n'), 'it prints more than 1 MiB a minute: the rest of this minute is left out')
  t.ok(lines.join('').length < 4 * 2 ** 20, `${lines.join('').length}`) // two or three minutes, should it take that long
})

t.test('a line in small pieces is put together in time linear in its length', async (t) => {
  const piece = Buffer.from('x'.repeat(16))
  const growth = growthOf((pieces) => {
    const lines = new Lines()
    for (let at = 0; at < pieces; at += 1) for (const _ of lines.take(piece)) t.fail('there is no line yet')
    t.equal([...lines.take(Buffer.from('\n'))][0]?.length, pieces * 16)
  }, 16_384)
  t.ok(growth < LINEAR, `four times the length: ${growth} times as long`)
})

t.test('lines are cut at their ends, wherever chunks end', async (t) => {
  const text = 'one\n\ntwo\nthree'
  for (let cut = 0; cut <= text.length; cut += 1) {
    const lines = new Lines()
    const cuts = [text.slice(0, cut), text.slice(cut)].flatMap((part) => [...lines.take(Buffer.from(part))])
    t.same(cuts.map(String), ['one', '', 'two'])
    t.equal(lines.pending, 5)
  }
})

// A server whose schemas and lists are made to hold the host.

const hostileServerProgram = fileURLToPath(new URL('../fixtures/mcp/hostile-server.js', import.meta.url))
const server = (tools: number) => ({ command: process.execPath, args: [hostileServerProgram, String(tools)] })

t.test('a pattern that would take for ever is checked in a moment', async (t) => {
  const { tools, close } = await mcpTools(server(2))
  t.teardown(close)
  const { team, call } = desk(t, tools)
  const missed = /must match the pattern/
  t.match((await call('tool_0', { word: `${'a'.repeat(40)}!` })).outcomes, [{ code: 'TOOL_INPUT', message: missed }])
  t.match((await call('tool_0', { word: 'aaaa' })).outcomes, [{ output: { said: /^a+!$/ } }])
  const events = toolEvents(team)
  t.match((await call('tool_1', {})).outcomes, [{ output: { said: /^a+!$/ } }], 'what is done is no failure')
  t.match(events[1], { type: 'tool.progress', note: /misses its output schema: said: must match the pattern/ })
})

t.test('a server with more than 1,024 tools is refused', async (t) => {
  await t.rejects(mcpTools(server(1_025)), { code: 'CONFIGURATION', message: /it has more than 1024 tools/ })
  const { tools, close } = await mcpTools(server(1_024))
  t.teardown(close)
  t.equal(tools.length, 1_024)
})

// Waits and warnings of MCP connections that have bounds: by a clock that a test owns in part.

const CANCEL_MS = 5_000
const LONGEST_WAIT_MS = 60_000

/** Has no time pass in sleeps, and returns their lengths. */
function sleepless(t: Test): number[] {
  const slept: number[] = []
  t.intercept(systemClock, 'sleep', { value: async (ms: number) => void slept.push(ms) })
  return slept
}

t.test('a server is waited for as long as it says, at most a minute, and three times', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url, era: '2025' })
  for (const [said, waitMs] of [
    ['7', 7_000],
    ['3600', LONGEST_WAIT_MS],
    ['1e9', LONGEST_WAIT_MS],
    ['-1', 200],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 200],
  ] as const) {
    const slept = sleepless(t)
    server.refuses = () => ({ status: 429, headers: { 'retry-after': said } })
    await t.rejects(call('echo', {}, {}, 120_000), { code: 'TOOL_FAILED', message: /it answered 429/ })
    t.match([slept.length, slept[0]], [3, waitMs], said)
  }
})

t.test('a server that does not take the cancelling of its task is not waited for', async (t) => {
  const server = await plainHttp(t)
  const { call } = await connected(t, { url: server.url, era: '2025' })
  const { timer } = systemClock
  let isOver = () => {}
  const over = new Promise<void>((resolve) => {
    isOver = resolve
  })
  t.intercept(systemClock, 'timer', {
    value: (ms: number, task: () => void, limit?: boolean) => {
      if (ms !== CANCEL_MS) return timer(ms, task, limit)
      task() // its time is up at once
      isOver()
      return { cancel: () => {} }
    },
  })
  const late = new AbortController()
  server.said = (method) => {
    if (method === 'tools/call') return { resultType: 'task', taskId: 't', pollIntervalMs: 1 }
    if (method === 'tasks/cancel') return new Promise<object>(() => {})
    late.abort(Object.assign(new Error('enough'), { code: 'CANCELLED' }))
    return { status: 'working', pollIntervalMs: 1 }
  }
  await t.rejects(call('echo', {}, { signal: late.signal }), { code: 'OUTCOME_UNKNOWN' })
  await over
})

t.test('errors of a connection that belong to no call are told up to 16 KiB a minute', async (t) => {
  const warned: string[] = []
  const none = () => {}
  const warn = ({ error }: { error: string }) => warned.push(error)
  const logger = { debug: none, info: none, error: none, warn } as unknown as Logger
  const program = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line)
    const result = method === 'initialize'
      ? { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'a', version: '1' } }
      : method === 'tools/list' ? { tools: [{ name: 'noise' }] } : { content: [] }
    const answer = () => id !== undefined && console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
    if (method !== 'tools/call') return answer()
    for (let at = 0; at < 3_000; at++) console.log('this is no message')
    answer()
  })`
  let now = 1e6
  t.intercept(systemClock, 'monotonic', { value: () => now })
  const server = { command: process.execPath, args: ['-e', program], era: '2025' as const }
  const { call } = await connected(t, server, logger)
  const isFull = () => /fails more often than is told: the rest of this minute is left out/.test(warned.at(-1) ?? '')
  while (!isFull()) await call('noise')
  const { length } = warned.slice(0, -1).join('')
  t.ok(length > 15_000 && length <= 16_384, `${length} characters`)
  for (let calls = 0; calls < 20; calls++) await call('noise')
  t.ok(isFull(), 'nothing more is told')
  const before = warned.length
  now += 60_000
  await call('noise')
  t.ok(warned.length > before, 'the next minute has room')
})

// What else a server has than tools: news of its list, resources and prompts.

const shelf = fileURLToPath(new URL('../fixtures/mcp/shelf.js', import.meta.url))
const shelfOf = (era: '2025' | '2026'): McpServer => ({ command: process.execPath, args: [shelf], era })

async function opened(t: Test, server: McpServer, options: McpToolsOptions = {}) {
  const mcp = await mcpTools(server, options)
  t.teardown(() => mcp.close())
  return { mcp, call: desk(t, mcp.tools).call }
}

const reader = (changes: AsyncIterable<ToolChanges>) => {
  const news = changes[Symbol.asyncIterator]()
  return { next: async () => (await news.next()).value as ToolChanges | undefined, end: () => news.return!() }
}

for (const era of ['2025', '2026'] as const)
  t.test(`over stdio in ${era}: readers get what has come, gone and changed, each as it reads`, async (t) => {
    const { mcp, call } = await opened(t, shelfOf(era), { prefix: 's_' })
    t.same(pluck(mcp.tools, 'name'), ['s_learn'])
    const [quick, slow] = [reader(mcp.changes), reader(mcp.changes)]
    const [first, late] = [quick.next(), slow.next()]
    await call('s_learn', { more: ['jump', 'sing'], less: [] })
    t.same(await first, { added: ['s_jump', 's_sing'], removed: [], changed: [] })
    t.same(await late, { added: ['s_jump', 's_sing'], removed: [], changed: [] })
    t.same(pluck(mcp.tools, 'name'), ['s_learn', 's_jump', 's_sing'])
    const second = quick.next()
    await call('s_learn', { more: ['sing'], less: ['jump'] })
    t.same(await second, { added: [], removed: ['s_jump'], changed: ['s_sing'] })
    const third = quick.next()
    await call('s_learn', { more: ['run'], less: ['sing'] })
    t.same(await third, { added: ['s_run'], removed: ['s_sing'], changed: [] })
    t.same(await slow.next(), { added: ['s_run'], removed: ['s_jump', 's_sing'], changed: [] }, 'all of it at once')
    const never = [quick.next(), slow.next()]
    await mcp.close()
    t.same(await Promise.all(never), [undefined, undefined])
  })

t.test('news go on after their stream was cut, with what was missed', async (t) => {
  let names = ['a']
  let listens = 0
  const handler = createMcpHandler(() => {
    const server = new ModernServer({ name: 'm', version: '1' }, { capabilities: { tools: { listChanged: true } } })
    for (const name of names) server.registerTool(name, { inputSchema: z.object({}) }, () => ({ content: [] }))
    return server
  })
  const http = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    const headers = new Headers(request.headers as Record<string, string>)
    const { method = '' } = request
    if (headers.get('mcp-method') === 'subscriptions/listen') listens += 1
    const given = new Request('http://127.0.0.1/mcp', { method, headers, ...(body.length > 0 && { body }) })
    const answer = await handler.fetch(given)
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    const pieces = answer.body?.getReader()
    response.once('close', () => void pieces?.cancel().catch(() => {}))
    for (;;) {
      const { done = true, value } = (await pieces?.read().catch(() => undefined)) ?? {}
      if (done) break
      response.write(value)
    }
    response.end()
  }).listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.teardown(() => {
    http.closeAllConnections()
    http.close()
  })
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
  const { mcp } = await opened(t, { url, era: '2026' })
  t.equal(listens, 0, 'nobody listens where nobody reads')
  const news = reader(mcp.changes)
  const first = news.next()
  while (listens === 0) await new Promise(setImmediate)
  names = ['a', 'b']
  http.closeAllConnections()
  t.same(await first, { added: ['b'], removed: [], changed: [] })
  while (listens < 2) await new Promise(setImmediate)
})

t.test('a list that is read again after a lost session is news, too', async (t) => {
  const server = await plainHttp(t)
  const { mcp, call } = await opened(t, { url: server.url, era: '2025' })
  const news = reader(mcp.changes)
  const first = news.next()
  await call('echo', {})
  server.pages[''] = { tools: [{ name: 'echo' }, { name: 'more' }] }
  server.restart()
  await call('echo', {})
  t.same(await first, { added: ['more'], removed: [], changed: [] })
})

for (const era of ['2025', '2026'] as const)
  t.test(`in ${era}: resources are listed and read, and prompts are filled in`, async (t) => {
    const { mcp, call } = await opened(t, shelfOf(era), { resourceTools: true, prefix: 's_' })
    const note = { uri: 'note://one', name: 'one', description: 'A note.', mimeType: 'text/plain' }
    const dot = { uri: 'dot://one', name: 'dot', mimeType: 'image/png' }
    t.same(await mcp.resources(), [note, dot])
    t.same(pluck(mcp.tools, 'name'), ['s_learn', 's_list_resources', 's_read_resource'])
    t.match((await call('s_list_resources', {})).outcomes, [{ output: [note, dot] }])
    t.match((await call('s_read_resource', { uri: note.uri })).outcomes, [{ output: 'Buy lamps.' }])
    const image = toolParts([{ type: 'image', data: 'AAAA', mediaType: 'image/png' }])
    t.match((await call('s_read_resource', { uri: dot.uri })).outcomes, [{ output: image }])
    t.match((await call('s_read_resource', { uri: 'note://none' })).outcomes, [{ code: 'TOOL_FAILED' }])
    t.match((await call('s_read_resource', {})).outcomes, [{ code: 'TOOL_INPUT', message: /uri/ }])
    t.same(await mcp.prompt('review', { of: 'code' }), {
      description: 'Reviews.',
      messages: [
        { role: 'user', content: 'Review code.' },
        { role: 'assistant', content: [{ type: 'image', data: 'AAAA', mediaType: 'image/png' }] },
      ],
    })
    await t.rejects(mcp.prompt('none'), { code: 'TOOL_FAILED', message: /prompts\/get of the MCP server .* failed/ })
  })

t.test('lists of resources are bounded, odd ones are read, and a server without any has none', async (t) => {
  const server = await plainHttp(t)
  const { mcp } = await opened(t, { url: server.url, era: '2025' }, { resourceTools: true })
  t.same(await mcp.resources(), [])
  t.same(pluck(mcp.tools, 'name'), ['echo'])
  server.capabilities = { tools: {}, resources: {} }
  const { mcp: more } = await opened(t, { url: server.url, era: '2025' })
  server.said = { resources: [{ uri: 'a:b' }, { name: 'nowhere' }, null, { uri: 'c:d', name: 'c', title: null }] }
  t.same(await more.resources(), [
    { uri: 'a:b', name: 'a:b' },
    { uri: 'c:d', name: 'c' },
  ])
  let page = 0
  server.said = () => ({ resources: [{ uri: `a:${page}` }], nextCursor: String(page++) })
  await t.rejects(more.resources(), { message: /list of resources has more than 100 pages/ })
  server.said = { resources: Array.from({ length: 1_025 }, (_, at) => ({ uri: `a:${at}` })) }
  await t.rejects(more.resources(), { message: /more than 1024 resources/ })
})
