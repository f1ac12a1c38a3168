/** What virtual time cannot show: crashes, stuck threads, verbs, instances and runs that interleave on real threads. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import {
  type AgentRole,
  createTeam,
  type DramatisError,
  type MultiAgentPattern,
  type MultiAgentPatternOptions,
  type OrchestratorContext,
} from '../../src/index.ts'
import { leftovers, threadsOnce } from '../fixtures/leftovers.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { ask, gate, heard, numbers, silent } from '../kit/team.ts'

const fixture = (name: string) => new URL(`../fixtures/supervision/${name}.js`, import.meta.url)
const other: AgentRole = { name: 'other', module: fixture('exits') }

/** A team of real threads: a worker of that module, and another agent that has to go on. */
function threads(
  t: { teardown(end: () => Promise<void>): void },
  module: string,
  worker: Omit<AgentRole, 'name'> = {},
  supervision: MultiAgentPatternOptions['supervision'] = {},
) {
  return teamOf(t, { supervision, agents: [{ ...worker, name: 'worker', module: fixture(module) }, other] })
}

function teamOf(
  t: { teardown(end: () => Promise<void>): void },
  options: Omit<MultiAgentPatternOptions, 'orchestration'> & Partial<Pick<MultiAgentPatternOptions, 'orchestration'>>,
) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => (await script.request('worker', query)).content,
    },
    ...options,
  })
  const crashes = heard(team, 'agent.crashed', (event) => event)
  t.teardown(() => team.close())
  return Object.assign(team, { crashes })
}

t.test('rules 0 and 6: process.exit in a handler is a crash, and its turn is tried again', async (t) => {
  const team = threads(t, 'exits')
  t.equal(await ask(team, 'worker', 'exit 1'), 'attempt 2, counted in 1')
  t.match(team.crashes, [
    { agent: 'worker', epoch: 1, restartInMs: 0, error: { code: 'AGENT_CRASHED', details: { exitCode: 1 } } },
  ])
  t.equal(await ask(team, 'other', 'fine'), 'attempt 1, counted in 1')
})

t.test('rule 1: process.exit(0) ends a transient agent for good, and not a permanent one', async (t) => {
  const transient = threads(t, 'exits', { supervision: { restart: 'transient' } })
  await t.rejects(ask(transient, 'worker', 'exit 0 now'), { code: 'AGENT_TERMINATED', message: /exit code 0/ })
  t.equal(transient.getAgentStatus('worker'), 'stopped')
  t.equal(await ask(transient, 'other', 'fine'), 'attempt 1, counted in 1')
  const permanent = threads(t, 'exits')
  await t.rejects(ask(permanent, 'worker', 'exit 0 now'), { code: 'AGENT_CRASHED', message: /died 2 times/ })
})

t.test('rule 1: one_for_all on threads: the turns of the others come again', async (t) => {
  const team = threads(t, 'exits', {}, { strategy: 'one_for_all', maxRestarts: 9, backoff: { baseMs: 0, capMs: 0 } })
  t.equal(await ask(team, 'other', 'ask exit 1'), 'worker: attempt 2, counted in 1; in attempt 2')
  t.match(team.crashes, [{ agent: 'worker' }])
})

for (const [how, message] of [
  ['throw', 'thrown in a timer'],
  ['reject', 'nobody listened'],
] as const) {
  t.test(`rule 0: a thread that dies of "${message}" has crashed`, async (t) => {
    const team = threads(t, 'throws-outside-of-its-turn')
    t.equal(await ask(team, 'worker', how), 'attempt 2')
    t.match(team.crashes, [
      {
        error: {
          code: 'AGENT_CRASHED',
          message: `threw outside of a turn: RangeError: ${message}`,
          cause: { message },
        },
      },
    ])
  })
}

