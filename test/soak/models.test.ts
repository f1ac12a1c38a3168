/**
 * A team whose models answer over a socket, with refusals, broken connections and slow answers, while its threads die, people are
 * asked, and runs fail as they must: each run ends as it must, nothing that was answered is asked again, and nothing grows.
 *
 *   npm run test:soak -- models   for SOAK_MINUTES (30)      npm run test:deep   for one      npm test   for some seconds, no trends
 */
import t from 'tap'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'
import { imbalances, leftovers as openIn } from '../kit/accounts.ts'
import { countingClock } from './counting-clock.ts'
import { ModelLoad } from './model-load.ts'
import { Provider } from './provider.ts'
import { Samples } from './samples.ts'

const MOST_SAMPLES = 240
const LEAST_MS = 1_000

const minutes = Number(process.env.SOAK_MINUTES ?? (process.env.DRAMATIS_DEEP ? 1 : 0.05))
const ms = minutes * 60_000

t.test(`${minutes} minutes of models that fail, threads that die and people who are asked`, async (t) => {
  const before = leftovers()
  const clock = countingClock()
  const provider = await Provider.start(t)
  const load = new ModelLoad(provider, clock)
  const { team } = load
  await team.start()
  const samples = new Samples(
    team,
    () => clock.timers,
    Math.max(LEAST_MS, ms / MOST_SAMPLES),
    () => provider.open,
  )
  const { orders, questions, wrong } = await load.play(ms)
  samples.stop()
  const restarts = Object.values(team.health().agents).reduce((sum, agent) => sum + agent.restarts, 0)
  t.comment(`${orders} orders, ${provider.calls} calls, ${questions} questions, ${restarts} restarts`)
  for (const line of samples.lines()) t.comment(line)

  t.same(wrong, [], 'each run ends as it must')
  t.same(provider.wrong, [], 'no call that was answered is made again, and none after the end of its run')
  t.ok(restarts > 0 && questions > 0, `${restarts} restarts, ${questions} questions`)
  t.same(imbalances(team.host), [], 'each message that was accepted was handled, is dead, or waits')
  t.same(openIn(team.host), [], 'nothing waits, and no room or permit is held')
  if (minutes >= 1) t.same(samples.growing(), [], 'nothing grows')
  await team.close()
  t.equal(provider.open, 0, 'no call is under way')
  t.equal(clock.timers, 0, 'no timer is left')
  await provider.close()
  t.same(await leftoversOnce(before), before, 'no thread, socket or other handle is left')
})
