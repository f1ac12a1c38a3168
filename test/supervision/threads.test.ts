/** What virtual time cannot show: crashes, stuck threads and permits on real threads. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { type AgentRole, createTeam, type MultiAgentPatternOptions, type RuntimeEvent } from '../../src/index.ts'
import { leftovers, threadsOnce } from '../fixtures/leftovers.ts'
import { ask, silent } from './teams.ts'

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
  const crashes: Extract<RuntimeEvent, { type: 'agent.crashed' }>[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') crashes.push(event)
  })
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

for (const kind of ['ticks', 'microtasks', 'buffers'])
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
