/** What the gateway makes of clients: nonsense, failures, signals, deadlines. */
import t from 'tap'
import type { ModelClient, ModelRequest } from '../../src/actors/definition/model.ts'
import { type AgentContext, BudgetExceededError, ModelError } from '../../src/index.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import { type GatewayLayer, ModelGateway } from '../../src/runtime/verbs/gateway.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'
import { given, heard, localTeam, never, outcomeOf, silent } from '../kit/team.ts'
import { FakeModel, USAGE } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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
