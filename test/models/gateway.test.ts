/** What the gateway makes of clients, and the clients that a team is given. */

import { createAnthropic } from '@ai-sdk/anthropic'
import t, { type Test } from 'tap'
import { z } from 'zod'
import type { ModelClient, ModelRequest } from '../../src/actors/definition/model.ts'
import { fromAiSdk } from '../../src/ai-sdk/index.ts'
import { type AgentContext, BudgetExceededError, createTeam, defineTool, ModelError } from '../../src/index.ts'
import type { ModelMiddleware } from '../../src/models.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import type { ModelsConfig } from '../../src/runtime/providers/provider.ts'
import { type GatewayLayer, ModelGateway } from '../../src/runtime/verbs/gateway.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import { anthropicWire } from '../fixtures/wires/anthropic.ts'
import { given, heard, localTeam, never, outcomeOf, silent } from '../kit/team.ts'
import { FakeModel, USAGE } from './fake-model.ts'
import { modelTeam, ThreadTeam } from './teams.ts'

// What the gateway makes of clients: nonsense, failures, signals, deadlines.

/** A client that gives whatever it is given. */
const clientOf = (complete: (request: ModelRequest) => unknown): ModelClient => ({
  complete: complete as ModelClient['complete'],
})

/** It ignores its signal, and being left. */
const deafClient = (signals: AbortSignal[]): ModelClient =>
  clientOf(({ signal }) => {
    signals.push(signal)
    return { [Symbol.asyncIterator]: () => ({ next: () => never, return: () => never }) }
  })

const piecesOf = (...pieces: unknown[]): ModelClient =>
  clientOf(async function* () {
    yield* pieces
  })

/** A team of one role that is played by that client. */
const teamOf = (client: ModelClient, role = {}) =>
  testTeam(
    { agents: [{ name: 'ann', ...role }], orchestration: { strategy: 'sequential' }, logger: silent },
    { model: client },
  )

/** Of a caller whose agent is no more than that. */
const settings = { modelTimeoutMs: 1_000, info: {} }

const errorWith = async (client: ModelClient) => {
  const ask = async (_: unknown, context: { complete(request: object): Promise<unknown> }) => {
    await context.complete({ prompt: 'go' })
    return ''
  }
  const test = { teardown: () => {} }
  const team = localTeam(test as never, { ann: ask }, { models: { default: client } })
  const { error } = await team.execute('go')
  await team.close()
  return error!
}

t.test('what is no answer is a ModelError that says so', async (t) => {
  const wrong: [client: ModelClient, said: RegExp][] = [
    [clientOf(() => undefined), /gave nothing in place of an async iterable/],
    [clientOf(() => ['text']), /gave a list of 1 in place of an async iterable/],
    [clientOf(() => Promise.reject(new Error('late'))), /in place of an async iterable/],
    [
      clientOf(() => {
        throw new TypeError('oops')
      }),
      /has no answer for "ann": TypeError: oops/,
    ],
    [piecesOf(), /gave no text, no call of a tool, and no reason why/],
    [piecesOf('text'), /gave "text" in place of a piece/],
    [piecesOf({ text: 5 }), /gave 5 in place of text/],
    [piecesOf({ text: 'a', finishReason: 'tired' }), /gave the unknown finish reason "tired"/],
    [piecesOf({ toolCall: { name: 'x', input: {} } }), /a call of a tool without an id, a name or an input/],
    [piecesOf({ text: 'a', usage: { inputTokens: 'many' } }), /a usage that has no counts/],
    [piecesOf({ text: 'a', usage: { ...USAGE, totalTokens: -1 } }), /a usage that has no counts/],
    [piecesOf({ text: 'a' }, { text: 'x'.repeat(2 ** 23) }), /more than 8388608 characters/],
  ]
  for (const [client, said] of wrong) {
    const error = await errorWith(client)
    t.match(error.message, said)
    t.match(error.details.cause, { code: 'MODEL', details: { agent: 'ann', model: 'default' } })
  }
})

t.test('a ModelError of a client keeps its details, other errors of the library stay what they are', async (t) => {
  const down = new ModelError('429', { status: 429 })
  t.match(
    (
      await errorWith(
        clientOf(() => {
          throw down
        }),
      )
    ).details.cause,
    { code: 'MODEL', details: { status: 429 } },
  )
  const broke = new BudgetExceededError('no tokens are left', { limit: 5 })
  const thrown = clientOf(() => {
    throw broke
  })
  t.match(await errorWith(thrown), { code: 'BUDGET_EXCEEDED', details: { limit: 5 } })
})

