/** Rules 32 and 33: a request without an answer is asked again, escalated, failed; and nobody does it twice. */
import t from 'tap'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import type { RequestOptions } from '../../src/index.ts'
import { imbalances, leftovers } from './accounts.ts'
import { ask, never, openTeam, outcomeOf, type Receive } from './teams.ts'

/** Asks the worker, with those options. */
const asks =
  (options: RequestOptions = {}): Receive =>
  async (message, context) => {
    try {
      return (await context.request('worker', message.content, options)).content
    } catch (error) {
      const { code, details } = error as { code: string; details: { tried?: number; waitedMs?: number } }
      return `${code} ${details.tried} ${details.waitedMs} at ${context.now()}`
    }
  }

/** Sleeps as long as it is told; counts how often it began. */
function sleeper() {
  const began: string[] = []
  const worker: Receive = async (message, context) => {
    began.push(`${context.attempt} at ${context.now()}`)
    await context.sleep(Number(message.content))
    return `slept ${message.content}`
  }
  return { began, worker }
}

t.test('rule 32: a request is asked again as often as its sender says, and then fails, with how often', async (t) => {
  for (const [retries, role] of [
    [0, undefined],
    [2, undefined],
    [2, 7],
    [undefined, 1],
  ] as const) {
    const { began, worker } = sleeper()
    const caller = asks({ timeoutMs: 100, ...(retries !== undefined && { retries }) })
    const team = openTeam(
      t,
      { caller, worker },
      { roles: { caller: { communication: { ...(role !== undefined && { retries: role }) } } } },
    )
    const asked = outcomeOf(ask(team, 'caller', '100000'))
    const tries = (retries ?? role ?? 0) + 1
    await team.clock.advance(tries * 100 - 1)
    t.notOk(asked.settled)
    await team.clock.advance(1)
    t.equal(asked.value, `REQUEST_TIMEOUT ${tries} ${tries * 100} at ${tries * 100}`)
    t.same(began, ['1 at 0'])
    await team.clock.runToIdle()
    t.same([imbalances(team.host), leftovers(team.host)], [[], []])
  }
})

t.test("rule 32: a team's retries are those of its script and of callers outside, too", async (t) => {
  const { worker } = sleeper()
  const team = openTeam(t, { worker }, { communication: { retries: 1, responseTimeoutMs: 100 } })
  const [outside, script] = [ask(team, 'worker', '150'), team.execute('140')]
  await team.clock.runToIdle()
  t.equal(await outside, 'slept 150')
  t.match(await script, { success: true, finalOutput: 'slept 140' })
})

t.test('rule 32: the trace of a retried request has one message, with one id', async (t) => {
  const { worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 10, retries: 5 }), worker })
  const run = team.launch('35')
  await team.clock.runToIdle()
  const { messageHistory } = await run.result
  const [request, ...more] = messageHistory.filter(
    ({ type, recipient }) => type === 'request' && recipient === 'worker',
  )
  t.same(more, [])
  t.match(
    messageHistory.find(({ sender }) => sender === 'worker'),
    { content: 'slept 35', correlationId: request?.id },
  )
})

t.test('rule 32: a request can be asked again up to 126 times', async (t) => {
  for (const idempotent of [false, true]) {
    const caller = asks({ timeoutMs: 10, retries: 126, idempotent })
    const worker: Receive = (_message, context) => team.clock.sleep(1_265).then(() => `attempt ${context.attempt}`)
    const team = openTeam(t, { caller, worker })
    const asked = ask(team, 'caller')
    await team.clock.runToIdle()
    t.equal(await asked, idempotent ? 'REQUEST_TIMEOUT 127 1270 at 1270' : 'attempt 1')
  }
})

t.test('rule 32: when it has been asked often enough it is escalated, and then fails', async (t) => {
  const reports: [string, unknown][] = []
  const order: string[] = []
  const team = openTeam(
    t,
    {
      async caller(message, context) {
        await context
          .request('worker', message.content, { timeoutMs: 100, retries: 1 })
          .catch(() => order.push('failed'))
      },
      worker: () => never,
      boss: defineAgent({
        receive: () => '',
        observe(message) {
          order.push('escalated')
          reports.push([`${message.type} of ${message.sender} at ${message.sentAt}`, message.structuredData])
        },
      }),
    },
    { roles: { caller: { escalateTo: 'boss' } } },
  )
  const asked = ask(team, 'caller')
  await team.clock.advance(200)
  await asked
  t.match(reports, [
    ['report of caller at 200', { event: 'unanswered', agent: 'worker', code: 'REQUEST_TIMEOUT', tried: 2 }],
  ])
  t.same(order.sort(), ['escalated', 'failed'])
  t.same(imbalances(team.host), [])
})

