/** Agents that leave a team, also while runs are under way; and names that come again. */
import t from 'tap'
import { defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { ask, type Cast, given, localTeam, never, openTeam, outcomeOf } from '../kit/team.ts'

const echo: Cast[string] = ({ content }, { role }) => `${role.name}: ${content}`
const passes: Cast[string] = async ({ content }, context) => (await context.request('bob', content)).content
const counts = defineAgent({
  initialState: { handled: 0 },
  initialRunState: { handled: 0 },
  receive(_message, context) {
    for (const set of [context.setState, context.setRunState])
      set.call(context, (draft: { handled: number }) => void draft.handled++)
    return `${context.state.handled} ${context.runState.handled}`
  },
})

t.test('an agent that was removed is not in the team any more', async (t) => {
  const team = localTeam(t, { ann: echo, bob: echo }, { orchestration: { strategy: 'sequential' } })
  const bob = team.getAgent('bob')
  await team.start()
  await team.removeAgent('bob')
  t.same([bob?.status, team.getAgent('bob'), team.getAgentStatus('bob')], ['stopped', undefined, undefined])
  t.same(Object.keys(team.health().agents), ['ann'])
  t.same(Object.keys((await team.execute('hi')).agentOutputs), ['ann'])
  await t.rejects(team.removeAgent('bob'), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.removeAgent('$user'), { code: 'UNKNOWN_AGENT' })
})

t.test('rule 8: who asked it is told, and what waits for it becomes dead letters', async (t) => {
  const team = openTeam(t, {
    ann: passes,
    async bob(_message, context) {
      await context.sleep(60_000)
    },
  })
  const [first, second] = [outcomeOf(ask(team, 'bob', 'first')), outcomeOf(ask(team, 'bob', 'second'))]
  const throughAnn = outcomeOf(ask(team, 'ann', 'third'))
  await team.clock.advance(10)
  await team.removeAgent('bob')
  await team.clock.advance(1)
  t.equal(first.error?.code, 'AGENT_TERMINATED')
  t.match(second.error, { code: 'AGENT_TERMINATED', message: /Agent "bob" was removed from the team/ })
  t.equal(throughAnn.error?.code, 'AGENT_FAILED')
  t.same(
    team.deadLetters.list().map(({ reason, message }) => [message.recipient, reason]),
    [
      ['bob', 'stopped'],
      ['bob', 'stopped'],
    ],
  )
})

t.test('who asks it afterwards is told the same', async (t) => {
  const team = localTeam(t, { ann: passes, bob: echo })
  await team.start()
  await team.removeAgent('bob')
  await t.rejects(ask(team, 'bob'), { code: 'AGENT_TERMINATED', message: /was removed from the team/ })
  const failed = await team.execute('go')
  t.match(failed.error?.message, /was removed from the team/)
})

t.test('rule 12: its turn is aborted and may clean up, then its stop hook runs', async (t) => {
  const happened: string[] = []
  const bob = defineAgent({
    receive: (_message, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          happened.push('aborted')
          reject(signal.reason)
        })
      }),
    stop: () => void happened.push('stopped'),
  })
  const team = localTeam(t, { ann: echo, bob })
  const asked = outcomeOf(ask(team, 'bob'))
  await team.clock.advance(1)
  await team.removeAgent('bob')
  t.same(happened, ['aborted', 'stopped'])
  t.equal(asked.error?.code, 'AGENT_TERMINATED')
})

t.test('rule 12: one that does not listen costs its thread after the grace', async (t) => {
  const team = localTeam(t, { ann: echo, bob: () => never }, { supervision: { stopGraceMs: 50_000 } }) // it ends in real time, too
  const asked = outcomeOf(ask(team, 'bob'))
  await team.clock.advance(1)
  const waits = outcomeOf(ask(team, 'bob'))
  await team.clock.advance(1)
  const removed = outcomeOf(team.removeAgent('bob'))
  await team.clock.advance(49_000)
  t.equal(removed.settled, false)
  t.equal(waits.error?.code, 'AGENT_TERMINATED', 'who only waited for it is told at once')
  await team.clock.advance(1_000)
  t.equal(removed.settled, true)
  t.equal(asked.error?.code, 'AGENT_TERMINATED')
})

t.test('rule 19: what it had of the limits goes to others', async (t) => {
  const team = given(t, {
    maxConcurrentAgents: 1,
    supervision: { stopGraceMs: 10 },
    script: async (script) => {
      const outcomes = await script.requestAll(['bob', 'ann'], 'go')
      return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(', ')
    },
  }).team({ bob: () => never, ann: echo })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(1)
  void team.removeAgent('bob')
  await team.clock.advance(50)
  t.equal(run.value?.finalOutput, 'AGENT_TERMINATED, ann: go')
})

