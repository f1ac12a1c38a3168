/** What else a server has than tools: news of its list, resources and prompts. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { createMcpHandler, McpServer as ModernServer } from '@modelcontextprotocol/server'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { toolParts } from '../../src/index.ts'
import { type McpServer, type McpToolsOptions, mcpTools, type ToolChanges } from '../../src/mcp/index.ts'
import { pluck } from '../kit/lists.ts'
import { desk } from '../toolbox/desk.ts'
import { plainHttp } from './plain-http-server.ts'

const shelf = fileURLToPath(new URL('../fixtures/mcp/shelf.js', import.meta.url))
const stdio = (era: '2025' | '2026'): McpServer => ({ command: process.execPath, args: [shelf], era })

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
    const { mcp, call } = await opened(t, stdio(era), { prefix: 's_' })
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
    const { mcp, call } = await opened(t, stdio(era), { resourceTools: true, prefix: 's_' })
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
