/** Agents that lose their thread when they are idle, and the bound on threads: in virtual time and on real threads. */

import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { ThreadPlaces } from '../../src/runtime/supervision/pending-incarnation.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { virtualClock } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { ask, gate, given, numbers, type OpenTeam, openTeam, outcomeOf, silent } from '../kit/team.ts'
import { folderOf, type HostedTeam } from '../team/reloading.ts'
import { watchThreads } from '../toolbox/desk.ts'
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

// Agents that lose their thread, on real threads: what keeps one alive, and what a reload, a crash and an end do to
// it.

const agent = (version = 'one', more = '') => `
import { defineAgent } from 'dramatis'
let kept
export default defineAgent({
  initialState: { handled: 0 },
  receive({ content }, context) {
    context.setState((state) => { state.handled += 1 })
    if (content === 'keep') kept = setInterval(() => {}, 1_000)
    if (content === 'unref') kept.unref()
    if (content === 'crash' && context.attempt === 1) process.exit(3)
    return '${version} ' + context.state.handled
  },
  ${more}
})`

/** Resolves when no thread is left: one that takes long to end is fenced off, and ends behind its team. */
async function ended(alive: ReadonlySet<unknown>): Promise<void> {
  while (alive.size > 0) await turn()
}

async function until(team: HostedTeam, name: string, status: string): Promise<void> {
  while (team.getAgentStatus(name) !== status) await turn()
}

t.test('agents share 4 threads, again and again, each with its state', async (t) => {
  const many = numbers(howMany(12, 40)).map((number) => `worker${number}`)
  const { team: start } = folderOf(t, { 'worker.js': agent() })
  const team = start(Object.fromEntries(many.map((name) => [name, { file: 'worker.js' }])), { threads: { max: 4 } })
  const alive = watchThreads(t)
  await team.start()
  for (const round of ['1', '2']) {
    const answers = await Promise.all(many.map((name) => ask(team, name)))
    t.same(new Set(answers), new Set([`one ${round}`]))
  }
  t.equal(team.health().agents.worker0!.restarts, 0)
  await team.close()
  await ended(alive)
})

t.test('a timer of the agent keeps its thread, until it is unreffed', async (t) => {
  const { team: start } = folderOf(t, { 'a.js': agent(), 'b.js': agent() })
  const team = start({ a: { file: 'a.js' }, b: { file: 'b.js' } }, { threads: { idleMs: 10 } })
  await team.start()
  await ask(team, 'a', 'keep')
  const { epoch } = team.host.directory.agent('a')!
  await until(team, 'b', 'passivated')
  while ((team.host.directory.agent('a')?.incarnation?.restlessAt ?? 0) < 0) await turn() // it was asked
  t.equal(await ask(team, 'a', 'unref'), 'one 2')
  t.equal(team.host.directory.agent('a')!.epoch, epoch)
  await until(team, 'a', 'passivated')
  t.equal(await ask(team, 'a'), 'one 3')
})

t.test('a stop hook that ends the thread is no crash', async (t) => {
  const { team: start } = folderOf(t, { 'a.js': agent('one', 'stop: () => process.exit(5),') })
  const team = start({ a: { file: 'a.js' } }, { threads: { idleMs: 10 }, supervision: { maxRestarts: 0 } })
  await team.start()
  await until(team, 'a', 'passivated')
  t.equal(await ask(team, 'a'), 'one 1')
})

/**
 * Waits until one of both has no thread, and returns its name. Which one that is depends on their threads: one that has
 * something to do just then keeps its thread, and the other one goes.
 */
async function withoutThread(team: HostedTeam): Promise<'a' | 'b'> {
  for (;;) {
    const asleep = (['a', 'b'] as const).filter((name) => team.getAgentStatus(name) === 'passivated')
    if (asleep.length === 1) return asleep[0]!
    await turn()
  }
}

