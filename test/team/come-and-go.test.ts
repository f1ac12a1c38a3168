/** Agents that agents make, and what verbs, watches, figures and the log make of agents that come and go. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  createTeam,
  defineAgent,
  type Logger,
  type MultiAgentPatternOptions,
  type RuntimeEvent,
} from '../../src/index.ts'
import { ASKS, SEND } from '../../src/mailbox/frame.ts'
import { pluck, where } from '../kit/lists.ts'
import {
  ask,
  type Cast,
  type Extras,
  gate,
  given,
  localTeam,
  never,
  type OpenTeam,
  openTeam,
  outcomeOf,
  silent,
} from '../kit/team.ts'
import type { Test } from './stage.ts'

const privileged = { trust: 'privileged' } as const
const hears: Cast[string] = ({ content, sender }, { role }) => `${role.name} heard ${content} from ${sender}`
const passes: Cast[string] = async ({ content }, context) => {
  const [to = '', ...words] = content.split(' ')
  return (await context.request(to, words.join(' '))).content
}

/** A team with a boss that may make others and does what the test says, a worker, and code for helpers. */
function stage(t: Test, act: (context: AgentContext) => Promise<unknown>, options: Extras = {}): OpenTeam {
  const boss: Cast[string] = async (_message, context) => `${await act(context)}`
  return openTeam(t, { boss, worker: passes }, { roles: { boss: privileged }, later: { helper: hears }, ...options })
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
  const team = openTeam(t, { boss, worker: hears }, { roles: { boss: privileged }, later })
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
  const alive = team.host.directory.byIndex.filter(({ incarnation }) => incarnation)
  t.same(pluck(alive, 'name'), ['$orchestrator', 'boss', 'worker'])
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
  const later = Object.fromEntries(names.map((name) => [name, hears]))
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
    { later: { fragile, ...Object.fromEntries(names.map((name) => [name, hears])) }, maxSpawnedAgents: 67 },
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
  const helpers = team.host.directory.byIndex.filter(({ name }) => name === 'helper')
  t.same(pluck(helpers, 'incarnation'), [undefined])
})

// What verbs, watches, figures and the log make of agents that come and go.

const echo: Cast[string] = ({ content }, { role }) => `${role.name}: ${content}`

/** Keeps what it hears in `heard`, as "name: what". */
const listens = (heard: string[]) =>
  defineAgent({
    receive: () => 'done',
    observe: ({ content }, { role }) => void heard.push(`${role.name}: ${content}`),
  })

/** Does what the test says when it is asked, and keeps the ends that it is told of. */
function watcher(act: (context: AgentContext) => Promise<unknown>) {
  const heard: AgentMessage[] = []
  const agent = defineAgent({
    receive: async (_message, context) => `${await act(context)}`,
    observe: (message) => void heard.push(message),
  })
  const ends = () => heard.map(({ structuredData }) => structuredData)
  return { agent, ends }
}

/** A run whose watcher begins to watch, and which goes on until the test says so. */
function watchesAndWaits(): { orchestration: Extras['orchestration']; open(): void } {
  const { opened, open } = gate()
  return {
    orchestration: {
      strategy: 'custom',
      async run(script) {
        await script.request('watcher', 'watch')
        await opened
        return ''
      },
    },
    open,
  }
}

const end = (agent: string, reason: RegExp) => ({ event: 'terminated', agent, reason })

t.test('a broadcast leaves out who has left, and the agents of other runs', async (t) => {
  const heard: string[] = []
  const { opened, open } = gate()
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    async run(script, query) {
      await script.spawn({ name: query })
      await opened
      if (query === 'one') await script.request('ann', 'go')
      return ''
    },
  }
  const ann: Cast[string] = (_message, context) => context.broadcast('news')
  const listener = listens(heard)
  const later = { one: listener, two: listener, carl: listener }
  const team = openTeam(t, { ann, bob: listener, dora: listener }, { orchestration, later })
  const [first, second] = [team.execute('one'), team.execute('two')]
  await team.clock.advance(1)
  await team.removeAgent('dora')
  await team.addAgent({ name: 'carl' })
  open()
  t.equal((await first).success, true)
  await second
  await team.clock.advance(1)
  t.same(heard.sort(), ['bob: news', 'carl: news', 'one: news'])
  t.same(team.deadLetters.list(), [])
  heard.length = 0
  await team.sendMessage({ type: 'broadcast', recipient: null, content: 'from outside' })
  await team.clock.advance(1)
  t.same(heard.sort(), ['bob: from outside', 'carl: from outside'])
})

