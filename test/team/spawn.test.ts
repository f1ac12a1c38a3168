/** Agents that agents make, for their run or for the team. */
import t from 'tap'
import { type AgentContext, defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { ASKS, SEND } from '../../src/mailbox/frame.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, type Cast, type Extras, gate, never, type OpenTeam, openTeam } from '../kit/team.ts'

const privileged = { trust: 'privileged' } as const
const echo: Cast[string] = ({ content, sender }, { role }) => `${role.name} heard ${content} from ${sender}`
const passes: Cast[string] = async ({ content }, context) => {
  const [to = '', ...words] = content.split(' ')
  return (await context.request(to, words.join(' '))).content
}

type Act = (context: AgentContext) => Promise<unknown>

/** A team with a boss that may make others and does what the test says, a worker, and code for helpers. */
function stage(t: Parameters<typeof openTeam>[0], act: Act, options: Extras = {}): OpenTeam {
  const boss: Cast[string] = async (_message, context) => `${await act(context)}`
  return openTeam(t, { boss, worker: passes }, { roles: { boss: privileged }, later: { helper: echo }, ...options })
}

t.test('an agent makes another one, asks it, and others ask it by its name', async (t) => {
  const team = stage(t, async (context) => {
    const name = await context.spawn({ name: 'helper' })
    const own = await context.request(name, 'this')
    return [own.sender, own.content, (await context.request('worker', `${name} that`)).content].join('; ')
  })
  t.equal((await team.execute('go')).finalOutput, 'helper; helper heard this from boss; helper heard that from worker')
})

t.test('it speaks in its own name, also where the team has had another of that name', async (t) => {
  const later = { helper: passes }
  const boss: Cast[string] = async (_message, context) => {
    const name = await context.spawn({ name: 'helper' })
    return (await context.request(name, 'worker hi')).content
  }
  const team = openTeam(t, { boss, worker: echo }, { roles: { boss: privileged }, later })
  await team.start()
  await team.addAgent({ name: 'helper' })
  await team.removeAgent('helper')
  t.equal((await team.execute('go')).finalOutput, 'worker heard hi from helper')
})

t.test('it is gone with its run, and its history stays', async (t) => {
  const team = stage(t, async (context) => {
    const name = await context.spawn({ name: 'helper' })
    return (await context.request(name, 'this')).content
  })
  const [first, second] = [team.launch('one'), team.launch('two')]
  t.equal((await first.result).finalOutput, 'helper heard this from boss')
  t.equal((await second.result).finalOutput, 'helper heard this from boss')
  await team.clock.advance(1)
  t.same(
    pluck(
      team.host.directory.byIndex.filter(({ incarnation }) => incarnation),
      'name',
    ),
    ['$orchestrator', 'boss', 'worker'],
  )
  t.equal(team.getAgent('helper'), undefined)
  t.same(Object.keys(team.health().agents), ['boss', 'worker'])
  for (const { id } of [first, second])
    t.match(
      team.getMessageHistory(id).map(({ sender, recipient }) => [sender, recipient]),
      [['$user'], ['$orchestrator'], ['boss', 'helper'], ['helper', 'boss']],
    )
  await t.rejects(ask(team, 'helper'), { code: 'UNKNOWN_AGENT' })
})

t.test('runs that follow each other use the places of those before, and keep their names', async (t) => {
  const names = Array.from({ length: 20 }, (_, n) => `h${n}`)
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    run: async (script, query) => (await script.request(await script.spawn({ name: query }), '')).content,
  }
  const later = Object.fromEntries(names.map((name) => [name, echo]))
  const team = stage(t, async () => '', { orchestration, later })
  const runs = []
  for (const name of names) {
    const run = team.launch(name)
    await run.result
    await team.clock.advance(1)
    runs.push(run)
  }
  t.ok(team.host.directory.byIndex.length < 8, `${team.host.directory.byIndex.length} places`)
  for (const run of runs) t.equal(run.messageHistory[2]?.sender, run.query)
})

t.test("lifetime 'team': it stays, like one that was added", async (t) => {
  const team = stage(t, (context) => context.spawn({ name: 'helper', description: 'stays', lifetime: 'team' }))
  t.equal((await team.execute('go')).finalOutput, 'helper')
  await team.clock.advance(1)
  t.equal(team.getAgent('helper')?.role.description, 'stays')
  t.equal(await ask(team, 'helper', 'hi'), 'helper heard hi from $user')
})

