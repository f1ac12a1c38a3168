/** What takes too long, and what does not count: the time that models and people take. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import { type AgentDefinition, defineAgent } from '../../src/actors/definition/definition.ts'
import { defineTool } from '../../src/actors/definition/tool.ts'
import type { AgentContext, RuntimeEvent } from '../../src/index.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { MultiAgentPattern, type MultiAgentPatternOptions } from '../../src/team.ts'
import { scriptedModel } from '../../src/testing.ts'
import { block, comesWhileBusy } from '../busy.ts'
import {
  ask,
  beBusy,
  type Extras,
  gate,
  given,
  never,
  numbers,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
  silent,
} from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'

// What takes too long.

const sleeps: Receive = async (message, context) => {
  await context.sleep(Number(message.content))
  return `slept ${message.content}`
}

t.test('responseTimeoutMs counts from the start of the turn, not from the sending', async (t) => {
  const team = openTeam(t, { worker: sleeps }, { communication: { responseTimeoutMs: 100 } })
  void team.sendMessage({ recipient: 'worker', content: '500' })
  await team.clock.advance(0)
  const intime = outcomeOf(ask(team, 'worker', '99'))
  const late = outcomeOf(ask(team, 'worker', '1000'))
  await team.clock.advance(598)
  t.notOk(intime.settled)
  await team.clock.advance(1)
  t.equal(intime.value, 'slept 99')
  await team.clock.advance(99)
  t.notOk(late.settled)
  await team.clock.advance(1)
  t.match(late.error, {
    code: 'REQUEST_TIMEOUT',
    message:
      /^Agent "worker" did not answer within 100 ms of the start of its turn\. Raise timeoutMs \(communication\.responseTimeoutMs\), or/,
    details: { agent: 'worker', waitedMs: 100 },
  })
})

t.test('an answer that was written in time counts, though the host was busy until its time was up', async (t) => {
  const team = openTeam(t, { worker: sleeps }, { communication: { responseTimeoutMs: 100 } })
  const asked = outcomeOf(ask(team, 'worker', '50'))
  await team.clock.advance(10)
  beBusy(team)
  await team.clock.advance(89)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.equal(asked.value, 'slept 50')
})

t.test('a cancelled turn that has ended does not cost its thread, though the host was busy since', async (t) => {
  const held = gate()
  const supervision = { stopGraceMs: 50 }
  const team = openTeam(t, { worker: () => held.opened }, { communication: { responseTimeoutMs: 20 }, supervision })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(30)
  t.match(asked.error, { code: 'REQUEST_TIMEOUT' })
  beBusy(team)
  held.open()
  await team.clock.advance(100)
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test('a request has its own timeoutMs, and the turn that is late is told', async (t) => {
  const told: unknown[] = []
  const team = openTeam(t, {
    async caller(_message, context) {
      const error = await context.request('worker', 'go', { timeoutMs: 20 }).catch((e) => e)
      return `${error.code} at ${context.now()}: ${error.message}`
    },
    async worker(_message, context) {
      await context.sleep(1_000).catch(() => told.push(context.signal.reason))
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(20)
  t.match(await asked, /^REQUEST_TIMEOUT at 20: .* Raise timeoutMs \(it was asked with that\)/)
  t.match(told, [{ code: 'REQUEST_TIMEOUT' }])
})

t.test('turnTimeoutMs ends a turn, whether somebody waits for it or not', async (t) => {
  const told: string[] = []
  const worker: Receive = async (_message, context) => {
    await context.sleep(10_000).catch((error) => told.push(error.code))
    return 'ignored'
  }
  const team = openTeam(t, { worker }, { roles: { worker: { limits: { turnTimeoutMs: 300 } } } })
  const asked = outcomeOf(ask(team, 'worker'))
  await team.clock.advance(300)
  t.match(asked.error, { code: 'TURN_TIMEOUT', details: { agent: 'worker', turnTimeoutMs: 300 } })
  await team.sendMessage({ recipient: 'worker', content: 'note' })
  await team.clock.advance(300)
  t.match(team.deadLetters.list(), [
    { reason: 'cancelled', message: { content: 'note' }, errors: [{ code: 'TURN_TIMEOUT' }] },
  ])
  t.same(told, ['TURN_TIMEOUT', 'TURN_TIMEOUT'])
})

t.test('turnTimeoutMs false lets a turn take its time', async (t) => {
  const team = given(t, {
    roles: { worker: { limits: { turnTimeoutMs: false } } },
    communication: { responseTimeoutMs: 2 ** 31 - 1 },
    globalTimeoutMs: 2 ** 31 - 1,
  }).team({ worker: sleeps })
  t.equal(await team.within(3_600_000, ask(team, 'worker', '3600000')), 'slept 3600000')
})

// ---- each limit, whatever its agent is at: what comes of a request that takes 1,000 ms, and when

const LIMITS = {
  'no limit': {},
  responseTimeoutMs: { communication: { responseTimeoutMs: 100 } },
  turnTimeoutMs: { limits: { turnTimeoutMs: 100 } },
  queueTimeoutMs: { communication: { queueTimeoutMs: 100 } },
} satisfies Record<string, Extras['roles'] extends Readonly<Record<string, infer Role>> | undefined ? Role : never>

const DIES: readonly number[] = []
interface Situation {
  /** What it is at when the request comes, in ms. */
  busyMs?: number
  /** The model takes the time, and not its code. */
  thinks?: boolean
  /** When its thread dies. After a second death it is kept down for 300 ms. */
  diesAt?: readonly number[]
  /** For each limit, in that order: when the request is settled. Its own deadline has come where a code stands. */
  ends: readonly [none: string, response: string, turn: string, queue: string]
}

