/** web_search, against servers that answer as Google Custom Search, Brave Search and SearXNG do. */

import type { Test } from 'tap'
import t from 'tap'
import { type WebSearchOptions, webSearch } from '../../src/tools/web-search.ts'
import { call, definitionOf } from './calls.ts'
import { type Loopback, serve } from './servers.ts'

const KEY = 'AIzaSyD-not/a+real=key'
process.env.WEB_SEARCH_TEST_KEY = KEY
const apiKeyEnv = 'WEB_SEARCH_TEST_KEY'

const googleAnswer = {
  kind: 'customsearch#search',
  url: { type: 'application/json', template: 'https://www.googleapis.com/customsearch/v1?q={searchTerms}' },
  queries: {
    request: [{ title: 'Google Custom Search - rivers', totalResults: '3', searchTerms: 'rivers', count: 3 }],
  },
  searchInformation: { searchTime: 0.2, totalResults: '3' },
  items: [
    {
      kind: 'customsearch#result',
      title: 'River &amp; <b>delta</b>',
      htmlTitle: '<b>River</b>',
      link: 'https://example.com/river',
      displayLink: 'example.com',
      snippet: 'A river\n is   water\u00a0that flows &#39;down&#39; &#x2192; &unknown;',
    },
    { kind: 'customsearch#result', title: 'No snippet', link: 'http://example.org/' },
    { kind: 'customsearch#result', title: 'No page', link: 'javascript:alert(1)', snippet: 'x' },
  ],
}
const braveAnswer = {
  type: 'search',
  query: { original: 'rivers', more_results_available: true },
  mixed: { type: 'mixed', main: [{ type: 'web', index: 0, all: false }] },
  web: {
    type: 'search',
    results: [
      {
        title: 'River',
        url: 'https://example.com/river',
        is_source_local: false,
        description: 'A river is &quot;water&quot;',
        profile: { name: 'Example', url: 'https://example.com' },
        language: 'en',
      },
    ],
  },
}
const searxngAnswer = {
  query: 'rivers',
  number_of_results: 0,
  results: [
    {
      url: 'https://example.com/river',
      title: 'River',
      content: 'A river',
      engine: 'mojeek',
      engines: ['mojeek'],
      score: 1,
    },
    { url: 'https://example.com/delta', title: 'Delta', content: null, engine: 'mojeek', category: 'general' },
  ],
  answers: [],
  corrections: [],
  infoboxes: [],
  suggestions: [],
  unresponsive_engines: [['brave', 'too many requests']],
}

/** A server that answers so, with what it was asked and sent. */
async function service(t: Test, body: unknown, status = 200, headers: Record<string, string> = {}) {
  const sent: Record<string, unknown>[] = []
  const server = await serve(t, (request, response) => {
    sent.push(request.headers)
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text)
  })
  return { server, sent }
}

function asked({ asked: [path = ''], origin }: Loopback): { path: string; query: Record<string, string> } {
  const url = new URL(path, origin)
  return { path: url.pathname, query: Object.fromEntries(url.searchParams) }
}

t.test('finds pages with Google Custom Search', async (t) => {
  const { server } = await service(t, googleAnswer)
  const tool = webSearch({ apiKeyEnv, engineId: 'a1b2:c3', baseURL: server.origin })
  t.same(await call(tool, { query: 'rivers' }), [
    {
      title: 'River & delta',
      url: 'https://example.com/river',
      snippet: "A river is water that flows 'down' → &unknown;",
    },
    { title: 'No snippet', url: 'http://example.org/' },
  ])
  t.same(asked(server), { path: '/customsearch/v1', query: { key: KEY, cx: 'a1b2:c3', q: 'rivers', num: '10' } })
})

t.test('finds pages with Brave Search', async (t) => {
  const { server, sent } = await service(t, braveAnswer)
  const tool = webSearch({ apiKeyEnv, baseURL: `${server.origin}/proxy/`, maxResults: 3 })
  t.same(await call(tool, { query: ' 河 &q=x#y ' }), [
    { title: 'River', url: 'https://example.com/river', snippet: 'A river is "water"' },
  ])
  const { path, query } = asked(server)
  t.equal(path, '/proxy/res/v1/web/search')
  t.match(query, { q: '河 &q=x#y', count: '3' })
  t.equal(sent[0]!['x-subscription-token'], KEY)
})

t.test('finds pages with SearXNG', async (t) => {
  const { server } = await service(t, searxngAnswer)
  const tool = webSearch({ provider: 'searxng', baseURL: server.origin })
  t.same(await call(tool, { query: 'rivers' }), [
    { title: 'River', url: 'https://example.com/river', snippet: 'A river' },
    { title: 'Delta', url: 'https://example.com/delta' },
  ])
  t.same(asked(server), { path: '/search', query: { q: 'rivers', format: 'json' } })
})

