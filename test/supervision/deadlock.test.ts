/** Rules 22 to 27: turns that wait for each other are found, named and freed; who only waits long is left alone. */
import t from 'tap'
import type { AgentContext } from '../../src/index.ts'
import { askAll, type Cast, openTeam, outcomeOf, type Receive } from './teams.ts'
import { after, fill, watched } from './verdicts.ts'

/** Each asks the other for its quote before it gives its own. */
const buyers: Cast = { ann: after('bob'), bob: after('ann') }

/** Asks, and answers in any case. */
const forgiving =
  (to: string): Receive =>
  async (_message, context) =>
    context.request(to, 'your quote?').then(
      ({ content }) => `after ${content}`,
      (error: { code: string }) => `without, for ${error.code}`,
    )

t.test('rules 23, 24, 25: a cycle is named at once: in its order, with its tail and what each waits for', async (t) => {
  const team = openTeam(t, buyers)
  const found = watched(team)
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.equal(run.settled, true, 'no time has passed')
  t.match(found, [
    {
      type: 'deadlock',
      cycle: ['ann', 'bob'],
      tail: ['$orchestrator'],
      waits: [
        { agent: 'ann', for: ['bob'], kind: 'request' },
        { agent: 'bob', for: ['ann'], kind: 'request' },
        { agent: '$orchestrator', for: ['ann'], kind: 'request' },
      ],
      victim: null,
    },
    { type: 'deadlock', cycle: ['ann', 'bob'], victim: 'ann' },
  ])
})

t.test('rule 26: the wait of the victim is rejected, and says the cycle; the others go on', async (t) => {
  const team = openTeam(t, { ann: after('bob'), bob: forgiving('ann') }, { roles: { ann: { priority: 1 } } })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'without, for DEADLOCK')
  const flow = result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'deadlock')
  t.equal(flow.length, 2, 'the trace has it too')
})

t.test('rule 26: the error names who, for whom, and what to do', async (t) => {
  const team = openTeam(t, buyers)
  const { error } = await team.execute('go')
  t.match(error, { code: 'AGENT_FAILED' })
  const cause = JSON.stringify(error?.toJSON())
  t.match(cause, /A deadlock: .*ann.* waits for the answer of .*bob.*; .*bob.* waits for the answer of .*ann/)
  t.notMatch(cause, 'your quote?', 'what messages say is nobody else to know')
})

t.test('rules 25, 26: the tail is in the order of who waits nearest, and the error has all of them', async (t) => {
  const cast: Cast = { dan: after('cleo'), cleo: after('ann'), ...buyers }
  const team = openTeam(t, cast, { roles: { ann: { priority: 1 } } })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'], tail: ['cleo', 'dan', '$orchestrator'] })
  const failed = team.deadLetters.list().flatMap(({ errors }) => errors)
  t.match(failed[0], {
    code: 'DEADLOCK',
    details: { agent: 'bob', cycle: ['ann', 'bob'], tail: ['cleo', 'dan', '$orchestrator'] },
  })
})

t.test('rule 26: who has the lower priority gives way', async (t) => {
  for (const [low, high] of [
    ['ann', 'bob'],
    ['bob', 'ann'],
  ] as const) {
    const team = openTeam(t, buyers, { roles: { [high]: { priority: 5 } } })
    const found = watched(team)
    await team.execute('go')
    t.match(found.at(-1), { victim: low })
  }
})

