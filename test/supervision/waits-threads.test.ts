/** Waits on real threads, what counts as work there, and agents that share a thread. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type AgentRole, createTeam, type MultiAgentPatternOptions, type OrchestratorContext } from '../../src/index.ts'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ChaosTeam } from '../fixtures/chaos-team.ts'
import { endShared, shareThreads } from '../fixtures/share-threads.ts'
import type { Act } from '../fixtures/supervision/works-and-waits.ts'
import { howMany } from '../how-many.ts'
import { where } from '../kit/lists.ts'
import { ask, gate, heard, numbers, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { watchThreads } from '../toolbox/desk.ts'
import { AtWork } from './at-work.ts'
import { watched } from './verdicts.ts'

const module = new URL('../fixtures/supervision/works-and-waits.js', import.meta.url)
const NAMES = ['ann', 'bob', 'cleo', 'dan']
const ROLES: Omit<AgentRole, 'name'>[] = [
  { reentrancy: 'chain' },
  { reentrancy: 'chain', concurrency: 3 },
  { instances: 2, priority: 1 },
  {},
]
const RUNS = howMany(2, 60)

/** Each asks those after it, and now and then one before it, which takes that within the turn that waits. */
function actsOf(dice: Dice, self: number, depth: number): Act[] {
  return Array.from({ length: 1 + dice.upTo(4) }, (): Act => {
    const later = NAMES.slice(self + 1)
    if (depth === 0 || later.length === 0 || dice.chance(0.15)) return { do: 'sleep', ms: dice.upTo(3) }
    if (self > 0 && dice.chance(0.2))
      return { do: 'request', to: NAMES[dice.upTo(Math.min(self, 2))]!, acts: [], own: 30 }
    const to = dice.upTo(later.length)
    const acts = actsOf(dice, self + 1 + to, depth - 1)
    const own = dice.chance(0.4) ? { own: 1 + dice.upTo(6) } : {}
    if (dice.chance(0.2)) return { do: 'send', to: later[to]!, acts }
    if (dice.chance(0.4)) return { do: dice.pick(['requestAny', 'requestAll'] as const), to: later, acts: [], ...own }
    const limit = dice.chance(0.3) ? { timeoutMs: 1 + dice.upTo(6) } : {}
    return { do: 'request', to: later[to]!, acts, ...own, ...limit, beside: dice.chance(0.3) }
  })
}

for (const limit of [1, 2])
  t.test(`rule 19: of one run at most ${limit} of the turns are at work, whatever ends their waits`, async (t) => {
    const atWork = new AtWork()
    atWork.share()
    const team = createTeam({
      agents: NAMES.map((name, i) => ({ ...ROLES[i], name, module })),
      maxConcurrentAgents: limit,
      threads: { warmSpares: 0 },
      logger: silent,
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const acts = JSON.parse(query) as Act[][]
          const asked = acts.map((each) => script.request('ann', JSON.stringify(each), { timeoutMs: 30_000 }))
          return `${(await Promise.allSettled(asked)).length}`
        },
      },
    })
    t.teardown(() => team.close())
    const dice = new Dice(limit)
    const play = async (run: number) => {
      const acts = Array.from({ length: 4 }, () => actsOf(dice, 0, 3))
      const { success, error } = await team.execute(JSON.stringify(acts), { runId: `run${run}` })
      t.ok(success, error?.message ?? `run${run}`)
    }
    for (let run = 0; run < RUNS; run += 2) await Promise.all([play(run), play(run + 1)])
    for (let run = 0; run < RUNS; run++) t.ok(atWork.mostOf(run) <= limit, `${atWork.mostOf(run)} of run${run}`)
  })

// Rules 19 and 24 on real threads: what a turn has open tells whether it works or waits.

const asksAsTold = new URL('../fixtures/supervision/asks-as-told.js', import.meta.url)
type Tearing = Pick<typeof t, 'teardown'>