t.test('a broadcast that waits for room in a mailbox of somebody who leaves names that one', async (t) => {
  const bob = defineAgent({ receive: () => never, observe: () => {} })
  const roles = { bob: { communication: { mailboxCapacity: 1 }, supervision: { stopGraceMs: 10 } } }
  const ann: Cast[string] = (_message, context) => context.broadcast('news')
  const team = openTeam(t, { ann, bob }, { roles })
  const turn = outcomeOf(ask(team, 'bob'))
  await team.clock.advance(1)
  const asked = outcomeOf(ask(team, 'ann'))
  await team.clock.advance(1)
  t.equal(asked.settled, false)
  const removed = outcomeOf(team.removeAgent('bob'))
  await team.clock.advance(20)
  t.same([turn.settled, removed.settled], [true, true])
  t.match(asked.error?.message, /did not get to 1 of 1 agents.*"bob".*was removed from the team/)
})

t.test('rule 14: who watches an agent that is removed is told once; of who has its name next anew', async (t) => {
  const { agent, ends } = watcher((context) => context.watch('mortal'))
  const { opened, open } = gate()
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    async run(script) {
      await script.request('watcher', 'watch')
      await opened
      await script.request('watcher', 'watch')
      await script.sleep(10)
      return ''
    },
  }
  const team = openTeam(t, { watcher: agent, mortal: echo }, { orchestration })
  const run = team.execute('go')
  await team.clock.advance(1)
  await team.removeAgent('mortal')
  await team.addAgent({ name: 'mortal' })
  await team.clock.advance(1)
  const told = [end('mortal', /was removed from the team/)]
  t.match(ends(), told)
  t.equal(ends().length, 1)
  await team.removeAgent('mortal')
  await team.clock.advance(1)
  t.equal(ends().length, 1, 'nobody watched that one')
  await team.addAgent({ name: 'mortal' })
  open()
  await team.clock.advance(5)
  await team.removeAgent('mortal')
  await team.clock.advance(10)
  t.match(ends(), [...told, ...told])
  t.equal(ends().length, 2)
  t.equal((await run).success, true)
})

t.test(
  'rule 14: who watches an agent that has been removed is told at once; of a name that never was, refused',
  async (t) => {
    const { agent, ends } = watcher(async (context) => {
      await context.watch('mortal')
      await context.watch('mortal')
      return context.watch('nobody').catch(({ code }) => code)
    })
    const team = openTeam(t, { watcher: agent, mortal: echo })
    await team.start()
    await team.removeAgent('mortal')
    t.equal((await team.execute('go')).finalOutput, 'UNKNOWN_AGENT')
    await team.clock.advance(1)
    t.match(ends(), [end('mortal', /was removed from the team/)])
    t.equal(ends().length, 1)
  },
)

t.test(
  'rule 14: watches of agents of a run are told of their ends, not of those of the same name elsewhere',
  async (t) => {
    const { agent, ends } = watcher(async (context) => context.watch(await context.spawn({ name: 'mortal' })))
    const { orchestration, open } = watchesAndWaits()
    const roles = { watcher: privileged }
    const supervision = { maxRestarts: 0 }
    const team = openTeam(t, { watcher: agent }, { orchestration, roles, supervision, later: { mortal: echo } })
    const runs = [team.launch('one'), team.launch('two')]
    await team.clock.advance(1)
    const [mortal] = team.host.directory.byIndex.filter(({ run }) => run?.id === runs[0]!.id)
    team.crashCell(mortal)
    await team.clock.advance(10)
    t.match(ends(), [end('mortal', /It died 1 time/)])
    t.equal(ends().length, 1)
    t.equal(runs[0]!.messageHistory.filter(({ type }) => type === 'report').length, 1)
    open()
    for (const run of runs) t.equal((await run.result).success, true)
    await team.clock.advance(10)
    t.equal(ends().length, 1, 'the end of a run is no news to it')
  },
)

t.test('what an agent had watched is not told to who has its name next', async (t) => {
  const { agent, ends } = watcher((context) => context.watch('mortal'))
  const { orchestration, open } = watchesAndWaits()
  const team = openTeam(t, { watcher: agent, mortal: echo }, { orchestration })
  const run = team.execute('go')
  await team.clock.advance(1)
  await team.removeAgent('watcher')
  await team.addAgent({ name: 'watcher' })
  await team.removeAgent('mortal')
  await team.clock.advance(1)
  open()
  t.equal((await run).success, true)
  t.same(ends(), [])
  t.same(team.deadLetters.list(), [])
})

t.test('rule 18: a letter to an agent that was removed is sent again when there is another of that name', async (t) => {
  const team = openTeam(
    t,
    { ann: echo, bob: () => Promise.reject(new Error('broken')) },
    { unfinished: true, later: { carl: echo } },
  )
  await team.sendMessage({ recipient: 'bob', content: 'note' })
  await team.clock.advance(1)
  const [letter] = team.deadLetters.list()
  await team.removeAgent('bob')
  await t.rejects(team.deadLetters.replay(letter!.id), {
    code: 'MESSAGE_REJECTED',
    message: /"bob" was removed from the team. Add one of that name/,
  })
  t.equal(team.deadLetters.list().length, 1)
  await team.addAgent({ name: 'bob' })
  await team.deadLetters.replay(letter!.id)
  t.not(team.deadLetters.list()[0]?.id, letter!.id)
})