const SITUATIONS: Record<string, Situation> = {
  'is idle': { ends: ['1000', '100 REQUEST_TIMEOUT', '100 TURN_TIMEOUT', '1000'] },
  'is busy for 60 ms': { busyMs: 60, ends: ['1060', '160 REQUEST_TIMEOUT', '160 TURN_TIMEOUT', '1060'] },
  'is busy for 99 ms': { busyMs: 99, ends: ['1099', '199 REQUEST_TIMEOUT', '199 TURN_TIMEOUT', '1099'] },
  'is busy for 200 ms': {
    busyMs: 200,
    ends: ['1200', '300 REQUEST_TIMEOUT', '200 TURN_TIMEOUT', '100 MESSAGE_EXPIRED'],
  },
  'waits for its model': { thinks: true, ends: ['1000', '1000', '1000', '1000'] },
  'waits for its model when it is free': { busyMs: 60, thinks: true, ends: ['1060', '1060', '1060', '1060'] },
  'dies at 60': { diesAt: [60], ends: ['1060', '100 REQUEST_TIMEOUT', '160 TURN_TIMEOUT', '1060'] },
  'dies at 60 and at 80': { diesAt: [60, 80], ends: ['1380', '100 REQUEST_TIMEOUT', '480 TURN_TIMEOUT', '1380'] },
  'dies before its turn begins': {
    busyMs: 60,
    diesAt: [30],
    ends: ['1060', '160 REQUEST_TIMEOUT', '160 TURN_TIMEOUT', '1060'],
  },
  'is kept down before its turn begins': {
    busyMs: 60,
    diesAt: [20, 30],
    ends: ['1330', '430 REQUEST_TIMEOUT', '430 TURN_TIMEOUT', '100 MESSAGE_EXPIRED'],
  },
}

for (const [situation, { busyMs = 0, thinks, diesAt = DIES, ends }] of Object.entries(SITUATIONS))
  for (const [i, [name, role]] of Object.entries(LIMITS).entries())
    t.test(`rule 8: ${name} of an agent that ${situation}: ${ends[i]}`, async (t) => {
      const model = new FakeModel(async ({ clock }) => {
        await clock!.sleep(1_000)
        return 'thought'
      })
      const team = given(t, {
        roles: { worker: role },
        models: { default: model },
        supervision: { backoff: { baseMs: 600, capMs: 600 }, stopGraceMs: 10_000 },
      }).team({
        async worker({ content }, context) {
          if (content === 'busy') return context.sleep(busyMs)
          if (thinks) await context.complete({ prompt: 'go' })
          else await team.clock.sleep(1_000)
          return 'done'
        },
      })
      Object.assign(team.clock, { random: () => 0 }) // half of the backoff
      await team.start()
      const began = team.clock.monotonic()
      const now = () => team.clock.monotonic() - began
      if (busyMs > 0) void team.sendMessage({ recipient: 'worker', content: 'busy' })
      await team.clock.advance(0)
      const settled: string[] = []
      void ask(team, 'worker').then(
        () => settled.push(`${now()}`),
        ({ code }) => settled.push(`${now()} ${code}`),
      )
      for (let ms = 0; ms < 2_000; ms += 1) {
        if (diesAt.includes(ms)) team.crash('worker')
        await team.clock.advance(1)
      }
      t.same(settled, [ends[i]])
      await team.clock.runToIdle()
    })

t.test('rule 8: a message that waits longer than queueTimeoutMs expires, and its sender is told', async (t) => {
  const handled: string[] = []
  const team = given(t, { roles: { worker: { communication: { queueTimeoutMs: 100 } } } }).team({
    async caller(_message, context) {
      await context.send('worker', 'first')
      const asked = context.request('worker', 'second')
      await context.send('worker', 'third')
      const { code, details } = await asked.catch((error) => error)
      return JSON.stringify([code, details, context.now()])
    },
    async worker(message, context) {
      handled.push(message.content)
      await context.sleep(1_000)
    },
  })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(99)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.equal(asked.value, '["MESSAGE_EXPIRED",{"agent":"worker","queueTimeoutMs":100,"tried":1},100]')
  t.match(
    team.deadLetters.list().map(({ reason, message, errors }) => `${message.content} ${reason} ${errors[0]?.code}`),
    ['second expired MESSAGE_EXPIRED', 'third expired MESSAGE_EXPIRED'],
  )
  await team.clock.advance(10_000)
  t.same(handled, ['first'])
})

