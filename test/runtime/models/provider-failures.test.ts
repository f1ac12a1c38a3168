import t from 'tap'
import { NO_KEY } from '../../../src/runtime/providers/provider.ts'
import { systemClock } from '../../../src/shared/clock.ts'
import type { ModelFailureReason } from '../../../src/shared/errors.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { errorBody } from '../../fixtures/model-wire.ts'
import { BOTH, clientOf, errorOf, KEY, request } from './asking.ts'

t.test('each status has its own words, its advice, and is worth another try or not', async (t) => {
  const server = await modelServer(t)
  const statuses: Record<number, [reason: ModelFailureReason, says: string, retryable: boolean]> = {
    400: ['rejected', 'refused the request (400): It is a 400.', false],
    401: ['auth', 'does not accept the key (401): It is a 401. Check the key in the variable TEST_KEY.', false],
    402: ['quota', 'wants to be paid first (402): It is a 402. Look at the account', false],
    403: ['auth', 'may not be used (403): It is a 403. Check the key in the variable TEST_KEY.', false],
    404: ['not_found', 'does not exist, or its address is wrong (404): It is a 404. Check model and baseURL.', false],
    408: ['timeout', 'gave up waiting for the request (408)', true],
    413: ['too_long', 'was asked too much at once (413)', false],
    418: ['rejected', 'refused the request (418)', false],
    422: ['rejected', 'refused the request (422)', false],
    429: ['rate_limit', 'is asked too often (429)', true],
    500: ['server', 'has a failure of its own (500)', true],
    503: ['server', 'has a failure of its own (503)', true],
  }
  for (const how of BOTH)
    for (const [status, [reason, says, retryable]] of Object.entries(statuses)) {
      server.answer({ status: Number(status) })
      const { message, details, modelFailure } = await errorOf(clientOf(server), how)
      t.match(message, says)
      t.match(modelFailure, { reason, status: Number(status), retryable, model: 'small' })
      t.match(details, { status: Number(status), retryable, model: 'small', provider: new URL(server.baseURL).host })
    }
})

t.test('a provider that wants a key where none is given says so', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 401 })
  t.match(
    (await errorOf(clientOf(server, { key: NO_KEY }))).message,
    'wants a key (401): It is a 401. Give the model an',
  )
})

t.test('a failure with a code of its own: no quota is left, the conversation is too long', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 429, body: errorBody('You exceeded your quota.', 'insufficient_quota') })
  t.match(await errorOf(clientOf(server)), {
    message: /has no quota left for this key/,
    modelFailure: { reason: 'quota', retryable: false },
  })
  server.answer({ status: 400, body: errorBody('8192 tokens at most.', 'context_length_exceeded') })
  t.match(await errorOf(clientOf(server)), {
    message: /a conversation that is too long for it \(400\).*maxTokens/,
    modelFailure: { reason: 'too_long' },
  })
})

t.test('an error in place of an answer has the reason that its code or type says', async (t) => {
  const server = await modelServer(t)
  const reasons: Record<string, ModelFailureReason> = {
    rate_limit_exceeded: 'rate_limit',
    429: 'rate_limit',
    overloaded: 'server',
    insufficient_quota: 'quota',
    content_filter: 'filtered',
    context_length_exceeded: 'too_long',
    model_not_found: 'not_found',
    invalid_api_key: 'auth',
    timeout: 'timeout',
  }
  for (const [code, reason] of Object.entries(reasons)) {
    server.answer({ body: errorBody('No.', code) })
    t.match(await errorOf(clientOf(server)), { code: 'MODEL', modelFailure: { reason } }, code)
  }
  server.answer({ body: errorBody('No.') })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'rejected', retryable: false })
  server.answer({ body: { error: 'No.' } })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'other', retryable: false })
  server.answer({ hangUp: 'at once' })
  t.match((await errorOf(clientOf(server))).modelFailure, { reason: 'unreachable', retryable: true })
})

t.test('how long it wants to be left alone is told', async (t) => {
  const server = await modelServer(t)
  const waits = {
    7000: { 'retry-after': '7' },
    1500: { 'retry-after': '1.5' },
    250: { 'retry-after-ms': '250', 'retry-after': '7' },
    20000: { 'retry-after': 'Thu, 01 Jan 1970 00:00:30 GMT' },
  }
  const clock = { ...systemClock, now: () => 10_000 }
  for (const [ms, headers] of Object.entries(waits)) {
    server.answer({ status: 429, headers })
    t.equal((await errorOf(clientOf(server, { clock }))).details.retryAfterMs, Number(ms), JSON.stringify(headers))
  }
  for (const after of ['soon', '-5', '']) {
    server.answer({ status: 503, headers: { 'retry-after': after } })
    t.notOk('retryAfterMs' in (await errorOf(clientOf(server))).details, after)
  }
})

t.test('a provider that says whether to try again is believed', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 500, headers: { 'x-should-retry': 'false' } })
  t.equal((await errorOf(clientOf(server))).details.retryable, false)
  server.answer({ status: 400, headers: { 'x-should-retry': 'true' } })
  t.equal((await errorOf(clientOf(server))).details.retryable, true)
})

t.test('neither the key nor the prompt is in an error, whatever the provider says back', async (t) => {
  const server = await modelServer(t)
  const prompt = 'Our secret plan is to paint the harbour blue on Tuesday.'
  const echoes = [
    `Incorrect API key provided: ${KEY}.`,
    `Authorization: Bearer ${KEY} is invalid`,
    `I do not understand "${prompt}".`,
    'Cannot answer "plan is to paint the harbour blue on T..."',
    `{"messages":[{"content":"${prompt}"}]}`,
  ]
  const messages = request().messages.concat({ role: 'user', content: prompt })
  for (const how of BOTH)
    for (const echo of echoes)
      for (const answer of [
        { status: 401, body: errorBody(echo) },
        { body: errorBody(echo) },
        { body: { error: echo } },
      ]) {
        server.answer(answer)
        const error = await errorOf(clientOf(server), { ...how, messages })
        const all = `${error.stack} ${JSON.stringify(error)} ${error.cause}`
        t.notOk(all.includes(KEY), echo)
        t.notOk(all.includes('harbour'), echo)
      }
  server.answer({ status: 400, body: errorBody('x'.repeat(5_000)) })
  t.ok((await errorOf(clientOf(server))).message.length < 600, 'and its words are not without end')
})
