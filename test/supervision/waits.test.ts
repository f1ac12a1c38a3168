/** Rules 22, 23 and 27: what exactly a turn waits for, when that is looked at, and a run in which nobody could go on. */
import type { Test } from 'tap'
import t from 'tap'
import { type AgentContext, defineAgent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import {
  answerOf,
  askAll,
  type Cast,
  gate,
  given,
  never,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
} from '../kit/team.ts'
import { after, bargains, fill, onGo, slow, watched } from './verdicts.ts'

/** Asks that one before it answers. */
const asksAll =
  (...to: string[]): Receive =>
  async (_message, context) =>
    (await context.requestAny(to, 'go')).content

t.test('rule 22: a message keeps its room until it is done with, whoever of several instances is idle', async (t) => {
  const sends: Receive = async (_message, context) => context.send('ann', 'more')
  const team = openTeam(t, { ann: sends }, { roles: { ann: { instances: 2 } }, communication: { mailboxCapacity: 1 } })
  t.match(await foundAt(t, team, 0), { type: 'deadlock', cycle: ['ann'], waits: [{ kind: 'mailbox' }, {}] })
})

t.test('rule 22: who has a place for a run takes no message that stands behind another of its sender', async (t) => {
  const fay: Receive = async (_message, context) => (await context.request('bob', 'note')).content
  const bob: Receive = async ({ content }, context) => {
    if (content === 'hold') await context.request('eve', 'help')
  }
  const eve: Receive = async ({ content }, context) => {
    if (content === 'help') return
    await context.sleep(10)
    await context.request('fay', 'tell')
  }
  const roles = { bob: { concurrency: 2 }, fay: { concurrency: 2 } }
  const team = given(t, {
    roles,
    script: async (script, query) => {
      const asks =
        query === 'first'
          ? [['eve', 'work']]
          : [
              ['bob', 'hold'],
              ['fay', 'tell'],
            ]
      return (await Promise.allSettled(asks.map(([to = '', what = '']) => script.request(to, what)))).length.toString()
    },
  }).team({ bob, fay, eve })
  const found = watched(team)
  const runs = ['first', 'second'].map((query) => team.launch(query))
  await team.clock.runToIdle()
  const [deadlock] = found
  t.match(deadlock, { type: 'deadlock' })
  if (deadlock?.type === 'deadlock') t.same([...deadlock.cycle].sort(), ['bob', 'eve', 'fay'])
  for (const run of runs) t.equal((await run.result).success, true)
})

t.test('rule 22: a sync point whose time runs frees who waits for it', async (t) => {
  const fay: Receive = async (_message, context) => `met ${(await context.sync('here')).arrived}`
  const team = given(t, { syncPoints: [{ name: 'here', requiredAgents: ['fay', 'gus'], timeoutMs: 1_000 }] }).team({
    cleo: asksAll('dan', 'fay'),
    dan: asksAll('cleo'),
    fay,
    gus: async () => '',
  })
  await undisturbed(t, team, 'met fay')
})

t.test('rule 23: an answer that does not end the wait leaves it to be looked at again', async (t) => {
  const team = given(t, {
    roles: { bob: { priority: 1 }, cleo: { priority: 1 } },
  }).team({ ann: asksAll('bob', 'cleo'), bob: asksAll('ann'), cleo: asksAll('ann') })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found, [
    { type: 'deadlock', cycle: ['ann', 'bob'], victim: null },
    { type: 'deadlock', cycle: ['ann', 'bob'], victim: 'ann' },
    { type: 'deadlock', cycle: ['ann', 'cleo'], victim: null },
    { type: 'deadlock', cycle: ['ann', 'cleo'], victim: 'ann' },
  ])
  t.equal(result.settled, true)
})

t.test('rule 23: a turn that comes again waits for what it had asked before', async (t) => {
  const bob: Receive = async (_message, context) => {
    await context.sleep(50)
    return (await context.request('ann', 'go')).content
  }
  const team = openTeam(t, { ann: asksAll('bob'), bob })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  for (let death = 0; death < 2; death++) {
    await team.clock.advance(10)
    team.crash('ann')
  }
  await team.clock.advance(40)
  t.same(found, [], 'who is asked is to come yet')
  await team.clock.advance(1_000)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  await team.clock.runToIdle()
  t.equal(result.settled, true)
})

