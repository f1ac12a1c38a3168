import t from 'tap'
import type { ModelClient, ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'
import { RETRY_POLICY, type RetryPolicy, retries } from '../../../src/runtime/providers/provider-clients.ts'
import { ModelError } from '../../../src/shared/errors.ts'
import { type ModelServer, modelServer } from '../../fixtures/model-server.ts'
import { BOTH, clientOf, errorOf, piecesOf, request, textOf } from './asking.ts'
import { PatientClock } from './patient-clock.ts'

function patient(server: ModelServer, policy: Partial<RetryPolicy> = {}) {
  const clock = new PatientClock()
  const options = { clock, provider: 'a.host', policy: { ...RETRY_POLICY, ...policy } }
  return { clock, client: retries(clientOf(server, { clock }), options) }
}

t.test('a failure that passes is asked again after a pause', async (t) => {
  for (const how of BOTH)
    for (const failure of [{ status: 429 }, { status: 500 }, { hangUp: 'at once' }] as const) {
      const server = await modelServer(t)
      server.answer(failure, 'Now.')
      const { clock, client } = patient(server)
      const text = textOf(client, how)
      await clock.paused(1)
      t.equal(server.calls.length, 1)
      await clock.advance(RETRY_POLICY.baseMs)
      t.equal(await text, 'Now.')
      t.equal(server.calls.length, 2)
      t.ok(clock.pauses[0]! >= RETRY_POLICY.baseMs / 2 && clock.pauses[0]! <= RETRY_POLICY.baseMs)
    }
})

t.test('all attempts of a call have its idempotency key, and a call without one sends none', async (t) => {
  for (const how of BOTH) {
    const server = await modelServer(t)
    server.answer({ status: 503 }, { hangUp: 'at once' }, 'Now.', 'Then.')
    const { clock, client } = patient(server)
    const text = textOf(client, { ...how, idempotencyKey: 'call-1' })
    for (const pause of [1, 2]) {
      await clock.paused(pause)
      await clock.advance(RETRY_POLICY.capMs)
    }
    t.equal(await text, 'Now.')
    t.equal(await textOf(client, how), 'Then.')
    const keys = server.calls.map(({ headers }) => headers['idempotency-key'])
    t.strictSame(keys, ['call-1', 'call-1', 'call-1', undefined])
  }
})

t.test('the provider says how long it wants to be left alone', async (t) => {
  const server = await modelServer(t)
  server.answer(
    { status: 429, headers: { 'retry-after': '7' } },
    { status: 503, headers: { 'retry-after-ms': '2500' } },
    'Now.',
  )
  const { clock, client } = patient(server)
  const text = textOf(client)
  await clock.paused(1)
  await clock.advance(6_999)
  t.equal(server.calls.length, 1)
  await clock.advance(1)
  await clock.paused(2)
  t.equal(server.calls.length, 2)
  await clock.advance(2_500)
  t.equal(await text, 'Now.')
  t.strictSame(clock.pauses, [7_000, 2_500])
})

t.test('what does not pass is not asked again', async (t) => {
  const server = await modelServer(t)
  for (const status of [400, 401, 403, 404, 422]) {
    const before = server.calls.length
    server.answer({ status })
    const error = await errorOf(patient(server).client)
    t.equal(error.details.status, status)
    t.equal(server.calls.length, before + 1)
  }
})

t.test('it is not asked for ever: so many times, and the error says how many', async (t) => {
  const server = await modelServer(t)
  server.always({ status: 500 })
  const { clock, client } = patient(server, { maxAttempts: 3 })
  const error = errorOf(client)
  for (const pause of [1, 2]) {
    await clock.paused(pause)
    await clock.advance(RETRY_POLICY.capMs)
  }
  t.match(await error, { message: /\(500\).*It was asked 3 times\.$/, details: { attempts: 3, status: 500 } })
  t.equal(server.calls.length, 3)
})

t.test('a pause beyond the deadline is not begun', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 429, headers: { 'retry-after': '3600' } })
  const { clock, client } = patient(server)
  const error = await errorOf(client)
  t.match(error.message, /left alone for 3600 s.*would last beyond 300000 ms, so it was not asked again\.$/)
  t.match(error.details, { status: 429, retryAfterMs: 3_600_000, attempts: 1 })
  t.strictSame(clock.pauses, [])
})

