/** What agents share: whose it is, who sees it, how it changes, when it ends; also on real threads. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import {
  type AgentContext,
  type AgentRole,
  createTeam,
  type DramatisError,
  defineAgent,
  type OrchestratorContext,
  type SharedScope,
} from '../../src/index.ts'
import { testAgent } from '../../src/testing.ts'
import { given, localTeam, type OpenTeam, openTeam } from '../kit/team.ts'
import { disagreements } from './result-accounts.ts'

// What agents share: whose it is, who sees it, how it changes, and when it ends.

type Act<T> = (context: AgentContext) => T | Promise<T>

interface Stage {
  team: OpenTeam
  /** What that agent comes to in a turn of a run of its own. */
  play<T>(agent: string, act: Act<T>): Promise<T>
  refusal(agent: string, act: Act<unknown>): Promise<DramatisError>
}

/** Agents that do what the test says. Who stands in `sharedWith` of which one, `roles` say. */
function stage(t: Test, agents: readonly string[], roles: Record<string, Omit<AgentRole, 'name'>> = {}): Stage {
  const acts = new Map<string, Act<unknown>>()
  const outcomes = new Map<string, { value?: unknown; error?: unknown }>()
  const player = defineAgent({
    async receive({ content }, context) {
      const act = acts.get(content) ?? (() => undefined)
      await (async () => act(context))().then(
        (value) => outcomes.set(content, { value }),
        (error: unknown) => outcomes.set(content, { error }),
      )
    },
  })
  const cast = Object.fromEntries(agents.map((name) => [name, player]))
  const orchestration = {
    strategy: 'custom' as const,
    async run(script: OrchestratorContext, query: string) {
      const [agent = '', id = ''] = query.split(' ')
      if (agent === '$orchestrator') outcomes.set(id, { value: await acts.get(id)?.(script) })
      else await script.request(agent, id)
      return 'done'
    },
  }
  const team = openTeam(t, cast, { orchestration, roles, later: { new: player } })
  const outcome = async (agent: string, act: Act<unknown>) => {
    const id = `${acts.size}`
    acts.set(id, act)
    const result = await team.execute(`${agent} ${id}`)
    if (!result.success) throw result.error
    return outcomes.get(id) ?? {}
  }
  return {
    team,
    async play<T>(agent: string, act: Act<T>) {
      const { value, error } = await outcome(agent, act)
      if (error) throw error
      return value as T
    },
    async refusal(agent, act) {
      return (await outcome(agent, act)).error as DramatisError
    },
  }
}

const read =
  (scope: SharedScope, owner?: string): Act<unknown> =>
  (context) =>
    context.shared(scope, owner).get('k')
const write =
  (scope: SharedScope, value: unknown): Act<unknown> =>
  (context) =>
    context.shared(scope).update('k', () => value)

t.test('what a team shares is read and changed by all agents and by scripts, over runs', async (t) => {
  for (const scope of ['team_shared', 'persistent'] as const) {
    const { play } = stage(t, ['ann', 'bob'])
    t.equal(await play('ann', read(scope)), undefined)
    t.equal(await play('ann', write(scope, 'hers')), 'hers')
    t.equal(await play('bob', read(scope)), 'hers')
    t.same(await play('$orchestrator', write(scope, { by: 'script' })), { by: 'script' })
    t.same(await play('bob', read(scope)), { by: 'script' })
  }
})

t.test('the scopes are apart, and so are the keys', async (t) => {
  const { play } = stage(t, ['ann'])
  await play('ann', write('team_shared', 1))
  await play('ann', write('agent_shared', 2))
  await play('ann', write('persistent', 3))
  const scopes = ['team_shared', 'agent_shared', 'persistent'] as const
  t.same(await play('ann', (context) => Promise.all(scopes.map((scope) => read(scope)(context)))), [1, 2, 3])
  t.equal(await play('ann', (context) => context.shared('team_shared').get('__proto__')), undefined)
})