t.test('rule 27: a script that waits for a sync point to which nobody comes is stalled', async (t) => {
  const fails: Receive = async () => {
    throw new Error('no idea')
  }
  const team = given(t, {
    syncPoints: [{ name: 'revealed', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000 }],
    script: async (script, query) => {
      await script.requestAll(['ann', 'bob'], query)
      return `without ${(await script.synced('revealed')).missing}`
    },
  }).team({ ann: fails, bob: fails })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found, [{ type: 'stall', evidence: [/orchestrator.*at a sync point/] }])
  t.equal(result.value?.finalOutput, 'without ann,bob')
})

t.test('rule 23: when a turn ends, who got its room may wait for one that does not', async (t) => {
  const ann: Receive = async ({ content }, context) => {
    if (content === 'rest') return context.sleep(10)
    await context.request('ann', 'more')
  }
  const team = given(t, {
    unfinished: true,
    roles: { ann: { concurrency: 2 } },
    communication: { mailboxCapacity: 2 },
    script: async (script, query) => {
      if (query === 'ask') return (await script.request('ann', query)).content
      await script.send('ann', query) // nobody waits for its end
      await script.sleep(10_000)
      return ''
    },
  }).team({ ann })
  const found = watched(team)
  team.launch('rest')
  const result = outcomeOf(team.execute('ask'))
  await team.clock.advance(5)
  t.same(found, [], 'there will be room')
  await team.clock.advance(1_000)
  t.match(found[0], { type: 'deadlock', cycle: ['ann'], waits: [{ kind: 'request' }, {}] })
  t.equal(result.settled, true)
})

t.test('rule 22: a turn that is tried again needs no answers of a quorum that it has had', async (t) => {
  const quorum: Receive = async (_message, context) => {
    const answers = await context.requestQuorum(['bob', 'cleo'], 2, 'go')
    return answers.map(({ sender }) => sender).join(' ')
  }
  let asked = 0
  const fails: Receive = async (_message, context) => {
    asked += 1
    if (asked === 1) throw new Error('not yet')
    if (asked < 4) await context.sleep(50)
    return 'done'
  }
  const roles = { ann: { supervision: { onHandlerError: 'retry' as const } } }
  const team = openTeam(t, { ann: quorum, bob: () => 'at once', cleo: fails }, { roles })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(10)
  team.crash('cleo')
  await team.clock.advance(10)
  team.crash('cleo') // now its next life has to wait
  await team.clock.runToIdle()
  t.same(found, [])
  t.match(result.value, { success: true, finalOutput: 'bob cleo' })
})

// Rule 22: what exactly a turn waits for, where one that is at work, or one that is not, makes the difference.

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
  t.match(await foundAt(t, team, 0, 'later'), { type: 'deadlock', cycle: ['chair', 'asks'] })
})

t.test('rule 22: a wait for room that a signal of the sender may end is none', async (t) => {
  const gone = new AbortController()
  const team = given(t, { orchestration: askAll, communication: { mailboxCapacity: 2 } }).team({
    ann: onGo((context) => fill(context, 'bob', gone.signal).catch(() => {})),
    bob: onGo((context) => fill(context, 'ann')),
  })
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
  const team = given(t, { orchestration: askAll, communication: { mailboxCapacity: 2 } }).team({
    ann: onGo(async (context) => {
      for (let i = 0; i < 4; i++) await context.broadcast('news')
    }),
    bob: onGo((context) => fill(context, 'ann')),
    cleo: (message, context) => (message.content === 'go' ? slow(message, context) : undefined),
  })
  t.match(await foundAt(t, team, 0, 'later'), { type: 'deadlock', cycle: ['ann', 'bob'] })
})