t.test('rule 8: behind a quick agent, too, what waits expires: nothing is handed over before its turn', async (t) => {
  const handled: string[] = []
  const { opened, open } = gate()
  const team = given(t, { communication: { queueTimeoutMs: 100 } }).team({
    async sender(_message, context) {
      for (const content of numbers(20)) await context.request('worker', content) // it is known to be quick
      for (const content of ['hold', 'late']) await context.send('worker', content)
    },
    async worker({ content }) {
      if (content === 'hold') await opened
      else handled.push(content)
    },
  })
  await ask(team, 'sender')
  await team.clock.advance(200)
  open()
  await team.clock.advance(1)
  t.same(handled, numbers(20))
  t.match(team.deadLetters.list(), [{ reason: 'expired', message: { content: 'late' } }])
})

t.test('rule 8: messages expire in the order of their own deadlines, whatever their priority', async (t) => {
  const team = openTeam(t, { worker: () => never }, { unfinished: true, communication: { queueTimeoutMs: 100 } })
  await team.sendMessage({ recipient: 'worker', content: 'first' })
  await team.clock.advance(0)
  const expired: string[] = []
  for (const priority of [0, -1, 5, 0]) {
    void ask(team, 'worker', 'x', { priority }).catch(({ code }) =>
      expired.push(`${priority} ${code} at ${team.clock.monotonic()}`),
    )
    await team.clock.advance(10)
  }
  await team.clock.advance(1_000)
  t.same(expired, [
    '0 MESSAGE_EXPIRED at 100',
    '-1 MESSAGE_EXPIRED at 110',
    '5 MESSAGE_EXPIRED at 120',
    '0 MESSAGE_EXPIRED at 130',
  ])
})

