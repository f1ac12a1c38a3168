/** What is told of turns that take long, when, and how often; and that healthy work is never told. */
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { judged, worstOf } from '../../src/runtime/views/slow.ts'
import { pluck } from '../kit/lists.ts'
import { type Extras, given, localTeam, type Receive } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'

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
