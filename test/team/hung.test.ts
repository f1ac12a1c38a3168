/** What takes long is named with its age: who is told, when, how often, and that healthy work is not. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { z } from 'zod'
import {
  type AgentContext,
  createTeam,
  defineTool,
  type OpenTurn,
  type RuntimeEvent,
  type TeamJudgement,
  type Wait,
} from '../../src/index.ts'
import { judged, worstOf } from '../../src/runtime/views/slow.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { toldWaits } from '../../src/service/digest/moment.ts'
import { topLines } from '../../src/service/terminal/top-view.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { type Extras, gate, given, localTeam, openTeam, type Receive, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { doing } from '../toolbox/tools.ts'

// What is told of turns that take long, when, and how often; and that healthy work is never told.

const never = <T = string>(): Promise<T> => new Promise(() => {})
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const patient: Extras = {
  enableBlackboard: true,
  communication: { responseTimeoutMs: HOUR },
  globalTimeoutMs: 4 * DAY,
}

type Slow = Extract<RuntimeEvent, { type: 'slow' }>

function toldBy(team: { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }): Slow[] {
  const told: Slow[] = []
  team.events.subscribe((event) => void (event.type === 'slow' && told.push(event)))
  return told
}

t.test('it is told at its bound, and again after ten times as long', async (t) => {
  const cast: Record<string, Receive> = { ann: (_message, context) => context.step('fetch', () => never()) }
  const team = localTeam(t, cast, { ...patient, roles: { ann: { limits: { turnTimeoutMs: false } } } })
  const told = toldBy(team)
  const run = team.launch('go')
  await team.clock.advance(29_000)
  t.same(told, [])
  await team.clock.advance(2_000)
  t.match(told, [{ agent: 'ann', kind: 'step', name: 'fetch', sentence: /^ann: step "fetch" for 30 s \(slow after/ }])
  t.equal(told[0]!.messageId, team.turns().find(({ agent }) => agent === 'ann')?.messageId)
  await team.clock.advance(4 * MINUTE)
  t.equal(told.length, 1)
  await team.clock.advance(MINUTE)
  await team.clock.advance(40 * MINUTE)
  t.equal(told.length, 2)
  await team.clock.advance(10 * MINUTE)
  t.same(
    pluck(told, 'forMs').map((ms) => Math.round(ms / 1_000)),
    [30, 300, 3_000],
  )
  t.equal(run.trace.events.filter(({ eventType }) => eventType === 'slow').length, 3)
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('what is slow again is told again, and where nothing is ever slow nothing is told', async (t) => {
  const cast: Record<string, Receive> = {
    async ann(_message, context) {
      for (const name of ['one', 'two']) await context.step(name, () => context.sleep(40_000))
      return 'done'
    },
  }
  const options: Extras = { ...patient, roles: { ann: { limits: { turnTimeoutMs: false } } } }
  for (const [slowMs, names] of [
    [undefined, ['one', 'two']],
    [false, []],
  ] as const) {
    const team = localTeam(t, cast, { ...options, ...(slowMs === false && { supervision: { slowMs } }) })
    const told = toldBy(team)
    const run = team.launch('go')
    await team.clock.advance(2 * MINUTE)
    t.same(pluck(told, 'name'), names)
    t.ok((await run.result).success)
  }
})

t.test('a turn that waits for what nobody brings is stuck once it is slow', async (t) => {
  const { testTeam } = given(t, { ...patient, supervision: { deadlock: false } })
  const team = testTeam({ ann: async (_message, context) => String(await context.blackboard.waitFor('key')) })
  const run = team.launch('go')
  await team.clock.advance(10_000)
  t.equal(team.judgement().state, 'fine')
  await team.clock.advance(25_000)
  t.match(team.judgement(), { state: 'stuck', sentences: [/^ann: waits for blackboard key for 35 s/] })
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('a question of three days is never told', async (t) => {
  const cast: Record<string, Receive> = {
    ann: async (_message, context) => (await context.request('ben', 'go')).content,
    ben: async (_message, context) => context.ask('May I?'),
  }
  const roles = { ann: { limits: { turnTimeoutMs: false } }, ben: { limits: { turnTimeoutMs: false } } } as const
  const team = localTeam(t, cast, { ...patient, roles, communication: { responseTimeoutMs: 4 * DAY } })
  const told = toldBy(team)
  const run = team.launch('go')
  for (let hours = 0; hours < 72; hours += 6) {
    await team.clock.advance(6 * HOUR)
    t.same(team.judgement(), { state: 'fine', sentences: [] })
  }
  t.equal(team.turns().filter(({ agent }) => agent === 'ben').length, 1)
  t.same(told, [])
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('ten minutes of healthy load are never told', async (t) => {
  const cast: Record<string, Receive> = {
    async ann(_message, context) {
      await context.step('read', () => context.sleep(2_000))
      const answers = await context.requestAll(['ben', 'cid'], 'go')
      return `${answers.length}`
    },
    ben: async (_message, context) => (await context.complete({ prompt: 'Think.', model: 'small' })).text,
    cid: async (_message, context) => {
      await context.blackboard.write('key', 'value', 'fact')
      await context.sleep(3_000)
      return 'done'
    },
  }
  const small = new FakeModel(() => 'well')
  const team = localTeam(t, cast, { ...patient, models: { small }, maxConcurrentRuns: 4 })
  const told = toldBy(team)
  const runs = []
  for (let seconds = 0; seconds < 600; seconds++) {
    if (seconds % 6 === 0) runs.push(team.launch(`${seconds}`))
    await team.clock.advance(1_000)
    t.same(team.judgement(), { state: 'fine', sentences: [] })
  }
  await team.clock.advance(MINUTE)
  const ended = await Promise.all(runs.map(({ result }) => result))
  t.ok(ended.every(({ success }) => success))
  t.same(told, [])
})

t.test('a used-up budget is told, with the time at which a part of it is free again', async (t) => {
  const small = {
    async *complete() {
      yield { text: 'well' }
      yield { usage: { inputTokens: 10, outputTokens: 50, totalTokens: 60, calls: 1 } }
    },
  }
  const ask: Receive = async (_message, context) => {
    const think = () => context.complete({ prompt: 'Think.', model: 'small', maxOutputTokens: 50 })
    await think()
    return (await think()).text
  }
  const options: Extras = { models: { small }, budget: { perTeam: { tokens: 100, windowMs: HOUR } } }
  const team = localTeam(t, { ann: ask }, { ...patient, ...options })
  const run = team.launch('go')
  await team.clock.advance(1_000)
  await run.result
  const freeAt = new Date(team.budgets()[0]!.freeAt!).toISOString()
  const { state, sentences } = team.judgement()
  t.equal(state, 'slow')
  t.match(sentences[0], /^used up: budget\.perTeam\.tokens for /)
  t.match(sentences[0], `60 of 100 tokens, the next part is free at ${freeAt}`)
  await team.clock.advance(HOUR)
})

t.test('of a turn the worst is told, and each queue has one sentence', (t) => {
  const of = (fields: object) => ({
    runId: 'r',
    agent: 'ann',
    turn: 't',
    for: ['x'],
    kind: 'step',
    since: 0,
    ...fields,
  })
  const waits = [
    of({ since: 50, slowAfterMs: 10 }),
    of({ kind: 'tool', since: 90, stuck: 'now' }),
    of({ turn: null, kind: 'limit', for: ['concurrency of "ann"'], limit: 1, since: 60 }),
    of({ turn: null, kind: 'limit', for: ['concurrency of "ann"'], limit: 1, since: 40, slowAfterMs: 30 }),
    of({ turn: 'u', kind: 'own', loop: 'idle', since: 0 }),
  ]
  const all = judged(waits, 100)
  t.same(pluck(all, 'state'), ['stuck', 'fine', 'slow'])
  t.match(pluck(all, 'sentence'), [
    'ann: tool "x" for 0.0 s',
    'ann: waits for something that the runtime does not know for 0.1 s',
    '2 turns wait: concurrency of "ann" 1, the oldest for 0.1 s (slow after 0.0 s)',
  ])
  t.equal(worstOf(pluck(all, 'state')), 'stuck')
  t.end()
})

// What hangs is named with its age: the turn, what it does, and what waits behind it.

const SLOW_HOUR = 3_600_000

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
    options: { tools: [doing(() => never(), { name: 'look_up', timeoutMs: SLOW_HOUR })] },
  },
  'a model': {
    receive: async (_message, context) => (await context.complete({ prompt: 'Think.', model: 'small' })).text,
    kind: 'model',
    slowAfterMs: 120_000,
    words: /^ann: model "small" for .* \(slow after 2 min\)$/,
    options: { models: { small: new FakeModel(() => never()) } },
  },
  'an entry that nobody writes': {
    receive: async (_message, context) => String(await context.blackboard.waitFor('key', { timeoutMs: SLOW_HOUR })),
    kind: 'blackboard.waitFor',
    slowAfterMs: 30_000,
    words: /^ann: waits for blackboard.waitFor key for /,
  },
}

const slowPatient: Extras = {
  enableBlackboard: true,
  communication: { responseTimeoutMs: SLOW_HOUR },
  globalTimeoutMs: 2 * SLOW_HOUR,
}

const of = (agent: string) => (turn: { agent: string | null }) => turn.agent === agent

for (const [name, { receive, kind, slowAfterMs, words, options = {} }] of Object.entries(hanging))
  t.test(`${name}: it is fine before its bound, and named with its age from then on`, async (t) => {
    const team = localTeam(t, { ann: receive, ben: () => 'done' }, { ...slowPatient, ...options })
    const run = team.launch('go', { runId: 'one' })
    await team.clock.advance(slowAfterMs - 1_000)
    t.match(team.turns().find(of('ann')), { state: 'fine', doing: [{ kind }] })
    t.same(team.judgement(), { state: 'fine', sentences: [] })
    await team.clock.advance(2_000)
    const turn = team.turns().find(of('ann')) as OpenTurn
    t.match(turn, { runId: 'one', agent: 'ann', state: 'slow', doing: [{ kind }], sentence: words })
    t.ok(team.clock.now() - turn.since >= slowAfterMs)
    const [{ name: what }] = turn.doing as [OpenTurn['doing'][number]]
    t.equal(what === null, kind === 'own', 'all but work of its own has a name')
    t.ok(words.source.includes(what ?? ''), 'the name that is said')
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
    const team = localTeam(t, { ann, ben: () => 'done' }, slowPatient)
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
    cid: async (_message, context) => String(await context.sleep(SLOW_HOUR)),
    async dan(_message, context) {
      for (let n = 0; n < 60; n++) await context.step(`${n}`, () => context.sleep(20_000))
      return 'done'
    },
  }
  const team = localTeam(t, cast, { ...slowPatient, roles: { ann: { limits: { turnTimeoutMs: false } } } })
  const run = team.launch('go')
  for (let n = 0; n < 8; n++) {
    await team.clock.advance(20_000)
    t.same(team.judgement(), { state: 'fine', sentences: [] })
  }
  void run.cancel('enough')
  await team.clock.advance(10_000)
})

t.test('a slow turn that another agent waits for is stuck, and so are those in a circle', async (t) => {
  const team = given(t, { ...slowPatient, supervision: { deadlock: false, slowMs: { turn: 500 } } }).testTeam({
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
    const team = localTeam(t, { ann: hang }, { ...slowPatient, supervision, roles })
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
  const team = localTeam(t, { ann: hang }, { ...slowPatient, maxConcurrentRuns: 2 })
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

// Seven ways to hang on real threads: each is named with its age, over HTTP and on the screen of `top`.

const module = new URL('../fixtures/team/hangs.js', import.meta.url)
const SLOW_MS = 500

/** A server that takes requests and answers none. */
async function deafServer(t: Test) {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const hangingStream = async function* () {
  yield { text: 'Well' }
  await new Promise(() => {})
}

async function hungThreadsHanging(t: Test, way: string) {
  const url = await deafServer(t)
  const inHost = defineTool({
    name: 'call_in_host',
    description: 'Waits for an address.',
    input: z.object({ url: z.string() }),
    timeoutMs: 3_600_000,
    run: async ({ url }, { signal }) => (await fetch(url, { signal })).text(),
  })
  const model = Object.assign(new FakeModel([]), { complete: hangingStream })
  const team = createTeam({
    agents: [
      {
        name: 'writer',
        module,
        tools: [inHost, { module, export: 'calls' }, { module, export: 'isolated', isolate: true }],
      },
    ],
    models: { small: model },
    orchestration: { strategy: 'sequential' },
    supervision: { slowMs: SLOW_MS, watchdogMs: false, stopGraceMs: 10 },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['watch'] }) })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void (event.type === 'slow' && events.push(event)))
  const fold = new DigestFold()
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  void (async () => {
    for await (const line of team.watch({ signal: stop.signal })) fold.read(line)
  })()
  const run = team.launch(`${way} ${url}`)
  t.teardown(() => run.cancel('enough'))
  const asked = async () => {
    const response = await api.fetch(new Request('http://localhost/api/turns'))
    return (await response.json()) as { turns: OpenTurn[]; judgement: TeamJudgement }
  }
  const screen = () =>
    topLines(
      fold,
      { view: 'agents', sort: 'trouble', selected: undefined, note: '' },
      { width: 200, height: 30 },
      Date.now(),
    )
  /** Looks until what is seen is there. */
  const until = async <T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> => {
    for (;;) {
      const seen = await look()
      if (seen !== undefined) return seen
      await pause(20)
    }
  }
  const turn = (state: RegExp) => async () =>
    (await asked()).turns.find((each) => each.agent === 'writer' && state.test(each.state))
  return { team, events, asked, screen, until, turn }
}

