/** Rule 31: what becomes of an arrival at a sync point when its agent, or its turn, does not stay. */
import t from 'tap'
import { arrives, eventsOf, isWell, meeting, metBy, mortal, namesOf, script, tries } from './meetings.ts'
import { gate, never, type Receive } from './teams.ts'

// ---- restarts

t.test('rule 31: an arrival stays when its agent restarts, and the turn takes up the same wait', async (t) => {
  const ann: Receive = async (_message, context) => {
    const { generation, data } = await context.sync('meet', `attempt ${context.attempt > 0}`)
    return `${generation} ${data.ann} in ${context.attempt}`
  }
  const { bob, open } = gated()
  const team = meeting(t, { ann, bob })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(10)
  t.same(namesOf(team.host.syncPoints.open), ['meet'])
  open()
  const { agentOutputs } = await run.result
  t.match(agentOutputs, { ann: [{ content: '1 attempt true in 2' }], bob: [{ content: 'ann,bob' }] })
  t.equal(events.length, 1)
  isWell(t, team)
})

t.test('rule 31: who is down when its generation is complete finds the result in the log', async (t) => {
  const ann: Receive = async (_message, context) => `${await metBy(context.sync('meet'))} in ${context.attempt}`
  const { bob, open } = gated()
  const team = meeting(t, { ann, bob })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(10)
  team.crash('ann')
  await team.clock.advance(10)
  t.equal(team.getAgentStatus('ann'), 'restarting')
  open()
  await team.clock.advance(0)
  t.equal(events.length, 1)
  t.equal(run.status, 'running')
  await team.clock.advance(200)
  t.match((await run.result).agentOutputs.ann, [{ content: '1 ann,bob in 3' }])
  t.equal(events.length, 1)
})

t.test('rule 31: an attempt that brings something else takes the place of the one before it', async (t) => {
  const ann: Receive = async (_message, context) => {
    const { data } = await context.sync('meet', `from attempt ${context.attempt}`)
    return String(data.ann)
  }
  const { bob, open } = gated()
  const team = meeting(t, { ann, bob })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(10)
  open()
  t.match((await run.result).agentOutputs.ann, [{ content: 'from attempt 2' }])
  isWell(t, team)
})

t.test('rule 31: an arrival that the next attempt does not repeat goes with the turn', async (t) => {
  const ann: Receive = async (_message, context) => {
    if (context.attempt > 1) return 'took another way'
    await context.sync('meet')
  }
  const { bob, open } = gated()
  const team = meeting(t, { ann, bob })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('ann')
  await team.clock.advance(10)
  open()
  await team.clock.advance(999)
  t.equal(run.status, 'running')
  await team.clock.advance(1)
  t.match((await run.result).agentOutputs, {
    ann: [{ content: 'took another way' }],
    bob: [{ structuredData: { arrived: ['bob'], missing: ['ann'] } }],
  })
  isWell(t, team)
})

t.test('rule 31: a handler that fails and is tried again arrives again', async (t) => {
  const ann: Receive = async (_message, context) => {
    const { generation } = await context.sync('meet')
    return `${generation} in ${context.attempt}`
  }
  const bob: Receive = async (_message, context) => {
    await context.sleep(1_500)
    await context.sync('meet').catch(() => {})
    return metBy(context.sync('meet'))
  }
  const roles = { ann: { supervision: { onHandlerError: 'retry' as const } } }
  const team = meeting(t, { ann, bob }, { onTimeout: 'abort' }, { roles })
  const run = team.launch('go')
  await team.clock.advance(1_500)
  t.match((await run.result).agentOutputs, { ann: [{ content: '2 in 2' }], bob: [{ content: '2 ann,bob' }] })
})

// ---- who is gone

/** Two rounds, so that it shows what the death of another does to the first and to the next. */
const staysForTwo: Receive = async (_message, context) => {
  const first = await metBy(context.sync('meet'))
  return `${first}; ${await metBy(context.sync('meet'))}`
}

