/** stock_price, against servers that answer as Stooq and Alpha Vantage do. */

import type { Test } from 'tap'
import t from 'tap'
import { stockPrice } from '../../src/tools/stock-price.ts'
import { call, definitionOf } from './calls.ts'
import { serve } from './servers.ts'

process.env.STOCK_PRICE_TEST_KEY = 'ABCD1234EFGH5678'
const apiKeyEnv = 'STOCK_PRICE_TEST_KEY'
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
  return { server, tool: stockPrice({ apiKeyEnv, baseURL: server.origin }) }
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