t.test('rule 8: a message that waits for room expires by its own deadline, and who waits is told', async (t) => {
  const handled: string[] = []
  const team = given(t, { roles: { worker: { communication: { queueTimeoutMs: 100, mailboxCapacity: 1 } } } }).team({
    async sender({ content }, context) {
      const verb = content === 'ask' ? 'request' : 'send'
      return context[verb]('worker', content).then(
        () => 'done',
        (error) => `${error.code} at ${context.now()}`,
      )
    },
    async worker(message, context) {
      handled.push(message.content)
      await context.sleep(1_000)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  await team.clock.advance(0)
  const waits: ReturnType<typeof outcomeOf<unknown>>[] = []
  for (const start of [
    () => ask(team, 'sender', 'ask'),
    () => ask(team, 'sender', 'send'),
    () => team.sendMessage({ recipient: 'worker', content: 'host' }),
  ]) {
    waits.push(outcomeOf<unknown>(start()))
    await team.clock.advance(10)
  }
  t.match(team.health().agents.worker, { queued: 2, inFlight: 1 }, 'its sender has one turn at a time')
  await team.clock.advance(900)
  t.match(waits, [
    { value: 'MESSAGE_EXPIRED at 100' },
    { value: 'MESSAGE_EXPIRED at 200' },
    { error: { code: 'MESSAGE_EXPIRED' } },
  ])
  t.same(
    team.deadLetters.list().map(({ reason, message, at }) => `${reason} ${message.content} ${at}`),
    ['expired ask 100', 'expired host 120', 'expired send 200'],
  )
  await team.clock.advance(10_000)
  t.same(handled, ['busy'])
})

t.test('rule 8: a message that was let in late has no more time than others', async (t) => {
  const team = given(t, {
    unfinished: true,
    roles: { worker: { communication: { queueTimeoutMs: 100, mailboxCapacity: 2 } } },
  }).team({
    worker: () => never,
    caller: (_message, context) => context.request('worker', 'asked').then(() => ''),
  })
  for (const content of ['busy', 'waits']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(60)
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(40)
  t.match(team.health().agents.worker, { queued: 1, inFlight: 1 }, 'the one has expired, and made room for the other')
  t.equal(team.agent('worker').mailbox.pending.length, 0)
  await team.clock.advance(59)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.match(asked.error?.details, { cause: { code: 'MESSAGE_EXPIRED' } })
})

t.test('rule 8: a request that waits for room is asked again in its place, and then expires', async (t) => {
  const team = given(t, {
    unfinished: true,
    roles: { worker: { communication: { queueTimeoutMs: 100, mailboxCapacity: 1 } } },
  }).team({
    worker: () => never,
    caller: (_message, context) =>
      context.request('worker', 'asked', { retries: 1 }).catch(({ details }) => JSON.stringify(details)),
  })
  await team.sendMessage({ recipient: 'worker', content: 'busy' })
  const asked = outcomeOf(ask(team, 'caller'))
  await team.clock.advance(199)
  t.notOk(asked.settled)
  await team.clock.advance(1)
  t.equal(asked.value, '{"agent":"worker","queueTimeoutMs":100,"tried":2}')
})

t.test('rule 8: messages expire while their agent is between two lives, and none after its time', async (t) => {
  const handled: string[] = []
  const team = given(t, {
    communication: { queueTimeoutMs: 100 },
    supervision: { backoff: { baseMs: 300, capMs: 300 } },
  }).team({ worker: (message) => void handled.push(message.content) })
  await team.start()
  for (let i = 0; i < 2; i++) {
    await team.dies('worker')
  }
  await team.sendMessage({ recipient: 'worker', content: 'early' })
  await team.clock.advance(100)
  t.match(team.deadLetters.list(), [{ reason: 'expired', at: 100, message: { content: 'early' } }])
  t.equal(team.getAgentStatus('worker'), 'restarting')
  await team.clock.advance(100)
  await team.sendMessage({ recipient: 'worker', content: 'late' })
  await team.clock.advance(99)
  t.same(handled, ['late'])
})

t.test('a cancellation follows the chain of requests', async (t) => {
  const told: string[] = []
  const passesOn = (to: string): Receive => {
    return async (_message, context) => {
      const asked = context.request(to, 'go').catch((error) => error.code)
      told.push(`${context.role.name} ${await asked}`)
    }
  }
  const team = openTeam(t, {
    a: passesOn('b'),
    b: passesOn('c'),
    c: passesOn('d'),
    async d(_message, context) {
      await context.sleep(1_000_000).catch(({ code }) => told.push(`d ${code}`))
    },
  })
  const gone = new AbortController()
  const run = team.execute('go', { signal: gone.signal })
  await team.clock.advance(5)
  gone.abort()
  t.match((await run).error, { code: 'RUN_ABORTED' })
  await team.clock.advance(0)
  t.same(told.sort(), ['a RUN_ABORTED', 'b RUN_ABORTED', 'c RUN_ABORTED', 'd RUN_ABORTED'])
  t.equal(team.clock.monotonic(), 5)
})

t.test('a cancellation follows the chain from the middle, and only down', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async a(_message, context) {
      const gone = new AbortController()
      const asked = context.request('b', 'go', { signal: gone.signal })
      await context.sleep(5)
      gone.abort('enough')
      return await asked.then(
        () => 'answered',
        (error) => `a ${error.code}`,
      )
    },
    async b(_message, context) {
      await context.request('c', 'go').catch(({ code }) => told.push(`b ${code}`))
    },
    async c(_message, context) {
      await context.sleep(1_000_000).catch(({ code }) => told.push(`c ${code}`))
    },
  })
  t.equal(await team.within(5, ask(team, 'a')), 'a CANCELLED')
  t.same(told.sort(), ['b CANCELLED', 'c CANCELLED'])
})

t.test('a cancellation overtakes its request: what has not begun never begins', async (t) => {
  const handled: string[] = []
  const team = openTeam(t, {
    async caller(_message, context) {
      const gone = new AbortController()
      const asked = ['1', '2', '3'].map((content) =>
        context.request('worker', content, { signal: gone.signal }).catch(({ code }) => code),
      )
      if (_message.content === 'later') await context.sleep(5)
      gone.abort()
      return (await Promise.all(asked)).join(' ')
    },
    async worker(message, context) {
      handled.push(message.content)
      await context.sleep(10)
    },
  })
  t.equal(await ask(team, 'caller', 'at once'), 'CANCELLED CANCELLED CANCELLED')
  await team.clock.advance(0)
  t.same(handled, [])
  t.equal(await team.within(100, ask(team, 'caller', 'later')), 'CANCELLED CANCELLED CANCELLED')
  t.same(handled, ['1'])
})

t.test('the losers of requestAny are cancelled', async (t) => {
  const told: string[] = []
  const team = openTeam(t, {
    async caller(_message, context) {
      return (await context.requestAny(['slow', 'fast', 'slower'], '50')).content
    },
    fast: sleeps,
    slow: (message, context) => sleeps({ ...message, content: '500' }, context),
    async slower(_message, context) {
      await context.sleep(5_000).catch(({ code }) => told.push(`${code} at ${context.role.name}`))
    },
  })
  t.equal(await team.within(50, ask(team, 'caller')), 'slept 50')
  t.same(told, ['CANCELLED at slower'])
})

t.test('a run that takes longer than its limit fails, and all that it had under way is told', async (t) => {
  const told: string[] = []
  const worker: Receive = async (_message, context) => {
    await context.sleep(10_000).catch(({ code }) => told.push(code))
  }
  const team = openTeam(t, { worker }, { globalTimeoutMs: 700 })
  const run = outcomeOf(team.execute('go'))
  const short = outcomeOf(team.execute('go', { timeoutMs: 100 }))
  await team.clock.advance(100)
  t.match(short.value?.error, { code: 'RUN_TIMEOUT', details: { timeoutMs: 100 } })
  await team.clock.advance(600)
  t.match(run.value?.error, { code: 'RUN_TIMEOUT', details: { timeoutMs: 700 } })
  t.same(told, ['RUN_TIMEOUT'])
  t.match(
    team.deadLetters.list().map(({ reason, message }) => `${message.recipient} ${reason}`),
    ['worker cancelled'],
  )
})

t.test('a turn that was told to stop can tell and ask nobody any more', async (t) => {
  const refused: string[] = []
  const team = given(t, { enableBlackboard: true }).team({
    async worker(_message, context) {
      await context.sleep(1_000).catch(() => {})
      const verbs = {
        send: () => context.send('other', 'x'),
        request: () => context.request('other', 'x'),
        publish: () => context.publish('key', 1, 'fact'),
        step: () => context.step('step', () => 1),
        sleep: () => context.sleep(1),
      }
      for (const [name, verb] of Object.entries(verbs))
        await verb().catch(({ code }) => refused.push(`${name} ${code}`))
      const [outcome] = await context.requestAll(['other'], 'x')
      refused.push(`requestAll ${outcome!.ok}`)
    },
    other: () => void refused.push('other was told'),
  })
  const gone = new AbortController()
  const run = team.execute('go', { signal: gone.signal })
  await team.clock.advance(1)
  gone.abort()
  await run
  await team.clock.advance(0)
  t.same(
    refused,
    ['send', 'request', 'publish', 'step', 'sleep'].map((verb) => `${verb} RUN_ABORTED`).concat('requestAll false'),
  )
})

t.test('a verb after the end of its turn is refused, and nothing comes of it', async (t) => {
  const outcomes: string[] = []
  const heard: string[] = []
  const team = openTeam(t, {
    worker(_message, context) {
      setImmediate(() => {
        for (const verb of ['request', 'send', 'step', 'sleep', 'publish'] as const)
          Promise.resolve()
            .then(() => (context[verb] as (...rest: unknown[]) => Promise<unknown>)('log', 'late', 'x'))
            .catch(({ code }) => outcomes.push(`${verb} ${code}`))
      })
    },
    log: (message) => void heard.push(message.content),
  })
  await ask(team, 'worker')
  await team.clock.advance(0)
  await team.clock.advance(0)
  t.same(
    outcomes.sort(),
    ['publish', 'request', 'send', 'sleep', 'step'].map((verb) => `${verb} TURN_ENDED`),
  )
  t.same(heard, [])
})

// * A host that was busy until a time was up: what was done in time counts. On the virtual clock the host does not
// hear its threads; on the real one it is kept busy, so that its timers come before what has come meanwhile.

const sleepsFor50: Receive = async (_message, context) => {
  await context.sleep(50)
  return 'slept'
}

/** Begins a run, and has the host be busy from its 10th ms to its 100th. */
async function whileBusy<T>(team: ReturnType<typeof openTeam>, begin: () => Promise<T>) {
  const result = outcomeOf(begin())
  await team.clock.advance(10)
  beBusy(team)
  await team.clock.advance(90)
  return result
}

t.test('a run whose time is up has the answers that came in time', async (t) => {
  const team = openTeam(t, { worker: sleepsFor50 })
  const result = await whileBusy(team, () => team.launch('go', { timeoutMs: 100 }).result)
  t.match(result.value, { error: { code: 'RUN_TIMEOUT' } })
  t.ok(result.value?.messageHistory.some(({ content }) => content === 'slept'))
})

t.test('a turn whose time is up still has the answer that came in time, in the look that ends it', async (t) => {
  const heard: string[] = []
  const asker: Receive = async (_message, context) => {
    heard.push((await context.request('worker', 'go')).content)
    await context.sleep(1_000).catch(({ code }) => heard.push(code))
  }
  const team = openTeam(t, { asker, worker: sleepsFor50 }, { roles: { asker: { limits: { turnTimeoutMs: 100 } } } })
  const result = await whileBusy(team, () => team.execute('go'))
  await team.clock.runToIdle()
  t.match(result.value, { error: { code: 'TURN_TIMEOUT' } })
  t.same(heard, ['slept', 'TURN_TIMEOUT'])
})

t.test('a task that was done by its deadline is done', async (t) => {
  const run: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) =>
      String((await script.delegate('worker', { description: 'go', deadline: script.now() + 100 })).result),
  }
  const team = openTeam(t, { worker: sleepsFor50 }, { orchestration: run })
  const result = await whileBusy(team, () => team.execute('go'))
  t.equal(result.value?.finalOutput, 'slept')
})

