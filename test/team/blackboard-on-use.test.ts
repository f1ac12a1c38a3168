import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'

const writer = defineAgent({
  async receive(message, context) {
    if (message.content === 'write') await context.publish('note', 1, 'fact')
    return 'done'
  },
})

const teamWith = (options: { enableBlackboard?: boolean }) =>
  testTeam(
    { agents: [{ name: 'writer' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { writer } },
  )

t.test('a run has a blackboard as soon as an agent uses it, if the team says nothing of one', async (t) => {
  await using team = teamWith({})
  const written = await team.execute('write')
  t.strictSame(written.blackboardState, { note: 1 })
  t.equal((await team.getBlackboard(written.runId)?.read('note'))?.author, 'writer')
  const idle = await team.execute('nothing')
  t.equal(idle.blackboardState, null)
  t.equal(team.getBlackboard(idle.runId), undefined)
})

t.test('a team that wants no blackboard has none, and says how to have one', async (t) => {
  await using team = teamWith({ enableBlackboard: false })
  const result = await team.execute('write')
  t.match(result, { success: false, blackboardState: null })
  t.match(result.error?.message, /Set enableBlackboard: true/)
})
