/** What a server over stdio can make the host hold or read: bounded, and over a bound the connection ends with an error that says so. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type McpServer, mcpTools } from '../../src/mcp/index.ts'
import { Lines } from '../../src/mcp/transports.ts'
import { growthOf, LINEAR } from '../growth.ts'
import { refusal } from '../toolbox/tools.ts'
import { connected } from './connected.ts'

const program = fileURLToPath(new URL('../fixtures/mcp/flooding-server.js', import.meta.url))
const stdio = (...args: string[]): McpServer => ({ command: process.execPath, args: [program, ...args] })

const overStdio = [
  ['line', 'sends a line of more than 16 MiB'],
  ['values', 'sends a line of more than 1048576 JSON values'],
  ['parts', 'sends an answer that takes longer than 2000 ms to check'],
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
    t.throws(() => process.kill(Number((said.content[0] as { text: string }).text), 0), { code: 'ESRCH' })
  })

t.test('a server that floods before it has said its tools is refused, and named', async (t) => {
  const error = await refusal(mcpTools(stdio('line'), { connectTimeoutMs: 120_000 }))
  t.equal(error.code, 'CONFIGURATION')
  t.match(error.message, /the MCP server ".*" \("flooding"\) cannot be used: it sends a line of more than 16 MiB/)
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
