/** What verbs, watches, figures and the log make of agents that come and go. */
import t from 'tap'
import {
  type AgentContext,
  type AgentMessage,
  createTeam,
  defineAgent,
  type Logger,
  type MultiAgentPatternOptions,
} from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { ask, type Cast, type Extras, gate, given, localTeam, never, openTeam, outcomeOf, silent } from '../kit/team.ts'
import type { Test } from './stage.ts'

// What the verbs for several, watches, dead letters, figures and the log make of agents that come and go.

const privileged = { trust: 'privileged' } as const
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
