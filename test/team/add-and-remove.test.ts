/** Agents that join a team, leave it, or begin again, also while runs are under way. */
import t from 'tap'
import { type AgentMessage, type AgentRole, defineAgent, type RuntimeEvent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { ask, type Cast, gate, given, localTeam, never, type OpenTeam, openTeam, outcomeOf } from '../kit/team.ts'

// Agents that join a team, also while runs are under way.

/** Says its name; 'ask x y' asks x for y. */
const friendly: Cast[string] = async ({ content, sender }, context) => {
  const [order, to = '', ...words] = content.split(' ')
  if (order === 'ask') return `${context.role.name} < ${(await context.request(to, words.join(' '))).content}`
  return `${context.role.name} heard ${content} from ${sender}`
}

t.test('an agent that is added answers, and is one of the team', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  await team.start()
  const role = { name: 'bob', description: 'the new one' }
  const bob = await team.addAgent(role)
  t.same([bob.name, bob.role, bob.status], ['bob', role, 'idle'])
  t.equal(await ask(team, 'bob', 'hi'), 'bob heard hi from $user')
  t.equal(team.getAgent('bob'), bob)
  t.same(pluck(team.listAgents(), 'name'), ['ann', 'bob'])
  t.equal(team.health().agents.bob?.status, 'idle')
  t.ok(team.health().ready)
  t.match(team.getMessageHistory(), [])
})

t.test('threads that run already reach it by name, and know who it is when it speaks', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  t.equal(await ask(team, 'ann', 'hi'), 'ann heard hi from $user')
  await team.addAgent({ name: 'bob' })
  t.equal(await ask(team, 'ann', 'ask bob hi'), 'ann < bob heard hi from ann')
  t.equal(await ask(team, 'bob', 'ask ann hi'), 'bob < ann heard hi from bob')
})

t.test('a turn that was under way when it came reaches it', async (t) => {
  const { opened, open } = gate()
  const team = given(t, { later: { bob: friendly } }).testTeam({
    async ann(_message, context) {
      await opened
      await context.sleep(1)
      return (await context.request('bob', 'hi')).content
    },
  })
  const answer = ask(team, 'ann')
  await team.clock.advance(1)
  await team.addAgent({ name: 'bob' })
  open()
  await team.clock.advance(5)
  t.equal(await answer, 'bob heard hi from ann')
})

t.test('a script that runs sees it, and so do the strategies that ask everybody', async (t) => {
  const { opened, open } = gate()
  const team = given(t, {
    later: { bob: friendly },
    script: async (script) => {
      const before = script.agents.length
      await opened
      const [, bob] = script.agents
      return `${before}, then ${bob?.name}: ${(await script.request(bob?.name ?? '', 'hi')).content}`
    },
  }).testTeam({ ann: friendly })
  const run = team.execute('go')
  await team.clock.advance(1)
  await team.addAgent({ name: 'bob' })
  open()
  t.equal((await run).finalOutput, '1, then bob: bob heard hi from $orchestrator')
  for (const orchestration of [{ strategy: 'sequential' }, { strategy: 'parallel' }] as const) {
    const other = localTeam(t, { ann: friendly }, { later: { bob: friendly }, orchestration })
    await other.addAgent({ name: 'bob' })
    t.same(Object.keys((await other.execute('go')).agentOutputs), ['ann', 'bob'])
  }
})

t.test('a broadcast reaches it', async (t) => {
  const heard: string[] = []
  const listens = defineAgent({
    receive: () => '',
    observe: ({ content }, { role }) => void heard.push(role.name + content),
  })
  const team = localTeam(t, { ann: listens }, { later: { bob: listens } })
  await team.addAgent({ name: 'bob' })
  await team.broadcast('!', '$user')
  await team.clock.advance(1)
  t.same(heard.sort(), ['ann!', 'bob!'])
})

t.test('a team that has not started yet starts it with the others', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const bob = await team.addAgent({ name: 'bob' })
  t.equal(bob.status, 'starting')
  await team.start()
  t.equal(bob.status, 'idle')
})