for (const order of [
  ['go', 'be slow'],
  ['be slow', 'go'],
])
  t.test(`rule 22: of instances that are all busy it waits for whichever ends first: ${order}`, async (t) => {
    const team = openTeam(t, bargains, {
      roles: { ann: { instances: 2 } },
      script: async (script) => {
        const asked: Promise<{ content: string }>[] = []
        for (const content of order) {
          asked.push(script.request('ann', content))
          await script.sleep(1)
        }
        return (await Promise.all(asked)).map(({ content }) => content).join()
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
  team.crashCell(team.agent('ann').instances[1])
  await team.clock.advance(0)
  t.match(await foundAt(t, team, 5), { type: 'deadlock', cycle: ['ann', 'bob'] })
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
  const team = given(t, {
    communication: { mailboxCapacity: 2 },
    roles: { ann: { concurrency: 2 } },
    script: async (script, query) => {
      const asked = [script.request(query === 'fill' ? 'ann' : 'bob', query)]
      await script.sleep(1)
      if (query === 'go') asked.push(script.request('ann', 'go'))
      await Promise.allSettled(asked)
      return ''
    },
  }).team({
    ann: async ({ content }, context) => {
      if (content === 'fill') await fill(context, 'bob').catch(() => {})
      if (content === 'go') await context.send('bob', 'one more')
    },
    bob: onGo(async (context) => {
      await context.sleep(10)
      await context.request('ann', 'your quote?')
    }),
  })
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
    const team = given(t, {
      maxConcurrentAgents: 1,
      roles: { ann: { concurrency }, bob: { concurrency }, hog: { priority: 1 } },
    }).team({
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
    })
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(100)
    t.equal(result.settled, false)
    open()
    await team.clock.runToIdle()
    t.equal(result.value?.finalOutput, 'a quote')
    t.same(found, [])
  })

t.test('rule 22: who is missing at a sync point may come by what somebody at work tells it yet', async (t) => {
  const team = given(t, {
    orchestration: askAll,
    roles: { late: { instances: 2 } },
    syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 5_000 }],
  }).team({
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
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.equal(result.value?.success, true)
  t.same(found, [])
})

t.test('rule 22: at a sync point it waits for those who are missing in its own run', async (t) => {
  const team = given(t, {
    roles: { ann: { concurrency: 2, priority: 1 } },
    syncPoints: [{ name: 'here', requiredAgents: ['ann', 'bob'], timeoutMs: 5_000 }],
    script: async (script, query) => {
      const asked = query.split(' ').map((order) => order.split(':') as [string, string])
      await Promise.all(asked.map(([name, content]) => script.request(name, content)))
      return ''
    },
  }).team({
    ann: async ({ content }, context) => {
      if (content === 'meet') await context.sync('here')
      else await context.request('bob', 'your quote?')
    },
    bob: async ({ content }, context) => {
      if (content === 'meet') await context.sync('here')
    },
  })
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
  const team = openTeam(t, { barber, customer }, { unfinished: true, orchestration: asksThose })
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

// Rule 23: whatever it is that leaves turns stuck, it is found at that moment: a wait that begins, one that ends, an
// agent that does.

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

t.test('rule 23: a stall is found when the last who might have written ends, though nobody waits for it', async (t) => {
  const team = given(t, {
    script: async (script) => {
      await script.send('customer', 'go')
      await script.request('barber', 'go')
      return ''
    },
  }).team({
    barber: async (_message, context) => void (await context.blackboard.waitFor('a customer')),
    customer: slow,
  })
  t.match(await foundAt(t, team, 1000), { type: 'stall' })
})

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
  const team = given(t, { orchestration: askAll, communication: { mailboxCapacity: 2 } }).team({
    ann: onGo((context) => fill(context, 'bob')),
    bob: onGo(async (context) => {
      await context.sleep(500)
      await context.request('ann', 'your quote?')
    }),
  })
  t.match(await foundAt(t, team, 500), {
    type: 'deadlock',
    cycle: ['ann', 'bob'],
    waits: [{ kind: 'mailbox' }, { kind: 'request' }],
  })
})

t.test('rule 23: it is found when the last wait beside one for room has ended', async (t) => {
  const team = given(t, {
    communication: { mailboxCapacity: 2 },
    script: async (script) => {
      await script.requestAll(['ann', 'bob'], 'go')
      return ''
    },
  }).team({
    ann: onGo(async (context) => void (await Promise.all([context.request('slow', 'go'), fill(context, 'bob')]))),
    bob: onGo(async (context) => void (await context.request('ann', 'your quote?'))),
    slow,
  })
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
    const team = given(t, {
      unfinished: true,
      communication: { mailboxCapacity: 2 },
      roles: { late: { communication: { mailboxCapacity: 1, queueTimeoutMs: 700 } } },
    }).team({
      ann: async (_message, context) => {
        const [, quote] = await Promise.allSettled([beside(context), context.request('bob', 'your quote?')])
        return quote.status
      },
      bob: after('ann'),
      slow,
      late: () => never,
    })
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
  const team = given(t, { unfinished: true }).team({
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
    script: async (script) => {
      const asked = script.request('ann', 'go')
      await script.sleep(1)
      await script.send('ann', 'be slow')
      return (await asked).content
    },
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(100)
  t.same(found, [])
  team.crashCell(team.agent('ann').instances[1])
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(result.settled, true)
})

/** Plays the team: something is found at that time, and not before, and the run ends then or later. Returns what is found. */
async function foundAt(t: Test, team: OpenTeam, ms: number, ends: 'then' | 'later' = 'then') {
  await team.start()
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  if (ms > 0) {
    await team.clock.advance(ms - 1)
    t.same(found, [])
  }
  await team.clock.advance(Math.min(ms, 1))
  const [first] = found
  if (ends === 'later') await team.clock.runToIdle()
  t.equal(result.settled, true)
  return first
}

// Rule 22: waits that somebody can end yet, and what stands in for whom: who only waits long is left alone.

/** It comes to that answer, and nobody was said to wait in vain. */
async function undisturbed(t: Test, team: OpenTeam, answer: string): Promise<void> {
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, answer)
  t.same(found, [])
}

const asksBob: Receive = async ({ content }, context) =>
  content === 'go' ? (await context.request('bob', 'ask')).content : 'done'

/** In 300 pieces. */
async function speak(context: AgentContext): Promise<void> {
  for (let i = 0; i < 300; i++) {
    context.emit('piece')
    await context.step('one more', () => {})
  }
}

/** How many of them there are. */
async function piecesOf(context: AgentContext, from: string): Promise<number> {
  let pieces = 0
  for await (const _piece of context.requestStream(from, 'tell me')) pieces += 1
  return pieces
}

t.test('a sync point whose members are still to come is no stall: its time ends it', async (t) => {
  const team = given(t, { syncPoints: [{ name: 'here', requiredAgents: ['early', 'never'], timeoutMs: 1_000 }] }).team({
    early: async (_message, context) => `${(await context.sync('here')).timedOut}`,
    never: async () => '',
  })
  await undisturbed(t, team, 'true')
})

t.test('rule 22: who waits for all, or more than can come, waits in vain though one of them is at work', async (t) => {
  const asks: Record<string, Receive> = {
    'for all': async (_, context) => `${(await context.requestAll(['slow', 'bob'], 'your quotes?')).length}`,
    'for two of three': async (_, context) =>
      `${(await context.requestQuorum(['slow', 'bob', 'cleo'], 2, 'your quotes?')).length}`,
  }
  for (const [what, ann] of Object.entries(asks)) {
    const team = openTeam(t, { ann, bob: after('ann'), cleo: after('ann'), slow })
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(0)
    t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] }, what)
    await team.clock.runToIdle()
    t.equal(result.settled, true, what)
  }
})

t.test('rule 22: an answer in the place of who was asked is one of those that a quorum waits for', async (t) => {
  const team = openTeam(t, {
    chair: async ({ content }, context) => {
      if (content === 'why') return 'because'
      return `${(await context.requestQuorum(['away', 'slow', 'asks'], 2, 'your vote?')).map(({ sender }) => sender)}`
    },
    away: async (_message, context) => {
      await context.sleep(5_000)
    },
    slow,
    asks: after('chair'),
  })
  const found = watched(team)
  const run = team.launch('go')
  await team.clock.advance(10)
  const asked = run.messageHistory.find(({ type, recipient }) => type === 'request' && recipient === 'away')
  await team.sendMessage({ type: 'response', recipient: null, content: 'yes', correlationId: asked!.id })
  await team.clock.runToIdle()
  t.match((await run.result).finalOutput, /slow/)
  t.same(found, [])
})

t.test('rule 22: an agent that is down comes back: who waits for it waits for that', async (t) => {
  const team = openTeam(t, {
    ann: after('bob'),
    bob: ({ content }, { attempt }) => (attempt < 3 ? new Promise<never>(() => {}) : content),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  for (let death = 0; death < 2; death++) {
    await team.clock.advance(10)
    team.crash('bob')
  }
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'your quote?')
  t.same(found, [])
})

t.test('rule 22: what stands in the mailbox of an agent at work will begin', async (t) => {
  const team = openTeam(t, { ann: after('bob'), bob: after('slow'), slow }, { orchestration: askAll })
  await undisturbed(t, team, 'slow slow slow')
})

t.test('rule 22: a request that stands in the mailbox waits for the turn before it', async (t) => {
  const team = openTeam(t, {
    ann: asksBob,
    bob: after('ann'),
  })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
})

t.test('rule 22: of an agent with several instances any may take it', async (t) => {
  const team = given(t, { roles: { ann: { instances: 2 } } }).team({
    ann: asksBob,
    bob: after('ann'),
  })
  const found = watched(team)
  const { finalOutput } = await team.execute('go')
  t.equal(finalOutput, 'done')
  t.same(found, [])
})

t.test('rule 22: runs can wait for each other', async (t) => {
  const met = [gate(), gate()] as const
  const cross =
    (mine: number, to: string): Receive =>
    async ({ content }, context) => {
      if (content !== 'go') return 'done'
      met[mine]!.open()
      await met[1 - mine]!.opened
      return (await context.request(to, 'ask')).content
    }
  const team = openTeam(t, { ann: cross(0, 'bob'), bob: cross(1, 'ann') })
  const found = watched(team)
  const runs = ['ann', 'bob'].map((name) => outcomeOf(team.getAgent(name)!.run('go')))
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann', 'bob'] })
  t.equal(new Set(found.map(({ runId }) => runId)).size, 2, 'each run is told')
  t.ok(runs.every(({ settled }) => settled))
})

// ---- no false alarm

t.test('a wait for one of several is none while one of them is at work', async (t) => {
  const team = given(t, { communication: { responseTimeoutMs: 200_000 } }).team({
    ann: async (_, context) => (await context.requestAny(['bob', 'slow'], 'your quote?')).content,
    bob: after('ann'),
    slow: async (_, context) => {
      await context.sleep(100_000)
      return 'at last'
    },
  })
  await undisturbed(t, team, 'at last')
})

t.test('rule 22: who waits for a permit waits for one at work, and one that only waits gives its own up', async (t) => {
  const team = given(t, { maxConcurrentAgents: 1 }).team({
    ann: async (_, context) => (await context.requestAll(['bob', 'cleo'], 'go')).map(({ ok }) => `${ok}`).join(' '),
    bob: async (_, context) => (await context.request('dan', 'go')).content,
    cleo: async (_, context) => (await context.request('dan', 'go')).content,
    dan: async (_, context) => {
      await context.sleep(1_000)
      return 'done'
    },
  })
  await undisturbed(t, team, 'true true')
})

t.test('a writer that waits for a reader who reads is not stuck', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const team = given(t, { seed }).team({
      reader: async (_, context) => {
        const pieces = await piecesOf(context, 'writer')
        return `${pieces}`
      },
      writer: async (_, context) => speak(context),
    })
    await undisturbed(t, team, '300')
  }
})