t.test('finding nothing is an empty list', async (t) => {
  const answers: [object, WebSearchOptions][] = [
    [
      { ...googleAnswer, items: undefined },
      { apiKeyEnv, engineId: 'x' },
    ],
    [{ type: 'search', query: {} }, { apiKeyEnv }],
    [
      { ...searxngAnswer, results: [], unresponsive_engines: [] },
      { provider: 'searxng', baseURL: 'http://later/' },
    ],
  ]
  for (const [answer, options] of answers) {
    const { server } = await service(t, answer)
    t.same(await call(webSearch({ ...options, baseURL: server.origin }), { query: 'x' }), [])
  }
})

t.test('gives no more than maxResults, each bounded', async (t) => {
  const items = Array.from({ length: 30 }, (_, index) => ({
    title: 't'.repeat(2000),
    link: `https://example.com/${index}`,
    snippet: 's'.repeat(2000),
  }))
  const { server } = await service(t, {
    items: [...items, { title: 'long', link: `https://example.com/${'x'.repeat(3000)}` }],
  })
  const found = await call(webSearch({ apiKeyEnv, engineId: 'x', baseURL: server.origin, maxResults: 4 }), {
    query: 'x',
  })
  t.equal(found.length, 4)
  t.same([found[0]!.title.length, found[0]!.snippet!.length], [300, 500])
})

t.test('says what Google refuses', async (t) => {
  const refusal = (code: number, message: string, reason: string, status: string) => ({
    error: { code, message, errors: [{ message, domain: 'usageLimits', reason }], status },
  })
  const cases: [number, object, RegExp][] = [
    [
      400,
      refusal(400, 'API key not valid. Please pass a valid API key.', 'badRequest', 'INVALID_ARGUMENT'),
      /400: API key not valid/,
    ],
    [403, refusal(403, 'Daily Limit Exceeded', 'dailyLimitExceeded', 'X'), /403: Daily Limit Exceeded\. Check the key/],
    [
      429,
      refusal(429, "Quota exceeded for quota metric 'Queries'", 'rateLimitExceeded', 'RESOURCE_EXHAUSTED'),
      /429: Quota exceeded.*asked too often/,
    ],
  ]
  for (const [status, body, message] of cases) {
    const { server } = await service(t, body, status)
    const tool = webSearch({ apiKeyEnv, engineId: 'x', baseURL: server.origin })
    await t.rejects(call(tool, { query: 'x' }), {
      code: 'TOOL_FAILED',
      message,
      details: { service: 'Google Custom Search', status },
    })
  }
})

t.test('says what Brave refuses, and when it may be asked again', async (t) => {
  const limited = {
    type: 'ErrorResponse',
    error: {
      id: 'b2c1',
      status: 429,
      detail: 'Request rate limit exceeded for plan',
      meta: {
        plan: 'Free',
        rate_limit: 1,
        rate_current: 1,
        quota_limit: 2000,
        quota_current: 15,
        component: 'rate_limiter',
      },
      code: 'RATE_LIMITED',
    },
    time: 1773685964,
  }
  const windows: [string, string, number | undefined][] = [
    ['0, 1985', '1, 1209600', 1000],
    ['1, 0', '1, 1209600', 1_209_600_000],
    ['1, 1985', '1, 1209600', undefined],
    ['0, x', 'soon', undefined],
  ]
  for (const [remaining, reset, retryAfterMs] of windows) {
    const headers = { 'x-ratelimit-remaining': remaining, 'x-ratelimit-reset': reset }
    const { server } = await service(t, limited, 429, headers)
    const error = await call(webSearch({ apiKeyEnv, baseURL: server.origin }), { query: 'x' }).catch(
      (error: unknown) => error,
    )
    t.match(error, { code: 'TOOL_FAILED', message: /429: Request rate limit exceeded for plan\./ })
    t.equal(Object(error).details.retryAfterMs, retryAfterMs, remaining)
  }
  const invalid = {
    type: 'ErrorResponse',
    error: {
      id: 'x',
      status: 422,
      detail: 'The provided subscription token is invalid.',
      code: 'SUBSCRIPTION_TOKEN_INVALID',
    },
  }
  const { server } = await service(t, invalid, 422)
  await t.rejects(call(webSearch({ apiKeyEnv, baseURL: server.origin }), { query: 'x' }), {
    message:
      'Brave Search answered with status 422: The provided subscription token is invalid. Check the key, and the query.',
  })
})