t.test('its messages wait for it while it starts', async (t) => {
  const { opened, open } = gate()
  const slow = defineAgent({ start: () => opened, receive: () => 'late, but here' })
  const team = localTeam(t, { ann: friendly }, { later: { bob: slow } })
  await team.start()
  const added = team.addAgent({ name: 'bob' })
  const answer = ask(team, 'bob')
  await team.clock.advance(1)
  open()
  t.equal(await answer, 'late, but here')
  t.equal((await added).status, 'idle')
})

t.test('a role that cannot be is refused as in the constructor', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const wrong: [object, string][] = [
    [{ name: 'ann' }, 'role.name'],
    [{ name: '$bob' }, 'role.name'],
    [{}, 'role.name'],
    [{ name: 'carl', module: 5 }, 'role.module'],
    [{ name: 'bob', modul: 'x' }, 'role.modul'],
    [{ name: 'bob', canDelegateTo: ['zoe'] }, 'role.canDelegateTo[0]'],
    [{ name: 'bob', tools: ['delgate'] }, 'role.tools'],
    [{ name: 'bob', communication: { retries: -1 } }, 'role.communication.retries'],
    [{ name: Symbol('bob') }, 'role.name'],
    [
      Object.defineProperty({}, 'name', {
        get() {
          throw new Error('boom')
        },
      }),
      'role',
    ],
  ]
  for (const [role, path] of wrong)
    await t.rejects(team.addAgent(role as AgentRole), { code: 'CONFIGURATION', details: { path } }, path)
  await t.rejects(team.addAgent(undefined as unknown as AgentRole), { code: 'CONFIGURATION' })
  t.equal(team.listAgents().length, 1)
  await team.close()
  await t.rejects(team.addAgent({ name: 'bob' }), { code: 'TEAM_CLOSED' })
})

t.test('it may name those who are there, and itself', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const bob = await team.addAgent({ name: 'bob', canDelegateTo: ['ann'], escalateTo: 'ann', sharedWith: ['bob'] })
  t.equal(bob.role.escalateTo, 'ann')
})

t.test("the team's defaults are its own too", async (t) => {
  const waits = defineAgent({ receive: (_message, context) => context.sleep(500) })
  const team = localTeam(t, { ann: friendly }, { later: { bob: waits }, communication: { responseTimeoutMs: 100 } })
  await team.addAgent({ name: 'bob' })
  const answer = t.rejects(ask(team, 'bob'), { code: 'REQUEST_TIMEOUT' })
  await team.clock.advance(200)
  await answer
})

t.test('one that cannot start is not in the team, and its name is free again', async (t) => {
  let broken = true
  const fragile = defineAgent({
    start() {
      if (broken) throw new Error('no network')
    },
    receive: () => 'fine',
  })
  const team = localTeam(t, { ann: friendly }, { later: { bob: fragile } })
  await team.start()
  await t.rejects(team.addAgent({ name: 'bob' }), { code: 'START_FAILED', message: /no network/ })
  t.equal(team.getAgent('bob'), undefined)
  t.ok(team.health().ready)
  broken = false
  await team.addAgent({ name: 'bob' })
  t.equal(await ask(team, 'bob'), 'fine')
})

t.test('two of one name at a time: the second is refused', async (t) => {
  const team = localTeam(t, { ann: friendly }, { later: { bob: friendly } })
  const first = team.addAgent({ name: 'bob' })
  await t.rejects(team.addAgent({ name: 'bob' }), {
    code: 'CONFIGURATION',
    message: /role\.name: got "bob", which an agent has already/,
  })
  t.equal((await first).name, 'bob')
})

t.test('rule 16: what was sent by name is not overtaken by what is sent when the name is known', async (t) => {
  const got: string[] = []
  const full = defineAgent({
    async receive({ content }, context) {
      await context.sleep(1)
      got.push(content)
    },
  })
  const team = given(t, { later: { bob: full } }).team({
    async ann(_message, context) {
      const sent: Promise<void>[] = []
      for (let n = 0; n < 3; n++) sent.push(context.send('bob', `${n}`))
      void team.addAgent({ name: 'bob', communication: { mailboxCapacity: 1 } }).then(() => {})
      await context.sleep(0)
      for (let n = 3; n < 9; n++) {
        sent.push(context.send('bob', `${n}`))
        await context.sleep(n % 2)
      }
      await Promise.allSettled(sent)
    },
  })
  const asked = ask(team, 'ann')
  await team.clock.runToIdle()
  await asked
  t.same(got, [...got].sort())
  t.ok(got.length >= 6)
})

