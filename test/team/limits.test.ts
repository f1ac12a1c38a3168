/** At most so many agents of a run work at a time; one that only waits for others gives its place up. */
import t from 'tap'
import { type AgentContext, defineAgent } from '../../src/index.ts'
import { after, says, stage } from './stage.ts'

t.test('maxConcurrentAgents agents of one run work at a time', async (t) => {
  const agents = { a: after(10), b: after(10), c: after(10), d: after(10), e: after(10) }
  const team = stage(t, agents, { maxConcurrentAgents: 2, orchestration: { strategy: 'parallel' } })
  const pending = team.execute('q')
  await team.clock.advance(100)
  t.equal((await pending).executionTimeMs, 30)
})

t.test('the limit holds for each run, not for all', async (t) => {
  const team = stage(t, { a: after(10), b: after(10) }, { maxConcurrentAgents: 1 })
  const pending = Promise.all([team.getAgent('a')!.run('q'), team.getAgent('b')!.run('q')])
  await team.clock.advance(10)
  t.same(await pending, ['done', 'done'])
})

t.test('an agent of higher priority gets the next place', async (t) => {
  const order: string[] = []
  const notes = defineAgent({
    async receive(_message, context) {
      order.push(context.role.name)
      await context.sleep(10)
    },
  })
  const team = stage(
    t,
    { a: notes, b: notes, c: { code: notes, priority: 5 }, d: { code: notes, priority: 1 } },
    { maxConcurrentAgents: 1, orchestration: { strategy: 'parallel' } },
  )
  const pending = team.execute('q')
  await team.clock.advance(100)
  t.same((await pending).failures, [])
  t.same(order, ['a', 'c', 'd', 'b'])
})

const before: Record<string, (context: AgentContext) => unknown> = {
  'asks at once': () => {},
  'asks after a pause': (context) => context.sleep(5),
  'asks after a step': (context) => context.step('think', () => {}),
  'asks after a word on the blackboard': (context) => context.publish('k', 1, 'fact'),
  'asks for the second time': (context) => context.request('b', 'first'),
}
for (const [title, first] of Object.entries(before))
  t.test(`an agent that ${title} gives its place to the one that it waits for`, async (t) => {
    const asks = defineAgent({
      async receive(_message, context) {
        await first(context)
        return (await context.request('b', 'help')).content
      },
    })
    const team = stage(
      t,
      { a: asks, b: says('help') },
      { maxConcurrentAgents: 1, enableBlackboard: true, orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
    )
    const pending = team.execute('q', { timeoutMs: 1_000 })
    await team.clock.advance(1_000)
    t.equal((await pending).finalOutput, 'help')
  })

t.test('an agent that was answered goes on when there is a place', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      await context.request('b', 'help')
      await context.sleep(10)
    },
  })
  const team = stage(
    t,
    { a: asks, b: after(10), c: after(100) },
    { maxConcurrentAgents: 1, orchestration: { strategy: 'parallel', agents: ['a', 'c'] } },
  )
  const pending = team.execute('q')
  await team.clock.advance(200)
  const { executionTimeMs, success } = await pending
  t.same({ executionTimeMs, success }, { executionTimeMs: 120, success: true })
})