t.test('rule 31: who waits for an agent that is gone for good goes on at once, and is told who', async (t) => {
  const bob: Receive = () => never
  const team = meeting(t, { ann: staysForTwo, bob }, {}, { roles: { bob: mortal } })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(100)
  t.same(events, [])
  team.crash('bob')
  await team.clock.advance(0)
  t.match((await run.result).agentOutputs.ann, [{ content: '1 ann without some; 2 ann without some' }])
  t.match(
    events.map(({ at, result }) => ({ at, missing: result.missing, timedOut: result.timedOut })),
    [100, 100].map((at) => ({ at, missing: ['bob'], timedOut: true })),
    'also where it was gone before the first arrival',
  )
  isWell(t, team)
})

t.test('rule 31: an agent that restarts is not gone, however long it is kept down', async (t) => {
  const bob: Receive = async (message, context) => {
    if (context.attempt < 3) return never
    return arrives(message, context)
  }
  const orchestration = script(async (script) => {
    const bob = script.request('bob', 'go')
    await script.sleep(25)
    const ann = await script.request('ann', 'go')
    return `${ann.content} ${(await bob).content}`
  })
  const team = meeting(t, { ann: arrives, bob }, {}, { orchestration })
  const run = team.launch('go')
  for (let death = 0; death < 2; death++) {
    await team.clock.advance(10)
    team.crash('bob')
  }
  await team.clock.advance(10)
  t.equal(team.getAgentStatus('bob'), 'restarting')
  t.same(namesOf(team.host.syncPoints.open), ['meet'])
  await team.clock.advance(200)
  t.equal((await run.result).finalOutput, 'ann,bob ann,bob')
})

t.test('rule 31: abort says that it is for one who is gone', async (t) => {
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    await context.sync('meet').catch((error: unknown) => void errors.push(error))
  }
  const bob: Receive = () => never
  const requiredAgents = ['ann', 'bob', 'cid']
  const cast = { ann, bob, cid: arrives }
  const orchestration = script(async (script) => {
    await script.requestAll(['ann', 'bob'], 'go')
    return 'done'
  })
  const team = meeting(t, cast, { onTimeout: 'abort', requiredAgents }, { roles: { bob: mortal }, orchestration })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('bob')
  await team.clock.advance(0)
  await run.result
  const message =
    'Generation 1 of sync point "meet" was aborted: bob is gone for good. Arrived: ann; missing: bob, cid. The log says why.'
  t.match(errors, [{ code: 'SYNC_POINT_TIMEOUT', message }])
})

t.test('rule 31: an agent that dies for good while it waits has not arrived', async (t) => {
  const cid: Receive = async (message, context) => {
    await context.sleep(500)
    return arrives(message, context)
  }
  const requiredAgents = ['ann', 'bob', 'cid']
  const cast = { ann: arrives, bob: arrives, cid }
  const team = meeting(t, cast, { requiredAgents }, { roles: { bob: mortal } })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(100)
  team.crash('bob')
  await team.clock.advance(0)
  t.match(events, [{ at: 100, result: { arrived: ['ann'], missing: ['bob', 'cid'], data: { ann: 'go' } } }])
  t.notOk('bob' in events[0]!.result.data)
  await team.clock.advance(400)
  t.match((await run.result).finalOutput, /^ann AGENT_TERMINATED AGENT_FAILED$/, 'cid came too late')
  isWell(t, team)
})

t.test('rule 31: an agent that was removed is gone, and one that came in its place is not late', async (t) => {
  const { opened, open } = gate()
  const orchestration = script(async (script) => {
    const ann = script.request('ann', 'go')
    await opened
    const bob = await script.request('bob', 'go')
    return `${(await ann).content} / ${bob.content}`
  })
  const extras = { orchestration, later: { bob: tries } }
  const team = meeting(t, { ann: staysForTwo, bob: () => never, cid: arrives }, {}, extras)
  const run = team.launch('go')
  await team.clock.advance(0)
  const removed = team.removeAgent('bob')
  await team.clock.advance(0)
  await removed
  await team.clock.advance(0)
  t.same(namesOf(team.host.syncPoints.open), [], 'ann went through both generations at once')
  await team.addAgent({ name: 'bob' })
  open()
  await team.clock.advance(1_000)
  t.equal((await run.result).finalOutput, '1 ann without some; 2 ann without some / 3 bob without some')
  isWell(t, team)
})

