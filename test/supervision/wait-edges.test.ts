/** Rule 22: what exactly a turn waits for, where one that is at work, or one that is not, makes the difference. */
import t from 'tap'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { leftovers } from './accounts.ts'
import { askAll, gate, openTeam, outcomeOf, type Receive } from './teams.ts'
import { after, bargains, fill, onGo, slow, watched } from './verdicts.ts'

t.test('rule 22: one that has failed is none of those that a quorum needs', async (t) => {
  const team = openTeam(t, {
    chair: async (_message, context) => {
      const votes = await context.requestQuorum(['fails', 'slow', 'asks'], 2, 'your vote?')
      return `${votes.length}`
    },
    fails: () => {
      throw new Error('no vote of mine')
    },
    slow,
    asks: after('chair'),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['chair', 'asks'] })
  await team.clock.runToIdle()
  t.equal(result.settled, true)
})

t.test('rule 22: a wait for room that a signal of the sender may end is none', async (t) => {
  const gone = new AbortController()
  const team = openTeam(
    t,
    {
      ann: onGo((context) => fill(context, 'bob', gone.signal).catch(() => {})),
      bob: onGo((context) => fill(context, 'ann')),
    },
    { orchestration: askAll, communication: { mailboxCapacity: 2 } },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.same(found, [])
  t.equal(result.settled, false)
  gone.abort()
  await team.clock.runToIdle()
  t.equal(result.value?.success, true)
})

t.test('rule 22: who sends to all waits for each that has no room, though one of them is at work', async (t) => {
  const team = openTeam(
    t,
    {
      ann: onGo(async (context) => {
        for (let i = 0; i < 4; i++) await context.broadcast('news')
      }),
      bob: onGo((context) => fill(context, 'ann')),
      cleo: (message, context) => (message.content === 'go' ? slow(message, context) : undefined),
    },
    { orchestration: askAll, communication: { mailboxCapacity: 2 } },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  await team.clock.runToIdle()
  t.equal(result.settled, true)
})

for (const order of [
  ['go', 'be slow'],
  ['be slow', 'go'],
])
  t.test(`rule 22: of instances that are all busy it waits for whichever ends first: ${order}`, async (t) => {
    const team = openTeam(t, bargains, {
      roles: { ann: { instances: 2 } },
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const asked: Promise<{ content: string }>[] = []
          for (const content of order) {
            asked.push(script.request('ann', content))
            await script.sleep(1)
          }
          return (await Promise.all(asked)).map(({ content }) => content).join()
        },
      },
    })
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.runToIdle()
    t.equal(result.value?.finalOutput, order[0] === 'go' ? 'mine,slow' : 'slow,mine')
    t.same(found, [])
  })

t.test('rule 22: an instance that is stopped is none to wait for', async (t) => {
  const team = openTeam(t, bargains, { roles: { ann: { instances: 2, supervision: { maxRestarts: 0 } } } })
  await team.start()
  team.crashCell(team.host.directory.cell('ann')!.instances[1])
  await team.clock.advance(0)
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(5)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(result.settled, true)
})

t.test('rule 22: where turns of several runs may be open a message waits for the turn of its own run', async (t) => {
  const team = openTeam(t, bargains, { roles: { ann: { concurrency: 2 } } })
  const found = watched(team)
  const others = outcomeOf(team.execute('be slow'))
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(5)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(result.settled, true)
  await team.clock.runToIdle()
  t.equal(others.value?.finalOutput, 'slow')
})

t.test('rule 22: who stands behind another turn of its thread for room waits with it', async (t) => {
  const team = openTeam(
    t,
    {
      ann: async ({ content }, context) => {
        if (content === 'fill') await fill(context, 'bob').catch(() => {})
        if (content === 'go') await context.send('bob', 'one more')
      },
      bob: onGo(async (context) => {
        await context.sleep(10)
        await context.request('ann', 'your quote?')
      }),
    },
    {
      communication: { mailboxCapacity: 2 },
      roles: { ann: { concurrency: 2 } },
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const asked = [script.request(query === 'fill' ? 'ann' : 'bob', query)]
          await script.sleep(1)
          if (query === 'go') asked.push(script.request('ann', 'go'))
          await Promise.allSettled(asked)
          return ''
        },
      },
    },
  )
  const found = watched(team)
  const runs = [outcomeOf(team.execute('fill')), outcomeOf(team.execute('go'))]
  await team.clock.advance(9)
  t.same(found, [])
  await team.clock.advance(1)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'], waits: [{ kind: 'mailbox' }, { kind: 'request' }] })
  await team.clock.runToIdle()
  t.ok(runs.every(({ settled }) => settled))
})

