/**
 * A team under steady load whose threads die once a second: memory, handles, threads, timers, log and mailboxes level off.
 *
 *   npm run test:soak   for SOAK_MINUTES (30)      npm run test:deep   for one      npm test   for some seconds, no trends
 */
import t from 'tap'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'
import { countingClock } from './counting-clock.ts'
import { Samples } from './samples.ts'
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
