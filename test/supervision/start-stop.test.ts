/** Rules 11, 12 and 14: how agents start and stop, and who is told. */
import t from 'tap'
import type { Assignment } from '../../src/actors/definition/assignment.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import {
  type AgentContext,
  type AgentMessage,
  type AgentRole,
  createTeam,
  type DramatisError,
} from '../../src/index.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import { HostLoop } from '../../src/runtime/host/core.ts'
import type { Incarnation } from '../../src/runtime/host/incarnation.ts'
import type { Part } from '../../src/runtime/supervision/host.ts'
import { listen } from '../../src/runtime/supervision/pending-incarnation.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { timeouts } from '../../src/runtime/supervision/timeouts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import type { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { startedIn } from '../../src/runtime/threads/worker-thread.ts'
import { tasks } from '../../src/runtime/verbs/task-board.ts'
import { type Scheduler, schedulerFrom, systemClock } from '../../src/shared/clock.ts'
import { AgentCrashedError } from '../../src/shared/errors.ts'
import { ahead, BareSupervisor } from '../kit/bare-supervisor.ts'
import { ask, gate, given, never, openTeam, outcomeOf, type Receive, silent } from '../kit/team.ts'

const answers: Receive = (message, context) => `${message.content} in attempt ${context.attempt}`

t.test('rule 11: an agent that fails twice while it starts is a start failure, without a loop', async (t) => {
  let starts = 0
  const team = openTeam(t, {
    worker: defineAgent({
      start() {
        starts += 1
        throw new Error('no database')
      },
      receive: () => '',
    }),
    other: answers,
  })
  await t.rejects(team.start(), {
    code: 'START_FAILED',
    message: /^Agent "worker" failed twice while it started: .*no database/,
    details: { agent: 'worker' },
  })
  await team.clock.advance(3_600_000)
  t.equal(starts, 2)
  t.equal(team.getAgentStatus('worker'), 'failed')
})

t.test('rule 11: a run that needs it fails, one that does not goes on', async (t) => {
  const team = given(t, {
    script: async (script, query) => (await script.request(query, 'go')).content,
  }).team({
    worker: defineAgent({
      start() {
        throw new Error('no database')
      },
      receive: () => '',
    }),
    other: answers,
  })
  const failed = await team.execute('worker')
  t.match(failed.error, { code: 'AGENT_TERMINATED', message: /failed twice while it started: .*no database/ })
  t.equal((await team.execute('other')).finalOutput, 'go in attempt 1')
})

for (const [whom, exit] of Object.entries({
  'from outside': { outside: true },
  'by the work of another agent': { bystander: { culprit: 'other', why: 'exit code 1' } },
}))
  t.test(`rule 11: a thread that is ended ${whom} while its agent starts is no failed start`, async (t) => {
    const starts: LocalThread[] = []
    let isGiven = gate()
    const given = gate()
    const team = openTeam(t, {
      worker: defineAgent({
        async start() {
          const { thread } = team.agent('worker').incarnation!
          starts.push(thread as LocalThread)
          isGiven.open()
          await given.opened
        },
        receive: answers,
      }),
    })
    const started = team.start()
    for (let n = 1; n <= 3; n++) {
      await isGiven.opened
      isGiven = gate()
      starts.at(-1)!.kill({ code: 1, error: undefined, ...exit })
    }
    await isGiven.opened
    given.open()
    await started
    t.equal(await ask(team, 'worker'), 'go in attempt 1')
  })

t.test('rule 11: one failure to start is forgiven, also in a later life', async (t) => {
  let starts = 0
  const team = openTeam(t, {
    worker: defineAgent({
      start() {
        starts += 1
        if (starts % 2 === 1) throw new Error('not yet')
      },
      receive: () => `started ${starts} times`,
    }),
  })
  t.equal(await ask(team, 'worker'), 'started 2 times')
  team.crash('worker')
  t.equal(await ask(team, 'worker'), 'started 4 times')
})

t.test('rule 11: what is wrong with the code is final at once', async (t) => {
  let made = 0
  const team = openTeam(t, {
    worker: defineAgent({
      initialState: () => {
        made += 1
        return { since: new Date(0) }
      },
      receive: () => '',
    }),
  })
  await t.rejects(team.execute('go'), {
    code: 'CONFIGURATION',
    details: { agent: 'worker', path: 'initialState.since' },
  })
  t.equal(made, 1)
})

t.test('rule 12: agents are stopped in the reverse order of their start', async (t) => {
  const stopped: string[] = []
  const stops = (name: string) => defineAgent({ receive: () => '', stop: () => void stopped.push(name) })
  const team = openTeam(t, { a: stops('a'), b: stops('b'), c: stops('c') })
  await team.start()
  await team.close()
  t.same(stopped, ['c', 'b', 'a'])
})

t.test('rule 12: a turn under way is told by its signal, and its caller gets the reason', async (t) => {
  const told: boolean[] = []
  const team = openTeam(t, {
    async worker(_message, context) {
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
      told.push(context.signal.aborted)
    },
  })
  const running = team.execute('go')
  await team.clock.advance(0)
  await team.close()
  t.match((await running).error, { code: 'RUN_ABORTED', details: { reason: 'close' } })
  t.same(told, [true])
})

t.test('rule 12: what a turn still says when it is told to stop is heard', async (t) => {
  const said: string[] = []
  const logger = { ...silent, info: (_fields: object, text = '') => void said.push(text) }
  const team = given(t, { logger }).team({
    async worker(_message, context) {
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
      context.log.info({}, 'tidied up')
    },
  })
  void team.execute('go')
  await team.clock.advance(0)
  await team.close()
  t.same(said, ['tidied up'])
})

t.test('rule 12: a turn that heeds its signal keeps its thread, and so does one that waits behind it', async (t) => {
  const team = openTeam(t, {
    async caller(_message, context) {
      for (let i = 0; i < 50; i++) await context.request('worker', 'quick') // then more than one is handed over
      const gone = new AbortController()
      const first = context.request('worker', 'first', { timeoutMs: 20_000 })
      const second = context.request('worker', 'second', { signal: gone.signal }).catch(({ code }) => code)
      await context.sleep(10)
      gone.abort() // it stands in the worker's window, and has not begun
      const third = context.request('other', 'third', { timeoutMs: 10 }).catch(({ code }) => code)
      return `${(await first).content} ${await second} ${await third}`
    },
    worker: ({ content }, context) => (content === 'quick' ? '' : context.sleep(10_000).then(() => 'first')),
    other: (_message, context) => context.sleep(10_000),
  })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(20_000)
  t.equal(asked.value, 'first CANCELLED REQUEST_TIMEOUT')
  const { worker, other } = team.health().agents
  t.same([worker?.restarts, other?.restarts], [0, 0])
})

t.test('rule 12: a stop hook that does not end has stopGraceMs, 5 s unless told otherwise', async (t) => {
  const team = openTeam(t, { worker: defineAgent({ receive: () => '', stop: () => never }) })
  await team.start()
  const closed = outcomeOf(team.close())
  await team.clock.advance(4_999)
  t.notOk(closed.settled)
  await team.clock.advance(1)
  t.ok(closed.settled)
})

t.test('rule 12: what stands in the window of an agent that is told to stop is not begun', async (t) => {
  const begun: string[] = []
  const worker = defineAgent({
    async receive({ content }, { signal }) {
      begun.push(content)
      if (content !== 'quick') await new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
    stop: () => team.clock.sleep(10), // while the message waits in vain
  })
  const team = given(t, {
    script: async (script) => {
      for (let i = 0; i < 50; i++) await script.request('worker', 'quick') // then more than one is handed over
      begun.length = 0
      const asked = ['first', 'second'].map((content) => script.request('worker', content))
      return (await Promise.allSettled(asked)).map((each) => each.status === 'rejected' && each.reason.code).join()
    },
  }).team({ worker })
  const run = team.launch('go')
  await team.clock.advance(1)
  t.equal(team.agent('worker').mailbox.handed.size, 2)
  let looks = 0
  const scheduler = schedulerFrom(team.clock)
  const { defer } = scheduler
  scheduler.defer = (task) => {
    looks += 1
    defer.call(scheduler, task)
  }
  const removed = outcomeOf(team.removeAgent('worker'))
  await team.clock.advance(10)
  t.ok(removed.settled)
  t.ok(looks < 50, 'its thread sleeps while its stop hook runs')
  t.same(begun, ['first'])
  t.equal((await run.result).finalOutput, 'AGENT_TERMINATED,AGENT_TERMINATED')
})

t.test('rule 12: who is removed while the team closes is stopped once', async (t) => {
  let stops = 0
  const worker = defineAgent({
    receive: () => '',
    async stop() {
      stops += 1
      await team.clock.sleep(10)
    },
  })
  const team = openTeam(t, { worker })
  await team.start()
  const ended = outcomeOf(Promise.all([team.removeAgent('worker'), team.close()]))
  await team.clock.advance(10)
  t.ok(ended.settled)
  t.equal(stops, 1)
})

t.test('rule 12: an agent that is still starting is ended without its stop hook', async (t) => {
  let stops = 0
  const worker = defineAgent({ start: () => never, receive: () => '', stop: () => void stops++ })
  const team = openTeam(t, { worker })
  void team.start().catch(() => {})
  await team.clock.advance(1)
  await team.close()
  t.equal(stops, 0)
})

t.test('rule 12: an agent that dies while it is told to stop is waited for no longer', async (t) => {
  const bare = new BareSupervisor({ worker: () => never }, [restarts])
  await bare.start()
  const asked = outcomeOf(bare.ask('worker'))
  await bare.clock.advance(1)
  const ended = outcomeOf(bare.host.lifecycle.end(bare.host.directory.agent('worker')!))
  await bare.clock.advance(1)
  t.notOk(ended.settled)
  bare.threads.get('worker')!.terminate()
  await bare.clock.advance(1)
  t.ok(ended.settled)
  t.equal(asked.error?.code, 'AGENT_TERMINATED')
  t.equal(bare.host.directory.agent('worker')!.restarts, 0)
})

t.test('rule 12: a closed team leaves no timer of the machine', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const team = openTeam(t, { worker: answers })
  await team.start()
  const before = timers()
  await team.close()
  t.equal(timers(), before)
})

t.test('rule 12: the grace ends in real time too: who awaits close may be who moves the clock', async (t) => {
  const team = given(t, { supervision: { stopGraceMs: 1 } }).team({
    worker: defineAgent({ receive: () => '', stop: () => never }),
  })
  await team.start()
  await team.close()
  t.equal(team.getAgentStatus('worker'), 'stopped')
})

t.test('rule 12: the end of an agent is that of its thread, which has a second for it', async (t) => {
  t.intercept(systemClock, 'sleep', { value: () => never }) // of real time a busy machine may take more
  const bare = new BareSupervisor({ quick: answers, slow: answers, stubborn: answers }, [])
  await bare.start()
  for (const name of ['slow', 'stubborn']) bare.threads.get(name)!.ailments.add('stubborn')
  const [quick, slow, stubborn] = ['quick', 'slow', 'stubborn'].map((name) =>
    outcomeOf(bare.host.lifecycle.end(bare.host.directory.agent(name)!)),
  )
  await bare.clock.advance(500)
  t.match([quick, slow, stubborn], [{ settled: true }, { settled: false }, { settled: false }])
  const { ailments } = bare.threads.get('slow')!
  ailments.clear()
  bare.threads.get('slow')!.terminate()
  await bare.clock.advance(499)
  t.match([slow, stubborn], [{ settled: true }, { settled: false }])
  await bare.clock.advance(1)
  t.ok(stubborn?.settled)
})

t.test('rule 12: closing twice is fine, and a closed team takes nothing', async (t) => {
  const team = openTeam(t, { worker: answers })
  await team.start()
  await Promise.all([team.close(), team.close()])
  await team.close()
  t.throws(() => team.launch('go'), { code: 'TEAM_CLOSED' })
  await t.rejects(ask(team, 'worker'), { code: 'TEAM_CLOSED' })
})

t.test('rule 12: no timer outlives the team', async (t) => {
  const timers = new Set<object>()
  const watch = (clock: Scheduler): Scheduler => ({
    ...ahead(clock, () => 0),
    timer(ms, task) {
      const set = clock.timer(ms, task)
      timers.add(set)
      return { cancel: () => timers.delete(set) && set.cancel() }
    },
  })
  const bare = new BareSupervisor({ worker: answers }, [restarts], { watch, supervision: { maxRestarts: 0 } })
  await bare.start()
  bare.threads.get('worker')!.terminate()
  await bare.clock.advance(0)
  t.equal(timers.size, 1, 'its cool-down')
  bare.host.close()
  t.equal(timers.size, 0)
})

// Rule 11: a start that does not end is a start that failed.

t.test('rule 11: an agent whose start does not end within turnTimeoutMs is tried twice, then stopped', async (t) => {
  let starts = 0
  const worker = defineAgent({
    start() {
      starts += 1
      return never
    },
    receive: () => '',
  })
  const team = given(t, { roles: { worker: { limits: { turnTimeoutMs: 1_000 } } } }).team({
    worker,
    other: () => 'fine',
  })
  const started = outcomeOf(team.start())
  await team.clock.advance(999)
  t.equal(starts, 1)
  await team.clock.advance(1)
  t.equal(starts, 2)
  t.equal(started.settled, false)
  await team.clock.advance(1_000)
  t.match(started.error, {
    code: 'START_FAILED',
    message: /^Agent "worker" failed twice while it started: The start of agent "worker" .* did not end within 1000 ms/,
    details: { agent: 'worker' },
  })
  t.equal(await ask(team, 'other'), 'fine')
  await team.clock.advance(3_600_000)
  t.same([starts, team.getAgentStatus('worker')], [2, 'failed'])
})

t.test('rule 11: a start has 300 s unless told otherwise, and all the time with turnTimeoutMs false', async (t) => {
  const slow = (ms: number) => {
    const worker = defineAgent({ start: () => team.clock.sleep(ms), receive: () => 'fine' })
    const team = given(t, ms > 300_000 ? { roles: { worker: { limits: { turnTimeoutMs: false } } } } : {}).team({
      worker,
    })
    return team
  }
  for (const ms of [299_999, 1_000_000]) {
    const team = slow(ms)
    const started = outcomeOf(team.start())
    await team.clock.advance(ms)
    t.equal(started.settled, true)
    t.equal(await ask(team, 'worker'), 'fine')
  }
})

t.test('rule 11: what a start that was given up still does is seen by nobody', async (t) => {
  const states: number[] = []
  let starts = 0
  const worker = defineAgent({
    initialState: { starts: 0 },
    async start({ setState }) {
      const mine = ++starts
      if (mine === 1) await team.clock.sleep(5_000)
      setState((state) => {
        state.starts = mine
      })
    },
    receive: (_message, { state }) => void states.push(state.starts),
  })
  const team = openTeam(t, { worker }, { roles: { worker: { limits: { turnTimeoutMs: 1_000 } } } })
  const first = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(1_000)
  t.equal(first.settled, true)
  await team.clock.advance(10_000)
  await ask(team, 'worker')
  t.same(states, [2, 2])
})

for (const module of ['loops-while-it-starts', 'never-loads']) {
  t.test(`rule 11: a thread that ${module.replaceAll('-', ' ')} is ended, and its agent stopped`, async (t) => {
    const team = createTeam({
      logger: silent,
      threads: { warmSpares: 0 },
      agents: [
        {
          name: 'worker',
          module: new URL(`../fixtures/supervision/${module}.js`, import.meta.url),
          limits: { turnTimeoutMs: 200 },
        },
        { name: 'other', module: new URL('../fixtures/supervision/exits.js', import.meta.url) },
      ],
      orchestration: { strategy: 'custom', run: async (script) => (await script.request('other', 'go')).content },
    })
    t.teardown(() => team.close())
    await t.rejects(team.start(), { code: 'START_FAILED', message: /"worker".* did not end within 200 ms/ })
    t.equal((await team.execute('go')).finalOutput, 'attempt 1, counted in 1')
    await team.close()
  })
}

t.test('a look that throws ends neither the loop nor leaves what it had not read', async (t) => {
  const deferred: (() => void)[] = []
  let looks = 0
  const look = () => {
    looks += 1
    if (looks === 1) throw new Error('broken')
    return false
  }
  const loop = new HostLoop({ defer: (task) => deferred.push(task) }, { isTelling: false }, look)
  t.throws(() => loop.kick(), { message: 'broken' })
  t.equal(deferred.length, 1, 'it looks again in a later turn')
  deferred.shift()?.()
  t.equal(looks, 2)
  t.equal(deferred.length, 0)
  loop.kick()
  t.equal(looks, 3)
})

t.test('a thread is ended once for its posts, and those that come after that cost nothing', async (t) => {
  const warned: unknown[] = []
  const ends: unknown[] = []
  let post = () => {}
  const warn = (fields: unknown) => void warned.push(fields)
  const logger = { debug: warn, info: warn, warn, error: warn }
  const onOwnPost = (listener: () => void) => {
    post = listener
  }
  const thread = { onPrint: () => {}, onOwnPost: onOwnPost }
  const incarnation = { thread, kill: (why: unknown) => void ends.push(why) } as unknown as Incarnation
  listen(logger, { name: 'mallory' } as Agent, incarnation)

  for (let posts = 0; posts < 2_000; posts++) post()
  t.same(ends, [])
  t.ok(warned.length > 0)
  const warnings = warned.length
  for (let posts = 0; posts < 30_000; posts++) post()
  t.equal(ends.length, 1)
  t.ok(ends[0] instanceof AgentCrashedError)
  t.equal(warned.length, warnings)
})

// Answers to a start that no thread of ours gives: an agent's code can change what its thread sends.

const module = new URL('../fixtures/supervision/forges-its-start.js', import.meta.url)
const known = { module: 'file:///tool.js', bundled: false, shown: 'tool.js', export: 'look', option: 'tools[0]' }
const assignment = { role: { name: 'ann' }, tools: { modules: [known] } } as unknown as Assignment

/** Starts an agent that answers so, in a team with limits that are not what ends the test. */
async function start(t: { teardown(end: () => unknown): unknown }, env: { FORGED?: string; KIND?: string }) {
  Object.assign(process.env, env)
  const agent: AgentRole = { name: 'ann', module, env: Object.keys(env) }
  const team = createTeam({
    agents: [agent],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  try {
    await team.start()
    return undefined
  } catch (error) {
    return error
  } finally {
    for (const name of Object.keys(env)) delete process.env[name]
  }
}

const unknown = /^Agent "ann" failed twice while it started: The thread of agent "ann" answered its start with what/

t.test('an agent that answers its start with nothing has failed to start, and is named', async (t) => {
  t.match(await start(t, { FORGED: 'null' }), { code: 'START_FAILED', message: unknown, details: { agent: 'ann' } })
})

t.test('an answer that leads to a port of the agent is none', async (t) => {
  t.match(await start(t, { KIND: 'port' }), { code: 'START_FAILED', message: unknown })
})

t.test('an answer that is thrown, or cannot be read, is a start that failed', async (t) => {
  const thrown = JSON.stringify({ isError: false, value: { toString: 5, valueOf: 5 } })
  for (const env of [{ KIND: 'throw', FORGED: thrown }, { KIND: 'nothing' }])
    t.match(await start(t, env), { code: 'START_FAILED', message: /The thread could not be started/ })
})

t.test('a failure at a place that no file can have is a start that failed', async (t) => {
  const error = {
    code: 'CONFIGURATION',
    message: 'bad',
    details: {},
    cause: { name: 'Error', message: 'bad', stack: 'Error: bad\n    at file:///a%2Fb.js:1:2' },
  }
  const forged = JSON.stringify({ ok: false, importing: 'agent', error })
  t.match(await start(t, { FORGED: forged }), { code: 'START_FAILED', message: /nor could it be seen why/ })
})

t.test('answers of another shape are failed starts', async (t) => {
  const deep = `${'['.repeat(2_000)}${']'.repeat(2_000)}`
  const wrong = [
    undefined,
    5,
    'text',
    () => {},
    [],
    {},
    { ok: 1 },
    { ok: true, state: {} },
    { ok: true, state: '{' },
    { ok: true, state: '5' },
    { ok: true, state: 'null' },
    { ok: true, state: deep },
    { ok: true, tools: 5 },
    { ok: true, harmful: [5] },
    { ok: false },
    { ok: false, error: 'bad' },
    { ok: false, error: { code: 5, message: 'bad' } },
    { ok: false, error: { code: 'CONFIGURATION', message: {} } },
    { ok: false, error: { code: 'CONFIGURATION', message: 'bad' }, importing: 5 },
  ]
  for (const reply of wrong)
    t.match(
      startedIn(reply, assignment),
      { ok: false, error: { code: 'START_FAILED' } },
      JSON.stringify(reply)?.slice(0, 80),
    )
})

t.test('answers of the right shape are taken, without what is not theirs', async (t) => {
  const cause = { name: 'TypeError', message: 'bad', stack: 'TypeError: bad' }
  const error = { code: 'CONFIGURATION' as const, message: 'bad', details: { a: 1 }, cause }
  t.same(startedIn({ ok: true, state: '{"a":1}', tools: ['look'], harmful: [] }, assignment), {
    ok: true,
    state: '{"a":1}',
    tools: ['look'],
    harmful: [],
  })
  t.same(startedIn({ ok: true, state: undefined, own: 5 }, assignment), { ok: true, state: undefined })
  t.same(startedIn({ ok: false, error, importing: 'agent' }, assignment), { ok: false, error, importing: 'agent' })
  t.same(startedIn({ ok: false, error, importing: { ...known, shown: 'x' } }, assignment), {
    ok: false,
    error,
    importing: known,
  })
  t.same(startedIn({ ok: false, error, importing: { module: 'file:///etc', export: 'x' } }, assignment), {
    ok: false,
    error,
  })
})

// The parts of the supervisor hang on its records alone: take one away, and just what it does is gone.

const parts = { restarts, timeouts, watchdog, tasks }
type Name = keyof typeof parts
const all = { restarts: true, timeouts: true, watchdog: true, tasks: true }

/** What each part is there for, and whether it is done. */
const effects: Record<Name, (given: Part[]) => Promise<boolean>> = {
  async restarts(given) {
    const bare = new BareSupervisor({ worker: () => 'fine' }, given)
    await bare.start()
    bare.threads.get('worker')!.terminate()
    await bare.clock.advance(0)
    return bare.host.directory.agent('worker')!.incarnation !== undefined
  },
  async timeouts(given) {
    const bare = new BareSupervisor({ worker: () => never }, given, { communication: { responseTimeoutMs: 100 } })
    await bare.start()
    const asked = outcomeOf(bare.ask('worker'))
    await bare.clock.advance(100)
    return asked.error?.code === 'REQUEST_TIMEOUT'
  },
  async watchdog(given) {
    const bare = new BareSupervisor({ worker: () => never }, given, { supervision: { watchdogMs: 100 } })
    await bare.start()
    outcomeOf(bare.ask('worker'))
    await bare.clock.advance(1)
    const thread = bare.threads.get('worker')!
    thread.ailments.add('deaf')
    await bare.clock.advance(200)
    return bare.host.directory.agent('worker')!.incarnation?.thread !== thread
  },
  async tasks(given) {
    const bare = new BareSupervisor({ worker: () => 'fine' }, given)
    await bare.start()
    await bare.ask('worker')
    await bare.clock.advance(0)
    return [...bare.run.tasks.values()][0]?.status === 'completed'
  },
}

async function effectsOf(given: Part[]): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = {}
  for (const [name, effect] of Object.entries(effects)) found[name] = await effect(given)
  return found
}

t.test('with all of its parts the supervisor does what each is there for', async (t) => {
  t.same(await effectsOf(Object.values(parts)), all)
})

for (const missing of Object.keys(parts) as Name[]) {
  t.test(`without ${missing} exactly that is gone`, async (t) => {
    const others = Object.entries(parts).filter(([name]) => name !== missing)
    t.same(await effectsOf(others.map(([, part]) => part)), { ...all, [missing]: false })
  })
}

for (const [maxConcurrentAgents, most] of [
  [undefined, 2],
  [1, 1],
])
  t.test(`with maxConcurrentAgents ${maxConcurrentAgents} of two agents ${most} may have a turn`, async (t) => {
    let running = 0
    const work: Receive = async (_message, context) => {
      running += 1
      await context.sleep(10)
    }
    const bare = new BareSupervisor({ one: work, other: work }, [], { maxConcurrentAgents })
    await bare.start()
    void bare.ask('one')
    void bare.ask('other')
    await bare.clock.advance(5)
    t.equal(running, most)
  })

t.test('without any part messages are still routed and answered', async (t) => {
  const bare = new BareSupervisor({ worker: (message) => `${message.content}!` }, [])
  await bare.start()
  t.equal(await bare.ask('worker', 'go'), 'go!')
})

t.test('a part that throws is reported, and the others go on', async (t) => {
  const broken: Part = () => ({
    next() {
      throw new TypeError('broken part')
    },
  })
  const reported: unknown[] = []
  const logger = { ...silent, error: (fields: object, text: string) => void reported.push({ ...fields, text }) }
  t.same(await effectsOf([broken, ...Object.values(parts), broken]), all)
  const bare = new BareSupervisor({ worker: () => 'fine' }, [broken], {}, logger)
  await bare.start()
  t.equal(await bare.ask('worker'), 'fine')
  t.match(reported, [{ error: 'TypeError: broken part', text: 'a part of the supervisor threw; the others go on' }])
})

t.test('what a part records while it is told of something is told after it, to all in the same order', async (t) => {
  const told: Record<string, string[]> = { first: [], second: [] }
  const listener =
    (name: string): Part =>
    ({ journal }) => ({
      next(batch) {
        for (const record of batch) {
          if (record.kind === 'decision') told[name]!.push(record.choice)
          if (record.kind === 'agent.ready')
            journal.record(bare.run, { kind: 'decision', question: 'who', choice: name, reason: '' })
        }
      },
    })
  const bare = new BareSupervisor({ worker: () => 'fine' }, [listener('first'), listener('second')])
  await bare.start()
  await bare.clock.advance(0)
  t.same(told, { first: ['first', 'second'], second: ['first', 'second'] })
})

t.test('when the supervisor closes, its parts are closed and told nothing more', async (t) => {
  const told: string[] = []
  const part: Part = () => ({ next: () => told.push('record'), close: () => told.push('close') })
  const bare = new BareSupervisor({ worker: () => 'fine' }, [part])
  bare.host.journal.record(bare.run, { kind: 'run.started', query: '' })
  bare.host.close()
  bare.host.journal.record(bare.run, { kind: 'run.started', query: '' })
  await bare.clock.advance(0)
  t.same(told, ['record', 'close'])
})

// Rule 14: who watches an agent is told exactly once when it is gone for good, also if it is gone already.

/** An agent that watches `mortal` when it is asked to, and keeps what it observes. */
function watcher(watch = (context: AgentContext): Promise<unknown> => context.watch('mortal')) {
  const heard: AgentMessage[] = []
  const agent = defineAgent({
    async receive({ content }, context) {
      if (content === 'watch') await watch(context)
      return 'done'
    },
    observe: (message) => void heard.push(message),
  })
  return { heard, agent }
}

const stopsAtOnce = { mortal: { supervision: { maxRestarts: 0 } } }
const supervision = { coolDownMs: 1_000 }
/** The script lives as long as the test wants. */
function lasting() {
  const { opened, open } = gate()
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.request('watcher', 'watch')
      await opened
      return 'done'
    },
  }
  return { orchestration, open }
}