t.test('rule 18: a letter to an agent of a run is sent again within that run alone', async (t) => {
  let fails = true
  const helper: Cast[string] = () => {
    if (fails) throw new Error('not yet')
  }
  const { opened, open } = gate()
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    async run(script) {
      await script.send(await script.spawn({ name: 'helper' }), 'note')
      await opened
      return ''
    },
  }
  const team = openTeam(t, { ann: echo }, { orchestration, later: { helper } })
  const run = team.launch('go')
  await team.clock.advance(1)
  const [first] = team.deadLetters.list()
  await team.deadLetters.replay(first!.id)
  await team.clock.advance(1)
  const [second] = team.deadLetters.list()
  t.not(second!.id, first!.id)
  t.equal(second!.message.sender, '$orchestrator')
  fails = false
  open()
  await run.result
  await team.clock.advance(1)
  await t.rejects(team.deadLetters.replay(second!.id), { message: /"helper" went with its run/ })
  await team.addAgent({ name: 'helper' })
  await t.rejects(team.deadLetters.replay(second!.id), { message: /"helper" went with its run/ }, 'that is another')
})

t.test('what the one before had sent is told of to whom has sent it, also when its name has come again', async (t) => {
  const roles = { bob: { communication: { mailboxCapacity: 1 } } }
  const { opened, open } = gate()
  const team = openTeam(t, { ann: echo, bob: () => opened }, { roles })
  const first = outcomeOf(ask(team, 'bob'))
  await team.clock.advance(1)
  const sent = outcomeOf(team.sendMessage({ sender: 'ann', recipient: 'bob', content: 'waits' }))
  await team.clock.advance(1)
  await team.removeAgent('ann')
  await team.addAgent({ name: 'ann' })
  t.equal(sent.settled, false)
  open()
  await team.clock.advance(1)
  t.same([first.settled, sent], [true, { settled: true, value: null }])
})

t.test('an agent that leaves in order is no alarm, and what is lost is told of', async (t) => {
  const lines: { level: string; text: string; agent?: string; reason?: string }[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ level, ...fields, text })
  const logger: Logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
  const team = localTeam(t, { ann: echo, bob: echo, carl: () => never }, { logger, supervision: { stopGraceMs: 10 } })
  await ask(team, 'bob')
  await team.removeAgent('bob')
  await team.clock.advance(1)
  const alarms = () => lines.filter(({ level }) => level === 'warn' || level === 'error')
  t.same(alarms(), [])
  const asked = outcomeOf(ask(team, 'carl'))
  await team.clock.advance(1)
  const removed = outcomeOf(team.removeAgent('carl'))
  await team.clock.advance(20)
  t.same([asked.settled, removed.settled], [true, true])
  t.match(alarms(), [{ level: 'warn', agent: 'carl', reason: 'stopped', text: /a message to it will not be handled/ }])
  t.equal(alarms().length, 1)
})

t.test('the end for good of an agent of a run is an error with its reason', async (t) => {
  const errors: object[] = []
  const quiet = () => {}
  const logger: Logger = { debug: quiet, info: quiet, warn: quiet, error: (fields) => void errors.push(fields) }
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    run: async (script) => {
      await script.spawn({ name: 'helper' })
      return script.sleep(100).then(() => '')
    },
  }
  const supervision = { maxRestarts: 0 }
  const team = openTeam(t, { ann: echo }, { logger, orchestration, supervision, later: { helper: echo } })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(1)
  team.crashCell(team.host.directory.byIndex.find(({ name }) => name === 'helper'))
  await team.clock.advance(200)
  t.equal(run.settled, true)
  t.match(errors, [{ agent: 'helper', error: { code: 'AGENT_TERMINATED' } }])
  t.equal(errors.length, 1)
})

