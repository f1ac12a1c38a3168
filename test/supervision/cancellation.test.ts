/** What nobody wants any more is withdrawn, down the chain. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { EarlyAborts } from '../../src/actors/thread/replies.ts'
import { Channel } from '../../src/mailbox/channel.ts'
import { ASKS, REQUEST, turnOf } from '../../src/mailbox/frame.ts'
import type { Envelope } from '../../src/mailbox/mailbox.ts'
import { ORCHESTRATOR_INDEX } from '../../src/runtime/host/directory.ts'
import { HostFrames } from '../../src/runtime/log/host-frames.ts'
import { CancelledError, type DramatisError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { leftovers } from '../kit/accounts.ts'
import { BareSupervisor } from '../kit/bare-supervisor.ts'
import { ask, gate, given, never, openTeam, outcomeOf, type Receive } from '../kit/team.ts'
import { frameOf } from '../mailbox/frames.ts'

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
})

t.test('a chain whose last request waits for room, or stands in line behind others, is withdrawn there', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, { roles: { d: { communication: { mailboxCapacity: 1 } } } }).team({
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
})

t.test('a withdrawal follows the chain through an agent that is between two lives', async (t) => {
  const told: string[] = []
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, { supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } } }).team({
    caller,
    b: passesTo('c'),
    c: passesTo('d'),
    d: stops(told),
  })
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
})

t.test('a verb that the host is busy with for a turn between two lives ends with it', async (t) => {
  const { caller, withdraw } = withdraws('b', [])
  const team = given(t, {
    unfinished: true,
    enableBlackboard: true,
    supervision: { backoff: { baseMs: 5_000, capMs: 5_000 } },
    script: async (script) => {
      await script.request('caller', 'go')
      return never // the run goes on
    },
  }).team({ caller, b: async (_message, context) => void (await context.blackboard.waitFor('never')) })
  const run = team.launch('go')
  await team.clock.advance(10)
  for (let deaths = 0; deaths < 2; deaths++) {
    team.crash('b')
    await team.clock.advance(10)
  }
  t.equal(team.agent('b').calls.size, 1)
  withdraw()
  await team.clock.advance(0)
  t.equal(run.status, 'running')
  t.equal(team.agent('b').calls.size, 0)
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
})

t.test('a death takes along what its message, given up for good, had asked of others', async (t) => {
  const told: string[] = []
  const team = given(t, { supervision: { poisonAttempts: 1 } }).team({
    worker: passesTo('b'),
    b: passesTo('c'),
    c: stops(told),
  })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(10)
  team.crash('worker')
  await team.clock.advance(10)
  t.equal(asked.error?.code, 'AGENT_CRASHED')
  t.same(told, ['c: CANCELLED'])
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
  bare.threads.get('worker')!.wake()
  await bare.clock.advance(0)
  t.same(done, ['CANCELLED'])
  t.same(leftovers(bare.host), [])
})

// Aborts and their turns pass each other: one for a turn that is to begin counts, one for a turn that is over is
// forgotten.

const reason = new CancelledError('not wanted any more', {})

/** The aborts of a life whose window holds the messages of that many turns, from 1 on. */
function lifeWith(lane: 'plain' | 'ranked', turns: number) {
  const channel = new Channel()
  const aborts = new EarlyAborts(channel)
  const frames = new HostFrames(virtualClock())
  const envelopes = new Map<number, Pick<Envelope<unknown>, 'turn' | 'ring' | 'ringAt' | 'ringEnd'>>()
  for (let turn = 1; turn <= turns; turn++) {
    const { memory, bytes } = frameOf({ turn })
    const ringAt = channel[lane].reserve(bytes)
    channel[lane].copy(memory.u8, 0, bytes)
    envelopes.set(turn, { turn, ring: lane, ringAt: ringAt, ringEnd: channel[lane].written })
  }
  channel[lane].publish()
  /** As the thread takes the next message. */
  const take = () => {
    const at = channel[lane].peek()
    const turn = turnOf(channel[lane].memory, at)
    channel[lane].take(at)
    channel[lane].release()
    return turn
  }
  const abort = (turn: number) => {
    const { memory } = frames.abort(1, envelopes.get(turn) as Envelope<unknown>, reason)
    aborts.keep(turn, reason, memory, 0)
  }
  return { aborts, take, abort }
}