t.test("an agent's own is read by itself, by those in sharedWith and by scripts, and written by itself", async (t) => {
  const { play, refusal } = stage(t, ['ann', 'bob', 'carl'], { ann: { sharedWith: ['bob'] } })
  await play('ann', write('agent_shared', 'hers'))
  await play('bob', write('agent_shared', 'his'))
  t.equal(await play('ann', read('agent_shared')), 'hers')
  t.equal(await play('ann', read('agent_shared', 'ann')), 'hers')
  t.equal(await play('bob', read('agent_shared', 'ann')), 'hers')
  t.equal(await play('$orchestrator', read('agent_shared', 'bob')), 'his')
  const stranger = await refusal('carl', read('agent_shared', 'ann'))
  t.match(stranger, {
    code: 'CONFIGURATION',
    details: { path: 'sharedWith', agent: 'carl', owner: 'ann', accepted: ['bob'] },
  })
  t.match(stranger.message, /agent "carl" may not read what "ann" shares/)
  t.match(await refusal('ann', read('agent_shared', 'bob')), { details: { owner: 'bob', accepted: [] } })
  const thief = await refusal('bob', (context) => context.shared('agent_shared', 'ann').update('k', () => 'his'))
  t.match(thief, { code: 'CONFIGURATION', details: { agent: 'bob', owner: 'ann' } })
  t.equal(await play('ann', read('agent_shared')), 'hers')
})

t.test('what is wrong is refused, and says what would be right', async (t) => {
  const { team, refusal, play } = stage(t, ['ann'])
  const shared = (context: AgentContext) => context.shared('team_shared')
  const wrong: [Act<unknown>, code: string, text: RegExp][] = [
    [(context) => context.shared('mine' as never), 'MESSAGE_REJECTED', /one of agent_shared, team_shared, persistent/],
    [
      (context) => context.shared('team_shared', 'ann'),
      'MESSAGE_REJECTED',
      /owner is "ann"; team_shared is nobody's own/,
    ],
    [(context) => context.shared('agent_shared', 5 as never), 'MESSAGE_REJECTED', /owner is 5/],
    [(context) => context.shared('agent_shared', 'nobody').get('k'), 'UNKNOWN_AGENT', /nobody/],
    [(context) => shared(context).get(''), 'MESSAGE_REJECTED', /key is ""; a string of 1 to 256/],
    [(context) => shared(context).get(undefined as never), 'MESSAGE_REJECTED', /key is nothing/],
    [(context) => shared(context).update('x'.repeat(257), () => 1), 'MESSAGE_REJECTED', /1 to 256/],
    [(context) => shared(context).update('k', 5 as never), 'MESSAGE_REJECTED', /change is 5; a function/],
    [(context) => shared(context).update('k', () => undefined), 'MESSAGE_REJECTED', /null where there is nothing/],
    [(context) => shared(context).update('k', () => ({ at: new Date(0) })), 'MESSAGE_REJECTED', /value\.at is a Date/],
    [(context) => shared(context).update('k', async () => 1), 'MESSAGE_REJECTED', /value is a Promise/],
    [(context) => shared(context).update('k', () => 'x'.repeat(17_000_000)), 'MESSAGE_REJECTED', /maxMessageBytes/],
  ]
  for (const [act, code, text] of wrong) {
    const error = await refusal('ann', act)
    t.equal(error.code, code, `${text}`)
    t.match(error.message, text)
  }
  t.match(await refusal('ann', (context) => shared(context).update('k', () => Promise.reject)), {
    code: 'MESSAGE_REJECTED',
  })
  await t.rejects(
    play('ann', (context) =>
      shared(context).update('k', () => {
        throw new Error('no idea')
      }),
    ),
    { message: 'no idea' },
  )
  await t.rejects(play('$orchestrator', read('agent_shared')), {
    code: 'CONFIGURATION',
    message: /protocol script has no agent_shared/,
  })
  t.equal(await play('ann', read('team_shared')), undefined, 'none of it has written anything')
  t.same(team.deadLetters.list(), [])
})

