/** Plays programs by their seeds. One that fails is named with the command that plays it again. */
import { NOTHING_SEEN } from './acts.ts'
import { deathsOf, type Ending, type Mode, type Outcome, play } from './play.ts'

export { seedsOf } from '../simulation/seeds.ts'

const SEEN = ['deaths', 'fulls', 'losses', 'excused'] as const

/** What was seen in all; `file` is the test that plays them. */
export async function playAll(
  t: { fail(why: string): unknown },
  mode: Mode,
  seeds: readonly number[],
  file: string,
  spawns = false,
): Promise<Outcome['counts'] & Pick<Outcome, (typeof SEEN)[number]>> {
  const total = { ...NOTHING_SEEN, deaths: 0, fulls: 0, losses: 0, excused: 0 }
  for (const seed of seeds) {
    const outcome = await play(seed, mode, deathsOf(seed), spawns)
    const problems = [...outcome.problems]
    if (mode === 'calm' && problems.length === 0 && outcome.excused === 0)
      problems.push(...differences((await play(seed, mode, 0, spawns)).ending, outcome.ending))
    for (const key of SEEN) total[key] += outcome[key]
    for (const key of Object.keys(outcome.counts) as (keyof Outcome['counts'])[]) total[key] += outcome.counts[key]
    if (problems.length > 0)
      t.fail(
        `seed ${seed}, ${mode}: ${problems.slice(0, 5).join('; ')}. Again: MODE=${mode} SEED=${seed} node dist/test/restarts/${file}.test.js`,
      )
  }
  return total
}

/** Where a program has come to something else than the one that nobody disturbed. */
export function differences(undisturbed: Ending, ending: Ending): string[] {
  const keys = Object.keys(undisturbed) as (keyof Ending)[]
  return keys.flatMap((key) => {
    // A log that forgets has forgotten a result that nobody had heard when the process died.
    const results = Object.fromEntries(Object.keys(ending.results).map((run) => [run, undisturbed.results[run]]))
    const [before, after] = [key === 'results' ? results : undisturbed[key], ending[key]].map((each) =>
      JSON.stringify(each),
    )
    return before === after ? [] : [`${key}: ${after}, and undisturbed ${before}`]
  })
}
