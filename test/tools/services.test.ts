/** What every tool that asks a service makes of a server that misbehaves. */
import { gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import t from 'tap'
import { exchangeRate } from '../../src/tools/exchange-rate.ts'
import { stockPrice } from '../../src/tools/stock-price.ts'
import { weather } from '../../src/tools/weather.ts'
import { webSearch } from '../../src/tools/web-search.ts'
import { call } from './calls.ts'
import { hostileUrls } from './hostile-urls.ts'
import { serve, watchConnections } from './servers.ts'

type Handler = Parameters<typeof serve>[1]
type Where = { baseURL: string; timeoutMs?: number }

const KEY = 'services-test-key-0123456789'
process.env.SERVICES_TEST_KEY = KEY
const apiKeyEnv = 'SERVICES_TEST_KEY'

const tools: Record<string, (where: Where, signal?: AbortSignal) => Promise<unknown>> = {
  google: (where, signal) => call(webSearch({ apiKeyEnv, engineId: 'x', ...where }), { query: 'x' }, signal),
  brave: (where, signal) => call(webSearch({ apiKeyEnv, ...where }), { query: 'x' }, signal),
  searxng: (where, signal) => call(webSearch({ provider: 'searxng', ...where }), { query: 'x' }, signal),
  weather: (where, signal) => call(weather(where), { place: 'Taipei' }, signal),
  exchangeRate: (where, signal) => call(exchangeRate(where), { from: 'USD', to: 'TWD' }, signal),
  stooq: (where, signal) => call(stockPrice(where), { symbol: 'TSM' }, signal),
  alphaVantage: (where, signal) => call(stockPrice({ apiKeyEnv, ...where }), { symbol: 'TSM' }, signal),
}

/** What each tool makes of such a server. */
async function outcomes(t: Test, handler: Handler, timeoutMs?: number): Promise<unknown[]> {
  const server = await serve(t, handler)
  return Promise.all(
    Object.values(tools).map((ask) => ask({ baseURL: server.origin, timeoutMs }).catch((error: unknown) => error)),
  )
}

const body =
  (text: string | Buffer, headers: Record<string, string> = {}, status = 200): Handler =>
  (_request, response) =>
    response.writeHead(status, headers).end(text)

t.test('an answer that is not what it should be is said to be so', async (t) => {
  const wrong: Handler[] = [
    body(''),
    body('null'),
    body('[1, 2'),
    body('<html>We are down for maintenance'),
    body('"Symbol"'),
    body('{"items": {}, "web": [], "results": 1, "rate": "x", "Global Quote": []}'),
    body('{"items": [{}], "web": {"results": [null]}, "results": [[]], "Global Quote": 5}'),
    body('\ud800{'),
    body(Buffer.from([0xff, 0xfe, 0x00])),
    body('x', { 'content-encoding': 'gzip' }),
    body('x', { 'content-encoding': 'zstd' }),
    body('x', { 'content-length': '5' }),
    ({ socket }) => socket.destroy(),
    ({ socket }) => socket.end('+OK redis\r\n'),
    ({ socket }) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'),
    body('', { location: 'http://127.0.0.1:1/' }, 302),
    body('', {}, 204),
    body('oops', {}, 500),
    body('{"error": "text", "message": 5, "reason": null}', {}, 400),
  ]
  for (const [index, handler] of wrong.entries()) {
    for (const outcome of await outcomes(t, handler)) {
      t.match(
        outcome,
        { code: 'TOOL_FAILED', message: /(?:Google|Brave|SearXNG|Open-Meteo|Frankfurter|Stooq|Alpha)/ },
        `case ${index}`,
      )
      t.ok(String(Object(outcome).message).length < 700)
    }
  }
})

t.test('an answer that is too large is given up', async (t) => {
  const large = [
    body(Buffer.alloc(3_000_000, 32)),
    body(gzipSync(Buffer.alloc(20_000_000)), { 'content-encoding': 'gzip' }),
  ]
  for (const handler of large) {
    for (const outcome of await outcomes(t, handler)) {
      t.match(outcome, { code: 'TOOL_FAILED', message: /is larger than 2000000 bytes/ })
    }
  }
})

t.test('a server that stops ends in a time limit, which names it', async (t) => {
  const stops: Handler[] = [
    () => {},
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{')
    },
  ]
  for (const handler of stops) {
    for (const outcome of await outcomes(t, handler, 100)) {
      t.match(outcome, { code: 'TOOL_TIMEOUT', message: /: .+ did not answer within 100 ms/ })
      t.not(Object(outcome).details.service, 'the service')
    }
  }
})

t.test('the signal of the turn ends the call, socket and all', async (t) => {
  for (const [name, ask] of Object.entries(tools)) {
    const turn = new AbortController()
    const server = await serve(t, () => turn.abort(new Error('the turn is over')))
    await t.rejects(ask({ baseURL: server.origin }, turn.signal), { message: 'the turn is over' }, name)
    await server.hungUp
  }
})

t.test('says when to ask again', async (t) => {
  const later = new Date(Date.now() + 3_600_000).toUTCString()
  const cases: [string, (ms: unknown) => boolean][] = [
    ['120', (ms) => ms === 120_000],
    [later, (ms) => typeof ms === 'number' && ms > 0 && ms <= 3_600_000],
    ['Wed, 21 Oct 2015 07:28:00 GMT', (ms) => ms === 0],
    ['soon', (ms) => ms === undefined],
    ['-5 or so', (ms) => ms === undefined],
  ]
  for (const [retryAfter, passes] of cases) {
    for (const outcome of await outcomes(t, body('{}', { 'retry-after': retryAfter }, 429))) {
      t.match(outcome, { code: 'TOOL_FAILED', details: { status: 429 } })
      t.ok(passes(Object(outcome).details.retryAfterMs), retryAfter)
    }
  }
})

t.test('a redirect is not followed: the key would go along', async (t) => {
  const thief = await serve(t, (_request, response) => response.end('{}'))
  for (const outcome of await outcomes(t, body('', { location: thief.origin }, 307))) {
    t.match(outcome, { code: 'TOOL_FAILED', message: /status 307\. A redirect is not followed; check the baseURL/ })
  }
  t.equal(thief.connections(), 0)
})

t.test('the key is in no error, whatever went wrong', async (t) => {
  const faults: Handler[] = [
    ({ url = '', headers }, response) =>
      response.writeHead(400).end(JSON.stringify({ error: { message: url, detail: headers } })),
    ({ url = '' }, response) =>
      response.writeHead(200).end(JSON.stringify({ Information: url, error: { detail: KEY } })),
    ({ socket }) => socket.destroy(),
    () => {},
  ]
  for (const handler of faults) {
    for (const outcome of await outcomes(t, handler, 100)) {
      const { message, stack, details, cause } = Object(outcome)
      t.notMatch([message, stack, JSON.stringify(details), String(cause), String(Object(cause).stack)].join('\n'), KEY)
    }
  }
})

t.test('no input leaves its place in the URL, or reaches another server', async (t) => {
  const canary = await serve(t, (_request, response) => response.end('reached'))
  const server = await serve(t, (_request, response) => response.end('{"web": {"results": []}, "results": []}'))
  const where = { baseURL: `${server.origin}/api` }
  const inputs = hostileUrls.flatMap(({ urls }) => urls).map((url) => url.replaceAll('{port}', String(canary.port)))
  const injections = [
    '&num=1000',
    '#',
    '?key=1',
    '%26a=b',
    'a\r\nHost: evil.test\r\n\r\nGET /admin',
    '../../admin',
    '\ud800',
    '{"a":1}',
    '$(id)',
  ]
  for (const query of [...inputs, ...injections]) {
    await call(webSearch({ apiKeyEnv, ...where }), { query })
    const { pathname, searchParams } = new URL(server.asked.at(-1)!, server.origin)
    t.equal(pathname, '/api/res/v1/web/search')
    t.same([...searchParams.keys()], ['q', 'count', 'text_decorations', 'result_filter'])
    t.equal(searchParams.get('q'), wellFormed(query.trim()), query)
    await t.rejects(call(weather(where), { place: query }), { code: 'TOOL_FAILED' })
    t.match(server.asked.at(-1), /^\/api\/(?:v1\/search|res)/)
  }
  t.equal(canary.connections(), 0)
})

t.test('without a baseURL they ask the public services, by name and over TLS', async (t) => {
  const opened = watchConnections(t)
  const asked = [
    call(webSearch({ apiKeyEnv, engineId: 'x' }), { query: 'x' }),
    call(webSearch({ apiKeyEnv }), { query: 'x' }),
    call(weather(), { place: 'Taipei' }),
    call(exchangeRate(), { from: 'USD', to: 'TWD' }),
    call(stockPrice(), { symbol: 'TSM' }),
    call(stockPrice({ apiKeyEnv }), { symbol: 'TSM' }),
  ]
  for (const outcome of await Promise.all(asked.map((asking) => asking.catch((error: unknown) => error)))) {
    t.match(outcome, { code: 'TOOL_FAILED', details: { code: 'ENETUNREACH' } })
  }
  t.same(opened, [
    'www.googleapis.com:443',
    'api.search.brave.com:443',
    'geocoding-api.open-meteo.com:443',
    'api.frankfurter.dev:443',
    'stooq.com:443',
    'www.alphavantage.co:443',
  ])
})

/** Half of a pair has no place in a URL. */
function wellFormed(text: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(text))
}
