/** Rules 1 to 3, 8 and 9: who lives again, when and with whom, and what becomes of who waits meanwhile. */
import fc from 'fast-check'
import type { Test } from 'tap'
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { AgentRole } from '../../src/index.ts'
import type { RestartTime } from '../../src/runtime/host/agent.ts'
import {
  groupOf,
  livesAgain,
  nextRestart,
  type RestartPolicy,
  restarts,
} from '../../src/runtime/supervision/restarts.ts'
import { AgentTerminatedError } from '../../src/shared/errors.ts'
import { seededRandom } from '../../src/shared/random.ts'
import { ahead, BareSupervisor } from '../kit/bare-supervisor.ts'
import { pluck } from '../kit/lists.ts'
import {
  ask,
  type Cast,
  gate,
  given,
  heard,
  never,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
} from '../kit/team.ts'

const answers: Receive = (message, context) => `${message.content} in attempt ${context.attempt}`

t.test('rule 1: one_for_one: a death restarts the agent that died and nobody else', async (t) => {
  const team = openTeam(t, { worker: answers, other: answers }, { supervision: { strategy: 'one_for_one' } })
  await team.start()
  await team.dies('worker')
  const { worker, other } = team.health().agents
  t.same([worker?.restarts, other?.restarts], [1, 0])
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

/** Ends the agent's life that often, and lets its restarts come meanwhile. */
async function crashTimes(team: ReturnType<typeof openTeam>, agent: string, times: number): Promise<void> {
  await team.start()
  for (let i = 0; i < times; i++) {
    team.crash(agent)
    await team.clock.advance(1_000)
  }
}

t.test('rule 2: more than 3 restarts in 60 s stop the agent, and its callers are told', async (t) => {
  const team = openTeam(t, { worker: answers, other: answers })
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
  const team = openTeam(t, { worker: answers })
  await team.start()
  for (let i = 0; i < 12; i++) {
    team.crash('worker')
    await team.clock.advance(20_001)
  }
  t.equal(team.health().agents.worker?.restarts, 12)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

t.test('rule 2: a stopped agent is tried again after its cool-down, with a clean record', async (t) => {
  const team = openTeam(t, { worker: answers }, { supervision: { coolDownMs: 5_000 } })
  await crashTimes(team, 'worker', 4)
  await team.clock.advance(3_999)
  t.equal(team.getAgentStatus('worker'), 'failed')
  await team.clock.advance(1)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
  await crashTimes(team, 'worker', 3)
  t.equal(await ask(team, 'worker'), 'go in attempt 1')
})

t.test('rule 2: the runs that need a stopped agent fail with its history, and no others', async (t) => {
  const team = given(t, {
    script: async (script, query) => {
      await script.sleep(5_000)
      return (await script.request(query, 'go')).content
    },
  }).team({ worker: () => never, other: answers })
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
  const team = openTeam(t, {
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
  const team = given(t, { supervision: { poisonAttempts: 1 } }).team({
    worker() {
      team.crash('worker')
      return never
    },
  })
  await crashTimes(team, 'worker', 3)
  await t.rejects(ask(team, 'worker', 'poison'), { code: 'AGENT_CRASHED' })
  await team.clock.advance(5_000)
  t.equal(team.getAgentStatus('worker'), 'idle')
  await team.dies('worker')
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
  t.match(bare.host.directory.agent('worker')!.stopped, { details: { deaths: 4 } })
})

t.test('rule 3: the first restart is immediate, later ones wait for their delay', async (t) => {
  const team = openTeam(t, { worker: answers })
  const delays = heard(team, 'agent.crashed', (event) => event.restartInMs)
  await team.start()
  await team.dies('worker')
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
  const team = openTeam(t, { worker: answers }, { roles: { worker: { supervision: { backoff } } } })
  await team.start()
  await team.dies('worker')
  team.crash('worker')
  await team.clock.advance(1_999)
  t.notOk(team.health().ready)
  await team.clock.advance(2_001)
  t.ok(team.health().ready)
})

t.test('rule 8: queued messages survive a death, in order', async (t) => {
  const handled: string[] = []
  const { opened, open } = gate()
  const team = openTeam(t, {
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
  const team = given(t, {
    communication: { queueTimeoutMs: 100 },
    supervision: { backoff: { baseMs: 9_000, capMs: 9_000 } },
  }).team({ worker: () => never })
  await crashTimes(team, 'worker', 1)
  await team.dies('worker')
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
  const team = given(t, {
    communication: { queueTimeoutMs: 10_000 },
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 4_000, capMs: 4_000 } },
  }).team({ worker: () => never })
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
  const team = openTeam(t, { worker: () => never }, { supervision: { maxRestarts: 0 } })
  for (const content of ['a', 'b', 'c']) await team.sendMessage({ recipient: 'worker', content })
  const asked = outcomeOf(ask(team, 'worker', 'd'))
  await team.clock.advance(0)
  await team.dies('worker')
  const letters = team.deadLetters.list()
  t.same(
    letters.map(({ message, reason }) => `${message.content} ${reason}`),
    ['a stopped', 'b stopped', 'c stopped', 'd stopped'],
  )
  t.ok(letters.every(({ errors }) => errors[0]?.message.includes('It died 1 times within 60000 ms (allowed: 0)')))
  t.match(asked.error, { code: 'AGENT_TERMINATED' })
})

t.test('rule 9: a caller whose callee restarts keeps waiting, and gets its answer', async (t) => {
  const team = openTeam(t, {
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
  const team = openTeam(t, { worker: () => never }, { unfinished: true, communication: { responseTimeoutMs: 1_000 } })
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
  const team = given(t, { communication: { responseTimeoutMs: 1_000 }, supervision: { backoff } }).team({
    worker: () => never,
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(0)
  await team.dies('worker')
  team.crash('worker')
  await team.clock.advance(999)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.match(asked.error, { code: 'REQUEST_TIMEOUT' })
  t.match(team.deadLetters.list(), [{ reason: 'cancelled' }])
})

t.test('rule 9: when the callee is gone for good its caller gets AGENT_TERMINATED at once', async (t) => {
  const team = openTeam(t, { worker: () => never }, { supervision: { maxRestarts: 1 } })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(0)
  await team.dies('worker')
  t.notOk(asked.settled)
  await team.dies('worker')
  t.match(asked.error, { code: 'AGENT_TERMINATED', details: { agent: 'worker' } })
})

// Rules 2 and 3 as the pure function that they are: when a dead agent lives again.

const policy: RestartPolicy = { maxRestarts: 3, withinMs: 60_000, backoff: { baseMs: 200, capMs: 10_000 } }
const most = () => 1
const least = () => 0

/** Lets an agent die at these times; the delays of its restarts, null where it is stopped. */
function delaysOf(
  times: readonly number[],
  { random = most, ...changes }: Partial<RestartPolicy & { random: () => number }> = {},
) {
  let history: readonly RestartTime[] = []
  return times.map((at, epoch) => {
    const next = nextRestart({ ...policy, ...changes }, history, at, epoch + 1, random)
    history = next.history
    return next.restart ? next.delayMs : null
  })
}

t.test('rule 2: three restarts within the window are granted, the fourth is not', async (t) => {
  t.same(
    delaysOf([0, 1, 2, 3]).map((delay) => delay !== null),
    [true, true, true, false],
  )
})

t.test('rule 2: the window slides, and a death at its very end no longer counts', async (t) => {
  const times = [0, 20_000, 40_000]
  t.equal(delaysOf([...times, 59_999]).at(-1), null)
  t.not(delaysOf([...times, 60_000]).at(-1), null)
})

t.test('rule 2: no restart at all with maxRestarts 0, any number with Infinity', async (t) => {
  t.same(delaysOf([0], { maxRestarts: 0 }), [null])
  const times = Array.from({ length: 100 }, (_, i) => i)
  t.notOk(delaysOf(times, { maxRestarts: Number.POSITIVE_INFINITY }).includes(null))
})

t.test('rule 2: the history is of the deaths in the window, each with its epoch', async (t) => {
  const history = [
    { at: 0, epoch: 1, delayMs: 0 },
    { at: 50_000, epoch: 2, delayMs: 0 },
  ]
  t.same(nextRestart(policy, history, 70_000, 3, most).history, [
    { at: 50_000, epoch: 2, delayMs: 0 },
    { at: 70_000, epoch: 3, delayMs: 0 },
  ])
})

t.test('rule 3: the first restart is immediate, then the delay doubles from base to cap', async (t) => {
  const maxRestarts = 10
  t.same(delaysOf([0, 1, 2, 3, 4, 5, 6, 7, 8], { maxRestarts }), [0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000])
})

t.test('rule 3: jitter takes up to half of the delay away and never exceeds the cap', async (t) => {
  const maxRestarts = 10
  t.same(delaysOf([0, 1, 2, 3], { maxRestarts, random: least }), [0, 100, 200, 400])
  t.same(delaysOf([0, 1, 2], { maxRestarts, backoff: { baseMs: 500, capMs: 300 } }), [0, 300, 300])
})

t.test('rule 3: the delay begins anew after (base + cap) / 2 of health, and not before', async (t) => {
  const health = (200 + 10_000) / 2
  t.same(delaysOf([0, health]), [0, 200])
  t.same(delaysOf([0, health + 1]), [0, 0])
})

t.test('rule 3: the time that it is kept down is no health: who dies at once every time reaches the cap', async (t) => {
  const patient = { ...policy, maxRestarts: Number.POSITIVE_INFINITY }
  const delays: number[] = []
  let history: readonly RestartTime[] = []
  for (let now = 0; delays.length < 12; now += 1 + delays.at(-1)!) {
    const next = nextRestart(patient, history, now, delays.length + 1, most)
    history = next.history
    delays.push(next.delayMs)
  }
  t.same(delays, [0, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000, 10_000, 10_000])
})

const policies = fc.record({
  maxRestarts: fc.integer({ min: 0, max: 6 }),
  withinMs: fc.integer({ min: 1, max: 100_000 }),
  backoff: fc.record({ baseMs: fc.integer({ min: 0, max: 5_000 }), capMs: fc.integer({ min: 0, max: 20_000 }) }),
})
const pauses = fc.array(fc.integer({ min: 0, max: 40_000 }), { minLength: 1, maxLength: 40 })
const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

/** The times after these pauses. */
const after = (gaps: readonly number[]) => gaps.map((_, i) => gaps.slice(0, i + 1).reduce((sum, gap) => sum + gap, 0))

t.test('rule 2: never are more than maxRestarts granted within any window', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const times = after(gaps)
      const granted = delaysOf(times, { ...changes, random: () => drawn }).map((delay) => delay !== null)
      return times.every((at, i) => {
        const inWindow = times.filter((other, j) => j <= i && granted[j] && at - other < changes.withinMs)
        return inWindow.length <= changes.maxRestarts
      })
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 2: a death is refused only when as many as maxRestarts came before it in the window', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const times = after(gaps)
      return delaysOf(times, { ...changes, random: () => drawn }).every((delay, i) => {
        const before = times.filter((other, j) => j < i && times[i]! - other < changes.withinMs).length
        return (delay === null) === before >= changes.maxRestarts
      })
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 3: every delay is 0, or within half of and the whole capped exponential', async (t) => {
  fc.assert(
    fc.property(policies, pauses, chance, (changes, gaps, drawn) => {
      const { baseMs, capMs } = changes.backoff
      const grown = Array.from({ length: 41 }, (_, n) => Math.min(capMs, baseMs * 2 ** n))
      const delays = delaysOf(after(gaps), { ...changes, maxRestarts: 100, random: () => drawn })
      return delays.every(
        (delay) =>
          delay === 0 || (delay !== null && delay <= capMs && grown.some((full) => full / 2 <= delay && delay <= full)),
      )
    }),
  )
  t.pass('for policies and deaths at random')
})

t.test('rule 1: who goes with one that died', async (t) => {
  const all = ['a', 'b', 'c']
  t.same(groupOf('one_for_one', all, 'b'), ['b'])
  t.same(groupOf('rest_for_one', all, 'b'), ['b', 'c'])
  t.same(groupOf('one_for_all', all, 'b'), ['a', 'b', 'c'])
})

t.test('rule 1: who is none of them goes alone', async (t) => {
  for (const strategy of ['one_for_one', 'rest_for_one', 'one_for_all'] as const)
    t.same(groupOf(strategy, ['a', 'b'], 'script'), ['script'])
})

t.test('rule 1: which kinds live again, after an end of their own and after a crash', async (t) => {
  const fates = (['permanent', 'transient', 'temporary'] as const).map((type) => [
    livesAgain(type, true),
    livesAgain(type, false),
  ])
  t.same(fates, [
    [true, true],
    [false, true],
    [false, false],
  ])
})

// Rule 1: what happens to agents meanwhile that are being ended, kept down or stopped together.

const saysHere: Receive = () => 'here'
const cast = { a: saysHere, b: saysHere, c: saysHere }
const transient: Omit<AgentRole, 'name'> = { supervision: { restart: 'transient' } }

/** Three agents, the last of which takes a second to end. */
async function slowToEnd(
  strategy: 'one_for_all' | 'rest_for_one',
  agents: Record<string, Receive> = cast,
  roles: Record<string, Omit<AgentRole, 'name'>> = {},
) {
  const bare = new BareSupervisor(agents, [restarts], { supervision: { strategy }, roles })
  await bare.start()
  bare.threads.get('c')!.ailments.add('stubborn')
  const [a, b, c] = ['a', 'b', 'c'].map((name) => bare.host.directory.agent(name)!)
  const ready: string[] = []
  bare.host.journal.records$.subscribe((batch) => {
    for (const record of batch) if (record.kind === 'agent.ready') ready.push(record.agent)
  })
  return { bare, clock: bare.clock, a: a!, b: b!, c: c!, ready }
}

t.test('rule 1: a restart of more agents takes over one that is under way', async (t) => {
  const { bare, clock, c, ready } = await slowToEnd('rest_for_one')
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.terminate()
  await clock.advance(999) // c is gone, and the second death in a row has a delay
  t.same(ready, [])
  await clock.advance(200)
  t.same(ready, ['a', 'b', 'c'])
  t.equal(c.restarts, 1)
})

t.test('rule 1: one stopped for good while others end has all of its grace, and does not come back', async (t) => {
  const tidiesUp: Receive = async (_message, { signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    await clock.sleep(2_000)
  }
  const { bare, clock, a, b, c } = await slowToEnd('one_for_all', { ...cast, a: tidiesUp })
  outcomeOf(bare.ask('a'))
  await clock.advance(1)
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  const ended = outcomeOf(bare.host.lifecycle.end(a, new AgentTerminatedError('enough', { agent: 'a' })))
  await clock.advance(1_500)
  t.notOk(ended.settled)
  await clock.advance(600)
  t.ok(ended.settled)
  t.same([a.epoch, b.epoch, c.epoch], [1, 2, 2])
  t.same([a.status, a.restarts], ['stopped', 0])
})

t.test('rule 1: a transient agent that ends by itself while others end comes back with them, as in OTP', async (t) => {
  const { bare, clock, a, b, c } = await slowToEnd('one_for_all', cast, { a: transient })
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.exit()
  await clock.advance(2_000)
  t.same([a.epoch, b.epoch, c.epoch], [2, 2, 2])
})

t.test('rule 1: a temporary agent that dies while others end, and is begun again by hand, is left alone', async (t) => {
  const { bare, clock, a, b, c } = await slowToEnd('one_for_all', cast, {
    a: { supervision: { restart: 'temporary' } },
  })
  bare.threads.get('b')!.terminate()
  await clock.advance(100)
  bare.threads.get('a')!.terminate()
  await clock.advance(100)
  t.equal(a.status, 'failed')
  await bare.host.lifecycle.revive(a)
  await clock.advance(2_000)
  t.same([a.epoch, b.epoch, c.epoch], [2, 2, 2])
  t.equal(a.status, 'idle')
})

function teamOf(t: Parameters<typeof openTeam>[0], agents: Cast, supervision: object, roles = {}) {
  const team = openTeam(t, agents, { supervision: { strategy: 'one_for_all', ...supervision }, roles })
  const epochs = () => ['a', 'b', 'c'].map((name) => team.agent(name).epoch)
  const statuses = () => ['a', 'b', 'c'].map((name) => team.getAgentStatus(name))
  return { team, clock: team.clock, epochs, statuses }
}

t.test('rule 1: one that is removed while it is kept down stays stopped', async (t) => {
  const { team, clock } = teamOf(t, { a: saysHere }, { strategy: 'one_for_one' })
  await team.start()
  const agent = team.agent('a')
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('a')
    await clock.advance(0)
  }
  t.equal(agent.status, 'restarting')
  await team.removeAgent('a')
  await clock.advance(1_000)
  t.same([agent.status, agent.epoch], ['stopped', 2])
})

t.test('rule 1: one that rests is out of reach until its turn comes, and may be begun by hand before', async (t) => {
  const { team, clock, epochs, statuses } = teamOf(t, cast, {}, { c: transient })
  await team.start()
  team.crash('a')
  await clock.advance(0)
  team.exit('c')
  await clock.advance(0)
  team.crash('a')
  await clock.advance(50)
  t.same(statuses(), ['restarting', 'restarting', 'stopped'])
  await t.rejects(ask(team, 'c'), { code: 'AGENT_TERMINATED', message: /It ended by itself/ })
  await team.restartAgent('c')
  t.same(epochs(), [2, 2, 3])
  await clock.advance(200)
  t.same(
    [epochs(), statuses()],
    [
      [3, 3, 3],
      ['idle', 'idle', 'idle'],
    ],
  )
})

t.test('rule 1: those stopped together, also one that rested, are tried again and live as before', async (t) => {
  const { team, clock, epochs, statuses } = teamOf(t, cast, { maxRestarts: 0, coolDownMs: 1_000 }, { c: transient })
  await team.start()
  team.exit('c')
  await clock.advance(0)
  let lives = 1
  for (const agent of ['a', 'c', 'b']) {
    team.crash(agent)
    await clock.advance(0)
    t.same(statuses(), agent === 'a' ? ['failed', 'failed', 'stopped'] : ['failed', 'failed', 'failed'])
    if (agent === 'a') await t.rejects(ask(team, 'c'), { message: /It ended by itself/ }, 'it has its own reason')
    await clock.advance(1_000)
    lives += 1
    t.same(epochs(), [lives, lives, lives])
  }
})

t.test('rule 1: one that was stopped before the others has no part in their end', async (t) => {
  let broken = false
  const c = defineAgent({
    start() {
      if (broken) throw new Error('no database')
    },
    receive: saysHere,
  })
  const { team, clock, statuses } = teamOf(t, { ...cast, c }, { maxRestarts: 1 })
  await team.start()
  broken = true
  team.crash('c')
  await clock.advance(0)
  t.same(statuses(), ['idle', 'idle', 'failed'])
  team.crash('a')
  await clock.advance(0)
  t.same(statuses(), ['failed', 'failed', 'failed'])
  broken = false
  await team.restartAgent('c')
  team.crash('c')
  await clock.advance(0)
  t.equal(team.getAgentStatus('c'), 'failed', 'its death is seen')
})

// Rule 1: who is ended and started again with an agent that died, in what order, and at whose charge.

type Same = Pick<typeof t, 'teardown' | 'same'>
type Strategy = 'one_for_one' | 'one_for_all' | 'rest_for_one'

const answering: Cast = { a: answers, b: answers, c: answers }

/** A started team with that strategy, and what its agents became, in order: `-name` is down, `+name` is ready. */
async function teamWith(
  t: Same,
  strategy: Strategy,
  agents: Cast = answering,
  supervision: object = {},
  roles: Record<string, Omit<AgentRole, 'name'>> = {},
) {
  const team = openTeam(t, agents, { supervision: { strategy, ...supervision }, roles })
  await team.start()
  await team.clock.advance(0)
  const story: string[] = []
  team.host.journal.records$.subscribe((batch) => {
    for (const record of batch) {
      if (record.kind === 'agent.status' && record.epoch > 0) {
        const mark = record.status === 'restarting' ? '-' : `${record.status} `
        if (story.at(-1) !== `${mark}${record.agent}`) story.push(`${mark}${record.agent}`)
      }
      if (record.kind === 'agent.ready') story.push(`+${record.agent}`)
    }
  })
  return { team, story }
}

const epochs = ({ host }: OpenTeam) => ['a', 'b', 'c'].map((name) => host.directory.agent(name)!.epoch)

for (const [strategy, expected, story] of [
  ['one_for_one', [1, 2, 1], ['-b', '+b']],
  ['rest_for_one', [1, 2, 2], ['-b', '-c', '+b', '+c']],
  ['one_for_all', [2, 2, 2], ['-b', '-c', '-a', '+a', '+b', '+c']],
] as const)
  t.test(`rule 1: ${strategy}: who goes with the second of three, last first, and comes back in order`, async (t) => {
    const { team, story: happened } = await teamWith(t, strategy)
    await team.dies('b')
    t.same(epochs(team), expected)
    t.same(
      happened.filter((what, at) => what !== happened[at - 2] || !what.startsWith('-')),
      story,
    )
    for (const agent of ['a', 'b', 'c']) t.equal(await ask(team, agent), 'go in attempt 1')
  })

/** b dies under one_for_all, and begins only when `open` has let a, the one before it, begin. */
async function beginsAfter(t: Same, a: Cast[string], open: () => void): Promise<void> {
  const { team, story } = await teamWith(t, 'one_for_all', { a, b: answers })
  team.crash('b')
  await team.clock.advance(1_000)
  t.same(story.includes('+b'), false)
  open()
  await team.clock.advance(0)
  t.same(story.slice(-2), ['+a', '+b'])
}

t.test('rule 1: an agent begins when the one before it is ready', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({ start: () => (++lives > 1 ? opened : undefined), receive: answers })
  await beginsAfter(t, slow, open)
})

t.test('rules 1 and 11: also when the one before it needs a second try', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({
    start() {
      if (++lives === 2) throw new Error('not yet')
      return lives > 2 ? opened : undefined
    },
    receive: answers,
  })
  await beginsAfter(t, slow, open)
})

t.test('rule 1: one that was about to begin when another died begins after it', async (t) => {
  const { team } = await teamWith(t, 'rest_for_one')
  const { provisioning } = team.host
  const codeOf = provisioning.codeOf.bind(provisioning)
  const code = gate()
  let asked = 0
  provisioning.codeOf = async (agent) => {
    if (agent.name === 'c' && ++asked === 1) await code.opened
    return codeOf(agent)
  }
  await team.dies('b') // b is ready, the code of c is not
  team.crash('a')
  await team.clock.advance(50)
  code.open()
  await team.clock.advance(0)
  t.equal(team.agent('c').incarnation === undefined, true)
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 3, 2])
})

t.test('rule 1: the death of the others is nobody’s fault: one restart in the window, one agent.crashed', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  const crashed = heard(team, 'agent.crashed', (event) => event.agent)
  for (const agent of ['a', 'b', 'c']) {
    team.crash(agent)
    await team.clock.advance(1_000)
  }
  t.same(crashed, ['a', 'b', 'c'])
  t.same(epochs(team), [4, 4, 4])
  const { a, b, c } = team.health().agents
  t.same([a?.restarts, b?.restarts, c?.restarts], [3, 3, 3])
})

t.test('rules 1 and 2: the restarts of all count together, and all are stopped and tried again together', async (t) => {
  const { team, story } = await teamWith(t, 'one_for_all', answering, { coolDownMs: 5_000 })
  for (const agent of ['a', 'b', 'c', 'a']) {
    team.crash(agent)
    await team.clock.advance(10_000)
    if (agent === 'c') story.length = 0
  }
  t.same(story, ['failed a', 'failed c', 'failed b', '-a', '+a', '-b', '+b', '-c', '+c'])
  t.equal(await ask(team, 'b'), 'go in attempt 1')
})

t.test('rules 1 and 2: who asks one of those that were stopped together is told why', async (t) => {
  const { team } = await teamWith(t, 'rest_for_one', answering, { maxRestarts: 0 })
  await team.dies('b')
  t.equal(await ask(team, 'a'), 'go in attempt 1')
  for (const agent of ['b', 'c'])
    await t.rejects(ask(team, agent), {
      code: 'AGENT_TERMINATED',
      message: /It and the agents that are restarted with it died 1 times within 60000 ms \(allowed: 0\)/,
    })
})

t.test('rules 1 and 7: turns of the others come again uncharged, and as often as need be', async (t) => {
  const { opened, open } = gate()
  const work: Receive = async (_message, { attempt }) => {
    await opened
    return `attempt ${attempt}`
  }
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: work },
    { maxRestarts: 9, poisonAttempts: 2, backoff: { baseMs: 1, capMs: 1 } },
  )
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  for (let i = 0; i < 5; i++) {
    team.crash('a')
    await team.clock.advance(100)
  }
  open()
  await team.clock.advance(0)
  t.equal(asked.value, 'attempt 6')
  t.same(team.deadLetters.list(), [])
})

t.test('rules 1 and 7: who dies has its own message charged, whoever else died with it', async (t) => {
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: () => new Promise(() => {}) },
    { maxRestarts: 9, poisonAttempts: 2, backoff: { baseMs: 1, capMs: 1 } },
  )
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(100)
  team.crash('b')
  await team.clock.advance(100)
  t.equal(asked.settled, false)
  team.crash('b')
  await team.clock.advance(100)
  t.match(asked.error, { code: 'AGENT_CRASHED', message: /died 2 times on this message/ })
})

