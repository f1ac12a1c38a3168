/** What a server can make the host hold or read: bounded, and over a bound the connection ends. */
import type { ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { type McpServer, mcpTools } from '../../src/mcp/index.ts'
import { Lines } from '../../src/shared/answers.ts'
import { growthOf, LINEAR } from '../growth.ts'
import { forever } from '../runtime/models/hostile-server.ts'
import { desk } from '../toolbox/desk.ts'
import { refusal, toolEvents } from '../toolbox/tools.ts'
import { connected } from './connected.ts'
import { floodingHttp } from './flooding-http-server.ts'

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
