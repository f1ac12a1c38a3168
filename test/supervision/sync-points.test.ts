/** Rule 31: who meets at a sync point, in which generation, what each gets, and who is told. */
import t from 'tap'
import { StallError, type SyncResult } from '../../src/index.ts'
import { where } from '../kit/lists.ts'
import { ask, askAll, gate, never, openTeam, type Receive } from '../kit/team.ts'
import { arrives, eventsOf, isWell, meeting, metBy, mortal, namesOf, script, tries } from './meetings.ts'

// ---- who meets

t.test('rule 31: everybody gets the same result when all required agents are there, and nobody before', async (t) => {
  const results: Record<string, SyncResult> = {}
  const comes: Receive = async ({ content }, context) => {
    results[context.role.name] = await context.sync('meet', { brought: content })
  }
  const orchestration = script(async (script) => {
    const bob = script.request('bob', "bob's")
    await script.sleep(500)
    t.same(results, {})
    await script.request('ann', "ann's")
    await bob
    return 'met'
  })
  const team = meeting(t, { ann: comes, bob: comes }, {}, { orchestration })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(500)
  const outcome = await run.result
  const data = { ann: { brought: "ann's" }, bob: { brought: "bob's" } }
  const met = { generation: 1, arrived: ['ann', 'bob'], missing: [], timedOut: false, data }
  t.same(results, { ann: met, bob: met })
  t.match(events, [{ point: 'meet', runId: run.id, at: 500, result: met }])
  t.equal(events.length, 1)
  t.same(outcome.orchestrationTrace.syncPointsReached, ['meet'])
  const { data: _data, ...inTrace } = met
  t.match(where(outcome.orchestrationTrace.events, 'eventType', 'sync'), [
    { agent: null, timestamp: 500, details: { point: 'meet', ...inTrace } },
  ])
  t.notMatch(JSON.stringify(outcome.orchestrationTrace), 'brought')
  isWell(t, team)
})

t.test('rule 31: generations are numbered from 1 for each point and each run', async (t) => {
  const rounds: Receive = async (_message, context) => {
    const met: string[] = []
    for (const point of ['meet', 'meet', 'part', 'meet']) {
      const { generation, data } = await context.sync(point, `${point} ${met.length}`)
      met.push(`${point} ${generation} ${Object.values(data)}`)
    }
    return met.join('; ')
  }
  const syncPoints = ['meet', 'part'].map((name) => ({ name, requiredAgents: ['ann', 'bob'], timeoutMs: 1_000 }))
  const team = openTeam(t, { ann: rounds, bob: rounds }, { orchestration: askAll, syncPoints })
  for (let run = 0; run < 2; run++) {
    const { agentOutputs, orchestrationTrace } = await team.execute('go')
    const met = 'meet 1 meet 0,meet 0; meet 2 meet 1,meet 1; part 1 part 2,part 2; meet 3 meet 3,meet 3'
    t.match(agentOutputs, { ann: [{ content: met }], bob: [{ content: met }] })
    t.same(orchestrationTrace.syncPointsReached, ['meet', 'part'], 'each once')
    t.equal(orchestrationTrace.events.filter(({ eventType }) => eventType === 'sync').length, 4)
  }
})

t.test('rule 31: agents meet within one run alone', async (t) => {
  const team = meeting(t, { ann: tries, bob: tries })
  const answers = Promise.all([ask(team, 'ann'), ask(team, 'bob')])
  await team.clock.advance(1_000)
  t.same(await answers, ['1 ann without some', '1 bob without some'])
  isWell(t, team)
})

t.test('rule 31: without an exchange of data nobody gets what was brought, nor who watches', async (t) => {
  const team = meeting(t, { ann: arrives, bob: arrives }, { dataExchange: false })
  const events = eventsOf(team)
  const { agentOutputs } = await team.execute('secret')
  t.match(agentOutputs.ann, [{ structuredData: { data: {} } }])
  t.same(events[0]?.result.data, {})
})

t.test('rule 31: who brings nothing is there all the same', async (t) => {
  const ann: Receive = async (_message, context) => JSON.stringify(await context.sync('meet'))
  const bob: Receive = async (_message, context) => JSON.stringify(await context.sync('meet', null))
  const team = meeting(t, { ann, bob })
  const { agentOutputs } = await team.execute('go')
  const met = { generation: 1, arrived: ['ann', 'bob'], missing: [], timedOut: false, data: { bob: null } }
  t.same(JSON.parse(agentOutputs.ann![0]!.content), met)
})

t.test('rule 31: who waits at a sync point gives its permit up', async (t) => {
  const team = meeting(t, { ann: arrives, bob: arrives }, {}, { maxConcurrentAgents: 1 })
  t.equal((await team.execute('go')).finalOutput, 'ann,bob ann,bob')
})