t.test('who reads a stream beside another wait goes on with each piece', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const team = given(t, { seed }).team({
      ann: async (_, context) => {
        const [pieces, { content }] = await Promise.all([piecesOf(context, 'bob'), context.request('cleo', 'and you?')])
        return `${pieces} ${content}`
      },
      bob: async (message, context) => {
        if (message.content === 'tell me') await speak(context)
        return 'bob'
      },
      cleo: after('bob'),
    })
    await undisturbed(t, team, '300 bob')
  }
})

t.test('a wait that a signal of the caller may end is none', async (t) => {
  const controller = new AbortController()
  const team = openTeam(t, {
    ann: async (_, context) => {
      try {
        return (await context.request('bob', 'your quote?', { signal: controller.signal })).content
      } catch (error) {
        return (error as { code: string }).code
      }
    },
    bob: after('ann'),
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(1_000)
  t.same(found, [])
  t.equal(result.settled, false)
  controller.abort()
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'CANCELLED')
})

t.test("the turn's own signal is the runtime's: it excuses nobody", async (t) => {
  const team = openTeam(t, {
    ann: async (_, context) => (await context.request('bob', 'quote?', { signal: context.signal })).content,
    bob: after('ann'),
  })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
})

t.test('a turn that does something beside its wait is not stuck yet', async (t) => {
  const team = openTeam(t, {
    ann: async (_, context) => {
      const quote = context.request('bob', 'your quote?')
      await Promise.race([quote.catch(() => {}), context.sleep(500)])
      return 'I go without'
    },
    bob: async (_, context) => answerOf(context.request('ann', 'yours?')),
  })
  await undisturbed(t, team, 'I go without')
})

// Rule 27: a run in which nobody is left who could go on.

const waitingBarber: Cast = {
  barber: async (_, context) => void (await context.blackboard.waitFor('a customer')),
  customer: async (_, context) => void (await context.blackboard.waitFor('a free chair')),
}

t.test('rule 27: all wait for what nobody is left to write: a stall, without a cycle', async (t) => {
  const team = openTeam(t, waitingBarber, { orchestration: askAll })
  t.match(await foundAt(t, team, 0), { type: 'stall', evidence: [/barber.*"a customer" on the blackboard/] })
})

t.test('rule 27: who waits is told that nobody will come', async (t) => {
  const team = openTeam(t, { barber: waitingBarber.barber! })
  const { error } = await team.execute('go')
  t.match(JSON.stringify(error?.toJSON()), /STALL/)
})

t.test('a protocol script is told of each of its stalls, and goes on', async (t) => {
  const team = openTeam(t, waitingBarber, {
    script: async (orchestrator) => {
      const codes: string[] = []
      for (const key of ['1', '2', '3', '4', '5', '6'])
        await orchestrator.blackboard.waitFor(key).catch(({ code }) => codes.push(code))
      return codes.join()
    },
  })
  const ended = team.execute('go')
  await team.clock.runToIdle()
  t.match(await ended, { success: true, finalOutput: 'STALL,STALL,STALL,STALL,STALL,STALL' })
})

t.test('an entry that somebody at work may write is waited for', async (t) => {
  const team = given(t, { orchestration: askAll }).team({
    barber: waitingBarber.barber!,
    customer: async (_, context) => {
      await context.sleep(10_000)
      await context.publish('a customer', 'me', 'fact')
    },
  })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.success, true)
  t.same(found, [])
})