t.test('who leaves early is left: the client hears of it', async (t) => {
  let left = false
  const client = clientOf(async function* () {
    try {
      yield { text: 5 }
    } finally {
      left = true
    }
  })
  await errorWith(client)
  t.ok(left)
})

t.test('the end of its time, of a run and of the team reach the client', async (t) => {
  const reasons: AbortSignal[] = []
  const deaf = deafClient(reasons)
  const late = teamOf(deaf, { communication: { modelTimeoutMs: 1_000, turnRetries: 0 } })
  t.teardown(() => late.close())
  const timedOut = late.execute('go')
  await late.clock.advance(1_000)
  t.match((await timedOut).error, { code: 'AGENT_FAILED', modelFailure: { reason: 'timeout' } })
  const team = teamOf(deaf)
  const run = team.launch('go')
  await team.clock.advance(0)
  await run.cancel('enough')
  t.match((await run.result).error, { code: 'RUN_ABORTED' })
  const last = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.notOk(last.settled)
  await team.close()
  t.equal(reasons.length, 3)
  t.ok(reasons.every(({ aborted }) => aborted))
})

t.test('a signal of the caller withdraws the call, and the turn goes on', async (t) => {
  const signals: AbortSignal[] = []
  const client = deafClient(signals)
  const withdrawal = new AbortController()
  const ask = async (_: unknown, context: AgentContext) => {
    const answer = outcomeOf(context.complete({ prompt: 'go', signal: withdrawal.signal }))
    await context.sleep(10)
    withdrawal.abort()
    await context.sleep(10)
    return answer.error?.code ?? 'none'
  }
  const team = localTeam(t, { ann: ask }, { models: { default: client } })
  const called = heard(team, 'model.called', (event) => event.error?.code)
  const pending = team.execute('go')
  await team.clock.advance(20)
  t.equal((await pending).finalOutput, 'CANCELLED')
  t.ok(signals[0]?.aborted)
  t.same(called, ['CANCELLED'])
})

t.test('a turn that waits for its model works: nobody gets its permit', async (t) => {
  const asked: string[] = []
  const model = new FakeModel(async ({ agent = '', clock }) => {
    asked.push(agent)
    await clock?.sleep(1_000)
    return 'ok'
  })
  const { team } = modelTeam(t, model, [{ name: 'ann' }, { name: 'bob' }], {
    maxConcurrentAgents: 1,
    orchestration: { strategy: 'parallel' },
  })
  const pending = team.execute('go')
  await team.clock.advance(999)
  t.equal(asked.length, 1)
  await team.clock.advance(1_001)
  t.equal(asked.length, 2)
  t.ok((await pending).success)
})

t.test('rule 22: who waits for a model is live, and so is who waits for that one', async (t) => {
  const model = new FakeModel(async ({ clock }) => {
    await clock?.sleep(60_000)
    return 'late'
  })
  const asksBob = async (_: unknown, context: AgentContext) =>
    (await context.request('bob', 'hi', { timeoutMs: 100_000 })).content
  const thinks = async (_: unknown, context: AgentContext) => (await context.complete({ prompt: 'go' })).text
  const team = given(t, {
    models: { default: model },
    roles: { ann: { communication: { responseTimeoutMs: 100_000 } } },
  }).team({ ann: asksBob, bob: thinks })
  const found: string[] = []
  team.events.subscribe(({ type }) => {
    if (type === 'deadlock' || type === 'stall') found.push(type)
  })
  const pending = team.execute('go')
  await team.clock.advance(60_000)
  t.equal((await pending).finalOutput, 'late')
  t.same(found, [])
})

t.test('what a thread writes as a call and is none reaches no client', async (t) => {
  const model = new FakeModel(['ok'])
  const { verb } = new ModelGateway({
    clock: virtualClock(),
    resolve: () => ({ client: model, model: 'm' }),
    record: () => {},
    redactor: new Redactor(),
  })
  const caller = {
    agent: { name: 'ann', index: 3, settings, messageIdOf: () => 'm' },
    run: { id: 'r' },
    turn: 1,
    say: () => {},
  } as never
  for (const args of [
    undefined,
    null,
    'hi',
    {},
    { messages: 'hi' },
    { messages: [{ role: 'user' }] },
    { messages: [null] },
  ])
    await t.rejects(async () => verb(args, caller, new AbortController().signal), { code: 'MESSAGE_REJECTED' })
  t.equal(model.requests.length, 0)
})