t.test('rule 26: of the same priority the younger wait gives way', async (t) => {
  const asks: Record<string, (context: AgentContext) => Promise<unknown>> = {
    request: (context) => context.request(context.role.name === 'ann' ? 'bob' : 'ann', 'your quote?'),
    sync: (context) => context.sync('here'),
  }
  for (const [older, younger] of [
    ['ann', 'bob'],
    ['bob', 'ann'],
  ] as const)
    for (const [first, second] of [
      ['request', 'request'],
      ['request', 'sync'],
      ['sync', 'request'],
    ] as const) {
      const does = (kind: string, ms: number): Receive => {
        return async ({ content }, context) => {
          await context.sleep(ms)
          if (content === 'go') await asks[kind]!(context)
        }
      }
      const team = openTeam(
        t,
        { [older]: does(first, 5), [younger]: does(second, 10) },
        {
          orchestration: askAll,
          syncPoints: [{ name: 'here', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000, onTimeout: 'abort' }],
        },
      )
      const found = watched(team)
      const result = outcomeOf(team.execute('go'))
      await team.clock.advance(20)
      t.match(found[1], { victim: younger }, `${first} of ${older}, then ${second} of ${younger}`)
      await team.clock.runToIdle()
      t.equal(result.settled, true)
    }
})

t.test('rule 26: nobody gives way more than three times in a row', async (t) => {
  const team = openTeam(t, buyers, { roles: { bob: { priority: 5 } } })
  const found = watched(team)
  for (let run = 0; run < 5; run++) await team.execute('go')
  t.same(
    found.flatMap((event) => (event.type === 'deadlock' && event.victim) || []),
    ['ann', 'ann', 'ann', 'bob', 'ann'],
  )
  t.equal(team.host.directory.cell('ann')!.restarts, 0, 'each time it was another turn')
})

t.test('rule 26: of several waits of the victim the one in the cycle is rejected', async (t) => {
  const lost: string[] = []
  const team = openTeam(
    t,
    {
      ann: async (_message, context) => {
        const quotes = ['cleo', 'bob'].map((name) =>
          context.request(name, 'your quote?').catch(() => void lost.push(name)),
        )
        await quotes[1]
      },
      bob: after('ann'),
      cleo: after('dan'),
      dan: after('ann'),
    },
    { roles: { ann: { priority: -1 } } },
  )
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
  t.equal(lost[0], 'bob')
})

t.test('rule 26: a turn that comes to the same again costs its agent a life', async (t) => {
  const stubborn: Receive = async (_message, context) => {
    for (;;) {
      try {
        return (await context.request('ann', 'your quote?')).content
      } catch {
        await context.step('again', () => {})
      }
    }
  }
  const team = openTeam(t, { ann: after('bob'), bob: stubborn }, { roles: { ann: { priority: 1 } } })
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.settled, true)
  t.ok(team.host.directory.cell('bob')!.restarts > 0)
})

t.test('rule 26: a turn that is the victim of another deadlock costs its agent a life, too', async (t) => {
  const asksBoth: Receive = async (_message, context) => {
    for (const name of ['ann', 'cleo']) await context.request(name, 'your quote?').catch(() => {})
    return 'without'
  }
  const roles = { ann: { priority: 1 }, cleo: { priority: 1 } }
  const team = openTeam(t, { ann: after('bob'), bob: asksBoth, cleo: after('bob') }, { roles })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.equal(result.settled, true)
  const broken = found.flatMap((event) => (event.type === 'deadlock' && event.victim ? [event.cycle] : []))
  t.same(
    broken.slice(0, 2).map((cycle) => [...cycle].sort()),
    [
      ['ann', 'bob'],
      ['bob', 'cleo'],
    ],
  )
  t.ok(team.host.directory.cell('bob')!.restarts > 0)
})

t.test("'report' names it and leaves it", async (t) => {
  const team = openTeam(t, buyers, { supervision: { deadlock: 'report' }, globalTimeoutMs: 1_000 })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.advance(999)
  t.equal(result.settled, false)
  t.match(found, [{ type: 'deadlock', victim: null }])
  await team.clock.advance(1)
  t.match(result.value?.error, { code: 'RUN_TIMEOUT' })
  t.equal(found.length, 1)
})