t.test('rule 14: who watches is told once when the agent is gone for good, and not of a restart', async (t) => {
  const { heard, agent } = watcher()
  const { orchestration, open } = lasting()
  const roles = { mortal: { supervision: { maxRestarts: 1 } } }
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles, supervision })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [], 'it was started again')
  team.crash('mortal')
  await team.clock.advance(10)
  const reason = /It died 2 times/
  t.match(heard, [
    {
      type: 'report',
      sender: '$runtime',
      recipient: 'watcher',
      content: /^Agent "mortal" is gone for good: It died 2 times/,
      structuredData: { event: 'terminated', agent: 'mortal', reason },
      runId: run.id,
    },
  ])
  t.equal(run.messageHistory.filter(({ sender }) => sender === '$runtime').length, 1)
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('mortal'), 'idle')
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('mortal')
    await team.clock.advance(10)
  }
  t.equal(team.getAgentStatus('mortal'), 'failed')
  t.equal(heard.length, 1, 'it has ended again, and nobody watched again')
  open()
  await team.clock.advance(2_000)
  t.equal((await run.result).success, true)
})

t.test('rule 14: who watches an agent that is gone is told at once, once, and again of its next end', async (t) => {
  const { heard, agent } = watcher(async (context) => {
    await context.watch('mortal')
    await context.watch('mortal')
  })
  const { opened, open } = gate()
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.request('watcher', 'watch')
      await opened
      await script.request('watcher', 'watch')
      await script.sleep(10)
      return 'done'
    },
  }
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles: stopsAtOnce, supervision })
  await team.start()
  team.crash('mortal')
  await team.clock.advance(10)
  const run = team.launch('go')
  await team.clock.advance(10)
  t.match(heard, [{ structuredData: { event: 'terminated', agent: 'mortal' } }])
  t.equal(heard.length, 1)
  await team.clock.advance(1_000)
  open()
  await team.clock.advance(5)
  team.crash('mortal')
  await team.clock.advance(10)
  t.equal(heard.length, 2)
  t.equal((await run.result).success, true)
})

