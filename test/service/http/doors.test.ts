/** Who is let in and what is refused, also in servers of others. */

import { once } from 'node:events'
import { Agent, createServer, get, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MessageChannel } from 'node:worker_threads'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import t, { type Test } from 'tap'
import { ConfigurationError, defineAgent } from '../../../src/index.ts'
import { bearerToken, type HttpApi, type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { block } from '../../busy.ts'
import { EVERYTHING, echo, type Sent, stage } from './stage.ts'

// Who is let in, and what is refused at the door.

const HELLO = { body: { query: 'hello' } }

t.test('a request to another host is refused, also without an Origin', async (t) => {
  const { send } = stage(t)
  for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example:4747', '', 'localhost@evil']) {
    const answer = await send('GET', '/api/tasks', { headers: { host } })
    t.match(answer, { status: 403, body: { code: 'FORBIDDEN', detail: /^Host: / } }, host)
  }
  for (const host of ['localhost', 'LOCALHOST:4747', '127.0.0.1:80', '[::1]:4747'])
    t.equal((await send('GET', '/api/tasks', { headers: { host } })).status, 200, host)
})

t.test('allowedHosts says which hosts are answered, with their port if it is given', async (t) => {
  const { send } = stage(t, echo(), { allowedHosts: ['agents.example.com', 'other.example:8443'] })
  const status = async (host: string) => (await send('GET', '/api/tasks', { headers: { host } })).status
  t.equal(await status('agents.example.com:443'), 200)
  t.equal(await status('other.example:8443'), 200)
  t.equal(await status('other.example'), 403)
  t.equal(await status('localhost'), 403)
})

t.test('a page of another origin can change nothing', async (t) => {
  const { send } = stage(t)
  const status = async (headers: Record<string, string>) =>
    (await send('POST', '/api/tasks', { ...HELLO, headers })).status
  t.equal(await status({ origin: 'http://evil.example' }), 403)
  t.equal(await status({ origin: 'null' }), 403)
  t.equal(await status({ 'sec-fetch-site': 'cross-site' }), 403)
  t.equal(await status({ 'sec-fetch-site': 'same-site' }), 403)
  t.equal(await status({ host: 'localhost:1', origin: 'http://localhost:2' }), 403, 'another port is another origin')
  t.equal(await status({ host: 'localhost:1', origin: 'http://localhost:1' }), 200)
  t.equal(await status({ 'sec-fetch-site': 'same-origin' }), 200)
})

t.test('a form of a page cannot begin a task: its body is no JSON', async (t) => {
  const { send } = stage(t)
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/jsonx'])
    t.equal((await send('POST', '/api/tasks', { ...HELLO, headers: { 'content-type': type } })).status, 415, type)
})