t.test('an agent without a thread is reloaded, removed, and crashes like any other', async (t) => {
  const { team: start, write } = folderOf(t, { 'a.js': agent(), 'b.js': agent() })
  const team = start({ a: { file: 'a.js' }, b: { file: 'b.js' } }, { threads: { max: 1 } })
  const versions = { a: 'one', b: 'one' }
  const handled = { a: 0, b: 0 }
  const asked = async (name: 'a' | 'b', content?: string) => {
    handled[name] += 1
    t.equal(await ask(team, name, content), `${versions[name]} ${handled[name]}`)
  }
  await team.start()
  await asked('a')
  await asked('b')
  const reloaded = await withoutThread(team)
  write(`${reloaded}.js`, agent('two'))
  versions[reloaded] = 'two'
  await team.reloadAgent(reloaded)
  await asked(reloaded)
  const crashed = await withoutThread(team)
  await asked(crashed, 'crash')
  t.equal(team.health().agents[crashed]!.restarts, 1)
  const removed = await withoutThread(team)
  await team.removeAgent(removed)
  await t.rejects(ask(team, removed))
  await asked(removed === 'a' ? 'b' : 'a')
})

t.test('a team that is closed while agents wait for a thread ends', async (t) => {
  const many = numbers(30).map((number) => `worker${number}`)
  const { team: start } = folderOf(t, { 'worker.js': agent() })
  const team = start(Object.fromEntries(many.map((name) => [name, { file: 'worker.js' }])), { threads: { max: 2 } })
  const alive = watchThreads(t)
  await team.start()
  const asked = many.map((name) => outcomeOf(ask(team, name)))
  while (team.host.places.waiting === 0) await turn()
  await team.close()
  t.ok(asked.every(({ settled }) => settled))
  await ended(alive)
})

// Many agents on few threads: each finds the others by name, also those that join, leave, or that it has never heard
// of.

const manyNamesAgent = `
import { defineAgent } from 'dramatis'
export default defineAgent({
  async receive({ content, sender }, context) {
    const [verb, to, ...rest] = content.split(' ')
    if (verb !== 'ask') return sender + ' wrote ' + content + ' to ' + context.role.name
    try {
      return (await context.request(to, rest.join(' ') || 'hello')).content
    } catch (error) {
      return error.code + ' ' + error.message
    }
  },
})`

const many = numbers(300).map((number) => `agent${number}`)

function teamOf(t: Parameters<typeof folderOf>[0], max = 3) {
  const { team: start, module } = folderOf(t, { 'a.js': manyNamesAgent })
  const team = start(Object.fromEntries(many.map((name) => [name, { file: 'a.js' }])), { threads: { max } })
  return { team, module: module('a.js') }
}

t.test('an agent reaches a name that it has never used, and knows by name who writes to it', async (t) => {
  const { team } = teamOf(t)
  t.equal(await ask(team, 'agent0', 'hello'), '$user wrote hello to agent0')
  t.equal(await ask(team, 'agent0', 'ask agent299'), 'agent0 wrote hello to agent299')
  t.equal(await ask(team, 'agent150', 'ask agent7 ask agent298'), 'agent7 wrote hello to agent298')
})

t.test('a name that nobody has is refused, and the nearest one is named', async (t) => {
  const { team } = teamOf(t)
  t.match(await ask(team, 'agent0', 'ask agemt299'), /^UNKNOWN_AGENT .*did you mean "agent299"/)
  t.match(await ask(team, 'agent0', 'ask $orchestrator'), /^[A-Z_]+ /, 'nor is the runtime an agent')
  t.equal(await ask(team, 'agent0', 'ask agent299'), 'agent0 wrote hello to agent299')
})

t.test(
  'an agent that joins is found by threads that run, and by those that begin later; one that leaves is not',
  async (t) => {
    const { team, module } = teamOf(t)
    await ask(team, 'agent0', 'hello')
    const late = { name: 'late', module }
    await team.addAgent(late)
    t.equal(await ask(team, 'agent0', 'ask late'), 'agent0 wrote hello to late', 'its thread was there before')
    t.equal(await ask(team, 'agent5', 'ask late'), 'agent5 wrote hello to late', 'its thread began after it')
    t.equal(await ask(team, 'late', 'ask agent299'), 'late wrote hello to agent299')
    t.equal(team.listAgents().length, many.length + 1)

    await team.removeAgent('late')
    for (const name of ['agent0', 'agent6'])
      t.match(await ask(team, name, 'ask late'), /^(AGENT_TERMINATED|UNKNOWN_AGENT) /, name)
    await team.addAgent(late)
    for (const name of ['agent0', 'agent7']) t.equal(await ask(team, name, 'ask late'), `${name} wrote hello to late`)
  },
)
