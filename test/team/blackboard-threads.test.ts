/** The blackboard protocol on real threads. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'

const module = new URL('../fixtures/team/contributor.js', import.meta.url)

t.test('entries decide who works when, on threads of which two die once after they have written', async (t) => {
  const team = createTeam({
    agents: [
      { name: 'writer', module, data: { needs: 'finding.done', key: 'report' } },
      { name: 'analyst', module, data: { needs: 'dataset.done', key: 'finding', dies: true } },
      { name: 'collector', module, data: { key: 'dataset', dies: true } },
    ],
    orchestration: {
      strategy: 'blackboard',
      interests: { collector: ['query'], analyst: ['dataset.done'], writer: ['finding.done'] },
    },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const run = team.launch('q')
  const { finalOutput, failures, messageHistory } = await run.result
  t.same(finalOutput?.split('\n'), [
    '- dataset (fact by collector): by collector',
    '- dataset.done (progress by collector): attempt 2',
    '- finding (fact by analyst): by analyst',
    '- finding.done (progress by analyst): attempt 2',
    '- report (fact by writer): by writer',
    '- report.done (progress by writer): attempt 1',
  ])
  t.same(failures, [])
  const asked = messageHistory.filter(({ type, sender }) => type === 'request' && sender === '$orchestrator')
  t.same(pluck(asked, 'recipient'), ['collector', 'analyst', 'writer'])
  for (const key of ['dataset', 'finding', 'report']) t.equal((await run.blackboard?.getHistory(key))?.length, 1, key)
})
