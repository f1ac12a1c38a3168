/** Rule 19: how many turns of a run are under way at a time, and who is next. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { settingsFrom } from '../../src/runtime/settings/settings.ts'
import { leftovers } from './accounts.ts'
import { askAll, type Cast, gate, localTeam, openTeam, outcomeOf, type Receive } from './teams.ts'

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

t.test('rule 19: 32 turns of a run at a time, unless told otherwise', async (t) => {
  t.equal(settingsFrom({ agents: [{ name: 'a' }] }, { modules: new Set(['a']) }).maxConcurrentAgents, 32)
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
    { first: work, low: work, high: work, middle: work, alike: work, other: work },
    {
      maxConcurrentAgents: 1,
      orchestration: askAll,
      roles: { low: { priority: -1 }, high: { priority: 9 }, middle: { priority: 5 }, alike: { priority: 5 } },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(60)
  await run
  t.same(order, ['first', 'high', 'middle', 'alike', 'other', 'low'], 'of equals the one that asked first')
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
        if (message.content === 'many') for (let i = 0; i < 4_500; i++) await context.send('talker', `${i}`)
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
  t.equal(order.length, 4_502)
  t.ok(order.indexOf('other') < 3_000, 'after what stood in its window at most, twice')
})

t.test('rule 19: a turn that is tried again asks for its permit anew, behind those who wait', async (t) => {
  const order: string[] = []
  const team = localTeam(
    t,
    {
      first(_message, { attempt }) {
        order.push(`first ${attempt}`)
        if (attempt === 1) throw new Error('again')
      },
      other: () => void order.push('other'),
    },
    { maxConcurrentAgents: 1, orchestration: askAll, supervision: { onHandlerError: 'retry' } },
  )
  await team.execute('go')
  t.same(order, ['first 1', 'other', 'first 2'])
})

t.test('rule 19: who is no longer wanted when a permit comes free is passed over', async (t) => {
  const { opened, open } = gate()
  const team = openTeam(
    t,
    { holder: () => opened, unwanted: () => 'unwanted', other: () => 'other' },
    {
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        async run(script) {
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
      },
    },
  )
  const run = outcomeOf(team.execute('go'))
  for (let i = 0; i < 5; i++) await team.clock.advance(1)
  t.match(run.value, { finalOutput: 'CANCELLED other' })
  t.same(leftovers(team.host), [])
})

t.test('rule 19: an agent that is down when a permit comes free keeps nobody waiting', async (t) => {
  const order: string[] = []
  const { opened, open } = gate()
  const team = openTeam(
    t,
    { holder: () => opened, down: () => void order.push('down'), other: () => void order.push('other') },
    { maxConcurrentAgents: 1, orchestration: askAll },
  )
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  for (let death = 0; death < 2; death++) {
    team.crash('down')
    await team.clock.advance(0)
  }
  t.equal(team.host.directory.cell('down')!.status, 'restarting')
  open()
  await team.clock.advance(0)
  t.same(order, ['other'])
  await team.clock.runToIdle()
  t.same(order, ['other', 'down'])
  t.equal(run.value?.success, true)
  t.same(leftovers(team.host), [])
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
  const team = openTeam(
    t,
    { holder: () => opened, keeper: () => opened, both: work, other: work },
    { maxConcurrentAgents: 1, orchestration: inOrder },
  )
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
  t.same(leftovers(team.host), [])
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
  t.same(leftovers(team.host), [])
})

t.test(
  'rule 19: a permit goes back when a message of another run has come before the one that it is for',
  async (t) => {
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
    t.same(leftovers(team.host), [])
  },
)