t.test('a wait for the blackboard ends with what was written in time', async (t) => {
  const writer: Receive = async (_message, context) => {
    await context.sleep(50)
    await context.blackboard.write('key', 'written', 'fact')
    return ''
  }
  const reader: Receive = async (_message, context) =>
    String((await context.blackboard.waitFor('key', { timeoutMs: 100 })).value)
  const both: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) => (await script.requestAll(['reader', 'writer'], '')).map(contentOf).join(),
  }
  const team = openTeam(t, { reader, writer }, { enableBlackboard: true, orchestration: both })
  const result = await whileBusy(team, () => team.execute('go'))
  t.equal(result.value?.finalOutput, 'written,')
})

// ---- the real clock

const LIMIT_MS = 50
const BUSY_MS = 80

const contentOf = (outcome: { ok: boolean; message?: { content: string }; error?: Error }) =>
  outcome.error?.message ?? outcome.message?.content

/** A team in this thread, on the real clock. A run asks the agents at once. */
function realTeam(
  t: Test,
  cast: Record<string, AgentDefinition>,
  { agents, ...options }: Partial<MultiAgentPatternOptions> = {},
) {
  const names = Object.keys(cast)
  const run: OrchestrationConfig = {
    strategy: 'custom',
    run: async (script) =>
      (
        await script.requestAll(
          script.agents.map(({ name }) => name),
          'go',
        )
      )
        .map(contentOf)
        .join(),
  }
  const team = new MultiAgentPattern(
    { orchestration: run, logger: silent, ...options, agents: agents ?? names.map((name) => ({ name })) },
    { definitions: new Map(Object.entries(cast)) },
  )
  t.teardown(() => team.close())
  return team
}

