/** From the start of a team to its end: probes, runs that wait for their start, and what a closing team waits for. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import type { loaded } from '../fixtures/loaded.ts'
import { leftovers } from '../kit/accounts.ts'
import { gate, given, localTeam, never, openTeam, outcomeOf, silent } from '../kit/team.ts'
import { after, echo, stage, throws } from './stage.ts'

// What a closing team waits for, and for how long a script may go on that does not stop with its run.

t.test('close with drainMs lets messages end that were sent just before it', async (t) => {
  const like = await messageOf(t)
  const handled: string[] = []
  const team = localTeam(t, {
    async worker({ content }, context) {
      await context.sleep(10)
      if (content !== 'told by the first') await context.send('other', 'told by the first')
      handled.push(content)
      return content
    },
    async other({ content }, context) {
      await context.sleep(10)
      handled.push(content)
    },
  })
  const sent = outcomeOf(team.sendMessage({ recipient: 'worker', content: 'first' }))
  const asked = outcomeOf(team.sendMessage({ recipient: 'worker', content: 'second', requiresResponse: true }))
  const delivered = outcomeOf(
    team.getAgent('worker')!.receiveMessage({ ...like, recipient: 'worker', content: 'third', runId: '' }),
  )
  const closed = outcomeOf(team.close({ drainMs: 10_000 }))
  await team.clock.advance(15)
  t.equal(closed.settled, false)
  await team.clock.advance(1_000)
  t.equal(closed.settled, true)
  t.match([sent, asked, delivered], [{ value: null }, { value: { content: 'second' } }, { settled: true }])
  t.same([sent.error, asked.error, delivered.error], [undefined, undefined, undefined])
  t.same(
    handled.filter((content) => content !== 'told by the first'),
    ['first', 'second', 'third'],
  )
})

/** A message as the runtime gives them out. */
async function messageOf(t: Parameters<typeof localTeam>[0]) {
  const team = localTeam(t, { worker: () => '' })
  const { messageHistory } = await team.execute('go')
  return messageHistory[0]!
}

t.test('a message that is refused does not keep a draining team', async (t) => {
  const team = localTeam(t, { worker: () => '' })
  await team.start()
  const refused = outcomeOf(team.sendMessage({ recipient: 'nobody', content: 'hi' }))
  await team.close({ drainMs: 1_000_000 })
  t.match(refused, { error: { code: 'UNKNOWN_AGENT' } })
})

for (const how of ['aborted', 'late']) {
  t.test(`a script that ignores that its run is ${how} is left alone after stopGraceMs`, async (t) => {
    const { opened, open } = gate()
    const warnings: string[] = []
    const codes: string[] = []
    const team = given(t, {
      logger: { ...silent, warn: (_fields, text) => void warnings.push(text) },
      script: async (script, query) => {
        if (query !== 'stuck') return query
        await opened
        for (const verb of [() => script.request('worker', 'go'), () => script.step('mine', () => 1)])
          await verb().catch((error) => codes.push(error.code))
        return 'too late'
      },
    }).team({ worker: () => 'fine' })
    const run = team.launch('stuck', how === 'late' ? { timeoutMs: 100 } : {})
    await team.clock.advance(50)
    if (how === 'aborted') void run.cancel()
    await team.clock.advance(50)
    const code = how === 'late' ? 'RUN_TIMEOUT' : 'RUN_ABORTED'
    t.match(await run.result, { success: false, error: { code } }, 'the caller is told at once')
    await team.clock.advance(5_000)
    t.same(leftovers(team.host), [], 'nothing of the run is under way any more')
    t.match(warnings, [/went on for 5000 ms after its run had ended/])
    t.match(team.deadLetters.list(), [{ reason: 'cancelled', errors: [{ code: 'RUN_ABORTED' }] }])
    t.equal((await team.execute('another run')).finalOutput, 'another run')

    open()
    await team.clock.runToIdle()
    t.same(codes, [code, code])
    t.match(await run.result, { success: false, error: { code }, finalOutput: null })
  })
}

