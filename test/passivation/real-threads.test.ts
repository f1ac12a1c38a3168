/** Agents that lose their thread, or that are many, on real threads. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { ask, numbers, outcomeOf } from '../kit/team.ts'
import { folderOf, type HostedTeam } from '../team/reloading.ts'
import { watchThreads } from '../toolbox/desk.ts'

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

t.test('40 agents share 4 threads, again and again, each with its state', async (t) => {
  const names = numbers(40).map((number) => `worker${number}`)
  const { team: start } = folderOf(t, { 'worker.js': agent() })
  const team = start(Object.fromEntries(names.map((name) => [name, { file: 'worker.js' }])), { threads: { max: 4 } })
  const alive = watchThreads(t)
  await team.start()
  for (const round of ['1', '2']) {
    const answers = await Promise.all(names.map((name) => ask(team, name)))
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
  const names = numbers(30).map((number) => `worker${number}`)
  const { team: start } = folderOf(t, { 'worker.js': agent() })
  const team = start(Object.fromEntries(names.map((name) => [name, { file: 'worker.js' }])), { threads: { max: 2 } })
  const alive = watchThreads(t)
  await team.start()
  const asked = names.map((name) => outcomeOf(ask(team, name)))
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

const names = numbers(300).map((number) => `agent${number}`)

function teamOf(t: Parameters<typeof folderOf>[0], max = 3) {
  const { team: start, module } = folderOf(t, { 'a.js': manyNamesAgent })
  const team = start(Object.fromEntries(names.map((name) => [name, { file: 'a.js' }])), { threads: { max } })
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
    t.equal(team.listAgents().length, names.length + 1)

    await team.removeAgent('late')
    for (const name of ['agent0', 'agent6'])
      t.match(await ask(team, name, 'ask late'), /^(AGENT_TERMINATED|UNKNOWN_AGENT) /, name)
    await team.addAgent(late)
    for (const name of ['agent0', 'agent7']) t.equal(await ask(team, name, 'ask late'), `${name} wrote hello to late`)
  },
)