const answerOf = async (team: ReturnType<typeof realTeam>) => {
  const { error, finalOutput } = await team.execute('go')
  return error?.message ?? finalOutput
}

t.test('an agent that arrived at a sync point in time has arrived', async (t) => {
  const TIME_MS = 300 // the second agent has to come to it, on a machine that may be busy
  const ann = defineAgent({ receive: async (_message, context) => `${(await context.sync('here')).arrived}` })
  const bob = defineAgent({
    async receive(_message, context) {
      for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
      const synced = context.sync('here')
      block(TIME_MS)
      return `${(await synced).arrived}`
    },
  })
  const here = { name: 'here', requiredAgents: ['ann', 'bob'], timeoutMs: TIME_MS, onTimeout: 'abort' as const }
  t.equal(await answerOf(realTeam(t, { ann, bob }, { syncPoints: [here] })), 'ann,bob,ann,bob')
})

t.test('an agent that had started in time has started', async (t) => {
  let starts = 0
  const start = () => {
    starts += 1
    return comesWhileBusy(BUSY_MS)
  }
  const ann = defineAgent({ start, receive: async () => `started ${starts} time` })
  const agents = [{ name: 'ann', limits: { turnTimeoutMs: LIMIT_MS } }]
  t.equal(await answerOf(realTeam(t, { ann }, { agents })), 'started 1 time')
})

t.test('a question that was answered in time is answered', async (t) => {
  const ann = defineAgent({ receive: (_message, context) => context.ask('Which?', { answerWithinMs: LIMIT_MS }) })
  const team = realTeam(t, { ann })
  const run = team.launch('go')
  team.events.subscribe((event) => {
    if (event.type === 'question') void comesWhileBusy(BUSY_MS).then(() => run.answer(event.questionId, 'blue'))
  })
  t.equal((await run.result).finalOutput, 'blue')
})

t.test('a guardrail that had decided in time has decided', async (t) => {
  const input = [{ name: 'slow', timeoutMs: LIMIT_MS, check: () => comesWhileBusy(BUSY_MS).then(() => undefined) }]
  const ann = defineAgent({ receive: async () => 'fine' })
  t.equal(await answerOf(realTeam(t, { ann }, { guardrails: { input } })), 'fine')
})

t.test('a model whose answer came in time has answered', async (t) => {
  const model = {
    async *complete() {
      await comesWhileBusy(BUSY_MS)
      yield { text: 'fine' }
    },
  }
  const team = realTeam(
    t,
    {},
    {
      agents: [{ name: 'ann' }],
      models: { default: model },
      communication: { modelTimeoutMs: LIMIT_MS },
    },
  )
  t.equal(await answerOf(team), 'fine')
})

t.test('a tool of the host that had ended in time has ended', async (t) => {
  const tool = defineTool({
    name: 'slow',
    description: 'slow',
    timeoutMs: LIMIT_MS,
    input: z.object({}),
    run: () => comesWhileBusy(BUSY_MS).then(() => 'done'),
  })
  const model = scriptedModel([
    { agent: 'ann', toolCall: { name: 'slow', input: {} } },
    { agent: 'ann', when: /done/, reply: 'fine' },
  ])
  const team = realTeam(t, {}, { agents: [{ name: 'ann', tools: [tool] }], models: { default: model } })
  t.equal(await answerOf(team), 'fine')
})

// Deadlines do not count the time that models and people take, however far down the chain of requests; those have
// limits of their own.

const SECOND = 1_000
const MINUTE = 60 * SECOND

/** Answers after so long. */
const slow = (ms: number) =>
  new FakeModel(async ({ clock }) => {
    await clock!.sleep(ms)
    return 'thought'
  })

const thinks = async (context: AgentContext) => (await context.complete({ prompt: 'go' })).text
const asks =
  (agent: string): Receive =>
  async (_message, context) =>
    (await context.request(agent, 'go')).content

/** All that happens until `ms` have passed. */
async function playedFor(team: Pick<OpenTeam, 'clock'>, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= SECOND) await team.clock.advance(Math.min(left, SECOND))
}

t.test("a model's answer that takes longer than responseTimeoutMs and turnTimeoutMs is taken, paid once", async (t) => {
  const model = slow(4.5 * MINUTE)
  const { team } = modelTeam(t, model, [{ name: 'ann' }])
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4.5 * MINUTE)
  t.match(run.value, { success: true, finalOutput: 'thought', totalTokenUsage: { calls: 1 } })
  t.equal(model.requests.length, 1)
})

