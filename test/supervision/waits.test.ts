/** Rules 22 and 23: waits that come about without a message of their own, or end other than they look. Found by random programs. */
import t from 'tap'
import { openTeam, outcomeOf, type Receive } from './teams.ts'
import { watched } from './verdicts.ts'

/** Asks that one before it answers. */
const after =
  (...to: string[]): Receive =>
  async (_message, context) =>
    (await context.requestAny(to, 'go')).content

t.test('rule 22: a message keeps its room until it is done with, whoever of several instances is idle', async (t) => {
  const sends: Receive = async (_message, context) => context.send('ann', 'more')
  const team = openTeam(t, { ann: sends }, { roles: { ann: { instances: 2 } }, communication: { mailboxCapacity: 1 } })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(found[0], { type: 'deadlock', cycle: ['ann'], waits: [{ kind: 'mailbox' }, {}] })
  t.equal(result.settled, true)
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
  const team = openTeam(
    t,
    { bob, fay, eve },
    {
      roles,
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const asks =
            query === 'first'
              ? [['eve', 'work']]
              : [
                  ['bob', 'hold'],
                  ['fay', 'tell'],
                ]
          return (
            await Promise.allSettled(asks.map(([to = '', what = '']) => script.request(to, what)))
          ).length.toString()
        },
      },
    },
  )
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
  const team = openTeam(
    t,
    { cleo: after('dan', 'fay'), dan: after('cleo'), fay, gus: async () => '' },
    { syncPoints: [{ name: 'here', requiredAgents: ['fay', 'gus'], timeoutMs: 1_000 }] },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'met fay')
  t.same(found, [])
})

t.test('rule 23: an answer that does not end the wait leaves it to be looked at again', async (t) => {
  const team = openTeam(
    t,
    { ann: after('bob', 'cleo'), bob: after('ann'), cleo: after('ann') },
    {
      roles: { bob: { priority: 1 }, cleo: { priority: 1 } },
    },
  )
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
  const team = openTeam(t, { ann: after('bob'), bob })
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
  const team = openTeam(
    t,
    { ann: fails, bob: fails },
    {
      syncPoints: [{ name: 'revealed', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000 }],
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          await script.requestAll(['ann', 'bob'], query)
          return `without ${(await script.synced('revealed')).missing}`
        },
      },
    },
  )
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
  const team = openTeam(
    t,
    { ann },
    {
      roles: { ann: { concurrency: 2 } },
      communication: { mailboxCapacity: 2 },
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          if (query === 'ask') return (await script.request('ann', query)).content
          await script.send('ann', query) // nobody waits for its end
          await script.sleep(10_000)
          return ''
        },
      },
    },
  )
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
