/** Rules 1 to 3, 8 and 9: who lives again, when, and what becomes of who waits meanwhile. */
import t from 'tap'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { ahead, BareSupervisor } from './bare-supervisor.ts'
import { ask, gate, localTeam, never, outcomeOf, type Receive } from './teams.ts'

const answers: Receive = (message, context) => `${message.content} in attempt ${context.attempt}`

t.test('rule 1: one_for_one: a death restarts the agent that died and nobody else', async (t) => {
  const team = localTeam(t, { worker: answers, other: answers }, { supervision: { strategy: 'one_for_one' } })
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  const { worker, other } = team.health().agents
  t.same([worker?.restarts, other?.restarts], [1, 0])
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

/** Ends the agent's life that often, and lets its restarts come meanwhile. */
async function crashTimes(team: ReturnType<typeof localTeam>, agent: string, times: number): Promise<void> {
  await team.start()
  for (let i = 0; i < times; i++) {
    team.crash(agent)
    await team.clock.advance(1_000)
  }
}

t.test('rule 2: more than 3 restarts in 60 s stop the agent, and its callers are told', async (t) => {
  const team = localTeam(t, { worker: answers, other: answers })
  await crashTimes(team, 'worker', 4)
  t.equal(team.getAgentStatus('worker'), 'failed')
  await t.rejects(ask(team, 'worker'), {
    code: 'AGENT_TERMINATED',
    message: /"worker" is stopped: It died 4 times within 60000 ms \(allowed: 3\) and is tried again after 60000 ms/,
  })
  t.match(team.deadLetters.list(), [{ reason: 'stopped', message: { recipient: 'worker' } }])
  t.equal(await ask(team, 'other'), 'go in attempt 1')
})

t.test('rule 2: restarts further apart than the window go on for ever', async (t) => {
  const team = localTeam(t, { worker: answers })
  await team.start()
  for (let i = 0; i < 12; i++) {
    team.crash('worker')
    await team.clock.advance(20_001)
  }
  t.equal(team.health().agents.worker?.restarts, 12)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

t.test('rule 2: a stopped agent is tried again after its cool-down, with a clean record', async (t) => {
  const team = localTeam(t, { worker: answers }, { supervision: { coolDownMs: 5_000 } })
  await crashTimes(team, 'worker', 4)
  await team.clock.advance(3_999)
  t.equal(team.getAgentStatus('worker'), 'failed')
  await team.clock.advance(1)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
  await crashTimes(team, 'worker', 3)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

t.test('rule 2: the runs that need a stopped agent fail with its history, and no others', async (t) => {
  const team = localTeam(
    t,
    { worker: () => never, other: answers },
    {
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => {
          await script.sleep(5_000)
          return (await script.request(query, 'go')).content
        },
      },
    },
  )
  const needs = team.execute('worker')
  const needsNot = team.execute('other')
  await crashTimes(team, 'worker', 4)
  await team.clock.advance(5_000)
  const failed = await needs
  t.notOk(failed.success)
  t.match(failed.error, { code: 'AGENT_TERMINATED', message: /It died 4 times within 60000 ms/ })
  t.equal((await needsNot).finalOutput, 'go in attempt 1')
})

t.test('rule 2: restarts that were caused by poison leave the window', async (t) => {
  const team = localTeam(t, {
    worker(message) {
      if (message.content !== 'poison') return 'fine'
      team.crash('worker')
      return never
    },
  })
  for (let i = 0; i < 6; i++) {
    const poisoned = t.rejects(ask(team, 'worker', 'poison'), { code: 'AGENT_CRASHED' })
    await team.clock.advance(2_000)
    await poisoned
  }
  t.equal(team.health().agents.worker?.restarts, 18)
  t.equal(await ask(team, 'worker', 'good'), 'fine')
})

t.test('rule 2: poison takes its own restarts out of the window, and no others', async (t) => {
  const team = localTeam(
    t,
    {
      worker() {
        team.crash('worker')
        return never
      },
    },
    { supervision: { poisonAttempts: 1 } },
  )
  await crashTimes(team, 'worker', 3)
  await t.rejects(ask(team, 'worker', 'poison'), { code: 'AGENT_CRASHED' })
  await team.clock.advance(5_000)
  t.equal(team.getAgentStatus('worker'), 'idle')
  team.crash('worker')
  await team.clock.advance(0)
  t.equal(team.getAgentStatus('worker'), 'failed')
})

t.test('rule 2: the window is one of monotonic time: a wall clock that is set changes nothing', async (t) => {
  let set = 0
  const bare = new BareSupervisor({ worker: answers }, [restarts], {
    watch: (clock) =>
      ahead(
        clock,
        () => set,
        () => 0,
      ),
  })
  await bare.start()
  for (let i = 0; i < 4; i++) {
    bare.threads.get('worker')!.terminate()
    await bare.clock.advance(1_000)
    set += 3_600_000
  }
  t.match(bare.host.directory.cell('worker')!.stopped, { details: { deaths: 4 } })
})

t.test('rule 3: the first restart is immediate, later ones wait for their delay', async (t) => {
  const team = localTeam(t, { worker: answers })
  const delays: (number | null)[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') delays.push(event.restartInMs)
  })
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  t.ok(team.health().ready)
  team.crash('worker')
  await team.clock.advance(99)
  t.notOk(team.health().ready)
  t.equal(team.getAgentStatus('worker'), 'restarting')
  await team.clock.advance(101)
  t.ok(team.health().ready)
  t.equal(delays[0], 0)
  t.ok(delays[1]! >= 100 && delays[1]! <= 200)
})

t.test('rule 3: base and cap of the delay can be set, for one agent too', async (t) => {
  const backoff = { baseMs: 4_000, capMs: 4_000 }
  const team = localTeam(t, { worker: answers }, { roles: { worker: { supervision: { backoff } } } })
  await team.start()
  team.crash('worker')
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(1_999)
  t.notOk(team.health().ready)
  await team.clock.advance(2_001)
  t.ok(team.health().ready)
})

t.test('rule 8: queued messages survive a death, in order', async (t) => {
  const handled: string[] = []
  const { opened, open } = gate()
  const team = localTeam(t, {
    async worker(message, context) {
      if (message.content === 'a' && context.attempt === 1) await opened
      handled.push(message.content)
    },
  })
  for (const content of ['a', 'b', 'c', 'd']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(0)
  team.crash('worker')
  open()
  await team.clock.advance(0)
  t.same(handled.slice(-4), ['a', 'b', 'c', 'd'])
})

t.test('rule 8: queued messages expire by their own deadline, also while the agent is kept down', async (t) => {
  const team = localTeam(
    t,
    { worker: () => never },
    { communication: { queueTimeoutMs: 100 }, supervision: { backoff: { baseMs: 9_000, capMs: 9_000 } } },
  )
  await crashTimes(team, 'worker', 1)
  team.crash('worker')
  await team.clock.advance(0)
  for (const content of ['a', 'b']) {
    await team.sendMessage({ recipient: 'worker', content })
    await team.clock.advance(50)
  }
  t.same(
    team.deadLetters.list().map(({ message, reason }) => `${message.content} ${reason}`),
    ['a expired'],
  )
  await team.clock.advance(50)
  t.same(
    team.deadLetters.list().map(({ message, reason }) => `${message.content} ${reason}`),
    ['a expired', 'b expired'],
  )
})

t.test('rule 8: a message that was handed over and never begun keeps its deadline over deaths', async (t) => {
  const team = localTeam(
    t,
    { worker: () => never },
    {
      communication: { queueTimeoutMs: 10_000 },
      supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 4_000, capMs: 4_000 } },
    },
  )
  await team.start()
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === 'worker' && event.status === 'idle') team.crash('worker')
  })
  team.crash('worker')
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(9_999)
  t.same(team.deadLetters.list(), [])
  await team.clock.advance(1)
  t.match(team.deadLetters.list(), [{ reason: 'expired', message: { content: 'note' } }])
})