for (const lane of ['plain', 'ranked'] as const) {
  t.test(`an abort is kept for a turn that has not begun, and for no other (${lane})`, async (t) => {
    const { aborts, take, abort } = lifeWith(lane, 100)
    for (let turn = 1; turn <= 50; turn++) t.equal(take(), turn)
    for (let turn = 1; turn <= 100; turn++) abort(turn)
    t.equal(aborts.size, 50)
    t.equal(aborts.take(50), undefined)
    for (let turn = 51; turn <= 100; turn++) t.equal(aborts.take(turn), reason)
    t.equal(aborts.size, 0)
  })
}

t.test('one of a turn that ran within another one is never kept: it came behind its message', async (t) => {
  const { aborts } = lifeWith('plain', 0)
  const { memory } = new HostFrames(virtualClock()).abort(
    1,
    { turn: 1, ring: 'replies', ringAt: 0, ringEnd: 0x7fff_ffff } as Envelope<unknown>,
    reason,
  )
  aborts.keep(1, reason, memory, 0)
  t.equal(aborts.size, 0)
})

t.test('an abort that comes while its turn begins counts', async (t) => {
  const { aborts, take, abort } = lifeWith('plain', 1)
  aborts.beginning = take()
  abort(1)
  t.equal(aborts.take(1), reason)
})

for (const priority of [0, 1, -1]) {
  for (const length of [1, 20_000, 200_000]) {
    t.test(`a message of priority ${priority} with ${length} bytes withdrawn in the window never begins`, async (t) => {
      const { opened, open } = gate()
      const got: string[] = []
      const team = openTeam(t, {
        async asker(_message, context) {
          await context.send('worker', 'hold')
          await context.sleep(10)
          const withdrawal = new AbortController()
          const options = { priority, signal: withdrawal.signal }
          const asked = context.request('worker', 'x'.repeat(length), options).catch(({ code }) => code)
          await context.send('worker', 'behind', { priority })
          await context.sleep(10)
          withdrawal.abort()
          const code = await asked
          await context.sleep(10)
          open()
          return String(code)
        },
        async worker({ content }) {
          if (content === 'hold') await opened
          got.push(content.slice(0, 6))
        },
      })
      const run = team.execute('go')
      await team.clock.runToIdle()
      t.equal((await run).finalOutput, 'CANCELLED')
      t.same(got, ['hold', 'behind'])
    })
  }
}

// Chains of requests that are longer than a stack is deep: each turn waits for the next one.

const DEPTH = 5_000

/** Two agents that are at such a chain of turns; the first request is the script's. */
function deepChain() {
  const role = { communication: { mailboxCapacity: DEPTH, mailboxBytes: DEPTH * 1_000 } }
  const bare = new BareSupervisor({ ann: () => never, bob: () => never }, [], { roles: { ann: role, bob: role } })
  const { host, run } = bare
  const agents = [host.directory.agent('ann')!, host.directory.agent('bob')!]
  const script = host.directory.byIndex[ORCHESTRATOR_INDEX]!
  let [caller, turn] = [script, 0]
  for (let n = 1; n <= DEPTH; n++) {
    const callee = agents[n % 2]!
    const fields = { sender: caller.index, recipient: callee.index, run: run.index, turn, correlation: n }
    const { memory, bytes } = host.frames.make({ kind: REQUEST, ...fields, content: `${n}`, flags: ASKS })
    host.journal.appendOwned(run, memory, bytes)
    host.admission.message({ sender: caller, run, memory, at: 0 })
    const { envelope } = caller.open.get(n)!
    callee.mailbox.hand(envelope)
    caller = callee
    turn = envelope.turn
  }
  return { host, agents, script }
}

t.test('a chain that is withdrawn at its beginning is withdrawn to its end', async (t) => {
  const { host, agents, script } = deepChain()
  const turns = agents.flatMap(({ mailbox }) => [...mailbox.handed.values()])
  host.cancellation.cancel(script, 1, undefined)
  t.equal(turns.length, DEPTH)
  t.ok(turns.every(({ cancelled }) => cancelled))
  t.ok([script, ...agents].every(({ open }) => open.size === 0))
})