t.test('whoever holds the run may write yet: nothing is said, and nothing ended', async (t) => {
  const team = openTeam(t, { barber: waitingBarber.barber! })
  const found = watched(team)
  const run = team.launch('go')
  await team.clock.advance(1_000)
  await run.blackboard!.write('a customer', 'me', 'fact')
  await team.clock.advance(0)
  t.match(await run.result, { success: true })
  t.same(found, [])
})

t.test('a stall that only the holder of the run could end is told when a time has run out', async (t) => {
  for (const times of [{ globalTimeoutMs: 5_000 }, { communication: { responseTimeoutMs: 5_000 } }]) {
    const team = openTeam(t, { barber: waitingBarber.barber! }, times)
    const found = watched(team)
    const run = team.launch('go')
    await team.clock.advance(4_999)
    t.same(found, [])
    await team.clock.advance(1)
    t.match(found, [{ type: 'stall', evidence: [/barber.*"a customer" on the blackboard/, /orchestrator/] }])
    t.equal((await run.result).success, false)
  }
})

t.test('who has the blackboard from outside is expected to write', async (t) => {
  const team = openTeam(t, { barber: waitingBarber.barber! }, { enableBlackboard: true })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  const board = team.getBlackboard()!
  await team.clock.advance(1_000)
  t.same(found, [])
  await board.write('a customer', 'me', 'fact')
  await team.clock.advance(0)
  t.match(result.value, { success: true })
})

t.test('a wait with a time limit ends by itself', async (t) => {
  const patient = defineAgent({
    receive: async (_, context) =>
      context.blackboard.waitFor('key', { timeoutMs: 5_000 }).then(
        () => 'written',
        ({ code }: { code: string }) => code,
      ),
  })
  const team = openTeam(t, { patient })
  await undisturbed(t, team, 'REQUEST_TIMEOUT')
})
