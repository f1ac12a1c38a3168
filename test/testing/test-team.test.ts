/** A whole team in the thread of a test, under a virtual clock. */
import t from 'tap'
import { type AgentDefinition, createTeam, defineAgent, type Logger } from '../../src/index.ts'
import { SteppedClock, whileTimePasses } from '../../src/runtime/testing/virtual-clock.ts'
import { rehearse, scriptedModel, testAgent, testTeam, virtualClock } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'

// A whole team in the test's own thread, under a virtual clock.

const echo = defineAgent({ receive: ({ content }, { role }) => `${role.name}: ${content}` })
const slow = defineAgent({
  async receive(_message, context) {
    await context.sleep(1_000)
    return `attempt ${context.attempt}`
  },
})
const sequential = { strategy: 'sequential' as const }

t.test('it runs like a team, with the code that it is given', async (t) => {
  await using team = testTeam(
    { agents: [{ name: 'a' }, { name: 'b' }], orchestration: sequential },
    { modules: { a: echo, b: echo } },
  )
  t.match(await team.execute('q'), { success: true, finalOutput: 'b: a: q' })
})

t.test('time passes by its clock alone', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const run = team.launch('q')
  await team.clock.advance(999)
  t.equal(run.status, 'running')
  await team.clock.advance(1)
  t.equal(run.status, 'finished')
  t.equal(team.clock.now(), 1_000)
})

t.test('runToIdle lets a run end', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const run = team.launch('q')
  await team.clock.runToIdle()
  t.match(await run.result, { success: true, executionTimeMs: 1_000 })
})

t.test('the clock that it is given is its clock, and can be shared', async (t) => {
  const clock = virtualClock({ startAt: 5_000 })
  const make = () => testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { clock, modules: { a: slow } })
  await using one = make()
  await using other = make()
  t.equal(one.clock, clock)
  const runs = [one.launch('q'), other.launch('q')]
  await clock.advance(1_000)
  t.same(pluck(runs, 'status'), ['finished', 'finished'])
  t.match((await runs[0]!.result).orchestrationTrace.events[0], { eventType: 'run.started', timestamp: 5_000 })
})

t.test('crash ends the life of an agent, which starts again with its message', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const crashed: unknown[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashed.push(event.error.message)))
  const run = team.launch('q')
  await team.clock.advance(500)
  team.crash('a')
  await team.clock.advance(1_000)
  t.match(await run.result, { finalOutput: 'attempt 2', executionTimeMs: 1_000 })
  t.match(crashed, [/ended the life of agent "a"|outside of a turn/])
})

t.test('a message whose agent crashes three times is poison, as with any crash', async (t) => {
  await using team = testTeam(
    { agents: [{ name: 'a', supervision: { backoff: { baseMs: 0, capMs: 0 } } }], orchestration: sequential },
    { modules: { a: slow } },
  )
  const run = team.launch('q')
  for (const status of ['running', 'running', 'failed']) {
    await team.clock.advance(300)
    team.crash('a')
    await team.clock.advance(0)
    t.equal(run.status, status)
  }
  t.match((await run.result).error, { code: 'AGENT_CRASHED', details: { attempts: 3 } })
  t.match(team.deadLetters.list(), [{ reason: 'poison', errors: [{}, {}, {}] }])
})

t.test('nobody can crash who is not alive', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: echo } })
  t.throws(() => team.crash('a'), { code: 'UNKNOWN_AGENT', message: /No agent "a" is alive/ })
  t.throws(() => team.crash('zoe' as never), { code: 'UNKNOWN_AGENT' })
})

t.test('the same seed gives the same order of what happens at one time, another seed another', async (t) => {
  const order = async (seed: number) => {
    const names: string[] = []
    const notes = defineAgent({ receive: (_message, { role }) => void names.push(role.name) })
    const agents = Array.from({ length: 8 }, (_, i) => ({ name: `a${i}` }))
    const modules = Object.fromEntries(agents.map(({ name }) => [name, notes]))
    await using team = testTeam(
      { agents, maxConcurrentAgents: 8, orchestration: { strategy: 'parallel', maxConcurrent: 8 } },
      { seed, modules },
    )
    await team.execute('q')
    return names.join(' ')
  }
  const orders = await Promise.all([1, 2, 3, 4, 5].map(order))
  t.same(await Promise.all([1, 2, 3, 4, 5].map(order)), orders)
  t.ok(new Set(orders).size > 1)
})