t.test('allowedOrigins lets a page of that origin in', async (t) => {
  const origin = 'https://app.example.com'
  const { send } = stage(t, echo(), { allowedOrigins: [origin] })
  const asks = { origin, 'access-control-request-method': 'POST' }
  const before = await send('OPTIONS', '/api/tasks', { headers: asks })
  t.equal(before.status, 204)
  t.equal(before.headers.get('access-control-allow-origin'), origin)
  t.match(before.headers.get('access-control-allow-headers'), 'x-dramatis-thread')
  const wanted = 'authorization,x-stainless-lang'
  const client = await send('OPTIONS', '/v1/models', {
    headers: { ...asks, 'access-control-request-headers': wanted },
  })
  t.equal(client.headers.get('access-control-allow-headers'), wanted, 'clients have headers of their own')
  const answer = await send('POST', '/api/tasks', { ...HELLO, headers: { origin, 'sec-fetch-site': 'cross-site' } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('access-control-allow-origin'), origin)
  t.equal((await send('OPTIONS', '/api/tasks', { headers: { ...asks, origin: 'https://evil.example' } })).status, 403)
  const stranger = await send('GET', '/api/tasks', { headers: { origin: 'https://evil.example' } })
  t.equal(stranger.headers.get('access-control-allow-origin'), null)
})

t.test('nobody that is known gets 401, one without the right 403', async (t) => {
  const { send } = stage(t)
  const nobody = await send('POST', '/api/tasks', { ...HELLO, caller: null })
  t.equal(nobody.status, 401)
  t.equal(nobody.headers.get('www-authenticate'), 'Bearer')
  t.match(await send('POST', '/api/tasks', { ...HELLO, caller: 'eve:watch' }), {
    status: 403,
    body: { detail: '"eve" may not do that: it takes the right run.' },
  })
})

t.test('a response of authorize is sent in place of the answer', async (t) => {
  const login = () => new Response(null, { status: 302, headers: { location: '/login' } })
  const { send } = stage(t, echo(), { authorize: login })
  const { status, headers } = await send('GET', '/api/tasks')
  t.equal(status, 302)
  t.equal(headers.get('location'), '/login')
})

t.test('an authorize that throws lets nobody in, and tells nothing', async (t) => {
  const broken = () => {
    throw new Error('no database at 10.0.0.7')
  }
  const { send, logged } = stage(t, echo(), { authorize: broken })
  const { status, body } = await send('GET', '/api/tasks')
  t.equal(status, 500)
  t.notMatch(JSON.stringify(body), /10\.0\.0\.7/)
  t.match(logged, [{ fields: { error: /10\.0\.0\.7/ } }])
})

t.test('every response says how it may be used', async (t) => {
  const { send } = stage(t)
  for (const path of ['/api/tasks', '/none']) {
    const { headers } = await send('GET', path)
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(headers.get('x-content-type-options'), 'nosniff')
    t.match(headers.get('content-security-policy'), /default-src 'none'.*frame-ancestors 'none'/)
  }
})

t.test('a method that a path has not is 405, and says which it has', async (t) => {
  const { send } = stage(t)
  const { status, headers } = await send('DELETE', '/api/tasks')
  t.equal(status, 405)
  t.equal(headers.get('allow'), 'POST, GET, HEAD, OPTIONS')
  const asked = await send('OPTIONS', '/api/tasks')
  t.equal(asked.status, 204)
  t.equal(asked.headers.get('allow'), 'POST, GET, HEAD, OPTIONS')
})

t.test('no path leads to a file', async (t) => {
  const { send } = stage(t)
  const paths = [
    '/../package.json',
    '/..%2f..%2fetc/passwd',
    '/api/tasks/..%2f..%2fetc%2fpasswd',
    '/%',
    '/api/tasks/%ff',
  ]
  for (const path of paths) t.equal((await send('GET', path)).status, 404, path)
})

const RATES = [
  { method: 'DELETE', limits: { postsPerSecond: 1, burst: 2 }, named: 'limits.postsPerSecond, limits.burst' },
  { method: 'GET', limits: { getsPerSecond: 1 }, named: 'limits.getsPerSecond' },
  { method: 'HEAD', limits: { getsPerSecond: 1 }, named: '' },
]

for (const { method, limits, named } of RATES)
  t.test(`a caller who sends too much is told when to try again; others are not concerned: ${method}`, async (t) => {
    const { send } = stage(t, echo(), { limits })
    const answers: Sent[] = []
    for (let i = 0; i < 20; i++) answers.push(await send(method, '/api/tasks/none'))
    const statuses = answers.map(({ status }) => status)
    t.ok(statuses.includes(404) && statuses.includes(429), statuses.join())
    const refused = answers.find(({ status }) => status === 429)!
    t.ok(Number(refused.headers.get('retry-after')) >= 1)
    if (method !== 'HEAD') t.match(refused.body.detail, `(${named})`)
    t.equal((await send(method, '/api/tasks/none', { caller: 'bob:run,operate' })).status, 404)
  })

t.test('probes and streams are not counted as GET requests', async (t) => {
  const { send } = stage(t, echo(), { limits: { getsPerSecond: 1 } })
  const { body: task } = await send('POST', '/api/tasks', HELLO)
  for (let i = 0; i < 20; i++)
    for (const path of ['/livez', '/readyz', '/healthz', `/api/tasks/${task.id}/events`])
      t.equal((await send('GET', path)).status, 200, path)
  t.equal((await send('GET', `/api/tasks/${task.id}`)).status, 200)
})

t.test('a caller has so many open tasks', async (t) => {
  const { send } = stage(
    t,
    echo(() => new Promise(() => {})),
    { limits: { tasksPerCaller: 2 } },
  )
  const begin = (caller: string) =>
    send('POST', '/api/tasks', { ...HELLO, caller, headers: { prefer: 'respond-async' } })
  const one = await begin('ann:run')
  t.equal((await begin('ann:run')).status, 202)
  t.match(await begin('ann:run'), { status: 429, body: { detail: /limits.tasksPerCaller/ } })
  t.equal((await begin('bob:run')).status, 202)
  await send('DELETE', `/api/tasks/${one.body.id}`)
  await send('GET', `/api/tasks/${one.body.id}?wait=30`)
  t.equal((await begin('ann:run')).status, 202)
})

t.test('a body that is too large, no JSON or no UTF-8 is refused', async (t) => {
  const { send } = stage(t, echo(), { limits: { bodyBytes: 100 } })
  t.match(await send('POST', '/api/tasks', { body: { query: 'x'.repeat(100) } }), {
    status: 413,
    body: { detail: /more than 100 bytes/ },
  })
  for (const body of ['', '{', '{"query":"a"} x', '\u0000'])
    t.equal((await send('POST', '/api/tasks', { body })).status, 400, JSON.stringify(body))
  for (const body of ['null', '[]', '3', '"query"'])
    t.equal((await send('POST', '/api/tasks', { body })).status, 422, body)
})

t.test('a body that never ends is given up', async (t) => {
  const { api } = stage(t, echo(), { limits: { bodyMs: 1 } })
  const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{"query":')) })
  const headers = { 'x-caller': 'ann:run', 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body, duplex: 'half' }
  const { status } = await api.fetch(new Request('http://localhost/api/tasks', init as RequestInit))
  t.equal(status, 408)
})

t.test('a body that arrived in time is read, though the service was busy until its time was up', async (t) => {
  const { api } = stage(t, echo(), { limits: { bodyMs: 300 } })
  const { port1, port2 } = new MessageChannel()
  const bytes = (text: string) => new TextEncoder().encode(text)
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes('{"query":'))
      const pieces = ['"go', ' on"', '}']
      port1.on('message', () => {
        controller.enqueue(bytes(pieces.shift()!))
        if (pieces.length > 0)
          setImmediate(() => port2.postMessage('more')) // as a socket gives it, one a turn
        else {
          controller.close()
          port1.close()
        }
      })
    },
  })
  const headers = { 'x-caller': 'ann:run', 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body, duplex: 'half' }
  const answer = api.fetch(new Request('http://localhost/api/tasks', init as RequestInit))
  await new Promise((resolve) => setImmediate(resolve)) // its time runs
  port2.postMessage('more')
  block(350)
  t.match(await (await answer).json(), { status: 'finished', answer: 'heard: go on' })
})

