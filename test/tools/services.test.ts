/** Tools that ask a service: exchange rates, stock prices, weather, and servers that misbehave. */
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { exchangeRate } from '../../src/tools/exchange-rate.ts'
import { stockPrice } from '../../src/tools/stock-price.ts'
import { weather } from '../../src/tools/weather.ts'
import { webSearch } from '../../src/tools/web-search.ts'
import { call, definitionOf } from './calls.ts'
import { hostileUrls } from './hostile-urls.ts'
import { serve, watchConnections } from './servers.ts'

// What every tool that asks a service makes of a server that misbehaves.

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

// exchange_rate, against a server that answers as version 2 of Frankfurter's API does.

t.test('gives the rate of two currencies', async (t) => {
  const server = await serve(t, (_request, response) => {
    const answer = { date: '2026-07-03', base: 'USD', quote: 'TWD', rate: 31.913 }
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(answer))
  })
  const rate = await call(exchangeRate({ baseURL: server.origin }), { from: ' usd', to: 'TWD' })
  t.same(rate, { from: 'USD', to: 'TWD', rate: 31.913, date: '2026-07-03' })
  t.same(server.asked, ['/v2/rate/USD/TWD'])
})

t.test('says that it knows no such currency', async (t) => {
  for (const [status, message] of [
    [404, 'not found'],
    [422, 'invalid currency: XXQ'],
  ] as const) {
    const server = await serve(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ status, message }))
    })
    await t.rejects(call(exchangeRate({ baseURL: server.origin }), { from: 'XXQ', to: 'TWD' }), {
      code: 'TOOL_FAILED',
      message: `Frankfurter answered with status ${status}: ${message}. Check that XXQ and TWD are currencies of today (ISO 4217).`,
      details: { service: 'Frankfurter', status },
    })
  }
})

t.test('a rate that is none is refused', async (t) => {
  for (const rate of [0, -1, '31.9', null, undefined, {}]) {
    const server = await serve(t, (_request, response) => response.end(JSON.stringify({ date: '2026-07-03', rate })))
    await t.rejects(call(exchangeRate({ baseURL: server.origin }), { from: 'USD', to: 'TWD' }), {
      code: 'TOOL_FAILED',
      message: /in a form that is not its own \(rate: /,
    })
  }
})

t.test('takes two currency codes', async (t) => {
  const tool = exchangeRate()
  const wrong = ['', 'US', 'USDT', '美金', 'U/D', '../', 'A?B', 'A#B', 'A\nB', 'ＵＳＤ', 1, null, ['USD']]
  for (const from of wrong) await t.rejects(call(tool, { from, to: 'TWD' }), { code: 'TOOL_INPUT' }, String(from))
  await t.rejects(call(tool, { from: 'USD', to: 'usd' }), {
    code: 'TOOL_INPUT',
    message: /one currency: the rate is 1/,
  })
  const { name, idempotent, timeoutMs } = definitionOf(exchangeRate({ timeoutMs: 500 }))
  t.same({ name, idempotent, timeoutMs }, { name: 'exchange_rate', idempotent: true, timeoutMs: 1500 })
})

// stock_price, against servers that answer as Stooq and Alpha Vantage do.

process.env.STOCK_PRICE_TEST_KEY = 'ABCD1234EFGH5678'
const stockPriceApiKeyEnv = 'STOCK_PRICE_TEST_KEY'
const HEADER = 'Symbol,Date,Time,Open,High,Low,Close,Volume'

async function stooq(t: Test, text: string) {
  const server = await serve(t, (_request, response) =>
    response.writeHead(200, { 'content-type': 'text/csv' }).end(text),
  )
  return { server, tool: stockPrice({ baseURL: server.origin }) }
}

async function alphaVantage(t: Test, answer: unknown) {
  const server = await serve(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  })
  return { server, tool: stockPrice({ apiKeyEnv: stockPriceApiKeyEnv, baseURL: server.origin }) }
}

const quote = (symbol: string, price: string) => ({
  'Global Quote': {
    '01. symbol': symbol,
    '02. open': '51.5100',
    '03. high': '51.9200',
    '04. low': '51.5100',
    '05. price': price,
    '06. volume': '93222',
    '07. latest trading day': '2026-07-02',
    '08. previous close': '51.4350',
    '09. change': '0.3250',
    '10. change percent': '0.6319%',
  },
})