t.test('ids of runs and messages follow from the seed too', async (t) => {
  const ids = async (seed: number) => {
    await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { seed, modules: { a: echo } })
    const { runId, messageHistory } = await team.execute('q')
    return [runId, ...messageHistory.map(({ id }) => id)]
  }
  t.same(await ids(3), await ids(3))
  t.not((await ids(3))[0], (await ids(4))[0])
})

t.test('chance is that of the message, so a turn that is tried again draws the same', async (t) => {
  const drawn: number[][] = []
  const draws = defineAgent({
    async receive(_message, context) {
      drawn.push([context.random(), context.random()])
      await context.sleep(10)
    },
  })
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: draws } })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(20)
  await run.result
  t.equal(drawn.length, 2)
  t.same(drawn[0], drawn[1])
})

t.test('a handler that never ends does not keep the team from closing', async (t) => {
  const stuck = defineAgent({ receive: () => new Promise<void>(() => {}) })
  const team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: stuck } })
  const run = team.launch('q')
  await team.clock.advance(0)
  await team.close()
  t.equal(run.status, 'aborted')
})

t.test('a team that closes in order lets no time pass', async (t) => {
  const team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: echo } })
  await team.execute('q')
  await team.close()
  t.equal(team.clock.now(), 0)
})

t.test('code for an agent that is not in the team is refused, and a model that is none', async (t) => {
  const options = { agents: [{ name: 'a' }], orchestration: sequential }
  t.throws(() => testTeam(options, { modules: { a: echo, zoe: echo } as Record<string, AgentDefinition> }), {
    code: 'CONFIGURATION',
    details: { path: 'modules.zoe' },
  })
  t.throws(() => testTeam(options, { modules: { a: echo }, model: {} as never }), { code: 'CONFIGURATION' })
})

t.test('what is no agent is refused when the team starts', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: {} } })
  await t.rejects(team.start(), { code: 'CONFIGURATION', details: { path: 'modules.a' } })
})

t.test('an agent with a module of its own is imported into this thread', async (t) => {
  const module = new URL('../fixtures/team/counter.js', import.meta.url)
  await using team = testTeam(
    { agents: [{ name: 'a', module }, { name: 'b' }], orchestration: sequential },
    { modules: { b: echo } },
  )
  t.equal((await team.execute('q')).finalOutput, 'b: 1')
})

t.test('a protocol in a module is imported into this thread too', async (t) => {
  const module = new URL('../fixtures/team/relay.js', import.meta.url)
  const orchestration = { strategy: 'custom' as const, module, config: { runners: ['a'], laps: 2 } }
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration }, { modules: { a: echo } })
  t.equal((await team.execute('>')).finalOutput, 'a: echo:a: echo:>aa a')
  await using wrong = testTeam(
    { agents: [{ name: 'a' }], orchestration: { ...orchestration, config: { laps: 'two' } } },
    { modules: { a: echo } },
  )
  await t.rejects(wrong.execute('q'), { code: 'CONFIGURATION', details: { path: 'orchestration.config.runners' } })
})

t.test('its clock can be given to a team on threads', async (t) => {
  const clock = virtualClock()
  const module = new URL('../fixtures/team/counter.js', import.meta.url)
  await using team = createTeam({ agents: [{ name: 'a', module }], orchestration: sequential, clock })
  t.equal((await team.execute('q')).finalOutput, '1')
})

t.test('a model that a test gives is asked again where the same model is asked again in life', async (t) => {
  const options = { agents: [{ name: 'ann' }], orchestration: sequential }
  const script = [{ fail: 'rate_limit' }, { fail: 'server' }, { reply: 'at last' }] as const
  const given = scriptedModel(script)
  await using team = testTeam(options, { model: given })
  t.match(await team.execute('q'), { success: true, finalOutput: 'at last' }, 'no test has to let the pauses pass')
  given.assertDone()
  t.equal(team.clock.now(), 0)

  const own = scriptedModel(script)
  await using alike = testTeam({ ...options, models: { default: own } })
  const run = alike.launch('q')
  await alike.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: 'at last' })
  t.same(given.calls, own.calls)
})

