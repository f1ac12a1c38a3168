/** Agents that lose their thread when they are idle, and get one for their next message; in virtual time. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { ask, gate, given, openTeam, outcomeOf } from '../kit/team.ts'
import { statusesOf } from './threads.ts'

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
