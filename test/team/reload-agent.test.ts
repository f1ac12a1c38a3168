/** `team.reloadAgent` in virtual time: when the new code takes over, and with what. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import type { Thread } from '../../src/runtime/threads/thread.ts'
import { ask, gate, never, numbers, outcomeOf } from '../kit/team.ts'
import { changingTeam, incarnationsOf, roleOf, settle, stateless, teamAtWork, version } from './reloading.ts'

t.test('the next message is for the new code, which has the state of the old', async (t) => {
  const team = changingTeam(t, { worker: version('one') })
  const lives = incarnationsOf(team)
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
  const { team, slow, open } = await teamAtWork(t)
  team.code.worker = version('two')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  const later = ask(team, 'worker')
  await settle(team)
  t.notOk(reload.settled)
  open()
  t.equal(await slow, 'one 1')
  t.equal(await later, 'two 2')
  await settle(team) // the caller of the reload may hear of it after that answer
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

t.test('when the old code crashes meanwhile, the new takes over at once, whatever the backoff', async (t) => {
  const supervision = { backoff: { baseMs: 50_000, capMs: 50_000 } }
  const { opened } = gate()
  const team = changingTeam(t, { worker: version('one', opened) }, { supervision })
  const lives = incarnationsOf(team)
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
  t.equal(team.agent('worker').epoch, 3, 'the restart that was due begins no other life')
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

t.test('when the new thread dies while the old code stops, the new code begins again', async (t) => {
  const { opened, open } = gate()
  const team = changingTeam(t, { worker: version('one', undefined, { stop: () => opened }) })
  await team.start()
  const { provisioning } = team.host
  const threads: Thread[] = []
  const make = provisioning.threadFor.bind(provisioning)
  provisioning.threadFor = (agent) => {
    const thread = make(agent)
    threads.push(thread)
    return thread
  }
  team.code.worker = version('two')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  t.equal(threads.length, 1)
  threads[0]!.terminate()
  await settle(team)
  open()
  t.equal(await ask(team, 'worker'), 'two 1')
  t.ok(reload.settled)
  t.equal(reload.error, undefined)
  t.equal(threads.length, 2)
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
  const { team, slow } = await teamAtWork(t, { supervision: { strategy: 'one_for_all' } }, (opened) => ({
    worker: version('one', opened),
    other: version('other'),
  }))
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
  const { team, slow, open } = await teamAtWork(t)
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
  t.equal(team.agent('worker').epoch, 3)
})

t.test('all instances are reloaded, one after the other: the others work meanwhile', async (t) => {
  const agents = [roleOf('worker', { instances: 3 })]
  const { team, slow, open } = await teamAtWork(t, { agents }, (opened) => ({ worker: stateless('one', opened) }))
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

t.test('an agent that joins meanwhile is known to the new code', async (t) => {
  const { opened, open } = gate()
  const asks = defineAgent({
    start: () => opened,
    receive: async ({ content, sender }, context) =>
      content === 'who' ? sender : (await context.request('late', 'go')).content,
  })
  const team = changingTeam(t, { worker: version('one') })
  await team.start()
  team.code.worker = asks
  const reload = team.reloadAgent('worker')
  await settle(team)
  team.code.late = defineAgent({
    receive: async ({ content }, context) =>
      content === 'ask' ? (await context.request('worker', 'who')).content : 'here',
  })
  await team.addAgent(roleOf('late'))
  open()
  await reload
  t.equal(await ask(team, 'late', 'ask'), 'late')
  t.equal(await ask(team, 'worker'), 'here')
})

t.test('a group that is restarted while the old code stops leaves one life with the new code', async (t) => {
  const supervision = { strategy: 'one_for_all' as const }
  const stop = () => never
  const team = changingTeam(
    t,
    { worker: version('one', undefined, { stop }), other: version('other') },
    { supervision },
  )
  await team.start()
  team.code.worker = version('two')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await settle(team)
  team.crash('other')
  await team.clock.advance(60_000)
  t.ok(reload.settled)
  t.equal(team.getAgentStatus('worker'), 'idle')
  t.equal(await ask(team, 'worker'), 'two 1')
})
