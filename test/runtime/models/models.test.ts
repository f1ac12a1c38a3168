/** Which model an agent asks, and when a call is tried again. */
import t from 'tap'
import type { ModelClient, ModelPiece } from '../../../src/actors/definition/model.ts'
import { LimitNotices } from '../../../src/runtime/logging/limit-notices.ts'
import { Redactor } from '../../../src/runtime/logging/redactor.ts'
import { Models, type ModelsContext } from '../../../src/runtime/providers/models.ts'
import type { ModelsConfig } from '../../../src/runtime/providers/provider.ts'
import { type FailedAttempt, nextAttempt, RETRY_POLICY } from '../../../src/runtime/providers/provider-clients.ts'
import { systemClock } from '../../../src/shared/clock.ts'
import type { Environment } from '../../../src/shared/environment.ts'
import { ConfigurationError, ModelError } from '../../../src/shared/errors.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { gate, silent } from '../../kit/team.ts'
import { errorOf, KEY, textOf } from './asking.ts'
import { PatientClock } from './patient-clock.ts'

const rehearsed: ModelClient = {
  rehearsal: true,
  async *complete(): AsyncGenerator<ModelPiece> {
    yield { text: 'Rehearsed.' }
  },
}

function modelsOf(
  models: ModelsConfig | 'rehearsal' | undefined,
  env: Environment = {},
  more: Partial<ModelsContext> = {},
) {
  const redactor = new Redactor()
  const notices: string[] = []
  const notice = (text: string) => void notices.push(text)
  const context = { env, clock: systemClock, redactor, rehearsal: () => rehearsed, notice, ...more }
  return { models: new Models(models, context), redactor, notices }
}

/** What a model of these says, asked by its name. */
async function said(models: Models, wanted?: string, overrides?: Record<string, string>): Promise<string> {
  const { client, model } = models.resolve(wanted, 'model', overrides)
  return textOf(client, { model })
}

t.test('a role means an entry by its name, or a model of the default provider', async (t) => {
  const [one, two] = [await modelServer(t), await modelServer(t)]
  for (const server of [one, two]) server.always(({ body, key }) => `${body.model} with ${key}`)
  const config = {
    writer: { model: 'large', baseURL: one.baseURL, apiKeyEnv: 'WRITER_KEY' },
    default: { model: 'small', baseURL: two.baseURL, apiKey: 'default-key' },
  }
  const { models } = modelsOf(config, { WRITER_KEY: ' writer-key\n' })
  t.equal(await said(models, 'writer'), 'large with writer-key')
  t.equal(await said(models), 'small with default-key')
  t.equal(await said(models, 'default'), 'small with default-key')
  t.equal(await said(models, 'middling'), 'middling with default-key')
  t.strictSame([one.calls.length, two.calls.length], [1, 3])
  const { models: without } = modelsOf({ writer: config.writer }, { WRITER_KEY: 'writer-key' })
  t.equal(await said(without), 'large with writer-key', 'the first, where none is called default')
})

t.test('a run says what is meant by a name instead: an entry, or another model of the same provider', async (t) => {
  const [one, two] = [await modelServer(t), await modelServer(t)]
  for (const server of [one, two]) server.always(({ body }) => `${body.model} of ${server === one ? 'one' : 'two'}`)
  const { models } = modelsOf({
    default: { model: 'small', baseURL: one.baseURL },
    writer: { model: 'large', baseURL: two.baseURL },
  })
  t.equal(await said(models, undefined, { default: 'writer' }), 'large of two')
  t.equal(await said(models, 'writer', { writer: 'huge' }), 'huge of two')
  t.equal(await said(models, 'writer', { default: 'writer' }), 'large of two')
  t.equal(await said(models, 'tiny', { tiny: 'default' }), 'small of one')
  t.equal(await said(models, 'constructor', {}), 'constructor of one')
})

t.test('a client that is handed in is used, and told the name of its entry', async (t) => {
  const asked: string[] = []
  const mine: ModelClient = {
    async *complete({ model }): AsyncGenerator<ModelPiece> {
      asked.push(model)
      yield { text: 'Mine.' }
    },
  }
  const { models } = modelsOf({ mine })
  t.equal(await said(models), 'Mine.')
  t.strictSame(asked, ['mine'])
  const overriding: Record<string, string>[] = [{}, { other: 'another' }, { mine: 'another' }]
  for (const overrides of overriding)
    t.throws(() => models.resolve('mine' in overrides ? 'mine' : 'other', 'agents[0].model', overrides), {
      code: 'CONFIGURATION',
      message: /^agents\[0\]\.model: no model of this team is named "(?:an)?other"; there are mine\.$/,
    })
})

