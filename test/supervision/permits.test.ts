/** Rule 19: how many turns of a run are under way at a time, who is next, and who gives its permit up. */
import { equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { AgentContext, OrchestratorContext, RequestOptions } from '../../src/actors/definition/context.ts'
import { Link } from '../../src/actors/turn/link.ts'
import { NO_SLOT, Parking } from '../../src/actors/turn/parking.ts'
import { Channel, mostOpenTurns, PARKED, parkedWord, SURELY, TAKEN } from '../../src/mailbox/channel.ts'
import { PERMITS_WANTED, TeamMemory } from '../../src/mailbox/team-memory.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { virtualClock } from '../../src/testing.ts'
import { leftovers } from '../kit/accounts.ts'
import { pluck } from '../kit/lists.ts'
import {
  answerOf,
  askAll,
  type Cast,
  type Extras,
  gate,
  given,
  never,
  openTeam,
  outcomeOf,
  type Receive,
} from '../kit/team.ts'

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
})

t.test('rule 19: 32 turns of a run at a time, unless told otherwise', async (t) => {
  t.equal(settingsFrom({ agents: [{ name: 'a' }] }, { modules: new Set(['a']) }).maxConcurrentAgents, 32)
})

t.test('rule 19: never more turns of a run are under way than there are permits', async (t) => {
  for (const limit of [1, 2, 3]) {
    const { count, cast } = busy(8)
    const team = openTeam(t, cast, { maxConcurrentAgents: limit, orchestration: askAll, seed: limit })
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
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script, query) => (await script.requestAll(query.split(' '), 'go')).map(({ ok }) => ok).join(' '),
  }).team({ a: work, b: work, c: work, d: work })
  const runs = [team.execute('a b'), team.execute('c d')]
  await team.clock.advance(20)
  t.same(pluck(await Promise.all(runs), 'finalOutput'), ['true true', 'true true'])
  t.equal(count.most, 2)
})

t.test('rule 19: of those who wait for a permit the role of the highest priority is next', async (t) => {
  const order: string[] = []
  const work: Receive = async (_message, context) => {
    order.push(context.role.name)
    await context.sleep(10)
  }
  const team = given(t, {
    maxConcurrentAgents: 1,
    orchestration: askAll,
    roles: { low: { priority: -1 }, high: { priority: 9 }, middle: { priority: 5 }, alike: { priority: 5 } },
  }).team({ first: work, low: work, high: work, middle: work, alike: work, other: work })
  const run = team.execute('go')
  await team.clock.advance(60)
  await run
  t.same(order, ['first', 'high', 'middle', 'alike', 'other', 'low'], 'of equals the one that asked first')
})

t.test('rule 19: who asks for a permit later does not overtake who waits for one', async (t) => {
  const order: string[] = []
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      await Promise.all([script.request('talker', '1'), script.request('other', 'go')])
      return ''
    },
  }).team({
    async talker(message, context) {
      order.push(message.content)
      const turn = Number(message.content)
      if (turn < 5) await context.send('talker', `${turn + 1}`)
    },
    other: () => void order.push('other'),
  })
  await team.execute('go')
  await team.clock.advance(0)
  t.same(order, ['1', 'other', '2', '3', '4', '5'])
})

t.test('rule 19: an agent with a full mailbox does not keep its permit while others wait', async (t) => {
  const order: string[] = []
  const team = given(t, {
    maxConcurrentAgents: 1,
    communication: { mailboxCapacity: 5_000 },
    script: async (script) => {
      await script.request('talker', 'many')
      await script.request('other', 'go')
      return ''
    },
  }).team({
    async talker(message, context) {
      order.push(message.content)
      if (message.content === 'many') for (let i = 0; i < 4_500; i++) await context.send('talker', `${i}`)
    },
    other: () => void order.push('other'),
  })
  await team.execute('go')
  await team.clock.advance(0)
  t.equal(order.length, 4_502)
  t.ok(order.indexOf('other') < 3_000, 'after what stood in its window at most, twice')
})

