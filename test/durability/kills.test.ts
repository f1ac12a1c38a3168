/**
 * A service on real threads that is killed with SIGKILL again and again and started again: while it starts, while it takes
 * up what its log has, in the middle of a write, between an effect and the word of it. Its runs end as those that were
 * never disturbed, and nothing is done a second time whose outcome stood in the log.
 *
 *   npm test: 8 kills      npm run test:deep: 200, and 100 runs at once
 *   DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js
 */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { play } from './killed-depot.ts'

const { DRAMATIS_KILLS, SEED } = process.env
const kills = Number(DRAMATIS_KILLS ?? howMany(8, 200))
const some = Math.max(1, Math.floor(kills / 6))
const seed = Number(SEED ?? 11)

t.test('a run goes on after each death of its process, as if nobody had killed it', (t) =>
  play(t, { runs: 1, kills: Math.max(1, kills - 2 * some), seed, honours: false }),
)

t.test('a provider that honours idempotency keys generates each answer once, however often the service dies', (t) =>
  play(t, { runs: 1, kills: some, seed: seed + 1, honours: true }),
)

t.test('many runs at once go on after each death of their process', (t) =>
  play(t, { runs: howMany(4, 100), kills: some, seed: seed + 2, honours: false }),
)
