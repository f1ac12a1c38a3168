/** State that agents on real threads change at once, while some of them die. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { disagreements } from './result-accounts.ts'

const module = new URL('../fixtures/team/adds.js', import.meta.url)
const names = ['a', 'b', 'c', 'd'] as const

t.test('200 updates from four threads at once, of which two die half-way, all count, and each once', async (t) => {
  const team = createTeam({
    agents: names.map((name, i) => ({ name, module, data: { times: 50, dies: i % 2 === 1 } })),
    orchestration: {
      strategy: 'custom',
      async run(orchestrator, query) {
        const answers = await orchestrator.requestAll([...names], query)
        const halves = await Promise.all(names.map((name) => orchestrator.shared('agent_shared', name).get('halves')))
        const sum = await orchestrator.shared('team_shared').get('sum')
        const attempts = answers.map((answer) => (answer.ok ? answer.message.content : answer.error.message))
        return { content: attempts.join(' '), structuredData: { sum, halves } }
      },
    },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const result = await team.execute('add')
  const { finalOutput, messageHistory } = result
  t.equal(finalOutput, '1 2 1 2')
  t.same(messageHistory.at(-1)?.structuredData, { sum: 200, halves: [1, 1, 1, 1] })
  t.same(disagreements(result), [])
})
