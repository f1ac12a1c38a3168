/** Rule 19: how many turns of a run are under way at a time. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/context.ts'
import { PERMITS_WANTED } from '../../src/mailbox/room.ts'
import { PARKED } from '../../src/mailbox/window.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { settingsFrom } from '../../src/runtime/settings.ts'
import { leftovers } from './accounts.ts'
import { type Cast, gate, localTeam, never, openTeam, outcomeOf, type Receive } from './teams.ts'

/** A run asks all agents at once. */
const askAll: OrchestrationConfig = {
  strategy: 'custom',
  async run(script, query) {
    const names = script.agents.map(({ name }) => name)
    const outcomes = await script.requestAll(names, query)
    return outcomes.map((outcome) => (outcome.ok ? outcome.message.content : outcome.error.code)).join(' ')
  },
}

/** Counts the turns that run now, and how many there were at most. */
function counter() {
  const count = { now: 0, most: 0, begin: () => {}, end: () => {} }
  count.begin = () => {
    count.now += 1
    count.most = Math.max(count.most, count.now)
  }
  count.end = () => {
    count.now -= 1
  }
  return count
}

const chain: Cast = Object.fromEntries(
  ['a', 'b', 'c', 'd', 'e'].map((name, i, names): [string, Receive] => [
    name,
    async (_message, context) =>
      name + (i + 1 < names.length ? (await context.request(names[i + 1]!, 'go')).content : ''),
  ]),
)

t.test('rule 19: five nested requests complete with one permit', async (t) => {
  const team = openTeam(t, chain, { maxConcurrentAgents: 1 })
  t.equal((await team.execute('go')).finalOutput, 'abcde')
  t.same(leftovers(team.host), [])
})

t.test('rule 19: five turns of a run at a time, unless told otherwise', async (t) => {
  t.equal(settingsFrom({ agents: [{ name: 'a' }] }, { modules: new Set(['a']) }).maxConcurrentAgents, 5)
})

t.test('rule 19: never more turns of a run are under way than there are permits', async (t) => {
  for (const limit of [1, 2, 3]) {
    const { count, cast } = busy(8)
    const team = localTeam(t, cast, { maxConcurrentAgents: limit, orchestration: askAll, seed: limit })
    const run = team.execute('go')
    await team.clock.runToIdle()
    t.equal((await run).success, true)
    t.equal(count.most, limit)
  }
})

/** Agents that work, ask each other, and work again. */
function busy(size: number) {
  const count = counter()
  const names = Array.from({ length: size }, (_, i) => `agent${i}`)
  const works = async (context: AgentContext, ms: number) => {
    count.begin()
    await context.sleep(ms)
    count.end()
  }
  const cast = Object.fromEntries(
    names.map((name, i): [string, Receive] => [
      name,
      async (message, context) => {
        await works(context, (i * 7) % 5)
        if (message.content === 'go' && i + 3 < size) {
          await Promise.all([context.request(names[i + 2]!, 'sub'), context.request(names[i + 3]!, 'sub')])
          await works(context, (i * 3) % 4)
        }
        return name
      },
    ]),
  )
  return { count, cast }
}

t.test('rule 19: the limit is of each run, and the script needs no permit', async (t) => {
  const count = counter()
  const work: Receive = async (_message, context) => {
    count.begin()
    await context.sleep(10)
    count.end()
  }
  const team = localTeam(
    t,
    { a: work, b: work, c: work, d: work },
    {
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        run: async (script, query) => (await script.requestAll(query.split(' '), 'go')).map(({ ok }) => ok).join(' '),
      },
    },
  )
  const runs = [team.execute('a b'), team.execute('c d')]
  await team.clock.advance(20)
  t.same(
    (await Promise.all(runs)).map(({ finalOutput }) => finalOutput),
    ['true true', 'true true'],
  )
  t.equal(count.most, 2)
})

t.test('rule 19: of those who wait for a permit the role of the highest priority is next', async (t) => {
  const order: string[] = []
  const work: Receive = async (_message, context) => {
    order.push(context.role.name)
    await context.sleep(10)
  }
  const team = localTeam(
    t,
    { first: work, low: work, high: work, middle: work, other: work },
    {
      maxConcurrentAgents: 1,
      orchestration: askAll,
      roles: { low: { priority: -1 }, high: { priority: 9 }, middle: { priority: 5 } },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(50)
  await run
  t.same(order, ['first', 'high', 'middle', 'other', 'low'])
})

t.test('rule 19: who asks for a permit later does not overtake who waits for one', async (t) => {
  const order: string[] = []
  const team = localTeam(
    t,
    {
      async talker(message, context) {
        order.push(message.content)
        const turn = Number(message.content)
        if (turn < 5) await context.send('talker', `${turn + 1}`)
      },
      other: () => void order.push('other'),
    },
    {
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await Promise.all([script.request('talker', '1'), script.request('other', 'go')])
          return ''
        },
      },
    },
  )
  await team.execute('go')
  await team.clock.advance(0)
  t.same(order, ['1', 'other', '2', '3', '4', '5'])
})

t.test('rule 19: an agent with a full mailbox does not keep its permit while others wait', async (t) => {
  const order: string[] = []
  const team = localTeam(
    t,
    {
      async talker(message, context) {
        order.push(message.content)
        if (message.content === 'many') for (let i = 0; i < 1_500; i++) await context.send('talker', `${i}`)
      },
      other: () => void order.push('other'),
    },
    {
      maxConcurrentAgents: 1,
      communication: { mailboxCapacity: 5_000 },
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await script.request('talker', 'many')
          await script.request('other', 'go')
          return ''
        },
      },
    },
  )
  await team.execute('go')
  await team.clock.advance(0)
  t.equal(order.length, 1_502)
  t.ok(order.indexOf('other') < 1_100, 'after what stood in its window at most')
})

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

t.test('rule 19: a turn that gave its permit up is told of its cancellation at once', async (t) => {
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
  t.same(told.sort(), ['asker CANCELLED', 'worker CANCELLED'])
  open()
  t.ok((await run).success)
  t.same(leftovers(team.host), [])
})

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
  t.equal(Atomics.load(team.host.cell('worker')!.life!.window.words, PARKED), 0)
})