t.test('rule 19: a turn that is tried again asks for its permit anew, behind those who wait', async (t) => {
  const order: string[] = []
  const team = given(t, {
    maxConcurrentAgents: 1,
    orchestration: askAll,
    supervision: { onHandlerError: 'retry' },
  }).team({
    first(_message, { attempt }) {
      order.push(`first ${attempt}`)
      if (attempt === 1) throw new Error('again')
    },
    other: () => void order.push('other'),
  })
  await team.execute('go')
  t.same(order, ['first 1', 'other', 'first 2'])
})

t.test('rule 19: who is no longer wanted when a permit comes free is passed over', async (t) => {
  const { opened, open } = gate()
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      const gone = new AbortController()
      const held = script.request('holder', 'go')
      const unwanted = script.request('unwanted', 'go', { signal: gone.signal }).catch(({ code }) => code)
      const wanted = script.request('other', 'go')
      await script.sleep(1)
      gone.abort()
      await script.sleep(1)
      open()
      await held
      return `${await unwanted} ${(await wanted).content}`
    },
  }).team({ holder: () => opened, unwanted: () => 'unwanted', other: () => 'other' })
  const run = outcomeOf(team.execute('go'))
  for (let i = 0; i < 5; i++) await team.clock.advance(1)
  t.match(run.value, { finalOutput: 'CANCELLED other' })
})

t.test('rule 19: an agent that is down when a permit comes free keeps nobody waiting', async (t) => {
  const order: string[] = []
  const { opened, open } = gate()
  const team = given(t, { maxConcurrentAgents: 1, orchestration: askAll }).team({
    holder: () => opened,
    down: () => void order.push('down'),
    other: () => void order.push('other'),
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  for (let death = 0; death < 2; death++) {
    await team.dies('down')
  }
  t.equal(team.agent('down').status, 'restarting')
  open()
  await team.clock.advance(0)
  t.same(order, ['other'])
  await team.clock.runToIdle()
  t.same(order, ['other', 'down'])
  t.equal(run.value?.success, true)
})

/** Asks those agents one after the other, each a moment later, and waits for all. `!`: it is urgent. */
const inOrder: OrchestrationConfig = {
  strategy: 'custom',
  async run(script, query) {
    const asked: Promise<unknown>[] = []
    for (const word of query.split(' ')) {
      const name = word.replace('!', '')
      asked.push(script.request(name, script.runId, { priority: word === name ? 0 : 5 }))
      await script.sleep(1)
    }
    await Promise.all(asked)
    return ''
  },
}

/** An agent waits for a permit of run `a`, and goes on with run `b` meanwhile. What it does, and who else does. */
function twoRuns(t: Parameters<typeof openTeam>[0]) {
  const order: string[] = []
  const { opened, open } = gate()
  const work: Receive = async ({ content }, context) => {
    order.push(`${context.role.name} ${content}`)
    await context.sleep(100)
  }
  const team = given(t, { maxConcurrentAgents: 1, orchestration: inOrder }).team({
    holder: () => opened,
    keeper: () => opened,
    both: work,
    other: work,
  })
  return { order, open, team }
}

t.test('rule 19: who is busy with another run when a permit comes free keeps nobody waiting', async (t) => {
  const { order, open, team } = twoRuns(t)
  const runs = [team.execute('holder both other', { runId: 'a' })]
  await team.clock.advance(10)
  runs.push(team.execute('both', { runId: 'b' }))
  await team.clock.advance(10)
  open()
  await team.clock.advance(0)
  t.same(order, ['both b', 'other a'])
  await team.clock.runToIdle()
  t.same(order, ['both b', 'other a', 'both a'])
  t.ok((await Promise.all(runs)).every(({ success }) => success))
})

t.test('rule 19: who could not come when a permit was free for it waits for that alone', async (t) => {
  const { order, open, team } = twoRuns(t)
  const runs = [team.execute('holder both other', { runId: 'a' })]
  await team.clock.advance(10)
  runs.push(team.execute('both both', { runId: 'b' }))
  await team.clock.advance(10)
  open()
  await team.clock.runToIdle()
  t.same(order, ['both b', 'other a', 'both a', 'both b'])
  t.ok((await Promise.all(runs)).every(({ success }) => success))
})

t.test('rule 19: a permit goes back when a message of another run came before the one that it is for', async (t) => {
  const { order, open, team } = twoRuns(t)
  const runs = [team.execute('holder both other', { runId: 'a' }), team.execute('keeper both!', { runId: 'b' })]
  await team.clock.advance(10)
  t.same(order, [])
  open()
  await team.clock.advance(0)
  t.same(order.toSorted(), ['both b', 'other a'])
  await team.clock.runToIdle()
  t.equal(order[2], 'both a')
  t.ok((await Promise.all(runs)).every(({ success }) => success))
})

// Rule 19: a turn that waits for others gives its permit up, and gets one back.

t.test('rule 19: a parked turn gives its permit up, and gets one back before it goes on', async (t) => {
  const order: string[] = []
  const { opened, open } = gate()
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script) => {
      await Promise.all([script.request('asker', 'go'), script.sleep(1).then(() => script.request('holder', 'go'))])
      return ''
    },
  }).team({
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
  })
  const run = team.execute('go')
  await team.clock.advance(0)
  t.same(order, ['asker asks', 'worker answers', 'asker goes on'])
  await team.clock.advance(1)
  open()
  await run
  order.length = 0
  const { opened: again, open: openAgain } = gate()
  const second = given(t, { maxConcurrentAgents: 1, roles: { holder: { priority: 1 } } }).team({
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
  })
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
    const team = given(t, { maxConcurrentAgents: 1, orchestration: askAll }).team({
      async worker(_message, context) {
        const answer = context.request('third', 'go')
        await (own === 'sleep' ? context.sleep(10) : context.step('own', () => team.clock.sleep(10)))
        order.push('worker worked')
        await answer
        return 'done'
      },
      other: () => void order.push('other'),
      third: () => void order.push('third'),
    })
    t.ok((await team.within(10, team.execute('go'))).success)
    t.equal(order[0], 'worker worked', own)
    t.same(order.slice(1).sort(), ['other', 'third', 'third'])
  }
})