const WAYS: [way: string, words: string, state: 'slow' | 'stuck'][] = [
  ['handler', 'waits for something that the runtime does not know', 'slow'],
  ['step', 'step "fetch prices"', 'slow'],
  ['call_in_host', 'tool "call_in_host"', 'slow'],
  ['call_in_thread', 'tool "call_in_thread"', 'slow'],
  ['call_isolated', 'tool "call_isolated"', 'slow'],
  ['model', 'model "small"', 'slow'],
  ['loop', 'computes', 'stuck'],
]

for (const [way, words, state] of WAYS)
  t.test(`it is named with its age: ${way}`, async (t) => {
    const { events, asked, screen, until, turn, team } = await hungThreadsHanging(t, way)
    const found = await until(turn(new RegExp(`^${state}$`)))
    t.match(found.sentence, `writer: ${words} for `)
    t.match(found.sentence, /for [\d.]+ s \(slow after 0\.5 s\)/)
    if (state === 'stuck') t.match(found.sentence, /, and its thread does not answer$/)
    const { judgement } = await asked()
    t.equal(judgement.state, state)
    t.match(judgement.sentences, [`writer: ${words}`])
    await until(() => screen().find((line) => line.startsWith(`! ${state}: writer: ${words} for`)))
    const told = await until(() => events[0])
    t.match(told, { type: 'slow', agent: 'writer', messageId: found.messageId, sentence: `writer: ${words}` })
    t.ok(told.type === 'slow' && told.forMs >= SLOW_MS)
    t.match(team.health().agents.writer!.turns, [{ messageId: found.messageId }])
  })

t.test('a thread that computes and answers is slow, and not stuck', async (t) => {
  const { until, turn, asked } = await hungThreadsHanging(t, 'busy')
  await until(turn(/^slow$/))
  for (let looks = 0; looks < 15; looks++) {
    t.equal((await asked()).judgement.state, 'slow')
    await pause(100)
  }
})
