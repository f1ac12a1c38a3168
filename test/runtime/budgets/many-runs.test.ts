/** A thousand runs with random limits, sizes, numbers of agents and failures; `DRAMATIS_SEED` plays one seed again. */
import t from 'tap'
import { type Outcome, playRuns } from './many-runs.ts'

const RUNS_OF_A_TEAM = 4
const only = process.env.DRAMATIS_SEED
const seeds = only ? [Number(only)] : Array.from({ length: 250 }, (_, seed) => seed)

t.test('no budget is overrun, no call starves, and every token is accounted for', async (t) => {
  const all: Outcome[] = []
  for (const seed of seeds) {
    const outcome = await playRuns(seed, RUNS_OF_A_TEAM)
    t.same(outcome.problems, [], `DRAMATIS_SEED=${seed}`)
    all.push(outcome)
  }
  const count = (key: 'granted' | 'refused' | 'waited' | 'aborted') =>
    all.reduce((sum, outcome) => sum + outcome[key], 0)
  if (only) return
  t.ok(count('granted') > 1_000 && count('refused') > 1_000 && count('waited') > 100 && count('aborted') > 10)
})

t.test('what calls cost beyond what they could is all that a budget is overrun by', async (t) => {
  for (const seed of seeds.slice(0, 50))
    t.same((await playRuns(seed, RUNS_OF_A_TEAM, true)).problems, [], `seed ${seed}`)
})
