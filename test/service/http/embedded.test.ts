/** The API in servers of others: Node's own, hono, express, fastify, and a route handler as Next has it. */
import { once } from 'node:events'
import { Agent, createServer, get, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import type { Test } from 'tap'
import t from 'tap'
import { defineAgent } from '../../../src/index.ts'
import type { HttpApi } from '../../../src/service/api/index.ts'
import { EVERYTHING, stage } from './stage.ts'

t.test("Node's http serves it at the root", async (t) => {
  const { api } = stage(t)
  const url = await listening(t, createServer(api.node))
  await works(t, url, '')
})

t.test('express serves it below a path', async (t) => {
  const { api } = stage(t, undefined, { basePath: '/agents' })
  const app = express()
  app.use('/agents', api.node)
  app.use(express.json())
  app.get('/own', (_request, response) => void response.send('own'))
  const url = await listening(t, createServer(app as RequestListener))
  await works(t, url, '/agents')
  t.equal(await (await fetch(`${url}/own`)).text(), 'own')
})

t.test('fastify serves it below a path', async (t) => {
  const { api } = stage(t, undefined, { basePath: '/agents' })
  const app = fastify()
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null)) // the API reads bodies itself
  app.all('/agents/*', (request, reply) => {
    reply.hijack()
    void api.node(request.raw, reply.raw)
  })
  t.teardown(() => app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  await works(t, url, '/agents')
})

t.test('hono mounts it below a path', async (t) => {
  const { api } = stage(t, undefined, { basePath: '/agents' })
  const app = new Hono()
  app.mount('/agents', api.fetch)
  await worksBy(t, (path, init) => Promise.resolve(app.request(`http://localhost${path}`, init)), '/agents')
})

t.test('a route handler of Next is the fetch function: its request has the whole path', async (t) => {
  const { api } = stage(t, undefined, { basePath: '/agents' })
  const GET = api.fetch
  const POST = api.fetch
  const handler = (path: string, init: RequestInit = {}) => {
    const request = new Request(`http://localhost${path}`, init)
    return request.method === 'POST' ? POST(request) : GET(request)
  }
  await worksBy(t, handler, '/agents')
})

const HOSTS: { name: string; listener(api: HttpApi): RequestListener }[] = [
  { name: "Node's http", listener: (api) => api.node },
  { name: 'express', listener: (api) => express().use(api.node) as RequestListener },
  { name: 'hono', listener: (api) => getRequestListener(new Hono().mount('/', api.fetch).fetch) },
]
for (const { name, listener } of HOSTS)
  t.test(`${name}: after the end of the API no client keeps the server from closing`, async (t) => {
    let filled = () => {}
    const full = new Promise<void>((resolve) => {
      filled = resolve
    })
    const big = defineAgent({
      async receive(_message, context) {
        // 12 MB: no connection takes that by itself.
        for (let n = 0; n < 120; n++) await context.blackboard!.write(`entry.n${n}`, 'x'.repeat(100_000), 'text')
        filled()
        return new Promise<never>(() => {})
      },
    })
    const { api, send } = stage(t, big, { limits: { unreadMs: 500 } })
    const server = createServer(listener(api))
    const url = await listening(t, server)
    const headers = { prefer: 'respond-async' }
    const { body: task } = await send('POST', '/api/tasks', { body: { query: 'q' }, headers })
    await full
    const agent = new Agent({ keepAlive: true }) // it keeps connections as long as the server does
    t.teardown(() => agent.destroy())
    const begin = async (path: string, reads: boolean) => {
      const asked = get(`${url}/api/tasks/${task.id}${path}`, { agent, headers: { 'x-caller': EVERYTHING } })
      const [response] = await once(asked, 'response')
      response.on('error', () => {}) // it is cut
      if (reads) response.resume()
    }
    await Promise.all([begin('/events', false), begin('/blackboard', false), begin('/events?types=run.started', true)])
    const arrived = once(server, 'request')
    const waiting = begin('?wait=60', true)
    await arrived
    await api.close()
    const closed = once(server, 'close')
    server.close()
    await Promise.all([closed, waiting])
  })

async function listening(t: Test, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const works = (t: Test, url: string, base: string) => worksBy(t, (path, init) => fetch(`${url}${path}`, init), base)

async function worksBy(
  t: Test,
  ask: (path: string, init?: RequestInit) => Promise<Response>,
  base: string,
): Promise<void> {
  const headers = { 'x-caller': EVERYTHING, 'content-type': 'application/json' }
  const body = JSON.stringify({ query: 'hello' })
  const done = await ask(`${base}/api/tasks`, { method: 'POST', headers, body })
  t.equal(done.status, 200)
  const task = (await done.json()) as { id: string; answer: string }
  t.equal(task.answer, 'heard: hello')
  const begun = await ask(`${base}/api/tasks`, {
    method: 'POST',
    headers: { ...headers, prefer: 'respond-async' },
    body,
  })
  t.equal(begun.status, 202)
  const found = await ask(`${begun.headers.get('location')}?wait=30`, { headers })
  t.match(await found.json(), { status: 'finished' })
  t.equal((await ask(`${base}/api/none`, { headers })).status, 404)
}
