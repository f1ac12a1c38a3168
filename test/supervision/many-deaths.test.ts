/**
 * Rules 2, 3, 8, 9 and 17 with the policy that holds where nobody has set one, under far more deaths than it allows: an
 * agent dies at random while it is sent messages and asked.
 */

import type { Test } from 'tap'
import t from 'tap'
import { seededRandom } from '../../src/shared/random.ts'
import { watchAccounts } from './accounts.ts'
import { ask, openTeam, outcomeOf } from './teams.ts'

const DEATHS = 500
const ALLOWED = 3
const WITHIN_MS = 60_000
const COOL_DOWN_MS = 60_000
const BASE_MS = 200
const CAP_MS = 10_000

interface Death {
  at: number
  /** null: it is stopped. */
  restartInMs: number | null
}

for (const pauseMs of [4_000, 60_000]) {
  t.test(`rules 2 and 3: the defaults hold over ${DEATHS} deaths up to ${pauseMs} ms apart`, async (t) => {
    const { deaths, revivals } = await play(t, pauseMs, 0)
    const restarts = deaths.filter(({ restartInMs }) => restartInMs !== null)
    const stops = deaths.filter(({ restartInMs }) => restartInMs === null)
    const inWindow = (at: number) => restarts.filter((other) => other.at <= at && at - other.at < WITHIN_MS).length
    t.equal(Math.max(...deaths.map(({ at }) => inWindow(at))), ALLOWED)
    t.same(
      stops.filter(({ at }) => inWindow(at) !== ALLOWED),
      [],
      'none is stopped that has died less often',
    )
    t.same(
      restarts.filter(({ restartInMs: delay }) => delay !== 0 && (delay! < BASE_MS / 2 || delay! > CAP_MS)),
      [],
    )
    t.ok(stops.length > 10 && restarts.length > DEATHS / 2, `${stops.length} stops, ${restarts.length} restarts`)
    t.same(
      revivals,
      stops.map(({ at }) => at + COOL_DOWN_MS),
    )
  })
}

t.test(`rules 8, 9 and 17: over ${DEATHS} deaths each message is handled once, in order, or dead`, async (t) => {
  const { sent, handled, dead, unsettled, wrong } = await play(t, 60_000, 1)
  t.same(wrong, [])
  t.same([...handled].sort(ascending), handled)
  t.same([...handled, ...dead].sort(ascending), [...Array(sent).keys()])
  t.ok(dead.length > 0 && handled.length > 0, `${handled.length} handled, ${dead.length} dead`)
  t.same(unsettled, [])
})

/** Neither taken or answered, nor refused because the agent is stopped. */
const isOdd = ({ settled, error }: ReturnType<typeof outcomeOf>) =>
  !settled || (error !== undefined && error.code !== 'AGENT_TERMINATED')
const ascending = (a: number, b: number) => a - b

/** Lets the worker die, up to `pauseMs` after it was seen alive, until it has died often enough. Each time it is sent so many messages, and asked as often. */
async function play(t: Test, pauseMs: number, messages: number) {
  const handled: number[] = []
  const team = openTeam(t, {
    worker({ content }) {
      handled.push(Number(content))
      return 'done'
    },
  })
  const wrong = watchAccounts(team.host)
  const deaths: Death[] = []
  const revivals: number[] = []
  const sends: ReturnType<typeof outcomeOf>[] = []
  const requests: ReturnType<typeof outcomeOf>[] = []
  let next = 0
  const random = seededRandom([pauseMs, 0, 0, 0])
  const { clock } = team
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') deaths.push({ at: clock.monotonic(), restartInMs: event.restartInMs })
    if (event.type === 'agent.status' && event.status === 'restarting' && deaths.at(-1)?.restartInMs === null)
      revivals.push(clock.monotonic())
  })
  await team.start()
  while (deaths.length < DEATHS) {
    for (let i = 0; i < messages; i++) {
      sends.push(outcomeOf(team.sendMessage({ recipient: 'worker', content: `${next++}` })))
      requests.push(outcomeOf(ask(team, 'worker', `${next++}`)))
    }
    if (random() < 0.5) team.crash('worker')
    await clock.advance(Math.ceil(random() * pauseMs))
    team.crash('worker')
    await clock.advance(0)
  }
  await clock.advance(2 * COOL_DOWN_MS)
  const dead = team.deadLetters.list().map(({ message }) => Number(message.content))
  return { deaths, revivals, handled, dead, sent: next, unsettled: [...sends, ...requests].filter(isOdd), wrong }
}
