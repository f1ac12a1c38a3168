/** An MCP server over streamable HTTP, on the loopback. */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { offers, type Seen } from '../fixtures/mcp/offers.ts'

interface Test {
  teardown(end: () => unknown): unknown
}

export interface HttpServer {
  url: string
  seen: Seen
  /** Of each request. */
  headers: IncomingHttpHeaders[]
  methods: string[]
  /** Ends it, with what is open. */
  stop(): Promise<void>
}

export async function httpServer(t: Test): Promise<HttpServer> {
  const seen: Seen = { calls: [], cancelled: 0 }
  const headers: IncomingHttpHeaders[] = []
  const methods: string[] = []
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const server = createServer((request, response) => {
    headers.push(request.headers)
    methods.push(request.method ?? '')
    void (async () => {
      const id = request.headers['mcp-session-id']
      let transport = typeof id === 'string' ? sessions.get(id) : undefined
      if (!transport) {
        const made = new StreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (session) => void sessions.set(session, made),
        })
        await offers(seen).connect(made)
        transport = made
      }
      await transport.handleRequest(request, response)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const stop = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  t.teardown(stop)
  return { url: `http://127.0.0.1:${port}/mcp?token=secret`, seen, headers, methods, stop }
}
