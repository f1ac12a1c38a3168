/** Random programs whose process dies again and again come to the same as if it had not, also where agents make agents. */
import t from 'tap'
import { playAll, seedsOf } from './seeds.ts'

// Random programs whose process dies again and again, and whose disk is full or fails, come to the same as those
// that
// nobody disturbs. A failure names its seed: SEED=7 node dist/test/restarts/calm.test.js

/** The test for an open task read any frame with its number: a task was taken for one that was handed off. */
const ONCE_HANDED_OFF = [291]
/** A compaction after a restart gave up parts of the log that it had not carried on. */
const ONCE_GIVEN_UP = [6_247, 6_283]
/** A shelved turn that was asked back lost its place in the line for a permit. */
const ONCE_ASKED_BACK = [230, 295, 385]
/** A shelved turn that was asked back waited for a place, in a circle with another run. */
const ONCE_IN_A_CIRCLE = [395]
/** What had ended before a restart was read twice. */
const ONCE_READ_TWICE = [530]
const seeds = seedsOf(10, 5_000, [
  ...ONCE_HANDED_OFF,
  ...ONCE_GIVEN_UP,
  ...ONCE_ASKED_BACK,
  ...ONCE_IN_A_CIRCLE,
  ...ONCE_READ_TWICE,
])

t.test(`${seeds.length} programs end as if their process had never died`, async (t) => {
  const seen = await playAll(t, 'calm', seeds, 'calm')
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  t.ok(seen.deaths > 2 * seeds.length, `${seen.deaths} deaths`)
  for (const what of ['fulls', 'losses'] as const) t.ok(seen[what] > seeds.length / 20, `${what}: ${seen[what]}`)
  for (const what of ['step', 'model', 'tool', 'question', 'shared', 'observed', 'posted', 'resumed'] as const)
    t.ok(seen[what] > seeds.length / 2, `${what}: ${seen[what]}`)
  t.ok(seen.excused <= 1 + seeds.length / 500, `${seen.excused} with a deadlock that goes on by hand made`)
  t.ok(seen.moved > seeds.length / 10, `moved: ${seen.moved}`)
})

// Random programs whose agents make others, and whose process dies again and again. A failure names its seed:
// SEED=7 node dist/test/restarts/calm.test.js

const spawnsSeeds = seedsOf(3, 1_500)

t.test(`${spawnsSeeds.length} programs whose agents make others end as if their process had never died`, async (t) => {
  const seen = await playAll(t, 'calm', spawnsSeeds, 'calm', true)
  if (spawnsSeeds.length === 1) return t.pass(`seed ${spawnsSeeds[0]}`)
  t.ok(seen.deaths > 2 * spawnsSeeds.length, `${seen.deaths} deaths`)
  t.ok(seen.spawn > 2 * spawnsSeeds.length, `${seen.spawn} agents were asked for`)
})
