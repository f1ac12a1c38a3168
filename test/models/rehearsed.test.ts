/** Teams that have no model: the rehearsal model plays their roles, and says so. */
import t from 'tap'
import { z } from 'zod'
import type { RuntimeEvent } from '../../src/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { rehearse, testTeam } from '../../src/testing.ts'
import { quietly } from './notices.ts'

const agents = [{ name: 'ann' }, { name: 'bob' }]
const orchestration = { strategy: 'sequential' } as const

t.test('a team that asks for it is rehearsed, labelled everywhere, without a notice', async (t) => {
  const { logger, lines } = quietly()
  const team = testTeam({ agents, orchestration, models: 'rehearsal', logger })
  t.teardown(() => team.close())
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void events.push(event))
  const result = await team.execute('REST or GraphQL?')
  t.match(result, { success: true, rehearsed: true, finalOutput: /^\[rehearsal\] bob was asked/ })
  t.ok(result.totalTokenUsage.inputTokens > 10 && result.totalTokenUsage.calls === 2)
  const called = events.filter(({ type }) => type === 'model.called')
  t.match(called, [{ rehearsed: true }, { rehearsed: true }])
  t.same(lines, [])
})

t.test('the same team says the same again', async (t) => {
  const said = async () => {
    const team = testTeam({ agents, orchestration, models: 'rehearsal' })
    const { finalOutput } = await team.execute('Why?')
    await team.close()
    return finalOutput
  }
  t.equal(await said(), await said())
})

t.test('an answer in a schema fits it', async (t) => {
  const team = testTeam({ agents, orchestration, models: 'rehearsal' })
  t.teardown(() => team.close())
  const output = z.object({ winner: z.enum(['REST', 'GraphQL']), points: z.int().min(1).max(10) })
  const result = await team.execute('REST or GraphQL?', { output })
  t.ok(result.success && output.safeParse(result.data).success)
})

t.test('without a model and a key it is rehearsed with one notice; in production that is an error', async (t) => {
  const { logger, lines } = quietly()
  const options = { agents, orchestration, logger }
  const settings = settingsFrom(options, { env: {} })
  for (const path of ['first', 'second']) t.equal(settings.models.resolve(undefined, path).client.rehearsal, true)
  t.match(lines, ['warn no model is configured, so the rehearsal model answers'])
  t.equal(lines.length, 1)
  t.throws(() => settingsFrom(options, { env: { NODE_ENV: 'production' } }), {
    code: 'CONFIGURATION',
    details: { path: 'agents[0].module' },
  })
  t.ok(settingsFrom({ ...options, models: 'rehearsal' }, { env: { NODE_ENV: 'production' } }))
})

t.test('it can be played through many schedules', async (t) => {
  const options = { agents, orchestration, models: 'rehearsal' } as const
  const plan = { query: 'REST or GraphQL?', seeds: 5 }
  const { outcomes, failures } = await rehearse(options, { ...plan, faults: ['crash', 'delay'] })
  t.same(failures, [])
  t.equal(outcomes.done, 5)
})
