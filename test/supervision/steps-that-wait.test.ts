/** Rules 19 and 22: a step that waits for another agent is no work of the turn's own. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { leftovers } from './accounts.ts'
import { localTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

const contentOf = async (context: AgentContext, agent: string) => (await context.request(agent, 'go')).content
const soon = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Each waits for "oracle" in a step, and for nothing else. */
const waits: Record<string, (context: AgentContext) => Promise<unknown>> = {
  'at once': (context) => context.step('ask', () => contentOf(context, 'oracle')),
  'after work of its own': (context) =>
    context.step('ask', async () => {
      await soon()
      return contentOf(context, 'oracle')
    }),
  'twice, one after the other': (context) =>
    context.step('ask', async () => {
      await contentOf(context, 'oracle')
      return contentOf(context, 'oracle')
    }),
  'within a step within it': (context) =>
    context.step('outer', async () => {
      await soon()
      return context.step('inner', () => contentOf(context, 'oracle'))
    }),
  'in several steps at once': (context) =>
    Promise.all(['a', 'b', 'c'].map((name) => context.step(name, () => contentOf(context, 'oracle')))),
  'when another step has ended': (context) =>
    Promise.all([context.step('short', soon), context.step('ask', () => contentOf(context, 'oracle'))]),
  'for room in a mailbox': (context) =>
    context.step('tell', async () => {
      await Promise.all([context.send('oracle', 'a'), context.send('oracle', 'b')])
    }),
}
for (const [how, wait] of Object.entries(waits)) {
  t.test(`rule 19: a turn that waits in a step ${how} gives its permit up`, async (t) => {
    const team = openTeam(
      t,
      {
        async asker(_message, context) {
          await wait(context)
          return 'went on'
        },
        oracle: () => 'yes',
      },
      { maxConcurrentAgents: 1, roles: { oracle: { communication: { mailboxCapacity: 1 } } } },
    )
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 20; i++) await team.clock.advance(0)
    t.match(run.value, { success: true, finalOutput: 'went on' })
    t.same(leftovers(team.host), [])
  })
}

/** Each asks "third", and is at something of its own in a step meanwhile. */
const works: Record<string, (context: AgentContext, own: () => Promise<void>) => Promise<unknown>> = {
  'that was begun after the request': (context, own) =>
    Promise.all([context.request('third', 'go'), context.step('own', own)]),
  'that was begun before the request': (context, own) =>
    Promise.all([context.step('own', own), context.request('third', 'go')]),
  'beside one that asks': (context, own) =>
    Promise.all([context.step('own', own), context.step('ask', () => contentOf(context, 'third'))]),
}
for (const [which, work] of Object.entries(works)) {
  t.test(`rule 19: a turn that works in a step ${which} keeps its permit`, async (t) => {
    const order: string[] = []
    const team = localTeam(
      t,
      {
        async worker(_message, context) {
          await work(context, async () => {
            order.push('begins')
            await team.clock.sleep(10)
            order.push('ends')
          })
        },
        third: () => void order.push('third'),
      },
      { maxConcurrentAgents: 1 },
    )
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 20; i++) await team.clock.advance(1)
    t.match(run.value, { success: true })
    t.same(order, ['begins', 'ends', 'third'])
  })
}

t.test('rule 19: a turn that goes on in a step with what it has waited for there keeps its permit', async (t) => {
  const order: string[] = []
  const team = localTeam(
    t,
    {
      async worker(_message, context) {
        const patient = context.request('patient', 'go')
        await context.step('ask', async () => {
          await contentOf(context, 'oracle')
          order.push('begins')
          await team.clock.sleep(10)
          order.push('ends')
        })
        await context.publish('done', true, 'fact')
        await patient
      },
      patient: async (_message, context) => void (await context.blackboard.waitFor('done')),
      oracle: () => 'yes',
      other: () => void order.push('other'),
    },
    {
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const worker = script.request('worker', 'go')
          await script.sleep(5)
          await Promise.all([worker, script.request('other', 'go')])
          return ''
        },
      },
    },
  )
  const run = outcomeOf(team.execute('go'))
  for (let i = 0; i < 20; i++) await team.clock.advance(1)
  t.match(run.value, { success: true })
  t.same(order, ['begins', 'ends', 'other'])
})

t.test('rule 24: two turns that ask each other within a step are a deadlock', async (t) => {
  const asks =
    (other: string): Receive =>
    (_message, context) =>
      context.step('ask', () => contentOf(context, other))
  const team = localTeam(t, { ann: asks('bob'), bob: asks('ann') })
  const cycles: unknown[] = []
  team.events.subscribe((event) => {
    if (event.type === 'deadlock') cycles.push(event.cycle)
  })
  const { error } = await team.execute('go')
  t.equal(error?.code, 'AGENT_FAILED')
  t.same(cycles[0], ['ann', 'bob'])
})
