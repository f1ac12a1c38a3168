/** Rule 19: how long an agent keeps its permit while others wait, and how many messages it is given ahead of time. */
import t from 'tap'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { localTeam, type Receive } from './teams.ts'

const MESSAGES = 60

const NAMES = ['first', 'second', 'third', 'fourth']

/** Fills the queues of all agents, then waits until they have worked them off. */
const fillAll = (messages: number): OrchestrationConfig => ({
  strategy: 'custom',
  async run(script) {
    for (let n = 0; n < messages; n++) for (const name of NAMES) await script.send(name, String(n))
    await script.requestAll(NAMES, 'done?')
    return 'done'
  },
})

/** Who had a turn, in that order, when four with full queues share one permit and each turn takes `ms`. */
async function turnsOf(test: Pick<typeof t, 'teardown' | 'equal'>, ms: number, messages = MESSAGES): Promise<string[]> {
  const turns: string[] = []
  const worker =
    (name: string): Receive =>
    async (_message, context) => {
      turns.push(name)
      if (ms > 0) await context.sleep(ms)
    }
  const cast = Object.fromEntries(NAMES.map((name) => [name, worker(name)]))
  const team = localTeam(test, cast, { maxConcurrentAgents: 1, orchestration: fillAll(messages) })
  const run = team.execute('go')
  await team.clock.runToIdle()
  test.equal((await run).success, true)
  test.equal(turns.length, NAMES.length * (messages + 1))
  return turns
}

const changes = (turns: readonly string[]) => turns.filter((name, i) => i > 0 && name !== turns[i - 1]).length

t.test('rule 19: who has long turns passes its permit on after each', async (t) => {
  const turns = await turnsOf(t, 100)
  t.equal(changes(turns), turns.length - 1)
})

t.test('rule 19: who has short turns goes on for a slice, so that a wake-up is not paid for each', async (t) => {
  const turns = await turnsOf(t, 0)
  t.ok(changes(turns) < turns.length / 2, `${changes(turns)} changes in ${turns.length} turns`)
  t.ok(changes(turns) > 1, 'all get on, although all have more to do all the time')
})

t.test('rule 19: a slice has an end, however much there is to do', async (t) => {
  const turns = await turnsOf(t, 0, 400)
  let longest = 0
  let length = 0
  for (const [i, name] of turns.entries()) {
    length = name === turns[i - 1] ? length + 1 : 1
    longest = Math.max(longest, length)
  }
  t.ok(longest < 200, `${longest} turns of one agent after each other`)
})

t.test('an agent with long turns is given one message at a time: the next is chosen when it is free', async (t) => {
  const got: string[] = []
  const team = localTeam(t, {
    async worker({ content }, context) {
      got.push(content)
      await context.sleep(1_000)
    },
  })
  for (const content of ['a', 'b', 'c']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(500)
  t.equal(team.health().agents.worker?.inFlight, 1)
  await team.sendMessage({ recipient: 'worker', content: 'urgent', priority: 1 })
  await team.clock.runToIdle()
  t.same(got, ['a', 'urgent', 'b', 'c'])
})

t.test('an agent whose turns become long is given one message at a time again', async (t) => {
  const team = localTeam(t, {
    async worker({ content }, context) {
      if (content === 'long') await context.sleep(1_000)
    },
    async sender({ content }, context) {
      for (let n = 0; n < 40; n++) await context.send('worker', content)
    },
  })
  const inFlight = () => team.health().agents.worker?.inFlight
  await team.sendMessage({ recipient: 'sender', content: 'short' })
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'sender', content: 'long' })
  await team.clock.advance(500)
  t.equal(inFlight(), 40, 'all at once, for its turns had been short')
  await team.clock.advance(40_000)
  await team.sendMessage({ recipient: 'sender', content: 'long' })
  await team.clock.advance(500)
  t.equal(inFlight(), 1)
})

t.test('an agent with short turns is given many', async (t) => {
  let most = 0
  const team = localTeam(t, {
    async worker() {
      most = Math.max(most, team.health().agents.worker?.inFlight ?? 0)
    },
    async sender(_message, context) {
      for (let n = 0; n < 500; n++) await context.send('worker', String(n))
    },
  })
  await team.sendMessage({ recipient: 'sender', content: 'go' })
  await team.sendMessage({ recipient: 'sender', content: 'go' })
  await team.clock.runToIdle()
  t.ok(most > 20, `${most} at once`)
})