t.test('rules 1 and 0: a turn that was cut off for others still has all its retries', async (t) => {
  const attempts: number[] = []
  const { opened, open } = gate()
  const fails: Receive = async (_message, { attempt }) => {
    attempts.push(attempt)
    if (attempt < 3) await opened
    throw new Error('no')
  }
  const { team } = await teamWith(
    t,
    'one_for_all',
    { a: answers, b: fails },
    { onHandlerError: 'retry', poisonAttempts: 2 },
  )
  const asked = outcomeOf(ask(team, 'b'))
  for (let i = 0; i < 2; i++) {
    await team.clock.advance(1_000)
    team.crash('a')
    await team.clock.advance(1_000)
  }
  open()
  await team.clock.advance(1_000)
  t.match(asked.error, { code: 'AGENT_FAILED' })
  t.same(attempts, [1, 2, 3, 4])
})

t.test('rules 1 and 5: what the others had committed is not run again', async (t) => {
  const handled: string[] = []
  const { team } = await teamWith(t, 'one_for_all', {
    a: answers,
    b({ content }) {
      handled.push(content)
      if (content === '2') team.crash('a')
    },
  })
  for (const content of ['1', '2', '3']) void team.sendMessage({ recipient: 'b', content })
  await team.clock.advance(1_000)
  t.same(handled, ['1', '2', '3'])
})

