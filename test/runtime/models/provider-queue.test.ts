/** Calls of one provider: in line, within its rate, and tried again. */
import t from 'tap'
import type { ModelClient, ModelPiece, ModelRequest } from '../../../src/actors/definition/model.ts'
import { limitsOf, retryAfterMs } from '../../../src/runtime/providers/model-errors.ts'
import { RETRY_POLICY, type RetryPolicy, retries } from '../../../src/runtime/providers/provider-clients.ts'
import { ProviderQueue, type QueueOptions, queued } from '../../../src/runtime/providers/provider-queue.ts'
import { ModelError } from '../../../src/shared/errors.ts'
import { type ModelServer, modelServer } from '../../fixtures/model-server.ts'
import { pluck } from '../../kit/lists.ts'
import { BOTH, clientOf, errorOf, piecesOf, request, textOf } from './asking.ts'
import { PatientClock } from './patient-clock.ts'

type Queueing = Partial<QueueOptions> & { clock?: PatientClock }

/** A client whose calls go through a queue, and both its parts. */
function queueing(server: ModelServer, { clock = new PatientClock(), ...options }: Queueing = {}) {
  const queue = new ProviderQueue({ clock, provider: 'a.host', ...options })
  const client = queued(clientOf(server, { clock }), queue)
  return { clock, queue, client, patient: retries(client, { clock, provider: 'a.host' }) }
}

const saying = (content: string): Partial<ModelRequest> => ({ messages: [{ role: 'user', content }] })

/** An answer that comes when the test says so. */
function later() {
  let send = () => {}
  const after = new Promise<void>((resolve) => {
    send = resolve
  })
  return { text: 'Yes.', after, send }
}

t.test('so many calls are under way at a time, and the others go in the order in which they came', async (t) => {
  const server = await modelServer(t)
  const { client, queue } = queueing(server, { maxConcurrent: 2 })
  const answers = [later(), later()]
  server.answer(...answers)
  server.always('Yes.')
  const texts = ['1', '2', '3', '4', '5', '6'].map((content) => textOf(client, saying(content)))
  await server.called(2)
  t.equal(queue.length, 4)
  answers[0]!.send()
  await server.called(6)
  answers[1]!.send()
  await Promise.all(texts)
  t.strictSame([server.mostOpen, queue.length], [2, 0])
  t.strictSame(server.calls.map(({ prompt }) => prompt).slice(2), ['3', '4', '5', '6'])
})

t.test('after a refusal all callers of the provider wait, then one goes first, and ever more follow', async (t) => {
  const server = await modelServer(t)
  const { clock, queue, patient } = queueing(server)
  const [one, two, three] = [later(), later(), later()]
  server.answer({ status: 429, headers: { 'retry-after': '60' } }, one, two, three)
  server.always('Yes.')
  const texts = [textOf(patient, saying('1'))]
  await clock.paused(2) // the queue's, and that of the call itself
  for (const content of ['2', '3', '4', '5']) texts.push(textOf(patient, saying(content)))
  await clock.advance(60_000)
  t.strictSame([server.calls.length, queue.length], [1, 5])
  await clock.advance(1)
  await server.called(2)
  t.strictSame([server.open, queue.length], [1, 4])
  one.send()
  await server.called(4)
  t.strictSame([server.open, queue.length], [2, 2])
  two.send()
  three.send()
  await Promise.all(texts)
  t.equal(server.calls.length, 6)
})

t.test('a call that is made again keeps its place before those who came later', async (t) => {
  const server = await modelServer(t)
  const { clock, patient } = queueing(server, { maxConcurrent: 1 })
  server.answer({ status: 429, headers: { 'retry-after': '60' } })
  server.always('Yes.')
  const first = textOf(patient, saying('first'))
  await clock.paused(2)
  const second = textOf(patient, saying('second'))
  await clock.advance(60_001)
  await Promise.all([first, second])
  t.strictSame(pluck(server.calls, 'prompt'), ['first', 'first', 'second'])
})

t.test('a refusal that says not how long pauses all callers too, longer each time', async (t) => {
  const server = await modelServer(t)
  const { clock, client } = queueing(server)
  server.answer({ status: 429 }, { status: 429 })
  server.always('Yes.')
  for (const [count, ms] of [
    [1, 1_001],
    [2, 2_001],
  ] as const) {
    await errorOf(client)
    t.equal(clock.pauses.length, count)
    t.equal(clock.pauses.at(-1), ms)
    await clock.advance(ms)
  }
  t.equal(await textOf(client), 'Yes.')
})

