/** Random programs under random faults, also of agents that share threads or lose theirs. A failure names its seed: SEED=7 node dist/test/simulation/simulation.test.js */
import t from 'tap'
import { playPassive } from './passive-teams.ts'
import { playSeeds, seedsOf } from './seeds.ts'

// Random programs under random faults. A failure names its seed: SEED=7 node dist/test/simulation/simulation.test.js

/** A nested turn that had handed its duty off came again within a turn that was gone: cut off after that, and before. */
const ONCE_ORPHANED = [551, 1474, 2328]
/** One that had handed its duty off worked on beside a turn that was told to stop, within which it ran; or was thought to come to a meeting after its death. */
const ONCE_LEFT_AT_WORK = [3837, 3882]
/** One that was offered a task handed it on before the log said that it had it: who had offered it seemed to wait for ever. */
const ONCE_HANDED_ON = [994]
const seeds = seedsOf(8, 10_000, [...ONCE_ORPHANED, ...ONCE_LEFT_AT_WORK, ...ONCE_HANDED_ON])

t.test(`${seeds.length} random programs keep what must hold, and come to their end`, async (t) => {
  const seen = await playSeeds(t, 'orderly', seeds, 'simulation')
  if (seeds.length === 1) return t.pass(`seed ${seeds[0]}`)
  const enough = ['interleaved', 'beside', 'nested', 'tasks', 'handoffs', 'meetings', 'crashes'] as const
  for (const what of enough) t.ok(seen[what] > seeds.length / 2, `${what}: ${seen[what]}`)
  t.ok(seen.messages > 10 * seeds.length, `${seen.messages} messages`)
})

// Random programs in which every second agent shares a thread: it ends with all of them when one is killed.

const sharedSeeds = seedsOf(1, 3_000)

for (const mode of ['orderly', 'talkative', 'entangled'] as const)
  t.test(`${sharedSeeds.length} ${mode} programs keep what must hold, and come to their end`, async (t) => {
    const seen = await playSeeds(t, mode, sharedSeeds, 'simulation', () => ({ shares: true }))
    if (sharedSeeds.length === 1) return t.pass(`seed ${sharedSeeds[0]}`)
    t.ok(seen.crashes > 10 * sharedSeeds.length, `${seen.crashes} crashes`)
  })

// Agents without a thread under random faults. A failure names its seed: SEED=7 node
// dist/test/simulation/simulation.test.js

playPassive('orderly', { plain: 3, deep: 5_000 }, 'simulation')
