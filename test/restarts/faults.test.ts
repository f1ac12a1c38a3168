/** Random programs whose process dies again and again: undisturbed ones and ones with faults. */
import t from 'tap'
import type { Mode } from './play.ts'
import { playAll, seedsOf } from './seeds.ts'

// Random programs whose process dies again and again, and whose disk is full or fails, come to the same as those
// that nobody disturbs. A failure names its seed: MODE=calm SEED=7 node dist/test/restarts/faults.test.js

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
const skip = (process.env.MODE ?? 'calm') !== 'calm'
const seeds = seedsOf(10, 5_000, [
  ...ONCE_HANDED_OFF,
  ...ONCE_GIVEN_UP,
  ...ONCE_ASKED_BACK,
  ...ONCE_IN_A_CIRCLE,
  ...ONCE_READ_TWICE,
])

t.test(`${seeds.length} programs end as if their process had never died`, { skip }, async (t) => {
  const seen = await playAll(t, 'calm', seeds, 'faults')
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  t.ok(seen.deaths > 2 * seeds.length, `${seen.deaths} deaths`)
  for (const what of ['fulls', 'losses'] as const) t.ok(seen[what] > seeds.length / 20, `${what}: ${seen[what]}`)
  for (const what of ['step', 'model', 'tool', 'question', 'shared', 'observed', 'posted', 'resumed'] as const)
    t.ok(seen[what] > seeds.length / 2, `${what}: ${seen[what]}`)
  t.ok(seen.excused <= 1 + seeds.length / 500, `${seen.excused} with a deadlock that goes on by hand made`)
  t.ok(seen.moved > seeds.length / 10, `moved: ${seen.moved}`)
})

// Random programs whose agents make others, and whose process dies again and again. A failure names its seed:
// MODE=calm SEED=7 node dist/test/restarts/faults.test.js

const spawnsSeeds = seedsOf(3, 1_500)

t.test(
  `${spawnsSeeds.length} programs whose agents make others end as if their process had never died`,
  { skip },
  async (t) => {
    const seen = await playAll(t, 'calm', spawnsSeeds, 'faults', true)
    if (spawnsSeeds.length === 1) return t.pass(`seed ${spawnsSeeds[0]}`)
    t.ok(seen.deaths > 2 * spawnsSeeds.length, `${seen.deaths} deaths`)
    t.ok(seen.spawn > 2 * spawnsSeeds.length, `${seen.spawn} agents were asked for`)
  },
)

// Random programs in which agents fail, wait in vain, are full, are late and are cancelled, while their process dies
// again and again and its disk is full or fails: nothing is done twice, nothing is lost, and all come to their end. A
// failure names its mode and its seed: MODE=orderly SEED=7 node dist/test/restarts/faults.test.js

/** A tool whose outcome nobody knew ran again when the turn that had called it was retried. */
const ONCE_DONE_TWICE = [57]
const modes: Mode[] = ['orderly', 'talkative', 'entangled']

for (const mode of modes.filter((mode) => (process.env.MODE ?? mode) === mode)) {
  const faultSeeds = seedsOf(5, 1_700, mode === 'orderly' ? ONCE_DONE_TWICE : [])
  t.test(`${faultSeeds.length} ${mode} programs with faults keep what must hold when their process dies`, async (t) => {
    const seen = await playAll(t, mode, faultSeeds, 'faults')
    if (faultSeeds.length === 1) return t.pass(`seed ${faultSeeds[0]}`)
    t.ok(seen.deaths > 2 * faultSeeds.length, `${seen.deaths} deaths`)
    if (faultSeeds.length < 15) return // too few to have seen all
    for (const what of ['fulls', 'losses'] as const) t.ok(seen[what] > faultSeeds.length / 20, `${what}: ${seen[what]}`)
    for (const what of ['stepOnce', 'toolOnce'] as const)
      t.ok(seen[what] >= faultSeeds.length / 4, `${what}: ${seen[what]}`)
  })
}
