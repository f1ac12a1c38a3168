/** The names that a thread knows: of the team, of runs, and of those who join later. */
import t from 'tap'
import { Names, NO_RUN, type RunView } from '../../src/actors/turn/run-views.ts'

const run = (): RunView => ({ ...NO_RUN })
const team = () => new Names('$runtime\n$user\n$orchestrator\nann\n\nbob')

t.test('a name and its index lead to each other', async (t) => {
  const names = team()
  t.same(
    [0, 1, 2, 3, 5].map((index) => names.name(index)),
    ['$runtime', '$user', '$orchestrator', 'ann', 'bob'],
  )
  for (const again of [1, 2])
    t.same(
      ['ann', 'bob'].map((name) => names.indexOf(name, run())),
      [3, 5],
      `time ${again}`,
    )
  t.ok([0, 1, 2, 3, 5].every((index) => names.isKnown(index)))
})

t.test('what nobody has told this thread is left to the host', async (t) => {
  const names = team()
  for (const name of ['cid', '', 'an', 'nn\n', '$user', '$other']) t.equal(names.indexOf(name, run()), undefined, name)
  t.same([names.name(4), names.name(6)], ['#4', '#6'])
  t.notOk(names.isKnown(4), 'it was an agent of a run')
  t.notOk(names.isKnown(6))
})

t.test('who joins the team is known from then on, and counts as late', async (t) => {
  const names = team()
  names.learn('cid', 6, undefined)
  t.same([names.name(6), names.indexOf('cid', run()), names.isKnown(6)], ['cid', 6, true])
  t.ok(names.late.has('cid'))
  t.notOk(names.late.has('bob'))
  t.equal(names.name(5), 'bob')
})

t.test('an agent of a run is known by name in that run alone, before an agent of the team', async (t) => {
  const names = team()
  const [its, other] = [run(), run()]
  names.learn('bob', 4, its)
  t.same([names.indexOf('bob', its), names.indexOf('bob', other)], [4, 5])
  t.equal(names.name(4), 'bob')
  t.notOk(names.isKnown(4), 'the index belongs to another agent after the run')
})