t.test('layers go around each call, the first outermost, and may refuse it', async (t) => {
  const seen: string[] = []
  const layer =
    (name: string): GatewayLayer =>
    async (pending, next) => {
      seen.push(`${name} before ${pending.model}`)
      const made = await next({ ...pending, call: { ...pending.call, maxOutputTokens: 7 } })
      seen.push(`${name} after ${made.usage.totalTokens}${made.error ? ' failed' : ''}`)
      return made
    }
  const broke: GatewayLayer = () => Promise.reject(new BudgetExceededError('no tokens are left'))
  const wrong = new ModelError('the key key-number-1 is wrong', { status: 401, said: 'key-number-1' })
  const model = new FakeModel(['ok', [wrong]])
  const redactor = new Redactor()
  redactor.learn('key-number-1')
  const gateway = (...layers: GatewayLayer[]) =>
    new ModelGateway({
      clock: virtualClock(),
      resolve: () => ({ client: model, model: 'm' }),
      record: () => {},
      layers,
      redactor,
    })
  const caller = {
    agent: { name: 'ann', index: 3, settings, messageIdOf: () => 'm' },
    run: { id: 'r' },
    turn: 1,
  } as never
  const ask = (made: ModelGateway) =>
    made.call(caller, { messages: [{ role: 'user', content: 'hi' }] }, new AbortController().signal, () => {})
  t.match(await ask(gateway(layer('span'), layer('budget'))), { text: 'ok', model: 'm' })
  t.same(seen, ['span before m', 'budget before m', 'budget after 15', 'span after 15'])
  t.equal(model.requests[0]?.maxOutputTokens, 7, 'or put another call in its place')
  await t.rejects(ask(gateway(layer('span'))), {
    message: /the key \[redacted\] is wrong/,
    details: { status: 401, said: '[redacted]' },
  })
  t.equal(seen.at(-1), 'span after 0 failed')
  await t.rejects(ask(gateway(broke)), { code: 'BUDGET_EXCEEDED' })
  t.equal(model.requests.length, 2)
})

// Clients that a team is given: their options, their queue, their keys, and the names that errors and spans have.

const KEY = 'key-of-the-package-7'
const ANN = { name: 'ann', systemPrompt: 'Be brief.' }

const claudeAt = ({ baseURL }: ModelServer, model = 'claude-sonnet-4-5') =>
  fromAiSdk(createAnthropic({ baseURL, apiKey: KEY })(model))

function teamWith(t: Test, models: ModelsConfig, more: Partial<MultiAgentPatternOptions> = {}, isReal = false) {
  const lines: [fields: object, text: string][] = []
  const line = (fields: object, text: string) => void lines.push([fields, text])
  const options: MultiAgentPatternOptions = {
    agents: [ANN],
    orchestration: { strategy: 'sequential' },
    models,
    logger: { ...silent, info: line, warn: line },
    ...more,
  }
  // A virtual clock does not wait for a socket between two attempts: those need a thread, and real time.
  const team = isReal ? new ThreadTeam(options) : testTeam(options)
  t.teardown(() => team.close())
  return { team, lines }
}

t.test('a role is played by a model of the AI SDK, with its tools and its reasoning', async (t) => {
  const server = await modelServer(t, anthropicWire)
  const signature = 'c2lnbmVk'
  server.answer(
    {
      reasoning: { text: 'I look.', signature },
      toolCalls: ['one', 'two', 'three'].map((at) => ({ id: at, name: 'look', input: { at } })),
    },
    { text: 'Seen.', usage: { inputTokens: 30, outputTokens: 4 } },
  )
  const input = z.object({ at: z.string() })
  const look = defineTool({ name: 'look', description: 'Looks.', input, run: ({ at }) => `seen ${at}` })
  const { team } = teamWith(t, { default: claudeAt(server) }, { agents: [{ ...ANN, tools: [look] }] })
  const result = await team.execute('What is there?')
  t.equal(result.finalOutput, 'Seen.')
  t.match(result.totalTokenUsage, { inputTokens: 37, outputTokens: 7, calls: 2 })
  t.match(anthropicWire.asked(server.calls[1]!.body), {
    reasoning: [signature],
    results: ['seen one', 'seen two', 'seen three'],
  })
  const keys = server.calls.map(({ headers }) => headers['idempotency-key'])
  t.equal(new Set(keys).size, 2)
})

