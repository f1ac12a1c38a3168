/** What a hostile or broken model server can make the host hold, read or send: bounded. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { boundedFetch } from '../../../src/runtime/providers/openai-caller.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { BOTH, clientOf, errorOf, piecesOf, textOf } from './asking.ts'
import { forever, hostileServer } from './hostile-server.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const EVENTS = { 'content-type': 'text/event-stream' }
const SMALL = { body: 1_000, stream: 4_000, event: 1_000, empty: 200, events: 50, values: 20 }

const callDelta = (input: string) =>
  `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: input } }] } }] })}\n\n`

const floods = [
  ['JSON without an end', JSON_TYPE, '{"choices":[', `${' '.repeat(65_535)}\n`, 'sends a body of more than 16 MiB'],
  ['blank lines', EVENTS, '', '\n'.repeat(65_536), 'sends a stream without data of more than 1 MiB'],
  ['comments', EVENTS, '', ': still here\n\n'.repeat(4_096), 'sends a stream without data of more than 1 MiB'],
  ['events without data', EVENTS, '', 'id: 1\n\n'.repeat(8_192), 'sends a stream without data of more than 1 MiB'],
  ['one line without an end', EVENTS, 'data: ', 'x'.repeat(65_536), 'sends an event of more than 16 MiB'],
  ['arguments without an end', EVENTS, '', callDelta('x'.repeat(65_536)), 'answer of more than 8388608 characters'],
] as const

for (const [what, headers, head, again, message] of floods)
  t.test(`an answer of ${what} ends the call with an error that says so, and is not asked for again`, async (t) => {
    const server = await hostileServer(t, (response) => forever(response, head, again, headers))
    const error = await errorOf(clientOf(server), { stream: true })
    t.match(error.message, message)
    t.notOk(error.details.retryable)
    t.equal(server.requests, 1)
  })

t.test('timers have their turn while a flood is read', async (t) => {
  const server = await hostileServer(t, (response) =>
    forever(response, '', 'data: {"choices":[]}\n\n'.repeat(3_000), EVENTS),
  )
  const left = new AbortController()
  let turns = 0
  const counting = setInterval(() => {
    turns += 1
    if (turns === 5) left.abort(new Error('enough'))
  }, 1)
  t.teardown(() => clearInterval(counting))
  await t.rejects(piecesOf(clientOf(server), { stream: true, signal: left.signal }), { message: 'enough' })
})

t.test('a small body that grows when it is decompressed is bounded by what it grows to', async (t) => {
  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20, ' '))
  const server = await hostileServer(t, (response) =>
    response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(bomb),
  )
  for (const how of BOTH) t.match((await errorOf(clientOf(server), how)).message, 'sends a body of more than 16 MiB')
})

t.test('JSON of millions of values is refused before it is parsed, in one piece and as an event', async (t) => {
  const body = (values: number) => JSON.stringify({ choices: [], more: Array.from({ length: values }, () => ({})) })
  const server = await hostileServer(t, (response) => response.writeHead(200, JSON_TYPE).end(body(1_000_000)))
  t.match((await errorOf(clientOf(server))).message, 'sends a body of more than 65536 JSON values')
  const stream = await hostileServer(t, (response) =>
    response.writeHead(200, EVENTS).end(`data: ${body(1_000_000)}\n\n`),
  )
  t.match((await errorOf(clientOf(stream), { stream: true })).message, 'sends an event of more than 65536 JSON values')
})

t.test('arguments of millions of values are refused, in one piece and in many', async (t) => {
  const server = await modelServer(t)
  const input = { n: Array.from({ length: 70_000 }, () => ({})) }
  for (const how of BOTH) {
    server.answer({ toolCalls: [{ name: 'f', input }] })
    t.match((await errorOf(clientOf(server), how)).message, 'called a tool with more than 65536 JSON values')
  }
})

t.test('what looks like values within a string counts as one', async (t) => {
  const content = '[{},"\\",{}],'.repeat(10_000)
  const answer = JSON.stringify({ choices: [{ message: { content }, finish_reason: 'stop' }] })
  const server = await hostileServer(t, async (response) => {
    response.writeHead(200, JSON_TYPE)
    for (let at = 0; at < answer.length; at += 997) response.write(answer.slice(at, at + 997))
    response.end()
  })
  t.equal(await textOf(clientOf(server)), content)
})

t.test('the text of a refusal is bounded too', async (t) => {
  const server = await hostileServer(t, (response) => {
    response.statusCode = 500
    response.end('x'.repeat(20 * 2 ** 20))
  })
  const { message } = await errorOf(clientOf(server))
  t.match(message, /\(500\)/)
  t.ok(message.length < 1_000)
})

t.test('an answer with more than 1,024 calls of tools is refused, in one piece and in many', async (t) => {
  const server = await modelServer(t)
  const call = (index: number) => ({ index, id: `c${index}`, function: { name: 'f', arguments: '{}' } })
  const calls = Array.from({ length: 1_025 }, (_, index) => call(index))
  server.answer({ body: { choices: [{ message: { tool_calls: calls }, finish_reason: 'tool_calls' }] } })
  t.match((await errorOf(clientOf(server))).message, 'something else than chat completions')
  server.answer({
    events: calls.map((one) => `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [one] } }] })}\n\n`),
  })
  t.match((await errorOf(clientOf(server), { stream: true })).message, 'called more than 1024 tools at once')
})

t.test('only the first of many choices is looked at', async (t) => {
  const server = await modelServer(t)
  const wrong = Array.from({ length: 1_000 }, () => 5)
  server.answer({ body: { choices: [{ message: { content: 'Yes.' }, finish_reason: 'stop' }, ...wrong] } })
  t.equal(await textOf(clientOf(server)), 'Yes.')
})

t.test('each limit holds, and what is within it comes as it was sent', async (t) => {
  const event = (size: number) => `data: ${'x'.repeat(size - 8)}\n\n`
  const cases: [string, string, string | undefined][] = [
    ['a body within', 'x'.repeat(1_000), undefined],
    ['a body beyond', 'x'.repeat(1_001), 'sends a body'],
    ['events within', event(900).repeat(4), undefined],
    ['a stream beyond', event(900).repeat(5), 'sends a stream of'],
    ['many events within', event(10).repeat(50), undefined],
    ['many events beyond', event(10).repeat(51), 'sends a stream of more than 50 events'],
    ['an event beyond', event(1_100), 'sends an event'],
    ['a body of values within', `[${'{},'.repeat(9)}1]`, undefined],
    ['a body of values beyond', `[${'{},'.repeat(10)}1]`, 'sends a body of more than 20 JSON values'],
    ['an event of values beyond', `data: [${'{},'.repeat(10)}1]\n\n`, 'sends an event of more than 20 JSON values'],
    ['a last event of values beyond', `data: [${'{},'.repeat(10)}1]`, 'sends an event of more than 20 JSON values'],
    ['nothing within', `${'\n'.repeat(190)}${event(10)}`, undefined],
    ['nothing beyond', '\n'.repeat(201), 'sends a stream without data'],
  ]
  for (const [name, sent, refused] of cases) {
    const headers = name.startsWith('a body') ? JSON_TYPE : EVENTS
    const server = await hostileServer(t, (response) => response.writeHead(200, headers).end(sent))
    const read = boundedFetch(SMALL)(server.baseURL).then((response) => response.text())
    if (refused === undefined) t.equal(await read, sent.trimStart(), name)
    else await t.rejects(read, { name: 'Error', what: new RegExp(refused) }, name)
  }
})

t.test('a redirect to another origin is an error that names it, and nothing is sent there', async (t) => {
  const other = await hostileServer(t, (response) => response.end('{}'))
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await hostileServer(t, (response) =>
      response.writeHead(status, { location: `${other.baseURL}/chat/completions` }).end(),
    )
    const error = await errorOf(clientOf(server))
    t.match(error.message, `sends its callers elsewhere (${status} to ${new URL(other.baseURL).host})`)
    t.match(error.message, 'Set baseURL to the address that is meant')
  }
  t.equal(other.requests, 0)
})

t.test('a redirect within the origin is followed with the whole request, a few times', async (t) => {
  const answer = JSON.stringify({ choices: [{ message: { content: 'Here.' }, finish_reason: 'stop' }] })
  const server = await hostileServer(t, (response, path) =>
    path === '/v2/chat'
      ? response.writeHead(200, JSON_TYPE).end(answer)
      : response.writeHead(308, { location: '/v2/chat' }).end(),
  )
  t.equal(await textOf(clientOf(server)), 'Here.')
  const round = await hostileServer(t, (response) => response.writeHead(307, { location: '/v1' }).end())
  t.match((await errorOf(clientOf(round))).message, 'redirects more than 3 times')
  t.equal(round.requests, 4)
  const lost = await hostileServer(t, (response) => response.writeHead(302, { location: '/v1' }).end())
  t.match((await errorOf(clientOf(lost))).message, 'in a way that loses the request (302)')
})