for (const concurrency of [1, 2])
  t.test(`rule 22: whose answer waits for a permit will go on, at concurrency ${concurrency}`, async (t) => {
    const { opened, open } = gate()
    const team = openTeam(
      t,
      {
        ann: async (_message, context) => {
          const quotes = ['bob', 'other'].map((name) => context.request(name, 'your quote?'))
          return (await Promise.any(quotes)).content
        },
        bob: after('ann'),
        other: async (_message, context) => {
          await context.send('hog', 'go') // has the permit next
          return 'a quote'
        },
        hog: () => opened,
      },
      { maxConcurrentAgents: 1, roles: { ann: { concurrency }, bob: { concurrency }, hog: { priority: 1 } } },
    )
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(100)
    t.equal(result.settled, false)
    open()
    await team.clock.runToIdle()
    t.equal(result.value?.finalOutput, 'a quote')
    t.same(found, [])
    t.same(leftovers(team.host), [])
  })

t.test('rule 22: who is missing at a sync point may come by what somebody at work tells it yet', async (t) => {
  const team = openTeam(
    t,
    {
      early: async ({ content }, context) => {
        if (content === 'go') await context.sync('here')
      },
      late: async (message, context) => {
        if (message.content === 'come') await context.sync('here')
        else await after('early')(message, context)
      },
      third: async (message, context) => {
        await slow(message, context)
        await context.send('late', 'come')
      },
    },
    {
      orchestration: askAll,
      roles: { late: { instances: 2 } },
      syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 5_000 }],
    },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.equal(result.value?.success, true)
  t.same(found, [])
})

t.test('rule 22: at a sync point it waits for those who are missing in its own run', async (t) => {
  const team = openTeam(
    t,
    {
      ann: async ({ content }, context) => {
        if (content === 'meet') await context.sync('here')
        else await context.request('bob', 'your quote?')
      },
      bob: async ({ content }, context) => {
        if (content === 'meet') await context.sync('here')
      },
    },
    {
      roles: { ann: { concurrency: 2, priority: 1 } },
      syncPoints: [{ name: 'here', requiredAgents: ['ann', 'bob'], timeoutMs: 5_000 }],
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const asked = query.split(' ').map((order) => order.split(':') as [string, string])
          await Promise.all(asked.map(([name, content]) => script.request(name, content)))
          return ''
        },
      },
    },
  )
  const found = watched(team)
  const other = outcomeOf(team.execute('ann:meet'))
  await team.clock.advance(0)
  const result = outcomeOf(team.execute('bob:meet ann:ask'))
  await team.clock.advance(0)
  const [named] = found
  t.same(named?.type === 'deadlock' && named.cycle.toSorted(), ['ann', 'bob'])
  t.equal(result.value?.success, true)
  t.equal(other.settled, false, 'there bob is still missing')
  await team.clock.runToIdle()
  t.equal(other.value?.success, true)
})

// ---- a wait for whoever may write

const barber: Receive = async (_message, context) => void (await context.blackboard.waitFor('a customer'))

/** Takes its time, and writes then. */
const customer: Receive = async (message, context) => {
  await slow(message, context)
  await context.publish('a customer', 'me', 'fact')
}

/** Asks those agents. */
const asksThose: OrchestrationConfig = {
  strategy: 'custom',
  async run(script, query) {
    await script.requestAll(query.split(' '), 'go')
    return ''
  },
}

t.test('rule 22: who waits for an entry under a signal of its own waits for nobody', async (t) => {
  const gone = new AbortController()
  const team = openTeam(t, {
    barber: (_message, context) =>
      context.blackboard.waitFor('a customer', { signal: gone.signal }).then(
        () => 'written',
        ({ code }: { code: string }) => code,
      ),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.same(found, [])
  gone.abort()
  await team.clock.advance(0)
  t.equal(result.value?.finalOutput, 'CANCELLED')
})

t.test('rule 22: on a blackboard of the whole team another run may write', async (t) => {
  const team = openTeam(t, { barber, customer }, { enableBlackboard: { scope: 'team' }, orchestration: asksThose })
  const found = watched(team)
  const runs = [team.execute('customer'), team.execute('barber')]
  await team.clock.runToIdle()
  t.ok((await Promise.all(runs)).every(({ success }) => success))
  t.same(found, [])
})

t.test('rule 27: on a blackboard of its own a run is stalled though another one is at work', async (t) => {
  const team = openTeam(t, { barber, customer }, { orchestration: asksThose })
  const found = watched(team)
  void team.execute('customer')
  const result = outcomeOf(team.execute('barber'))
  await team.clock.advance(0)
  t.match(found[0], { type: 'stall' })
  t.equal(result.settled, true)
})

t.test('rule 22: who is still to begin may write, also when it waits for the end of another run', async (t) => {
  const team = openTeam(t, { barber, customer }, { orchestration: asksThose })
  const found = watched(team)
  const runs = [team.execute('customer')]
  await team.clock.advance(1)
  runs.push(team.execute('barber customer'))
  await team.clock.runToIdle()
  t.ok((await Promise.all(runs)).every(({ success }) => success))
  t.same(found, [])
})