t.test('a wrong option is refused with its path', async (t) => {
  const { team } = stage(t)
  const throws = (options: object, message: RegExp) => {
    try {
      httpApi({ teams: { desk: team }, authorize: () => null, ...options } as HttpApiOptions)
      t.fail(String(message))
    } catch (error) {
      t.ok(error instanceof ConfigurationError)
      t.match((error as Error).message, message)
    }
  }
  throws({ teams: {} }, /^teams: got no team; accepted: at least one/)
  throws({ teams: { 'a/b': team } }, /^teams: the name: got "a\/b"/)
  throws({ teams: { desk: {} } }, /^teams.desk: /)
  throws({ authorize: undefined }, /^authorize: got nothing; accepted: a function/)
  throws({ basePath: '/agents/' }, /^basePath: /)
  throws({ allowedOrigins: ['https://app.example.com/'] }, /^allowedOrigins\[0\]: /)
  throws({ allowedHosts: ['https://a'] }, /^allowedHosts\[0\]: /)
  throws({ limits: { streams: 0 } }, /^limits.streams: /)
  throws({ onDisconect: 'auto' }, /did you mean "onDisconnect"/)
})

t.test('a token is for a caller with rights that there are', (t) => {
  const token = 'a-long-random-text'
  for (const [caller, path] of [
    [{ id: 'ann', may: ['Run'] }, 'caller.may[0]'],
    [{ id: 'ann', may: 'run' }, 'caller.may'],
    [{ may: ['run'] }, 'caller.id'],
    [undefined, 'caller.id'],
  ] as const)
    t.throws(() => bearerToken(token, caller as never), { code: 'CONFIGURATION', details: { path } })
  t.type(bearerToken(token, { id: 'ann', may: [] }), 'function')
  t.end()
})

// The API in servers of others: Node's own, hono, express, fastify, and a route handler as Next has it.

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
