/** `team.reloadAgent` in virtual time: when the new code takes over, and what keeps the old. */
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import { ask, gate, localTeam, never, numbers, outcomeOf } from '../supervision/teams.ts'
import { type ChangingTeam, changingTeam, livesOf, roleOf } from './reloading.ts'

type Hooks = { start?(context: { state: object }): void | Promise<void>; stop?(): void | Promise<void> }

/** Says which version it is. 'wait' lasts until the gate opens, 'hang' for ever. */
function version(name: string, opened: Promise<void> = Promise.resolve(), more: Hooks = {}) {
  return defineAgent({
    initialState: { handled: 0 },
    async receive({ content }, context) {
      context.setState((state) => {
        state.handled += 1
      })
      if (content === 'wait') await opened
      if (content === 'hang') await never
      return `${name} ${context.state.handled}`
    },
    ...more,
  })
}

/** The same for an agent with several turns at once, or several threads. */
function stateless(name: string, opened: Promise<void> = Promise.resolve()) {
  return defineAgent({
    async receive({ content }) {
      if (content === 'wait') await opened
      if (content === 'hang') await never
      return name
    },
  })
}

/** Lets the reload go as far as it can. */
const settle = (team: ChangingTeam) => team.clock.advance(1)

t.test('the next message is for the new code, which has the state of the old', async (t) => {
  const team = changingTeam(t, { worker: version('one') })
  const lives = livesOf(team)
  t.equal(await ask(team, 'worker'), 'one 1')
  team.code.worker = version('two')
  t.equal(await ask(team, 'worker'), 'one 2', 'not before it is reloaded')
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'two 3')
  t.strictSame(lives, ['agent.reloaded worker'])
  t.match(team.getAgent('worker')?.getContextSummary(), /0 restarts/)
  t.equal(team.getAgentStatus('worker'), 'idle')
})

t.test('an open turn ends in the old code, and what comes meanwhile waits for the new', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(t, { worker: version('one', opened) })
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = version('two')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  const later = ask(team, 'worker')
  await settle(team)
  t.notOk(reload.settled)
  open()
  t.equal(await slow, 'one 1')
  t.equal(await later, 'two 2')
  t.ok(reload.settled)
})

t.test('an open turn may still be asked within itself, by whom it waits for', async (t) => {
  const { opened, open } = gate()
  const caller = (name: string) =>
    defineAgent({
      async receive({ content }, context) {
        if (content === 'inner') return `inner ${name}`
        return (await context.request('callee', 'ask back')).content
      },
    })
  const callee = defineAgent({
    async receive(_message, context) {
      await opened
      return (await context.request('caller', 'inner')).content
    },
  })
  const team = changingTeam(
    t,
    { caller: caller('one'), callee },
    { agents: [roleOf('caller', { reentrancy: 'chain' }), roleOf('callee')] },
  )
  await team.start()
  const asked = ask(team, 'caller', 'outer')
  await settle(team)
  team.code.caller = caller('two')
  const reload = team.reloadAgent('caller')
  await settle(team)
  open()
  t.equal(await asked, 'inner one')
  await reload
  t.equal(await ask(team, 'caller', 'inner'), 'inner two')
})

t.test('the new code starts before the old stops, with the state that the last turn has left', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const hooks = (name: string) =>
    version(name, opened, {
      start: ({ state }) => void told.push(`start ${name} ${(state as { handled: number }).handled}`),
      stop: () => void told.push(`stop ${name}`),
    })
  const team = changingTeam(t, { worker: hooks('one') })
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = hooks('two')
  const reload = team.reloadAgent('worker')
  await settle(team)
  t.strictSame(told, ['start one 0'])
  open()
  await Promise.all([slow, reload])
  t.strictSame(told, ['start one 0', 'start two 1', 'stop one'])
})

t.test('a stop hook that throws or hangs does not keep the new code away', async (t) => {
  const stop = () => {
    throw new Error('no')
  }
  const team = changingTeam(t, { worker: version('one', undefined, { stop }) })
  await team.start()
  team.code.worker = version('two', undefined, { stop: () => never })
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'two 1')
  team.code.worker = version('three')
  const reload = team.reloadAgent('worker')
  await team.clock.advance(60_000)
  await reload
  t.equal(await ask(team, 'worker'), 'three 2')
})