t.test('the environment is enough', async (t) => {
  const server = await modelServer(t)
  server.always(({ body, key }) => `${body.model} with ${key}`)
  const env = { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: `${server.baseURL}/`, DRAMATIS_MODEL: 'small' }
  t.equal(await said(modelsOf(undefined, env).models), `small with ${KEY}`)
  t.equal(await said(modelsOf(undefined, env).models, 'large'), `large with ${KEY}`)
  t.equal(await said(modelsOf(undefined, { ...env, OPENAI_API_KEY: '' }).models), 'small with undefined')
  const { models } = modelsOf(undefined, { ...env, DRAMATIS_MODEL: '' })
  t.throws(() => models.resolve(undefined, 'agents[0].model'), {
    code: 'CONFIGURATION',
    message: "agents[0].model: which model? Set DRAMATIS_MODEL, or name one in the role's model.",
  })
  t.equal(
    await said(modelsOf({ default: { model: 'own' } }, env).models),
    `own with ${KEY}`,
    'an entry without an address',
  )
})

t.test("the key of OpenAI's variable goes to no other address", async (t) => {
  const server = await modelServer(t)
  server.always(({ key }) => `${key}`)
  const { models } = modelsOf({ local: { model: 'small', baseURL: server.baseURL } }, { OPENAI_API_KEY: KEY })
  t.equal(await said(models), 'undefined')
})

t.test('nothing configured: a rehearsal with one notice; in production an error that says what to do', async (t) => {
  const { models, notices } = modelsOf(undefined)
  t.strictSame(notices, [], 'none before a model is meant')
  t.equal(models.resolve(undefined, 'model').model, 'rehearsal')
  t.equal(models.resolve('large', 'model').model, 'large')
  t.equal(await said(models), 'Rehearsed.')
  t.equal(notices.length, 1)
  t.match(notices[0], /no model is configured, so the rehearsal model answers.*OPENAI_API_KEY/)
  const { models: strict } = modelsOf(undefined, { NODE_ENV: 'production' })
  t.throws(() => strict.resolve('large', 'agents[1].model'), {
    code: 'CONFIGURATION',
    message: /^agents\[1\]\.model: the team has no model\. Give it one: .*OPENAI_API_KEY/,
    details: { path: 'agents[1].model' },
  })
})

t.test('a rehearsal that is asked for is one everywhere, without a notice and without a provider', async (t) => {
  const env = { NODE_ENV: 'production', OPENAI_API_KEY: KEY, DRAMATIS_MODEL: 'small' }
  const { models, notices } = modelsOf('rehearsal', env)
  for (const name of [undefined, 'large']) t.equal(await said(models, name), 'Rehearsed.')
  t.strictSame(notices, [])
})

t.test('a key that is missing, or none, is a ConfigurationError that names its place and shows nothing', async (t) => {
  const errorOfOptions = (models: ModelsConfig, env: Environment) => {
    try {
      modelsOf(models, env)
    } catch (error) {
      if (error instanceof ConfigurationError) return error
      throw error
    }
    throw new Error('these models were accepted')
  }
  const entry = { model: 'small', apiKeyEnv: 'WRITER_KEY' }
  for (const env of [{}, { WRITER_KEY: '' }, { WRITER_KEY: '  ' }]) {
    const error = errorOfOptions({ writer: entry }, env)
    t.match(error.message, 'models.writer.apiKeyEnv: the variable WRITER_KEY is not set. Set it to the key')
    t.match(error.details, { path: 'models.writer.apiKeyEnv', variable: 'WRITER_KEY' })
  }
  const none = errorOfOptions({ writer: { model: 'small' } }, {})
  t.match(none.message, 'models.writer: the variable OPENAI_API_KEY is not set.')
  for (const secret of ['two words', 'line\nbreak', 'schlüssel-9'])
    for (const error of [
      errorOfOptions({ writer: entry }, { WRITER_KEY: secret }),
      errorOfOptions({ writer: { model: 'small', apiKey: secret } }, {}),
    ]) {
      t.match(error.message, /^models\.writer\.apiKey(?:Env)?: .* holds no key/)
      t.notMatch(JSON.stringify(error), secret)
    }
  const { models } = modelsOf(undefined, { OPENAI_BASE_URL: 'localhost' }) // a team of code never sees that it is wrong
  t.throws(() => models.resolve('small', 'model'), { message: /^OPENAI_BASE_URL: it holds no address/ })
  const wrong = errorOfOptions({ writer: { model: 'small', apiKey: KEY } }, { OPENAI_BASE_URL: 'localhost' })
  t.match(wrong.message, 'OPENAI_BASE_URL: it holds no address')
})

