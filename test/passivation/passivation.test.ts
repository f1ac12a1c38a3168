/** Agents that lose their thread when they are idle, and the bound on threads; in virtual time. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { ThreadPlaces } from '../../src/runtime/supervision/pending-incarnation.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { virtualClock } from '../../src/testing.ts'
import { ask, gate, given, numbers, type OpenTeam, openTeam, outcomeOf, silent } from '../kit/team.ts'
import { statusesOf } from './threads.ts'

// Agents that lose their thread when they are idle, and get one for their next message; in virtual time.

/** Counts its messages in its state, and the hooks that ran. */
function counter() {
  const hooks: string[] = []
  const agent = defineAgent({
    initialState: { handled: 0 },
    start: () => void hooks.push('start'),
    stop: () => void hooks.push('stop'),
    receive(_message, context) {
      context.setState((state) => {
        state.handled += 1
      })
      return String(context.state.handled)
    },
  })
  return { agent, hooks }
}

t.test('an agent without a message for idleMs has no thread; a message brings it back with its state', async (t) => {
  const { agent, hooks } = counter()
  const team = openTeam(t, { worker: agent }, { threads: { idleMs: 100 } })
  const statuses = statusesOf(team, 'worker')
  await team.start()
  const first = ask(team, 'worker')
  await team.clock.advance(90)
  t.equal(await first, '1')
  t.equal(team.getAgentStatus('worker'), 'idle')
  await team.clock.advance(20)
  t.equal(team.getAgentStatus('worker'), 'passivated')
  t.same(hooks, ['start', 'stop'])
  t.same(team.health().ready, true)
  const second = ask(team, 'worker')
  await team.clock.advance(10)
  t.equal(await second, '2')
  t.same(hooks, ['start', 'stop', 'start'])
  t.equal(team.health().agents.worker!.restarts, 0)
  t.same(statuses, ['starting', 'idle', 'running', 'idle', 'passivated', 'starting', 'idle', 'running', 'idle'])
})

t.test('an agent with an open turn keeps its thread', async (t) => {
  const { opened, open } = gate()
  const team = given(t, { threads: { idleMs: 100 } }).team({
    worker: async () => {
      await opened
      return 'done'
    },
  })
  await team.start()
  const slow = ask(team, 'worker')
  await team.clock.advance(1_000)
  t.equal(team.getAgentStatus('worker'), 'running')
  open()
  t.equal(await slow, 'done')
  await team.clock.advance(101)
  t.equal(team.getAgentStatus('worker'), 'passivated')
})

t.test('a message that comes while the stop hook runs begins the next thread when it has run', async (t) => {
  const { opened, open } = gate()
  const hooks: string[] = []
  const agent = defineAgent({
    start: () => void hooks.push('start'),
    stop: async () => {
      hooks.push('stop')
      await opened
    },
    receive: ({ content }) => content,
  })
  const team = openTeam(t, { worker: agent }, { threads: { idleMs: 100 } })
  await team.start()
  await team.clock.advance(110)
  t.same(hooks, ['start', 'stop'])
  const answer = outcomeOf(ask(team, 'worker', 'while it stops'))
  await team.clock.advance(10)
  t.notOk(answer.settled)
  open()
  await team.clock.advance(10)
  t.equal(answer.value, 'while it stops')
  t.same(hooks, ['start', 'stop', 'start'])
})

t.test('a stop hook that does not end has stopGraceMs', async (t) => {
  const agent = defineAgent({ stop: () => new Promise<void>(() => {}), receive: () => 'here' })
  const team = openTeam(t, { worker: agent }, { threads: { idleMs: 100 }, supervision: { stopGraceMs: 50 } })
  await team.start()
  await team.clock.advance(120)
  const answer = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(100)
  t.equal(answer.value, 'here')
})

// `threads.max`: the bound on threads, who waits for one, and when the bound is exceeded; in virtual time.

/** Notes the highest number of agents that had a thread at the same time. */
function watchLives(team: OpenTeam): { most: number } {
  const seen = { most: 0 }
  const { directory } = team.host
  const setIncarnation = directory.setIncarnation.bind(directory)
  directory.setIncarnation = (agent, incarnation) => {
    setIncarnation(agent, incarnation)
    seen.most = Math.max(seen.most, directory.living.filter(({ settings }) => settings.isAgent).length)
  }
  return seen
}

const names = numbers(20).map((number) => `agent${number}`)
const echoes = Object.fromEntries(
  names.map((name) => [name, ({ content }: { content: string }) => `${name} ${content}`]),
)

