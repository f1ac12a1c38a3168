/** The strategy hierarchical on real threads. */
import t from 'tap'
import { createTeam } from '../../src/index.ts'

const module = (name: string) => new URL(`../fixtures/team/${name}.js`, import.meta.url)

t.test('a manager and workers on threads, of which one dies in the middle of each task', async (t) => {
  const team = createTeam({
    agents: [
      { name: 'lead', module: module('lead') },
      { name: 'ann', module: module('digger'), data: { dies: true } },
      { name: 'bob', module: module('digger'), data: {} },
    ],
    orchestration: { strategy: 'hierarchical', manager: 'lead', workers: ['ann', 'bob'] },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const { finalOutput, failures, taskCompletion } = await team.execute('the job')
  t.same(finalOutput?.split('\n'), [
    'ann reports: Well, ann.',
    'ann reports: Well, ann.',
    'bob reports: Well, bob.',
    'bob reports: Well, bob.',
    'ann: done by attempt 2, workerAutonomy is 1',
    'bob: done by attempt 1, workerAutonomy is 1',
  ])
  t.same(
    failures.map(({ error }) => error.code),
    Array(4).fill('DELEGATION_REFUSED'),
  )
  const fates = Object.values(taskCompletion)
  t.equal(fates.filter((fate) => fate === 'refused').length, 4)
  t.equal(fates.filter((fate) => fate === 'completed').length, fates.length - 4)
})
