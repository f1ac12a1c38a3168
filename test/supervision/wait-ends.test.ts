/** Rule 23: whatever it is that leaves turns stuck, it is found at that moment: a wait that begins, one that ends, an agent that does. */

import type { Test } from 'tap'
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { askAll, never, openTeam, outcomeOf } from './teams.ts'
import { after, bargains, fill, onGo, slow, watched } from './verdicts.ts'

t.test('rule 23: it is found when the last wait beside it has ended', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      const key = context.blackboard.waitFor('a better offer', { timeoutMs: 500 })
      const [, quote] = await Promise.allSettled([key, context.request('bob', 'your quote?')])
      return quote.status
    },
    bob: after('ann'),
  })
  t.match(await foundAt(t, team, 500), { type: 'deadlock', cycle: ['ann', 'bob'] })
})

t.test(
  'rule 23: a stall is found when the last who might have written ends, though nobody waits for that turn',
  async (t) => {
    const team = openTeam(
      t,
      {
        barber: async (_message, context) => void (await context.blackboard.waitFor('a customer')),
        customer: slow,
      },
      {
        orchestration: {
          strategy: 'custom',
          async run(script) {
            await script.send('customer', 'go')
            await script.request('barber', 'go')
            return ''
          },
        },
      },
    )
    t.match(await foundAt(t, team, 1000), { type: 'stall' })
  },
)

t.test('rule 23: it is found when a writer has come too far ahead of its reader', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      const stream = context.requestStream('bob', 'tell me')
      const { content } = await context.request('cleo', 'first you')
      for await (const _piece of stream);
      return content
    },
    bob: async (_message, context) => {
      await context.sleep(500)
      for (let i = 0; i < 100; i++) context.emit('piece')
      await context.step('one more', () => {})
    },
    cleo: after('bob'),
  })
  t.match(await foundAt(t, team, 500), { type: 'deadlock', cycle: ['ann', 'cleo', 'bob'] })
})

t.test('rule 23: it is found when who has no room to send is asked', async (t) => {
  const team = openTeam(
    t,
    {
      ann: onGo((context) => fill(context, 'bob')),
      bob: onGo(async (context) => {
        await context.sleep(500)
        await context.request('ann', 'your quote?')
      }),
    },
    { orchestration: askAll, communication: { mailboxCapacity: 2 } },
  )
  t.match(await foundAt(t, team, 500), {
    type: 'deadlock',
    cycle: ['ann', 'bob'],
    waits: [{ kind: 'mailbox' }, { kind: 'request' }],
  })
})

t.test('rule 23: it is found when the last wait beside one for room has ended', async (t) => {
  const team = openTeam(
    t,
    {
      ann: onGo(async (context) => void (await Promise.all([context.request('slow', 'go'), fill(context, 'bob')]))),
      bob: onGo(async (context) => void (await context.request('ann', 'your quote?'))),
      slow,
    },
    {
      communication: { mailboxCapacity: 2 },
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await script.requestAll(['ann', 'bob'], 'go')
          return ''
        },
      },
    },
  )
  t.match(await foundAt(t, team, 1000), {
    type: 'deadlock',
    cycle: ['ann', 'bob'],
    waits: [{ kind: 'mailbox' }, { kind: 'request' }],
  })
})

t.test('rule 23: it is found when who waits for its reader is asked', async (t) => {
  const team = openTeam(t, {
    ann: async (_message, context) => {
      const stream = context.requestStream('bob', 'tell me')
      await context.sleep(500)
      const { content } = await context.request('bob', 'and this?')
      for await (const _piece of stream);
      return content
    },
    bob: async (_message, context) => {
      for (let i = 0; i < 100; i++) context.emit('piece')
      await context.step('one more', () => {})
    },
  })
  t.match(await foundAt(t, team, 500), {
    type: 'deadlock',
    cycle: ['ann', 'bob'],
    waits: [{ kind: 'request' }, { kind: 'reader' }],
  })
})

t.test('rule 23: a stall is found when a wait that had a time limit has ended beside it', async (t) => {
  const team = openTeam(t, {
    barber: async (_message, context) => {
      const limited = context.blackboard.waitFor('a better customer', { timeoutMs: 500 })
      await Promise.allSettled([limited, context.blackboard.waitFor('a customer')])
    },
  })
  t.match(await foundAt(t, team, 500), { type: 'stall' })
})

const endings: Record<string, { beside: (context: AgentContext) => Promise<unknown>; at: number }> = {
  'a request that was not answered in time': {
    beside: (context) => context.request('late', 'go', { timeoutMs: 500 }),
    at: 500,
  },
  'a send that is accepted': { beside: (context) => fill(context, 'slow'), at: 1_000 },
  'a send that has expired': { beside: (context) => fill(context, 'late'), at: 700 },
}

for (const [what, { beside, at }] of Object.entries(endings))
  t.test(`rule 23: it is found when the wait beside it ends: ${what}`, async (t) => {
    const team = openTeam(
      t,
      {
        ann: async (_message, context) => {
          const [, quote] = await Promise.allSettled([beside(context), context.request('bob', 'your quote?')])
          return quote.status
        },
        bob: after('ann'),
        slow,
        late: () => never,
      },
      {
        communication: { mailboxCapacity: 2 },
        roles: { late: { communication: { mailboxCapacity: 1, queueTimeoutMs: 700 } } },
      },
    )
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(at - 1)
    t.same(found, [])
    await team.clock.advance(1)
    t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
    t.equal(result.settled, true)
  })

t.test('rule 23: it is found when the wait beside it is withdrawn', async (t) => {
  const gone = new AbortController()
  const team = openTeam(t, {
    ann: async (_message, context) => {
      const wanted = context.request('late', 'go', { signal: gone.signal })
      const [, quote] = await Promise.allSettled([wanted, context.request('bob', 'your quote?')])
      return quote.status
    },
    bob: after('ann'),
    late: () => never,
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(100)
  t.same(found, [])
  gone.abort()
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(result.settled, true)
})

t.test('rule 23: it is found when the instance that could have come is stopped', async (t) => {
  const team = openTeam(t, bargains, {
    roles: { ann: { instances: 2, supervision: { maxRestarts: 0 } } },
    orchestration: {
      strategy: 'custom',
      async run(script) {
        const asked = script.request('ann', 'go')
        await script.sleep(1)
        await script.send('ann', 'be slow')
        return (await asked).content
      },
    },
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(100)
  t.same(found, [])
  team.crashCell(team.host.directory.cell('ann')!.instances[1])
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(result.settled, true)
})

/** Plays the team: something is found at that time, and not before, and the run ends. Returns what is found. */
async function foundAt(t: Test, team: ReturnType<typeof openTeam>, ms: number) {
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(ms - 1)
  t.same(found, [])
  await team.clock.advance(1)
  t.equal(result.settled, true)
  return found[0]
}
