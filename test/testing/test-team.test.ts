/** A whole team in the test's own thread, under a virtual clock. */
import t from 'tap'
import { type AgentDefinition, createTeam, defineAgent } from '../../src/index.ts'
import { scriptedModel, testAgent, testTeam, virtualClock } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'

const echo = defineAgent({ receive: ({ content }, { role }) => `${role.name}: ${content}` })
const slow = defineAgent({
  async receive(_message, context) {
    await context.sleep(1_000)
    return `attempt ${context.attempt}`
  },
})
const sequential = { strategy: 'sequential' as const }

t.test('it runs like a team, with the code that it is given', async (t) => {
  await using team = testTeam(
    { agents: [{ name: 'a' }, { name: 'b' }], orchestration: sequential },
    { modules: { a: echo, b: echo } },
  )
  t.match(await team.execute('q'), { success: true, finalOutput: 'b: a: q' })
})

t.test('time passes by its clock alone', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const run = team.launch('q')
  await team.clock.advance(999)
  t.equal(run.status, 'running')
  await team.clock.advance(1)
  t.equal(run.status, 'finished')
  t.equal(team.clock.now(), 1_000)
})

t.test('runToIdle lets a run end', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const run = team.launch('q')
  await team.clock.runToIdle()
  t.match(await run.result, { success: true, executionTimeMs: 1_000 })
})

t.test('the clock that it is given is its clock, and can be shared', async (t) => {
  const clock = virtualClock({ startAt: 5_000 })
  const make = () => testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { clock, modules: { a: slow } })
  await using one = make()
  await using other = make()
  t.equal(one.clock, clock)
  const runs = [one.launch('q'), other.launch('q')]
  await clock.advance(1_000)
  t.same(pluck(runs, 'status'), ['finished', 'finished'])
  t.match((await runs[0]!.result).orchestrationTrace.events[0], { eventType: 'run.started', timestamp: 5_000 })
})

t.test('crash ends the life of an agent, which starts again with its message', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: slow } })
  const crashed: unknown[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashed.push(event.error.message)))
  const run = team.launch('q')
  await team.clock.advance(500)
  team.crash('a')
  await team.clock.advance(1_000)
  t.match(await run.result, { finalOutput: 'attempt 2', executionTimeMs: 1_000 })
  t.match(crashed, [/ended the life of agent "a"|outside of a turn/])
})

t.test('a message whose agent crashes three times is poison, as with any crash', async (t) => {
  await using team = testTeam(
    { agents: [{ name: 'a', supervision: { backoff: { baseMs: 0, capMs: 0 } } }], orchestration: sequential },
    { modules: { a: slow } },
  )
  const run = team.launch('q')
  for (const status of ['running', 'running', 'failed']) {
    await team.clock.advance(300)
    team.crash('a')
    await team.clock.advance(0)
    t.equal(run.status, status)
  }
  t.match((await run.result).error, { code: 'AGENT_CRASHED', details: { attempts: 3 } })
  t.match(team.deadLetters.list(), [{ reason: 'poison', errors: [{}, {}, {}] }])
})

t.test('nobody can crash who is not alive', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: echo } })
  t.throws(() => team.crash('a'), { code: 'UNKNOWN_AGENT', message: /No agent "a" is alive/ })
  t.throws(() => team.crash('zoe' as never), { code: 'UNKNOWN_AGENT' })
})

t.test('the same seed gives the same order of what happens at one time, another seed another', async (t) => {
  const order = async (seed: number) => {
    const names: string[] = []
    const notes = defineAgent({ receive: (_message, { role }) => void names.push(role.name) })
    const agents = Array.from({ length: 8 }, (_, i) => ({ name: `a${i}` }))
    const modules = Object.fromEntries(agents.map(({ name }) => [name, notes]))
    await using team = testTeam(
      { agents, maxConcurrentAgents: 8, orchestration: { strategy: 'parallel', maxConcurrent: 8 } },
      { seed, modules },
    )
    await team.execute('q')
    return names.join(' ')
  }
  const orders = await Promise.all([1, 2, 3, 4, 5].map(order))
  t.same(await Promise.all([1, 2, 3, 4, 5].map(order)), orders)
  t.ok(new Set(orders).size > 1)
})

t.test('ids of runs and messages follow from the seed too', async (t) => {
  const ids = async (seed: number) => {
    await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { seed, modules: { a: echo } })
    const { runId, messageHistory } = await team.execute('q')
    return [runId, ...messageHistory.map(({ id }) => id)]
  }
  t.same(await ids(3), await ids(3))
  t.not((await ids(3))[0], (await ids(4))[0])
})

