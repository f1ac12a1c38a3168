/** Rules 22 to 27: wait structures in which more than one thing goes on, and what is said of each: once, and to the point. */
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { deadlock } from '../../src/runtime/observers/deadlock.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { askAll, gate, openTeam, outcomeOf, type Receive } from './teams.ts'
import { after, slow, watched } from './verdicts.ts'

const waitsForEntry = async (_message: unknown, context: AgentContext): Promise<string> => {
  const { value } = await context.blackboard.waitFor('an entry')
  return `${value}`
}

// ---- how often, and when

/** On threads that are none, so that time is virtual: when each deadlock was told, and of whom as its victim. */
async function played(cast: Record<string, Receive>, ask: readonly string[], forMs: number) {
  const team = new BareSupervisor(cast, [deadlock('break', 250, true)])
  const told: { at: number; victim: string | null }[] = []
  team.host.journal.records$.subscribe((batch) => {
    for (const record of batch)
      if (record.kind === 'alarm' && record.name === 'deadlock')
        told.push({ at: team.clock.now() - start, victim: record.fields.victim })
  })
  await team.start()
  const start = team.clock.now()
  for (const name of ask) team.ask(name).catch(() => {})
  await team.clock.advance(forMs)
  return told
}

const sleeps =
  (ms: number): Receive =>
  async (_message, context) => {
    await context.sleep(ms)
    return 'done'
  }

for (const count of [1, 5, 20])
  t.test(
    `rule 24: ${count} answers that a stuck member gets neither repeat the report nor put the breaking off`,
    async (t) => {
      const others = Object.fromEntries(Array.from({ length: count }, (_, i) => [`slow-${i}`, sleeps((i + 1) * 10)]))
      const ann: Receive = async (_message, context) =>
        `${(await context.requestAll(['bob', ...Object.keys(others)], 'your quote?')).length}`
      const told = await played({ ann, bob: after('ann'), ...others }, ['ann'], 1_000)
      t.match(told, [
        { at: 0, victim: null },
        { at: 250, victim: /ann|bob/ },
      ])
      t.equal(told.length, 2)
    },
  )

t.test('rule 24: answers to who waits for a cycle change nothing about it', async (t) => {
  const cleo: Receive = async (_message, context) =>
    `${(await context.requestAll(['ann', 'slow-1', 'slow-2'], 'your quote?')).length}`
  const told = await played(
    { cleo, ann: after('bob'), bob: after('ann'), 'slow-1': sleeps(50), 'slow-2': sleeps(100) },
    ['cleo'],
    1_000,
  )
  t.match(told, [
    { at: 0, victim: null },
    { at: 250, victim: /ann|bob/ },
  ])
})

t.test('rule 24: a cycle that is broken, and closed again by the same turns, is told again', async (t) => {
  const again: Receive = async (_message, context) => {
    await context.request('bob', 'your quote?').catch(() => {})
    return (await context.request('bob', 'your quote?')).content
  }
  const bob: Receive = async (_message, context) => {
    await context.request('ann', 'yours?').catch(() => {})
    return (await context.request('ann', 'yours?')).content
  }
  const told = await played({ ann: again, bob }, ['ann'], 600)
  t.match(told.slice(0, 4), [
    { at: 0, victim: null },
    { at: 250, victim: /ann|bob/ },
    { at: 250, victim: null },
    { at: 500, victim: /ann|bob/ },
  ])
})

// ---- a cycle, and somebody who waits for an entry

t.test(
  'rule 25: who waits for an entry that one of the cycle may write is in its tail, and that is no stall',
  async (t) => {
    const team = openTeam(
      t,
      {
        ann: async ({ content }, context) => {
          if (content !== 'go') return
          await context.request('bob', 'your quote?').catch(() => {})
          await context.publish('an entry', 'here', 'fact')
        },
        bob: after('ann'),
        reader: waitsForEntry,
        'asks-reader': after('reader'),
      },
      {
        orchestration: {
          strategy: 'custom',
          async run(script, query) {
            const outcomes = await script.requestAll(['ann', 'reader', 'asks-reader'], query)
            return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(' ')
          },
        },
        roles: { bob: { priority: 1 } },
      },
    )
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.runToIdle()
    t.match(found, [
      { type: 'deadlock', cycle: ['ann', 'bob'], victim: null },
      { type: 'deadlock', cycle: ['ann', 'bob'], victim: 'ann' },
    ])
    t.equal(found.length, 2)
    const [first] = found
    t.same(first?.type === 'deadlock' && first.tail.toSorted(), ['$orchestrator', 'asks-reader', 'reader'])
    t.match(result.value?.finalOutput, /here here/)
  },
)