t.test('what is read is frozen, also for the change, and nobody else sees what is done to it', async (t) => {
  const { play, refusal } = stage(t, ['ann', 'bob'])
  const list = [1]
  await play('ann', write('team_shared', { list }))
  list.push(2)
  t.same(await play('bob', read('team_shared')), { list: [1] })
  const spoils = async (context: AgentContext) => {
    const value = await context.shared('team_shared').get<{ list: number[] }>('k')
    value?.list.push(3)
  }
  t.match(await refusal('bob', spoils), { name: 'TypeError' })
  const inPlace = (context: AgentContext) =>
    context.shared('team_shared').update<{ list: number[] }>('k', (value = { list: [] }) => {
      value.list.push(4)
      return value
    })
  t.match(await refusal('bob', inPlace), { name: 'TypeError' })
  t.same(await play('ann', read('team_shared')), { list: [1] })
})

t.test('a schema checks what is read', async (t) => {
  const { play, refusal } = stage(t, ['ann'])
  await play('ann', write('team_shared', '7'))
  const asNumber = z.coerce.number()
  t.equal(await play('ann', (context) => context.shared('team_shared').get('k', asNumber)), 7)
  t.equal(await play('ann', (context) => context.shared('team_shared').get('none', asNumber)), undefined)
  const error = await refusal('ann', (context) => context.shared('team_shared').get('k', z.number()))
  t.match(error, { code: 'MESSAGE_REJECTED', details: { key: 'k', scope: 'team_shared' } })
})

t.test('an update on which another one came in between is made again on what that one left', async (t) => {
  let tries = 0
  const adds = async (_message: unknown, context: AgentContext) => {
    for (let i = 0; i < 10; i++)
      await context.shared('team_shared').update<number>('sum', (n = 0) => {
        tries += 1
        return n + 1
      })
  }
  const names = Array.from({ length: 10 }, (_, i) => `a${i}`)
  const team = localTeam(t, Object.fromEntries(names.map((name) => [name, adds])), {
    script: async (script) => {
      await script.requestAll(names, 'add')
      return `${await script.shared('team_shared').get('sum')}`
    },
    maxConcurrentAgents: 10,
  })
  t.equal((await team.execute('q')).finalOutput, '100')
  t.ok(tries > 100, 'they did come before each other')
})

t.test('updates of one turn do not come before each other', async (t) => {
  const { play } = stage(t, ['ann'])
  let tries = 0
  const all = await play('ann', (context) =>
    Promise.all(
      Array.from({ length: 100 }, () =>
        context.shared('team_shared').update<number>('k', (n = 0) => {
          tries += 1
          return n + 1
        }),
      ),
    ),
  )
  t.same(
    all,
    Array.from({ length: 100 }, (_, i) => i + 1),
  )
  t.equal(tries, 100)
})

t.test('a state has up to 10,000 keys', async (t) => {
  const { play, refusal } = stage(t, ['ann'])
  await play('ann', async (context) => {
    const shared = context.shared('team_shared')
    await Promise.all(Array.from({ length: 10_000 }, (_, i) => shared.update(`k${i}`, () => i)))
  })
  const error = await refusal('ann', write('team_shared', 1))
  t.match(error, { code: 'MESSAGE_REJECTED', details: { key: 'k', keys: 10_000 } })
  t.equal(await play('ann', (context) => context.shared('team_shared').update('k5', () => 'still')), 'still')
  t.equal(await play('ann', write('agent_shared', 'of its own')), 'of its own')
})

t.test('a turn that is tried again reads what it read, and changes nothing twice', async (t) => {
  let draws = 0
  const { team, play } = stage(t, ['ann', 'bob'])
  await play('bob', write('team_shared', 'before'))
  const pending = play('ann', async (context) => {
    const shared = context.shared('team_shared')
    const before = await shared.get('k')
    const list = await shared.update<number[]>('list', (list = []) => [...list, draws++]) // another one in each attempt
    await context.sleep(50)
    return [context.attempt, before, list, await shared.get('k')]
  })
  await team.clock.advance(10)
  await play('bob', write('team_shared', 'after'))
  await play('bob', (context) => context.shared('team_shared').update<number[]>('list', (list = []) => [...list, 7]))
  team.crash('ann')
  await team.clock.advance(500)
  t.same(await pending, [2, 'before', [0], 'after'])
  t.equal(draws, 2, 'the change was asked for again')
  t.same(await play('bob', (context) => context.shared('team_shared').get('list')), [0, 7])
})

