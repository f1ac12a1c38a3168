/**
 * A service whose agents share a few threads, and lose theirs when they are idle, killed with SIGKILL again and again.
 *
 *   npm test: 3 kills      npm run test:deep: 60
 */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { play } from './killed-depot.ts'

const { DRAMATIS_KILLS, SEED } = process.env
const kills = Number(DRAMATIS_KILLS ?? howMany(3, 60))
const seed = Number(SEED ?? 21)

t.test('runs go on after each death of their process, though agents have no thread most of the time', (t) =>
  play(t, { runs: 1, kills, seed, honours: false, threads: 2 }),
)