t.test('gives the price of Stooq', async (t) => {
  const { server, tool } = await stooq(
    t,
    `${HEADER}\r\nTSM.US,2026-07-02,22:00:11,229.1,231.7,226.05,227.84,12345678\r\n`,
  )
  t.same(await call(tool, { symbol: 'TSM' }), { symbol: 'TSM.US', price: 227.84, currency: 'USD', date: '2026-07-02' })
  t.same(server.asked, ['/q/l/?s=tsm.us&f=sd2t2ohlcv&h=&e=csv'])
})

t.test('knows exchanges by their suffix, and what they are quoted in', async (t) => {
  const { server, tool } = await stooq(t, `${HEADER}\nX,2026-07-02,22:00:11,1,1,1,2.5,1\n`)
  const cases: [string, string, string][] = [
    ['aapl.us', 'aapl.us', 'USD'],
    ['BRK-B', 'brk-b.us', 'USD'],
    ['7203.JP', '7203.jp', 'JPY'],
    ['7203.T', '7203.jp', 'JPY'],
    ['SAP.DE', 'sap.de', 'EUR'],
    ['TSCO.L', 'tsco.uk', 'GBX'],
    ['0700.HK', '0700.hk', 'HKD'],
    ['CDR.WA', 'cdr', 'PLN'],
  ]
  for (const [symbol, asked, currency] of cases) {
    t.equal((await call(tool, { symbol })).currency, currency, symbol)
    t.equal(new URL(server.asked.at(-1)!, server.origin).searchParams.get('s'), asked)
  }
  for (const symbol of ['2330.TW', 'X.CONS', 'X.to']) {
    await t.rejects(call(tool, { symbol }), {
      code: 'TOOL_FAILED',
      message: /^Stooq has no exchange ".+" that .* It has: \.US \.UK /,
    })
  }
  t.equal(server.asked.length, cases.length)
})