t.test('an entry with a client has options, which the role and the call can set otherwise', async (t) => {
  const model = new FakeModel(() => 'Yes.')
  const models = { default: { client: model, model: 'tiny', temperature: 0.2, seed: 1 } }
  const { team } = teamWith(t, models, { agents: [{ ...ANN, seed: 2 }] })
  await team.execute('go')
  t.match(model.requests[0], { model: 'tiny', temperature: 0.2, seed: 2 })
})

t.test('the model of a call has the name that its client has for it', async (t) => {
  const server = await modelServer(t, anthropicWire)
  server.always({ status: 400 })
  const { team } = teamWith(t, { default: claudeAt(server, 'claude-haiku-4-5') })
  const { error } = await team.execute('go')
  t.match(error?.modelFailure, {
    reason: 'rejected',
    model: 'claude-haiku-4-5',
    provider: 'anthropic.messages',
    agent: 'ann',
  })
})

t.test('maxConcurrent bounds the calls of a client, also where two entries share it', async (t) => {
  const server = await modelServer(t, anthropicWire)
  server.always('Yes.')
  const client = claudeAt(server)
  const agents = ['ann', 'bob', 'cat', 'dan'].map((name, at) => ({ ...ANN, name, model: at < 2 ? 'one' : 'two' }))
  const models = { one: { client, maxConcurrent: 1 }, two: { client } }
  const { team, lines } = teamWith(t, models, { agents, orchestration: { strategy: 'parallel' } })
  await team.execute('go')
  t.ok(lines.some(([, text]) => text.startsWith('models.one.maxConcurrent (1) is reached')))
  t.ok(server.calls.length >= 4)
  t.equal(server.mostOpen, 1)
  const two = { client, maxConcurrent: 2 }
  t.throws(() => createTeam({ agents: [ANN], orchestration: { strategy: 'sequential' }, models: { ...models, two } }), {
    code: 'CONFIGURATION',
    message: /^models\.two\.maxConcurrent: .*models\.one, which has the same client/,
  })
})

t.test('a call is retried after the pause that its provider wants', async (t) => {
  const server = await modelServer(t, anthropicWire)
  server.answer({ status: 429, headers: { 'retry-after-ms': '1' } }, { status: 529 }, 'Yes.')
  const { team } = teamWith(t, { default: claudeAt(server) }, {}, true)
  t.equal((await team.execute('go')).finalOutput, 'Yes.')
  t.equal(server.calls.length, 3)
  const keys = server.calls.map(({ headers }) => headers['idempotency-key'])
  t.equal(new Set(keys).size, 1)
})

t.test('secrets of an entry are taken out of what leaves the team', async (t) => {
  const secret = 'from-the-vault-0815'
  const client = {
    async *complete() {
      yield { text: `The key is ${secret}.` }
    },
  }
  const { team } = teamWith(t, { default: { client, secrets: [secret] } })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'The key is [redacted].')
})

t.test('what a client leaves out is logged once', async (t) => {
  const client = {
    async *complete() {
      yield { text: 'Yes.' }
      yield { warning: 'seed is not supported.' }
    },
  }
  const { team, lines } = teamWith(t, { default: { client, model: 'tiny' } })
  await team.execute('one')
  await team.execute('two')
  const warnings = lines.filter(([, text]) => text.includes('seed'))
  t.match(warnings, [[{ model: 'tiny', agent: 'ann' }, 'The model "tiny": seed is not supported.']])
  t.equal(warnings.length, 1)
})

t.test('two calls of an answer with the same id are told apart', async (t) => {
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    input: z.object({ at: z.number() }),
    run: ({ at }) => at,
  })
  const toolCall = (at: number) => ({ toolCall: { id: 'same', name: 'look', input: `{"at":${at}}` } })
  const model = new FakeModel([[toolCall(1), toolCall(2), toolCall(3)], 'Seen.'])
  const { team } = teamWith(t, { default: model }, { agents: [{ ...ANN, tools: [look] }] })
  t.equal((await team.execute('go')).finalOutput, 'Seen.')
  const messages = model.requests[1]!.messages.slice(-4)
  t.match(messages, [
    { toolCalls: [{ id: 'same' }, { id: 'same-2' }, { id: 'same-3' }] },
    { toolCallId: 'same', content: '1' },
    { toolCallId: 'same-2', content: '2' },
    { toolCallId: 'same-3', content: '3' },
  ])
})

