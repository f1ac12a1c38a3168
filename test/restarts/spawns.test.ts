/**
 * Random programs whose agents make others, and whose process dies again and again. A failure names its seed:
 * SEED=7 node dist/test/restarts/spawns.test.js
 */
import t from 'tap'
import { playAll, seedsOf } from './seeds.ts'

const seeds = seedsOf(10, 1_500)

t.test(`${seeds.length} programs whose agents make others end as if their process had never died`, async (t) => {
  const seen = await playAll(t, 'calm', seeds, 'spawns', true)
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  t.ok(seen.deaths > 2 * seeds.length, `${seen.deaths} deaths`)
  t.ok(seen.spawn > 2 * seeds.length, `${seen.spawn} agents were asked for`)
})