t.test('who waits for an agent that waits for a model waits as long, through several agents', async (t) => {
  const team = given(t, { models: { default: slow(4 * MINUTE) } }).team({
    first: asks('second'),
    second: asks('third'),
    third: (_message, context) => thinks(context),
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4 * MINUTE)
  t.equal(run.value?.finalOutput, 'thought')
})

t.test('an agent that is handed the task off may think as long', async (t) => {
  const team = given(t, { models: { default: slow(4 * MINUTE) } }).team({
    first: asks('second'),
    second: (_message, context) => context.handoff('third', 'go'),
    third: (_message, context) => thinks(context),
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 4 * MINUTE)
  t.equal(run.value?.finalOutput, 'thought')
})

t.test('the time before a call of a model and after it counts', async (t) => {
  const team = given(t, { models: { default: slow(100 * SECOND) } }).team({
    ann: async (_message, context) => {
      await context.sleep(30 * SECOND)
      await thinks(context)
      await context.sleep(40 * SECOND)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 160 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, {
    code: 'REQUEST_TIMEOUT',
    message:
      /within 60000 ms of the start of its turn, not counting 100000 ms in which a model or a person was waited for/,
  })
})

t.test('calls that overlap count once', async (t) => {
  const team = given(t, { models: { default: slow(100 * SECOND) } }).team({
    ann: async (_message, context) => {
      const later = context.sleep(50 * SECOND).then(() => thinks(context))
      await Promise.all([thinks(context), later])
      await context.sleep(61 * SECOND)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 210 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'REQUEST_TIMEOUT', message: /not counting 150000 ms/ })
})

t.test('an agent that hangs is not excused by another one that thinks', async (t) => {
  const team = given(t, { models: { default: slow(90 * SECOND) } }).team({
    ann: async (_message, context) => {
      const outcomes = await context.requestAll(['thinker', 'hangs'], 'go')
      return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(' ')
    },
    thinker: (_message, context) => thinks(context),
    hangs: async (_message, context) => context.sleep(10 * MINUTE),
  })
  const failed: number[] = []
  team.events.subscribe((event) => {
    if (event.type === 'message' && event.message.sender === 'hangs') failed.push(team.clock.now())
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 90 * SECOND)
  t.equal(run.value?.finalOutput, 'thought REQUEST_TIMEOUT')
  t.same(failed, [MINUTE])
})

for (const [where, options] of [
  ['in the mailbox of a model', {}],
  ['for the permit of a run', { maxConcurrentAgents: 1, roles: { thinker: { instances: 4 } } }],
] as const)
  t.test(`the time that a request waits ${where} behind turns that think does not count`, async (t) => {
    const workers = ['a', 'b', 'c', 'd']
    const cast = Object.fromEntries(workers.map((name) => [name, asks('thinker')]))
    const team = given(t, {
      models: { default: slow(50 * SECOND) },
      ...options,
      script: async (script) => {
        const outcomes = await script.requestAll(workers, 'go')
        return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.message)).join(' ')
      },
    }).team({ ...cast, thinker: (_message, context) => thinks(context) })
    const run = outcomeOf(team.execute('go'))
    await playedFor(team, 4 * 50 * SECOND + SECOND)
    t.equal(run.value?.finalOutput, 'thought thought thought thought')
  })

t.test('who waits in line behind an agent that does nothing is not excused', async (t) => {
  const team = given(t, { unfinished: true }).team({
    ann: asks('bob'),
    bob: async (_message, context) => context.sleep(4 * MINUTE),
  })
  void team.sendMessage({ recipient: 'bob', content: 'first' })
  await playedFor(team, 0)
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, MINUTE)
  t.match(run.value?.error, { code: 'REQUEST_TIMEOUT', details: { agent: 'ann' } })
})

t.test('turnTimeoutMs does not count it either, and each attempt has all of it', async (t) => {
  let attempts = 0
  const team = given(t, {
    models: { default: slow(100 * SECOND) },
    roles: { ann: { limits: { turnTimeoutMs: 20 * SECOND }, communication: { responseTimeoutMs: 10 * MINUTE } } },
  }).team({
    ann: async (_message, context) => {
      attempts = context.attempt
      await thinks(context)
      await context.sleep(10 * MINUTE)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 110 * SECOND)
  team.crash('ann')
  await playedFor(team, 20 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.equal(attempts, 2)
  t.match(run.value?.error, { code: 'TURN_TIMEOUT' })
})

t.test('a call of a model that goes on while its thread is dead stops the deadline all the same', async (t) => {
  const model = slow(3 * MINUTE)
  const team = openTeam(t, { ann: (_message, context) => thinks(context) }, { models: { default: model } })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 30 * SECOND)
  team.crash('ann')
  await playedFor(team, 150 * SECOND)
  t.equal(run.value?.finalOutput, 'thought')
  t.equal(model.requests.length, 1)
})

t.test('a person may take longer than any deadline of agents, for a question and for an approval', async (t) => {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval: true,
    run: () => 'paid',
  })
  const team = given(t, { roles: { second: { tools: [pay] } }, globalTimeoutMs: 60 * MINUTE }).team({
    first: asks('second'),
    second: async (_message, context) => `${await context.ask('Which color?')} ${await context.tool(pay, {})}`,
  })
  const questions: Extract<RuntimeEvent, { type: 'question' }>[] = []
  team.events.subscribe((event) => void (event.type === 'question' && questions.push(event)))
  const run = team.launch('go')
  for (const answer of ['red', 'yes']) {
    await playedFor(team, 20 * MINUTE)
    await run.answer(questions.at(-1)!.questionId, answer)
  }
  await playedFor(team, SECOND)
  t.equal((await run.result).finalOutput, 'red paid')
})

t.test('modelTimeoutMs ends a call of a model, which its agent is told', async (t) => {
  const { team, model } = modelTeam(t, slow(20 * MINUTE), [{ name: 'ann' }], {
    communication: { modelTimeoutMs: 90 * SECOND, turnRetries: 0 },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 90 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { message: /within 90000 ms.*communication\.modelTimeoutMs/ })
  t.ok(model.requests[0]!.signal.aborted)
})

t.test('modelTimeoutMs is five minutes unless said otherwise: a run outlives a model that hangs', async (t) => {
  const { team } = modelTeam(t, slow(20 * MINUTE), [{ name: 'ann' }])
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 5 * MINUTE - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'AGENT_FAILED', modelFailure: { reason: 'timeout' } })
})

t.test('a question that nobody answers within answerWithinMs is named', async (t) => {
  const ask = (context: AgentContext) => context.ask('Which color?').catch((error) => error)
  const team = given(t, { communication: { answerWithinMs: 5 * MINUTE } }).team({
    ann: async (_message, context) => {
      const { code, message, details } = await ask(context)
      return `${code} ${details.question}: ${message}`
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 5 * MINUTE)
  t.match(
    run.value?.finalOutput,
    /^REQUEST_TIMEOUT Which color\?: Nobody answered the question of agent "ann" within 300000 ms: "Which color\?"\..*answerWithinMs/,
  )
})

/** A team whose expert thinks for 70 s. */
function thinkers(t: Parameters<typeof modelTeam>[0], orchestration: object = {}) {
  const model = new FakeModel(async ({ agent, messages, clock, answerFunction }) => {
    if (agent === 'lead' && answerFunction)
      return JSON.stringify({ tasks: [{ agent: 'expert', task: 'go' }], reasoning: 'one' })
    if (agent === 'expert') await clock!.sleep(70 * SECOND)
    return agent === 'expert' ? 'expertise' : `all of ${messages.length > 0}`
  })
  return modelTeam(t, model, [{ name: 'lead' }, { name: 'expert' }], {
    orchestration: { strategy: 'supervisor', supervisor: 'lead', experts: ['expert'], ...orchestration },
  })
}

t.test('the limit of an expert counts the time of its model, and the failure says what raises it', async (t) => {
  const { team, model } = thinkers(t)
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 2 * MINUTE)
  t.notOk(run.value?.success)
  const [failure] = run.value?.failures ?? []
  t.match(failure, { agent: 'expert', error: { code: 'REQUEST_TIMEOUT', message: /60000 ms.*timeoutPerAgentMs/ } })
  t.ok(model.requests.find(({ agent }) => agent === 'expert')?.signal.aborted, 'its call was cancelled')
  t.match(run.value?.tokenUsage.expert, { calls: 1 }, 'and is counted')

  const { team: patient } = thinkers(t, { timeoutPerAgentMs: 2 * MINUTE })
  const other = outcomeOf(patient.execute('go'))
  await playedFor(patient, 2 * MINUTE)
  t.match(other.value, { success: true, failures: [] })
})

t.test('a limit by wall clock counts models and all tries of a turn, and not the time of a person', async (t) => {
  for (const [how, ms] of [
    ['thinks', 60 * SECOND],
    ['asks', 20 * MINUTE + 60 * SECOND],
  ] as const) {
    const team = given(t, {
      models: { default: slow(45 * SECOND) },
      globalTimeoutMs: 60 * MINUTE,
      roles: { second: { communication: { turnRetries: 3 } } },
    }).team({
      first: async (_message, context) =>
        (await context.request('second', 'go', { timeoutMs: 60 * SECOND, wallClock: true, retries: 3 })).content,
      second: async (_message, context) => {
        if (how === 'asks') await context.ask('Which color?')
        await thinks(context)
      },
    })
    const questions: string[] = []
    team.events.subscribe((event) => void (event.type === 'question' && questions.push(event.questionId)))
    const run = team.launch('go')
    const outcome = outcomeOf(run.result)
    if (how === 'asks') {
      await playedFor(team, 20 * MINUTE)
      await run.answer(questions[0]!, 'red')
    }
    t.notOk(outcome.settled)
    await playedFor(team, 45 * SECOND)
    t.match(outcome.value, { success: true }, `${how} within ${ms} ms`)
  }
  const team = given(t, {
    models: { default: slow(25 * SECOND) },
    roles: { second: { communication: { turnRetries: 3 } } },
  }).team({
    first: async (_message, context) =>
      (await context.request('second', 'go', { timeoutMs: 60 * SECOND, wallClock: true, retries: 3 })).content,
    second: async (_message, context) => {
      for (;;) await thinks(context)
    },
  })
  const run = outcomeOf(team.execute('go'))
  await playedFor(team, 60 * SECOND - 1)
  t.notOk(run.settled)
  await playedFor(team, 1)
  t.match(run.value?.error, { code: 'AGENT_FAILED', message: /did not answer within 60000 ms/ })
})
