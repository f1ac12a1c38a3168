/** What hangs is named with its age: the turn, what it does, and what waits behind it. */
import t from 'tap'
import type { AgentContext, OpenTurn, Wait } from '../../src/index.ts'
import { toldWaits } from '../../src/service/digest/moment.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { type Extras, gate, given, localTeam, openTeam, type Receive } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { doing } from '../toolbox/tools.ts'

const never = <T = string>(): Promise<T> => new Promise(() => {})
const HOUR = 3_600_000

/** Each way to hang: what its turn does, the ms after which it is slow, and what is said of it. */
const hanging: Record<
  string,
  { receive: Receive; kind: string; slowAfterMs: number; words: RegExp; options?: Extras }
> = {
  'a promise that never settles': {
    receive: () => never(),
    kind: 'own',
    slowAfterMs: 30_000,
    words: /^ann: its own code, in no step and no call for .* \(slow after 30 s\)$/,
  },
  'a promise behind some work': {
    receive: async (_message, context) => {
      await context.step('first', () => 1)
      await context.request('ben', 'go')
      return never()
    },
    kind: 'own',
    slowAfterMs: 30_000,
    words: /^ann: its own code/,
  },
  'a step': {
    receive: (_message, context) => context.step('fetch prices', () => never()),
    kind: 'step',
    slowAfterMs: 30_000,
    words: /^ann: step "fetch prices" for .* \(slow after 30 s\)$/,
  },
  'an idempotent step among others': {
    receive: async (_message, context) => {
      const all = [context.step('quick', () => 1), context.step('fetch', () => never(), { idempotent: true })]
      return String(await Promise.all(all))
    },
    kind: 'step',
    slowAfterMs: 30_000,
    words: /^ann: step "fetch" for /,
  },
  'a tool of the team': {
    receive: async (_message, context) => String(await context.tool('look_up', {})),
    kind: 'tool',
    slowAfterMs: 30_000,
    words: /^ann: tool "look_up" for /,
    options: { tools: [doing(() => never(), { name: 'look_up', timeoutMs: HOUR })] },
  },
  'a model': {
    receive: async (_message, context) => (await context.complete({ prompt: 'Think.', model: 'small' })).text,
    kind: 'model',
    slowAfterMs: 120_000,
    words: /^ann: model "small" for .* \(slow after 2 min\)$/,
    options: { models: { small: new FakeModel(() => never()) } },
  },
  'an entry that nobody writes': {
    receive: async (_message, context) => String(await context.blackboard.waitFor('key', { timeoutMs: HOUR })),
    kind: 'blackboard.waitFor',
    slowAfterMs: 30_000,
    words: /^ann: waits for blackboard.waitFor key for /,
  },
}

const patient: Extras = {
  enableBlackboard: true,
  communication: { responseTimeoutMs: HOUR },
  globalTimeoutMs: 2 * HOUR,
}

const of = (agent: string) => (turn: { agent: string | null }) => turn.agent === agent

for (const [name, { receive, kind, slowAfterMs, words, options = {} }] of Object.entries(hanging))
  t.test(`${name}: it is fine before its bound, and named with its age from then on`, async (t) => {
    const team = localTeam(t, { ann: receive, ben: () => 'done' }, { ...patient, ...options })
    const run = team.launch('go', { runId: 'one' })
    await team.clock.advance(slowAfterMs - 1_000)
    t.match(team.turns().find(of('ann')), { state: 'fine', doing: [{ kind }] })
    t.same(team.judgement(), { state: 'fine', sentences: [] })
    await team.clock.advance(2_000)
    const turn = team.turns().find(of('ann')) as OpenTurn
    t.match(turn, { runId: 'one', agent: 'ann', state: 'slow', doing: [{ kind }], sentence: words })
    t.ok(team.clock.now() - turn.since >= slowAfterMs)
    t.match(team.judgement(), { state: 'slow', sentences: [words] })
    const wait = team.waits().find((each) => each.agent === 'ann' && each.kind === kind)
    t.match(wait, { turn: turn.messageId, turnSince: turn.since, slowAfterMs })
    t.match(team.metrics().find((metric) => metric.name === 'dramatis_turns_slow')?.samples, [{ value: 1 }])
    void run.cancel('enough')
    await team.clock.advance(10_000)
    t.same(team.turns(), [])
    t.same(team.judgement(), { state: 'fine', sentences: [] })
  })

/** Signs that a turn is not stuck: what it does, or is given, before it goes on with work of its own. */
const signs: Record<string, (context: AgentContext) => Promise<unknown>> = {
  'the end of a step': (context) => context.step('one', () => 1),
  'an answer': (context) => context.request('ben', 'go'),
  'a message that it sends': (context) => context.send('ben', 'go'),
  'the end of a sleep': (context) => context.sleep(1),
}

for (const [name, sign] of Object.entries(signs))
  t.test(`work of a turn's own counts from its last sign: ${name}`, async (t) => {
    const { open, opened } = gate()
    const ann: Receive = async (_message, context) => {
      await opened
      await sign(context)
      return never()
    }
    const team = localTeam(t, { ann, ben: () => 'done' }, patient)
    const run = team.launch('go')
    await team.clock.advance(900)
    const told = () => team.waits().filter(({ kind }) => kind === 'own').length
    t.equal(told(), 0, 'most turns end sooner than they would be told')
    await team.clock.advance(20_000)
    t.equal(told(), 1)
    open()
    await team.clock.advance(25_000)
    t.equal(team.judgement().state, 'fine')
    t.ok(team.clock.now() - team.turns().find(of('ann'))!.since >= 45_000)
    await team.clock.advance(6_000)
    t.equal(team.judgement().state, 'slow')
    void run.cancel('enough')
    await team.clock.advance(10_000)
  })