t.test('rule 7: a thread that dies twice of the same error has met poison', async (t) => {
  const team = threads(t, 'throws-outside-of-its-turn')
  await t.rejects(ask(team, 'worker', 'throw always'), {
    code: 'AGENT_CRASHED',
    message: /died 2 times on this message, in the same way/,
    details: { deaths: [{ epoch: 1 }, { epoch: 2 }] },
  })
  t.match(team.deadLetters.list(), [{ reason: 'poison' }])
  t.equal(await ask(team, 'other', 'fine'), 'attempt 1, counted in 1')
})

t.test('rule 7: a thread that dies in another way each time has three attempts', async (t) => {
  const team = threads(t, 'exits', { supervision: { maxRestarts: 9, backoff: { baseMs: 1, capMs: 1 } } })
  t.equal(await ask(team, 'worker', 'exit 2'), 'attempt 3, counted in 1')
  await t.rejects(ask(team, 'worker', 'exit 3'), { code: 'AGENT_CRASHED', message: /died 3 times/ })
})

t.test('rule 13: a thread that runs out of memory has crashed', async (t) => {
  const team = threads(t, 'eats-memory', { limits: { maxHeapMb: 32 } })
  t.equal(await ask(team, 'worker', 'go'), 'attempt 2')
  t.match(team.crashes, [{ error: { code: 'AGENT_CRASHED', message: /ran out of memory \(limits\.maxHeapMb\)/ } }])
})

t.test('rule 13: a thread has half of what the process may use, if nothing else is said', async (t) => {
  const { constrainedMemory } = process
  t.teardown(() => {
    process.constrainedMemory = constrainedMemory
  })
  process.constrainedMemory = () => 128 * 2 ** 20
  const team = threads(t, 'eats-memory')
  t.equal(await ask(team, 'worker', 'go'), 'attempt 2')
  t.match(team.crashes, [{ error: { code: 'AGENT_CRASHED', message: /ran out of memory \(limits\.maxHeapMb\)/ } }])
})

t.test('rule 13: a thread that holds more than maxExternalMb in buffers has crashed', async (t) => {
  const team = threads(t, 'holds-buffers', { limits: { maxExternalMb: 32 }, supervision: { watchdogMs: 500 } })
  t.equal(await ask(team, 'worker', 'hold 50'), 'attempt 2')
  t.match(team.crashes, [
    { error: { code: 'AGENT_CRASHED', message: /limits\.maxExternalMb/, details: { maxExternalMb: 32 } } },
  ])
})

const { Memory } = Reflect.get(globalThis, 'WebAssembly') as { Memory: new (pages: { initial: number }) => object }
const externalBytes = () => getHeapStatistics().external_memory
const [without, , beside] = [externalBytes(), new Memory({ initial: 16 }), externalBytes()]
const countsWebAssembly = beside > without // up to Node 25
t.test('rule 13: memories of WebAssembly count, also when they grow', { skip: !countsWebAssembly }, async (t) => {
  const team = threads(t, 'holds-and-blocks', { limits: { maxExternalMb: 32 }, supervision: { watchdogMs: 500 } })
  t.equal(await ask(team, 'worker', 'grow 50'), 'attempt 2')
  t.match(team.crashes, [{ error: { message: /limits\.maxExternalMb/ } }])
})

const isAskable = 'getHeapStatistics' in Worker.prototype // from Node 22.16 on
t.test('rule 13: a thread that blocks with too much is ended for that', { skip: !isAskable }, async (t) => {
  const team = threads(t, 'holds-and-blocks', { limits: { maxExternalMb: 32 }, supervision: { watchdogMs: false } })
  t.equal(await ask(team, 'worker', 'block 400'), 'attempt 2')
  t.match(team.crashes, [{ error: { message: /limits\.maxExternalMb/ } }])
})

t.test('rule 13: a thread that lets its buffers go may use as many as it likes', async (t) => {
  const team = threads(t, 'holds-buffers', { limits: { maxExternalMb: 32 }, supervision: { watchdogMs: 2_000 } })
  for (let i = 0; i < 4; i++) t.equal(await ask(team, 'worker', 'drop 200'), 'attempt 1')
  t.same(team.crashes, [])
})

