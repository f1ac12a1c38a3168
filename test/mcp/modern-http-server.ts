/** The MCP server of both years over HTTP, on the loopback. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { modernServer } from '../fixtures/mcp/modern.ts'

interface Test {
  teardown(end: () => unknown): unknown
}

/** Resolves to its URL. It writes each effect as a line into the file. */
export async function modernHttp(t: Test, file: string): Promise<string> {
  const handler = createMcpHandler(() => modernServer(file))
  const http = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    const headers = new Headers(request.headers as Record<string, string>)
    const { method = '' } = request
    const given = new Request('http://127.0.0.1/mcp', { method, headers, ...(body.length > 0 && { body }) })
    const answer = await handler.fetch(given)
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    for await (const chunk of answer.body ?? []) response.write(chunk)
    response.end()
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    http.closeAllConnections()
    return new Promise((resolve) => http.close(resolve))
  })
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
}