t.test('false does not look', async (t) => {
  const team = openTeam(t, buyers, { supervision: { deadlock: false }, globalTimeoutMs: 1_000 })
  const found = watched(team)
  const result = outcomeOf(team.execute('go'))
  await team.clock.runToIdle()
  t.match(result.value?.error, { code: 'RUN_TIMEOUT' })
  t.same(found, [])
})

t.test('rule 24: a deadline does not excuse a cycle', async (t) => {
  const impatient: Receive = async (_message, context) =>
    (await context.request('bob', 'your quote?', { timeoutMs: 50 })).content
  const team = openTeam(t, { ann: impatient, bob: after('ann') })
  const found = watched(team)
  await team.execute('go')
  t.match(found[0], { cycle: ['ann', 'bob'] })
})

// ---- rule 22: each kind of wait. The last wait closes a cycle, and somebody else can open it

interface Program {
  cast: Cast
  extras?: Parameters<typeof openTeam>[2]
  cycle: string[]
  kinds: string[]
}

const programs: Record<string, Program> = {
  request: { cast: buyers, cycle: ['ann', 'bob'], kinds: ['request', 'request'] },
  delegate: {
    cast: {
      ann: async (_, context) => `${(await context.delegate('bob', 'the work')).result}`,
      bob: async (_, context) => `${(await context.delegate('ann', 'the work')).result}`,
    },
    cycle: ['ann', 'bob'],
    kinds: ['delegate', 'delegate'],
  },
  'a handoff that is not taken on': {
    cast: {
      ann: async (_, context) => context.handoff('bob', 'the work'),
      bob: after('ann'),
    },
    cycle: ['ann', 'bob'],
    kinds: ['delegate', 'request'],
  },
  'several at once': {
    cast: {
      ann: async (_, context) => {
        const quotes = ['bob', 'cleo'].map((name) => context.request(name, 'your quote?'))
        return (await Promise.any(quotes)).content
      },
      bob: after('ann'),
      cleo: after('ann'),
    },
    cycle: ['ann', 'bob'],
    kinds: ['request', 'request'],
  },
  'a request under a limit that leaves one of them a permit': {
    cast: buyers,
    extras: { maxConcurrentAgents: 1 },
    cycle: ['ann', 'bob'],
    kinds: ['request', 'request'],
  },
  requestAll: {
    cast: {
      ann: async (_, context) => void (await context.requestAll(['free', 'bob'], 'your quotes?')),
      bob: after('ann'),
      free: async () => 'cheap',
    },
    cycle: ['ann', 'bob'],
    kinds: ['request', 'request'],
  },
  requestAny: {
    cast: {
      ann: async (_, context) => (await context.requestAny(['bob', 'cleo'], 'your quote?')).content,
      bob: after('ann'),
      cleo: after('ann'),
    },
    cycle: ['ann', 'bob'],
    kinds: ['request', 'request'],
  },
  requestQuorum: {
    cast: {
      ann: async (_, context) => void (await context.requestQuorum(['free', 'bob', 'cleo'], 2, 'your quotes?')),
      bob: after('ann'),
      cleo: after('ann'),
      free: async () => 'cheap',
    },
    cycle: ['ann', 'bob'],
    kinds: ['request', 'request'],
  },
  'a full mailbox': {
    cast: {
      ann: async ({ content }, context) => {
        if (content === 'go') await fill(context, 'bob')
      },
      bob: async ({ content }, context) => {
        if (content === 'go') await fill(context, 'ann')
      },
    },
    extras: { orchestration: askAll, communication: { mailboxCapacity: 2 } },
    cycle: ['ann', 'bob'],
    kinds: ['mailbox', 'mailbox'],
  },
  'a message to all that some have no room for': {
    cast: {
      ann: async ({ content }, context) => {
        if (content === 'go') for (let i = 0; i < 4; i++) await context.broadcast('news')
      },
      bob: async ({ content }, context) => {
        if (content === 'go') for (let i = 0; i < 4; i++) await context.broadcast('news')
      },
    },
    extras: { orchestration: askAll, communication: { mailboxCapacity: 2 } },
    cycle: ['ann', 'bob'],
    kinds: ['mailbox', 'mailbox'],
  },
  'a send behind others of its thread': {
    cast: {
      ann: async ({ content }, context) => {
        if (content === 'fill') for (let i = 0; i < 4; i++) void context.send('bob', `${i}`)
        if (content !== 'go') return
        await context.publish('ann is at it', true, 'fact')
        await context.send('bob', 'one more')
      },
      bob: async ({ content }, context) => {
        if (content !== 'go') return
        await context.blackboard.waitFor('ann is at it')
        await fill(context, 'ann')
      },
    },
    extras: {
      communication: { mailboxCapacity: 2 },
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const bob = script.request('bob', 'go')
          await script.request('ann', 'fill')
          await Promise.allSettled([bob, script.request('ann', 'go')])
          return 'over'
        },
      },
    },
    cycle: ['ann', 'bob'],
    kinds: ['mailbox', 'mailbox'],
  },
  'a stream that nobody reads': {
    cast: {
      ann: async (_, context) => {
        const stream = context.requestStream('bob', 'tell me')
        const { content } = await context.request('cleo', 'first you')
        for await (const _piece of stream);
        return content
      },
      bob: async (_, context) => {
        for (let i = 0; i < 200; i++) {
          context.emit('piece')
          await context.step('one more', () => {})
        }
      },
      cleo: after('bob'),
    },
    cycle: ['ann', 'cleo', 'bob'],
    kinds: ['request', 'request', 'reader'],
  },
}