t.test('rule 8: a permanent stop turns queued messages into dead letters, with its reason', async (t) => {
  const team = localTeam(t, { worker: () => never }, { supervision: { maxRestarts: 0 } })
  for (const content of ['a', 'b', 'c']) await team.sendMessage({ recipient: 'worker', content })
  const asked = outcomeOf(ask(team, 'worker', 'd'))
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(0)
  const letters = team.deadLetters.list()
  t.same(
    letters.map(({ message, reason }) => `${message.content} ${reason}`),
    ['a stopped', 'b stopped', 'c stopped', 'd stopped'],
  )
  t.ok(letters.every(({ errors }) => errors[0]?.message.includes('It died 1 times within 60000 ms (allowed: 0)')))
  t.match(asked.error, { code: 'AGENT_TERMINATED' })
})

t.test('rule 9: a caller whose callee restarts keeps waiting, and gets its answer', async (t) => {
  const team = localTeam(t, {
    async worker(_message, context) {
      if (context.attempt === 1) return never
      return 'second attempt'
    },
  })
  const asked = ask(team, 'worker')
  await team.clock.advance(100)
  team.crash('worker')
  t.equal(await asked, 'second attempt')
})

t.test('rule 9: it waits under its original deadline, however often the callee restarts', async (t) => {
  const team = localTeam(t, { worker: () => never }, { communication: { responseTimeoutMs: 1_000 } })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(600)
  team.crash('worker')
  await team.clock.advance(399)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.match(asked.error, { code: 'REQUEST_TIMEOUT', details: { waitedMs: 1_000, restarts: 1 } })
})

t.test('rule 9: the deadline holds also while the callee is kept down', async (t) => {
  const backoff = { baseMs: 9_000, capMs: 9_000 }
  const team = localTeam(
    t,
    { worker: () => never },
    { communication: { responseTimeoutMs: 1_000 }, supervision: { backoff } },
  )
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(999)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.match(asked.error, { code: 'REQUEST_TIMEOUT' })
  t.match(team.deadLetters.list(), [{ reason: 'cancelled' }])
})

t.test('rule 9: when the callee is gone for good its caller gets AGENT_TERMINATED at once', async (t) => {
  const team = localTeam(t, { worker: () => never }, { supervision: { maxRestarts: 1 } })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(0)
  team.crash('worker')
  await team.clock.advance(0)
  t.notOk(asked.settled)
  team.crash('worker')
  await team.clock.advance(0)
  t.match(asked.error, { code: 'AGENT_TERMINATED', details: { agent: 'worker' } })
})