t.test('rule 14: a watch survives the restart of the watcher, and a redelivered turn watches once', async (t) => {
  const { heard, agent } = watcher(async (context) => {
    await context.watch('mortal')
    if (context.attempt > 1) return
    team.crash('watcher')
    await never
  })
  const { orchestration, open } = lasting()
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration, roles: stopsAtOnce, supervision })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.equal(heard.length, 1)
  open()
  t.equal((await run.result).success, true)
})

t.test('rule 14: the end comes into a full mailbox too', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const agent = defineAgent({
    async receive(_message, context) {
      await context.watch('mortal')
      await opened
    },
    observe: ({ content }) => void heard.push(content),
  })
  const roles = { ...stopsAtOnce, watcher: { communication: { mailboxCapacity: 1, overflow: 'reject' as const } } }
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { roles })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [])
  open()
  await run.result
  await team.clock.advance(10)
  t.equal(heard.length, 1)
})

t.test('rule 14: a watch ends with its run, and the end of the team is no end of an agent', async (t) => {
  const { heard, agent } = watcher()
  const team = openTeam(t, { watcher: agent, mortal: () => '' }, { roles: stopsAtOnce, supervision })
  t.equal(await ask(team, 'watcher', 'watch'), 'done')
  await team.clock.advance(10)
  team.crash('mortal')
  await team.clock.advance(10)
  t.same(heard, [])
  const { orchestration } = lasting()
  const other = openTeam(t, { watcher: agent, mortal: () => '' }, { orchestration })
  const run = other.launch('go')
  await other.clock.advance(10)
  const closed = other.close()
  await other.clock.runToIdle()
  await closed
  t.equal((await run.result).success, false)
  t.same(heard, [])
  t.notOk(other.deadLetters.list().some(({ message }) => message.type === 'report'))
})