t.test('a draining team does not wait for a script that was left alone', async (t) => {
  const team = openTeam(t, { worker: () => '' }, { script: () => never })
  const run = team.launch('stuck')
  await team.clock.advance(0)
  void run.cancel()
  const closed = outcomeOf(team.close({ drainMs: 1_000_000 }))
  await team.clock.advance(4_999)
  t.equal(closed.settled, false)
  await team.clock.advance(10_001)
  t.equal(closed.settled, true)
})

t.test('runs that wait for a person do not hold a closing team; others do', async (t) => {
  const team = openTeam(t, {
    worker: async ({ content }, context) => {
      if (content === 'work') await context.sleep(1_000)
      else await context.ask('May I?')
      return content
    },
  })
  const asking = ['one', 'two'].map((query) => team.launch(query))
  const working = team.launch('work')
  await team.clock.advance(500)
  t.equal(team.questions().length, 2)
  const closed = outcomeOf(team.close({ drainMs: 20_000 }))
  await team.clock.advance(400)
  t.equal(closed.settled, false)
  await team.clock.advance(200)
  t.equal(closed.settled, true)
  t.equal((await working.result).finalOutput, 'work')
  for (const run of asking) t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } })
})

// Runs that wait for their start: who waits leaves no trace when it is withdrawn, and a draining team still lets
// them begin.

type AdmissionTest = Parameters<typeof localTeam>[0]

/** One run at a time, each of them ten ms long; `begun` has those that reached the agent. */
function oneAtATime(t: AdmissionTest, options: Parameters<typeof localTeam>[2] = {}) {
  const begun: string[] = []
  const team = given(t, { maxConcurrentRuns: 1, ...options }).testTeam({
    async worker({ content }, context) {
      begun.push(content)
      await context.sleep(10)
      return content
    },
  })
  return { team, begun }
}

t.test('a queued run that is aborted ends at once, asks nobody, and leaves its place to the next', async (t) => {
  const { team, begun } = oneAtATime(t, { maxQueuedRuns: 2 })
  const controller = new AbortController()
  const first = team.launch('first')
  const aborted = team.launch('aborted', { signal: controller.signal, priority: 9 })
  const cancelled = team.launch('cancelled')
  await team.clock.advance(1)
  controller.abort(new Error('changed my mind'))
  void cancelled.cancel('no need')
  t.match(await aborted.result, { error: { code: 'RUN_ABORTED', message: /changed my mind/ } })
  t.match(await cancelled.result, { error: { code: 'RUN_ABORTED', message: /no need/ } })
  t.same(team.health().runs, { running: 1, queued: 0 })
  const [second, third] = [team.launch('second'), team.launch('third')]
  await team.clock.advance(100)
  for (const run of [first, second, third]) t.ok((await run.result).success)
  t.same(begun, ['first', 'second', 'third'])
})

t.test('one run is over, one begins: never more than maxConcurrentRuns are under way', async (t) => {
  const { team } = oneAtATime(t, { maxConcurrentRuns: 2 })
  let most = 0
  team.events.subscribe(() => {
    most = Math.max(most, team.health().runs.running)
  })
  const runs = Array.from({ length: 9 }, (_, i) => team.launch(`${i}`))
  await team.clock.advance(1_000)
  for (const run of runs) t.ok((await run.result).success)
  t.equal(most, 2)
})

t.test('maxQueuedRuns 0: nobody waits', async (t) => {
  const { team } = oneAtATime(t, { maxQueuedRuns: 0 })
  const first = team.launch('first')
  t.throws(() => team.launch('second'), { code: 'TEAM_OVERLOADED', details: { running: 1, queued: 0 } })
  await team.clock.advance(100)
  t.ok((await first.result).success)
})

t.test('close with drainMs lets queued runs begin and end, and takes no new ones', async (t) => {
  const { team, begun } = oneAtATime(t)
  const runs = ['1', '2', '3'].map((query) => team.launch(query))
  const closed = outcomeOf(team.close({ drainMs: 1_000 }))
  t.throws(() => team.launch('4'), { code: 'TEAM_CLOSED' })
  await team.clock.advance(29)
  t.equal(closed.settled, false)
  await team.clock.advance(1)
  t.equal(closed.settled, true)
  for (const run of runs) t.ok((await run.result).success)
  t.same(begun, ['1', '2', '3'])
})