t.test('rules 1 and 6: an other that was within a step that may not run twice is not run again', async (t) => {
  let runs = 0
  const { team } = await teamWith(t, 'one_for_all', {
    a: answers,
    async b(_message, context) {
      await context.step('charge the card', () => {
        runs += 1
        return new Promise(() => {})
      })
    },
  })
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  team.crash('a')
  await team.clock.advance(1_000)
  t.match(asked.error, { code: 'OUTCOME_UNKNOWN' })
  t.equal(runs, 1)
})

t.test('rules 1 and 4: what one that goes with others had asked is not asked twice', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const { team } = await teamWith(t, 'rest_for_one', {
    oracle: async ({ content }) => {
      heard.push(content)
      await opened
      return '42'
    },
    a: answers,
    b: async (_message, context) => (await context.request('oracle', 'what is it?')).content,
  })
  const asked = outcomeOf(ask(team, 'b'))
  await team.clock.advance(0)
  await team.dies('a')
  open()
  await team.clock.advance(0)
  t.equal(asked.value, '42')
  t.same(heard, ['what is it?'])
})

t.test('rule 1: two that die at once are one restart of all', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  team.crash('a')
  await team.dies('c')
  t.same(epochs(team), [2, 2, 2])
  const times = team.host.directory.byIndex.flatMap(({ restartTimes }) => restartTimes)
  t.equal(times.length, 1)
})