t.test('rule 31: an agent that was tried again after its cool-down is waited for again', async (t) => {
  const ann: Receive = async (message, context) => {
    const first = await metBy(context.sync('meet'))
    await context.sleep(100)
    return `${first}; ${((await arrives(message, context)) as { content: string }).content}`
  }
  const bob: Receive = async ({ content }, context) => {
    if (content === 'die') return never
    await context.sync('meet').catch(() => {})
    return metBy(context.sync('meet'))
  }
  const orchestration = script(async (script) => {
    const asked = script.request('ann', 'go')
    await script.request('bob', 'die').catch(() => {})
    await script.sleep(200)
    const { content } = await script.request('bob', 'go')
    return `${(await asked).content} / ${content}`
  })
  const supervision = { coolDownMs: 50 }
  const team = meeting(t, { ann, bob }, {}, { roles: { bob: mortal }, supervision, orchestration })
  const run = team.launch('go')
  await team.clock.advance(0)
  team.crash('bob')
  await team.clock.advance(200)
  t.equal((await run.result).finalOutput, '1 ann without some; ann,bob / 2 ann,bob')
})

// ---- withdrawn

t.test('rule 31: a turn that is withdrawn takes its arrival along, and the time begins anew', async (t) => {
  const orchestration = script(async (script) => {
    const leaves = new AbortController()
    const first = script.request('ann', 'first', { signal: leaves.signal }).catch(({ code }) => code)
    await script.sleep(800)
    leaves.abort()
    const code = await first
    const { content } = await script.request('bob', 'second')
    return `${code} ${content}`
  })
  const team = meeting(t, { ann: arrives, bob: arrives }, {}, { orchestration })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(1_799)
  t.same(events, [])
  await team.clock.advance(1)
  t.equal((await run.result).finalOutput, 'CANCELLED bob')
  t.match(events, [{ at: 1_800, result: { arrived: ['bob'], missing: ['ann'], data: { bob: 'second' } } }])
  isWell(t, team)
})

t.test('rule 31: an agent cannot arrive where it waits already, be it in one turn or in two', async (t) => {
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    const first = context.sync('meet')
    await context.sync('meet').catch((error: unknown) => void errors.push(error))
    return metBy(first)
  }
  const requiredAgents = ['ann', 'two']
  const orchestration = script(async (script) => {
    const ann = script.request('ann', 'go')
    const one = script.request('two', 'go')
    const other = script.request('two', 'go')
    return (await Promise.all([ann, one, other])).map(({ content }) => content).join(' ')
  })
  const { opened, open } = gate()
  const two: Receive = async (message, context) => {
    await opened
    return tries(message, context)
  }
  const team = meeting(t, { ann, two, cid: arrives }, { requiredAgents }, { orchestration })
  const run = team.launch('go')
  await team.clock.advance(0)
  t.match(errors, [
    {
      code: 'MESSAGE_REJECTED',
      message: /^Agent "ann" waits at sync point "meet" already \(generation 1\)/,
      details: { agent: 'ann', point: 'meet', generation: 1 },
    },
  ])
  open()
  await team.clock.advance(1_000)
  t.equal((await run.result).finalOutput, '1 ann,two 1 ann,two 2 two without some')

  const twins = { two: { instances: 2 } }
  const both = script(async (script) => {
    const one = script.request('two', 'go')
    const other = script.request('two', 'go')
    return (await Promise.all([one, other])).map(({ content }) => content).join(' ')
  })
  const instances = meeting(t, { ann, two: tries }, { requiredAgents }, { orchestration: both, roles: twins })
  const second = instances.launch('go')
  await instances.clock.advance(1_000)
  t.same((await second.result).finalOutput?.split(' two ').sort(), ['1', 'without some MESSAGE_REJECTED'].sort())
})

/** An agent that arrives once it may. */
function gated() {
  const { opened, open } = gate()
  const bob: Receive = async (message, context) => {
    await opened
    return arrives(message, context)
  }
  return { bob, open }
}