t.test('what a model of a test fails with for good says how often it was asked, as in life', async (t) => {
  const model = scriptedModel(Array(5).fill({ fail: 'server' }))
  await using team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: sequential, communication: { turnRetries: 0 } },
    { model },
  )
  t.match(await team.execute('q'), { success: false, error: { message: /It was asked 5 times/ } })
  model.assertDone()
})

t.test('one agent alone has the same model', async (t) => {
  const model = scriptedModel([{ fail: 'timeout' }, { reply: 'yes' }])
  const asks = defineAgent({ receive: async (_message, context) => (await context.complete({ prompt: 'Well?' })).text })
  const agent = testAgent(asks, { model })
  t.equal((await agent.request('go')).content, 'yes')
})

// A mistyped name, or a value of the wrong kind, in what a test gives: refused, where it is given.

const plainEcho = defineAgent({ receive: ({ content }) => content })
const options = { agents: [{ name: 'a' }], orchestration: { strategy: 'sequential' as const } }
/** Passes values as a user of JavaScript may. */
const untyped = (value: unknown): never => value as never

const refused = (path: string, message: RegExp) => ({ code: 'CONFIGURATION', message, details: { path } })

t.test('testTeam', async (t) => {
  for (const [kit, path, message] of [
    [{ module: { a: plainEcho } }, 'kit.module', /did you mean "modules"\?/],
    [{ seed: '7' }, 'kit.seed', /got "7"; accepted: a finite number/],
    [{ seed: Number.NaN }, 'kit.seed', /got NaN/],
    [{ later: 3 }, 'kit.later', /accepted: an object/],
    [{ clock: {} }, 'kit.clock', /without now, advance, runToIdle/],
    [{ model: 3 }, 'kit.model', /accepted: a ModelClient/],
    [null, 'kit', /got null; accepted: an object/],
  ] as const)
    t.throws(() => testTeam(options, untyped(kit)), refused(path, message), path)
  const team = testTeam(options, { modules: { a: plainEcho }, seed: undefined, later: { b: plainEcho } })
  await team.close()
})

t.test('testAgent', async (t) => {
  for (const [given, path, message] of [
    [{ reply: {} }, 'reply', /Accepted: role, model, clock, tools, replies/],
    [{ tools: { search: 'found' } }, 'tools.search', /accepted: a function/],
    [{ clock: 3 }, 'clock', /the methods now, advance, runToIdle/],
    [{ model: {} }, 'model', /accepted: a ModelClient/],
    [3, 'options', /accepted: an object/],
  ] as const)
    t.throws(() => testAgent(plainEcho, untyped(given)), refused(path, message), path)
})

t.test('scriptedModel', async (t) => {
  for (const [script, path, message] of [
    [undefined, 'script', /accepted: a list/],
    [[3], 'script[0]', /accepted: an object/],
    [[{ agnt: 'a', reply: 'x' }], 'script[0].agnt', /did you mean "agent"\?/],
    [[{ reply: 'x' }, { reply: 3 }], 'script[1].reply', /accepted: a text, or an object/],
    [[{ when: 3, reply: 'x' }], 'script[0].when', /a regular expression/],
    [[{ toolCall: { name: 'x', args: {} } }], 'script[0].toolCall.args', /Accepted: name, input/],
    [[{ fail: 'timeOut' }], 'script[0].fail', /"timeout"/],
    [[{ reply: 'x', delayMs: -1 }], 'script[0].delayMs', /milliseconds from 0/],
  ] as const)
    t.throws(() => scriptedModel(untyped(script)), refused(path, message), path)
  scriptedModel([
    { agent: 'a', when: /x/g, reply: ['y'] },
    { toolCall: { name: 'x', input: {} }, delayMs: 0 },
  ])
})

t.test('virtualClock', async (t) => {
  t.throws(() => virtualClock(untyped({ seed: 'x' })), refused('seed', /a finite number/))
  t.throws(() => virtualClock(untyped({ startsAt: 5 })), refused('startsAt', /did you mean "startAt"\?/))
  const clock = virtualClock()
  for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY, '5', undefined])
    await t.rejects(clock.advance(untyped(ms)), refused('ms', /milliseconds, 0 or more/), String(ms))
  await clock.advance(5)
  t.equal(clock.now(), 5)
})

t.test('rehearse', async (t) => {
  const plan = { query: 'q', seeds: 1, modules: { a: plainEcho } }
  await t.rejects(rehearse(options, untyped({ ...plan, check: 3 })), refused('check', /accepted: a function/))
  await t.rejects(rehearse(options, untyped({ ...plan, record: 3 })), refused('record', /accepted: the path of a file/))
})