t.test('people, sleeps and what others take are never slow, nor is a turn that always does something', async (t) => {
  const cast: Record<string, Receive> = {
    ann: async (_message, context) => String((await context.requestAll(['ben', 'cid', 'dan'], 'go')).length),
    ben: async (_message, context) => context.ask('May I?'),
    cid: async (_message, context) => String(await context.sleep(HOUR)),
    async dan(_message, context) {
      for (let n = 0; n < 60; n++) await context.step(`${n}`, () => context.sleep(20_000))
      return 'done'
    },
  }
  const team = localTeam(t, cast, { ...patient, roles: { ann: { limits: { turnTimeoutMs: false } } } })
  const run = team.launch('go')
  for (let n = 0; n < 8; n++) {
    await team.clock.advance(20_000)
    t.same(team.judgement(), { state: 'fine', sentences: [] })
  }
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('a slow turn that another agent waits for is stuck, and so are those in a circle', async (t) => {
  const team = given(t, { ...patient, supervision: { deadlock: false, slowMs: { turn: 500 } } }).testTeam({
    ann: async (_message, context) => (await context.request('ben', 'go')).content,
    ben: async ({ content }, context) => (content === 'go' ? never() : (await context.request('cid', 'round')).content),
    cid: async (_message, context) => (await context.request('cid', 'round')).content,
  })
  const run = team.launch('go')
  await team.clock.advance(1_000)
  const states = () => Object.fromEntries(team.turns().map(({ agent, state }) => [agent, state]))
  t.match(states(), { ann: 'fine', ben: 'stuck' })
  t.equal(team.judgement().state, 'stuck')
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('slowMs is one number, one for each kind or false, and a role comes before its team', async (t) => {
  const hang: Receive = (_message, context) => context.step('fetch', () => never())
  const bounds = async (slowMs: unknown, own?: unknown) => {
    const supervision = { slowMs } as Extras['supervision']
    const roles = (own === undefined ? {} : { ann: { supervision: { slowMs: own } } }) as Extras['roles']
    const team = localTeam(t, { ann: hang }, { ...patient, supervision, roles })
    const run = team.launch('go')
    await team.clock.advance(10)
    const [wait] = team.waits().filter(({ kind }) => kind === 'step')
    void run.cancel('enough')
    return wait?.slowAfterMs
  }
  t.equal(await bounds(undefined), 30_000)
  t.equal(await bounds(5), 5)
  t.equal(await bounds(false), undefined)
  t.equal(await bounds({ step: 7, tool: 8 }), 7)
  t.equal(await bounds({ step: false }), undefined)
  t.equal(await bounds({ tool: 8 }), 30_000)
  t.equal(await bounds({ step: 7 }, { step: 9 }), 9)
  t.equal(await bounds(5, { tool: 9 }), 5)
  for (const wrong of [0, -1, true, 'long', [], { steps: 1 }, { step: 0 }, { step: true }])
    t.throws(
      () => localTeam(t, { ann: hang }, { supervision: { slowMs: wrong } } as unknown as Extras),
      ConfigurationError,
    )
})

t.test('a queue says what has its places, and is slow when it stands', async (t) => {
  const hang: Receive = ({ content }, context) =>
    content === 'quick' ? 'done' : context.step('fetch prices', () => never())
  const team = localTeam(t, { ann: hang }, { ...patient, maxConcurrentRuns: 2 })
  const runs = ['a', 'b', 'c', 'd'].map((runId) => team.launch('go', { runId }))
  await team.clock.advance(31_000)
  const queued = team.waits().filter(({ kind, for: [option] }) => kind === 'limit' && option === 'maxConcurrentRuns')
  t.same(pluck(queued, 'runId'), ['c', 'd'])
  for (const { cause } of queued) t.match(cause, /^\d of 2 runs: step "fetch prices"$/)
  const { state, sentences } = team.judgement()
  t.equal(state, 'slow')
  t.match(
    sentences.join('\n'),
    /^2 runs wait: maxConcurrentRuns 2, the oldest for 31 s \(slow after 30 s\); \d of 2 runs: step "fetch prices"$/m,
  )
  for (const run of runs) void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('of a turn that has ended nothing is kept, nor of what its code does behind its end', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      void context.step('left', () => never()).catch(() => {})
      setTimeout(() => context.log.info({}, 'late'), 1)
      return String(await context.step('one', () => 1))
    },
  })
  for (let n = 0; n < 20; n++) await team.execute('go')
  await team.clock.advance(1_000)
  t.same(team.turns(), [])
  t.same(team.waits(), [])
})

t.test('what is slow is told first of an agent, then what its turn waits for, then its steps', (t) => {
  const wait = (kind: string, since: number, slowAfterMs?: number): Wait => ({
    runId: 'r',
    agent: 'ann',
    turn: 't',
    kind,
    for: [],
    since,
    ...(slowAfterMs && { slowAfterMs }),
  })
  const toldOf = (...waits: Wait[]) => toldWaits(waits, 100).get('ann')?.kind
  t.equal(toldOf(wait('request', 50), wait('step', 10, 90)), 'step')
  t.equal(toldOf(wait('request', 50), wait('step', 20, 90)), 'request')
  t.equal(toldOf(wait('limit', 1), wait('step', 20, 90)), 'step')
  t.end()
})