t.test('agents that do not fit begin with their first message, and share the threads', async (t) => {
  const team = openTeam(t, echoes, { threads: { max: 3 } })
  const lives = watchLives(team)
  await team.start()
  t.same(new Set(names.map((name) => team.getAgentStatus(name))), new Set(['passivated']))
  t.equal(team.health().ready, true)
  for (const round of ['first', 'second']) {
    const answers = Promise.all(names.map((name) => ask(team, name, round)))
    await team.clock.advance(1_000)
    t.same(
      await answers,
      names.map((name) => `${name} ${round}`),
    )
  }
  t.equal(lives.most, 3)
})

t.test('agents that fit all start with the team', async (t) => {
  const team = openTeam(t, echoes, { threads: { max: names.length } })
  await team.start()
  t.same(new Set(names.map((name) => team.getAgentStatus(name))), new Set(['idle']))
})

t.test('the idle agent that was used least recently gives up its thread', async (t) => {
  const team = openTeam(t, echoes, { threads: { max: 2 } })
  await team.start()
  for (const name of ['agent1', 'agent2', 'agent1', 'agent3']) {
    const answer = ask(team, name)
    await team.clock.advance(10)
    await answer
  }
  t.same(
    ['agent1', 'agent2', 'agent3'].map((name) => team.getAgentStatus(name)),
    ['idle', 'passivated', 'idle'],
  )
})

t.test('a chain of 50 agents that ask each other needs more threads than 4, and gets them', async (t) => {
  const chain = numbers(50).map((number) => `link${number}`)
  const links = Object.fromEntries(
    chain.map((name, at) => [
      name,
      defineAgent({
        async receive({ content }, context) {
          const next = chain[at + 1]
          if (next === undefined) return content
          return `${(await context.request(next, content)).content}.`
        },
      }),
    ]),
  )
  const warnings: string[] = []
  const logger = { ...silent, warn: (_fields: object, text: string) => void warnings.push(text) }
  const team = openTeam(t, links, { threads: { max: 4 }, logger })
  await team.start()
  const answer = ask(team, 'link0', 'end')
  await team.clock.advance(2_000)
  t.equal(await answer, `end${'.'.repeat(49)}`)
  t.match(warnings, [/^threads\.max \(4\) is exceeded: the turns of all agents that have a thread wait for others/])
  await team.clock.advance(100)
  t.equal(team.host.places.taken, 4, 'what was too much is ended as soon as it is idle')
})

t.test('the end of a thread that was one too many is told to who looks for agents that wait for ever', async (t) => {
  let told = 0
  const places = new ThreadPlaces(1, virtualClock(), () => {
    told += 1
  })
  places.reserve()
  places.reserve() // as if one had been granted because all waited for others
  const team = openTeam(t, { asked: () => 'answered' }, { unfinished: true })
  const agent = team.agent('asked')
  await team.sendMessage({ recipient: 'asked', content: 'go' })
  t.ok(places.take(agent), 'it waits')
  t.equal(told, 1)
  places.free()
  t.same([places.taken, places.waiting, told], [1, 1, 2], 'its place is not to be had, and no other may come free')
  places.free()
  t.same([places.taken, places.waiting, told], [1, 0, 2], 'the next one is')
})

t.test('an answered turn that waits for its place behind one that waits for others keeps nobody out', async (t) => {
  const team = given(t, {
    threads: { max: 1 },
    script: async (script, query) => (await script.request('clerk', query)).content,
  }).team({
    async clerk({ content }, context) {
      if (content === 'first') return context.ask('Now?')
      await context.sleep(1_000)
      return (await context.request('expert', content)).content
    },
    expert: ({ content }) => content,
  })
  await team.start()
  const first = outcomeOf(team.execute('first'))
  await team.clock.advance(100)
  const second = outcomeOf(team.execute('second'))
  await team.clock.advance(100)
  await team.answer(team.questions()[0]!.questionId, 'now')
  await team.clock.advance(5_000)
  t.same([second.value?.finalOutput, first.value?.finalOutput], ['second', 'now'])
})

t.test('a full mailbox of an agent without a thread does not stop its senders for ever', async (t) => {
  const sender = defineAgent({
    async receive(_message, context) {
      for (const number of numbers(10)) await context.send('sink', number)
      return 'sent'
    },
  })
  const heard: string[] = []
  const sink = defineAgent({ receive: ({ content }) => void heard.push(content) })
  const team = openTeam(t, { sender, sink }, { threads: { max: 1 }, communication: { mailboxCapacity: 2 } })
  await team.start()
  const answer = ask(team, 'sender')
  await team.clock.advance(1_000)
  t.equal(await answer, 'sent')
  t.same(heard, numbers(10))
})

