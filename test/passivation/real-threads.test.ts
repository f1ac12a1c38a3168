/** Agents that lose their thread, on real threads: what keeps one alive, and what a reload, a crash and an end do to it. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { ask, numbers, outcomeOf } from '../kit/team.ts'
import { folderOf, type HostedTeam } from '../team/reloading.ts'
import { watchThreads } from '../toolbox/desk.ts'

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
  t.equal(alive.size, 0)
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
  t.equal(alive.size, 0)
})