t.test('figures are those of the agents that the team has; letters to others are of nobody', async (t) => {
  const orchestration: Extras['orchestration'] = {
    strategy: 'custom',
    run: async (script) => (await script.request(await script.spawn({ name: 'helper' }), 'hi')).content,
  }
  const team = openTeam(t, { ann: echo, bob: echo }, { orchestration, later: { carl: echo, helper: echo } })
  await team.start()
  await team.removeAgent('bob')
  await team.addAgent({ name: 'carl' })
  await t.rejects(team.sendMessage({ recipient: 'bob', content: 'too late' }), { code: 'AGENT_TERMINATED' })
  t.equal((await team.execute('go')).finalOutput, 'helper: hi')
  await team.clock.advance(1)
  const samples = (name: string) => team.metrics().find((metric) => metric.name === `dramatis_${name}`)?.samples
  t.same(samples('agent_ready'), [
    { labels: { agent: 'ann' }, value: 1 },
    { labels: { agent: 'carl' }, value: 1 },
  ])
  t.match(
    samples('messages_dead_lettered_total')?.filter(({ value }) => value > 0),
    [{ labels: { agent: '', reason: 'stopped' }, value: 1 }],
  )
  t.match(team.health(), { ready: true, deadLetters: 1 })
  t.same(Object.keys(team.health().agents), ['ann', 'carl'])
})

t.test('retries of the team are those of who comes later, too', async (t) => {
  const asks: Cast[string] = (_message, context) =>
    context.request('bob', 'hi').catch(({ details }) => `tried ${details.tried}`)
  const later = { carl: asks }
  const team = given(t, {
    communication: { retries: 2, responseTimeoutMs: 10 },
    supervision: { stopGraceMs: 10 },
    later,
  }).team({ bob: () => never })
  await team.start()
  await team.addAgent({ name: 'carl' })
  const asked = outcomeOf(ask(team, 'carl', 'go', { responseTimeoutMs: 1_000 }))
  await team.clock.advance(100)
  t.equal(asked.value, 'tried 3')
})

t.test(
  'blackboard: who comes during a run takes part in the next; who leaves fails in it, and the others go on',
  async (t) => {
    const asked: string[] = []
    const { opened, open } = gate()
    const writes: Cast[string] = async (_message, context) => {
      const { name } = context.role
      asked.push(name)
      if (name === 'ann') await opened
      await context.publish(name, 1, 'fact')
    }
    const orchestration = { strategy: 'blackboard' as const, maxRounds: 1 }
    const team = openTeam(t, { ann: writes, bob: writes }, { orchestration, later: { carl: writes } })
    const run = outcomeOf(team.execute('go'))
    await team.clock.advance(1)
    await team.addAgent({ name: 'carl' })
    await team.removeAgent('bob')
    open()
    await team.clock.advance(10)
    t.equal(run.value?.success, true)
    t.notOk(asked.includes('carl'))
    asked.length = 0
    t.equal((await team.execute('again')).success, true)
    t.same(asked.sort(), ['ann', 'carl'])
  },
)

// Agents that come and go, on real threads.

const fixture = (name: string) => new URL(`../fixtures/team/${name}.js`, import.meta.url)
const module = fixture('actor')

function start(t: Test, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'a', module }],
    orchestration: { strategy: 'sequential' },
    logger: silent,
    threads: { warmSpares: 0 },
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

t.test('a thread that runs already asks who has come, and who has come in the place of who has left', async (t) => {
  const team = start(t)
  t.equal(await ask(team, 'a', 'echo:hi'), 'hi')
  await team.addAgent({ name: 'b', module })
  t.equal(await ask(team, 'a', 'ask:echo:hi'), 'hi')
  t.equal(await ask(team, 'b', 'count'), 'handled 2')
  await team.removeAgent('b')
  await t.rejects(ask(team, 'a', 'ask:echo:hi'), { message: /removed from the team/ })
  await team.addAgent({ name: 'b', module })
  t.equal(await ask(team, 'a', 'ask:count'), 'handled 1')
})

t.test('a script in a thread sees who comes and who goes', async (t) => {
  const team = start(t, { orchestration: { strategy: 'custom', module: fixture('greets-newcomers') } })
  const run = team.launch('go')
  for await (const event of run.events()) {
    if (event.type !== 'decision') continue
    if (event.question === 'Who is here?') await team.addAgent({ name: 'b', module })
    else await team.removeAgent('b')
  }
  t.match(await run.result, { success: true, finalOutput: 'hello b' })
})

t.test('an agent that an agent made is there once, also when its maker dies', async (t) => {
  const team = start(t, { agents: [{ name: 'boss', module: fixture('spawner'), trust: 'privileged' }] })
  const result = await team.execute(module.href)
  t.match(result, { success: true, finalOutput: 'handled 1' })
  t.match(pluck(result.messageHistory, 'sender'), ['$user', '$orchestrator', 'boss', 'helper', 'boss', '$orchestrator'])
})

t.test('a module that cannot be loaded is told, and the team is as it was', async (t) => {
  const team = start(t)
  await team.start()
  await t.rejects(team.addAgent({ name: 'b', module: fixture('nowhere') }), {
    code: 'CONFIGURATION',
    message: /role\.module/,
  })
  t.equal(team.getAgent('b'), undefined)
  t.equal(await ask(team, 'a', 'echo:hi'), 'hi')
})
