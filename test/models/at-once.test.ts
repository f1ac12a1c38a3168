/** How many models think at once, and what the log says when more want to. */
import t from 'tap'
import type { Logger, RuntimeEvent } from '../../src/index.ts'
import { LimitNotices } from '../../src/runtime/logging/limit-notices.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { gate, silent } from '../kit/team.ts'
import { doing } from '../toolbox/tools.ts'
import { calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const named = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `agent${i}` }))
const parallel = { strategy: 'parallel' } as const

/** Answers when so many ask at once. */
function together(count: number): FakeModel {
  const { open, opened } = gate()
  let asking = 0
  return new FakeModel(async () => {
    asking += 1
    if (asking === count) open()
    await opened
    return 'thought'
  })
}

function lines(): { logger: Logger; said: string[] } {
  const said: string[] = []
  return { said, logger: { ...silent, info: (_fields, text) => void said.push(text) } }
}

t.test('twenty model agents in parallel are all at their model at once', async (t) => {
  const { team } = modelTeam(t, together(20), named(20), { orchestration: parallel })
  t.equal((await team.execute('go')).failures.length, 0)
})

t.test('twenty model agents are all at their provider at once', async (t) => {
  const server = await modelServer(t)
  const { open, opened } = gate()
  server.always({ text: 'thought', after: opened })
  const models = { default: { model: 'small', baseURL: server.baseURL } }
  const team = testTeam({ agents: named(20), models, orchestration: parallel, logger: silent })
  t.teardown(() => team.close())
  const run = team.execute('go')
  await server.called(20)
  open()
  t.equal((await run).failures.length, 0)
})

t.test('one model agent thinks for twenty runs at once', async (t) => {
  const { team } = modelTeam(t, together(20), named(1), { orchestration: { strategy: 'sequential' } })
  const results = await Promise.all(Array.from({ length: 20 }, () => team.execute('go')))
  t.ok(results.every(({ success }) => success))
})

for (const [option, options, role] of [
  ['maxConcurrentAgents', { maxConcurrentAgents: 2 }, {}],
  ['maxConcurrentRuns', { maxConcurrentRuns: 1 }, {}],
  ['orchestration.maxConcurrent', { orchestration: { ...parallel, maxConcurrent: 2 } }, {}],
  ['concurrency of "agent0"', {}, { concurrency: 2 }],
] as const)
  t.test(`the log names ${option} when something waits for it, once`, async (t) => {
    const { logger, said } = lines()
    const agents = named(4).map((agent) => ({ ...agent, ...role }))
    const { team } = modelTeam(t, () => 'thought', agents, { orchestration: parallel, logger, ...options })
    await Promise.all(Array.from({ length: 4 }, () => team.execute('go')))
    const about = said.filter((text) => text.startsWith(`${option} (`))
    t.match(about[0], /^.* \(\d+\) is reached: /)
    t.equal(about.length, 1)
  })

t.test('the log and an event name maxParallelToolCalls when calls of an answer wait for it', async (t) => {
  const { logger, said } = lines()
  const answers = [calls(['act', {}], ['act', {}], ['act', {}]), 'done']
  const agents = [{ name: 'ann', tools: [doing(() => 'done')], maxParallelToolCalls: 2 }]
  const { team } = modelTeam(t, answers, agents, { logger })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void (event.type === 'limit.reached' && events.push(event)))
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.match(events, [{ option: 'maxParallelToolCalls', limit: 2, agent: 'ann', runId: /./ }])
  t.same(said, ['maxParallelToolCalls (2) is reached: of 3 calls of one answer the others wait'])
})

t.test('nothing is said where nothing waits', async (t) => {
  const { logger, said } = lines()
  const { team } = modelTeam(t, () => 'thought', named(20), { orchestration: parallel, logger })
  await team.execute('go')
  t.same(said, [])
})

t.test('a limit that is reached for long is said again after a minute', async (t) => {
  const { logger, said } = lines()
  const clock = virtualClock()
  const limits = new LimitNotices(clock, logger)
  for (let i = 0; i < 3; i++) {
    limits.reached({ option: 'maxConcurrentRuns', limit: 2 }, 'runs wait')
    limits.reached({ option: 'maxConcurrentAgents', limit: 3 }, 'agents wait')
    await clock.advance(30_000)
  }
  t.same(said, [
    'maxConcurrentRuns (2) is reached: runs wait',
    'maxConcurrentAgents (3) is reached: agents wait',
    'maxConcurrentRuns (2) is reached: runs wait',
    'maxConcurrentAgents (3) is reached: agents wait',
  ])
})