for (const [name, { cast, extras, cycle, kinds }] of Object.entries(programs))
  t.test(`rule 22: ${name} is a wait`, async (t) => {
    const team = openTeam(t, cast, extras)
    const found = watched(team)
    const result = outcomeOf(team.execute('go'))
    await team.clock.advance(0)
    const [named] = found
    t.match(named, { type: 'deadlock', cycle })
    if (named?.type === 'deadlock')
      t.same(
        cycle.map((agent) => named.waits.find((wait) => wait.agent === agent)?.kind),
        kinds,
      )
    t.equal(result.settled, true, 'it is broken')
  })

t.test('rule 26: who waits for its reader has no wait to give up: another does', async (t) => {
  const { cast, cycle } = programs['a stream that nobody reads']!
  const team = openTeam(t, cast, { roles: { bob: { priority: -1 } } })
  const found = watched(team)
  await team.execute('go')
  t.match(found[1], { cycle, victim: /ann|cleo/ })
  t.same(
    cycle.map((name) => team.host.directory.cell(name)!.restarts),
    [0, 0, 0],
  )
})

t.test(
  'rules 22, 26: who meets at a sync point waits for all that have not come; there its onTimeout is the way out',
  async (t) => {
    for (const onTimeout of ['proceed', 'abort'] as const) {
      const team = openTeam(
        t,
        {
          early: async ({ content }, context) =>
            content === 'go'
              ? JSON.stringify((await context.sync('here').catch(({ code }: { code: string }) => code)) ?? '')
              : 'told',
          late: async (_message, context) => {
            await context.sleep(5)
            await context.request('early', 'tell me')
            return 'late'
          },
        },
        {
          orchestration: askAll,
          syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 600_000, onTimeout }],
          roles: { late: { priority: 1 } },
        },
      )
      const found = watched(team)
      const result = outcomeOf(team.execute('go'))
      await team.clock.advance(5)
      t.match(found[0], {
        type: 'deadlock',
        cycle: ['early', 'late'],
        waits: [{ agent: 'early', for: ['late'], kind: 'sync' }],
      })
      t.match(found[1], { victim: 'early' })
      t.match(
        result.value?.finalOutput,
        onTimeout === 'abort' ? /SYNC_POINT_TIMEOUT.* late/ : /"missing":\["late"\].* late/,
      )
    }
  },
)