t.test('an answer with more than 1,024 calls is refused', async (t) => {
  const call = { toolCall: { id: 'c', name: 'look', input: '{}' } }
  const { team } = teamWith(t, { default: new FakeModel([Array.from({ length: 1_025 }, () => call)]) })
  t.match((await team.execute('go')).error?.message, /more than 1024 calls of tools/)
})

t.test('the limits that a client passes on hold back its next calls', async (t) => {
  const headers = new Headers({ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '20ms' })
  const opened: number[] = []
  let now = 0
  const client = {
    async *complete({ onHeaders, clock }: { onHeaders?: (headers: Headers) => void; clock?: { monotonic(): number } }) {
      now = clock!.monotonic()
      opened.push(now)
      onHeaders?.(headers)
      yield { text: 'Yes.' }
    },
  }
  const { team } = teamWith(t, { default: client }, {}, true)
  await team.execute('one')
  await team.execute('two')
  t.ok(opened[1]! - opened[0]! >= 20)
})

t.test('middleware of an entry stands around each attempt, of a client and of an address', async (t) => {
  const server = await modelServer(t)
  server.answer({ status: 500 }, 'Yes.')
  let attempts = 0
  const middleware: ModelMiddleware = async function* (request, next) {
    attempts += 1
    yield { text: 'I say: ' }
    yield* next({ ...request, temperature: 0.3 })
  }
  const models = { default: { model: 'small', baseURL: server.baseURL, middleware } }
  const { team } = teamWith(t, models, {}, true)
  t.equal((await team.execute('go')).finalOutput, 'I say: Yes.')
  t.equal(attempts, 2)
  t.equal(server.calls[1]!.body.temperature, 0.3)
  const model = new FakeModel(() => 'No.')
  const { team: other } = teamWith(t, { default: { client: model, middleware: [middleware, middleware] } })
  t.equal((await other.execute('go')).finalOutput, 'I say: I say: No.')
})

t.test('entries with the same client share its queue, and have middleware of their own', async (t) => {
  const model = new FakeModel(({ model }) => model)
  const shouted: ModelMiddleware = async function* (request, next) {
    for await (const piece of next(request)) yield { ...piece, ...(piece.text && { text: `${piece.text}!` }) }
  }
  const models = {
    default: { client: model, model: 'quiet' },
    loud: { client: model, model: 'loud', middleware: shouted },
  }
  const { team } = teamWith(t, models)
  t.equal((await team.execute('go')).finalOutput, 'quiet')
  t.equal((await team.execute('go', { models: { default: 'loud' } })).finalOutput, 'loud!')
})

const wrong: [entry: unknown, path: string, says: RegExp][] = [
  [{ client: {} }, 'models.default.client', /without complete/],
  [{ client: 7 }, 'models.default.client', /the methods complete/],
  [{ client: new FakeModel([]), baseURL: 'http://a' }, 'models.default.baseURL', /no such option/],
  [{ client: new FakeModel([]), secrets: 'key' }, 'models.default.secrets', /a list of texts/],
  [{ client: new FakeModel([]), secrets: [''] }, 'models.default.secrets', /a list of texts/],
  [{ client: new FakeModel([]), middleware: [7] }, 'models.default.middleware', /a list of functions/],
  [{ client: new FakeModel([]), maxConcurrent: 0 }, 'models.default.maxConcurrent', /an integer from 1/],
  [
    createAnthropic({ apiKey: KEY })('claude-sonnet-4-5'),
    'models.default',
    /fromAiSdk\(model\), from 'dramatis\/ai-sdk'/,
  ],
]

t.test('a wrong entry is named, and what is there instead of it', async (t) => {
  for (const [entry, path, says] of wrong) {
    const models = { default: entry } as ModelsConfig
    const make = () => createTeam({ agents: [ANN], orchestration: { strategy: 'sequential' }, models })
    t.throws(make, { code: 'CONFIGURATION', message: says, details: { path } }, path)
  }
})

t.test('a client that fails without a word is not retried, one that says so is', async (t) => {
  let count = 0
  const client = {
    async *complete() {
      count += 1
      if (count < 3) throw new ModelError('Not now.', { reason: 'server', retryable: true })
      if (count === 3) throw new Error('broken')
      yield { text: 'Yes.' }
    },
  }
  const { team } = teamWith(t, { default: client }, { communication: { turnRetries: 0 } }, true)
  t.match((await team.execute('go')).error?.message, /broken/)
  t.equal(count, 3)
})
