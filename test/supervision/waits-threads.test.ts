/** Rules 19, 23, 24 and 31 on real threads: only they know whether a turn works or waits. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { type AgentRole, createTeam, type MultiAgentPatternOptions, type OrchestratorContext } from '../../src/index.ts'
import { Dice } from '../dice.ts'
import type { Act } from '../fixtures/supervision/works-and-waits.ts'
import { howMany } from '../how-many.ts'
import { gate, numbers, silent } from '../kit/team.ts'
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