t.test('a function gives the key for each call, and the team knows it from then on', async (t) => {
  const server = await modelServer(t)
  server.always(({ key }) => `${key}`)
  let calls = 0
  const { models, redactor } = modelsOf({
    writer: { model: 'small', baseURL: server.baseURL, apiKey: async () => `fresh-key-${++calls}` },
  })
  t.equal(redactor.text('fresh-key-1'), 'fresh-key-1')
  t.equal(await said(models), 'fresh-key-1')
  t.equal(await said(models), 'fresh-key-2')
  t.equal(redactor.text('it is fresh-key-1 or fresh-key-2'), 'it is [redacted] or [redacted]')
})

t.test('a function that gives no key is a ModelError that names it; nothing is asked', async (t) => {
  const server = await modelServer(t)
  const clientWith = (apiKey: () => string | Promise<string>) =>
    modelsOf({ writer: { model: 'small', baseURL: server.baseURL, apiKey } }).models.resolve('writer', 'model').client
  const thrown = await errorOf(clientWith(() => Promise.reject(new Error('the vault is shut'))))
  t.match(thrown.message, 'models.writer.apiKey threw Error: the vault is shut. Look at that function.')
  t.match(
    (await errorOf(clientWith(() => ''))).message,
    'models.writer.apiKey gave no key: a text without spaces is due.',
  )
  const aborting = new AbortController()
  let asked = () => {}
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve
  })
  const hangs = () => {
    asked()
    return new Promise<string>(() => {})
  }
  const hanging = textOf(clientWith(hangs), { signal: aborting.signal })
  await isAsked
  aborting.abort(new Error('enough'))
  await t.rejects(hanging, { message: 'enough' })
  t.equal(server.calls.length, 0)
})

t.test('models with the same address and key share a provider; others do not', async (t) => {
  const { models } = modelsOf(
    {
      one: { model: 'a', baseURL: 'http://localhost:1/v1', apiKeyEnv: 'KEY_1' },
      same: { model: 'b', baseURL: 'http://localhost:1/v1/', apiKey: 'key-number-1' },
      key: { model: 'a', baseURL: 'http://localhost:1/v1', apiKey: 'key-number-2' },
      address: { model: 'a', baseURL: 'http://localhost:2/v1', apiKeyEnv: 'KEY_1' },
    },
    { KEY_1: 'key-number-1' },
  )
  const [one, same, key, address] = ['one', 'same', 'key', 'address'].map(
    (name) => models.resolve(name, 'model').client,
  )
  t.equal(one, same)
  t.equal(new Set([one, key, address]).size, 3)
})

t.test('a provider is asked again, and all of its models wait while it wants to be left alone', async (t) => {
  const server = await modelServer(t)
  const clock = new PatientClock()
  const place = { baseURL: server.baseURL, apiKey: KEY }
  const { models } = modelsOf({ one: { model: 'a', ...place }, two: { model: 'b', ...place } }, {}, { clock })
  server.answer({ status: 429, headers: { 'retry-after': '5' } })
  const spent = { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '2s' }
  server.always(({ body }) => ({ text: body.model, headers: body.model === 'b' ? spent : {} }))
  const one = said(models, 'one')
  await clock.paused(2)
  const two = said(models, 'two')
  await clock.advance(5_000)
  t.equal(server.calls.length, 1)
  await clock.advance(1)
  t.strictSame(await Promise.all([one, two]), ['a', 'b'])
  t.equal(clock.pauses.at(-1), 2_001, 'and so it is by what its answers say')
})

t.test('a client that is handed in is asked again for what it marks as retryable', async (t) => {
  const clock = new PatientClock()
  let calls = 0
  const mine: ModelClient = {
    async *complete(): AsyncGenerator<ModelPiece> {
      calls += 1
      if (calls === 1) throw new ModelError('Busy.', { retryable: true })
      yield { text: 'Mine.' }
    },
  }
  const text = said(modelsOf({ mine }, {}, { clock }).models)
  await clock.paused(1)
  await clock.advance(500)
  t.equal(await text, 'Mine.')
})

t.test('what a run names has to be meant by somebody, and has to be there', async (t) => {
  const { models } = modelsOf({ mine: rehearsed, other: { model: 'a', baseURL: 'http://localhost:1/v1' } })
  const refused = (overrides: Record<string, string>, ...roles: (string | undefined)[]) => {
    try {
      for (const name of Object.keys(overrides)) models.assertOverride(name, overrides, roles)
    } catch (error) {
      return (error as Error).message
    }
    return undefined
  }
  t.equal(refused({ mine: 'other', default: 'other', other: 'anything' }), undefined)
  t.match(refused({ othr: 'mine' }), 'models.othr: no model of this team is named "othr". Did you mean "other"?')
  t.match(
    refused({ large: 'mine' }),
    'models.large: no model of this team is named "large". There are default, mine, other.',
  )
  t.match(refused({ mine: 'large' }), 'models.mine: no model of this team is named "large"; there are mine, other.')
  const { models: remote } = modelsOf({ other: { model: 'a', baseURL: 'http://localhost:1/v1' } })
  t.doesNotThrow(() => remote.assertOverride('tiny', { tiny: 'tinier' }, [undefined, 'tiny']))
})