// ---- time

for (const onTimeout of ['proceed', 'notify'] as const)
  t.test(`rule 31: when its time is up, ${onTimeout} lets those go on who are there`, async (t) => {
    const cid: Receive = () => 'elsewhere'
    const orchestration = script(async (script) => {
      const first = script.request('bob', 'first')
      await script.sleep(600)
      const second = script.request('ann', 'second')
      return (await Promise.all([first, second])).map(({ content }) => content).join(' ')
    })
    const requiredAgents = ['ann', 'bob', 'cid']
    const team = meeting(t, { ann: arrives, bob: arrives, cid }, { onTimeout, requiredAgents }, { orchestration })
    const events = eventsOf(team)
    const run = team.launch('go')
    await team.clock.advance(999)
    t.equal(run.status, 'running', 'it counts from the first arrival')
    await team.clock.advance(1)
    const { finalOutput, messageHistory, orchestrationTrace } = await run.result
    t.equal(finalOutput, 'ann,bob ann,bob')
    const result = { generation: 1, arrived: ['ann', 'bob'], missing: ['cid'], timedOut: true }
    t.match(events, [{ result: { ...result, data: { ann: 'second', bob: 'first' } } }])
    t.equal(events.length, 1)
    t.same(orchestrationTrace.syncPointsReached, [])
    const reports = messageHistory.filter(({ type }) => type === 'report')
    t.match(
      reports,
      onTimeout === 'proceed'
        ? []
        : [
            {
              sender: '$runtime',
              recipient: '$orchestrator',
              content:
                'Generation 1 of sync point "meet" went on without cid: cid did not arrive within 1000 ms of the first arrival.',
              structuredData: { event: 'sync', point: 'meet', ...result },
            },
          ],
    )
    t.equal(reports.length, onTimeout === 'proceed' ? 0 : 1)
    t.same(team.deadLetters.list(), [])
    isWell(t, team)
  })

t.test('rule 31: when its time is up, abort rejects who waits; who does not catch it fails', async (t) => {
  const caught: unknown[] = []
  const catches: Receive = async (_message, context) => {
    await context.sync('meet').catch((error: unknown) => void caught.push(error))
    return 'went on'
  }
  const orchestration = script(async (script) => {
    const [ann, bob] = await script.requestAll(['ann', 'bob'], 'go')
    return JSON.stringify([ann?.ok && ann.message.content, bob && !bob.ok && bob.error])
  })
  const requiredAgents = ['ann', 'bob', 'cid']
  const cast = { ann: catches, bob: arrives, cid: arrives }
  const team = meeting(t, cast, { onTimeout: 'abort', requiredAgents }, { orchestration })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(1_000)
  const result = await run.result
  t.match(caught, [
    {
      code: 'SYNC_POINT_TIMEOUT',
      message:
        'Generation 1 of sync point "meet" was aborted: cid did not arrive within 1000 ms of the first arrival. Arrived: ann, bob; missing: cid. Raise the point\'s timeoutMs, or look at what the missing were at.',
      details: { point: 'meet', generation: 1, runId: run.id, arrived: ['ann', 'bob'], missing: ['cid'] },
    },
  ])
  t.match(JSON.parse(result.finalOutput!), ['went on', { code: 'AGENT_FAILED', message: /SYNC_POINT|aborted/ }])
  t.match(events, [{ result: { generation: 1, missing: ['cid'], timedOut: true } }])
  isWell(t, team)
})

t.test('rule 31: after a generation that ended without some the next one has the next number', async (t) => {
  const twoRounds: Receive = async (_message, context) => {
    const first = await metBy(context.sync('meet'))
    return `${first}; ${await metBy(context.sync('meet'))}`
  }
  const orchestration = script(async (script) => {
    const ann = script.request('ann', 'go')
    await script.sleep(1_500)
    const bob = await script.request('bob', 'go')
    return `${(await ann).content} / ${bob.content}`
  })
  const team = meeting(t, { ann: twoRounds, bob: twoRounds }, { onTimeout: 'abort' }, { orchestration })
  const run = team.launch('go')
  await team.clock.advance(1_500)
  t.equal((await run.result).finalOutput, 'SYNC_POINT_TIMEOUT; 2 ann,bob / SYNC_POINT_TIMEOUT; 2 ann,bob')
})