t.test('the deadline ends a call that hangs, down to its socket', async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH) {
    server.answer({ text: ['One', 'two'], ...(how.stream ? { between: never } : { after: never }) })
    const { clock, client } = patient(server)
    const error = errorOf(client, how)
    const call = await server.called(server.calls.length + 1)
    await clock.advance(RETRY_POLICY.deadlineMs)
    t.match((await error).message, 'Model "small" of a.host has not answered within 300000 ms, all attempts together.')
    t.equal(await call.ended, 'left')
  }
})

t.test('an answer that breaks off is asked for again when nobody reads along', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: 'Half of it', hangUp: 'in the body' }, 'All of it.')
  const { clock, client } = patient(server)
  const text = textOf(client)
  await clock.paused(1)
  await clock.advance(RETRY_POLICY.baseMs)
  t.equal(await text, 'All of it.')
})

t.test('of an answer that nobody reads along the failed attempt leaves nothing behind', async (t) => {
  let attempt = 0
  const client: ModelClient = {
    async *complete(): AsyncGenerator<ModelPiece> {
      attempt += 1
      yield { text: `Attempt ${attempt}.` }
      if (attempt === 1) throw new ModelError('Broken.', { retryable: true })
    },
  }
  const clock = new PatientClock()
  const text = textOf(retries(client, { clock, provider: 'mine' }))
  await clock.paused(1)
  await clock.advance(RETRY_POLICY.baseMs)
  t.equal(await text, 'Attempt 2.')
})

t.test('a stream that breaks off before its first text is asked for again', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: ['', 'Half'], hangUp: 1 }, 'All of it.')
  const { clock, client } = patient(server)
  const text = textOf(client, { stream: true })
  await clock.paused(1)
  await clock.advance(RETRY_POLICY.baseMs)
  t.equal(await text, 'All of it.')
})

t.test('a stream that breaks off when it was read in part is not asked for again, and the error says so', async (t) => {
  const server = await modelServer(t)
  server.answer({ text: ['Half', 'of it'], hangUp: 1 }, 'All of it.')
  const { clock, client } = patient(server)
  const texts: string[] = []
  const reading = async () => {
    for await (const { text } of client.complete(request({ stream: true }))) if (text) texts.push(text)
  }
  await t.rejects(reading(), {
    code: 'MODEL',
    message: /broke the connection off.*A part of the answer had been read by then, so it was not asked again\.$/,
  })
  t.strictSame(texts, ['Half'])
  t.strictSame([server.calls.length, server.unused, clock.pauses], [1, 1, []])
})

t.test('an abort ends the pause, and nothing is asked after it', async (t) => {
  const server = await modelServer(t)
  server.always({ status: 500 })
  const { clock, client } = patient(server)
  const aborting = new AbortController()
  const outcome = piecesOf(client, { signal: aborting.signal })
  await clock.paused(1)
  aborting.abort(new Error('enough'))
  await t.rejects(outcome, { message: 'enough' })
  await clock.advance(RETRY_POLICY.deadlineMs)
  t.equal(server.calls.length, 1)
})

t.test('a client of the user is asked again for what it marks as retryable, and for nothing else', async (t) => {
  const asked: ModelRequest[] = []
  const client = (...errors: Error[]): ModelClient => ({
    async *complete(request): AsyncGenerator<ModelPiece> {
      asked.push(request)
      const error = errors.shift()
      if (error) throw error
      yield { text: 'Yes.' }
    },
  })
  const clock = new PatientClock()
  const text = textOf(retries(client(new ModelError('Busy.', { retryable: true })), { clock, provider: 'mine' }))
  await clock.paused(1)
  await clock.advance(RETRY_POLICY.baseMs)
  t.equal(await text, 'Yes.')
  t.equal(asked[0], asked[1], 'with the same request')
  for (const error of [new ModelError('Wrong.'), new Error('a bug')])
    await t.rejects(textOf(retries(client(error), { clock, provider: 'mine' })), error)
  t.equal(retries({ ...client(), rehearsal: true }, { clock, provider: 'mine' }).rehearsal, true)
})

const never = new Promise(() => {})

t.test('what an attempt that failed has cost is told, too', async (t) => {
  const usage = { inputTokens: 10, outputTokens: 5, totalTokens: 15, calls: 1 }
  let attempt = 0
  const client: ModelClient = {
    async *complete() {
      attempt += 1
      yield { text: `${attempt}` }
      yield { usage }
      if (attempt === 1) throw new ModelError('It broke off.', { retryable: true })
    },
  }
  const clock = new PatientClock()
  const pieces = piecesOf(retries(client, { clock, provider: 'a.host' }))
  await clock.paused(1)
  await clock.advance(RETRY_POLICY.baseMs)
  t.strictSame(await pieces, [{ usage }, { text: '2' }, { usage }])
})
