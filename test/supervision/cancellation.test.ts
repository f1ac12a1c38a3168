/** Cancellation follows chains: what a withdrawn turn had asked of others is withdrawn too, wherever it is by then. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { imbalances, leftovers } from './accounts.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { ask, gate, never, openTeam, outcomeOf, type Receive } from './teams.ts'

/** Notes why its turn is told to stop. */
function stops(told: string[]): Receive {
  return async (_message, context) => {
    await context.sleep(100_000).catch(({ code }: DramatisError) => told.push(`${context.role.name}: ${code}`))
  }
}

/** Passes the request on to that agent. */
const passesTo =
  (next: string): Receive =>
  async ({ content }, context) =>
    (await context.request(next, content)).content

/** Asks, and withdraws it when the test says so. */
function withdraws(to: string, codes: string[]) {
  const withdrawal = new AbortController()
  const caller: Receive = async (_message, context) => {
    await context.request(to, 'go', { signal: withdrawal.signal }).catch(({ code }: DramatisError) => codes.push(code))
    return codes.join()
  }
  return { caller, withdraw: () => withdrawal.abort(new Error('not wanted any more')) }
}

t.test('a request that is withdrawn takes the whole chain behind it along', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(t, { caller, b: passesTo('c'), c: passesTo('d'), d: passesTo('e'), e: stops(told) })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  t.same(told, ['e: CANCELLED'])
  t.same(leftovers(team.host), [])
  t.same(imbalances(team.host), [])
})

t.test('a chain whose last request waits in a queue is taken out of it', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(t, {
    caller,
    b: passesTo('c'),
    c: passesTo('d'),
    async d({ content }) {
      told.push(content)
      await opened
    },
  })
  const held = ask(team, 'd', 'first')
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  open()
  await held
  await team.clock.advance(0)
  t.same(told, ['first'])
  t.same(leftovers(team.host), [])
})

t.test('a chain whose last request waits for room, or stands in line behind others, is withdrawn there', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(
    t,
    {
      caller,
      b: passesTo('c'),
      async c(_message, context) {
        const sends = ['1', '2', '3'].map((content) => context.send('d', content))
        const requests = ['4', '5'].map((content) => context.request('d', content))
        await Promise.all([...sends, ...requests])
      },
      async d({ content }) {
        told.push(content)
        await opened
      },
    },
    { roles: { d: { communication: { mailboxCapacity: 1 } } } },
  )
  const held = ask(team, 'd', 'first')
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  open()
  await held
  await team.clock.advance(0)
  t.same(told, ['first'])
  t.same(leftovers(team.host), [])
  t.same(imbalances(team.host), [])
})

t.test('a withdrawal follows the chain through an agent that is between two lives', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(
    t,
    { caller, b: passesTo('c'), c: passesTo('d'), d: stops(told) },
    { supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } } },
  )
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(10)
  team.crash('b')
  await team.clock.advance(10)
  team.crash('b')
  await team.clock.advance(10)
  t.equal(team.getAgentStatus('b'), 'restarting')
  withdraw()
  await team.clock.advance(0)
  t.equal(asked.value, 'CANCELLED')
  t.same(told, ['d: CANCELLED'])
  await team.clock.advance(10_000)
  t.same(leftovers(team.host), [])
})

t.test('a verb that the host is busy with for a turn between two lives ends with it', async (t) => {
  const { caller, withdraw } = withdraws('b', [])
  const team = openTeam(
    t,
    { caller, b: async (_message, context) => void (await context.blackboard.waitFor('never')) },
    {
      enableBlackboard: true,
      supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } },
      orchestration: {
        strategy: 'custom',
        run: async (script) => {
          await script.request('caller', 'go')
          return never // the run goes on
        },
      },
    },
  )
  const run = team.launch('go')
  await team.clock.advance(10)
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('b')
    await team.clock.advance(10)
  }
  t.equal(team.host.directory.cell('b')!.calls.size, 1)
  withdraw()
  await team.clock.advance(0)
  t.equal(run.status, 'running')
  t.equal(team.host.directory.cell('b')!.calls.size, 0)
})

t.test('what a redelivered turn does not ask for again is withdrawn when it ends', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async worker(_message, context) {
      if (context.attempt > 1) return 'another way'
      return (await context.request('b', 'go')).content
    },
    b: passesTo('c'),
    c: stops(told),
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  t.equal(asked.value, 'another way')
  t.same(told, ['c: CANCELLED'])
  t.same(leftovers(team.host), [])
})

