/** Who is let in and what is refused, also in servers of others, and from hostile requests over raw sockets. */
import { once } from 'node:events'
import { Agent, createServer, get, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { MessageChannel } from 'node:worker_threads'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import t, { type Test } from 'tap'
import { type AgentDefinition, ConfigurationError, defineAgent } from '../../../src/index.ts'
import {
  bearerToken,
  type HttpApi,
  type HttpApiOptions,
  type HttpLimits,
  httpApi,
} from '../../../src/service/api/index.ts'
import { listen, type ServerBounds } from '../../../src/service/api/server.ts'
import { block } from '../../busy.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { EVERYTHING, echo, type Sent, type Stage, send, stage } from './stage.ts'

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

// Hostile requests over raw sockets: none gets through, and the service answers others all the while.
//
// npm test   300 random bodies      npm run test:deep   10,000

const FUZZED = howMany(38, 10_000)
const BODY = '{"query":"hello"}'
const COMMON = `x-caller: ${EVERYTHING}\r\ncontent-type: application/json\r\n`

t.setTimeout(600_000) // many bodies take their time

t.test('requests that are cut up for another reader are refused, and begin no task', async (t) => {
  const { ask, team, isAlive } = await served(t)
  const post = (headers: string, body: string) =>
    `POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n${COMMON}${headers}\r\n${body}`
  const smuggled = `POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n${COMMON}content-length: ${BODY.length}\r\n\r\n${BODY}`
  const refused = [
    post(`content-length: 0\r\ntransfer-encoding: chunked\r\n`, `0\r\n\r\n${smuggled}`),
    post(`content-length: ${BODY.length}\r\ncontent-length: 0\r\n`, BODY),
    post(`content-length: +${BODY.length}\r\n`, BODY),
    post(`content-length: 0x11\r\n`, BODY),
    post(`transfer-encoding: chunked, identity\r\n`, `0\r\n\r\n`),
    post(`transfer-encoding: xchunked\r\n`, BODY),
    post(`transfer-encoding : chunked\r\n`, `0\r\n\r\n`),
    post(`transfer-encoding: chunked\r\n`, `zz\r\n${BODY}\r\n0\r\n\r\n`),
    post(`x-a: b\u0000c\r\ncontent-length: ${BODY.length}\r\n`, BODY),
    `POST /api/tasks HTTP/1.1\nhost localhost\n\n${BODY}`,
    `GET /api/tasks HTTP/9.9\r\nhost: localhost\r\n\r\n`,
    `\u0016\u0003\u0001\u0002\u0000\u0001`,
    `GET http://evil.example/api/tasks HTTP/1.1\r\nhost: evil.example\r\n${COMMON}\r\n`,
    `GET /api/tasks HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n`,
    `GET /api/tasks HTTP/1.1\r\nhost: evil.example\r\n${COMMON}\r\n`,
    `GET /api/tasks HTTP/1.1\r\n${COMMON}\r\n`,
    `GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n${COMMON}\r\n`,
    `GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nhost: localhost\r\n${COMMON}\r\n`,
    `GET /api/tasks/..%5c..%5cetc HTTP/1.1\r\nhost: localhost\r\n${COMMON}\r\n`,
    `GET /api/tasks HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`,
  ]
  for (const request of refused) {
    const answer = await ask(request)
    t.match(answer, /^(HTTP\/1\.1 (400|401|403|404|408|413|431|501|505) |$)/, JSON.stringify(request.slice(0, 120)))
    t.notMatch(answer, / at .*\.[jt]s:\d+/, 'no stack')
  }
  t.same(await team.listRuns(), [], 'nothing got through')
  t.ok(await isAlive())
})

t.test('a body whose end comes never, or whose headers do, is given up', async (t) => {
  const { ask, isAlive } = await served(t, { headersMs: 100, requestMs: 200 }, { limits: { bodyMs: 100 } })
  const slow = [
    'POST /api/tasks HTTP/1.1\r\nhost: local',
    `POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n${COMMON}content-length: 1000\r\n\r\n{`,
    `POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n${COMMON}transfer-encoding: chunked\r\n\r\n5\r\n{"que`,
  ]
  const answers = await Promise.all(slow.map((request) => ask(request, 'keeps its side open')))
  for (const answer of answers) t.match(answer, /^(HTTP\/1\.1 408 |$)/)
  t.ok(await isAlive())
})

t.test('a body without an end is cut at its bound', async (t) => {
  const { port, isAlive } = await served(t)
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.setEncoding('utf8').on('data', (text) => {
    answer += text
  })
  socket.on('error', () => {})
  socket.write(`POST /api/tasks HTTP/1.1\r\nhost: localhost\r\n${COMMON}transfer-encoding: chunked\r\n\r\n`)
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
  let sent = 0
  while (!socket.destroyed && sent < 64 * 2 ** 20 && answer === '') {
    sent += 65_536
    if (!socket.write(chunk)) await Promise.race([once(socket, 'drain'), once(socket, 'close')])
    await new Promise(setImmediate)
  }
  t.ok(sent < 64 * 2 ** 20, `${sent} bytes were taken`)
  t.match(answer, /^(HTTP\/1\.1 413 |$)/)
  socket.destroy()
  t.ok(await isAlive())
})

/** 12 MB on its blackboard: no connection takes that by itself. */
const BIG = defineAgent({
  async receive(_message, context) {
    for (let n = 0; n < 120; n++) await context.blackboard!.write(`entry.n${n}`, 'x'.repeat(100_000), 'text')
    return 'done'
  },
})
const BIG_BYTES = 12_000_000
/** Paths below a task of `BIG` whose answer has all of that: a stream, and a plain answer. */
const BIG_PATHS = ['events', 'blackboard']

for (const path of BIG_PATHS)
  t.test(`a client that never reads is cut, and holds nothing in this process: ${path}`, async (t) => {
    const { port, isAlive, send: ask } = await served(t, {}, { agent: BIG, limits: { unreadMs: 200 } })
    const { body: task } = await ask('POST', '/api/tasks', { body: { query: 'q' } })
    const socket = unreadBy(port, `/api/tasks/${task.id}/${path}`)
    while ((await metric(ask, 'http_unread_cuts_total')) === 0) await new Promise(setImmediate)
    t.equal(await metric(ask, 'http_unread_bytes'), 0)
    t.equal(await metric(ask, 'http_streams'), 0)
    socket.resume()
    await once(socket, 'close')
    t.ok(socket.bytesRead < BIG_BYTES, `${socket.bytesRead} bytes were sent`)
    t.ok(await isAlive())
  })

t.test('of what nobody reads there is so much: what has waited longest is cut, and who reads gets all', async (t) => {
  const limits = { unreadBytes: 2 * BIG_BYTES, unreadMs: 600_000, streamsPerCaller: 100 }
  const { port, send: ask } = await served(t, {}, { agent: BIG, limits })
  const { body: task } = await ask('POST', '/api/tasks', { body: { query: 'q' } })
  const path = `/api/tasks/${task.id}/blackboard`
  const clients = Array.from({ length: 8 }, () => unreadBy(port, path))
  // A connection takes some MB by itself, so that there is room for two or three.
  while ((await metric(ask, 'http_unread_cuts_total')) < 5) await new Promise(setImmediate)
  t.ok((await metric(ask, 'http_unread_bytes')) <= limits.unreadBytes)
  const reading = await fetch(`http://localhost:${port}${path}`, { headers: { 'x-caller': EVERYTHING } })
  t.ok((await reading.text()).length > BIG_BYTES)
  for (const socket of clients) socket.destroy()
})

/** A client that asks for an answer and reads nothing of it. */
function unreadBy(port: number, path: string): Socket {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n${COMMON}\r\n`)
  return socket.pause()
}

async function metric(ask: Stage['send'], name: string): Promise<number> {
  const { body } = await ask('GET', '/metrics')
  return Number(new RegExp(`^dramatis_${name} (\\d+)$`, 'm').exec(body)?.[1])
}

t.test('beyond the bound of connections new ones are closed, and later ones are taken', async (t) => {
  const { port, isAlive } = await served(t, { connections: 4 })
  const sockets = Array.from({ length: 12 }, () => connect(port, '127.0.0.1').on('error', () => {}))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  const closed = sockets.filter((socket) => socket.destroyed || socket.closed).length
  await Promise.any(sockets.map((socket) => once(socket, 'close')))
  t.ok(closed <= 8)
  for (const socket of sockets) socket.destroy()
  while (!(await isAlive().catch(() => false))) await new Promise(setImmediate)
})

t.test(`${FUZZED} random bodies: each is answered with a status that is known`, async (t) => {
  t.setTimeout(600_000)
  const { api, team } = stage(t, echo(), { limits: { tasksPerCaller: 100_000 } })
  const dice = new Dice(11)
  const statuses = new Map<number, number>()
  const paths = [
    '/api/tasks',
    '/v1/chat/completions',
    '/v1/responses',
    '/api/agents/worker/messages',
    '/api/tasks/x/answers',
  ]
  for (let n = 0; n < FUZZED; n++) {
    const body = fuzzed(dice)
    const { status, body: answer } = await send(api, 'POST', dice.pick(paths), { body })
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    const misses = status === 502 && answer.type.endsWith(':REPLY_INVALID') // the echo is not what its schema asks for
    if (![200, 202, 400, 404, 422].includes(status) && !misses)
      t.fail(`${status} for ${body.slice(0, 200)}: ${JSON.stringify(answer)}`)
  }
  t.ok((statuses.get(422) ?? 0) > FUZZED / 10, JSON.stringify([...statuses]))
  t.ok(team.health().live)
})

const KEYS = ['query', 'task', 'message', 'team', 'threadId', 'timeoutMs', 'priority', 'budget', 'models', 'metadata']
const MORE_KEYS = [
  'output',
  'stream',
  'content',
  'model',
  'messages',
  'input',
  'role',
  '__proto__',
  'constructor',
  'toString',
]
const VALUES = [
  '"a"',
  '""',
  '0',
  '-1',
  '1e308',
  '1e999',
  'null',
  'true',
  '[]',
  '{}',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__"',
  '"desk"',
  '"desk/worker"',
  '[{"role":"user","content":"x"}]',
  '{"tokens":1}',
  '{"type":"object"}',
  '{"$ref":"#"}',
  '{"a":{"a":{"a":1}}}',
  '"𝕏\u202e"',
]

function fuzzed(dice: Dice): string {
  const fields = Array.from(
    { length: dice.upTo(5) },
    () => `${JSON.stringify(dice.pick([...KEYS, ...MORE_KEYS]))}:${dice.pick(VALUES)}`,
  )
  const text = `{${fields.join(',')}}`
  const kind = dice.random()
  if (kind < 0.7) return text
  if (kind < 0.8) return text.slice(0, dice.upTo(text.length))
  if (kind < 0.9) return `${'['.repeat(dice.upTo(50_000))}${text}`
  const at = dice.upTo(text.length)
  return `${text.slice(0, at)}${String.fromCharCode(dice.upTo(65_536))}${text.slice(at)}`
}

interface Served extends Stage {
  port: number
  /** Sends bytes, and resolves to all that comes back until the connection is closed. */
  ask(request: string, keeps?: 'keeps its side open'): Promise<string>
  isAlive(): Promise<boolean>
}

async function served(
  t: Test,
  bounds: Partial<ServerBounds> = {},
  { agent = echo(), limits = {} }: { agent?: AgentDefinition; limits?: Partial<HttpLimits> } = {},
): Promise<Served> {
  const given = stage(t, agent, { limits })
  const server = await listen(given.api, { port: 0, host: '127.0.0.1' }, bounds)
  t.teardown(() => server.close(0))
  const port = Number(new URL(server.url).port)
  return {
    ...given,
    port,
    async ask(request, keeps) {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.setEncoding('utf8').on('data', (text) => {
        answer += text
      })
      socket.on('error', () => {})
      socket.write(request)
      if (!keeps) socket.end()
      await once(socket, 'close')
      return answer
    },
    isAlive: async () => (await fetch(`${server.url}/livez`)).status === 200,
  }
}