function teamOf(t: Tearing, agents: Record<string, object>, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: Object.entries(agents).map(([name, data]) => ({ name, module: asksAsTold, data })),
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        if (query === 'hello') await script.requestAll(['ann', 'bob'], query)
        return (await script.request('ann', query)).content
      },
    },
    threads: { warmSpares: 0 },
    globalTimeoutMs: 60_000,
    logger: silent,
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

t.test('rule 24: two turns that ask each other within a step are a deadlock', async (t) => {
  const how = 'in a step'
  const team = teamOf(t, { ann: { asks: 'bob', how }, bob: { asks: 'ann', how } })
  const { error } = await team.execute('go')
  t.match(error, { code: 'AGENT_FAILED', message: /deadlock/i })
})

t.test('rule 24: what an earlier turn has opened, and left open, is no work of a later one', async (t) => {
  const habits = { how: 'plainly', keeps: true }
  const team = teamOf(t, { ann: { asks: 'bob', ...habits }, bob: { asks: 'ann', ...habits } })
  t.equal((await team.execute('hello')).finalOutput, 'yes')
  const { error } = await team.execute('go')
  t.match(error, { code: 'AGENT_FAILED', message: /deadlock/i })
})

for (const how of ['in a step', 'before the step that waits'])
  t.test(`rule 19: a turn that asks ${how} gives its permit up`, async (t) => {
    const team = teamOf(t, { ann: { asks: 'bob', how }, bob: { asks: null, how } }, { maxConcurrentAgents: 1 })
    t.match(await team.execute('go'), { success: true, finalOutput: 'yes' })
  })

// Rule 24 on real threads: what a turn has opened itself is work, by whatever means; what another one left open is
// none.

const worksBeside = new URL('../fixtures/supervision/works-beside.js', import.meta.url)

/** So many at once: each agent has a thread. */
const WORKS = [
  ['a timer', 'an unrefed timer', 'AbortSignal.timeout', 'timers/promises', 'a setImmediate loop'],
  ['Atomics.waitAsync', 'crypto.subtle', 'zlib', 'a zlib stream', 'fetch'],
  ['pbkdf2', 'scrypt', 'generateKeyPair again and again', 'fs/promises again and again', 'a child process'],
]
const LEFT = [
  'nothing',
  'an interval',
  'a timer that sets the next',
  'a loop that passes time',
  'a loop of setImmediate',
  'a server',
  'a connection',
]