t.test('says what Stooq refuses', async (t) => {
  const cases: [string, RegExp][] = [
    [`${HEADER}\r\nNOPE.US,N/D,N/D,N/D,N/D,N/D,N/D,N/D\r\n`, /knows no share "NOPE"/],
    ['Exceeded the daily hits limit', /Exceeded the daily hits limit\. Try again tomorrow\. A key for Alpha Vantage/],
    ['\n<!DOCTYPE html><script>crypto.subtle.digest("SHA-256")</script>', /from a browser\. A key for Alpha Vantage/],
    ['', /form that is not its own \(no CSV/],
    [HEADER, /form that is not its own/],
    [`${HEADER}\nX,2026-07-02,22:00:11,1,1,1,,1`, /a price that is no number/],
    [`${HEADER}\nX,2026-07-02,22:00:11,1,1,1,-5,1`, /a price that is no number/],
    [`${HEADER}\nX,2026-07-02,22:00:11,1,1,1,1e999,1`, /a price that is no number/],
    [`${HEADER}\nX,2026-07-02`, /no CSV/],
  ]
  for (const [text, message] of cases) {
    const { tool } = await stooq(t, text)
    await t.rejects(call(tool, { symbol: 'NOPE' }), { code: 'TOOL_FAILED', message }, text.slice(-40))
  }
})

t.test('gives the price of Alpha Vantage', async (t) => {
  const { server, tool } = await alphaVantage(t, quote('TSCO.LON', '412.3000'))
  t.same(await call(tool, { symbol: 'TSCO.L' }), {
    symbol: 'TSCO.LON',
    price: 412.3,
    currency: 'GBX',
    date: '2026-07-02',
  })
  t.same(server.asked, ['/query?function=GLOBAL_QUOTE&symbol=TSCO.LON&apikey=ABCD1234EFGH5678'])
  t.equal((await call(tool, { symbol: 'TSM' })).currency, 'USD')
})

t.test('says what Alpha Vantage refuses, without the key that it repeats', async (t) => {
  const cases: [unknown, RegExp][] = [
    [{ 'Global Quote': {} }, /knows no share "NOPE"/],
    [
      { 'Error Message': 'the parameter apikey is invalid or missing.' },
      /apikey is invalid or missing\. Check the symbol/,
    ],
    [
      { Note: 'Thank you for using Alpha Vantage! Our standard API call frequency is 5 calls per minute.' },
      /5 calls per minute\. It was asked too often/,
    ],
    [
      {
        Information:
          'We have detected your API key as ABCD1234EFGH5678 and our standard API rate limit is 25 requests per day.',
      },
      /your API key as \[key\] and our standard API rate limit is 25 requests/,
    ],
    [{}, /no Global Quote/],
    [{ 'Global Quote': { '01. symbol': 'NOPE' } }, /half a Global Quote/],
    [quote('NOPE', 'N/A'), /a price that is no number/],
    [quote('NOPE', ''), /a price that is no number/],
    [[], /form that is not its own/],
    ['text', /form that is not its own/],
  ]
  for (const [answer, message] of cases) {
    const { tool } = await alphaVantage(t, answer)
    const error = await call(tool, { symbol: 'NOPE' }).catch((error: unknown) => error)
    t.match(error, { code: 'TOOL_FAILED', message }, JSON.stringify(answer))
    t.notMatch(JSON.stringify(error), 'ABCD1234EFGH5678')
  }
})

t.test('takes one symbol', async (t) => {
  const tool = stockPrice()
  const wrong = [
    '',
    ' ',
    '台積電',
    'A B',
    'A/B',
    '../x',
    'A?s=B',
    'A&f=x',
    'A#',
    '.US',
    'A.',
    'A.B.C',
    '-A',
    'A'.repeat(30),
    'A\r\nB',
    '^SPX',
    'A%2e',
    5,
    null,
  ]
  for (const symbol of wrong) await t.rejects(call(tool, { symbol }), { code: 'TOOL_INPUT' }, String(symbol))
  const { name, idempotent } = definitionOf(tool)
  t.same({ name, idempotent }, { name: 'stock_price', idempotent: true })
  t.throws(() => stockPrice({ apiKeyEnv: 'A-B' }), { code: 'CONFIGURATION', details: { path: 'stockPrice.apiKeyEnv' } })
})

// weather, against a server that answers as Open-Meteo's geocoding and forecast do.

const place = (name: string, country: string, admin1: string, population?: number) => ({
  id: 1,
  name,
  latitude: 25.05,
  longitude: 121.53,
  elevation: 11,
  feature_code: 'PPLC',
  country_code: country.slice(0, 2).toUpperCase(),
  admin1_id: 2,
  timezone: 'Asia/Taipei',
  population,
  country_id: 3,
  country,
  admin1,
})
// what the service knows, in each language by itself
const known: Record<string, object[]> = {
  'en Taipei': [place('Taipei', 'Taiwan', 'Taipei', 7_871_900)],
  'en Paris': [
    place('Paris', 'France', 'Île-de-France', 2_138_551),
    { ...place('Paris', 'United States', 'Texas', 24_782), country_code: 'US' },
    place('Paris Township', 'United States', 'Ohio', 5_000_000),
  ],
  'en Sao Paulo': [place('Sao Paulo', 'Angola', 'Luanda', 10), place('São Paulo', 'Brazil', 'São Paulo', 10_021_295)],
  'zh 台北': [place('台北', '中国', '湖南省')],
  'zh 台北市': [place('台北市', '臺灣', '臺北市', 7_871_900)],
  'ja さいたま': [place('さいたま', '日本', '埼玉県', 1_193_350)],
  'ru Москва': [place('Москва', 'Россия', 'Москва', 10_381_222)],
}
const forecast = {
  latitude: 25.0625,
  longitude: 121.5,
  generationtime_ms: 0.12,
  utc_offset_seconds: 28800,
  timezone: 'Asia/Taipei',
  timezone_abbreviation: 'GMT+8',
  elevation: 11,
  current_units: { time: 'iso8601', interval: 'seconds', temperature_2m: '°C' },
  current: {
    time: '2026-07-03T14:15',
    interval: 900,
    temperature_2m: 33.1,
    apparent_temperature: 38.4,
    relative_humidity_2m: 62,
    precipitation: 0,
    weather_code: 95,
    wind_speed_10m: 12.3,
  },
  daily_units: { time: 'iso8601' },
  daily: {
    time: ['2026-07-03', '2026-07-04'],
    weather_code: [80, 1234],
    temperature_2m_min: [26.5, 26.9],
    temperature_2m_max: [34.2, 33.8],
    precipitation_probability_max: [73, null],
  },
}

async function openMeteo(t: Test, answer: object = forecast) {
  return serve(t, ({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://loopback')
    response.setHeader('content-type', 'application/json; charset=utf-8')
    if (pathname === '/v1/forecast') return response.end(JSON.stringify(answer))
    const results = known[`${searchParams.get('language')} ${searchParams.get('name')}`]
    response.end(JSON.stringify({ ...(results && { results }), generationtime_ms: 0.5 }))
  })
}

t.test('gives the weather of a place, with units', async (t) => {
  const server = await openMeteo(t)
  t.same(await call(weather({ baseURL: server.origin, days: 2 }), { place: 'Taipei' }), {
    place: 'Taipei, Taipei, Taiwan',
    latitude: 25.05,
    longitude: 121.53,
    timezone: 'Asia/Taipei',
    current: {
      time: '2026-07-03T14:15',
      conditions: 'thunderstorm',
      temperatureC: 33.1,
      feelsLikeC: 38.4,
      humidityPercent: 62,
      precipitationMm: 0,
      windKmh: 12.3,
    },
    days: [
      { date: '2026-07-03', conditions: 'light showers', minC: 26.5, maxC: 34.2, rainChancePercent: 73 },
      { date: '2026-07-04', conditions: 'unknown (code 1234)', minC: 26.9, maxC: 33.8, rainChancePercent: null },
    ],
  })
  const query = new URL(server.asked[1]!, server.origin).searchParams
  t.match(Object.fromEntries(query), { latitude: '25.05', longitude: '121.53', forecast_days: '2', timezone: 'auto' })
})

t.test('finds a place in the script of its name, and the one with the most people', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  const found = async (name: string) => (await call(tool, { place: name })).place
  t.equal(await found('台北'), '台北市, 臺北市, 臺灣', 'a city of two characters, and not the village of that name')
  t.equal(await found('台北市'), '台北市, 臺北市, 臺灣')
  t.equal(await found('さいたま'), 'さいたま, 埼玉県, 日本')
  t.equal(await found('Москва'), 'Москва, Москва, Россия')
  t.equal(await found('Paris'), 'Paris, Île-de-France, France')
  t.equal(await found('Sao Paulo'), 'São Paulo, São Paulo, Brazil')
})

t.test('what stands after the comma chooses', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  for (const name of [
    'Paris, Texas',
    'Paris,texas, us',
    'Paris, Texas, USA',
    'Paris, U.S.A.',
    'Paris，TEXAS',
    ' Paris , United States',
  ]) {
    t.equal((await call(tool, { place: name })).place, 'Paris, Texas, United States', name)
  }
  t.equal((await call(tool, { place: '台北，臺灣' })).place, '台北市, 臺北市, 臺灣')
  await t.rejects(call(tool, { place: 'Paris, Japan' }), {
    code: 'TOOL_FAILED',
    message:
      /knows "Paris", but not as "Paris, Japan": Paris, Île-de-France, France; Paris, Texas, United States; .*Choose one/,
  })
})