t.test('runs at the same time each have their own of one name; nobody else sees it', async (t) => {
  const { opened, open } = gate()
  const team = stage(
    t,
    async (context) => {
      const name = await context.spawn({ name: 'helper' })
      await opened
      return (await context.request(name, context.run.metadata.who ?? '')).content
    },
    {
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const name = await script.spawn({ name: 'helper' })
          await opened
          const names = script.agents.map((agent) => agent.name)
          return `${names}: ${(await script.request(name, query)).content}`
        },
      },
    },
  )
  const runs = ['one', 'two'].map((query) => team.execute(query))
  await team.clock.advance(1)
  t.equal(
    team.host.directory.byIndex.filter(({ name, incarnation }) => name === 'helper' && incarnation?.ready).length,
    2,
  )
  open()
  for (const [at, query] of ['one', 'two'].entries())
    t.equal((await runs[at]!).finalOutput, `boss,worker,helper: helper heard ${query} from $orchestrator`)
})

t.test('only who is trusted may', async (t) => {
  const team = stage(t, (context) => context.spawn({ name: 'helper' }), { roles: {} })
  const { error } = await team.execute('go')
  t.match(error?.message, /agent "boss" is internal and may not make others\. .* give its role trust: 'privileged'/)
})

t.test('a role that cannot be is refused by its path', async (t) => {
  const wrong: [object, string][] = [
    [{ name: 'boss' }, 'role.name'],
    [{ name: '$x' }, 'role.name'],
    [{ name: 'carl', module: 5 }, 'role.module'],
    [{ name: 'helper', module: './helper.js' }, 'role.module'],
    [{ name: 'helper', env: ['HOME'] }, 'role.env'],
    [{ name: 'helper', lifetime: 'ever' }, 'role.lifetime'],
    [{ name: 'helper', tools: ['delgate'] }, 'role.tools[0]'],
    [{ name: 'helper', trust: 'untrusted', canDelegateTo: ['worker'] }, 'role.canDelegateTo'],
  ]
  const paths: unknown[] = []
  const team = stage(t, async (context) => {
    for (const [role] of wrong)
      await context.spawn(role as never).catch((error) => paths.push([error.code, error.details.path]))
    await context.spawn(5 as never).catch((error) => paths.push(error.code))
  })
  await team.execute('go')
  t.same(paths, [...wrong.map(([, path]) => ['CONFIGURATION', path]), 'MESSAGE_REJECTED'])
})

t.test('a name that the run has already is refused, also where the team is to have it', async (t) => {
  const team = stage(t, async (context) => {
    await context.spawn({ name: 'helper' })
    await context.spawn({ name: 'helper' })
  })
  t.match((await team.execute('go')).error?.message, /role\.name: got "helper", which an agent has already/)
  const { opened, open } = gate()
  const other = stage(t, async (context) => {
    await context.spawn({ name: 'helper' })
    await opened
  })
  const run = other.execute('go')
  await other.clock.advance(1)
  await t.rejects(other.addAgent({ name: 'helper' }), { code: 'CONFIGURATION', details: { path: 'role.name' } })
  open()
  await run
})

t.test('one that cannot start is told to who made it, and its name is free again', async (t) => {
  let broken = true
  const fragile = defineAgent({
    start() {
      if (broken) throw new Error('no network')
    },
    receive: () => 'fine',
  })
  const team = stage(
    t,
    async (context) => {
      const first = await context.spawn({ name: 'helper' }).catch((error) => error.code)
      broken = false
      return `${first}, then ${(await context.request(await context.spawn({ name: 'helper' }), '')).content}`
    },
    { later: { helper: fragile } },
  )
  t.equal((await team.execute('go')).finalOutput, 'START_FAILED, then fine')
})

t.test('rule 21: maxSpawnedAgents bounds what a run makes; those that did not start do not count', async (t) => {
  const names = Array.from({ length: 68 }, (_, n) => `h${n}`)
  const fragile = defineAgent({
    start() {
      throw new Error('no network')
    },
    receive: () => '',
  })
  const made: string[] = []
  const team = stage(
    t,
    async (context) => {
      await context.spawn({ name: 'fragile' }).catch(() => {})
      for (const name of names) made.push(await context.spawn({ name }))
    },
    { later: { fragile, ...Object.fromEntries(names.map((name) => [name, echo])) }, maxSpawnedAgents: 67 },
  )
  const run = team.execute('go')
  await team.clock.advance(100)
  t.match((await run).error?.message, /has made 67 agents, and maxSpawnedAgents \(67\).+ raise maxSpawnedAgents/)
  t.equal(made.length, 67)
})

t.test('a run that is over makes none', async (t) => {
  const team = stage(t, async () => '')
  const { runId } = await team.execute('go')
  await team.clock.advance(1)
  const { host } = team
  const run = host.runs.find(runId)!
  const caller = { agent: host.directory.byIndex[0]!, turn: 1, correlation: 1, callId: 'call', run, say: () => {} }
  const spawned = host.calls.verbs.get('spawn')!({ name: 'helper' }, caller, new AbortController().signal)
  await t.rejects(Promise.resolve(spawned), { code: 'RUN_ABORTED' })
  t.equal(host.directory.byIndex.length, 5)
})

