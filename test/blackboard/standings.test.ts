/** What a board holds as a tree of short lists: where each key is, and what a write copies. */
import { applyPatches, type Draft, enablePatches, produceWithPatches } from 'immer'
import t from 'tap'
import { allOf, countOf, putStanding, Standing, type Standings, standingAt } from '../../src/blackboard/board.ts'
import type { BlackboardEntry } from '../../src/blackboard/entry.ts'

enablePatches()

const standing = (revision: number) => new Standing({ key: `k.${revision}` } as BlackboardEntry, revision)

/** As many keys, each at the place of its number. */
function filled(keys: number): Standings {
  const standings: Draft<Standings> = []
  for (let slot = 0; slot < keys; slot += 1) putStanding(standings, slot, standing(slot))
  return standings
}

/** Of all lists that are others than before, how much is in them. */
function copied(before: unknown, after: unknown): number {
  if (before === after || !Array.isArray(after)) return 0
  return after.reduce(
    (sum: number, each, at) => sum + copied((before as unknown[] | undefined)?.[at], each),
    after.length,
  )
}

t.test('a write copies little, however many keys there are', async (t) => {
  for (const keys of [1_000, 300_000]) {
    const standings = filled(keys)
    for (const slot of [0, keys / 2, keys]) {
      const [after] = produceWithPatches(standings, (draft) => putStanding(draft, slot, standing(slot)))
      t.ok(copied(standings, after) <= 4 * 32, `${copied(standings, after)} of ${keys} keys, at ${slot}`)
    }
  }
})

// around the places where a list of each level is full
for (const keys of [0, 1, 31, 32, 33, 1_023, 1_024, 1_025, 32_767, 32_768, 32_769])
  t.test(`of ${keys} keys each is at its place, and a write can be taken back`, async (t) => {
    const standings = filled(keys)
    t.equal(countOf(standings), keys)
    t.ok(allOf(standings).every(({ revision }, at) => revision === at))
    t.ok(allOf(standings).every((each, at) => standingAt(standings, at) === each))
    for (const slot of [-1, keys, keys + 1, keys + 40_000]) t.equal(standingAt(standings, slot), undefined)
    const added = standing(keys)
    const [after, , inverse] = produceWithPatches(standings, (draft) => putStanding(draft, keys, added))
    t.equal(standingAt(after, keys), added)
    t.equal(countOf(after), keys + 1)
    const back = applyPatches(after, inverse)
    t.equal(countOf(back), keys)
    t.equal(standingAt(back, keys), undefined)
    t.equal(standingAt(back, keys - 1), standingAt(standings, keys - 1))
  })