// A test that waits for a team whose clock nobody moves is told so, instead of ending by its runner's limit.

const slowTeam = defineAgent({
  async receive(_message, context) {
    await context.sleep(5_000)
    return 'done'
  },
})
const curious = defineAgent({ receive: (_message, context) => context.ask('Which color?') })

/** A promise that the test settles. */
function open<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Resolves with the first warning that a team logs. */
function warning() {
  const told = open<string>()
  const logger: Logger = {
    debug() {},
    info() {},
    warn: (_fields: object, text: string) => told.resolve(text),
    error() {},
  }
  return { logger, told: told.promise }
}

/** Waits for an answer that does not come, of a team with that clock, beside a second clock for real time. */
function waiting() {
  const [clock, real] = [new SteppedClock(1, 70), virtualClock()]
  const told: string[] = []
  const answer = open<string>()
  const result = whileTimePasses(
    answer.promise,
    { clock, isAsking: () => false, warn: (text) => told.push(text) },
    real,
  )
  return { clock, real, told, answer, result }
}

t.test('after a second in which no time passed it says what to do, once', async (t) => {
  const { real, told, answer, result } = waiting()
  await real.advance(999)
  t.same(told, [])
  await real.advance(1)
  t.match(told, [/the clock of its team stands at 70 ms: .*await team\.clock\.runToIdle\(\)/])
  await real.advance(60_000)
  t.equal(told.length, 1)
  answer.resolve('late')
  t.equal(await result, 'late')
})

t.test('as long as time passes it waits', async (t) => {
  const { clock, real, told } = waiting()
  for (let i = 0; i < 5; i++) {
    await clock.advance(1)
    await real.advance(1_000)
  }
  t.same(told, [])
  await real.advance(1_000)
  t.equal(told.length, 1)
})

t.test('work that takes real time is no standstill', async (t) => {
  const { clock, real, told } = waiting()
  const work = open<void>()
  const done = clock.outside(work.promise)
  await real.advance(5_000)
  t.same(told, [])
  work.resolve()
  await done
})

t.test('an answer in time, or an error, ends it', async (t) => {
  const one = waiting()
  one.answer.resolve('in time')
  t.equal(await one.result, 'in time')
  const other = waiting()
  other.answer.reject(new Error('no'))
  await t.rejects(other.result, { message: 'no' })
  for (const { real, told } of [one, other]) {
    await real.advance(10_000)
    t.same(told, [])
  }
})

t.test('a team that sleeps', async (t) => {
  const { logger, told } = warning()
  await using team = testTeam(
    { agents: [{ name: 'a' }], orchestration: sequential, logger },
    { modules: { a: slowTeam } },
  )
  const result = team.execute('q')
  t.match(await told, /time passes only while the test lets it/)
  await team.clock.runToIdle()
  t.match(await result, { finalOutput: 'done' })
})

t.test('a team that waits for a person', async (t) => {
  const { logger, told } = warning()
  await using team = testTeam(
    { agents: [{ name: 'a' }], orchestration: sequential, logger },
    { modules: { a: curious } },
  )
  const result = team.execute('q')
  t.match(await told, /waits for a person.*run\.answer/)
  await team.answer(team.questions()[0]?.questionId ?? '', 'blue')
  t.match(await result, { finalOutput: 'blue' })
})

// A clock that stands still until it is told to go on.

t.test('it begins at 0, or when it is told to, and stands still', async (t) => {
  t.same([virtualClock().now(), virtualClock().monotonic()], [0, 0])
  const clock = virtualClock({ startAt: 1_000_000 })
  await clock.advance(5)
  t.same([clock.now(), clock.monotonic()], [1_000_005, 5])
})

t.test('advance wakes sleepers when they are due, in the order of their times', async (t) => {
  const clock = virtualClock()
  const woken: [string, number][] = []
  for (const [name, ms] of Object.entries({ late: 30, early: 10, middle: 20, never: 31 }))
    void clock.sleep(ms).then(() => woken.push([name, clock.now()]))
  await clock.advance(30)
  t.same(woken, [
    ['early', 10],
    ['middle', 20],
    ['late', 30],
  ])
  t.equal(clock.now(), 30)
})

