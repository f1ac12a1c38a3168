/**
 * A team under steady load whose threads die once a second: memory, handles, threads, timers, log and mailboxes level off.
 *
 *   npm run test:soak   for SOAK_MINUTES (30)      npm run test:deep   for one      npm test   for some seconds, no trends
 */
import t from 'tap'
import { Dice } from '../dice.ts'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'
import { countingClock } from './counting-clock.ts'
import { Samples } from './samples.ts'
import { climb } from './slopes.ts'
import { DEATH_EVERY, soakTeam, steadyLoad } from './steady-load.ts'

const MOST_SAMPLES = 240
const LEAST_MS = 250

const minutes = Number(process.env.SOAK_MINUTES ?? (process.env.DRAMATIS_DEEP ? 1 : 0.05))
const ms = minutes * 60_000

t.test(`${minutes} minutes of steady load with deaths`, async (t) => {
  const before = leftovers()
  const clock = countingClock()
  const team = soakTeam(clock)
  await team.start()
  const samples = new Samples(team, () => clock.timers, Math.max(LEAST_MS, ms / MOST_SAMPLES))
  const { executed, messages, wrong } = await steadyLoad(team, ms)
  samples.stop()
  const restarts = Object.values(team.health().agents).reduce((sum, agent) => sum + agent.restarts, 0)
  t.comment(`${executed} executes, ${messages} messages, ${restarts} restarts`)
  for (const line of samples.lines()) t.comment(line)

  t.same(wrong, [], 'each execute has its answer')
  // One death may come before another that was meant for the same thread.
  t.ok(restarts >= executed / DEATH_EVERY / 2 && restarts > 0, `${restarts} restarts`)
  t.equal(samples.last.lost, 0, 'each message was handled, is dead, or waits')
  if (minutes >= 1) t.same(samples.growing(), [], 'nothing grows')
  await team.close()
  t.equal(clock.timers, 0, 'no timer is left')
  t.same(await leftoversOnce(before), before, 'no thread or handle is left')
})

const dice = new Dice(1)
const noise = () => dice.upTo(21) - 10
const series = (value: (at: number) => number, length = 26) => Array.from({ length }, (_, at) => value(at))

t.test('a series climbs if most pairs of its samples do, and by more than it may', async (t) => {
  t.equal(
    climb(
      series((at) => at, 9),
      0,
    ),
    undefined,
    'too few to tell',
  )
  t.equal(
    climb(
      series(() => 100),
      0,
    ),
    null,
  )
  t.equal(
    climb(
      series(() => 100 + noise()),
      5,
    ),
    null,
    'noise',
  )
  t.equal(
    climb(
      series((at) => (at === 25 ? 10_000 : 100 + noise())),
      5,
    ),
    null,
    'one sample of a busy moment',
  )
  t.equal(
    climb(
      series((at) => (at < 3 ? 10_000 : 100 + noise())),
      5,
    ),
    null,
    'it falls',
  )
  t.equal(
    climb(
      series((at) => 100 + at),
      50,
    ),
    null,
    'it may climb so far',
  )
  t.equal(
    climb(
      series((at) => 100 + 4 * at),
      50,
    ),
    100,
  )
  const rise =
    climb(
      series((at) => 100 + 4 * at + noise()),
      50,
    ) ?? 0
  t.ok(rise > 80 && rise < 120, `${rise} of 100, with noise`)
})