for (const kind of ['microtasks', 'buffers', 'ticks'].slice(0, howMany(2, 3)))
  t.test(`rule 13: a loop that takes memory costs its thread before watchdogMs: ${kind}`, async (t) => {
    const team = threads(t, 'loops-and-grows', { supervision: { watchdogMs: 2_000 } })
    t.equal(await ask(team, 'worker', kind), 'attempt 2')
    t.match(team.crashes, [{ agent: 'worker', error: { message: /is stuck and takes memory/ } }])
  })

t.test('rule 13: an endless loop costs its thread after watchdogMs, while the others go on', async (t) => {
  const team = threads(t, 'loops', { supervision: { watchdogMs: 300 } })
  const asked = ask(team, 'worker', 'loop 1')
  t.equal(await ask(team, 'other', 'fine'), 'attempt 1, counted in 1')
  t.equal(await asked, 'attempt 2')
  t.match(team.crashes, [{ agent: 'worker', error: { details: { watchdogMs: 300 } } }])
})

t.test('rule 13: an endless loop twice is poison', async (t) => {
  const team = threads(t, 'loops', { supervision: { watchdogMs: 300 } })
  await t.rejects(ask(team, 'worker', 'loop 9'), { code: 'AGENT_CRASHED', message: /died 2 times on this message/ })
})

t.test('rule 13: a thread that is busy and answers between is left alone', async (t) => {
  const team = threads(t, 'loops', { supervision: { watchdogMs: 1_500 } })
  t.equal(await ask(team, 'worker', 'slices 150'), 'attempt 1')
  t.same(team.crashes, [])
})

t.test('rule 12: a handler that ignores its signal for stopGraceMs costs its thread', async (t) => {
  const team = threads(t, 'ignores-its-signal', { supervision: { stopGraceMs: 50 } })
  await t.rejects(ask(team, 'worker', 'wait', { responseTimeoutMs: 50 }), { code: 'REQUEST_TIMEOUT' })
  t.equal(await ask(team, 'worker', 'go'), 'answered')
  t.match(team.crashes, [{ error: { details: { agent: 'worker', stopGraceMs: 50 } } }])
})

