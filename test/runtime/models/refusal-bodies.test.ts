/** The words, the reason and the pause of a provider's error, in all the shapes in which servers send one. */
import t from 'tap'
import { modelServer } from '../../fixtures/model-server.ts'
import { BOTH, clientOf, errorOf } from './asking.ts'

const words = 'The model is asleep.'
const shapes: Record<string, object | string> = {
  'an error with its words': { error: { message: words } },
  'a list with an error': [{ error: { code: 400, message: words, status: 'INVALID_ARGUMENT' } }],
  'an error without an envelope': { object: 'error', message: words, type: 'BadRequestError', code: 400 },
  'a detail': { detail: words },
  'a list of details': { detail: [{ type: 'missing', loc: ['body', 'model'], msg: words }] },
  'a message': { message: words },
  'a message within the message': { error: { message: { message: words } } },
  'JSON within the message': { error: { message: JSON.stringify({ error: { message: words } }) } },
  'a list of errors': { errors: [{ message: words }] },
  'a list of texts': { errors: [words] },
  'what a gateway was told': { error: { message: 'Provider returned error', code: 400, metadata: { raw: words } } },
  'what a gateway was told, as JSON': {
    error: { message: 'Provider returned error', metadata: { raw: JSON.stringify({ error: { message: words } }) } },
  },
  'an error of the choice': { choices: [{ error: { code: 400, message: words } }] },
}

t.test("the provider's words reach the caller, with the status of an error or with 200", async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH)
    for (const [shape, body] of Object.entries(shapes))
      for (const status of [400, 200]) {
        server.answer({ status, body })
        const { message, modelFailure } = await errorOf(clientOf(server), how)
        t.match(message, words, `${shape}, with ${status}`)
        t.equal(modelFailure?.retryable, false, `${shape}, with ${status}: not asked again`)
      }
})

t.test('of plain text and of a page the first line is told', async (t) => {
  const server = await modelServer(t)
  const page = `<!doctype html>\n<html><head><style>b { color: red }</style><title>${words}</title></head><body><h1>Oh</h1></body></html>`
  for (const how of BOTH)
    for (const [body, type] of [
      [words, 'text/plain'],
      [page, 'text/html'],
    ] as const)
      for (const status of [502, 400, 200]) {
        server.answer({ status, body, headers: { 'content-type': type } })
        const { message } = await errorOf(clientOf(server), how)
        t.match(message, words, `${type}, with ${status}`)
        t.notMatch(message, /<|color/)
      }
})

t.test('the reason is read from codes, types and words', async (t) => {
  const server = await modelServer(t)
  const cases: [status: number, body: object, reason: string, retryable: boolean][] = [
    [400, { error: { code: 400, type: 'exceed_context_size_error', message: 'too long' } }, 'too_long', false],
    [500, { error: { code: 500, type: 'exceed_context_size_error', message: 'too long' } }, 'too_long', false],
    [400, { message: "This model's maximum context length is 2048 tokens.", code: 400 }, 'too_long', false],
    [400, [{ error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] } }], 'auth', false],
    [403, { error: { code: 403, message: 'Input was flagged.', type: 'moderation' } }, 'filtered', false],
    [400, { error: { code: 'content_filter', message: 'No.' } }, 'filtered', false],
    [429, { error: { code: 'insufficient_quota', message: 'No.' } }, 'quota', false],
    [400, { error: { message: 'Insufficient Balance' } }, 'quota', false],
    [
      429,
      [{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'You exceeded your quota.' } }],
      'rate_limit',
      true,
    ],
    [200, { error: { code: 503, message: 'Busy.' } }, 'server', true],
    [200, { choices: [{ error: { code: 429, message: 'Slow down.' } }] }, 'rate_limit', true],
    [200, { object: 'error', code: 40_001, message: 'No such tool.' }, 'other', false],
  ]
  for (const [status, body, reason, retryable] of cases) {
    server.answer({ status, body })
    t.match((await errorOf(clientOf(server))).modelFailure, { reason, retryable }, JSON.stringify(body))
  }
})

t.test('the pause is read wherever it is said', async (t) => {
  const server = await modelServer(t)
  const pauses: [body: object, ms: number][] = [
    [[{ error: { details: [{ '@type': 'google.rpc.RetryInfo', retryDelay: '34.5s' }] } }], 34_500],
    [{ error: { details: [{ retryDelay: { seconds: '34', nanos: 500_000_000 } }] } }, 34_500],
    [{ error: { message: 'Slow down.', retry_after: 7 } }, 7_000],
    [{ error: { message: 'Slow down.', retry_after_ms: 70 } }, 70],
    [{ error: { message: 'Rate limit reached. Please try again in 6m0s.' } }, 360_000],
    [{ error: { message: 'Please retry in 34.5s.' } }, 34_500],
    [{ detail: 'Too many requests, retry after 12 seconds' }, 12_000],
  ]
  for (const [body, ms] of pauses) {
    server.answer({ status: 429, body })
    t.equal((await errorOf(clientOf(server))).modelFailure?.retryAfterMs, ms, JSON.stringify(body))
  }
})

t.test('a body of any shape is an error, and costs little', async (t) => {
  const server = await modelServer(t)
  let deep: object = { message: 'deep' }
  for (let depth = 0; depth < 1_000; depth++) deep = { error: deep }
  const bodies: (object | string)[] = [
    deep,
    [[[[[[[['deep']]]]]]]],
    { error: Array.from({ length: 10_000 }, () => ({ message: '' })) },
    '<'.repeat(60_000),
    '<script '.repeat(8_000),
    `{"error":"${'{'.repeat(60_000)}"}`,
    'wait '.repeat(10_000),
    { error: { message: 7, code: {}, details: 'none', metadata: [] } },
  ]
  for (const body of bodies)
    for (const status of [400, 200]) {
      server.answer({ status, body })
      t.ok((await errorOf(clientOf(server))).message.length < 600)
    }
})
