/** Servers over HTTP that know a session no more, and what is said of those that refuse. */
import t from 'tap'
import { mcpTools } from '../../src/mcp/index.ts'
import { refusal } from '../toolbox/tools.ts'
import { connected } from './connected.ts'
import { plainHttp, type Refusal } from './plain-http-server.ts'

const rpcError = (message: string) => JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32000, message } })

/** How servers say that they do not know a session. */
const lost: Refusal[] = [
  { status: 404 },
  { status: 404, body: rpcError('Session not found') },
  { status: 404, body: '<html><title>Not Found</title></html>' },
  { status: 400, body: rpcError('Bad Request: No valid session ID provided') },
  { status: 400, body: rpcError('Bad Request: Server not initialized') },
  { status: 400, body: 'Missing SESSION id' },
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
        t.same(server.asked, ['tools/call!', 'initialize', 'tools/call'])
        t.match(await call('echo'), { content: [{ text: '{}' }] })
        t.same(server.asked.slice(3), ['tools/call'])
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
    t.same(server.asked, ['tools/call!', 'initialize', 'tools/call!'])
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
    [401, '', '401 Unauthorized; send what it asks for in headers'],
    [403, '{"error":"insufficient_scope","error_description":"read only"}', '403 Forbidden: read only; send'],
    [429, 'slow down\nplease', '429 Too Many Requests: slow down'],
    [500, '<html><h1>Oops</h1></html>', '500 Internal Server Error'],
    [503, '{"message":"session store is down"}', '503 Service Unavailable: session store is down'],
  ] as const) {
    server.asked.length = 0
    server.refuses = () => ({ status, body })
    await t.rejects(call('echo'), { message: `failed: it answered ${said}` })
    t.same(server.asked, ['tools/call!'])
  }
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