t.test("a timer that fires a little early, as Node's do, ends no pause early and loses no caller", async (t) => {
  const server = await modelServer(t)
  const clock = new (class extends PatientClock {
    override timer(ms: number, task: () => void, limit?: boolean) {
      return super.timer(ms > 5 ? ms - 5 : ms, task, limit)
    }
  })()
  const { patient, queue } = queueing(server, { clock })
  server.answer({ status: 429, headers: { 'retry-after': '60' } })
  server.always('Yes.')
  const text = textOf(patient)
  await clock.paused(2)
  await clock.advance(60_000)
  t.strictSame([server.calls.length, queue.length], [1, 1])
  await clock.advance(1)
  if (!t.equal(queue.length, 0)) return // nobody would come for it
  t.equal(await text, 'Yes.')
})

t.test('another failure is no concern of the others', async (t) => {
  const server = await modelServer(t)
  const { clock, client } = queueing(server)
  server.answer({ status: 500 }, { status: 401 }, 'Yes.')
  await errorOf(client)
  await errorOf(client)
  t.equal(await textOf(client), 'Yes.')
  t.strictSame(clock.pauses, [])
})

t.test('a provider that says that it takes no more is left alone until it does', async (t) => {
  const server = await modelServer(t)
  const { clock, client, queue } = queueing(server)
  const spent = (what: string, reset: string) => ({
    [`x-ratelimit-remaining-${what}`]: '0',
    [`x-ratelimit-reset-${what}`]: reset,
  })
  server.answer(
    { text: 'Yes.', headers: spent('requests', '1.5s') },
    { text: 'Yes.', headers: spent('tokens', '6m0s') },
  )
  server.always('Yes.')
  await textOf(client)
  const next = textOf(client)
  await clock.advance(1_500)
  t.strictSame([server.calls.length, queue.length], [1, 1])
  await clock.advance(1)
  await next
  const last = textOf(client)
  await clock.advance(60_000)
  t.strictSame([server.calls.length, queue.length], [2, 1])
  await clock.advance(1) // a part of the limit is back long before all of it
  await last
  t.equal(server.calls.length, 3)
})

t.test('what a provider says of its limits counts in a failure too', async (t) => {
  const server = await modelServer(t)
  const { clock, client } = queueing(server)
  server.answer({ status: 500, headers: { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '2s' } })
  await errorOf(client)
  t.strictSame(clock.pauses, [2_001])
})

t.test('no more calls are under way than the provider says that it takes', async (t) => {
  const server = await modelServer(t)
  const { client, queue } = queueing(server)
  server.answer({ headers: { 'x-ratelimit-remaining-requests': '2', 'x-ratelimit-reset-requests': '10s' } })
  await textOf(client)
  const answers = [later(), later()]
  server.answer(...answers)
  server.always('Yes.')
  const texts = ['1', '2', '3'].map((content) => textOf(client, saying(content)))
  await server.called(3)
  t.strictSame([server.open, queue.length], [2, 1])
  for (const { send } of answers) send()
  await Promise.all(texts)
})

t.test('a call that is withdrawn in the task that let it in is not made, and leaves its place', async (t) => {
  const asked: string[] = []
  const queue = new ProviderQueue({ clock: new PatientClock(), provider: 'a.host', maxConcurrent: 1 })
  const client = queued(
    {
      async *complete({ messages }) {
        asked.push(String(messages[0]!.content))
        yield { text: 'Yes.' }
      },
    },
    queue,
  )
  const aborting = new AbortController()
  const withdrawn = textOf(client, { ...saying('1'), signal: aborting.signal })
  aborting.abort(new Error('enough'))
  await t.rejects(withdrawn, { message: 'enough' })
  t.equal(await textOf(client, saying('2')), 'Yes.')
  t.strictSame(asked, ['2'])
})

t.test('who waits can leave, and its place is no loss of the others', async (t) => {
  const server = await modelServer(t)
  const { client, queue } = queueing(server, { maxConcurrent: 1 })
  const first = later()
  server.answer(first)
  server.always('Yes.')
  const texts = [textOf(client, saying('1'))]
  await server.called(1)
  const aborting = new AbortController()
  const left = textOf(client, { ...saying('2'), signal: aborting.signal })
  texts.push(textOf(client, saying('3')))
  aborting.abort(new Error('enough'))
  await t.rejects(left, { message: 'enough' })
  t.equal(queue.length, 1)
  first.send()
  await Promise.all(texts)
  t.strictSame(pluck(server.calls, 'prompt'), ['1', '3'])
})