t.test('code that does not start leaves the old as it is', async (t) => {
  const team = changingTeam(
    t,
    { worker: version('one') },
    { agents: [roleOf('worker', { limits: { turnTimeoutMs: 500 } })] },
  )
  const lives = livesOf(team)
  await ask(team, 'worker')
  const start = () => {
    throw new Error('no network')
  }
  team.code.worker = version('two', undefined, { start })
  await t.rejects(team.reloadAgent('worker'), {
    code: 'START_FAILED',
    message: /Agent "worker" was not reloaded and keeps its old code: .*no network/,
    details: { agent: 'worker' },
  })
  t.equal(await ask(team, 'worker'), 'one 2')
  team.code.worker = version('two', undefined, { start: () => never })
  const reload = team.reloadAgent('worker')
  const late = t.rejects(reload, { code: 'START_FAILED', message: /did not end within 500 ms/ })
  await team.clock.advance(1_000)
  await late
  team.code.worker = { no: 'agent' } as unknown as AgentDefinition
  await t.rejects(team.reloadAgent('worker'), { code: 'CONFIGURATION', message: /is no agent/ })
  t.equal(await ask(team, 'worker'), 'one 3')
  t.strictSame(lives, [])
  t.match(team.getAgent('worker')?.getContextSummary(), /0 restarts/)
})

t.test('a turn that does not end in time keeps the old code, and is named', async (t) => {
  const team = changingTeam(t, { worker: stateless('one') }, { agents: [roleOf('worker', { concurrency: 2 })] })
  await team.start()
  await team.sendMessage({ recipient: 'worker', content: 'hang' })
  await settle(team)
  team.code.worker = stateless('two')
  const reload = outcomeOf(team.reloadAgent('worker', { timeoutMs: 2_000 }))
  const waiting = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(1_999)
  t.notOk(reload.settled)
  t.notOk(waiting.settled)
  await team.clock.advance(2)
  const [open] = [...team.cell('worker').mailbox.handed.values()]
  t.match(reload.error, { code: 'TURN_TIMEOUT', details: { agent: 'worker', timeoutMs: 2_000 } })
  t.match(
    reload.error?.message,
    `its turn on message ${String(reload.error?.details.messageId)} from "$user" did not end`,
  )
  t.ok(open, 'the turn goes on')
  t.equal(waiting.value, 'one', 'the old code goes on at once')
})

t.test('without a limit of its own a reload waits for five minutes', async (t) => {
  const limits = { turnTimeoutMs: false as const }
  const team = changingTeam(t, { worker: version('one') }, { agents: [roleOf('worker', { limits })] })
  await team.sendMessage({ recipient: 'worker', content: 'hang' })
  await settle(team)
  const reload = outcomeOf(team.reloadAgent('worker'))
  const patient = outcomeOf(team.reloadAgent('worker', { timeoutMs: false }))
  await team.clock.advance(299_000)
  t.notOk(reload.settled)
  await team.clock.advance(2_000)
  t.equal(reload.error?.code, 'TURN_TIMEOUT')
  await team.clock.advance(200_000)
  t.notOk(patient.settled, 'false: it waits as long as it takes')
})

t.test('its caller can withdraw it', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(t, { worker: version('one', opened) })
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = version('two')
  const caller = new AbortController()
  const reload = outcomeOf(team.reloadAgent('worker', { signal: caller.signal }))
  await settle(team)
  caller.abort(new Error('changed my mind'))
  await settle(team)
  t.match(reload.error, { code: 'CANCELLED', message: /keeps its old code: .*changed my mind/ })
  await t.rejects(team.reloadAgent('worker', { signal: caller.signal }), { code: 'CANCELLED' })
  open()
  await slow
  t.equal(await ask(team, 'worker'), 'one 2')
})

