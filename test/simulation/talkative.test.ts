/**
 * Random programs with all verbs, under random faults: what is read in pieces is whole, the blackboard is what was said of it. A
 * failure names its seed: SEED=7 node dist/test/simulation/talkative.test.js
 */
import t from 'tap'
import { playSeeds, seedsOf } from './seeds.ts'

/** Turns that were cancelled went on over the limit, and after them whoever was parked. */
const ONCE_OVER_THE_LIMIT = [1_578]
const seeds = seedsOf(60, 3_000, ONCE_OVER_THE_LIMIT)

t.test(`${seeds.length} random programs with all verbs keep what must hold, and come to their end`, async (t) => {
  const seen = await playSeeds(t, 'talkative', seeds, 'talkative')
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  for (const what of ['streams', 'entries', 'heard', 'guidance', 'crashes'] as const)
    t.ok(seen[what] > seeds.length / 2, `${what}: ${seen[what]}`)
})
