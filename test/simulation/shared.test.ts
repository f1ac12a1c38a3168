/** Random programs in which every second agent shares a thread: it ends with all of them when one is killed. */
import t from 'tap'
import { playSeeds, seedsOf } from './seeds.ts'

const seeds = seedsOf(8, 3_000)

for (const mode of ['orderly', 'talkative', 'entangled'] as const)
  t.test(`${seeds.length} ${mode} programs keep what must hold, and come to their end`, async (t) => {
    const seen = await playSeeds(t, mode, seeds, 'shared', () => ({ shares: true }))
    if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
    t.ok(seen.crashes > 10 * seeds.length, `${seen.crashes} crashes`)
  })
