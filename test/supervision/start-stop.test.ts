/** Rules 11 and 12: how agents start and stop. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import type { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { type Scheduler, schedulerFrom, systemClock } from '../../src/shared/clock.ts'
import { ahead, BareSupervisor } from './bare-supervisor.ts'
import { ask, gate, localTeam, never, openTeam, outcomeOf, type Receive, silent } from './teams.ts'

const answers: Receive = (message, context) => `${message.content} in attempt ${context.attempt}`

t.test('rule 11: an agent that fails twice while it starts is a start failure, without a loop', async (t) => {
  let starts = 0
  const team = localTeam(t, {
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
  const team = localTeam(
    t,
    {
      worker: defineAgent({
        start() {
          throw new Error('no database')
        },
        receive: () => '',
      }),
      other: answers,
    },
    {
      orchestration: { strategy: 'custom', run: async (script, query) => (await script.request(query, 'go')).content },
    },
  )
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
          const { thread } = team.host.directory.cell('worker')!.life!
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
  const team = localTeam(t, {
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
  const team = localTeam(t, {
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
  const team = localTeam(t, { a: stops('a'), b: stops('b'), c: stops('c') })
  await team.start()
  await team.close()
  t.same(stopped, ['c', 'b', 'a'])
})

t.test('rule 12: a turn under way is told by its signal, and its caller gets the reason', async (t) => {
  const told: boolean[] = []
  const team = localTeam(t, {
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
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
        context.log.info({}, 'tidied up')
      },
    },
    { logger },
  )
  void team.execute('go')
  await team.clock.advance(0)
  await team.close()
  t.same(said, ['tidied up'])
})

t.test('rule 12: a turn that heeds its signal keeps its thread, and so does one that waits behind it', async (t) => {
  const team = localTeam(t, {
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
  const team = localTeam(t, { worker: defineAgent({ receive: () => '', stop: () => never }) })
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
  const team = openTeam(
    t,
    { worker },
    {
      orchestration: {
        strategy: 'custom',
        async run(script) {
          for (let i = 0; i < 50; i++) await script.request('worker', 'quick') // then more than one is handed over
          begun.length = 0
          const asked = ['first', 'second'].map((content) => script.request('worker', content))
          return (await Promise.allSettled(asked)).map((each) => each.status === 'rejected' && each.reason.code).join()
        },
      },
    },
  )
  const run = team.launch('go')
  await team.clock.advance(1)
  t.equal(team.host.directory.cell('worker')?.mailbox.handed.size, 2)
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
  const ended = outcomeOf(bare.host.lifecycle.end(bare.host.directory.cell('worker')!))
  await bare.clock.advance(1)
  t.notOk(ended.settled)
  bare.threads.get('worker')!.terminate()
  await bare.clock.advance(1)
  t.ok(ended.settled)
  t.equal(asked.error?.code, 'AGENT_TERMINATED')
  t.equal(bare.host.directory.cell('worker')!.restarts, 0)
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
  const team = openTeam(
    t,
    { worker: defineAgent({ receive: () => '', stop: () => never }) },
    { supervision: { stopGraceMs: 1 } },
  )
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
    outcomeOf(bare.host.lifecycle.end(bare.host.directory.cell(name)!)),
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
  const team = localTeam(t, { worker: answers })
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
