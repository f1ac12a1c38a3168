/** Groups of requests that a turn waits for together: how many answers each still needs. */
import t from 'tap'
import { WaitingGroups } from '../../src/runtime/host/agent.ts'

const TURN = 7

t.test('a group needs what its turn says, and a turn has several', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  groups.note(TURN, 2, 0, 1)
  groups.note(TURN + 1, 1, 2, 1)
  t.same([groups.of(TURN, 1), groups.of(TURN, 2), groups.of(TURN + 1, 1)], [{ need: 3 }, { need: 0 }, { need: 2 }])
  t.equal(groups.of(TURN, 0), undefined, 'a request that waits alone is in none')
  t.end()
})

t.test('a later group of a turn with the same number is another', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  const first = groups.of(TURN, 1)
  groups.note(TURN, 1, 2, 1)
  t.not(groups.of(TURN, 1), first, 'requests of the first are counted apart')
  t.same([first, groups.of(TURN, 1)], [{ need: 3 }, { need: 2 }])
  t.end()
})

t.test('a turn that comes again needs one answer more, with the requests that it has open', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  const open = groups.of(TURN, 1)
  groups.note(TURN, 1, 3, 2)
  t.equal(groups.of(TURN, 1), open)
  t.same(open, { need: 1 })
  groups.note(TURN, 2, 0, 2)
  t.same(groups.of(TURN, 2), { need: 0 }, 'all are needed all the same')
  t.end()
})

t.test('requests of an earlier process form one group that needs one answer, until the turn comes again', (t) => {
  const groups = new WaitingGroups()
  const restored = groups.restore(TURN, 1)
  t.equal(groups.restore(TURN, 1), restored)
  t.match(restored, { need: 1 })
  groups.note(TURN, 1, 0, 1)
  t.equal(groups.of(TURN, 1), restored)
  t.match(restored, { need: 0 })
  t.equal(groups.restore(TURN, 0), undefined)
  t.end()
})

t.test('a group that this process knows is not restored anew', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  t.same(groups.restore(TURN, 1), { need: 3 })
  t.end()
})

t.test('the groups of a turn that is over are forgotten, and no others', (t) => {
  const groups = new WaitingGroups()
  groups.note(TURN, 1, 3, 1)
  groups.note(TURN, 2, 3, 1)
  groups.note(TURN + 1, 1, 2, 1)
  groups.forget(TURN)
  t.same([groups.of(TURN, 1), groups.of(TURN, 2), groups.of(TURN + 1, 1)], [undefined, undefined, { need: 2 }])
  t.end()
})
