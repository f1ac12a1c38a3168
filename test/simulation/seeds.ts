/** Plays random programs by their seeds. One that fails is named with the command that plays it again. */
import { howMany } from '../how-many.ts'
import { type Mode, Seen } from './seen.ts'
import { type Extras, simulate } from './simulation.ts'

/**
 * As many as `howMany` says, and those that once found a fault. A brief run plays others than the plain one, those that
 * follow: CI, which makes both, plays none of them twice. SEED=7 plays that one alone.
 */
export function seedsOf(plain: number, deep: number, once: readonly number[] = []): number[] {
  if (process.env.SEED) return [Number(process.env.SEED)]
  const first = process.env.DRAMATIS_BRIEF ? plain + 1 : 1
  const seeds = Array.from({ length: howMany(plain, deep) }, (_, i) => first + i)
  return [...seeds, ...once.filter((seed) => !seeds.includes(seed))]
}

/** What was seen in all; `file` is the test that plays them. `extrasOf`: what else a play has, by seed. */
export async function playSeeds(
  t: { fail(why: string): unknown },
  mode: Mode,
  seeds: readonly number[],
  file: string,
  extrasOf: (seed: number) => Extras = () => ({}),
): Promise<Seen> {
  const seen = new Seen()
  for (const seed of seeds) {
    const outcome = await simulate(seed, mode, extrasOf(seed))
    seen.add(outcome.seen)
    if (outcome.problems.length > 0)
      t.fail(
        `seed ${seed}: ${outcome.problems.slice(0, 5).join('; ')}. Again: SEED=${seed} node dist/test/simulation/${file}.test.js`,
      )
  }
  return seen
}