t.test('says that it knows no such place', async (t) => {
  const server = await openMeteo(t)
  const tool = weather({ baseURL: server.origin })
  for (const name of [
    'Atlantis',
    '台',
    ',',
    'Taipei City, Taiwan',
    '../../v1/forecast',
    'x&language=en',
    'a\r\nHost: b',
    '\0',
  ]) {
    await t.rejects(call(tool, { place: name }), {
      code: 'TOOL_FAILED',
      message: /knows no place .*its name in English/,
    })
  }
  t.ok(server.asked.every((path) => path.startsWith('/v1/search?name=')))
})

t.test('says what Open-Meteo refuses', async (t) => {
  const refusals: [number, string][] = [
    [400, 'Parameter count must be between 1 and 100.'],
    [429, 'Daily API request limit exceeded. Please try again tomorrow.'],
  ]
  for (const [status, reason] of refusals) {
    const server = await serve(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: true, reason }))
    })
    const message = new RegExp(`^Open-Meteo answered with status ${status}: ${reason}`)
    await t.rejects(call(weather({ baseURL: server.origin }), { place: 'Taipei' }), { code: 'TOOL_FAILED', message })
  }
})

t.test('a forecast of another form is no forecast', async (t) => {
  const { daily, current } = forecast
  const wrong = [
    { ...forecast, current: undefined },
    { ...forecast, current: { ...current, temperature_2m: '33' } },
    { ...forecast, daily: { ...daily, weather_code: [80] } },
    { ...forecast, daily: { ...daily, time: 'today' } },
    [],
    { error: true, reason: 'a good status, and yet' },
  ]
  for (const answer of wrong) {
    const server = await openMeteo(t, answer)
    await t.rejects(call(weather({ baseURL: server.origin }), { place: 'Taipei' }), {
      code: 'TOOL_FAILED',
      message: /^Open-Meteo answered in a form that is not its own/,
    })
  }
})

t.test('takes one place', async (t) => {
  const tool = weather({ days: 1 })
  for (const input of [{}, { place: ' ' }, { place: 'x'.repeat(300) }, { place: 1 }, { place: 'x', days: 2 }]) {
    await t.rejects(call(tool, input), { code: 'TOOL_INPUT' })
  }
  const { name, idempotent, description } = definitionOf(tool)
  t.match({ name, idempotent, description }, { name: 'weather', idempotent: true, description: /now, and for today/ })
  t.throws(() => weather({ days: 17 }), { code: 'CONFIGURATION', details: { path: 'weather.days' } })
})
