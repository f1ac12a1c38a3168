/** Random programs under random faults. A failure names its seed: SEED=7 node dist/test/simulation/simulation.test.js */
import t from 'tap'
import { simulate } from './simulation.ts'

const count = process.env.DRAMATIS_DEEP ? 2_000 : 50
const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: count }, (_, i) => i + 1)

t.test(`${seeds.length} random programs keep what must hold, and come to their end`, async (t) => {
  let crashes = 0
  let messages = 0
  let interleaved = 0
  let beside = 0
  let nested = 0
  for (const seed of seeds) {
    const outcome = await simulate(seed)
    crashes += outcome.crashes
    messages += outcome.messages
    interleaved += outcome.interleaved
    beside += outcome.beside
    nested += outcome.nested
    if (outcome.problems.length > 0)
      t.fail(
        `seed ${seed}: ${outcome.problems.slice(0, 5).join('; ')}. Again: SEED=${seed} node dist/test/simulation/simulation.test.js`,
      )
  }
  t.ok(interleaved > seeds.length, `agents with several turns were seen ${interleaved} times`)
  t.ok(beside > seeds.length, `two instances of an agent were seen at work ${beside} times`)
  t.ok(nested > seeds.length, `turns were seen within others ${nested} times`)
  t.ok(crashes > seeds.length && messages > 10 * seeds.length, `${crashes} crashes among ${messages} messages`)
})
