/** Rules 19 and 24 on real threads: what a turn has open tells whether it works or waits. */
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions } from '../../src/index.ts'
import { silent } from './teams.ts'

const module = new URL('../fixtures/supervision/asks-as-told.js', import.meta.url)
type Test = Pick<typeof t, 'teardown'>

function teamOf(t: Test, agents: Record<string, object>, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: Object.entries(agents).map(([name, data]) => ({ name, module, data })),
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