t.test('rule 31: who comes after its generation was closed is told so once; its next arrival counts', async (t) => {
  const errors: unknown[] = []
  const late: Receive = async (_message, context) => {
    await context.sync('meet').catch((error: unknown) => void errors.push(error))
    const again = await metBy(context.sync('meet'))
    return `${again}; ${await metBy(context.sync('meet'))}`
  }
  const threeRounds: Receive = async (_message, context) => {
    const rounds: string[] = []
    for (let round = 0; round < 4; round++) rounds.push(await metBy(context.sync('meet')))
    return rounds.join('; ')
  }
  const orchestration = script(async (script) => {
    const ann = script.request('ann', 'go')
    await script.sleep(2_500)
    const bob = await script.request('bob', 'go')
    return `${bob.content} / ${(await ann).content}`
  })
  const team = meeting(t, { ann: threeRounds, bob: late }, {}, { orchestration })
  const run = team.launch('go')
  await team.clock.advance(2_500)
  const { finalOutput } = await run.result
  t.equal(finalOutput, '3 ann,bob; 4 ann,bob / 1 ann without some; 2 ann without some; 3 ann,bob; 4 ann,bob')
  t.match(errors, [
    {
      code: 'SYNC_POINT_TIMEOUT',
      message:
        'Agent "bob" came too late to sync point "meet": generation 2 was closed at 1970-01-01T00:00:02.000Z without it; arrived: ann. If it comes again it arrives in generation 3.',
      details: {
        agent: 'bob',
        point: 'meet',
        generation: 2,
        runId: run.id,
        closedAt: 2_000,
        arrived: ['ann'],
        next: 3,
      },
    },
  ])
  t.equal(errors.length, 1)
  isWell(t, team)
})

// ---- who may not

t.test('rule 31: nobody arrives at a point that there is not, or that does not require it', async (t) => {
  const errors: { code: string; message: string; path: unknown }[] = []
  const note = ({ code, message, details }: { code: string; message: string; details: { path?: unknown } }) =>
    void errors.push({ code, message, path: details.path })
  const cid: Receive = async (_message, context) => {
    await context.sync('meat').catch(note)
    await context.sync('meet').catch(note)
    await context.sync('meet', Number.NaN).catch(note)
    await context.sync(5 as never).catch(note)
  }
  const orchestration = script(async (script) => {
    await script.request('cid', 'go')
    await script.sync('meet').catch(note)
    await script.synced('noon').catch(note)
    await script.synced(undefined as never).catch(note)
    return 'done'
  })
  const team = meeting(t, { ann: arrives, bob: arrives, cid }, {}, { orchestration })
  t.equal((await team.execute('go')).finalOutput, 'done')
  const required = 'so it cannot arrive there; required: ann, bob.'
  t.strictSame(errors, [
    {
      code: 'CONFIGURATION',
      message: 'context.sync: there is no sync point "meat"; syncPoints declares meet. Did you mean "meet"?',
      path: 'context.sync',
    },
    {
      code: 'CONFIGURATION',
      message: `context.sync: "cid" is not required at sync point "meet", ${required} Add it to requiredAgents.`,
      path: 'context.sync',
    },
    {
      code: 'MESSAGE_REJECTED',
      message: 'sync.data is NaN; a JSON value is needed: string, finite number, boolean, null, list or plain object.',
      path: 'sync.data',
    },
    { code: 'MESSAGE_REJECTED', message: 'point is 5; a string is needed.', path: 'point' },
    {
      code: 'CONFIGURATION',
      message: `context.sync: "$orchestrator" is not required at sync point "meet", ${required} A script watches it with synced.`,
      path: 'context.sync',
    },
    {
      code: 'CONFIGURATION',
      message: 'orchestrator.synced: there is no sync point "noon"; syncPoints declares meet.',
      path: 'orchestrator.synced',
    },
    { code: 'MESSAGE_REJECTED', message: 'point is nothing; a string is needed.', path: 'point' },
  ])
  const none = openTeam(t, {
    async ann(_message, context) {
      await context.sync('meet').catch(note)
    },
  })
  await none.execute('go')
  t.match(errors.at(-1), {
    message: 'context.sync: there is no sync point "meet"; this team has none (option syncPoints).',
  })
  isWell(t, team)
})

// ---- the script

t.test('rule 31: the script sees what came of a point, each generation once', async (t) => {
  const orchestration = script(async (script) => {
    const seen: string[] = []
    const look = async () => {
      const { generation, data } = await script.synced<string>('meet')
      seen.push(`${generation} ${Object.values(data)}`)
    }
    const before = look()
    await script.requestAll(['ann', 'bob'], 'a')
    await before
    const second = look()
    await script.requestAll(['ann', 'bob'], 'b')
    await second
    await script.requestAll(['ann', 'bob'], 'c')
    await look()
    const fourth = look()
    await script.requestAll(['ann', 'bob'], 'd')
    await fourth
    await script.requestAll(['ann', 'bob'], 'e')
    await script.requestAll(['ann', 'bob'], 'f')
    await look()
    return seen.join('; ')
  })
  const team = meeting(t, { ann: arrives, bob: arrives }, {}, { orchestration })
  t.equal((await team.execute('go')).finalOutput, '1 a,a; 2 b,b; 3 c,c; 4 d,d; 6 f,f')
  isWell(t, team)
})

