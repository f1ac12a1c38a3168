/** Plays random programs whose agents lose their threads when they are idle for a moment, or because others need one. */
import t from 'tap'
import { Dice } from '../dice.ts'
import { playSeeds, seedsOf } from './seeds.ts'
import type { Mode } from './seen.ts'

/** Most teams have more agents than threads: then these start with their first message. */
function threadsOf(seed: number) {
  const dice = new Dice(-seed)
  return { idleMs: 1 + dice.upTo(20), ...(dice.chance(0.7) && { max: 1 + dice.upTo(6) }) }
}

/** `file` is the test that plays them. */
export function playPassive(mode: Mode, count: { plain: number; deep: number }, file: string): void {
  const seeds = seedsOf(count.plain, count.deep)
  t.test(`${seeds.length} ${mode} programs of agents that are passivated keep what must hold`, async (t) => {
    const seen = await playSeeds(t, mode, seeds, file, (seed) => ({ threads: threadsOf(seed) }))
    if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
    t.ok(seen.passivations > 10 * seeds.length, `passivations: ${seen.passivations}`)
    t.ok(seen.crashes > seeds.length / 2, `crashes: ${seen.crashes}`)
  })
}