t.test('rule 19: a turn that waits no longer than its signal allows is parked', async (t) => {
  const asks = (agent: string) => async (_message: unknown, context: AgentContext) => {
    const late = new AbortController()
    void team.clock.sleep(10).then(() => late.abort())
    return answerOf(context.request(agent, 'go', { signal: late.signal }))
  }
  const team = given(t, {
    maxConcurrentAgents: 1,
    orchestration: { strategy: 'sequential', agentOrder: ['ann', 'bob'] },
  }).team({
    ann: asks('quick'),
    bob: asks('slow'),
    quick: () => 'answer',
    slow: (_message, context) => context.sleep(20),
  })
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
    const team = given(t, { maxConcurrentAgents: 1 }).team({
      async asker(_message, context) {
        await pause(context)
        return (await context.request('other', 'go')).content
      },
      other: () => 'answer',
    })
    const run = outcomeOf(team.execute('go'))
    for (let i = 0; i < 10; i++) await team.clock.advance(1)
    t.match(run.value, { finalOutput: 'answer' })
  })
}

t.test('rule 19: who writes a long answer waits without its permit for who reads it', async (t) => {
  const team = given(t, { maxConcurrentAgents: 1 }).team({
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
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(run.value, { finalOutput: '500' })
})

t.test('rule 19: an aborted run gives all of its permits back, and leaves nobody waiting for one', async (t) => {
  const team = given(t, { maxConcurrentAgents: 2, orchestration: askAll }).team({
    a: async (_message, context) => (await context.request('b', 'go')).content,
    b: (_message, context) => context.sleep(1_000).then(() => 'b'),
    c: (_message, context) => context.sleep(1_000).then(() => 'c'),
    d: () => 'd',
  })
  const gone = new AbortController()
  const aborted = team.execute('go', { signal: gone.signal })
  await team.clock.advance(10)
  gone.abort()
  t.equal((await aborted).error?.code, 'RUN_ABORTED')
  await team.clock.advance(0)
  t.equal(Atomics.load(team.host.team.words, PERMITS_WANTED), 0)
  t.same(leftovers(team.host), [])
  t.equal((await team.within(3_000, team.execute('go'))).finalOutput, 'b b c d')
})

t.test('rule 19: a turn that gave its permit up is told of its cancellation when it has one again', async (t) => {
  const told: string[] = []
  const { opened, open } = gate()
  const team = given(t, {
    maxConcurrentAgents: 2,
    script: async (script) => {
      const gone = new AbortController()
      const asked = script.request('asker', 'go', { signal: gone.signal }).catch(() => {})
      const held = script.request('holder', 'go')
      await script.sleep(10)
      gone.abort()
      await asked
      await held
      return ''
    },
  }).team({
    async asker(_message, context) {
      await context.request('worker', 'go').catch((error) => told.push(`asker ${error.code}`))
    },
    async worker(_message, context) {
      await context.sleep(1_000).catch((error) => told.push(`worker ${error.code}`))
      await opened // its permit does not come free
    },
    holder: () => opened,
  })
  const run = team.execute('go')
  await team.clock.advance(10)
  t.same(told, ['worker CANCELLED'])
  open()
  t.ok((await run).success)
  await team.clock.advance(0)
  t.same(told, ['worker CANCELLED', 'asker CANCELLED'])
})

/** Each tells a turn to stop that waits without its permit: its caller wants no answer, or wants it to begin again. */
const orders: Record<string, { code: string; options: (gone: AbortSignal) => RequestOptions }> = {
  stop: { code: 'CANCELLED', options: (signal) => ({ signal }) },
  'begin again': { code: 'REQUEST_TIMEOUT', options: () => ({ timeoutMs: 10, retries: 1, idempotent: true }) },
}

for (const [order, { code, options }] of Object.entries(orders))
  for (const concurrency of [1, 2])
    t.test(
      `rule 19: a turn that is to ${order} has a permit until it ends, at concurrency ${concurrency}`,
      async (t) => {
        const told: string[] = []
        const team = given(t, {
          maxConcurrentAgents: 1,
          roles: { asker: { concurrency } },
          script: async (script) => {
            const gone = new AbortController()
            const asked = script.request('asker', 'go', options(gone.signal)).catch(() => {})
            await script.sleep(10)
            gone.abort()
            await script.sleep(10)
            await Promise.all([asked, script.request('other', 'go')])
            return ''
          },
        }).team({
          async asker(_message, context) {
            if (context.attempt > 1) return
            await context.request('worker', 'go').catch((error) => told.push(`asker ${error.code}`))
            await team.clock.sleep(100)
            told.push('asker ends')
          },
          worker: (_message, context) => context.sleep(1_000),
          other: () => void told.push('other'),
        })
        const run = outcomeOf(team.execute('go'))
        await team.clock.runToIdle()
        t.same(told, [`asker ${code}`, 'asker ends', 'other'])
        t.equal(run.value?.success, true)
      },
    )

t.test('rule 19: a crash gives the permit back', async (t) => {
  const team = given(t, { maxConcurrentAgents: 1, orchestration: askAll, supervision: { maxRestarts: 0 } }).team({
    worker: () => never,
    other: () => 'fine',
  })
  const run = team.execute('go')
  await team.clock.advance(0)
  team.crash('worker')
  t.equal((await run).finalOutput, 'AGENT_TERMINATED fine')
})

t.test('rule 19: an agent that leaves a request behind when its turn ends is not parked', async (t) => {
  const team = given(t, { unfinished: true, maxConcurrentAgents: 3 }).team({
    async worker(_message, context) {
      const left = context.request('slow', 'go')
      await Promise.race([left, context.request('quick', 'go')])
    },
    quick: () => 'quick',
    slow: () => never,
  })
  t.ok((await team.execute('go')).success)
  await team.clock.advance(0)
  t.equal(Atomics.load(team.agent('worker').incarnation!.channel.words, PARKED), 0)
})

t.test('rule 19: a turn is parked though its permit comes to be wanted just before its thread sleeps', async (t) => {
  const { sleep } = Link.prototype
  const wanted: number[] = []
  let isAsked = false
  const team = given(t, { maxConcurrentAgents: 1 }).team({
    async asker(_message, context) {
      const answer = context.request('worker', 'go')
      isAsked = true
      await answer
    },
    worker: () => 'done',
  })
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
})

// Rule 19: what a turn that gave its permit up would do by itself waits until it has one again.

/** A script that asks the first agent, whose request takes the only permit from it. */
const one: Extras = { maxConcurrentAgents: 1 }

/** Works until it is let go, whatever its signal says. */
function holderOf(lines: string[]): { holder: Receive; open(): void } {
  const { opened, open } = gate()
  const holder = async () => {
    await opened
    lines.push('holder ends')
  }
  return { holder, open }
}

for (const concurrency of [1, 2]) {
  const roles = { asker: { concurrency }, manager: { concurrency, reentrancy: 'chain' as const } }

  t.test(`rule 19: a caller's signal ends its wait with a permit, at concurrency ${concurrency}`, async (t) => {
    const lines: string[] = []
    const { holder, open } = holderOf(lines)
    const mine = new AbortController()
    const team = given(t, { ...one, roles }).team({
      async asker(_message, context) {
        const { signal } = mine
        await context.requestAny(['holder'], 'go', { signal }).catch(({ code }) => lines.push(`asker: ${code}`))
        await context.request('holder', 'go', { signal }).catch(({ code }) => lines.push(`asker: ${code}`))
      },
      holder,
    })
    const run = team.execute('go')
    await team.clock.advance(10)
    mine.abort()
    await team.clock.advance(10)
    t.same(lines, [])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder ends', 'asker: CANCELLED', 'asker: CANCELLED'])
  })

  t.test(`rule 19: a turn is told to stop before answers that waited, at concurrency ${concurrency}`, async (t) => {
    const lines: string[] = []
    const { holder, open } = holderOf(lines)
    const team = given(t, {
      ...one,
      roles: { ...roles, holder: { priority: 1 } },
      script: async (script) => {
        const gone = new AbortController()
        const asked = script.request('asker', 'go', { signal: gone.signal }).catch(() => {})
        await script.sleep(10)
        gone.abort()
        await asked
        return ''
      },
    }).team({
      async asker(_message, context) {
        await context.request('quick', 'go').then(
          () => lines.push('asker is answered'),
          ({ code }) => lines.push(`asker: ${code}`),
        )
      },
      quick: (_message, context) => void context.send('holder', 'go'), // which takes the permit that the answer needs
      holder,
    })
    const run = team.execute('go')
    await team.clock.advance(10)
    t.same(lines, [])
    open()
    await team.clock.advance(0)
    t.ok((await run).success)
    t.same(lines, ['holder ends', 'asker: CANCELLED'])
  })

  t.test(`rule 19: the outer turn's signal waits for the turn within it, at concurrency ${concurrency}`, async (t) => {
    const lines: string[] = []
    const mine = new AbortController()
    const team = given(t, { roles }).team({
      async manager({ sender }, context) {
        if (sender === 'worker') {
          await team.clock.sleep(100)
          lines.push('nested ends')
        } else
          await context
            .requestAny(['worker', 'other'], 'go', { signal: mine.signal })
            .catch(({ code }) => lines.push(`outer: ${code}`))
      },
      worker: async ({ content }, context) => void (await context.request('manager', content)),
      other: (_message, context) => context.sleep(1_000),
    })
    const run = team.execute('go')
    await team.clock.advance(10)
    mine.abort()
    await team.clock.advance(10)
    t.same(lines, [])
    await team.clock.advance(100)
    t.same(lines, ['nested ends', 'outer: CANCELLED'])
    t.ok((await run).success)
  })

  const own: Record<string, (context: AgentContext) => Promise<unknown>> = {
    'a step': (context) => context.step('own', () => 1),
    'a sleep': (context) => context.sleep(1),
  }
  for (const [what, begin] of Object.entries(own))
    t.test(`rule 19: ${what} begun beside a wait has a permit, at concurrency ${concurrency}`, async (t) => {
      const lines: string[] = []
      const { holder, open } = holderOf(lines)
      const team = given(t, { ...one, roles }).team({
        async asker(_message, context) {
          const answer = context.request('holder', 'go')
          await team.clock.sleep(10)
          await begin(context)
          lines.push('asker goes on')
          await answer
        },
        holder,
      })
      const run = outcomeOf(team.execute('go'))
      await team.clock.advance(20)
      t.same(lines, [])
      open()
      await team.clock.advance(20)
      t.same(lines, ['holder ends', 'asker goes on'])
      t.match(run.value, { success: true })
    })
}

t.test(
  'rule 19: a run that is over has no limit: who was to stop and waited for a permit is told at once',
  async (t) => {
    const lines: string[] = []
    const { holder, open } = holderOf(lines)
    const gone = new AbortController()
    const team = given(t, {
      unfinished: true,
      ...one,
      roles: { holder: { priority: 1 } },
      script: async (script) => {
        await script.request('asker', 'go', { signal: gone.signal }).catch(() => script.sleep(100))
        return ''
      },
    }).team({
      async asker(_message, context) {
        await context.request('quick', 'go').catch(({ code }) => lines.push(`asker: ${code}`))
      },
      quick: (_message, context) => void context.send('holder', 'go'), // which takes the permit that the answer needs
      holder,
    })
    const run = team.launch('go')
    await team.clock.advance(10)
    gone.abort()
    await team.clock.advance(10)
    t.same(lines, [])
    void run.cancel('enough')
    await team.clock.advance(1)
    t.same(lines, ['asker: CANCELLED'])
    open()
    t.equal((await run.result).error?.code, 'RUN_ABORTED')
  },
)

t.test('rule 19: a turn that ends while its permit is with another lets no message ahead of it begin', async (t) => {
  const lines: string[] = []
  const { holder, open } = holderOf(lines)
  const team = given(t, {
    ...one,
    script: async (script) => {
      for (let i = 0; i < 50; i++) await script.request('worker', 'quick') // then more than one is handed over
      await Promise.all(['go', 'behind'].map((content) => script.request('worker', content)))
      return ''
    },
  }).team({
    async worker({ content }, context) {
      if (content === 'quick') return
      if (content === 'behind') return void lines.push('behind')
      void context.request('holder', 'go').catch(() => {})
      await team.clock.sleep(10)
      lines.push('ended')
    },
    holder,
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(20)
  t.same(lines, ['ended'])
  open()
  await team.clock.advance(0)
  t.same(lines, ['ended', 'holder ends', 'behind'])
  t.match(run.value, { success: true })
})

t.test("rule 19: agents that an answer waits for do not pass another run's permit on for ever", async (t) => {
  const held = new Map([
    ['asked', gate()],
    ['other', gate()],
  ])
  const hold: Receive = async (_message, context) => {
    await held.get(context.runId)!.opened
    return 'held'
  }
  const work: Receive = ({ content }, context) => (content === 'ask' ? context.ask('Well?') : 'worked')
  const team = given(t, {
    ...one,
    script: async (script, query) => {
      if (query === 'other') return (await hand(script, 'wim', 'work')).join()
      return (await hand(script, 'wes', 'ask')).join()
    },
  }).team({ ann: work, bob: work, wes: hold, wim: hold })
  /** Whom both agents wait for has the permit of the run: behind their questions in one run, before their work in the other. */
  const hand = async (script: OrchestratorContext, holder: string, say: string) => {
    const first = say === 'work' ? script.request(holder, 'hold') : undefined
    const asked = script.requestAll(['ann', 'bob'], say)
    if (!first) await script.sleep(10)
    await (first ?? script.request(holder, 'hold'))
    return (await asked).map((outcome) => outcome.ok && outcome.message.content)
  }
  const asked = team.launch('ask', { runId: 'asked' })
  await team.clock.advance(20)
  const other = team.launch('other', { runId: 'other' })
  await team.clock.advance(20)
  for (const { questionId } of team.questions()) await team.answer(questionId, 'yes')
  await team.clock.advance(20)
  held.get('other')!.open()
  t.equal((await other.result).finalOutput, 'worked,worked')
  t.equal(asked.status, 'running')
  held.get('asked')!.open()
  t.equal((await asked.result).finalOutput, 'yes,yes')
})

// Rule 19: the words that say which turns only wait, and the number by which a thread knows that none does.

const CONCURRENCY = 2
const acts = ['park', 'unpark', 'regain', 'take', 'give back', 'close', 'suspend', 'resume'] as const

/** A turn as the thread and the host see it. */
interface Open {
  readonly run: number
  slot: number
  /** Its word is set. */
  isTold: boolean
  /** The host has taken its permit. */
  isTaken: boolean
  /** It has gone on without a permit. */
  isWithout: boolean
  isSuspended: boolean
}

class Play {
  readonly #words = new Channel()
  readonly #parking: Parking
  #turns: Open[] = []
  #runs = 0

  constructor() {
    const port = { wake() {}, onWake() {}, scheduler: virtualClock() }
    this.#parking = new Parking(this.#words.words, CONCURRENCY, new Link(this.#words, new TeamMemory(2), port, 1))
  }

  open(): void {
    if (this.#turns.length === mostOpenTurns(CONCURRENCY)) return
    const rest = { isTold: false, isTaken: false, isWithout: false, isSuspended: false }
    this.#turns.push({ run: ++this.#runs, slot: NO_SLOT, ...rest })
  }

  act(act: (typeof acts)[number], which: number): void {
    const turn = this.#turns[which % (this.#turns.length || 1)]
    if (!turn || turn.isSuspended !== (act === 'resume')) return
    const at = PARKED + turn.slot
    switch (act) {
      case 'park':
        this.#parking.park(turn)
        turn.isTold = true
        return
      case 'unpark':
        this.#goesOn(turn)
        return equal(this.#parking.unpark(turn), !turn.isWithout)
      case 'regain':
        this.#parking.regain(turn)
        this.#goesOn(turn)
        turn.isWithout = false
        return
      case 'take':
        if (turn.isTold && !turn.isTaken) this.#replace(at, parkedWord(turn.run, SURELY), parkedWord(turn.run, TAKEN))
        turn.isTaken = turn.isTold
        return
      case 'give back':
        if (turn.isTaken) this.#replace(at, parkedWord(turn.run, TAKEN), parkedWord(turn.run, SURELY))
        turn.isTaken = false
        return
      case 'close':
        this.#goesOn(turn)
        this.#turns = this.#turns.filter((other) => other !== turn)
        return equal(this.#parking.close(turn), !turn.isWithout)
      case 'suspend':
        this.#parking.suspend(turn)
        Object.assign(turn, { isTold: false, isTaken: false, isWithout: false, isSuspended: true })
        return
      case 'resume':
        this.#parking.resume(turn)
        turn.isSuspended = false
        return
    }
  }

  /** Its word is cleared, and tells whether the host has taken its permit meanwhile. */
  #goesOn(turn: Open): void {
    if (turn.isTaken) turn.isWithout = true
    turn.isTold = false
    turn.isTaken = false
  }

  #replace(at: number, word: number, other: number): void {
    equal(Atomics.compareExchange(this.#words.words, at, word, other), word)
  }

  check(): void {
    const told = this.#turns.filter(({ isTold }) => isTold)
    equal(this.#parking.marked, told.length + this.#turns.filter(({ isWithout }) => isWithout).length)
    for (const { run, slot, isTold, isTaken, isSuspended } of this.#turns)
      if (!isSuspended && (isTold || slot !== NO_SLOT))
        equal(this.#words.words[PARKED + slot], isTold ? parkedWord(run, isTaken ? TAKEN : SURELY) : 0)
  }
}

t.test('rule 19: a thread counts its marked turns and those without a permit, whatever the host takes', async () => {
  const step = fc.oneof(fc.constant('open' as const), fc.record({ act: fc.constantFrom(...acts), which: fc.nat(100) }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100, size: 'max' }), (steps) => {
      const play = new Play()
      for (const each of steps) {
        if (each === 'open') play.open()
        else play.act(each.act, each.which)
        play.check()
      }
    }),
  )
})
