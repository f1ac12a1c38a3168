import t from 'tap'
import { vote } from '../../src/actors/model/decisions.ts'
import { ConsensusError } from '../../src/shared/errors.ts'

const ballots = (values: Record<string, unknown>) => Object.entries(values).map(([agent, value]) => ({ agent, value }))

t.test('a heavier voter wins over a lighter one', async (t) => {
  const verdict = vote(ballots({ x: 'alpha', y: 'beta' }), { x: 2, y: 1 })
  t.same(verdict, { winner: 'alpha', scores: { alpha: 2, beta: 1 }, tied: false })
})

t.test('document 000, scenario 1: a tie goes to the first result seen', async (t) => {
  const verdict = vote(ballots({ X: 'Action Alpha', Y: 'Action Beta', Z: 'Action Beta' }), { X: 2, Y: 1, Z: 1 })
  t.same(verdict, { winner: 'Action Alpha', scores: { 'Action Alpha': 2, 'Action Beta': 2 }, tied: true })
})

t.test('document 000, scenario 2: one null weight makes it a majority vote', async (t) => {
  const verdict = vote(ballots({ P: 'Proceed', Q: 'Wait', R: 'Proceed' }), { Q: null })
  t.same(verdict, { winner: 'Proceed', scores: { Proceed: 2, Wait: 1 }, tied: false })
})

t.test('a weight that is not finite makes it a majority vote', async (t) => {
  for (const weight of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    const { winner, scores } = vote(ballots({ a: 'yes', b: 'no', c: 'no' }), { a: 100, b: weight })
    t.same({ winner, scores }, { winner: 'no', scores: { yes: 1, no: 2 } }, String(weight))
  }
})

t.test('the weight of an agent that does not vote changes nothing', async (t) => {
  t.equal(vote(ballots({ a: 'yes', b: 'no', c: 'no' }), { a: 3, absent: null }).winner, 'yes')
})

t.test('a voter without a weight counts 1, whatever its name', async (t) => {
  const verdict = vote(ballots({ constructor: 'yes', toString: 'yes', c: 'no' }), { c: 1.5 })
  t.same(verdict, { winner: 'yes', scores: { yes: 2, no: 1.5 }, tied: false })
})

t.test('objects are compared by structure, the order of their keys ignored', async (t) => {
  const values = { a: { x: 1, y: [1, { p: 1, q: 2 }] }, b: { z: 0 }, c: { y: [1, { q: 2, p: 1 }], x: 1 } }
  const verdict = vote(ballots(values), {})
  t.same(verdict, { winner: values.a, scores: { '{"x":1,"y":[1,{"p":1,"q":2}]}': 2, '{"z":0}': 1 }, tied: false })
})

t.test('the order of a list counts', async (t) => {
  t.equal(vote(ballots({ a: [1, 2], b: [2, 1] }), {}).tied, true)
})

t.test('a field that is undefined counts as absent', async (t) => {
  t.same(vote(ballots({ a: { x: 1, y: undefined }, b: { x: 1 } }), {}).scores, { '{"x":1}': 2 })
})

t.test('a text and the value that it spells are two values', async (t) => {
  t.same(vote(ballots({ a: '1', b: 1, c: 1 }), {}), { winner: 1, scores: { '"1"': 1, 1: 2 }, tied: false })
})

t.test('a value called __proto__ is counted like any other', async (t) => {
  t.same(Object.entries(vote(ballots({ a: '__proto__' }), {}).scores), [['__proto__', 1]])
})

t.test('a sum of fractions ties with its total', async (t) => {
  const { tied, winner } = vote(ballots({ a: 'total', b: 'parts', c: 'parts' }), { a: 0.3, b: 0.1, c: 0.2 })
  t.same({ tied, winner }, { tied: true, winner: 'total' })
})

t.test('without ballots nobody can win', async (t) => {
  t.throws(
    () => vote([], {}),
    new ConsensusError('Nobody voted: there is no ballot to count. Give vote() at least one.'),
  )
})

t.test('a value that is not JSON is refused with its place', async (t) => {
  const cast = () => vote(ballots({ a: { at: 1 }, b: { at: new Date(0) } }), {})
  t.throws(cast, { code: 'CONSENSUS', message: /^ballots\[1\]\.value\.at is a Date/ })
})
