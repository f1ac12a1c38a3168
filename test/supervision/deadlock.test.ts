/** Rules 22 to 27: turns that wait for each other are found, named and freed; who only waits long is left alone. */
import t from 'tap'
import type { RuntimeEvent } from '../../src/index.ts'
import { type Cast, openTeam, outcomeOf } from './teams.ts'

type DeadlockEvent = Extract<RuntimeEvent, { type: 'deadlock' }>

/** Two buyers, each of whom asks the other for its quote before it gives its own. */
const buyers: Cast = {
  ann: async (_, context) => (await context.request('bob', 'your quote?')).content,
  bob: async (_, context) => (await context.request('ann', 'your quote?')).content,
}

function watched(team: { events: { subscribe(next: (event: RuntimeEvent) => void): unknown } }) {
  const found: RuntimeEvent[] = []
  team.events.subscribe((event) => {
    if (event.type === 'deadlock' || event.type === 'stall') found.push(event)
  })
  return found
}

t.test('rules 23, 24, 25: a cycle is named at once, with its tail and what each waits for', async (t) => {
  const team = openTeam(t, buyers)
  const found = watched(team)
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.equal(run.settled, true, 'it ends without any time passing')
  t.equal(run.value?.success, false)
  const [named, broken] = found as DeadlockEvent[]
  t.same(named?.cycle, ['ann', 'bob'])
  t.same(named?.tail, ['$orchestrator'])
  t.equal(named?.victim, null)
  t.match(broken, { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.ok(broken?.victim)
})