t.test('a role without code needs a model', async (t) => {
  const needs = (models: Models) => () => models.assertHas(undefined, 'agents[0]')
  t.doesNotThrow(needs(modelsOf('rehearsal').models))
  t.doesNotThrow(needs(modelsOf(undefined).models))
  t.doesNotThrow(needs(modelsOf({ mine: rehearsed }).models))
  t.throws(needs(modelsOf(undefined, {}, { rehearsal: undefined }).models), {
    message: /^agents\[0\]\.module: got nothing; .*A role without code needs a model: give the team one/,
  })
  t.throws(needs(modelsOf(undefined, { OPENAI_API_KEY: KEY }).models), {
    message: /^agents\[0\]\.model: which model\?/,
  })
})

t.test('maxRetryAfterMs of a model is that of its provider', async (t) => {
  const server = await modelServer(t)
  const entry = { model: 'small', baseURL: server.baseURL, maxRetryAfterMs: 1_000 }
  const clock = new PatientClock()
  const { models } = modelsOf({ writer: entry }, {}, { clock })
  server.answer({ status: 429, headers: { 'retry-after': '86400' } })
  server.always('Yes.')
  const { client } = models.resolve('writer', 'model')
  await errorOf(client)
  const text = textOf(client)
  await clock.advance(1_001)
  t.equal(await text, 'Yes.')
})

t.test('maxConcurrent of a model is that of its provider; another number for the same is refused', async (t) => {
  const server = await modelServer(t)
  const entry = { model: 'small', baseURL: server.baseURL }
  const lines: string[] = []
  const limits = new LimitNotices(systemClock, { ...silent, info: (_fields, text) => void lines.push(text) })
  const { models } = modelsOf({ one: { ...entry, maxConcurrent: 1 }, two: entry }, {}, { limits })
  const { open, opened } = gate()
  server.always({ text: 'Yes.', after: opened })
  const answers = ['one', 'two'].map((name) => textOf(models.resolve(name, 'model').client))
  await server.called(1)
  t.equal(server.calls.length, 1)
  t.same(lines, [`models.one.maxConcurrent (1) is reached: calls of models wait for ${new URL(entry.baseURL).host}`])
  open()
  t.same(await Promise.all(answers), ['Yes.', 'Yes.'])
  t.throws(() => modelsOf({ one: entry, two: { ...entry, maxConcurrent: 2 } }), {
    code: 'CONFIGURATION',
    message: /^models\.two\.maxConcurrent: got 2; .*models\.one/,
  })
})

const failed = (more: Partial<FailedAttempt> = {}): FailedAttempt => ({
  attempt: 1,
  elapsedMs: 0,
  failing: { retryable: true },
  read: false,
  random: 0,
  ...more,
})
const next = (more: Partial<FailedAttempt>, policy = RETRY_POLICY) => nextAttempt(policy, failed(more))

t.test('pauses double up to a cap, from half of it to all of it by chance', async (t) => {
  const policy = { ...RETRY_POLICY, baseMs: 100, capMs: 350, maxAttempts: 9 }
  const pauses = (random: number) => [1, 2, 3, 4].map((attempt) => next({ attempt, random }, policy))
  t.strictSame(pauses(0), [{ waitMs: 50 }, { waitMs: 100 }, { waitMs: 175 }, { waitMs: 175 }])
  t.strictSame(pauses(0.5), [{ waitMs: 75 }, { waitMs: 150 }, { waitMs: 262.5 }, { waitMs: 262.5 }])
})

t.test('what the provider wants goes before a shorter pause, not before a longer one', async (t) => {
  t.strictSame(next({ failing: { retryable: true, retryAfterMs: 7_000 } }), { waitMs: 7_000 })
  t.strictSame(next({ attempt: 4, failing: { retryable: true, retryAfterMs: 10 } }), { waitMs: 2_000 })
})

t.test('it is over when it is not retryable, was read, has had all attempts, or would be too late', async (t) => {
  t.strictSame(next({ failing: { retryable: false, retryAfterMs: 5 } }), { over: 'not_retryable' })
  t.strictSame(next({ read: true }), { over: 'already_read' })
  t.strictSame(next({ attempt: RETRY_POLICY.maxAttempts }), { over: 'max_attempts' })
  t.strictSame(next({ failing: { retryable: true, retryAfterMs: RETRY_POLICY.deadlineMs } }), { over: 'deadline' })
  t.strictSame(next({ elapsedMs: RETRY_POLICY.deadlineMs - 250 }), { over: 'deadline' })
})