t.test('chance is that of the message, so a turn that is tried again draws the same', async (t) => {
  const drawn: number[][] = []
  const draws = defineAgent({
    async receive(_message, context) {
      drawn.push([context.random(), context.random()])
      await context.sleep(10)
    },
  })
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: draws } })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(20)
  await run.result
  t.equal(drawn.length, 2)
  t.same(drawn[0], drawn[1])
})

t.test('a handler that never ends does not keep the team from closing', async (t) => {
  const stuck = defineAgent({ receive: () => new Promise<void>(() => {}) })
  const team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: stuck } })
  const run = team.launch('q')
  await team.clock.advance(0)
  await team.close()
  t.equal(run.status, 'aborted')
})

t.test('a team that closes in order lets no time pass', async (t) => {
  const team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: echo } })
  await team.execute('q')
  await team.close()
  t.equal(team.clock.now(), 0)
})

t.test('code for an agent that is not in the team is refused, and a model that is none', async (t) => {
  const options = { agents: [{ name: 'a' }], orchestration: sequential }
  t.throws(() => testTeam(options, { modules: { a: echo, zoe: echo } as Record<string, AgentDefinition> }), {
    code: 'CONFIGURATION',
    details: { path: 'modules.zoe' },
  })
  t.throws(() => testTeam(options, { modules: { a: echo }, model: {} as never }), { code: 'CONFIGURATION' })
})

t.test('what is no agent is refused when the team starts', async (t) => {
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential }, { modules: { a: {} } })
  await t.rejects(team.start(), { code: 'CONFIGURATION', details: { path: 'modules.a' } })
})

t.test('an agent with a module of its own is imported into this thread', async (t) => {
  const module = new URL('../fixtures/team/counter.js', import.meta.url)
  await using team = testTeam(
    { agents: [{ name: 'a', module }, { name: 'b' }], orchestration: sequential },
    { modules: { b: echo } },
  )
  t.equal((await team.execute('q')).finalOutput, 'b: 1')
})

t.test('a protocol in a module is imported into this thread too', async (t) => {
  const module = new URL('../fixtures/team/relay.js', import.meta.url)
  const orchestration = { strategy: 'custom' as const, module, config: { runners: ['a'], laps: 2 } }
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration }, { modules: { a: echo } })
  t.equal((await team.execute('>')).finalOutput, 'a: echo:a: echo:>aa a')
  await using wrong = testTeam(
    { agents: [{ name: 'a' }], orchestration: { ...orchestration, config: { laps: 'two' } } },
    { modules: { a: echo } },
  )
  await t.rejects(wrong.execute('q'), { code: 'CONFIGURATION', details: { path: 'orchestration.config.runners' } })
})

t.test('its clock can be given to a team on threads', async (t) => {
  const clock = virtualClock()
  const module = new URL('../fixtures/team/counter.js', import.meta.url)
  await using team = createTeam({ agents: [{ name: 'a', module }], orchestration: sequential, clock })
  t.equal((await team.execute('q')).finalOutput, '1')
})

t.test('a model that a test gives is asked again where the same model is asked again in life', async (t) => {
  const options = { agents: [{ name: 'ann' }], orchestration: sequential }
  const script = [{ fail: 'rate_limit' }, { fail: 'server' }, { reply: 'at last' }] as const
  const given = scriptedModel(script)
  await using team = testTeam(options, { model: given })
  t.match(await team.execute('q'), { success: true, finalOutput: 'at last' }, 'no test has to let the pauses pass')
  given.assertDone()
  t.equal(team.clock.now(), 0)

  const own = scriptedModel(script)
  await using alike = testTeam({ ...options, models: { default: own } })
  const run = alike.launch('q')
  await alike.clock.runToIdle()
  t.match(await run.result, { success: true, finalOutput: 'at last' })
  t.same(given.calls, own.calls)
})

t.test('what a model of a test fails with for good says how often it was asked, as in life', async (t) => {
  const model = scriptedModel(Array(5).fill({ fail: 'server' }))
  await using team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: sequential, communication: { turnRetries: 0 } },
    { model },
  )
  t.match(await team.execute('q'), { success: false, error: { message: /It was asked 5 times/ } })
  model.assertDone()
})

t.test('one agent alone has the same model', async (t) => {
  const model = scriptedModel([{ fail: 'timeout' }, { reply: 'yes' }])
  const asks = defineAgent({ receive: async (_message, context) => (await context.complete({ prompt: 'Well?' })).text })
  const agent = testAgent(asks, { model })
  t.equal((await agent.request('go')).content, 'yes')
})