t.test('a message from outside reaches it within its run, and no other run does', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const helper: Cast[string] = ({ content }) => void heard.push(content)
  const team = stage(
    t,
    async (context) => {
      await context.spawn({ name: 'helper' })
      await opened
    },
    { later: { helper } },
  )
  const run = team.launch('go')
  await team.clock.advance(1)
  await team.sendMessage({ recipient: 'helper', content: 'within', runId: run.id })
  const { host } = team
  const own = host.directory.byIndex.find(({ name }) => name === 'helper')!
  const [worker, other] = [host.directory.agent('worker')!, host.runs.open('other', '')]
  const fields = { kind: SEND, flags: ASKS, sender: worker.index, recipient: own.index, run: other.index }
  const { memory } = host.frames.make({ ...fields, content: 'from beside' })
  host.admission.message({ sender: worker, run: other, memory, at: 0 })
  await team.clock.advance(1)
  t.same(heard, ['within'])
  t.match(team.deadLetters.list(), [{ reason: 'unknown_agent', message: { content: 'from beside' } }])
  open()
  await run.result
})

t.test('who knew an agent of that name that has left reaches the one of the run', async (t) => {
  const { opened, open } = gate()
  const team = stage(t, async (context) => {
    await context.spawn({ name: 'helper' })
    await opened
  })
  await team.start()
  await team.addAgent({ name: 'helper' })
  const { host } = team
  const former = host.directory.agent('helper')!
  await team.removeAgent('helper')
  const run = team.launch('go')
  await team.clock.advance(1)
  const [worker, state] = [host.directory.agent('worker')!, host.runs.find(run.id)!]
  const fields = { kind: SEND, flags: ASKS, sender: worker.index, recipient: former.index, run: state.index }
  const { memory } = host.frames.make({ ...fields, content: 'hi' })
  host.admission.message({ sender: worker, run: state, memory, at: 0 })
  await team.clock.advance(1)
  t.same(team.deadLetters.list(), [])
  open()
  await run.result
})

t.test('a turn that is tried again after a crash does not make it twice', async (t) => {
  const started: string[] = []
  const helper = defineAgent({ start: ({ role }) => void started.push(role.name), receive: () => 'here' })
  for (const when of ['while it starts', 'when it is there'] as const) {
    const { opened, open } = gate()
    const slow = defineAgent({
      async start({ role }) {
        started.push(role.name)
        await opened
      },
      receive: () => 'here',
    })
    started.length = 0
    const team = stage(
      t,
      async (context) => {
        const name = await context.spawn({ name: 'helper' })
        if (context.attempt === 1) await never
        return `${context.attempt}: ${(await context.request(name, '')).content}`
      },
      { later: { helper: when === 'while it starts' ? slow : helper } },
    )
    const run = team.execute('go')
    await team.clock.advance(1)
    team.crash('boss')
    await team.clock.advance(1)
    open()
    await team.clock.advance(1)
    t.equal((await run).finalOutput, '2: here', when)
    t.same(started, ['helper'], when)
  }
})

t.test('it crashes and starts again like any other, and keeps to its run', async (t) => {
  const events: RuntimeEvent[] = []
  const dies: Cast[string] = async (_message, context) => (context.attempt === 1 ? never : 'here again')
  const team = stage(
    t,
    async (context) => (await context.request(await context.spawn({ name: 'helper' }), '')).content,
    { later: { helper: dies } },
  )
  const run = team.launch('go')
  const reading = (async () => {
    for await (const event of run.events()) events.push(event)
  })()
  await team.clock.advance(1)
  team.crashCell(team.host.directory.byIndex.find(({ name }) => name === 'helper')!)
  await team.clock.advance(1)
  t.equal((await run.result).finalOutput, 'here again')
  await reading
  t.match(where(events, 'type', 'agent.crashed'), [{ agent: 'helper', runId: run.id }])
})

t.test('an aborted run takes its agents with it', async (t) => {
  const team = stage(
    t,
    async (context) => {
      await context.request(await context.spawn({ name: 'helper' }), '')
    },
    {
      later: {
        helper: (_message, { signal }) =>
          new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      },
    },
  )
  const run = team.launch('go')
  await team.clock.advance(1)
  await run.cancel('enough')
  await team.clock.advance(1)
  t.same(
    team.host.directory.byIndex.filter(({ name, incarnation }) => name === 'helper' && incarnation),
    [],
  )
})