t.test('a turn that had sent to it by name before its thread died does not send it twice', async (t) => {
  const got: AgentMessage[] = []
  const keeps = defineAgent({ receive: (message) => void got.push(message) })
  const { opened, open } = gate()
  const team = given(t, { later: { bob: keeps } }).team({
    async ann(_message, context) {
      if (context.attempt === 1) {
        void team.addAgent({ name: 'bob' }) // the thread does not know of it yet
        await context.send('bob', 'once')
        await opened
      }
      await context.send('bob', 'once')
      return 'done'
    },
  })
  const answer = ask(team, 'ann')
  await team.clock.advance(1)
  team.crash('ann')
  open()
  await team.clock.advance(1)
  t.equal(await answer, 'done')
  t.equal(got.length, 1)
})

// Agents that leave a team, also while runs are under way; and names that come again.

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

// Agents that were stopped for good, and begin again when somebody says so.

/** Dies until it may not be begun again. */
async function stopForGood(team: OpenTeam, agent: string) {
  while (team.getAgentStatus(agent) !== 'failed') {
    team.crash(agent)
    await team.clock.advance(1)
  }
}

const supervision = { maxRestarts: 0, coolDownMs: 1_000 }
const worker = defineAgent({ receive: ({ content }) => `did ${content}` })

t.test('rule 2: an agent that was stopped for good begins again when it is told to', async (t) => {
  const team = openTeam(t, { worker }, { supervision })
  await ask(team, 'worker')
  await stopForGood(team, 'worker')
  await t.rejects(ask(team, 'worker'), { code: 'AGENT_TERMINATED' })
  await team.restartAgent('worker')
  t.equal(team.getAgentStatus('worker'), 'idle')
  t.equal(await ask(team, 'worker', 'this'), 'did this')
})

t.test('rule 2: the cool-down of an earlier stop does not shorten that of a later one', async (t) => {
  const team = openTeam(t, { worker }, { supervision })
  await ask(team, 'worker')
  await stopForGood(team, 'worker')
  await team.restartAgent('worker')
  await team.clock.advance(600)
  await stopForGood(team, 'worker')
  await team.clock.advance(600)
  t.equal(team.getAgentStatus('worker'), 'failed')
  await team.clock.advance(600)
  t.equal(team.getAgentStatus('worker'), 'idle')
})

t.test('an agent that is not stopped is not restarted', async (t) => {
  const team = localTeam(t, { worker })
  await team.start()
  await t.rejects(team.restartAgent('worker'), {
    code: 'CONFIGURATION',
    message: /Agent "worker" is not stopped \(it is idle\)/,
    details: { agent: 'worker', got: 'idle' },
  })
})

t.test('nobody of that name', async (t) => {
  const team = localTeam(t, { worker })
  await t.rejects(team.restartAgent('wroker'), { code: 'UNKNOWN_AGENT', message: /did you mean "worker"/ })
  await t.rejects(team.restartAgent('$orchestrator'), { code: 'UNKNOWN_AGENT' })
  await team.close()
  await t.rejects(team.restartAgent('worker'), { code: 'TEAM_CLOSED' })
})

t.test('what keeps it from starting is told, and does not keep the team from starting once it is gone', async (t) => {
  let broken = true
  const fragile = defineAgent({
    start() {
      if (broken) throw new Error('no network')
    },
    receive: () => 'fine',
  })
  const team = localTeam(t, { worker, fragile })
  await t.rejects(team.start(), { code: 'START_FAILED' })
  await t.rejects(team.restartAgent('fragile'), { code: 'START_FAILED', message: /no network/ })
  broken = false
  await team.restartAgent('fragile')
  await team.start()
  t.equal(await ask(team, 'fragile'), 'fine')
})
