/** What a service's probes see, from before the start until after the end. */
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import { after, echo, stage, throws } from './stage.ts'

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
