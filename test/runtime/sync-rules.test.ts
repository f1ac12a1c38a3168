import t from 'tap'
import { fateOf, missingAt, resultOf } from '../../src/runtime/verbs/sync-points.ts'

const point = {
  name: 'noon',
  requiredAgents: ['ann', 'bob', 'cid'],
  timeoutMs: 1_000,
  onTimeout: 'proceed' as const,
  dataExchange: true,
}
const arrived = (...names: string[]) => new Map(names.map((name) => [name, { data: `of ${name}` }]))
const gone =
  (...names: string[]) =>
  (name: string) =>
    names.includes(name)

t.test(
  'a generation is complete with the last arrival, and lost as soon as one that is missing will never come',
  async (t) => {
    t.equal(fateOf(point, arrived('ann', 'bob'), gone()), 'open')
    t.equal(fateOf(point, arrived('cid', 'bob', 'ann'), gone()), 'complete')
    t.equal(fateOf(point, arrived('ann'), gone('cid')), 'lost')
    t.equal(fateOf(point, arrived('ann', 'bob', 'cid'), gone('cid')), 'complete', 'who has arrived is not missed')
  },
)

t.test('where nobody has arrived it is lost when nobody can arrive', async (t) => {
  t.equal(fateOf(point, arrived(), gone('ann', 'bob')), 'open')
  t.equal(fateOf(point, arrived(), gone('ann', 'bob', 'cid')), 'lost')
})

t.test('its result does not depend on who was faster', async (t) => {
  const data = { ann: 'of ann', cid: 'of cid' }
  const result = { generation: 7, arrived: ['ann', 'cid'], missing: ['bob'], timedOut: true, data }
  for (const order of [arrived('ann', 'cid'), arrived('cid', 'ann')]) {
    t.strictSame(resultOf(point, 7, order), result)
    t.strictSame(missingAt(point, order), ['bob'])
  }
  t.strictSame(resultOf({ ...point, dataExchange: false }, 7, arrived('ann', 'cid')).data, {})
})
