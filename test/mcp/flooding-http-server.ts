/** An MCP server over HTTP that writes its answers itself, with a tool that sends what a test wants. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Test {
  teardown(end: () => unknown): unknown
}

interface Floods {
  /** The answer to a call of the tool "flood", once "wait" was called as well. */
  flood?: (response: ServerResponse) => unknown
  /** What the stream that stays open begins with; undefined: there is none. */
  lifelong?: string
}

const initialized = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'flooding', version: '1' },
}
const tools = ['say', 'wait', 'flood'].map((name) => ({ name, inputSchema: { type: 'object' } }))

export async function floodingHttp(t: Test, { flood, lifelong }: Floods) {
  let open: ServerResponse | undefined
  let waiting = () => {}
  const waits = new Promise<void>((resolve) => {
    waiting = resolve
  })
  const http = createServer((request, response) => {
    response.on('error', () => {}) // its client may leave
    if (request.method !== 'POST') {
      if (lifelong === undefined) return void response.writeHead(405).end()
      open = response.writeHead(200, { 'content-type': 'text/plain' })
      return void open.write(lifelong)
    }
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const { id, method, params } = JSON.parse(body) as { id?: number; method: string; params?: { name?: string } }
      if (id === undefined) return void response.writeHead(202).end()
      const say = (result: object) =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      if (method === 'initialize') say(initialized)
      else if (method === 'tools/list') say({ tools })
      else if (params?.name === 'say') say({ content: [{ type: 'text', text: 'said' }] })
      else if (params?.name === 'wait') waiting()
      else void waits.then(() => flood?.(response))
    })
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    http.closeAllConnections()
    return new Promise<void>((resolve) => http.close(() => resolve()))
  })
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
  return { url, more: (text: string) => void open?.write(text) }
}