t.test('rule 27: a stall in one run is told beside a deadlock in another', async (t) => {
  const team = openTeam(t, { ann: after('bob'), bob: after('ann'), reader: waitsForEntry })
  const found = watched(team)
  const runs = ['ann', 'reader'].map((name) => outcomeOf(team.getAgent(name)!.run('go')))
  await team.clock.runToIdle()
  t.same([...new Set(found.map(({ type }) => type))].toSorted(), ['deadlock', 'stall'])
  t.ok(runs.every(({ settled }) => settled))
})

// ---- a sync point, and somebody who waits for an entry

for (const onTimeout of ['proceed', 'abort'] as const)
  t.test(`rules 22, 25: a sync point (${onTimeout}) and a waitFor that need each other are a deadlock`, async (t) => {
    const team = openTeam(
      t,
      {
        early: async (_message, context) => {
          await context.sync('here').catch(() => {})
          await context.publish('an entry', 'now', 'fact')
          return 'early'
        },
        late: async (message, context) => {
          const entry = await waitsForEntry(message, context)
          await context.sync('here').catch(() => {})
          return `late ${entry}`
        },
      },
      {
        orchestration: askAll,
        syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 60_000, onTimeout }],
        roles: { late: { priority: 1 } },
      },
    )
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(0)
    t.match(found, [
      {
        type: 'deadlock',
        cycle: ['early', 'late'],
        tail: ['$orchestrator'],
        waits: [
          { agent: 'early', for: ['late'], kind: 'sync' },
          { agent: 'late', for: ['an entry'], kind: 'blackboard' },
          { agent: '$orchestrator' },
        ],
        victim: null,
      },
      { type: 'deadlock', victim: 'early' },
    ])
    t.equal(found.length, 2)
    t.equal(result.value?.finalOutput, 'early late now')
  })

t.test('rule 22: of the same two the one who waits for the entry gives way where its priority is lower', async (t) => {
  const team = openTeam(
    t,
    {
      early: async (_message, context) => `${(await context.sync('here')).timedOut}`,
      late: async (message, context) => {
        const entry = await waitsForEntry(message, context).catch(({ code }: { code: string }) => code)
        await context.sync('here')
        return entry
      },
    },
    {
      orchestration: askAll,
      syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 60_000 }],
      roles: { early: { priority: 1 } },
    },
  )
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'false DEADLOCK')
})

t.test('rule 22: a sync point and a waitFor are none while somebody at work may write the entry', async (t) => {
  const team = openTeam(
    t,
    {
      early: async (_message, context) => `${(await context.sync('here')).timedOut}`,
      late: async (message, context) => {
        await waitsForEntry(message, context)
        return `${(await context.sync('here')).timedOut}`
      },
      writer: async (message, context) => {
        await slow(message, context)
        await context.publish('an entry', 'now', 'fact')
        return 'written'
      },
    },
    { orchestration: askAll, syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 60_000 }] },
  )
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.value?.finalOutput, 'false false written')
  t.same(found, [])
})

t.test('rule 24: whoever holds the run may write what a sync point needs: that is left to it', async (t) => {
  const team = openTeam(
    t,
    {
      early: async (_message, context) => `${(await context.sync('here')).timedOut}`,
      late: async (message, context) => {
        await waitsForEntry(message, context)
        return `${(await context.sync('here')).timedOut}`
      },
    },
    { orchestration: askAll, syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 60_000 }] },
  )
  const found = watched(team)
  const run = team.launch('go')
  await team.clock.advance(10_000)
  await run.blackboard!.write('an entry', 'me', 'fact')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'false false')
  t.same(found, [])
})

// ---- tasks that wait for others

t.test('rule 25: a circle that goes by dependencies names the tasks that wait, and for whose', async (t) => {
  const told = gate()
  let second = ''
  const team = openTeam(
    t,
    {
      a: async (_message, context) => {
        await told.opened
        return context.delegate('c', { description: '1', dependencies: [second] }).then(
          () => 'done',
          ({ code }: { code: string }) => code,
        )
      },
      b: () => 'b is done',
      c: () => 'c is done',
    },
    {
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const a = script.delegate('a', 'go')
          const b = script.delegate('b', { description: '1', dependencies: [await a.id] })
          second = await b.id
          told.open()
          return `${(await a).result} ${(await b).status}`
        },
      },
    },
  )
  const found = watched(team)
  const result = await team.execute('go')
  t.match(found[0], {
    type: 'deadlock',
    cycle: ['a', 'c', 'b'],
    waits: [
      { agent: 'a', for: ['c'], kind: 'delegate' },
      { agent: 'c', for: ['b'], kind: 'dependency' },
      { agent: 'b', for: ['a'], kind: 'dependency' },
      { agent: '$orchestrator' },
    ],
  })
  t.match(found[1], { cycle: ['a', 'c', 'b'], victim: 'a' })
  t.equal(result.finalOutput, 'DEADLOCK completed')
  const [letter] = team.deadLetters.list().flatMap(({ errors }) => errors)
  t.match(letter?.message, /the task of "c" .* waits for the task of "b" to be done/)
})
