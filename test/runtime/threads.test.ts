/** Agents on real threads: what reaches them, what gets out, how they die, and that nothing of them is left. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import t from 'tap'
import type { Assignment } from '../../src/actors/definition/assignment.ts'
import type { MultiAgentPatternOptions, OrchestratorContext, Run } from '../../src/index.ts'
import { Channel } from '../../src/mailbox/channel.ts'
import { TeamMemory } from '../../src/mailbox/team-memory.ts'
import { WorkerSpawner } from '../../src/runtime/threads/spawner.ts'
import { kernelTimes, Silence, ThreadClock } from '../../src/runtime/threads/thread.ts'
import { endWorker, halfOfMemoryMb, heapLimit, WorkerThread } from '../../src/runtime/threads/worker-thread.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { ChaosTeam } from '../fixtures/chaos-team.ts'
import { leftovers } from '../fixtures/leftovers.ts'
import type { Outcome } from '../fixtures/thread-program.ts'
import { silent } from '../kit/team.ts'
import { collectGarbage } from '../soak/samples.ts'

const compiled = (name: string) => new URL(`../fixtures/thread-${name}.js`, import.meta.url)
const SOURCE = join('test', 'fixtures', 'thread-typed.ts') // tests are started in the project's folder

// ---- the end

for (const when of [
  'go', // after a run
  'die', // after a crash
  'while a run is under way',
  'after a run was cancelled',
  'with an agent that does not stop',
  'while it starts',
  'before it has started',
]) {
  t.test(`close leaves nothing, and the process ends by itself: ${when}`, async (t) => {
    const { left, timers } = await program(when)
    t.same(left, { threads: 0, handles: {} })
    t.equal(timers, 0)
  })
}

t.test('closing twice is fine', async (t) => {
  const team = teamOf(t)
  await team.execute('go')
  await Promise.all([team.close(), team.close()])
  await team.close()
  t.equal(leftovers().threads, 0)
  t.throws(() => team.launch('again'), { code: 'TEAM_CLOSED' })
})

t.test('closing aborts the runs that are under way and those that wait', async (t) => {
  const team = teamOf(t, { maxConcurrentRuns: 20 })
  const runs = Array.from({ length: 50 }, () => team.launch('sleep'))
  await underWay(runs[0]!)
  await team.close()
  const results = await Promise.all(runs.map(({ result }) => result))
  t.same(new Set(results.map(({ error }) => error?.code)), new Set(['RUN_ABORTED']))
  t.same(new Set(runs.map(({ status }) => status)), new Set(['aborted']))
})

t.test('closing cancels the timers of a clock of the user', async (t) => {
  const open = new Set<object>()
  const clock: Scheduler = {
    ...systemClock,
    timer(ms, task) {
      const timer = systemClock.timer(ms, () => {
        open.delete(timer)
        task()
      })
      open.add(timer)
      return {
        cancel() {
          open.delete(timer)
          timer.cancel()
        },
      }
    },
  }
  const team = teamOf(t, { clock })
  const run = team.launch('sleep')
  await underWay(run)
  await run.cancel() // from now on the agent has five seconds to stop
  t.ok(open.size > 0)
  await team.close()
  t.equal(open.size, 0)
})

// ---- what a thread gets, and what gets out

t.test('the environment of a thread has what its role was granted, and nothing else', async (t) => {
  process.env.GRANTED = 'yes'
  process.env.KEPT_BACK = 'no'
  t.teardown(() => {
    delete process.env.GRANTED
    delete process.env.KEPT_BACK
  })
  const bare = await teamOf(t).execute('environment')
  t.equal(bare.finalOutput, '{}')
  const agents = [{ name: 'helper', module: compiled('agent'), env: ['GRANTED', 'NOT_THERE'] }]
  const granted = await teamOf(t, { agents }).execute('environment')
  t.same(JSON.parse(granted.finalOutput ?? ''), { GRANTED: 'yes' })
  const keys = { research: ['GRANTED'], other: ['KEPT_BACK'] }
  const held = await teamOf(t, { agents: [{ ...agents[0]!, env: [], keys: ['research'] }], keys }).execute(
    'environment',
  )
  t.same(JSON.parse(held.finalOutput ?? ''), { GRANTED: 'yes' })
})

t.test('what an agent prints goes to the logger, and not to stdout', async (t) => {
  const { logged } = await program('print') // stdout had its outcome and nothing else, or this had failed
  for (const line of ['printed', 'written', 'complained']) t.ok(logged.includes(line), line)
})

t.test('an agent that posts to its parent is warned and works on', async (t) => {
  const warnings: object[] = []
  const quiet = () => {}
  const logger = {
    debug: quiet,
    info: quiet,
    error: quiet,
    warn: (fields: object, text: string) => void warnings.push({ ...fields, text }),
  }
  const team = teamOf(t, { logger })
  t.match(await team.execute('post'), { success: true, finalOutput: 'posted' })
  t.match(await team.execute('go'), { success: true })
  t.match(warnings, [{ agent: 'helper', text: /posted to its parent port/ }])
})

t.test('messages and answers of any size arrive, with nobody to ask how things go', async (t) => {
  const team = teamOf(t, { supervision: { watchdogMs: false } }, async (orchestrator, query) => {
    const text = 'y'.repeat(Number(query))
    const { structuredData } = await orchestrator.request('asker', `repeat ${query}`, { structuredData: { text } })
    return String((structuredData as { length: number }).length)
  })
  for (const size of [70_000, 300_000, 5_000_000]) t.equal((await team.execute(String(size))).finalOutput, String(size))
})

t.test('an error of a TypeScript agent points to its line in the source', async (t) => {
  const lines = (await readFile(SOURCE, 'utf8')).split('\n')
  const lineOf = (text: string) => `thread-typed.ts:${lines.findIndex((line) => line.includes(text)) + 1}:`
  const agents = [{ name: 'helper', module: pathToFileURL(SOURCE) }]
  const ask = (outside: boolean) => (orchestrator: OrchestratorContext) =>
    orchestrator.request('helper', 'go', { structuredData: { outside } }).then(({ content }) => content)

  const inside = await teamOf(t, { agents }, ask(false)).execute('go')
  t.match(inside.error, { code: 'AGENT_FAILED', cause: { stack: lineOf('thrown inside') } })

  const outside = await teamOf(t, { agents }, ask(true)).execute('go')
  t.equal(outside.finalOutput, 'back again')
  const crash = outside.orchestrationTrace.events.find(({ eventType }) => eventType === 'agent.crashed')
  t.match(crash?.details, { error: { message: /thrown outside/ } })
})

// ---- permits

for (const how of ['at once', 'pause', 'pause outside']) {
  t.test(`a turn that waits for another gives its permit on: ${how}`, async (t) => {
    const script = async (orchestrator: OrchestratorContext) => (await orchestrator.request('asker', how)).content
    const team = teamOf(t, { maxConcurrentAgents: 1, supervision: { watchdogMs: false } }, script)
    for (let time = 0; time < 5; time++) t.match(await team.execute('go'), { success: true })
  })
}

// ---- death

t.test('a thread that runs out of memory is a crash, and the process lives', async (t) => {
  const agents = [
    { name: 'helper', module: compiled('agent'), limits: { maxHeapMb: 24 } },
    { name: 'other', module: compiled('agent') },
  ]
  const team = teamOf(t, { agents, supervision: { backoff: { baseMs: 0, capMs: 0 } } })
  const result = await team.execute('eat')
  t.match(result.error, { code: 'AGENT_CRASHED', message: /out of memory \(limits\.maxHeapMb\)/ })
  t.match(await team.getAgent('other')?.run('go'), /^go/)
  t.match(await team.getAgent('helper')?.run('go'), /^go/)
})

t.test('a thread that is blocked for ever is found and replaced', async (t) => {
  const team = teamOf(t, { supervision: { watchdogMs: 200 } })
  const result = await team.execute('freeze')
  t.equal(result.finalOutput, 'thawed in attempt 2')
  t.match(crashesOf(result), [{ agent: 'helper', details: { error: { message: /stuck/ } } }])
})

t.test('a warm spare takes the place of a thread that died', async (t) => {
  const workers = watchWorkers(t)
  const team = teamOf(t, { threads: { warmSpares: 1 } })
  await team.start()
  while (workers.length < 3) await new Promise((resolve) => setImmediate(resolve)) // two agents and the spare
  const result = await team.execute('die')
  t.equal(result.finalOutput, 'alive in attempt 2')
  const births = result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'agent.ready')
  t.match(births.at(-1), { agent: 'helper', details: { epoch: 2, warm: true } })
})

t.test('a spare that dies while it waits is passed over', async (t) => {
  const workers = watchWorkers(t)
  const spawner = new WorkerSpawner(1, systemClock, silent)
  t.teardown(() => spawner.close())
  spawner.spawn(null).terminate()
  while (workers.length < 2) await new Promise((resolve) => setImmediate(resolve))
  await workers[1]!.terminate()
  const thread = spawner.spawn(null)
  t.teardown(() => thread.terminate())
  t.equal(thread.warm, false)
  t.match(await thread.start(assignment(compiled('agent').href)), { ok: true })
})

t.test('a spare that warms up starts an agent as any other, also while it does', async (t) => {
  const spares = [1, 2, 3].map(() => new WorkerThread(null))
  t.teardown(() => Promise.all(spares.map((spare) => spare.terminate())))
  await Promise.all(spares.map(({ booted }) => booted))
  for (const spare of spares) spare.warmUp()
  t.match(await spares[0]?.start(assignment(compiled('agent').href)), { ok: true })
  t.equal(await spares[1]?.isIdle(), false, 'it has no agent')
  t.match(await spares[1]?.start(assignment(compiled('agent').href)), { ok: true })
  spares[2]?.terminate()
  await spares[2]?.gone()
  spares[2]?.warmUp() // is gone: nothing is thrown
})

t.test('a spare that dies as it is needed costs no more than another start', async (t) => {
  const workers = watchWorkers(t)
  const team = teamOf(t, { threads: { warmSpares: 1 } })
  await team.start()
  while (workers.length < 3) await new Promise((resolve) => setImmediate(resolve)) // two agents and the spare
  void workers[2]?.terminate()
  t.equal((await team.execute('die')).finalOutput, 'alive in attempt 2')
})

t.test('what is asked of a thread settles when it dies', async (t) => {
  const stuck = `data:text/javascript,${encodeURIComponent('await new Promise(() => setInterval(() => {}, 1000))')}`
  const started = (thread: WorkerThread) => thread.start(assignment(stuck))
  const before = new WorkerThread(null)
  const starting = started(before)
  before.terminate()
  t.match(await starting, { ok: false, error: { code: 'AGENT_CRASHED' } })
  t.match(await started(before), { ok: false, error: { code: 'AGENT_CRASHED' } }, 'also when it is dead already')

  const alive = new WorkerThread(null)
  t.match(await alive.start(assignment(compiled('agent').href)), { ok: true })
  const stopping = alive.stop()
  alive.terminate()
  await stopping
  await alive.stop()
  await alive.gone()
})

t.test('a thread that dies before it has answered is let go of, with all that had waited for it', async (t) => {
  const silentThread = `data:text/javascript,${encodeURIComponent('await new Promise(() => setInterval(() => {}, 1000))')}`
  const ended = async () => {
    const thread = new WorkerThread(null)
    const asked = [thread.start(assignment(silentThread)), thread.isIdle(), thread.stop()]
    thread.terminate()
    await Promise.all(asked)
    await thread.gone()
    return new WeakRef(thread)
  }
  const thread = await ended()
  for (let looks = 0; looks < 100 && thread.deref(); looks++) {
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
  }
  t.equal(thread.deref(), undefined)
})

t.test('a system without threads is a start that failed, and no crash of the host', async (t) => {
  const team = teamOf(t)
  team.refuseThreads('no more threads')
  await t.rejects(team.start(), { code: 'START_FAILED', message: /no more threads/ })
  t.match(await team.execute('go'), { success: false, error: { code: 'AGENT_TERMINATED' } })
})

// ---- what a death leaves behind

t.test('sends that wait for room are not overtaken after their sender has died', async (t) => {
  const script = async (orchestrator: OrchestratorContext) => {
    await orchestrator.request('sender', 'go')
    return (await orchestrator.request('keeper', 'what came?')).content
  }
  const agents = [
    { name: 'sender', module: compiled('sender') },
    { name: 'keeper', module: compiled('keeper'), communication: { mailboxBytes: 10_000 } },
  ]
  t.equal((await teamOf(t, { agents }, script).execute('go')).finalOutput, 'a b c')
})

t.test('room that a dead thread had claimed is given back', async (t) => {
  const script = async (orchestrator: OrchestratorContext) => {
    await orchestrator.request('sender', 'flood')
    return (await orchestrator.request('keeper', 'what came?')).content
  }
  const agents = ['sender', 'keeper'].map((name) => ({ name, module: compiled(name) }))
  const team = teamOf(t, { agents }, script)
  const result = await team.execute('go')
  t.equal(result.finalOutput, '0 1 2 3 4 5 6 7 8 9 10 11')
  for (const [agent, left] of Object.entries(team.leftInMailboxes()))
    t.same(left, { unaccounted: 0, waiting: 0, messages: 0, bytes: 0 }, agent)
})

// ---- a script in a thread

for (const then of ['exit', 'loop']) {
  t.test(`a script's thread may die (${then}): what it had asked is answered from the log`, async (t) => {
    const team = new ChaosTeam({
      agents: [{ name: 'counter', module: compiled('counter') }],
      orchestration: { strategy: 'custom', module: compiled('script'), config: { then } },
      supervision: { watchdogMs: 300 },
    })
    t.teardown(() => team.close())
    const result = await team.execute('count')
    if (!result.success) throw result.error
    t.equal(result.finalOutput, '1 2 true false 2')
    t.equal(result.orchestrationTrace.decisions.length, 1)
    t.match(crashesOf(result), [{ agent: '$orchestrator' }])
  })
}

// ----

type Script = (orchestrator: OrchestratorContext, query: string) => Promise<string>

/** A team of a helper that does as it is told and an asker who asks it; its script hands the query to the helper. */
function teamOf(t: Test, options: Partial<MultiAgentPatternOptions> = {}, run: Script = askHelper): ChaosTeam {
  const team = new ChaosTeam({
    agents: [
      { name: 'helper', module: compiled('agent') },
      { name: 'asker', module: compiled('asker') },
    ],
    orchestration: { strategy: 'custom', run },
    enableBlackboard: true,
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

async function askHelper(orchestrator: OrchestratorContext, query: string): Promise<string> {
  return (await orchestrator.request('helper', query)).content
}

/** Resolves when the helper has begun with what it was asked in that run. */
async function underWay(run: Run): Promise<void> {
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'helper') return
}

/** Runs the program as a process of its own, until that ends by itself. */
async function program(when: string): Promise<Outcome> {
  const file = fileURLToPath(new URL('../fixtures/thread-program.js', import.meta.url))
  const child = spawn(process.execPath, [file, when], { stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0 || stderr !== '') throw new Error(`exit code ${code}: ${stderr}`)
  return JSON.parse(stdout) as Outcome
}

/** Every worker that is made from now on. */
function watchWorkers(t: Test): Worker[] {
  const workers: Worker[] = []
  const made = (worker: Worker) => void workers.push(worker)
  process.on('worker', made)
  t.teardown(() => process.off('worker', made))
  return workers
}

/** For a thread without a team. */
function assignment(module: string): Assignment {
  return {
    role: { name: 'alone' },
    option: 'agents[0]',
    index: 3,
    epoch: 1,
    names: '',
    channel: new Channel().buffer,
    team: new TeamMemory(4).buffer,
    state: undefined,
    correlation: 0,
    seed: 1,
    env: {},
    keys: [],
    messagesPerTurn: Number.POSITIVE_INFINITY,
    maxMessageBytes: 1_000,
    maxExternalMb: null,
    isDurable: false,
    concurrency: 1,
    instances: 1,
    verbs: [],
    loops: false,
    contextStrategy: undefined,
    code: { module, bundled: false, shown: module },
    tools: { host: [], modules: [], names: [] },
  }
}

const crashesOf = ({ orchestrationTrace }: { orchestrationTrace: { events: { eventType: string }[] } }) =>
  orchestrationTrace.events.filter(({ eventType }) => eventType === 'agent.crashed')

// Threads that do not heed the first order to end.

t.test('a thread ends that is in the code of an async hook almost all the time', async (t) => {
  const worker = new Worker(
    `const { MessageChannel, parentPort } = require('node:worker_threads')
    require('node:async_hooks').createHook({ init() { for (let n = 0; n < 5_000; n++); } }).enable()
    parentPort.postMessage('on my way')
    for (;;) new MessageChannel().port1.close()`,
    { eval: true },
  )
  await once(worker, 'message')
  const ended = once(worker, 'exit')
  endWorker(worker)
  t.strictSame(await ended, [1])
})

t.test('a thread that has ended is told nothing more', async (t) => {
  const worker = new Worker('', { eval: true })
  await once(worker, 'exit')
  endWorker(worker)
  t.equal(worker.threadId, -1)
})

// Heap limits of threads: what a role says, else Node's own, else half of the memory of a small container.

const MIB = 2 ** 20
const machineMb = Math.floor(totalmem() / 2 / MIB)
const nodesMb = getHeapStatistics().heap_size_limit / MIB
const LARGE_MB = 2 ** 24

const CASES: { mayUse: number; given: number | null; halfMb: number; limitMb: number | undefined }[] = [
  { mayUse: 512 * MIB, given: null, halfMb: 256, limitMb: 256 },
  { mayUse: 512 * MIB, given: 64, halfMb: 256, limitMb: 64 },
  { mayUse: 512 * MIB, given: 400, halfMb: 256, limitMb: 400 },
  { mayUse: 10 * MIB, given: null, halfMb: 8, limitMb: 8 },
  { mayUse: 0, given: null, halfMb: machineMb, limitMb: machineMb < nodesMb ? machineMb : undefined },
  { mayUse: LARGE_MB * MIB, given: null, halfMb: machineMb, limitMb: machineMb < nodesMb ? machineMb : undefined },
  { mayUse: 2 ** 64, given: 64, halfMb: machineMb, limitMb: 64 },
]

for (const { mayUse, given, halfMb, limitMb } of CASES)
  t.test(`a thread with the limit ${given} where the process may use ${mayUse} bytes`, async (t) => {
    const { constrainedMemory } = process
    t.teardown(() => {
      process.constrainedMemory = constrainedMemory
    })
    process.constrainedMemory = () => mayUse
    t.equal(halfOfMemoryMb(), halfMb)
    const { maxOldGenerationSizeMb, maxYoungGenerationSizeMb } = heapLimit(given).resourceLimits
    t.equal(maxOldGenerationSizeMb, limitMb)
    t.equal(maxYoungGenerationSizeMb, 32, 'V8 aborts the process where more than 16 MB come at once')
  })

// Where the figures of a thread come from.

const skip = !existsSync('/proc/thread-self/schedstat') && 'the kernel tells no figures of threads here'

const files = (schedstat: string, stat: string) => (path: string) => {
  if (path === '/proc/self/task/42/schedstat') return schedstat
  if (path === '/proc/self/task/42/stat') return stat
  throw new Error(`ENOENT: ${path}`)
}

t.test('the kernel tells how long a thread ran and waited, and whether it can run', async (t) => {
  const read = (stat: string) => kernelTimes(42, files('2500000 1500000 7\n', stat))
  t.same(read('42 (node) R 1 1'), { cpuMs: 2.5, waitedMs: 1.5, runnable: true })
  t.match(read('42 (node) S 1 1'), { runnable: false })
  t.match(read('42 (a) R (b)) D 1 1'), { runnable: false }, 'whatever the thread is called')
})

t.test('the kernel tells how much memory a thread has taken', async (t) => {
  const stat = '42 (a) b) R 1 2 3 4 5 6 512 8 9'
  t.match(kernelTimes(42, files('2500000 1500000 7\n', stat)), { takenMb: 2 })
})

t.test('a thread that is not of this process has no figures, nor have those that cannot be read', async (t) => {
  t.equal(kernelTimes(43, files('2 1 7', '42 (node) R')), undefined)
  t.equal(kernelTimes(42, files('', '42 (node) R')), undefined)
  t.equal(kernelTimes(process.ppid), undefined, 'who started this process is another')
})

/** Runs until it is ended. */
function looping(t: { teardown(end: () => Promise<unknown>): void }): Worker {
  const worker = new Worker('for (;;);', { eval: true })
  t.teardown(() => worker.terminate())
  return worker
}

async function readUntil(clock: ThreadClock, enough: (cpuMs: number) => boolean) {
  for (;;) {
    const times = clock.read()
    if (enough(times.cpuMs)) return times
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('a clock that knows its thread reads what the kernel tells', { skip }, async (t) => {
  const clock = new ThreadClock(looping(t))
  clock.tid = process.pid // of the thread that looks itself
  const { cpuMs, runnable } = clock.read()
  t.ok(cpuMs > 0)
  t.ok(runnable)
  t.equal(clock.tid, process.pid)
})

const silentNode = !('cpuUsage' in Worker.prototype) && 'this Node does not tell the processor time of a thread'
t.test('one that does not know it has what Node tells', { skip: silentNode }, async (t) => {
  const clock = new ThreadClock(looping(t))
  t.match(await readUntil(clock, (cpuMs) => cpuMs > 0), { waitedMs: 0 })
})

t.test('one that knew it, and is refused, does not ask again', async (t) => {
  const clock = new ThreadClock(looping(t))
  clock.tid = process.ppid
  t.equal(clock.read().waitedMs, 0)
  t.equal(clock.tid, 0)
})

// What counts against a thread that is silent.

const R = true
const S = false

/** Looks 100 ms apart, each with what the system says since the thread began: ran, waited, whether it can run now. */
function after(...looks: [cpuMs: number, waitedMs: number, runnable: boolean][]) {
  const silence = new Silence(0)
  for (const [cpuMs, waitedMs, runnable] of looks) silence.add(100, 100, { cpuMs, waitedMs, runnable })
  return silence
}

t.test('what it ran and what it slept counts, what it waited for a processor does not', async (t) => {
  const silence = after([500, 0, S], [530, 50, S], [540, 120, S])
  t.equal(silence.cpuMs, 40)
  t.equal(silence.waitedMs, 120)
  t.equal(silence.blockedMs, 40)
})

t.test('a wait that is told when it is over was no sleep before', async (t) => {
  const silence = after([0, 0, R], [0, 0, R], [0, 0, R], [10, 290, S])
  t.equal(silence.blockedMs, 0)
  t.equal(silence.cpuMs, 10)
  t.notOk(after([0, 0, R], [0, 0, R], [0, 0, R], [0, 0, R]).isStuck(300))
})

t.test('sleep before a wait counts', async (t) => {
  t.equal(after([0, 0, S], [0, 0, S], [0, 0, R], [0, 100, R]).blockedMs, 100)
})

t.test('in the end doubt counts as well, and is called so', async (t) => {
  const silence = new Silence(0)
  for (let look = 0; look < 10; look++) silence.add(100, 100, { cpuMs: 0, waitedMs: 0, runnable: R })
  t.notOk(silence.isStuck(100))
  silence.add(100, 100, { cpuMs: 0, waitedMs: 0, runnable: R })
  t.ok(silence.isStuck(100))
  t.ok(silence.isDoubtful(100))
  t.notOk(after([0, 0, S], [0, 0, S], [0, 0, S]).isDoubtful(100), 'what has slept for so long is stuck')
})

t.test('of a late look only the processor time counts in full', async (t) => {
  const slept = new Silence(0)
  for (let look = 0; look < 2; look++) slept.add(10_000, 100, { cpuMs: 0, waitedMs: 0, runnable: S })
  t.equal(slept.blockedMs, 100)
  const ran = new Silence(0)
  for (let look = 0; look < 2; look++) ran.add(10_000, 100, { cpuMs: look * 9_000, waitedMs: 0, runnable: R })
  t.equal(ran.cpuMs, 9_000)
})

t.test('without figures all of the time counts', async (t) => {
  const silence = new Silence(0)
  for (let look = 0; look < 3; look++) silence.add(100, 100, undefined)
  t.ok(silence.isStuck(300))
  t.notOk(silence.isDoubtful(300))
  t.equal(silence.words, '300 ms')
})

t.test('figures of two sources that do not fit count nothing twice', async (t) => {
  const silence = after([500, 500, S], [0, 0, R], [50, 0, R])
  t.equal(silence.cpuMs, 50)
  t.equal(silence.blockedMs, 0)
})