t.test('a death takes along what its message, given up for good, had asked of others', async (t) => {
  const told: string[] = []
  const team = openTeam(
    t,
    { worker: passesTo('b'), b: passesTo('c'), c: stops(told) },
    { supervision: { poisonAttempts: 1 } },
  )
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  t.equal(asked.error?.code, 'AGENT_CRASHED')
  t.same(told, ['c: CANCELLED'])
  t.same(leftovers(team.host), [])
})

t.test('a timeout and the end of a run follow the chain like a withdrawal', async (t) => {
  const told: string[] = []
  const cast = {
    async caller(_message: unknown, context: AgentContext) {
      await context.request('b', 'go', { timeoutMs: 50 }).catch(({ code }: DramatisError) => told.push(code))
      await context.request('b', 'again').catch(() => {})
    },
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
  }
  const team = openTeam(t, cast)
  const run = team.launch('go')
  await team.clock.advance(60)
  t.same(told.sort(), ['REQUEST_TIMEOUT', 'd: CANCELLED'])
  await run.cancel('enough')
  await team.clock.advance(0)
  t.same(told.sort(), ['REQUEST_TIMEOUT', 'd: CANCELLED', 'd: RUN_ABORTED'])
  t.same(leftovers(team.host), [])
})

t.test('the losers of requestAny and requestQuorum take their chains along', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async caller({ content }, context) {
      if (content === 'any') await context.requestAny(['quick', 'b', 'e'], 'go')
      else await context.requestQuorum(['b', 'quick', 'other', 'e'], 2, 'go')
      return 'decided'
    },
    quick: () => 'quick',
    other: async (_message, context) => void (await context.sleep(5)),
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
    e: passesTo('f'),
    f: stops(told),
  })
  for (const content of ['any', 'quorum']) {
    const asked = outcomeOf(ask(team, 'caller', content))
    await team.clock.advance(10)
    t.equal(asked.value, 'decided')
  }
  // Of requestAny they may have been caught before they began.
  t.same(told.slice(-2).sort(), ['d: CANCELLED', 'f: CANCELLED'])
  t.same(leftovers(team.host), [])
})

t.test('who waits for a permit in a chain gives its place up', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', told)
  const cast = { caller, b: passesTo('c'), c: passesTo('d'), d: stops(told), other: () => 'in' }
  const bare = new BareSupervisor(cast, [], { maxConcurrentAgents: 1 })
  await bare.start()
  const asked = outcomeOf(bare.ask('caller'))
  await bare.clock.advance(10)
  withdraw()
  await bare.clock.advance(10)
  t.ok(asked.settled)
  t.equal(await bare.ask('other'), 'in')
  t.same(leftovers(bare.host), [])
})

for (const [size, length] of [
  ['small', 10],
  ['larger than a window, so that it waits for room in the outbox', 2_000_000],
] as const)
  t.test(`a request that is withdrawn in the same step reaches nobody: ${size}`, async (t) => {
    let heard = 0
    const team = openTeam(t, {
      async caller(_message, context) {
        for (let i = 0; i < 10; i++) {
          const withdrawal = new AbortController()
          const response = context.request('b', 'x'.repeat(length), { signal: withdrawal.signal })
          withdrawal.abort()
          await response.catch(() => {})
        }
        return (await context.request('b', 'last')).content
      },
      b({ content }) {
        heard += 1
        return content
      },
    })
    t.equal(await ask(team, 'caller'), 'last')
    t.equal(heard, 1)
    t.equal(team.deadLetters.list().length, 10)
    t.same(leftovers(team.host), [])
  })

t.test('a turn that is withdrawn and does not know it yet gets nothing done any more', async (t) => {
  const done: string[] = []
  const { caller, withdraw } = withdraws('worker', done)
  const bare = new BareSupervisor(
    {
      caller,
      async worker(_message, context) {
        await context.sleep(50) // a timer of its own: it learns of the withdrawal later
        await Promise.allSettled([context.request('b', 'go'), context.ask('And now?')])
      },
      b: () => void done.push('b works'),
    },
    [],
  )
  bare.host.calls.register([['ask', async () => void done.push('a person is asked')]])
  await bare.start()
  const asked = outcomeOf(bare.ask('caller'))
  await bare.clock.advance(10)
  bare.threads.get('worker')!.ailments.add('deaf')
  withdraw()
  await bare.clock.advance(100)
  t.ok(asked.settled)
  t.same(done, ['CANCELLED'])
  bare.threads.get('worker')!.ailments.delete('deaf')
  bare.threads.get('worker')!.ring()
  await bare.clock.advance(0)
  t.same(done, ['CANCELLED'])
  t.same(leftovers(bare.host), [])
})
