import t from 'tap'
import { limitsOf, retryAfterMs } from '../../../src/runtime/providers/model-errors.ts'

const NOW = Date.parse('2026-01-01T00:00:00Z')
const limits = (headers: Record<string, string>) => limitsOf(new Headers(headers), NOW)
const of = (kind: string, remaining: string, reset: string) => ({
  [`x-ratelimit-remaining-${kind}`]: remaining,
  [`x-ratelimit-reset-${kind}`]: reset,
})

t.test('retry-after is read in all its forms', async (t) => {
  const after = (headers: Record<string, string>) => retryAfterMs(new Headers(headers), NOW)
  t.equal(after({ 'retry-after': '2' }), 2_000)
  t.equal(after({ 'retry-after': '0' }), 0)
  t.equal(after({ 'retry-after': 'Thu, 01 Jan 2026 00:00:03 GMT' }), 3_000)
  t.equal(after({ 'retry-after': 'Wed, 31 Dec 2025 23:59:00 GMT' }), 0)
  t.equal(after({ 'retry-after': `${NOW / 1_000 + 3}` }), 3_000, 'seconds since 1970')
  t.equal(after({ 'retry-after': `${NOW + 3_000}` }), 3_000, 'ms since 1970')
  t.equal(after({ 'retry-after': `${NOW / 1_000 - 3}` }), 0, 'a moment that is past')
  t.equal(after({ 'retry-after': '1m30s' }), 90_000)
  t.equal(after({ 'x-ms-retry-after-ms': '70' }), 70)
  t.equal(after({ 'retry-after': '9', 'retry-after-ms': '12.5' }), 12.5)
  t.equal(after({ 'retry-after': '9', 'retry-after-ms': 'x' }), 9_000)
  for (const text of ['', ' ', '-1', 'NaN', 'later']) t.equal(after({ 'retry-after': text }), undefined, text)
  t.equal(after({}), undefined)
})

t.test('the time of a reset is read in all its forms', async (t) => {
  const resets = {
    '1s': 1_000,
    '6m0s': 360_000,
    '2m59.5s': 179_500,
    '20ms': 20,
    '1h0m1s': 3_601_000,
    '1.5': 1_500,
    '2026-01-01T00:00:02Z': 2_000,
    '2025-12-31T23:59:59Z': 0,
    [`${NOW / 1_000 + 2}`]: 2_000,
    [`${NOW + 2_000}`]: 2_000,
    [`${NOW - 2_000}`]: 0,
  }
  for (const [text, resetMs] of Object.entries(resets))
    t.strictSame(limits(of('requests', '3', text)), { remaining: 3, resetMs }, text)
  for (const text of ['', 'soon', '5 parsecs', '-3s'])
    t.equal(limits(of('requests', '3', text)), undefined, `"${text}"`)
})

t.test('headers without the kind of their limit are those of requests', async (t) => {
  const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': `${NOW + 2_000}` }
  t.strictSame(limits(headers), { remaining: 0, resetMs: 2_000 })
})

t.test('the headers of Anthropic are read too', async (t) => {
  const of = (kind: string, remaining: string) => ({
    [`anthropic-ratelimit-${kind}-remaining`]: remaining,
    [`anthropic-ratelimit-${kind}-reset`]: '2026-01-01T00:00:02Z',
  })
  t.strictSame(limits(of('requests', '3')), { remaining: 3, resetMs: 2_000 })
  t.strictSame(limits({ ...of('requests', '3'), ...of('tokens', '0') }), { remaining: 0, resetMs: 2_000 })
})

t.test('the tighter of requests and tokens counts; how many requests some tokens make is not guessed', async (t) => {
  t.equal(limits({}), undefined)
  t.equal(limits({ 'x-ratelimit-remaining-requests': '4' }), undefined)
  t.equal(limits(of('tokens', '900', '3s')), undefined)
  t.strictSame(limits(of('tokens', '0', '3s')), { remaining: 0, resetMs: 3_000 })
  t.strictSame(limits({ ...of('requests', '4', '1s'), ...of('tokens', '0', '3s') }), { remaining: 0, resetMs: 3_000 })
  t.strictSame(limits({ ...of('requests', '0', '9s'), ...of('tokens', '0', '3s') }), { remaining: 0, resetMs: 9_000 })
  t.equal(limits(of('requests', 'many', '3s')), undefined)
})
