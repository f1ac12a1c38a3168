import t from 'tap'
import { agentTable } from '../../src/service/shared/live-progress.ts'
import { agentHealth } from './fake-team.ts'

const size = { width: 80, height: 24 }

t.test('shows name, state, turns done, mailbox and restarts of each agent', async (t) => {
  const agents = {
    advocate: agentHealth({ status: 'running', queued: 12, inFlight: 1 }),
    critic: agentHealth({ status: 'restarting', restarts: 2 }),
  }
  t.strictSame(agentTable(agents, new Map([['advocate', 3]]), size), [
    'agent     state       turns  queued  in flight  restarts',
    'advocate  running     3      12      1          0',
    'critic    restarting  0      0       0          2',
  ])
})

t.test("leaves out what is the runtime's own", async (t) => {
  const lines = agentTable({ $orchestrator: agentHealth(), judge: agentHealth() }, new Map(), size)
  t.equal(lines.length, 2)
  t.match(lines[1], /^judge/)
})

t.test('is no wider than the terminal', async (t) => {
  const lines = agentTable({ [`a${'x'.repeat(60)}`]: agentHealth() }, new Map(), { width: 20, height: 24 })
  t.ok(lines.every((line) => line.length <= 20))
})

t.test('is no higher than the terminal: the agents that have nothing to do give way', async (t) => {
  const names = Array.from({ length: 10 }, (_, i) => `agent${i}`)
  const agents = Object.fromEntries(
    names.map((name, i) => [name, agentHealth(i === 7 ? { status: 'running' } : i === 9 ? { queued: 1 } : {})]),
  )
  const lines = agentTable(agents, new Map(), { width: 80, height: 5 })
  t.strictSame(
    lines.map((line) => line.split(' ')[0]),
    ['agent', 'agent0', 'agent7', 'agent9', 'and'],
  )
  t.equal(lines.at(-1), 'and 7 more: 7 idle; turns 0, queued 0, in flight 0, restarts 0')
  t.equal(agentTable(agents, new Map(), { width: 80, height: 0 }).length, 3)
})

t.test('of fifty, those that do not fit are summed up in one line', async (t) => {
  const names = Array.from({ length: 50 }, (_, i) => `agent${i}`)
  const agents = Object.fromEntries(
    names.map((name, i) => [
      name,
      agentHealth(
        i < 30 ? { status: 'running', inFlight: 1, queued: 2 } : i < 40 ? { status: 'starting', restarts: 1 } : {},
      ),
    ]),
  )
  const turns = new Map(names.map((name) => [name, 2]))
  const lines = agentTable(agents, turns, { width: 90, height: 23 })
  t.equal(lines.length, 23)
  t.equal(lines.filter((line) => line.includes('running ')).length, 21)
  t.equal(
    lines.at(-1),
    'and 29 more: 9 running, 10 starting, 10 idle; turns 58, queued 18, in flight 9, restarts 10'.slice(0, 90),
  )
})
