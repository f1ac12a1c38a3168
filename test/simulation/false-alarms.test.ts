/** No false alarm: the livelock detector is silent in programs that complete. SEED=7 node dist/test/simulation/false-alarms.test.js */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { playBlameless } from './blameless.ts'

const count = howMany(100, 10_000)
/** Full mailboxes under few permits: what looked stuck did so again and again while it was asked about. */
const ONCE_ENDLESS = 8_610
const seeds = process.env.SEED
  ? [Number(process.env.SEED)]
  : [...Array.from({ length: count }, (_, i) => i + 1), ONCE_ENDLESS]

t.test(`${seeds.length} random programs complete without an alarm`, async (t) => {
  let messages = 0
  for (const seed of seeds) {
    const played = await playBlameless(seed)
    messages += played.messages
    const problems = [...played.alarms, ...(played.error ? [played.error.message] : [])]
    if (problems.length > 0)
      t.fail(`seed ${seed}: ${problems.join('; ')}. Again: SEED=${seed} node dist/test/simulation/false-alarms.test.js`)
  }
  t.ok(messages > 20 * seeds.length, `${messages} messages`)
})