t.test('rule 32: nobody is told of himself', async (t) => {
  for (const escalateTo of ['worker', 'caller']) {
    const caller = asks({ timeoutMs: 100 })
    const team = openTeam(t, { caller, worker: () => never }, { roles: { caller: { escalateTo } } })
    const asked = ask(team, 'caller')
    await team.clock.advance(100)
    t.equal(await asked, 'REQUEST_TIMEOUT 1 100 at 100')
    t.same(team.host.directory.cells.map(({ mailbox }) => mailbox.accepted).sort(), [0, 0, 0, 1, 1])
  }
})

t.test('rule 33: asked again while it is still queued it keeps its place, and is done once', async (t) => {
  const { began, worker } = sleeper()
  const team = openTeam(
    t,
    { caller: asks({ retries: 2 }), worker },
    { roles: { worker: { communication: { queueTimeoutMs: 100 } } } },
  )
  void ask(team, 'worker', '250')
  await team.clock.advance(0)
  const asked = outcomeOf(ask(team, 'caller', '10'))
  await team.clock.advance(0)
  const later = outcomeOf(ask(team, 'worker', '20'))
  await team.clock.advance(100)
  t.equal(later.error?.code, 'MESSAGE_EXPIRED', 'nobody asks that again')
  await team.clock.advance(160)
  t.equal(asked.value, 'slept 10')
  t.same(began, ['1 at 0', '1 at 250'])
  t.same(leftovers(team.host), [])
})

t.test('rule 33: asked again in vain while it is queued it expires, with how often it was asked', async (t) => {
  const team = openTeam(
    t,
    { caller: asks({ retries: 1 }), worker: () => never },
    { roles: { worker: { communication: { queueTimeoutMs: 100 } } } },
  )
  await team.sendMessage({ recipient: 'worker', content: '' })
  await team.clock.advance(0)
  const asked = ask(team, 'caller')
  await team.clock.advance(200)
  t.equal(await asked, 'MESSAGE_EXPIRED 2 undefined at 200')
  t.match(team.deadLetters.list(), [{ reason: 'expired', at: 200 }])
  t.same(imbalances(team.host), [])
})

t.test('rule 33: asked again while its turn is under way it waits for that one', async (t) => {
  const { began, worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 3 }), worker })
  const asked = ask(team, 'caller', '350')
  await team.clock.advance(350)
  t.equal(await asked, 'slept 350')
  t.same(began, ['1 at 0'])
  t.same(team.deadLetters.list(), [])
  t.same(leftovers(team.host), [])
})

for (const idempotent of [false, true])
  t.test(
    `rule 33: asked again while its agent is between two lives it waits for the next attempt: ${idempotent}`,
    async (t) => {
      let effects = 0
      const team = openTeam(
        t,
        {
          caller: asks({ timeoutMs: 100, retries: 4, idempotent }),
          async worker(_message, context) {
            await context.step('effect', () => void effects++)
            await context.sleep(30)
            if (context.attempt < 3) team.crash('worker')
            return `attempt ${context.attempt}`
          },
        },
        { supervision: { backoff: { baseMs: 300, capMs: 300 } } },
      )
      const asked = ask(team, 'caller')
      await team.clock.runToIdle()
      t.equal(await asked, 'attempt 3')
      t.equal(effects, 1)
      t.same(leftovers(team.host), [])
    },
  )

t.test('rule 33: a reply that comes just as its deadline does is the only one', async (t) => {
  for (const idempotent of [false, true])
    for (let seed = 1; seed < 10; seed++) {
      const worker: Receive = async (_message, context) => {
        await context.sleep(context.attempt === 1 ? 100 : 10)
        return `attempt ${context.attempt}`
      }
      const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 1, idempotent }), worker }, { seed })
      const asked = ask(team, 'caller')
      await team.clock.runToIdle()
      t.match(await asked, idempotent ? /^attempt [12]$/ : /^attempt 1$/)
      t.equal(team.host.directory.cell('worker')?.mailbox.handled, 1)
      t.same([team.deadLetters.list(), leftovers(team.host)], [[], []])
    }
})

