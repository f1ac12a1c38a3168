/** exchange_rate, against a server that answers as version 2 of Frankfurter's API does. */
import t from 'tap'
import { exchangeRate } from '../../src/tools/exchange-rate.ts'
import { call, definitionOf } from './calls.ts'
import { serve } from './servers.ts'

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
