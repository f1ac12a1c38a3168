/** `team.reloadAgent` in virtual time: when the new code takes over, with what, and what keeps the old code. */
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import type { Thread } from '../../src/runtime/threads/thread.ts'
import { howMany } from '../how-many.ts'
import { ask, gate, localTeam, never, numbers, outcomeOf } from '../kit/team.ts'
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

// `team.reloadAgent` in virtual time: when the new code takes over, and with what.

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

// `team.reloadAgent` in virtual time: what keeps the old code, and what cannot be reloaded.

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

// `team.reloadAgent` where only some agents of a run may work at a time: permits are for agents that can use them.

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

for (const concurrency of [1, 4])
  t.test(
    `a permit that becomes free is not kept while no message may begin (concurrency ${concurrency})`,
    async (t) => {
      const worker = gate()
      const other = gate()
      const answers: string[] = []
      const start = () => worker.opened // one turn at a time: the agent is idle, and its new code takes long to start
      const code = { worker: stateless('worker', worker.opened), other: stateless('other', other.opened) }
      const team = changingTeam(
        t,
        { ...code, third: stateless('third') },
        {
          maxConcurrentAgents: 1,
          agents: [roleOf('worker', { concurrency }), roleOf('other'), roleOf('third')],
          orchestration: {
            strategy: 'custom',
            async run(script, query) {
              if (query === 'alone') return (await script.request('worker', 'wait')).content
              const all = ['other', 'worker', 'third'].map(async (name) => {
                answers.push((await script.request(name, name === 'other' ? 'wait' : 'go')).content)
              })
              await Promise.all(all)
              return ''
            },
          },
        },
      )
      await team.start()
      const runs = concurrency > 1 ? [team.execute('alone')] : []
      await settle(team)
      runs.push(team.execute('together'))
      await settle(team)
      team.code.worker = defineAgent({ start, receive: () => 'worker' })
      const reload = outcomeOf(team.reloadAgent('worker'))
      await settle(team)
      other.open()
      await settle(team)
      t.strictSame(answers, ['other', 'third'])
      t.notOk(reload.settled)
      worker.open()
      for (const result of await Promise.all(runs)) t.match(result, { success: true })
    },
  )

// Messages to an agent that is reloaded, and dies, at random: each is handled once, and in order.

const MESSAGES = 60
const SEEDS = howMany(8, 500)

/** Notes what it handles on its state, in turns of different lengths, with a verb that a repeated turn must not repeat. */
const reloadOrderVersion = (name: string) =>
  defineAgent({
    initialState: { handled: [] as string[], by: [] as string[] },
    async receive({ content }, context) {
      if (content === 'list') return { structuredData: context.state }
      if (Number(content) % 3 === 0) await context.sleep(Number(content) % 7)
      if (Number(content) % 5 === 0) await context.request('other', content)
      context.setState(({ handled, by }) => {
        handled.push(content)
        by.push(name)
      })
      return ''
    },
  })

const other = defineAgent({
  async receive({ content }, context) {
    await context.sleep(Number(content) % 4)
    return content
  },
})

for (let seed = 1; seed <= SEEDS; seed++)
  t.test(`seed ${seed}`, async (t) => {
    const supervision = { maxRestarts: 1_000, poisonAttempts: 1_000, backoff: { baseMs: 2, capMs: 20 } }
    const agents = [roleOf('worker', { supervision }), roleOf('other')]
    const team = changingTeam(t, { worker: reloadOrderVersion('0'), other }, { agents }, seed)
    await team.start()
    const { clock } = team
    const reloads: Promise<void>[] = []
    const sent: Promise<unknown>[] = []
    let loaded = 0
    for (const content of numbers(MESSAGES)) {
      sent.push(team.sendMessage({ recipient: 'worker', content }))
      const dice = clock.random()
      if (dice < 0.1) {
        loaded += 1
        team.code.worker = reloadOrderVersion(`${loaded}`)
        reloads.push(team.reloadAgent('worker'))
      } else if (dice > 0.95) team.crash('worker')
      if (clock.random() < 0.7) await clock.advance(Math.floor(clock.random() * 5))
    }
    await clock.advance(5_000)
    await Promise.all([...sent, ...reloads])
    const list = await team.sendMessage({ recipient: 'worker', content: 'list', requiresResponse: true })
    const { handled, by } = list!.structuredData as { handled: string[]; by: string[] }
    t.strictSame(handled, numbers(MESSAGES))
    t.strictSame(
      by.map(Number),
      by.map(Number).toSorted((a, b) => a - b),
      'no old code after new code',
    )
    t.equal(team.deadLetters.list().length, 0)
    t.equal(team.getAgentStatus('worker'), 'idle')
  })