t.test('what has not ended when drainMs is over is aborted, queued or not', async (t) => {
  const { team, begun } = oneAtATime(t)
  const runs = ['1', '2', '3'].map((query) => team.launch(query))
  const closed = outcomeOf(team.close({ drainMs: 15 }))
  await team.clock.advance(15)
  const results = await Promise.all(runs.map(({ result }) => result))
  t.match(
    results.map(({ success, error }) => ({ success, code: error?.code })),
    [
      { success: true, code: undefined },
      { success: false, code: 'RUN_ABORTED' },
      { success: false, code: 'RUN_ABORTED' },
    ],
  )
  await team.clock.runToIdle()
  t.equal(closed.settled, true)
  t.same(begun, ['1', '2'])
})

t.test('a team of code loads the packages that it runs by, and no others', async (t) => {
  const { packages, files } = loadedBy(t, 'packages-loaded')
  t.strictSame(packages, ['comlink', 'immer', 'rxjs', 'uuid'])
  t.ok(files <= 20, `${files} files of ours, not one for each module`)
})

t.test('a command whose output is read by a program loads nothing that draws on a terminal', async (t) => {
  t.strictSame(loadedBy(t, 'command-loaded').packages, ['comlink', 'immer', 'rxjs', 'uuid'])
})

function loadedBy(t: Test, name: string): ReturnType<typeof loaded> {
  const program = fileURLToPath(new URL(`../fixtures/team/${name}.js`, import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0, stderr)
  return JSON.parse(stdout)
}

// A team that nobody closes: its process lives as long as somebody waits for it or work is under way, and no longer.

const program = fileURLToPath(new URL('../fixtures/team/forgets-to-close.js', import.meta.url))

/** How the program ends that does that and forgets to close its team. */
async function endOf(what: string): Promise<{ ended: unknown[]; output: string; errors: string }> {
  const child = spawn(process.execPath, [program, what], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit')
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { ended: await exited, output, errors }
}

const WAITED: Record<string, string> = {
  nothing: 'nothing',
  start: 'start',
  execute: 'slept 100',
  'a tool': '',
  'a crash while it starts': 'a crash while it starts',
  close: 'close',
}

for (const [what, waited] of Object.entries(WAITED))
  t.test(`a program that has waited for ${what}, and forgets its team, ends by itself`, async (t) => {
    const { ended, output, errors } = await endOf(what)
    t.same(ended, [0, null], errors)
    t.match(output, `waited: ${waited}`)
  })

for (const what of ['a message that nobody waits for', 'a run that nobody waits for'])
  t.test(`a program that has begun ${what} ends when that is done`, async (t) => {
    const { ended, output, errors } = await endOf(what)
    t.same(ended, [0, null], errors)
    t.match(output, 'waited: ')
    t.match(errors, 'info lazy slept')
  })

// What a service's probes see, from before the start until after the end.

const failing = (times: number): AgentDefinition => {
  let started = 0
  return defineAgent({
    start() {
      if (started++ < times) throw new Error('not yet')
    },
    receive: () => 'at last',
  })
}

t.test('a team that has not started lives, and is not ready', async (t) => {
  const idle = { status: 'starting', queued: 0, inFlight: 0, restarts: 0, lastBeatMs: 0, staleFrames: 0, turns: [] }
  t.same(stage(t, { a: echo, b: echo }).health(), {
    live: true,
    ready: false,
    draining: false,
    agents: { a: idle, b: idle },
    runs: { running: 0, queued: 0 },
    sharedMemoryRepairs: 0,
    deadLetters: 0,
    deadLettersForgotten: 0,
    log: { ok: true, lagMs: 0 },
  })
})

t.test('it is ready when all agents are', async (t) => {
  const team = stage(t, { a: echo, b: echo })
  await team.start()
  t.match(team.health(), {
    live: true,
    ready: true,
    draining: false,
    agents: { a: { status: 'idle' }, b: { status: 'idle' } },
  })
})

t.test('it shows what waits and what is under way', async (t) => {
  const team = stage(t, { a: after(10) })
  for (let i = 0; i < 3; i++) await team.sendMessage({ recipient: 'a', content: String(i) })
  const run = team.launch('q')
  await team.clock.advance(5)
  const { queued, inFlight, status } = team.health().agents.a!
  t.same({ all: queued + inFlight, busy: inFlight > 0, status }, { all: 4, busy: true, status: 'running' })
  t.same(team.health().runs, { running: 1, queued: 0 })
  await team.clock.advance(50)
  await run.result
  t.match(team.health(), { agents: { a: { queued: 0, inFlight: 0, status: 'idle' } }, runs: { running: 0, queued: 0 } })
})

t.test('lastBeatMs is the time since its last turn, or since it is ready', async (t) => {
  const team = stage(t, { a: after(10) })
  await team.start()
  await team.clock.advance(100)
  t.equal(team.health().agents.a!.lastBeatMs, 100)
  const run = team.launch('q')
  await team.clock.advance(25)
  await run.result
  t.equal(team.health().agents.a!.lastBeatMs, 15)
})

t.test('it is not ready while an agent restarts, and counts its restarts', async (t) => {
  const team = stage(t, { a: echo, b: echo }, { supervision: { backoff: { baseMs: 1_000 } } })
  await team.start()
  for (let times = 0; times < 2; times++) {
    team.crash('a')
    await team.clock.advance(0)
  }
  t.match(team.health(), {
    live: true,
    ready: false,
    agents: { a: { status: 'restarting', restarts: 2 }, b: { status: 'idle', restarts: 0 } },
  })
  await team.clock.advance(1_000)
  t.match(team.health(), { ready: true, agents: { a: { status: 'idle', restarts: 2 } } })
})

t.test('an agent that is stopped for good keeps it from being ready until its cool-down is over', async (t) => {
  const team = stage(t, { a: echo }, { supervision: { maxRestarts: 0, coolDownMs: 500 } })
  await team.start()
  team.crash('a')
  await team.clock.advance(0)
  t.match(team.health(), { live: true, ready: false, agents: { a: { status: 'failed' } } })
  await team.clock.advance(500)
  t.match(team.health(), { ready: true, agents: { a: { status: 'idle' } } })
})

t.test('an agent that cannot start keeps it from being ready, and nobody else from working', async (t) => {
  const team = stage(
    t,
    { bad: failing(2), good: echo },
    { orchestration: { strategy: 'sequential', agentOrder: ['good'] } },
  )
  await t.rejects(team.start(), { code: 'START_FAILED', message: /not yet/ })
  t.match(team.health(), { ready: false, agents: { bad: { status: 'failed' }, good: { status: 'idle' } } })
  t.equal((await team.execute('q')).finalOutput, 'good: q')
  t.match(await team.sendMessage({ recipient: 'good', content: 'hi', requiresResponse: true }), { content: 'good: hi' })
  await t.rejects(team.sendMessage({ recipient: 'bad', content: 'hi' }), { code: 'AGENT_TERMINATED' })
})

t.test('one failure to start is made good by trying again', async (t) => {
  const team = stage(t, { a: failing(1) })
  t.equal((await team.execute('q')).finalOutput, 'at last')
  t.equal(team.health().ready, true)
})

t.test('a team that drains is not ready, but lives; a closed one does not', async (t) => {
  const team = stage(t, { a: after(10) })
  team.launch('q')
  await team.clock.advance(0)
  const closing = team.close({ drainMs: 100 })
  t.match(team.health(), { live: true, ready: false, draining: true, runs: { running: 1 } })
  await team.clock.advance(20)
  await closing
  t.match(team.health(), {
    live: false,
    ready: false,
    draining: true,
    agents: { a: { status: 'stopped' } },
    runs: { running: 0 },
  })
})

t.test('closing twice is fine', async (t) => {
  const team = stage(t, { a: echo })
  const first = team.close()
  t.equal(team.close(), first)
  await first
  await team[Symbol.asyncDispose]()
})

t.test('dead letters beyond 64 MiB leave the list, and are counted', async (t) => {
  const team = stage(t, { a: throws() })
  const content = 'x'.repeat(15 * 2 ** 20)
  for (let i = 0; i < 5; i++) {
    await team.sendMessage({ recipient: 'a', content })
    await team.clock.advance(1)
  }
  t.match(team.health(), { deadLetters: 4, deadLettersForgotten: 1 })
  t.equal(team.deadLetters.list().length, 4)
})