t.test('rule 1: one that dies while others come back takes them with it again', async (t) => {
  const { opened, open } = gate()
  let lives = 0
  const slow = defineAgent({ start: () => (++lives === 2 ? opened : undefined), receive: answers })
  const { team } = await teamWith(t, 'rest_for_one', { a: answers, b: answers, c: slow })
  await team.dies('b') // b is ready, c is at its start hook
  team.crash('a')
  await team.clock.advance(200) // the second in a row waits
  t.same(epochs(team), [2, 3, 3])
  open()
  await team.clock.advance(1_000)
  for (const agent of ['a', 'b', 'c']) t.equal(await ask(team, agent), 'go in attempt 1')
  t.same(epochs(team), [2, 3, 3])
})

t.test('rules 1 and 3: all wait for the backoff together', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', answering, { backoff: { baseMs: 1_000, capMs: 1_000 } })
  await team.dies('a')
  team.crash('b')
  await team.clock.advance(499)
  t.same(epochs(team), [2, 2, 2])
  await team.clock.advance(501)
  t.same(epochs(team), [3, 3, 3])
})

t.test('rules 1 and 11: one that cannot start again is stopped, and those after it start', async (t) => {
  let lives = 0
  const once = defineAgent({
    start() {
      if (++lives > 1) throw new Error('no more')
    },
    receive: answers,
  })
  const { team } = await teamWith(t, 'one_for_all', { a: answers, b: once, c: answers })
  team.crash('a')
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('b'), 'failed')
  t.equal(await ask(team, 'c'), 'go in attempt 1')
  team.crash('a')
  await team.clock.advance(10_000)
  t.equal(team.getAgentStatus('b'), 'failed')
})