t.test('what a turn reads beside its updates does not confuse them when it is tried again', async (t) => {
  const { team, play } = stage(t, ['ann', 'bob'])
  const pending = play('ann', async (context) => {
    const shared = context.shared('team_shared')
    // Less in the second attempt: its update would be taken for the read of before.
    if (context.attempt === 1) await shared.get('k')
    await shared.update<string[]>('other', (list = []) => [...list, 'ann'])
    await context.sleep(5)
    return shared.update<string[]>('k', (list = []) => [...list, 'ann']).finally(() => context.sleep(50))
  })
  await team.clock.advance(1)
  await play('bob', (context) => context.shared('team_shared').update<string[]>('k', (list = []) => [...list, 'bob']))
  await team.clock.advance(10)
  team.crash('ann')
  await team.clock.runToIdle()
  t.same(await pending, ['bob', 'ann'])
  t.same(await play('bob', read('team_shared')), ['bob', 'ann'])
})

t.test('a handler that failed and is tried again does not repeat an update that was made', async (t) => {
  const code = defineAgent({
    async receive(_message, context) {
      const n = await context.shared('team_shared').update<number>('k', (n = 0) => n + 1)
      if (context.attempt < 3) throw new Error('not yet')
      return `${n} ${await context.shared('team_shared').get('k')}`
    },
  })
  const team = localTeam(t, { ann: code }, { supervision: { onHandlerError: 'retry', poisonAttempts: 5 } })
  const pending = team.execute('q')
  await team.clock.runToIdle()
  t.equal((await pending).finalOutput, '1 1')
})

t.test('a run that is aborted leaves what was changed', async (t) => {
  const { team, play } = stage(t, ['ann', 'bob'])
  const changed = play('ann', async (context) => {
    await write('team_shared', 1)(context)
    await context.sleep(1_000)
  })
  changed.catch(() => {})
  await team.clock.advance(10)
  for (const { id } of await team.listRuns({ status: 'running' })) await team.getRun(id)?.cancel('enough')
  await t.rejects(changed, { code: 'RUN_ABORTED' })
  t.equal(await play('bob', read('team_shared')), 1)
})

t.test('a state that is kept beyond its turn is of no use any more', async (t) => {
  const { play } = stage(t, ['ann'])
  const kept = await play('ann', (context) => ({ state: context.shared('team_shared') }))
  await t.rejects(kept.state.get('k'), { code: 'TURN_ENDED' })
  await t.rejects(
    kept.state.update('k', () => 1),
    { code: 'TURN_ENDED' },
  )
})

t.test('an agent that is removed takes its own along, whoever has its name next', async (t) => {
  const { team, play } = stage(t, ['ann', 'bob'])
  await team.addAgent({ name: 'new', sharedWith: ['bob'] })
  await play('new', write('agent_shared', 'old'))
  t.equal(await play('bob', read('agent_shared', 'new')), 'old')
  await team.removeAgent('new')
  t.match(await play('bob', (context) => read('agent_shared', 'new')(context) as Promise<unknown>).catch((e) => e), {
    code: 'UNKNOWN_AGENT',
  })
  await team.addAgent({ name: 'new', sharedWith: ['bob'] })
  t.equal(await play('bob', read('agent_shared', 'new')), undefined)
})

t.test('it works for one agent under test, over its restarts', async (t) => {
  const agent = testAgent(
    defineAgent({
      async receive({ content }, context) {
        const states = [context.shared('agent_shared'), context.shared('team_shared'), context.shared('persistent')]
        const lists = await Promise.all(
          states.map((state) => state.update<string[]>('said', (said = []) => [...said, content])),
        )
        return lists.map((list) => list.join('+')).join(' ')
      },
    }),
  )
  t.match(await agent.request('a'), { content: 'a a a' })
  await agent.restart()
  t.match(await agent.request('b'), { content: 'a+b a+b a+b' })
})

