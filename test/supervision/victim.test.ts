/** Rule 26, without a team: who of a cycle gives its wait up. */
import t from 'tap'
import { type Candidate, chooseVictim } from '../../src/runtime/observers/deadlock.ts'

const equal = { priority: 0, tokens: 0, since: 100 }
const candidate = (agent: string, differs: Partial<Candidate> = {}): Candidate => ({ agent, ...equal, ...differs })

function victimOf(cycle: readonly Candidate[], earlier: readonly string[] = []) {
  return chooseVictim(cycle, earlier)?.agent
}

t.test('the victim has the lowest priority, whatever it has spent and however long it waits', async (t) => {
  const cycle = [candidate('urgent', { priority: 1 }), candidate('least', { priority: -1, tokens: 9, since: 1 })]
  t.equal(victimOf([...cycle, candidate('plain')]), 'least')
})

t.test('of the same priority it has spent the fewest tokens, however long it waits', async (t) => {
  t.equal(victimOf([candidate('rich', { tokens: 500 }), candidate('poor', { tokens: 20, since: 1 })]), 'poor')
})

t.test('of the same priority and tokens it has the youngest wait, and of equals it is the first', async (t) => {
  t.equal(victimOf([candidate('old', { since: 10 }), candidate('young'), candidate('middle', { since: 30 })]), 'young')
  t.equal(victimOf([candidate('old', { since: 10 }), candidate('one'), candidate('other')]), 'one')
})

t.test('nobody is the victim more than three times in a row', async (t) => {
  const cycle = [candidate('first'), candidate('second', { priority: 1 }), candidate('third', { priority: 2 })]
  t.equal(victimOf(cycle, ['first', 'first']), 'first')
  t.equal(victimOf(cycle, ['first', 'first', 'first']), 'second')
  t.equal(victimOf(cycle, ['second', 'first', 'first', 'first', 'first']), 'second')
})

t.test('who was spared once may be the victim again', async (t) => {
  const cycle = [candidate('first'), candidate('second', { priority: 1 })]
  t.equal(victimOf(cycle, ['first', 'first', 'first', 'second']), 'first')
  t.equal(victimOf(cycle, ['first', 'first', 'second', 'first']), 'first')
})

t.test('over many deadlocks of the same cycle, each fourth victim is another', async (t) => {
  const cycle = [candidate('first'), candidate('second', { priority: 1 }), candidate('third', { priority: 2 })]
  const victims: string[] = []
  for (let i = 0; i < 8; i++) victims.push(victimOf(cycle, victims)!)
  t.same(victims, ['first', 'first', 'first', 'second', 'first', 'first', 'first', 'second'])
})

t.test('a cycle of one agent alone is broken at that agent, however often it was the victim', async (t) => {
  const cycle = [candidate('alone', { priority: 1 }), candidate('alone')]
  t.equal(chooseVictim(cycle, Array(5).fill('alone')), cycle[1])
})

t.test('only who is in the cycle is a victim, and without a cycle there is none', async (t) => {
  const cycle = [candidate('one', { priority: 5 }), candidate('other', { priority: 4 })]
  t.equal(victimOf(cycle, ['bystander']), 'other')
  t.equal(victimOf([], ['bystander']), undefined)
})

t.test('the cycle that was given stays in its order', async (t) => {
  const cycle = [candidate('one', { priority: 5 }), candidate('other', { priority: 4 })]
  chooseVictim(cycle, [])
  t.same(
    cycle.map(({ agent }) => agent),
    ['one', 'other'],
  )
})