t.test('rule 33: an idempotent request has its turn begin again, with the steps that it had finished', async (t) => {
  let steps = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
    async worker(_message, context) {
      await context.step('first', () => void steps++)
      await context.request('helper', 'help').catch((error) => {
        if (context.signal.aborted) throw error
      })
      return `attempt ${context.attempt} at ${context.now()}`
    },
    helper: (_message, context) => (steps++ < 2 ? context.sleep(1_000) : ''),
  })
  const asked = ask(team, 'caller')
  await team.clock.advance(100)
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 2 at 100')
  t.equal(steps, 3, 'the first was not taken again, the helper was asked again')
  t.same([imbalances(team.host), leftovers(team.host)], [[], []])
})

t.test('rule 33: a turn that does not stop when it is to begin again costs its thread, and begins again', async (t) => {
  const began: number[] = []
  const team = openTeam(
    t,
    {
      caller: asks({ timeoutMs: 100, retries: 3, idempotent: true }),
      worker(_message, { attempt }) {
        began.push(attempt)
        return attempt === 1 ? never : `attempt ${attempt}`
      },
    },
    { supervision: { stopGraceMs: 50 } },
  )
  const asked = ask(team, 'caller')
  await team.clock.advance(149)
  t.same(began, [1])
  await team.clock.advance(1)
  t.equal(await asked, 'attempt 2')
  t.same(leftovers(team.host), [])
})

t.test('rule 33: the attempt that has begun again is not ended by the grace of the one before', async (t) => {
  const team = openTeam(
    t,
    {
      caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
      async worker(_message, context) {
        await context.sleep(context.attempt === 1 ? 1_000 : 80)
        return `attempt ${context.attempt} of life ${team.host.directory.cell('worker')?.epoch}`
      },
    },
    { supervision: { stopGraceMs: 50 } },
  )
  const asked = ask(team, 'caller')
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 2 of life 1')
})

t.test('rule 33: a step that may not run twice is waited for, not begun again', async (t) => {
  let effects = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 1, idempotent: true }),
    async worker(_message, context) {
      await context.step('effect', async () => {
        effects++
        await team.clock.sleep(150)
      })
      return `attempt ${context.attempt}`
    },
  })
  const asked = ask(team, 'caller')
  await team.clock.runToIdle()
  t.equal(await asked, 'attempt 1')
  t.equal(effects, 1)
})

t.test('a caller that dies meanwhile does not begin to count anew', async (t) => {
  const { began, worker } = sleeper()
  const team = openTeam(t, { caller: asks({ timeoutMs: 100, retries: 2 }), worker })
  const asked = ask(team, 'caller', '100000')
  await team.clock.advance(150)
  team.crash('caller')
  await team.clock.advance(150)
  t.match(await asked, /^REQUEST_TIMEOUT 3 300/)
  t.same(began, ['1 at 0'])
})

t.test('rule 32: with who takes a request over by a handoff its deadlines begin anew', async (t) => {
  const outcomes: Record<string, string> = {
    '190': 'slept 190',
    '210': 'REQUEST_TIMEOUT 2 200 at 350',
  }
  for (const [ms, outcome] of Object.entries(outcomes)) {
    const { worker: target } = sleeper()
    const team = openTeam(t, {
      caller: asks({ timeoutMs: 100, retries: 1 }),
      async worker(message, context) {
        await context.sleep(150) // by then it was asked a second time
        await context.handoff('target', message.content)
      },
      target,
    })
    const asked = ask(team, 'caller', ms)
    await team.clock.runToIdle()
    t.equal(await asked, outcome)
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 33: a turn of an idempotent request that fails is not begun again: an error is an answer', async (t) => {
  let began = 0
  const team = openTeam(t, {
    caller: asks({ timeoutMs: 100, retries: 3, idempotent: true }),
    worker: () => {
      began += 1
      throw new Error('it does not work')
    },
  })
  t.match(await ask(team, 'caller'), /^AGENT_FAILED/)
  t.equal(began, 1)
  t.same(leftovers(team.host), [])
})