/** Requirement P14, document 002, 2.4.1: every scope by who sees what one agent keeps in it, and what that outlives. */
const scopes: Record<string, { keep: Act<unknown>; see: Act<unknown>; seenBy: string[]; outlives: string[] }> = {
  runState: {
    keep: (context) => context.setRunState((draft) => void Object.assign(draft, { k: 1 })),
    see: ({ runState }) => (runState as { k?: number }).k,
    seenBy: ['ann'],
    outlives: ['turn', 'restart'],
  },
  state: {
    keep: (context) => context.setState((draft) => void Object.assign(draft, { k: 1 })),
    see: ({ state }) => (state as { k?: number }).k,
    seenBy: ['ann'],
    outlives: ['turn', 'restart', 'run'],
  },
  agent_shared: {
    keep: write('agent_shared', 1),
    see: read('agent_shared', 'ann'),
    seenBy: ['ann', 'friend', '$orchestrator'],
    outlives: ['turn', 'restart', 'run'],
  },
  team_shared: {
    keep: write('team_shared', 1),
    see: read('team_shared'),
    seenBy: ['ann', 'friend', 'stranger', '$orchestrator'],
    outlives: ['turn', 'restart', 'run'],
  },
  blackboard: {
    keep: (context) => context.publish('k', 1, 'fact'),
    see: async ({ blackboard }) => (await blackboard.read('k'))?.value,
    seenBy: ['ann', 'friend', 'stranger', '$orchestrator'],
    outlives: ['turn', 'restart'],
  },
  persistent: {
    keep: write('persistent', 1),
    see: read('persistent'),
    seenBy: ['ann', 'friend', 'stranger', '$orchestrator'],
    outlives: ['turn', 'restart', 'run'], // and the team, with a log store that does
  },
}

for (const [scope, { keep, see, seenBy, outlives }] of Object.entries(scopes))
  t.test(`who sees what is kept as ${scope}, and when it ends`, async (t) => {
    const looks = (context: AgentContext) =>
      Promise.resolve(see(context)).then(
        (value) => value === 1,
        (error: DramatisError) => error.details.path !== 'sharedWith' && error.code,
      )
    const seers: string[] = []
    const kept: string[] = []
    let team: OpenTeam
    const agent = defineAgent({
      async receive({ content, recipient }, context) {
        if (content === 'keep') await keep(context)
        else if ((await looks(context)) === true)
          (content === 'see' ? seers : kept).push(content === 'see' ? `${recipient}` : content)
      },
    })
    const open = () =>
      given(t, {
        roles: { ann: { sharedWith: ['friend'] } },
        script: async (script, query) => {
          if (query !== 'all') return (await script.request('ann', query)).content
          await script.request('ann', 'keep')
          await script.request('ann', 'turn')
          for (const { name } of script.agents) await script.request(name, 'see')
          if ((await looks(script)) === true) seers.push('$orchestrator')
          team.crash('ann')
          await script.sleep(1_000)
          return (await script.request('ann', 'restart')).content
        },
      }).team({ ann: agent, friend: agent, stranger: agent })
    team = open()
    const first = team.execute('all')
    await team.clock.runToIdle()
    t.equal((await first).error, null)
    await team.execute('run')
    await team.close()
    team = open()
    await team.execute('team')
    t.same(seers, seenBy)
    t.same(kept, outlives)
  })

// State that agents on real threads change at once, while some of them die.

const module = new URL('../fixtures/team/adds.js', import.meta.url)
const names = ['a', 'b', 'c', 'd'] as const

t.test('200 updates from four threads at once, of which two die half-way, all count, and each once', async (t) => {
  const team = createTeam({
    agents: names.map((name, i) => ({ name, module, data: { times: 50, dies: i % 2 === 1 } })),
    orchestration: {
      strategy: 'custom',
      async run(orchestrator, query) {
        const answers = await orchestrator.requestAll([...names], query)
        const halves = await Promise.all(names.map((name) => orchestrator.shared('agent_shared', name).get('halves')))
        const sum = await orchestrator.shared('team_shared').get('sum')
        const attempts = answers.map((answer) => (answer.ok ? answer.message.content : answer.error.message))
        return { content: attempts.join(' '), structuredData: { sum, halves } }
      },
    },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const result = await team.execute('add')
  const { finalOutput, messageHistory } = result
  t.equal(finalOutput, '1 2 1 2')
  t.same(messageHistory.at(-1)?.structuredData, { sum: 200, halves: [1, 1, 1, 1] })
  t.same(disagreements(result), [])
})
