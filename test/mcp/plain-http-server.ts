/** An MCP server over HTTP that writes its answers itself: with sessions that a test ends, and a list as a test wants it. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Test {
  teardown(end: () => unknown): unknown
}

/**
 * An answer in place of a result. Status 0: the connection is cut; 200: a stream that ends without an answer, or an
 * error of the protocol that is its body.
 */
export interface Refusal {
  status: number
  body?: string
  headers?: Record<string, string>
}

export interface Params {
  cursor?: string
  arguments?: Record<string, unknown>
  requestState?: string
}

export interface PlainServer {
  url: string
  /** Methods that it was asked for, in order; those that it refused with "!". */
  asked: string[]
  /** Pages of its tools, by their cursors; the first one has ''. */
  pages: Record<string, { tools: unknown; nextCursor?: unknown }>
  /** The result of a call, in place of its own. */
  said?: object | ((method: string, params: Params) => object | Promise<object>)
  /** Of a connection of 2025. */
  capabilities: object
  /** Speaks 2026 alone. */
  isModern: boolean
  /** Forgets all sessions, as a restart does. */
  restart(): void
  /** What it answers to a session that it does not know. */
  lost: Refusal
  /** Says what it refuses otherwise. */
  refuses(method: string): Refusal | undefined
}

const discovered = {
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
  ttlMs: 0,
  cacheScope: 'private',
  _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'plain', version: '1' } },
}
const initialized = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'plain', version: '1' },
}

const COMPLETE = { resultType: 'complete' }

/** Its tools answer with what they were called with. */
export async function plainHttp(t: Test, tools: unknown = [{ name: 'echo', inputSchema: { type: 'object' } }]) {
  let generation = 1
  const http = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params } = JSON.parse((await request.toArray()).join('')) as {
      id?: number
      method: string
      params?: Params
    }
    const isKnown = server.isModern || request.headers['mcp-session-id'] === `s${generation}` || method === 'initialize'
    const refusal = server.refuses(method) ?? (isKnown ? undefined : server.lost)
    if (id !== undefined) server.asked.push(refusal ? `${method}!` : method)
    if (refusal?.status === 0) return void response.destroy()
    if (refusal?.status === 200 && refusal.body)
      return void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...JSON.parse(refusal.body) }))
    if (refusal?.status === 200) return void response.writeHead(200, { 'content-type': 'text/event-stream' }).end()
    if (refusal) return void response.writeHead(refusal.status, refusal.headers).end(refusal.body)
    if (id === undefined) return void response.writeHead(202).end()
    const result =
      method === 'initialize'
        ? { ...initialized, capabilities: server.capabilities }
        : method === 'tools/list'
          ? server.pages[params?.cursor ?? '']
          : method === 'server/discover' && server.isModern
            ? discovered
            : typeof server.said === 'function'
              ? await server.said(method, params ?? {})
              : (server.said ?? { content: [{ type: 'text', text: JSON.stringify(params?.arguments) }] })
    response
      .writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': `s${generation}` })
      .end(JSON.stringify({ jsonrpc: '2.0', id, result: { ...(server.isModern && COMPLETE), ...result } }))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    http.closeAllConnections()
    return new Promise((resolve) => http.close(resolve))
  })
  const server: PlainServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    asked: [],
    pages: { '': { tools } },
    restart() {
      generation += 1
      server.asked.length = 0
    },
    capabilities: initialized.capabilities,
    isModern: false,
    lost: { status: 404 },
    refuses: () => undefined,
  }
  return server
}