/** Answers after as many ms as it is asked for. */
async function slowServer(t: Test): Promise<string> {
  const server = createServer(({ url }, response) => {
    setTimeout(() => response.end('here'), Number(new URL(url ?? '', 'http://here').searchParams.get('ms')))
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

interface Habits {
  work?: string
  leaves?: string
}

/**
 * Agents of which each asks itself. What each says came of it, and how often it was said to be in a deadlock. `inOne`: the
 * second message waits in its mailbox when the first one's turn ends.
 */
async function askThemselves(t: Test, habits: readonly Habits[], { inOne = false } = {}) {
  const url = await slowServer(t)
  const names = habits.map((_, i) => `agent-${i}`)
  const team = createTeam({
    agents: names.map((name, i) => ({ name, module: worksBeside, data: { url, ...habits[i] } })),
    maxConcurrentAgents: names.length,
    orchestration: {
      strategy: 'custom',
      async run(script) {
        await script.requestAll(names, 'hello')
        if (inOne) for (let i = 0; i < 32; i++) await script.requestAll(names, 'hello') // such short turns get several at a time
        if (inOne) void script.requestAll(names, 'hello')
        const said = await script.requestAll(names, 'go')
        return said.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(', ')
      },
    },
    supervision: { confirmMs: 20 }, // so that what takes long need not take longer
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  const told = names.map(
    (name) => found.filter((event) => event.type === 'deadlock' && event.cycle.includes(name)).length,
  )
  return { said: finalOutput?.split(', '), told }
}

for (const works of WORKS)
  t.test(`a turn that would end its wait by ${works.join(', or by ')} is not in a deadlock`, async (t) => {
    const { said, told } = await askThemselves(
      t,
      works.map((work) => ({ work })),
    )
    t.same(
      told,
      works.map(() => 0),
    )
    t.same(
      said,
      works.map(() => 'I go without'),
    )
  })

t.test(`who has left ${LEFT.join(', or ')} open in an earlier turn is found in a deadlock`, async (t) => {
  const { said, told } = await askThemselves(
    t,
    LEFT.map((leaves) => ({ leaves })),
  )
  t.same(
    said,
    LEFT.map(() => 'DEADLOCK'),
  )
  t.same(
    told,
    LEFT.map(() => 2),
    'named, and broken',
  )
})

t.test('who has left a connection or a loop of timers open in an earlier turn, and fetches, is in none', async (t) => {
  const { said, told } = await askThemselves(
    t,
    ['a loop that passes time', 'a connection'].map((leaves) => ({ leaves, work: 'fetch' })),
  )
  t.same(told, [0, 0])
  t.same(said, ['I go without', 'I go without'])
})

t.test(
  'who does something beside in a turn that begins where a timer of the one before ended is in none',
  async (t) => {
    const { said, told } = await askThemselves(
      t,
      ['a timer', 'a setImmediate loop', 'fetch'].map((work) => ({ leaves: 'nothing, a while later', work })),
      { inOne: true },
    )
    t.same(told, [0, 0, 0])
    t.same(said, ['I go without', 'I go without', 'I go without'])
  },
)

// Rules 23 and 24 on real threads: only they know whether a turn has something else to do than to wait.

const asksBefore = new URL('../fixtures/supervision/asks-before-it-answers.js', import.meta.url)

interface Asking {
  worksMs?: number
  ticks?: boolean
}

/** Each asks the other, in its own thread. What came of it, and what was said on the way. */
async function bargain(t: { teardown(end: () => Promise<void>): void }, ann: Asking, bob: Asking) {
  const team = createTeam({
    agents: [
      { name: 'ann', module: asksBefore, data: { asks: 'bob', ...ann } },
      { name: 'bob', module: asksBefore, data: { asks: 'ann', ...bob } },
    ],
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => (await script.request('ann', query)).content,
    },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  return { finalOutput, found }
}

t.test('a cycle is named, and broken when it has stood', async (t) => {
  const { finalOutput, found } = await bargain(t, {}, {})
  t.equal(finalOutput, 'DEADLOCK')
  t.match(found, [
    { type: 'deadlock', cycle: ['ann', 'bob'], tail: ['$orchestrator'], victim: null },
    { type: 'deadlock', cycle: ['ann', 'bob'], victim: /ann|bob/ },
  ])
})

t.test('a turn with a timer of its own beside its wait is not stuck', async (t) => {
  const { finalOutput, found } = await bargain(t, { worksMs: 400 }, {})
  t.equal(finalOutput, 'I go without')
  t.same(found, [])
})

t.test('what an agent has open all its life is no work', async (t) => {
  const { finalOutput } = await bargain(t, { ticks: true }, { ticks: true })
  t.equal(finalOutput, 'DEADLOCK')
})

// Rule 31 on real threads: who has arrived stays so while its thread is replaced.

const meets = new URL('../fixtures/supervision/meets.js', import.meta.url)

function start(
  t: { teardown(end: () => Promise<void>): void },
  names: string[],
  run: (script: OrchestratorContext) => Promise<string>,
) {
  const team = createTeam({
    agents: names.map((name) => ({ name, module: meets })),
    orchestration: { strategy: 'custom', run },
    syncPoints: [{ name: 'meet', requiredAgents: names, timeoutMs: 60_000 }],
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

t.test('rule 31: a thread that dies while it waits leaves its arrival behind', async (t) => {
  const died = gate()
  const team = start(t, ['ann', 'bob'], async (script) => {
    const ann = script.request('ann', 'die')
    await died.opened
    const bob = await script.request('bob', 'go')
    const { generation } = await script.synced('meet')
    return `${(await ann).content}; ${bob.content}; ${generation}`
  })
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') died.open()
  })
  const { finalOutput, orchestrationTrace } = await team.execute('go')
  t.equal(finalOutput, 'ann: 1 ann,bob ann,bob in 2; bob: 1 ann,bob ann,bob in 1; 1')
  t.equal(orchestrationTrace.events.filter(({ eventType }) => eventType === 'sync').length, 1)
})

t.test('rule 31: six threads meet twenty times', async (t) => {
  const names = numbers(6).map((n) => `agent${n}`)
  const team = start(t, names, async (script) => {
    const generations: number[] = []
    for (let round = 0; round < 20; round++) {
      await script.requestAll(names, 'go')
      const { generation, missing } = await script.synced('meet')
      if (missing.length === 0) generations.push(generation)
    }
    return generations.join()
  })
  const { finalOutput } = await team.execute('go')
  t.equal(
    finalOutput,
    numbers(20)
      .map((n) => Number(n) + 1)
      .join(),
  )
})

// Agents that share a thread: what one does to the others when it throws outside of its turn or blocks, and what
// becomes of their messages and restarts when the thread ends.

const fixture = (name: string) => new URL(`../fixtures/supervision/${name}.js`, import.meta.url)

function sharedTeam(t: Test, options: Partial<MultiAgentPatternOptions> & Pick<MultiAgentPatternOptions, 'agents'>) {
  const team = new ChaosTeam({
    logger: silent,
    orchestration: { strategy: 'custom', run: async () => 'done' },
    ...options,
    threads: { warmSpares: 0, ...options.threads },
  })
  t.teardown(() => team.close())
  const crashes = heard(team, 'agent.crashed', (event) => event)
  return Object.assign(team, {
    crashes,
    threadOf: (name: string) => team.host.directory.agent(name)?.incarnation?.thread,
  })
}

/** Agents of code on one thread; of each the module's name. */
function sharing(t: Test, modules: Record<string, string>, role: Omit<AgentRole, 'name'> = {}) {
  const agents = Object.entries(modules).map(([name, module]) => ({ ...role, name, module: fixture(module) }))
  const team = sharedTeam(t, { agents })
  shareThreads(team.host)
  return team
}

/** Model agents on one thread. */
function speakers(
  t: Test,
  names: readonly string[],
  options: Partial<MultiAgentPatternOptions> = {},
  model?: FakeModel,
) {
  return sharedTeam(t, {
    agents: names.map((name) => ({ name, systemPrompt: `You are ${name}.`, isolation: 'shared' as const })),
    models: { default: { client: model ?? new FakeModel(() => 'yes'), maxConcurrent: 400 } },
    ...options,
  })
}

t.test('200 model agents answer from one thread, which ends with the team', async (t) => {
  const alive = watchThreads(t)
  const names = numbers(200).map((number) => `speaker${number}`)
  const team = speakers(t, names)
  await team.start()
  t.equal(alive.size, 1)
  t.match(team.metrics('prometheus'), /^dramatis_threads\{use="agent"\} 1$/m)
  const answers = await Promise.all(names.map((name) => ask(team, name)))
  t.same(new Set(answers), new Set(['yes']))
  await team.close()
  t.equal(alive.size, 0)
})

t.test('an agent that is ended leaves its thread to the others', async (t) => {
  const alive = watchThreads(t)
  const team = speakers(t, ['ann', 'bob'])
  await team.start()
  const { epoch } = team.host.directory.agent('bob')!
  t.ok(team.terminate('ann'))
  t.equal(await ask(team, 'ann'), 'yes')
  t.equal(await ask(team, 'bob'), 'yes')
  t.match(team.crashes, [{ agent: 'ann', epoch: 1, restartInMs: 0 }])
  t.equal(team.host.directory.agent('bob')!.epoch, epoch)
  t.equal(alive.size, 1)
  await team.removeAgent('ann')
  t.equal(await ask(team, 'bob'), 'yes')
})

t.test(
  'the last agents that leave end their thread, and are gone when it is; who comes next has another',
  async (t) => {
    for (const together of [false, true]) {
      const alive = watchThreads(t)
      const team = speakers(t, ['ann', 'bob'])
      await team.start()
      const [thread] = alive
      const ann = team.removeAgent('ann')
      if (!together) {
        await ann
        t.equal(alive.size, 1, 'it has an agent still')
      }
      await Promise.all([ann, team.removeAgent('bob')])
      t.equal(alive.size, 0)
      await team.addAgent({ name: 'cat', isolation: 'shared' })
      t.equal(await ask(team, 'cat'), 'yes')
      t.equal(alive.size, 1)
      t.notOk(alive.has(thread!))
    }
  },
)

t.test('a thread that ends takes all along: turns and messages go on, and nobody is charged', async (t) => {
  const answers = gate()
  const model = new FakeModel(async () => {
    await answers.opened
    return 'yes'
  })
  const names = numbers(20).map((number) => `speaker${number}`)
  const team = speakers(t, names, { supervision: { maxRestarts: 0, poisonAttempts: 1 } }, model)
  await team.start()
  const asked = names.map((name) => ask(team, name))
  while (model.requests.length < names.length) await turn()
  endShared(team.threadOf('speaker0'))
  while (team.crashes.length < names.length) await turn()
  answers.open()
  t.same(new Set(await Promise.all(asked)), new Set(['yes']))
  t.equal(model.requests.length, names.length, 'no call of a model was made twice')
  t.match(team.crashes[0], {
    restartInMs: 0,
    error: { message: 'The thread that agent "speaker0" shares with others ended: exit code 1, from outside.' },
  })
})

t.test('each restarts by its own rule', async (t) => {
  const restarts = ['permanent', 'transient', 'temporary'] as const
  const team = sharedTeam(t, {
    agents: restarts.map((restart) => ({ name: restart, isolation: 'shared', supervision: { restart } })),
    models: { default: new FakeModel(() => 'yes') },
  })
  await team.start()
  endShared(team.threadOf('permanent'))
  while (team.crashes.length < 3) await turn()
  t.equal(await ask(team, 'permanent'), 'yes')
  t.equal(await ask(team, 'transient'), 'yes')
  await t.rejects(ask(team, 'temporary'), { code: 'AGENT_TERMINATED', message: /shares with others/ })
})

t.test('an error outside of a turn is charged to the agent at work alone', async (t) => {
  const team = sharing(t, { guilty: 'throws-outside-of-its-turn', other: 'echoes' })
  await team.start()
  await ask(team, 'other', 'hello')
  await t.rejects(ask(team, 'guilty', 'reject always'), { message: /died 2 times on this message, in the same way/ })
  const of = (agent: string) => team.crashes.filter((crash) => crash.agent === agent)
  t.match(of('guilty'), [{ error: { message: /threw outside of a turn: RangeError: nobody listened/ } }, {}])
  t.ok(of('other').length > 0) // once or twice: it may still have been starting when the second thread ended
  for (const crash of of('other'))
    t.match(crash, {
      error: {
        message:
          'The thread that agent "other" shares with others ended, at the work of agent "guilty": RangeError: nobody listened.',
        details: { agent: 'other', culprit: 'guilty' },
      },
    })
  t.equal(await ask(team, 'other', 'hello'), 'hello', 'it goes on')
  t.same(team.host.directory.agent('other')!.restartTimes, [], 'its restarts do not count')
})

t.test('a loop of one blocks the others until the watchdog ends it, and they go on', async (t) => {
  const supervision = { watchdogMs: 500 }
  const team = sharing(t, { looper: 'instance', other: 'instance' }, { supervision, concurrency: 4 })
  await team.start()
  const [stuck, ...others] = await Promise.all([
    ask(team, 'looper', 'loop'),
    ...numbers(5).map(() => ask(team, 'other', 'work')),
  ])
  t.equal(stuck, 'attempt 2')
  t.equal(others.length, 5)
  t.match(where(team.crashes, 'agent', 'looper'), [{ error: { message: /is stuck/, details: { watchdogMs: 500 } } }])
  for (const { error } of team.crashes.filter(({ agent }) => agent === 'other'))
    t.match(error, { message: /at the work of agent "looper": it was stuck/ })
})

t.test('a loop is charged to the agent that the thread works for, although another one was found silent', async (t) => {
  const patient = { watchdogMs: 60_000 }
  const agents = [
    { name: 'looper', module: fixture('instance'), supervision: patient },
    { name: 'other', module: fixture('instance'), supervision: { watchdogMs: 500 } },
  ]
  const team = sharedTeam(t, { agents })
  shareThreads(team.host)
  await team.start()
  const looped = ask(team, 'looper', 'loop')
  const { incarnation } = team.host.directory.agent('looper')!
  while (incarnation!.thread.atWork !== incarnation!.thread) await turn()
  t.match(await ask(team, 'other', 'work'), /^attempt/)
  t.equal(await looped, 'attempt 2')
  const errors = new Map(team.crashes.map(({ agent, error }) => [agent, error]))
  t.match(errors.get('looper'), {
    message: /is stuck: .* Raise supervision\.watchdogMs of all agents that share it \(500\)/,
    details: { agent: 'looper', watchdogMs: 500 },
  })
  t.match(errors.get('other'), { message: /at the work of agent "looper": it was stuck/ })
})

t.test('with a durable log a run goes on in the next process, and no answer is paid twice', async (t) => {
  const path = join(folderOf(t), 'log')
  const options = {
    stateManagement: { path },
    orchestration: { strategy: 'sequential' as const },
  }
  const asked = gate()
  const first = new FakeModel(async ({ messages }) => {
    if (!`${messages[0]?.content}`.includes('bob')) return 'half of it'
    asked.open()
    return new Promise<never>(() => {})
  })
  const before = speakers(t, ['ann', 'bob'], options, first)
  const left = before.launch('go', { runId: 'one' })
  await asked.opened
  await before.flush()
  await before.close()
  t.equal(left.status, 'interrupted')
  const second = new FakeModel(() => 'all of it')
  const after = speakers(t, ['ann', 'bob'], options, second)
  await after.start()
  t.match(await after.getRun('one')?.result, { success: true, finalOutput: 'all of it' })
  t.same([first.requests.length, second.requests.length], [2, 1])
  t.equal(second.lastPrompt, 'half of it')
})

t.test('threads that agents share are not among those that threads.max bounds', async (t) => {
  const own = { name: 'own', module: fixture('echoes') }
  const agents = [own, ...numbers(3).map((n) => ({ name: `speaker${n}`, isolation: 'shared' as const }))]
  const team = speakers(t, [], { agents, threads: { max: 1 } })
  await team.start()
  t.equal(team.host.places.taken, 1)
  t.same(await Promise.all(agents.map(({ name }) => ask(team, name))), ['go', 'yes', 'yes', 'yes'])
})

t.test('an idle agent gives its seat up, and the last one ends the thread', async (t) => {
  const alive = watchThreads(t)
  const team = speakers(t, ['ann', 'bob'], { threads: { idleMs: 20 } })
  await team.start()
  t.equal(await ask(team, 'ann'), 'yes')
  while (alive.size > 0) await turn()
  t.same([team.getAgentStatus('ann'), team.getAgentStatus('bob')], ['passivated', 'passivated'])
  t.equal(await ask(team, 'bob'), 'yes')
  t.same(team.crashes, [])
})

t.test('large messages cross small rings in order', async (t) => {
  const long = 'All of it. '.repeat(20_000)
  const team = speakers(t, ['ann', 'bob'], {}, new FakeModel(({ messages }) => `${messages.at(-1)?.content}!`))
  await team.start()
  t.equal(await ask(team, 'ann', long), `${long}!`)
})

t.test('an agent that a script makes says itself that it shares a thread', async (t) => {
  const alive = watchThreads(t)
  const role = { name: 'bob', isolation: 'shared' as const }
  const team = speakers(t, ['ann'], {
    orchestration: {
      strategy: 'custom',
      async run(script, query) {
        if (query === 'code') return script.spawn({ ...role, module: fixture('echoes').href })
        return (await script.request(await script.spawn(role), 'Well?')).content
      },
    },
  })
  t.match(await team.execute('model'), { success: true, finalOutput: 'yes' })
  t.equal(alive.size, 1)
  const { error } = await team.execute('code')
  t.match(error?.message, /isolation: got "shared".*its code runs in it/)
})
