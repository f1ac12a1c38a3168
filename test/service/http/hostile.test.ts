/**
 * Hostile requests over raw sockets: none gets through, and the service answers others all the while.
 *
 *   npm test   300 random bodies      npm run test:deep   10,000
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../../src/index.ts'
import type { HttpLimits } from '../../../src/service/api/index.ts'
import { listen, type ServerBounds } from '../../../src/service/api/server.ts'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { EVERYTHING, echo, type Stage, send, stage } from './stage.ts'

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
