/** The role option `instances` on real threads: they work at the same time, and what happens to one does not touch another. */
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions, type RuntimeEvent } from '../../src/index.ts'
import { ask, numbers, silent } from './teams.ts'

const module = new URL('../fixtures/supervision/instance.js', import.meta.url)

function start(
  t: { teardown(end: () => Promise<void>): void },
  instances: number,
  supervision: MultiAgentPatternOptions['supervision'] = {},
) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    supervision: { backoff: { baseMs: 0, capMs: 0 }, ...supervision },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const answers = await Promise.all(query.split(', ').map((order) => script.request('worker', order)))
        const threads = answers.map(({ structuredData }) => (structuredData as { threadId: number }).threadId)
        return `${new Set(threads).size} threads`
      },
    },
    agents: [{ name: 'worker', module, instances }],
  })
  t.teardown(() => team.close())
  const crashes: Extract<RuntimeEvent, { type: 'agent.crashed' }>[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') crashes.push(event)
  })
  return Object.assign(team, { crashes })
}

t.test('three instances are at three turns of one run at once, each in its own thread', async (t) => {
  const team = start(t, 3)
  t.match(await team.execute('meet 3, meet 3, meet 3'), { success: true, finalOutput: '3 threads' })
})

t.test('one in an endless loop does not stop the other, and what it was at is tried again', async (t) => {
  const team = start(t, 2, { watchdogMs: 1_000 })
  await team.start()
  const stuck = ask(team, 'worker', 'loop')
  for (const i of numbers(20)) t.equal(await ask(team, 'worker', i), 'attempt 1')
  t.equal(await stuck, 'attempt 2')
  t.match(team.crashes, [{ agent: 'worker', error: { details: { watchdogMs: 1_000 } } }])
})

t.test("a crash of one does not touch the other's turn", async (t) => {
  const team = start(t, 2)
  await team.start()
  // The first waits until another thread has come to the third: the next life of who died of the second.
  const result = await team.execute('meet 2, exit, meet 2')
  t.match(result, { success: true, finalOutput: '2 threads' })
  t.match(team.crashes, [{ agent: 'worker' }])
  t.same(
    result.orchestrationTrace.events
      .filter(({ eventType, agent }) => eventType === 'turn.finished' && agent === 'worker')
      .map(({ details }) => (details as { attempt: number }).attempt)
      .sort(),
    [1, 1, 2],
  )
})

t.test('nothing is lost or done twice while instances die one after the other', async (t) => {
  const team = start(t, 4, { maxRestarts: Number.POSITIVE_INFINITY })
  await team.start()
  const orders = numbers(200).map((i) => (Number(i) % 20 === 7 ? 'exit' : i))
  const answers = await Promise.all(orders.map((order) => ask(team, 'worker', order)))
  t.same(
    answers,
    orders.map((order) => `attempt ${order === 'exit' ? 2 : 1}`),
  )
  t.same(team.deadLetters.list(), [])
  t.equal(team.crashes.length, 10)
})