t.test('sleepers of the same time wake in the order in which they fell asleep', async (t) => {
  const clock = virtualClock()
  const woken: string[] = []
  for (const name of ['a', 'b', 'c']) void clock.sleep(10).then(() => woken.push(name))
  await clock.advance(10)
  t.same(woken, ['a', 'b', 'c'])
})

t.test('what follows from a wake-up happens at its time, new sleepers too', async (t) => {
  const clock = virtualClock()
  const times: number[] = []
  void (async () => {
    for (let i = 0; i < 3; i++) {
      await clock.sleep(10)
      times.push(clock.now())
    }
  })()
  await clock.advance(25)
  t.same(times, [10, 20])
  await clock.advance(5)
  t.same(times, [10, 20, 30])
})

t.test('a sleep of 0 needs no time, but an advance', async (t) => {
  const clock = virtualClock()
  let woken = false
  void clock.sleep(0).then(() => {
    woken = true
  })
  await null
  t.equal(woken, false)
  await clock.advance(0)
  t.equal(woken, true)
})

t.test('runToIdle does not wait for what comes again and again', async (t) => {
  const clock = virtualClock()
  let looks = 0
  const look = () => {
    looks += 1
    clock.timer(10, look, 'background')
  }
  look()
  void clock.sleep(25)
  await clock.runToIdle()
  t.same([looks, clock.now()], [3, 25])
})

t.test('runToIdle lets time pass until nothing is due', async (t) => {
  const clock = virtualClock()
  let woken = 0
  void (async () => {
    for (let i = 0; i < 5; i++, woken++) await clock.sleep(1_000)
  })()
  await clock.runToIdle()
  t.same([woken, clock.now()], [5, 5_000])
  await clock.runToIdle()
  t.equal(clock.now(), 5_000)
})

t.test('a sleep ends with its signal, and leaves nothing that is due', async (t) => {
  const clock = virtualClock()
  const controller = new AbortController()
  const asleep = clock.sleep(10, controller.signal)
  controller.abort(new Error('enough'))
  await t.rejects(asleep, { message: 'enough' })
  await t.rejects(clock.sleep(10, controller.signal), { message: 'enough' })
  await clock.runToIdle()
  t.equal(clock.now(), 0)
})

t.test('a signal that comes after the wake-up does nothing', async (t) => {
  const clock = virtualClock()
  const controller = new AbortController()
  const asleep = clock.sleep(10, controller.signal)
  await clock.advance(10)
  await asleep
  controller.abort()
  t.equal(clock.now(), 10)
})

t.test('the same seed draws the same numbers, another seed others', async (t) => {
  const draw = (seed?: number) => {
    const clock = virtualClock(seed === undefined ? {} : { seed })
    return Array.from({ length: 5 }, () => clock.random())
  }
  t.same(draw(7), draw(7))
  t.same(draw(), draw(1))
  t.notSame(draw(7), draw(8))
  t.ok(draw(7).every((number) => number >= 0 && number < 1))
})

t.test('what the machine itself is at takes no time, and comes in the order in which it was begun', async (t) => {
  const clock = new SteppedClock(1, 0)
  const order: string[] = []
  const later = (turns: number): Promise<void> =>
    new Promise((resolve) => (turns === 0 ? resolve() : setImmediate(() => void later(turns - 1).then(resolve))))
  void clock.sleep(1).then(() => order.push(`timer at ${clock.monotonic()}`))
  clock.defer(() => order.push('task'))
  void clock.outside(later(20)).then(() => order.push(`slow at ${clock.monotonic()}`))
  clock.outside(Promise.reject(new Error('quick'))).catch((error: Error) => order.push(error.message))
  await clock.runToIdle()
  t.same(order, ['slow at 0', 'quick', 'task', 'timer at 1'])
})

t.test('runUntil stops when it is done, when nothing is due, and when no time passes', async (t) => {
  const clock = new SteppedClock(1, 0, 50)
  let woken = 0
  const wake = () => {
    woken += 1
    if (woken < 10) clock.timer(5, wake)
  }
  wake()
  t.equal(await clock.runUntil(() => woken === 3), 'done')
  t.equal(clock.monotonic(), 10)
  t.equal(await clock.runUntil(() => false), 'idle')
  t.equal(woken, 10)
  const again = () => clock.defer(again)
  again()
  t.equal(await clock.runUntil(() => false), 'endless')
})