t.test('rule 12: a closed team leaves nothing that keeps the process alive', async (t) => {
  const child = spawn(process.execPath, [fileURLToPath(fixture('closes-its-team'))], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  t.same(await exited, [0, null], errors)
  t.equal(output, 'attempt 2, counted in 1\n')
})

t.test('rule 11: a module that ends its thread while it loads is a start failure', async (t) => {
  const team = threads(t, 'exits-while-it-loads')
  const failed = await team.execute('go')
  t.match(failed.error, { code: 'AGENT_TERMINATED', message: /"worker" failed twice while it started/ })
  t.equal(await team.getAgent('other')!.run('fine'), 'attempt 1, counted in 1')
})

t.test('rule 11: a failed start leaves no thread', async (t) => {
  const before = leftovers()
  const module = new URL('../fixtures/cli/throws-while-loaded.js', import.meta.url)
  const team = teamOf(t, { agents: [{ name: 'worker', module }] })
  await t.rejects(team.start(), { code: 'CONFIGURATION' })
  t.equal(await threadsOnce(before.threads), before.threads)
})

t.test('rule 11: a thread that runs out of memory while it starts is a start failure', async (t) => {
  const team = threads(t, 'eats-memory-while-it-starts', { limits: { maxHeapMb: 32 } })
  await t.rejects(team.start(), {
    code: 'START_FAILED',
    message: /"worker" failed twice while it started: .*out of memory/,
  })
  t.equal(await ask(team, 'other', 'fine'), 'attempt 1, counted in 1')
})

t.test('an agent has no environment but what its role was granted', async (t) => {
  process.env.GRANTED = 'yes'
  process.env.SECRET = 'no'
  const team = threads(t, 'shows-its-environment', { env: ['GRANTED', 'NOT_SET'] })
  t.same(JSON.parse(await ask(team, 'worker')), { GRANTED: 'yes' })
})

t.test('rule 19: five nested requests complete with one permit, on threads', async (t) => {
  const names = ['worker', 'b', 'c', 'd', 'e']
  const team = teamOf(t, {
    maxConcurrentAgents: 1,
    agents: names.map((name, i) => ({ name, module: fixture('asks-the-next'), data: { next: names[i + 1] } })),
  })
  for (let run = 0; run < 40; run++) t.equal((await team.execute('3')).finalOutput, 'workerbcde')
})

// The verbs for several, and cancellation down a chain, on real threads.

type Test = { teardown(end: () => Promise<void>): void }

/** Resolves with the reports of the team as soon as there are so many. */
function reportsOf(team: MultiAgentPattern, count: number): Promise<string[]> {
  const reports: string[] = []
  return new Promise((resolve) => {
    team.events.subscribe((event) => {
      if (event.type !== 'message' || event.message.type !== 'report') return
      if (event.message.recipient === '$orchestrator') reports.push(event.message.content)
      if (reports.length === count) resolve(reports.sort())
    })
  })
}

function team(
  t: Test,
  module: string,
  agents: object[],
  run: (script: OrchestratorContext, query: string) => Promise<string>,
) {
  const made = createTeam({
    agents: agents.map((role) => ({ module: fixture(module), ...role }) as { name: string; module: URL }),
    orchestration: { strategy: 'custom', run },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => made.close())
  return made
}

t.test('broadcast, report and a quorum of all', async (t) => {
  const heard = gate()
  const made = team(t, 'reports-what-it-hears', [{ name: 'a' }, { name: 'b' }, { name: 'c' }], async (script) => {
    const answers = await script.requestQuorum(['a', 'b', 'c'], 3, 'news')
    await heard.opened
    return answers
      .map(({ content }) => content)
      .sort()
      .join()
  })
  const reports = reportsOf(made, 6)
  const pending = made.execute('go')
  t.same(
    await reports,
    ['a', 'a', 'b', 'b', 'c', 'c'].map((name) => `${name} heard a broadcast: news`),
  )
  heard.open()
  const result = await pending
  t.equal(result.finalOutput, 'a,b,c')
  t.equal(result.messageHistory.filter(({ type }) => type === 'broadcast').length, 3)
})

t.test('rule 14: who watches an agent whose thread keeps dying is told of its end', async (t) => {
  const heard = gate()
  const mortal = { name: 'mortal', supervision: { maxRestarts: 0, poisonAttempts: 10 } }
  const made = team(t, 'reports-what-it-hears', [{ name: 'watcher' }, mortal], async (script) => {
    await script.request('watcher', 'watch mortal')
    const code = await script.request('mortal', 'exit').catch(({ code }: DramatisError) => code)
    await heard.opened
    return String(code)
  })
  const reports = reportsOf(made, 1)
  const pending = made.execute('go')
  t.match(await reports, [/^watcher heard a report: Agent "mortal" is gone for good: It died 1 times/])
  heard.open()
  t.equal((await pending).finalOutput, 'AGENT_TERMINATED')
})

t.test('tasks are delegated, handed off, refused and escalated', async (t) => {
  const agents = [
    { name: 'lead', data: { does: 'delegate', to: 'first' } },
    { name: 'first', data: { does: 'handoff', to: 'worker' } },
    { name: 'stuck', data: { does: 'escalate' }, escalateTo: 'worker' },
    { name: 'picky', data: { does: 'handoff', to: 'shirker' } },
    { name: 'shirker', data: { does: 'refuse' } },
    { name: 'worker', data: { does: 'work' } },
  ]
  const asked = ['lead', 'stuck', 'picky']
  const made = team(t, 'gives-tasks-away', agents, async (script) => {
    const outcomes = await script.requestAll(asked, 'dig')
    return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.message)).join()
  })
  const run = made.launch('go')
  t.equal((await run.result).finalOutput, 'lead: worker did dig,stuck: guidance,picky did dig')
  t.same(run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`).sort(), [
    'first handed_off',
    'lead completed',
    'picky completed',
    'shirker refused',
    'stuck completed',
    'worker completed',
  ])
})

t.test('a request that is withdrawn takes the whole chain behind it along', async (t) => {
  const withdrawal = new AbortController()
  const chain = ['a', 'b', 'c', 'd'].map((name, i, names) => ({ name, data: { next: names[i + 1] } }))
  const finished: string[] = []
  const allEnded = gate()
  const made = team(t, 'waits-down-a-chain', chain, async (script) => {
    const code = await script
      .request('a', 'wait', { signal: withdrawal.signal })
      .catch(({ code }: DramatisError) => code)
    await allEnded.opened
    return String(code)
  })
  made.events.subscribe((event) => {
    if (event.type === 'turn.started' && event.agent === 'd') withdrawal.abort(new Error('not wanted any more'))
    if (event.type === 'turn.finished') finished.push(event.agent)
    if (finished.length === 4) allEnded.open()
  })
  t.equal((await made.execute('go')).finalOutput, 'CANCELLED')
  t.same(finished.slice(0, 4).sort(), ['a', 'b', 'c', 'd'])
  for (const { name } of chain) t.equal(await ask(made, name, 'hello'), `${name} is here`)
})

for (const reentrant of ['once', 'a hundred times', 'over a death of its thread'] as const) {
  t.test(`a worker asks the manager who awaits it, ${reentrant}`, async (t) => {
    const manager = { name: 'manager', reentrancy: 'chain', data: { to: 'worker' } }
    const made = team(t, 'asks-back', [manager, { name: 'worker', data: {} }], async (script, query) => {
      const times = reentrant === 'a hundred times' ? 100 : 1
      let answer = ''
      for (let i = 0; i < times; i++) answer = (await script.request('manager', query)).content
      return answer
    })
    const dies = reentrant === 'over a death of its thread'
    const { finalOutput } = await made.execute(dies ? 'die' : 'go')
    const attempt = dies ? 2 : 1
    const asked = { once: 1, 'a hundred times': 100, 'over a death of its thread': 0 }[reentrant]
    t.equal(finalOutput, `manager < worker < told by manager in attempt ${attempt}, ${asked} times asked`)
  })
}

// The role option `instances` on real threads: they work at the same time, and what happens to one does not touch
// another.

const module = new URL('../fixtures/supervision/instance.js', import.meta.url)

function start(
  t: { teardown(end: () => Promise<void>): void },
  instances: number,
  supervision: MultiAgentPatternOptions['supervision'] = {},
) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    supervision: { backoff: { baseMs: 0, capMs: 0 }, ...supervision },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const answers = await Promise.all(query.split(', ').map((order) => script.request('worker', order)))
        const threads = answers.map(({ structuredData }) => (structuredData as { threadId: number }).threadId)
        return `${new Set(threads).size} threads`
      },
    },
    agents: [{ name: 'worker', module, instances }],
  })
  t.teardown(() => team.close())
  const crashes = heard(team, 'agent.crashed', (event) => event)
  return Object.assign(team, { crashes })
}

t.test('three instances are at three turns of one run at once, each in its own thread', async (t) => {
  const team = start(t, 3)
  t.match(await team.execute('meet 3, meet 3, meet 3'), { success: true, finalOutput: '3 threads' })
})

t.test('one in an endless loop does not stop the other, and what it was at is tried again', async (t) => {
  const team = start(t, 2, { watchdogMs: 1_000 })
  await team.start()
  const stuck = ask(team, 'worker', 'loop')
  for (const i of numbers(20)) t.equal(await ask(team, 'worker', i), 'attempt 1')
  t.equal(await stuck, 'attempt 2')
  t.match(team.crashes, [{ agent: 'worker', error: { details: { watchdogMs: 1_000 } } }])
})

t.test("a crash of one does not touch the other's turn", async (t) => {
  const team = start(t, 2)
  await team.start()
  // The first waits until another thread has come to the third: the next life of who died of the second.
  const result = await team.execute('meet 2, exit, meet 2')
  t.match(result, { success: true, finalOutput: '2 threads' })
  t.match(team.crashes, [{ agent: 'worker' }])
  t.same(
    result.orchestrationTrace.events
      .filter(({ eventType, agent }) => eventType === 'turn.finished' && agent === 'worker')
      .map(({ details }) => (details as { attempt: number }).attempt)
      .sort(),
    [1, 1, 2],
  )
})

t.test('nothing is lost or done twice while instances die one after the other', async (t) => {
  const team = start(t, 4, { maxRestarts: Number.POSITIVE_INFINITY })
  await team.start()
  const orders = numbers(200).map((i) => (Number(i) % 20 === 7 ? 'exit' : i))
  const answers = await Promise.all(orders.map((order) => ask(team, 'worker', order)))
  t.same(
    answers,
    orders.map((order) => `attempt ${order === 'exit' ? 2 : 1}`),
  )
  t.same(team.deadLetters.list(), [])
  t.equal(team.crashes.length, 10)
})

// The role option `concurrency` on real threads: runs that interleave, and do not mix.

function startConcurrent(t: { teardown(end: () => Promise<void>): void }, worker: Omit<AgentRole, 'name' | 'module'>) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    supervision: { maxRestarts: 9, backoff: { baseMs: 0, capMs: 0 } },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const { content, structuredData } = await script.request('worker', query)
        return { content, structuredData }
      },
    },
    agents: [
      { ...worker, name: 'worker', module: fixture('interleaves') },
      { name: 'echo', module: fixture('echoes'), concurrency: 16 },
    ],
  })
  t.teardown(() => team.close())
  return team
}

t.test('16 runs have their turns open in one thread at once', async (t) => {
  const team = startConcurrent(t, { concurrency: 16 })
  const results = await Promise.all(numbers(16).map((runId) => team.execute('wait 16', { runId })))
  t.same(
    pluck(results, 'finalOutput'),
    numbers(16).map((runId) => `${runId} 0`),
  )
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test('while one run waits for what never comes the others of its thread go on', async (t) => {
  const team = startConcurrent(t, { concurrency: 4 })
  const waits = team.launch('wait 99', { runId: 'waits' })
  const others = await Promise.all(numbers(12).map((runId) => team.execute('sum 5', { runId })))
  t.ok(others.every(({ success }) => success))
  t.equal(waits.status, 'running')
  await waits.cancel()
})

t.test('50 runs never mix', async (t) => {
  const team = startConcurrent(t, { concurrency: 16 })
  const results = await Promise.all(numbers(50).map((runId) => team.execute('sum 20', { runId })))
  for (const [i, { finalOutput, agentOutputs }] of results.entries()) {
    t.equal(finalOutput, `${i} 190`)
    t.match(agentOutputs.worker, [{ structuredData: { attempt: 1, asked: 20 } }])
    t.same(
      agentOutputs.echo?.map(({ content }) => content),
      numbers(20),
    )
  }
})

for (const fate of ['exit', 'loop']) {
  t.test(`rule 7: a thread that dies of "${fate}" in one of its turns loses none of the others`, async (t) => {
    const team = startConcurrent(t, { concurrency: 8, supervision: { watchdogMs: 300 } })
    const guilty = team.execute(fate, { runId: 'guilty' })
    const results = await Promise.all(numbers(7).map((runId) => team.execute('sum 60', { runId })))
    t.same(
      pluck(results, 'finalOutput'),
      numbers(7).map((runId) => `${runId} 1770`),
    )
    t.equal((await guilty).finalOutput, 'guilty 0')
    t.same(team.deadLetters.list(), [])
  })
}