t.test('when the old code crashes meanwhile, the new takes over at once, whatever the backoff', async (t) => {
  const supervision = { backoff: { baseMs: 50_000, capMs: 50_000 } }
  const { opened } = gate()
  const team = changingTeam(t, { worker: version('one', opened) }, { supervision })
  const lives = livesOf(team)
  await team.start()
  team.crash('worker') // the next restart would have to wait
  await settle(team)
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = version('two')
  const reload = team.reloadAgent('worker')
  await settle(team)
  team.crash('worker')
  await settle(team)
  await reload
  t.equal(await slow, 'two 1', 'redelivered')
  t.strictSame(lives, ['agent.crashed worker', 'agent.crashed worker', 'agent.reloaded worker'])
  await team.clock.advance(60_000)
  t.equal(await ask(team, 'worker'), 'two 2')
  t.equal(team.cell('worker').epoch, 3, 'the restart that was due begins no other life')
})

t.test('an agent that waits for its restart begins with the new code at once', async (t) => {
  const supervision = { backoff: { baseMs: 50_000, capMs: 50_000 } }
  const team = changingTeam(t, { worker: version('one') }, { supervision })
  await team.start()
  team.crash('worker')
  await settle(team)
  team.crash('worker')
  await settle(team)
  t.equal(team.getAgentStatus('worker'), 'restarting')
  team.code.worker = version('two')
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'two 1')
})

t.test('a crash that stops the agent for good ends the reload', async (t) => {
  const { opened } = gate()
  const team = changingTeam(t, { worker: version('one', opened) }, { supervision: { maxRestarts: 0 } })
  await team.start()
  const slow = outcomeOf(ask(team, 'worker', 'wait'))
  await settle(team)
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  team.crash('worker')
  await settle(team)
  t.match(reload.error, { code: 'AGENT_TERMINATED', message: /was not reloaded: It died 1 times/ })
  t.equal(slow.error?.code, 'AGENT_TERMINATED')
  await t.rejects(team.reloadAgent('worker'), { code: 'AGENT_TERMINATED', message: /Use restartAgent/ })
})

t.test('a crash of the new code restarts the new code', async (t) => {
  const team = changingTeam(t, { worker: version('one') })
  await team.start()
  team.code.worker = version('two')
  await team.reloadAgent('worker')
  team.crash('worker')
  t.equal(await ask(team, 'worker'), 'two 1')
})

t.test('a group that is restarted meanwhile restarts with the new code', async (t) => {
  const { opened } = gate()
  const team = changingTeam(
    t,
    { worker: version('one', opened), other: version('other') },
    { supervision: { strategy: 'one_for_all' } },
  )
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = version('two')
  const reload = team.reloadAgent('worker')
  await settle(team)
  team.crash('other')
  await team.clock.advance(10_000)
  await reload
  t.equal(await slow, 'two 1')
  t.equal(team.getAgentStatus('worker'), 'idle')
})

t.test('a second reload waits for the first, then loads again', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(t, { worker: version('one', opened) })
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = version('two')
  const first = team.reloadAgent('worker')
  await settle(team)
  team.code.worker = version('three')
  const second = team.reloadAgent('worker')
  await settle(team)
  open()
  await slow
  await first
  await second
  t.equal(await ask(team, 'worker'), 'three 2')
  t.equal(team.cell('worker').epoch, 3)
})

t.test('all instances are reloaded, one after the other: the others work meanwhile', async (t) => {
  const { opened, open } = gate()
  const agents = [roleOf('worker', { instances: 3 })]
  const team = changingTeam(t, { worker: stateless('one', opened) }, { agents })
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  team.code.worker = stateless('two')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  t.notOk(reload.settled)
  t.match(await ask(team, 'worker'), /one|two/, 'somebody answers')
  open()
  t.equal(await slow, 'one')
  await settle(team)
  t.ok(reload.settled)
  t.strictSame(await Promise.all(numbers(9).map(() => ask(team, 'worker'))), Array(9).fill('two'))
})