t.test('who waits for a thread is served by priority, then in order', async (t) => {
  const { opened, open } = gate()
  const order: string[] = []
  const note = (name: string) => defineAgent({ receive: () => void order.push(name) })
  const team = given(t, { threads: { max: 1 } }).team({
    busy: async () => void (await opened),
    low: note('low'),
    other: note('other'),
    high: note('high'),
  })
  await team.start()
  const busy = ask(team, 'busy')
  await team.clock.advance(10)
  for (const [recipient, priority] of [
    ['low', 0],
    ['other', 0],
    ['high', 5],
  ] as const)
    await team.sendMessage({ recipient, content: 'go', priority })
  await team.clock.advance(10)
  t.same(order, [], 'a turn that works is not ended for others')
  t.equal(team.host.places.waiting, 3)
  const waiting = team.metrics().find(({ name }) => name === 'dramatis_agents_waiting_for_thread')
  t.equal(waiting?.samples[0]?.value, 3)
  open()
  await busy
  await team.clock.advance(100)
  t.same(order, ['high', 'low', 'other'])
})

t.test('code that is not there is found at the start, though nothing starts', async (t) => {
  const { createTeam } = await import('../../src/index.ts')
  const agents = numbers(3).map((number) => ({
    name: `a${number}`,
    module: new URL(`./nowhere${number}.js`, import.meta.url),
  }))
  const team = createTeam({ agents, threads: { max: 1 }, orchestration: { strategy: 'sequential' }, logger: silent })
  t.teardown(() => team.close())
  await t.rejects(team.start(), {
    code: 'CONFIGURATION',
    message: /agents\[0\]\.module: there is no file .*nowhere0\.js/,
  })
})

t.test('an agent that throws when it starts fails who asks it, and nobody else', async (t) => {
  const bad = defineAgent({
    start() {
      throw new Error('no network')
    },
    receive: () => '',
  })
  const team = openTeam(t, { bad, good: () => 'fine' }, { threads: { max: 1 } })
  await team.start()
  const failed = outcomeOf(ask(team, 'bad'))
  const fine = outcomeOf(ask(team, 'good'))
  await team.clock.advance(100)
  t.match(failed.error?.message, /no network/)
  t.equal(fine.value, 'fine')
  t.equal(team.getAgentStatus('bad'), 'failed')
})

t.test('an agent that joins or is spawned while all threads are taken begins with its first message', async (t) => {
  const parent = defineAgent({
    async receive(_message, context) {
      await context.spawn({ name: 'child' })
      return (await context.request('child', 'hello')).content
    },
  })
  const team = given(t, {
    threads: { max: 1 },
    roles: { parent: { trust: 'privileged' } },
    later: { child: () => 'child speaks', joined: () => 'joined speaks' },
  }).team({ parent, other: () => '' })
  await team.start()
  const answer = outcomeOf(ask(team, 'parent'))
  await team.clock.advance(100)
  t.equal(answer.value, 'child speaks')
  await team.addAgent({ name: 'joined' })
  const joined = outcomeOf(ask(team, 'joined'))
  await team.clock.advance(100)
  t.equal(joined.value, 'joined speaks')
})

t.test('a bound that was exceeded holds again once the threads that refused to end have nothing to do', async (t) => {
  const team = openTeam(t, { a: () => 'a', b: () => 'b' }, { threads: { max: 1 } })
  const { clock } = team.host
  const timer = clock.timer.bind(clock)
  clock.timer = (ms, task, unref) => timer(Math.max(0, ms - 0.5), task, unref) // as real timers do now and then
  const { isIdle } = LocalThread.prototype
  let refusals = 0
  t.teardown(() => Object.assign(LocalThread.prototype, { isIdle }))
  LocalThread.prototype.isIdle = async function (this: LocalThread) {
    return refusals++ >= 2 && (await isIdle.call(this))
  }
  await team.start()
  const answers = Promise.all([ask(team, 'a'), ask(team, 'b')])
  await team.clock.advance(100)
  t.same(await answers, ['a', 'b'])
  t.same([refusals, team.host.places.taken], [2, 2], 'no thread would end, so the bound was exceeded')
  await team.clock.advance(5_000)
  t.equal(team.host.places.taken, 1)
})