t.test('rules 1 and 12: a team closes while its agents are restarted together', async (t) => {
  const { team } = await teamWith(t, 'one_for_all')
  team.crash('a')
  await team.close()
  t.same(
    pluck(
      team.host.directory.byIndex.filter(({ incarnation }) => incarnation !== undefined),
      'name',
    ),
    [],
  )
})

// ---- child types

const role = (restart: 'permanent' | 'transient' | 'temporary') => ({ supervision: { restart } })

t.test('rule 1: a permanent agent lives again also after an end of its own', async (t) => {
  const { team } = await teamWith(t, 'one_for_one', answering, {}, { a: role('permanent') })
  team.exit('a')
  await team.clock.advance(0)
  t.equal(await ask(team, 'a'), 'go in attempt 1')
})

t.test('rule 1: a transient agent lives again after a crash, and not after an end of its own', async (t) => {
  const { team, story } = await teamWith(t, 'one_for_one', answering, {}, { a: role('transient') })
  await team.dies('a')
  t.equal(await ask(team, 'a'), 'go in attempt 1')
  story.length = 0
  team.exit('a')
  await team.clock.advance(1_000_000)
  t.same(story, ['stopped a'])
  await t.rejects(ask(team, 'a'), {
    code: 'AGENT_TERMINATED',
    message: /"a" is stopped: It ended by itself, with exit code 0; a 'transient' agent .* is not started again/,
  })
})

