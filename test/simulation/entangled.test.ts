/** Random programs in which anybody asks anybody, with all verbs. A failure names its seed: SEED=7 node dist/test/simulation/entangled.test.js */
import t from 'tap'
import { playPassive } from './passive-teams.ts'
import { playSeeds, seedsOf } from './seeds.ts'

// Random programs in which anybody asks anybody, under random faults: what the detector calls a deadlock is one, and
// every one is
// found, since no time ends these waits. A failure names its seed: SEED=7 node
// dist/test/simulation/entangled.test.js

/** What stood behind a withdrawn message was not looked at: with several turns at once, and behind one that wanted a permit. */
const ONCE_LEFT_STANDING = [984, 3_034]
/** Turns that were cancelled went on over the limit, and after them whoever was parked. */
const ONCE_OVER_THE_LIMIT = [1_284]
/** The test itself took the answer to an earlier message with the same plan for that of a later one. */
const ONCE_TAKEN_FOR_ANSWERED = [1_701]
/** A turn in question twice at once, one that ended before it could answer, one that was to begin again: nobody found them. */
const ONCE_UNANSWERED = [116, 346, 2_287, 3_499]
/** The test itself did not know of a handoff whose giver had died. */
const ONCE_HANDED_OFF = [4_803]
const seeds = seedsOf(4, 5_000, [
  ...ONCE_LEFT_STANDING,
  ...ONCE_OVER_THE_LIMIT,
  ...ONCE_TAKEN_FOR_ANSWERED,
  ...ONCE_UNANSWERED,
  ...ONCE_HANDED_OFF,
])

t.test(`${seeds.length} random programs whose agents wait for each other are freed, and nobody else is`, async (t) => {
  const seen = await playSeeds(t, 'entangled', seeds, 'entangled')
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  for (const what of ['deadlocks', 'tasks', 'handoffs', 'crashes'] as const)
    t.ok(seen[what] > seeds.length / 4, `${what}: ${seen[what]}`)
})

// Random programs with all verbs, under random faults: what is read in pieces is whole, the blackboard is what was
// said of it. A
// failure names its seed: SEED=7 node dist/test/simulation/entangled.test.js

/** Turns that were cancelled went on over the limit, and after them whoever was parked. */
const ONCE_TALKED_ON = [1_578]
const talkativeSeeds = seedsOf(6, 3_000, ONCE_TALKED_ON)

t.test(
  `${talkativeSeeds.length} random programs with all verbs keep what must hold, and come to their end`,
  async (t) => {
    const seen = await playSeeds(t, 'talkative', talkativeSeeds, 'entangled')
    if (talkativeSeeds.length === 1) return t.pass(`seed ${talkativeSeeds[0]}`)
    for (const what of ['streams', 'entries', 'heard', 'guidance', 'crashes'] as const)
      t.ok(seen[what] > talkativeSeeds.length / 4, `${what}: ${seen[what]}`)
  },
)

// Agents without a thread that wait for each other, and with all verbs, under random faults. A failure names its
// seed:
// SEED=7 node dist/test/simulation/entangled.test.js

playPassive('talkative', { plain: 2, deep: 1_500 }, 'entangled')
playPassive('entangled', { plain: 2, deep: 1_500 }, 'entangled')