t.test('a reader that leaves gives its place back', async (t) => {
  const server = await modelServer(t)
  const { client } = queueing(server, { maxConcurrent: 1 })
  server.answer({ text: ['One', 'two'], between: new Promise(() => {}) }, 'Yes.')
  for await (const { text } of client.complete(request({ stream: true }))) if (text === 'One') break
  t.equal(await textOf(client), 'Yes.')
})

t.test('nothing waits for ever: not behind others, not for a pause that is too long', async (t) => {
  const server = await modelServer(t)
  const { clock, client, queue } = queueing(server, { maxConcurrent: 1, maxRetryAfterMs: 3_600_000 })
  const first = later()
  server.answer(first, { status: 429, headers: { 'retry-after': '3600' } })
  const under = textOf(client)
  await server.called(1)
  const late = errorOf(client)
  await clock.advance(300_000)
  t.match(await late, { message: /was not to be had within 300000 ms/, details: { retryable: false } })
  t.equal(queue.length, 0)
  first.send()
  await under
  await errorOf(client)
  const { message, details } = await errorOf(client)
  t.match(message, 'Model "small" of a.host is asked too often and wants to be left alone for 3600 s.')
  t.match(details, { status: 429, retryable: false })
  t.equal(server.calls.length, 2)
})

t.test('many calls against a provider that refuses every third come to an end, each with its answer', async (t) => {
  const server = await modelServer(t)
  const { clock, patient } = queueing(server, { maxConcurrent: 8 })
  const refused = new Set<string>()
  server.always(({ prompt }) => {
    if (Number(prompt) % 3 > 0 || refused.has(prompt)) return `It is ${prompt}.`
    refused.add(prompt)
    return { status: 429, headers: { 'retry-after-ms': '20' } }
  })
  let open = 100
  const texts = Array.from({ length: open }, (_, at) => textOf(patient, saying(String(at))).finally(() => --open))
  const all = Promise.all(texts)
  for (let seen = 0; open > 0; ) {
    await Promise.race([all, clock.paused(seen + 1)])
    seen = clock.pauses.length
    await clock.advance(RETRY_POLICY.baseMs)
  }
  t.strictSame(
    await all,
    texts.map((_, at) => `It is ${at}.`),
  )
  t.strictSame([refused.size, server.calls.length], [34, 134])
  t.ok(server.mostOpen <= 8)
})

t.test('a provider that wants to be left alone for years is asked again after maxRetryAfterMs', async (t) => {
  const server = await modelServer(t)
  const { clock, client } = queueing(server, { maxRetryAfterMs: 5_000 })
  server.answer({ status: 429, headers: { 'retry-after': '1732300000' } })
  server.always('Yes.')
  t.match(await errorOf(client), { details: { retryAfterMs: 1_732_300_000_000 } })
  const text = textOf(client)
  await clock.advance(5_000)
  t.equal(server.calls.length, 1)
  await clock.advance(1)
  t.equal(await text, 'Yes.')
})

t.test('only 429 and 503 make the others wait', async (t) => {
  for (const [status, waits] of [
    [400, false],
    [401, false],
    [404, false],
    [500, false],
    [502, false],
    [429, true],
    [503, true],
  ] as const) {
    const server = await modelServer(t)
    const { clock, client, queue } = queueing(server)
    server.answer({ status, headers: { 'retry-after': '60' } })
    server.always('Yes.')
    await errorOf(client)
    const text = textOf(client)
    t.equal(queue.length, waits ? 1 : 0, `${status}`)
    if (waits) await clock.advance(60_001)
    t.equal(await text, 'Yes.')
  }
})

t.test('without maxConcurrent 32 calls are under way at a time', async (t) => {
  const queue = new ProviderQueue({ clock: new PatientClock(), provider: 'a.host' })
  const leaving = Array.from({ length: 40 }, () => queue.enter(request()))
  const leave = await Promise.all(leaving.slice(0, 32))
  t.equal(queue.length, 8)
  leave[0]!()
  await leaving[32]
  t.equal(queue.length, 7)
})

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