t.test('rules 1, 8 and 9: the messages of an agent that is not started again are dead letters', async (t) => {
  for (const [restart, end] of [
    ['transient', 'exit'],
    ['temporary', 'crash'],
    ['temporary', 'exit'],
  ] as const) {
    const { team } = await teamWith(t, 'one_for_one', { a: () => new Promise(() => {}) }, {}, { a: role(restart) })
    const asked = [1, 2, 3].map((n) => outcomeOf(ask(team, 'a', `message ${n}`)))
    await team.clock.advance(0)
    team[end]('a')
    await team.clock.advance(0)
    for (const { error } of asked) t.match(error, { code: 'AGENT_TERMINATED' })
    t.match(team.deadLetters.list(), [{ reason: 'stopped' }, { reason: 'stopped' }, { reason: 'stopped' }])
    t.equal(team.getAgentStatus('a'), end === 'exit' ? 'stopped' : 'failed')
  }
})

t.test('rule 1: a temporary agent is never started again, and its death restarts nobody', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', answering, {}, { b: role('temporary') })
  team.crash('b')
  await team.clock.advance(1_000_000)
  t.same(epochs(team), [1, 1, 1])
  await t.rejects(ask(team, 'b'), { code: 'AGENT_TERMINATED', message: /It died: .*; a 'temporary' agent/ })
})

