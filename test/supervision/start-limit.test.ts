/** Rule 11: a start that does not end is a start that failed. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { createTeam } from '../../src/index.ts'
import { ask, localTeam, never, outcomeOf, silent } from './teams.ts'

t.test('rule 11: an agent whose start does not end within turnTimeoutMs is tried twice, then stopped', async (t) => {
  let starts = 0
  const worker = defineAgent({
    start() {
      starts += 1
      return never
    },
    receive: () => '',
  })
  const team = localTeam(
    t,
    { worker, other: () => 'fine' },
    { roles: { worker: { limits: { turnTimeoutMs: 1_000 } } } },
  )
  const started = outcomeOf(team.start())
  await team.clock.advance(999)
  t.equal(starts, 1)
  await team.clock.advance(1)
  t.equal(starts, 2)
  t.equal(started.settled, false)
  await team.clock.advance(1_000)
  t.match(started.error, {
    code: 'START_FAILED',
    message: /^Agent "worker" failed twice while it started: The start of agent "worker" .* did not end within 1000 ms/,
    details: { agent: 'worker' },
  })
  t.equal(await ask(team, 'other'), 'fine')
  await team.clock.advance(3_600_000)
  t.same([starts, team.getAgentStatus('worker')], [2, 'failed'])
})

t.test('rule 11: a start has 300 s unless told otherwise, and all the time with turnTimeoutMs false', async (t) => {
  const slow = (ms: number) => {
    const worker = defineAgent({ start: () => team.clock.sleep(ms), receive: () => 'fine' })
    const team = localTeam(
      t,
      { worker },
      ms > 300_000 ? { roles: { worker: { limits: { turnTimeoutMs: false } } } } : {},
    )
    return team
  }
  for (const ms of [299_999, 1_000_000]) {
    const team = slow(ms)
    const started = outcomeOf(team.start())
    await team.clock.advance(ms)
    t.equal(started.settled, true)
    t.equal(await ask(team, 'worker'), 'fine')
  }
})

t.test('rule 11: what a start that was given up still does is seen by nobody', async (t) => {
  const states: number[] = []
  let starts = 0
  const worker = defineAgent({
    initialState: { starts: 0 },
    async start({ setState }) {
      const mine = ++starts
      if (mine === 1) await team.clock.sleep(5_000)
      setState((state) => {
        state.starts = mine
      })
    },
    receive: (_message, { state }) => void states.push(state.starts),
  })
  const team = localTeam(t, { worker }, { roles: { worker: { limits: { turnTimeoutMs: 1_000 } } } })
  const first = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(1_000)
  t.equal(first.settled, true)
  await team.clock.advance(10_000)
  await ask(team, 'worker')
  t.same(states, [2, 2])
})

for (const module of ['loops-while-it-starts', 'never-loads']) {
  t.test(`rule 11: a thread that ${module.replaceAll('-', ' ')} is ended, and its agent stopped`, async (t) => {
    const team = createTeam({
      logger: silent,
      threads: { warmSpares: 0 },
      agents: [
        {
          name: 'worker',
          module: new URL(`../fixtures/supervision/${module}.js`, import.meta.url),
          limits: { turnTimeoutMs: 200 },
        },
        { name: 'other', module: new URL('../fixtures/supervision/exits.js', import.meta.url) },
      ],
      orchestration: { strategy: 'custom', run: async (script) => (await script.request('other', 'go')).content },
    })
    t.teardown(() => team.close())
    await t.rejects(team.start(), { code: 'START_FAILED', message: /"worker".* did not end within 200 ms/ })
    t.equal((await team.execute('go')).finalOutput, 'attempt 1, counted in 1')
    await team.close()
  })
}