t.test('says what SearXNG refuses', async (t) => {
  const forbidden = await service(t, '<!doctype html><title>403 Forbidden</title>', 403)
  const tool = (server: Loopback) => webSearch({ provider: 'searxng', baseURL: server.origin })
  await t.rejects(call(tool(forbidden.server), { query: 'x' }), {
    message: /status 403\. .*add json to search\.formats/,
  })
  const silent = await service(t, {
    ...searxngAnswer,
    results: [],
    unresponsive_engines: [
      ['brave', 'timeout'],
      ['bing', 'CAPTCHA'],
    ],
  })
  await t.rejects(call(tool(silent.server), { query: 'x' }), {
    message: /no engine answered \(brave: timeout; bing: CAPTCHA\)/,
  })
})

t.test('the key is read at the call, and missing it is said by its name alone', async (t) => {
  const { server, sent } = await service(t, braveAnswer)
  const tool = webSearch({ apiKeyEnv: 'WEB_SEARCH_LATE_KEY', baseURL: server.origin })
  t.teardown(() => delete process.env.WEB_SEARCH_LATE_KEY)
  const missing = { code: 'TOOL_FAILED', message: /the environment variable WEB_SEARCH_LATE_KEY is not set/ }
  await t.rejects(call(tool, { query: 'x' }), missing)
  process.env.WEB_SEARCH_LATE_KEY = 'two\nlines of a key'
  const error = await call(tool, { query: 'x' }).catch((error: unknown) => error)
  t.match(error, { code: 'TOOL_FAILED', message: /holds what cannot be a key/ })
  t.notMatch(String(error), 'lines')
  process.env.WEB_SEARCH_LATE_KEY = ' late-key-1\n'
  await call(tool, { query: 'x' })
  t.equal(sent[0]!['x-subscription-token'], 'late-key-1')
})

t.test('a service that repeats the key does not get it to the agent', async (t) => {
  const said = `key ${KEY} and ${encodeURIComponent(KEY)} of yours`
  const answers: [number, unknown][] = [
    [
      200,
      {
        web: {
          results: [{ title: said, url: `https://example.com/?k=${encodeURIComponent(KEY)}`, description: said }],
        },
      },
    ],
    [403, { error: { detail: said } }],
    [200, { web: { results: said } }],
    [200, said],
  ]
  for (const [status, body] of answers) {
    const { server } = await service(t, body, status)
    const outcome = await call(webSearch({ apiKeyEnv, baseURL: server.origin }), { query: 'x' }).catch(
      (error: unknown) => error,
    )
    const text = JSON.stringify(outcome) + String(outcome) + String(Object(outcome).stack)
    t.notMatch(text, KEY)
    t.notMatch(text, encodeURIComponent(KEY))
  }
})

t.test('takes one query', async (t) => {
  const tool = webSearch({ apiKeyEnv })
  for (const input of [
    {},
    { query: '' },
    { query: '   ' },
    { query: 'x'.repeat(500) },
    { query: ['x'] },
    { query: 'x', num: 3 },
  ]) {
    await t.rejects(call(tool, input), { code: 'TOOL_INPUT' })
  }
  const { name, idempotent, timeoutMs } = definitionOf(tool)
  t.same({ name, idempotent, timeoutMs }, { name: 'web_search', idempotent: true, timeoutMs: 16_000 })
})

t.test('options that cannot work are refused when the tool is made', async (t) => {
  const wrong: [unknown, string][] = [
    [{}, 'webSearch.apiKeyEnv'],
    [{ apiKeyEnv: 'not a name' }, 'webSearch.apiKeyEnv'],
    [{ apiKeyEnv, provider: 'google' }, 'webSearch.engineId'],
    [{ apiKeyEnv, provider: 'brave', engineId: 'x' }, 'webSearch.engineId'],
    [{ provider: 'searxng' }, 'webSearch.baseURL'],
    [{ provider: 'searxng', baseURL: 'http://a', apiKeyEnv }, 'webSearch.apiKeyEnv'],
    [{ provider: 'searxng', baseURL: 'file:///a' }, 'webSearch.baseURL'],
    [{ provider: 'searxng', baseURL: 'http://a:b@c' }, 'webSearch.baseURL'],
    [{ provider: 'altavista', apiKeyEnv }, 'webSearch.provider'],
    [{ apiKeyEnv, maxResults: 11 }, 'webSearch.maxResults'],
  ]
  for (const [options, path] of wrong) {
    t.throws(
      () => webSearch(options as WebSearchOptions),
      { code: 'CONFIGURATION', details: { path } },
      JSON.stringify(options),
    )
  }
  t.throws(() => Reflect.apply(webSearch, undefined, []), {
    code: 'CONFIGURATION',
    message: /needs options: \{ apiKeyEnv: .* Brave.*\{ apiKeyEnv, engineId \}.*\{ provider: 'searxng', baseURL \}/,
  })
})