t.test('rule 1: a temporary agent that is ended with others stays ended', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', answering, {}, { b: role('temporary') })
  team.crash('a')
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 1, 2])
  t.equal(team.getAgentStatus('b'), 'stopped')
})

t.test('rule 1: a transient agent that had ended lives again with its group, as in OTP', async (t) => {
  const { team } = await teamWith(t, 'one_for_all', answering, {}, { b: role('transient') })
  team.exit('b')
  await team.clock.advance(1_000)
  t.same(epochs(team), [1, 1, 1])
  team.crash('a')
  await team.clock.advance(1_000)
  t.same(epochs(team), [2, 2, 2])
  t.equal(await ask(team, 'b'), 'go in attempt 1')
})

// * Rules 2, 3, 8, 9 and 17 with the policy that holds where nobody has set one, under far more deaths than it
// allows: an agent dies at random while it is sent messages and asked.

const DEATHS = 500
const ALLOWED = 3
const WITHIN_MS = 60_000
const COOL_DOWN_MS = 60_000
const BASE_MS = 200
const CAP_MS = 10_000

interface Death {
  at: number
  /** null: it is stopped. */
  restartInMs: number | null
}

for (const pauseMs of [4_000, 60_000]) {
  t.test(`rules 2 and 3: the defaults hold over ${DEATHS} deaths up to ${pauseMs} ms apart`, async (t) => {
    const { deaths, revivals } = await play(t, pauseMs, 0)
    const restarts = deaths.filter(({ restartInMs }) => restartInMs !== null)
    const stops = deaths.filter(({ restartInMs }) => restartInMs === null)
    const inWindow = (at: number) => restarts.filter((other) => other.at <= at && at - other.at < WITHIN_MS).length
    t.equal(Math.max(...deaths.map(({ at }) => inWindow(at))), ALLOWED)
    t.same(
      stops.filter(({ at }) => inWindow(at) !== ALLOWED),
      [],
      'none is stopped that has died less often',
    )
    t.same(
      restarts.filter(({ restartInMs: delay }) => delay !== 0 && (delay! < BASE_MS / 2 || delay! > CAP_MS)),
      [],
    )
    t.ok(stops.length > 10 && restarts.length > DEATHS / 2, `${stops.length} stops, ${restarts.length} restarts`)
    t.same(
      revivals,
      stops.map(({ at }) => at + COOL_DOWN_MS),
    )
  })
}

