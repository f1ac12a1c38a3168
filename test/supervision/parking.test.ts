/** Rule 19: a turn that waits for others gives its permit up, and gets one back. */
import t from 'tap'
import type { AgentContext, RequestOptions } from '../../src/actors/definition/context.ts'
import { Link } from '../../src/actors/turn/link.ts'
import { PARKED } from '../../src/mailbox/channel.ts'
import { PERMITS_WANTED } from '../../src/mailbox/team-memory.ts'
import { leftovers } from './accounts.ts'
import { askAll, gate, localTeam, never, openTeam, outcomeOf } from './teams.ts'

t.test('rule 19: a parked turn gives its permit up, and gets one back before it goes on', async (t) => {
  const order: string[] = []
  const { opened, open } = gate()
  const team = localTeam(
    t,
    {
      async asker(_message, context) {
        order.push('asker asks')
        await context.request('worker', 'go')
        order.push('asker goes on')
      },
      worker: () => void order.push('worker answers'),
      async holder() {
        order.push('holder holds')
        await opened
        order.push('holder ends')
      },
    },
    {
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await Promise.all([script.request('asker', 'go'), script.sleep(1).then(() => script.request('holder', 'go'))])
          return ''
        },
      },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(0)
  t.same(order, ['asker asks', 'worker answers', 'asker goes on'])
  await team.clock.advance(1)
  open()
  await run
  order.length = 0
  const { opened: again, open: openAgain } = gate()
  const second = localTeam(
    t,
    {
      async asker(_message, context) {
        await context.request('worker', 'go')
        order.push('asker goes on')
      },
      async worker(_message, context) {
        void context.send('holder', 'go') // takes the permit that the worker's end sets free
        order.push('worker answers')
      },
      async holder() {
        order.push('holder holds')
        await again
        order.push('holder ends')
      },
    },
    { maxConcurrentAgents: 1, roles: { holder: { priority: 1 } } },
  )
  const secondRun = second.execute('go')
  await second.clock.advance(0)
  t.same(order, ['worker answers', 'holder holds'])
  openAgain()
  t.ok((await secondRun).success)
  t.same(order, ['worker answers', 'holder holds', 'holder ends', 'asker goes on'])
})

t.test('rule 19: a turn that sleeps or is in a step of its own is not parked', async (t) => {
  for (const own of ['sleep', 'step']) {
    const order: string[] = []
    const team = localTeam(
      t,
      {
        async worker(_message, context) {
          const answer = context.request('third', 'go')
          await (own === 'sleep' ? context.sleep(10) : context.step('own', () => team.clock.sleep(10)))
          order.push('worker worked')
          await answer
          return 'done'
        },
        other: () => void order.push('other'),
        third: () => void order.push('third'),
      },
      { maxConcurrentAgents: 1, orchestration: askAll },
    )
    const run = team.execute('go')
    await team.clock.advance(10)
    t.ok((await run).success)
    t.equal(order[0], 'worker worked', own)
    t.same(order.slice(1).sort(), ['other', 'third', 'third'])
  }
})

t.test('rule 19: a turn that waits no longer than its signal allows is parked', async (t) => {
  const asks = (agent: string) => async (_message: unknown, context: AgentContext) => {
    const late = new AbortController()
    void team.clock.sleep(10).then(() => late.abort())
    return context.request(agent, 'go', { signal: late.signal }).then(
      ({ content }) => content,
      ({ code }) => code,
    )
  }
  const team = localTeam(
    t,
    { ann: asks('quick'), bob: asks('slow'), quick: () => 'answer', slow: (_message, context) => context.sleep(20) },
    { maxConcurrentAgents: 1, orchestration: { strategy: 'sequential', agentOrder: ['ann', 'bob'] } },
  )
  const run = outcomeOf(team.execute('go'))
  for (let i = 0; i < 30; i++) await team.clock.advance(1)
  const answers = run.value?.messageHistory.filter(({ type, sender }) => type === 'response' && /ann|bob/.test(sender))
  t.match(answers, [{ content: 'answer' }, { content: 'CANCELLED' }])
})

const pauses: Record<string, (context: AgentContext) => Promise<unknown>> = {
  'right away': () => Promise.resolve(),
  'after another request': (context) => context.request('other', 'go'),
  'after a sleep': (context) => context.sleep(5),
  'after a step': (context) => context.step('own', () => 1),
  'after work of its own': () => new Promise((resolve) => setImmediate(() => setImmediate(resolve))),
}
for (const [when, pause] of Object.entries(pauses)) {
  t.test(`rule 19: a turn that asks ${when} gives its permit up`, async (t) => {
    const team = localTeam(
      t,
      {
        async asker(_message, context) {
          await pause(context)
          return (await context.request('other', 'go')).content
        },
        other: () => 'answer',
      },
      { maxConcurrentAgents: 1 },
    )
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 10; i++) await team.clock.advance(1)
    t.match(run.value, { finalOutput: 'answer' })
  })
}

t.test('rule 19: who writes a long answer waits without its permit for who reads it', async (t) => {
  const team = openTeam(
    t,
    {
      async reader(_message, context) {
        let read = 0
        for await (const _chunk of context.requestStream('writer', 'go')) read += 1
        return `${read}`
      },
      async writer(_message, context) {
        for (let i = 0; i < 500; i++) {
          context.emit(`${i}`)
          await Promise.all([context.step(`a${i}`, () => i), context.step(`b${i}`, () => i)])
        }
      },
    },
    { maxConcurrentAgents: 1 },
  )
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(run.value, { finalOutput: '500' })
  t.same(leftovers(team.host), [])
})