t.test('rule 14: nobody can watch whom nobody knows, nor without an observe', async (t) => {
  const codes: (string | undefined)[] = []
  const caught = (error: DramatisError) => void codes.push(`${error.code}: ${error.message}`)
  const { agent } = watcher((context) => context.watch('mortel').catch(caught))
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: AgentContext) => {
      await script.request('watcher', 'watch')
      await script.watch('mortal').catch(caught)
      await script.subscribe('key').catch(caught)
      await script.request('mortal', 'watch')
      return 'done'
    },
  }
  const mortal = (_message: unknown, context: AgentContext) => context.watch('watcher').catch(caught)
  const team = openTeam(t, { watcher: agent, mortal }, { orchestration })
  t.equal((await team.execute('go')).success, true)
  t.match(codes, [
    /^UNKNOWN_AGENT: .*"mortel"; did you mean "mortal"\?/,
    /^CONFIGURATION: context\.watch: a protocol script has no observe/,
    /^CONFIGURATION: context\.subscribe: a protocol script has no observe/,
    /^CONFIGURATION: context\.watch: agent "mortal" has no observe.*Give its definition one/,
  ])
  const waits = outcomeOf(ask(team, 'watcher', 'watch'))
  await team.clock.advance(0)
  t.ok(waits.settled)
})
