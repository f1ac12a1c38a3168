/** `team.reloadAgent` in virtual time: what keeps the old code, and what cannot be reloaded. */
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import type { Thread } from '../../src/runtime/threads/thread.ts'
import { ask, localTeam, never, outcomeOf } from '../kit/team.ts'
import {
  type ChangingTeam,
  changingTeam,
  incarnationsOf,
  roleOf,
  settle,
  stateless,
  teamAtWork,
  version,
} from './reloading.ts'

t.test('code that does not start leaves the old as it is', async (t) => {
  const team = changingTeam(
    t,
    { worker: version('one') },
    { agents: [roleOf('worker', { limits: { turnTimeoutMs: 500 } })] },
  )
  const lives = incarnationsOf(team)
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
  const [open] = [...team.agent('worker').mailbox.handed.values()]
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
  const { team, slow, open } = await teamAtWork(t)
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

t.test('a crash that stops the agent for good ends the reload', async (t) => {
  const { team, slow: asked } = await teamAtWork(t, { supervision: { maxRestarts: 0 } })
  const slow = outcomeOf(asked)
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  team.crash('worker')
  await settle(team)
  t.match(reload.error, { code: 'AGENT_TERMINATED', message: /was not reloaded: It died 1 times/ })
  t.equal(slow.error?.code, 'AGENT_TERMINATED')
  await t.rejects(team.reloadAgent('worker'), { code: 'AGENT_TERMINATED', message: /Use restartAgent/ })
})

t.test('when the new thread dies while the old code still works, the old code stays', async (t) => {
  const { team, slow, open } = await teamAtWork(t)
  const { provisioning } = team.host
  const make = provisioning.threadFor.bind(provisioning)
  let thread: Thread | undefined
  provisioning.threadFor = (agent) => {
    thread = make(agent)
    return thread
  }
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  thread!.terminate()
  await settle(team)
  t.match(reload.error, {
    code: 'START_FAILED',
    message: /keeps its old code: The new thread .* ended before it took over/,
  })
  open()
  t.equal(await slow, 'one 1')
  t.equal(await ask(team, 'worker'), 'one 2')
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
  t.equal(team.agent('worker').epoch, 1)
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