t.test('rule 19: an aborted run gives all of its permits back, and leaves nobody waiting for one', async (t) => {
  const team = openTeam(
    t,
    {
      a: async (_message, context) => (await context.request('b', 'go')).content,
      b: (_message, context) => context.sleep(1_000).then(() => 'b'),
      c: (_message, context) => context.sleep(1_000).then(() => 'c'),
      d: () => 'd',
    },
    { maxConcurrentAgents: 2, orchestration: askAll },
  )
  const gone = new AbortController()
  const aborted = team.execute('go', { signal: gone.signal })
  await team.clock.advance(10)
  gone.abort()
  t.equal((await aborted).error?.code, 'RUN_ABORTED')
  await team.clock.advance(0)
  t.equal(Atomics.load(team.host.team.words, PERMITS_WANTED), 0)
  t.same(leftovers(team.host), [])
  const next = team.execute('go')
  await team.clock.advance(3_000)
  t.equal((await next).finalOutput, 'b b c d')
})

t.test('rule 19: a turn that gave its permit up is told of its cancellation when it has one again', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const team = openTeam(
    t,
    {
      async asker(_message, context) {
        await context.request('worker', 'go').catch((error) => told.push(`asker ${error.code}`))
      },
      async worker(_message, context) {
        await context.sleep(1_000).catch((error) => told.push(`worker ${error.code}`))
        await opened // its permit does not come free
      },
      holder: () => opened,
    },
    {
      maxConcurrentAgents: 2,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const gone = new AbortController()
          const asked = script.request('asker', 'go', { signal: gone.signal }).catch(() => {})
          const held = script.request('holder', 'go')
          await script.sleep(10)
          gone.abort()
          await asked
          await held
          return ''
        },
      },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(10)
  t.same(told, ['worker CANCELLED'])
  open()
  t.ok((await run).success)
  await team.clock.advance(0)
  t.same(told, ['worker CANCELLED', 'asker CANCELLED'])
  t.same(leftovers(team.host), [])
})

/** Each tells a turn to stop that waits without its permit: its caller wants no answer, or wants it to begin again. */
const orders: Record<string, { code: string; options: (gone: AbortSignal) => RequestOptions }> = {
  stop: { code: 'CANCELLED', options: (signal) => ({ signal }) },
  'begin again': { code: 'REQUEST_TIMEOUT', options: () => ({ timeoutMs: 10, retries: 1, idempotent: true }) },
}

for (const [order, { code, options }] of Object.entries(orders))
  for (const concurrency of [1, 2])
    t.test(
      `rule 19: a turn that is to ${order} has a permit again until it ends, at concurrency ${concurrency}`,
      async (t) => {
        const told: string[] = []
        const team = openTeam(
          t,
          {
            async asker(_message, context) {
              if (context.attempt > 1) return
              await context.request('worker', 'go').catch((error) => told.push(`asker ${error.code}`))
              await team.clock.sleep(100)
              told.push('asker ends')
            },
            worker: (_message, context) => context.sleep(1_000),
            other: () => void told.push('other'),
          },
          {
            maxConcurrentAgents: 1,
            roles: { asker: { concurrency } },
            orchestration: {
              strategy: 'custom',
              async run(script) {
                const gone = new AbortController()
                const asked = script.request('asker', 'go', options(gone.signal)).catch(() => {})
                await script.sleep(10)
                gone.abort()
                await script.sleep(10)
                await Promise.all([asked, script.request('other', 'go')])
                return ''
              },
            },
          },
        )
        const run = outcomeOf(team.execute('go'))
        await team.clock.runToIdle()
        t.same(told, [`asker ${code}`, 'asker ends', 'other'])
        t.equal(run.value?.success, true)
        t.same(leftovers(team.host), [])
      },
    )

t.test('rule 19: a crash gives the permit back', async (t) => {
  const team = openTeam(
    t,
    {
      worker: () => never,
      other: () => 'fine',
    },
    { maxConcurrentAgents: 1, orchestration: askAll, supervision: { maxRestarts: 0 } },
  )
  const run = team.execute('go')
  await team.clock.advance(0)
  team.crash('worker')
  t.equal((await run).finalOutput, 'AGENT_TERMINATED fine')
  t.same(leftovers(team.host), [])
})

t.test('rule 19: an agent that leaves a request behind when its turn ends is not parked', async (t) => {
  const team = openTeam(
    t,
    {
      async worker(_message, context) {
        const left = context.request('slow', 'go')
        await Promise.race([left, context.request('quick', 'go')])
      },
      quick: () => 'quick',
      slow: () => never,
    },
    { maxConcurrentAgents: 3 },
  )
  t.ok((await team.execute('go')).success)
  await team.clock.advance(0)
  t.equal(Atomics.load(team.host.directory.cell('worker')!.life!.window.words, PARKED), 0)
})

t.test('rule 19: a turn is parked though its permit comes to be wanted just before its thread sleeps', async (t) => {
  const { sleep } = Link.prototype
  const wanted: number[] = []
  let isAsked = false
  const team = openTeam(
    t,
    {
      async asker(_message, context) {
        const answer = context.request('worker', 'go')
        isAsked = true
        await answer
      },
      worker: () => 'done',
    },
    { maxConcurrentAgents: 1 },
  )
  const note = () => wanted.push(Atomics.load(team.host.team.words, PERMITS_WANTED))
  Link.prototype.sleep = function (forReplies) {
    if (isAsked) {
      isAsked = false
      note() // as the thread has just read it
      team.host.loop.kick() // the host gives the worker its message, for which it wants the permit
      note()
    }
    return sleep.call(this, forReplies)
  }
  t.teardown(() => Object.assign(Link.prototype, { sleep }))
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(1)
  t.same(wanted, [0, 1])
  t.match(run.value, { success: true })
  t.same(leftovers(team.host), [])
})