t.test(`rules 8, 9 and 17: over ${DEATHS} deaths each message is handled once, in order, or dead`, async (t) => {
  const { sent, handled, dead, unsettled } = await play(t, 60_000, 1)
  t.same([...handled].sort(ascending), handled)
  t.same([...handled, ...dead].sort(ascending), [...Array(sent).keys()])
  t.ok(dead.length > 0 && handled.length > 0, `${handled.length} handled, ${dead.length} dead`)
  t.same(unsettled, [])
})

/** Neither taken or answered, nor refused because the agent is stopped. */
const isOdd = ({ settled, error }: ReturnType<typeof outcomeOf>) =>
  !settled || (error !== undefined && error.code !== 'AGENT_TERMINATED')
const ascending = (a: number, b: number) => a - b

/** Lets the worker die, up to `pauseMs` after it was seen alive, until it has died often enough. Each time it is sent so many messages, and asked as often. */
async function play(t: Test, pauseMs: number, messages: number) {
  const handled: number[] = []
  const team = openTeam(t, {
    worker({ content }) {
      handled.push(Number(content))
      return 'done'
    },
  })
  const deaths: Death[] = []
  const revivals: number[] = []
  const sends: ReturnType<typeof outcomeOf>[] = []
  const requests: ReturnType<typeof outcomeOf>[] = []
  let next = 0
  const random = seededRandom([pauseMs, 0, 0, 0])
  const { clock } = team
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') deaths.push({ at: clock.monotonic(), restartInMs: event.restartInMs })
    if (event.type === 'agent.status' && event.status === 'restarting' && deaths.at(-1)?.restartInMs === null)
      revivals.push(clock.monotonic())
  })
  await team.start()
  while (deaths.length < DEATHS) {
    for (let i = 0; i < messages; i++) {
      sends.push(outcomeOf(team.sendMessage({ recipient: 'worker', content: `${next++}` })))
      requests.push(outcomeOf(ask(team, 'worker', `${next++}`)))
    }
    if (random() < 0.5) team.crash('worker')
    await clock.advance(Math.ceil(random() * pauseMs))
    team.crash('worker')
    await clock.advance(0)
  }
  await clock.advance(2 * COOL_DOWN_MS)
  const dead = team.deadLetters.list().map(({ message }) => Number(message.content))
  return { deaths, revivals, handled, dead, sent: next, unsettled: [...sends, ...requests].filter(isOdd) }
}
