/**
 * Random programs in which agents fail, wait in vain, are full, are late and are cancelled, while their process dies again
 * and again and its disk is full or fails: nothing is done twice, nothing is lost, and all come to their end. A failure
 * names its mode and its seed: MODE=orderly SEED=7 node dist/test/restarts/faults.test.js
 */
import t from 'tap'
import type { Mode } from './play.ts'
import { playAll, seedsOf } from './seeds.ts'

/** A tool whose outcome nobody knew ran again when the turn that had called it was retried. */
const ONCE_DONE_TWICE = [57]
const modes: Mode[] = ['orderly', 'talkative', 'entangled']

for (const mode of modes.filter((mode) => (process.env.MODE ?? mode) === mode)) {
  const seeds = seedsOf(5, 1_700, mode === 'orderly' ? ONCE_DONE_TWICE : [])
  t.test(`${seeds.length} ${mode} programs with faults keep what must hold when their process dies`, async (t) => {
    const seen = await playAll(t, mode, seeds, 'faults')
    if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
    t.ok(seen.deaths > 2 * seeds.length, `${seen.deaths} deaths`)
    if (seeds.length < 15) return // too few to have seen all
    for (const what of ['fulls', 'losses'] as const) t.ok(seen[what] > seeds.length / 20, `${what}: ${seen[what]}`)
    for (const what of ['stepOnce', 'toolOnce'] as const) t.ok(seen[what] >= seeds.length / 4, `${what}: ${seen[what]}`)
  })
}