t.test('an instance that cannot be reloaded is named, with those that were', async (t) => {
  let starts = 0
  const fragile = defineAgent({
    start() {
      starts += 1
      if (starts === 2) throw new Error('only one of us')
    },
    receive: () => 'two',
  })
  const team = changingTeam(
    t,
    { worker: defineAgent({ receive: () => 'one' }) },
    { agents: [roleOf('worker', { instances: 2 })] },
  )
  await team.start()
  team.code.worker = fragile
  await t.rejects(team.reloadAgent('worker'), {
    code: 'START_FAILED',
    message: /^Instance 1 of agent "worker" was not reloaded .*only one of us/,
    details: { agent: 'worker', instance: 1, reloaded: [0] },
  })
})

t.test('turns of several runs end before the new code begins; no permit is kept from others', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(
    t,
    { worker: stateless('one', opened), other: version('other') },
    {
      maxConcurrentAgents: 1,
      agents: [roleOf('worker', { concurrency: 4 }), roleOf('other')],
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => {
          const worker = script.request('worker', query)
          const other = await script.request('other', 'go')
          return `${(await worker).content}, ${other.content}`
        },
      },
    },
  )
  await team.start()
  const slow = numbers(2).map(() => team.execute('wait'))
  await settle(team)
  team.code.worker = stateless('two')
  const reload = team.reloadAgent('worker')
  await settle(team)
  const late = team.execute('go')
  await settle(team)
  open()
  for (const result of await Promise.all(slow)) t.match(result.finalOutput, /^one/)
  await reload
  t.match((await late).finalOutput, /^two/)
})

t.test('an agent that joins meanwhile is known to the new code', async (t) => {
  const { opened, open } = gate()
  const asks = defineAgent({
    start: () => opened,
    receive: async (_message, context) => (await context.request('late', 'go')).content,
  })
  const team = changingTeam(t, { worker: version('one') })
  await team.start()
  team.code.worker = asks
  const reload = team.reloadAgent('worker')
  await settle(team)
  team.code.late = version('late')
  await team.addAgent(roleOf('late'))
  open()
  await reload
  t.equal(await ask(team, 'worker'), 'late 1')
})

t.test('an agent that is removed, or a team that is closed, ends the reload', async (t) => {
  const setting = () => changingTeam(t, { worker: version('one'), other: version('other') })
  const ends: [string, (team: ChangingTeam) => Promise<void>][] = [
    ['AGENT_TERMINATED', (team) => team.removeAgent('worker')],
    ['TEAM_CLOSED', (team) => team.close()],
  ]
  for (const [code, end] of ends) {
    const team = setting()
    await team.sendMessage({ recipient: 'worker', content: 'hang' })
    await settle(team)
    const reload = outcomeOf(team.reloadAgent('worker'))
    await settle(team)
    const ended = end(team)
    await team.clock.advance(60_000)
    await ended
    t.equal(reload.error?.code, code)
  }
})

t.test('in a team that has not started there is nothing to reload', async (t) => {
  const team = changingTeam(t, { worker: version('one') })
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'one 1')
  t.equal(team.cell('worker').epoch, 1)
})

t.test('what cannot be reloaded is refused', async (t) => {
  const team = changingTeam(
    t,
    { worker: version('one') },
    { agents: [roleOf('worker'), { name: 'player' }], models: 'rehearsal' },
  )
  await t.rejects(team.reloadAgent('wroker'), { code: 'UNKNOWN_AGENT', message: /did you mean "worker"/ })
  await t.rejects(team.reloadAgent('$orchestrator'), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.reloadAgent('player'), { code: 'CONFIGURATION', message: /a model plays it/ })
  await t.rejects(team.reloadAgent('worker', { timeoutMs: 0 }), {
    code: 'CONFIGURATION',
    details: { path: 'timeoutMs' },
  })
  await t.rejects(team.reloadAgent('worker', { signal: 'now' as unknown as AbortSignal }), {
    code: 'CONFIGURATION',
    message: /signal: got "now"; accepted: an AbortSignal/,
  })
  await team.close()
  await t.rejects(team.reloadAgent('worker'), { code: 'TEAM_CLOSED' })
  const inline = localTeam(t, { worker: version('one') })
  await t.rejects(inline.reloadAgent('worker'), { code: 'CONFIGURATION', message: /given to the team as a value/ })
})
