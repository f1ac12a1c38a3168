/** Plays random programs by their seeds. One that fails is named with the command that plays it again. */
import { type Mode, Seen, simulate } from './simulation.ts'

/** SEED=7 plays that one alone. */
export const seedsUpTo = (count: number): number[] =>
  process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: count }, (_, i) => i + 1)

/** What was seen in all; `file` is the test that plays them. */
export async function playSeeds(
  t: { fail(why: string): unknown },
  mode: Mode,
  seeds: readonly number[],
  file: string,
): Promise<Seen> {
  const seen = new Seen()
  for (const seed of seeds) {
    const outcome = await simulate(seed, mode)
    seen.add(outcome.seen)
    if (outcome.problems.length > 0)
      t.fail(
        `seed ${seed}: ${outcome.problems.slice(0, 5).join('; ')}. Again: SEED=${seed} node dist/test/simulation/${file}.test.js`,
      )
  }
  return seen
}