t.test('its name may come again, for an agent with a state of its own', async (t) => {
  const team = localTeam(t, { ann: passes, bob: counts })
  t.same([await ask(team, 'bob'), await ask(team, 'bob')], ['1 1', '2 1'])
  await team.removeAgent('bob')
  const bob = await team.addAgent({ name: 'bob' })
  t.equal(await ask(team, 'ann'), '1 1', 'by who knew the one before')
  t.match(team.health().agents.bob, { restarts: 0, status: 'idle' })
  t.equal(bob.status, 'idle')
})

t.test('the name may come again at once: the one before has left by then', async (t) => {
  const stubborn: Cast[string] = ({ content }) => (content === 'hold' ? never : `did ${content}`)
  const team = localTeam(t, { ann: passes, bob: stubborn }, { supervision: { stopGraceMs: 50_000 } })
  const held = outcomeOf(ask(team, 'bob', 'hold'))
  await team.clock.advance(1)
  void team.removeAgent('bob')
  const added = outcomeOf(team.addAgent({ name: 'bob' }))
  await team.clock.advance(49_000)
  t.equal(added.settled, false)
  await team.clock.advance(1_000)
  t.equal(added.value?.status, 'idle')
  t.equal(held.error?.code, 'AGENT_TERMINATED')
  t.equal(await ask(team, 'ann', 'this'), 'did this')
})

t.test('a run that has seen both tells them by what they did, and tries again only what is its own', async (t) => {
  const done: string[] = []
  const bob = defineAgent({
    initialRunState: { handled: 0 },
    async receive({ content }, context) {
      await context.step('do', () => void done.push(content))
      context.setRunState((draft) => void draft.handled++)
      if (content === 'third' && context.attempt === 1) await never
      await context.step('end', () => void done.push(`end of ${content}`))
      return `${content} ${context.runState.handled}`
    },
  })
  const team = given(t, {
    script: async (script) => {
      const first = await script.request('bob', 'first')
      const second = await script.request('bob', 'second')
      await team.removeAgent('bob')
      await team.addAgent({ name: 'bob' })
      const third = await script.request('bob', 'third')
      return [first, second, third].map(({ sender, content }) => `${sender}: ${content}`).join(', ')
    },
  }).team({ ann: echo, bob })
  const run = team.execute('go')
  await team.clock.advance(10)
  team.crash('bob')
  await team.clock.advance(10)
  t.equal((await run).finalOutput, 'bob: first 1, bob: second 2, bob: third 1')
  t.same(done, ['first', 'end of first', 'second', 'end of second', 'third', 'end of third'])
})

t.test('what it had subscribed to reaches neither it nor who has its name next', async (t) => {
  const heard: string[] = []
  const bob = defineAgent({
    receive: (_message, context) => context.subscribe('news'),
    observe: ({ content }) => void heard.push(content),
  })
  const team = given(t, {
    script: async (script) => {
      await script.request('bob', 'listen')
      await script.publish('news', 1, 'fact')
      await script.sleep(1)
      await team.removeAgent('bob')
      await script.publish('news', 2, 'fact')
      await team.addAgent({ name: 'bob' })
      await script.publish('news', 3, 'fact')
      return 'done'
    },
  }).testTeam({ ann: echo, bob })
  const run = team.execute('go')
  await team.clock.advance(10)
  t.equal((await run).success, true)
  t.same(heard, ['news'])
  t.same(team.deadLetters.list(), [])
})

t.test('one that keeps the team from starting can be removed', async (t) => {
  const fragile = defineAgent({
    start() {
      throw new Error('no network')
    },
    receive: () => '',
  })
  const team = localTeam(t, { ann: echo, fragile })
  await t.rejects(team.start(), { code: 'START_FAILED' })
  await team.removeAgent('fragile')
  await team.start()
  t.ok(team.health().ready)
})

t.test('an agent that was stopped for good is not tried again once it was removed', async (t) => {
  const team = openTeam(t, { ann: echo, bob: echo }, { supervision: { maxRestarts: 0, coolDownMs: 100 } })
  await team.start()
  team.crash('bob')
  await team.clock.advance(1)
  const bob = team.getAgent('bob')
  t.equal(bob?.status, 'failed')
  await team.removeAgent('bob')
  await team.clock.advance(200)
  t.equal(bob?.status, 'stopped')
})

t.test('events tell that it has stopped', async (t) => {
  const team = localTeam(t, { ann: echo, bob: echo })
  const events: RuntimeEvent[] = []
  await team.start()
  team.events.subscribe((event) => void events.push(event))
  await team.removeAgent('bob')
  await team.clock.advance(1)
  t.match(events, [{ type: 'agent.status', agent: 'bob', status: 'stopped' }])
})

t.test('an agent may be removed before the team has started', async (t) => {
  const team = localTeam(t, { ann: echo, bob: echo })
  await team.removeAgent('bob')
  await team.start()
  t.same(Object.keys(team.health().agents), ['ann'])
})