t.test('rule 31: the script is told who was missing, and of an abort', async (t) => {
  const orchestration = script(async (script) => {
    const watched = metBy(script.synced('meet'))
    await script.requestAll(['ann'], 'go')
    const first = await watched
    await script.requestAll(['ann'], 'go')
    return `${first}; ${await metBy(script.synced('meet'))}`
  })
  for (const [onTimeout, expected] of [
    ['notify', '1 ann without some; 2 ann without some'],
    ['abort', 'SYNC_POINT_TIMEOUT; SYNC_POINT_TIMEOUT'],
  ] as const) {
    const team = meeting(t, { ann: arrives, bob: arrives }, { onTimeout }, { orchestration })
    const run = team.launch('go')
    await team.clock.advance(2_000)
    t.equal((await run.result).finalOutput, expected)
  }
})

t.test('rule 31: who watches a point is not waited for, and waits until nobody is left who could come', async (t) => {
  const orchestration = script((script) => metBy(script.synced('meet')))
  const roles = { ann: mortal, bob: mortal }
  const team = meeting(t, { ann: arrives, bob: arrives }, {}, { orchestration, roles })
  const run = team.launch('go')
  await team.clock.advance(5_000)
  team.crash('ann')
  await team.clock.advance(5_000)
  t.equal(run.status, 'running', 'bob may come')
  await team.dies('bob')
  t.equal((await run.result).finalOutput, '1  without some')
  isWell(t, team)
})

t.test('rule 31: who waits at a point waits no longer than its run', async (t) => {
  const orchestration = script(async (script) => {
    void script.request('ann', 'go')
    return metBy(script.synced('meet'))
  })
  const team = meeting(t, { ann: arrives, bob: arrives }, {}, { orchestration })
  const events = eventsOf(team)
  const run = team.launch('go')
  await team.clock.advance(10)
  t.same(namesOf(team.host.syncPoints.open), ['meet'])
  await run.cancel('enough')
  await team.clock.advance(5_000)
  t.equal((await run.result).error?.code, 'RUN_ABORTED')
  t.same(events, [])
  isWell(t, team)
})

// ---- for detectors

t.test('rule 31: a generation that is open can be looked at, and given up', async (t) => {
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    try {
      const { timedOut, missing } = await context.sync('meet')
      return `${timedOut} ${missing}`
    } catch (error) {
      errors.push(error)
      return 'rejected'
    }
  }
  for (const [onTimeout, expected, reports] of [
    ['proceed', 'true bob', 0],
    ['notify', 'true bob', 1],
    ['abort', 'rejected', 0],
  ] as const) {
    const orchestration = script(async (script) => {
      const watched = metBy(script.synced('meet'))
      const { content } = await script.request('ann', 'go')
      await watched
      return content
    })
    const team = meeting(t, { ann, bob: arrives }, { onTimeout }, { orchestration })
    const run = team.launch('go')
    await team.clock.advance(10)
    const [generation, ...others] = team.host.syncPoints.open
    t.same(namesOf(others), [])
    t.strictSame([generation!.run.id, generation!.generation, generation!.missing], [run.id, 1, ['bob']])
    const [arrived] = generation!.arrived
    t.ok(arrived?.agent === team.host.directory.agent('ann'))
    t.ok(team.agent('ann').mailbox.handed.get(arrived!.turn))
    t.ok(team.agent('ann').calls.has(arrived!.correlation))
    const [watcher] = generation!.watchers
    t.ok(watcher?.agent === team.host.directory.agent('$orchestrator'))
    generation!.giveUp(new StallError('Nobody can go on.'))
    generation!.giveUp(new StallError('Nobody waits any more.'))
    const { finalOutput, messageHistory } = await run.result
    t.equal(finalOutput, expected)
    t.equal(messageHistory.filter(({ type }) => type === 'report').length, reports)
    isWell(t, team)
  }
  t.match(errors, [{ message: /was aborted: Nobody can go on\. Arrived: ann; missing: bob\./, cause: Error }])
})

// Rule 31: what becomes of an arrival at a sync point when its agent, or its turn, does not stay.

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
  await team.dies('bob')
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
  await team.dies('bob')
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
  await team.dies('bob')
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
