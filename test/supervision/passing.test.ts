/** Rules 16 and 19: an agent whose next message waits for a permit goes on with other runs, and keeps their order. */
import t from 'tap'
import { leftovers, watchAccounts } from './accounts.ts'
import { ask, gate, openTeam, outcomeOf, type Receive } from './teams.ts'

/** A script that asks and tells as its query says: `worker:ask holder:tell`. */
const script = {
  strategy: 'custom' as const,
  async run(orchestrator: Parameters<Receive>[1], query: string): Promise<string> {
    const asked = query.split(' ').map((part) => {
      const [to = '', content = ''] = part.split(':')
      return orchestrator.request(to, content)
    })
    return (await Promise.all(asked)).map(({ content }) => content).join(' ')
  },
}

/** One permit a run: `holder` keeps that of its run until `open`, `worker` notes what it gets. */
function contended(t: Parameters<typeof openTeam>[0], cast: Record<string, Receive> = {}, roles = {}) {
  const { opened, open } = gate()
  const got: string[] = []
  const team = openTeam(
    t,
    {
      async holder({ content }) {
        if (content === 'hold') await opened
        return 'held'
      },
      worker({ content }) {
        got.push(content)
        return content
      },
      ...cast,
    },
    { maxConcurrentAgents: 1, orchestration: script, roles },
  )
  return { team, got, open, accounts: watchAccounts(team.host) }
}

t.test('rule 19: a message that waits for the permit of its run does not hold up those of other runs', async (t) => {
  const { team, got, open, accounts } = contended(t)
  const first = outcomeOf(team.execute('holder:hold worker:first'))
  await team.clock.advance(0)
  const others = await Promise.all(['second', 'third'].map((content) => team.execute(`worker:${content}`)))
  t.same(
    others.map(({ finalOutput }) => finalOutput),
    ['second', 'third'],
  )
  t.same(got, ['second', 'third'])
  t.equal(first.settled, false)
  open()
  await team.clock.runToIdle()
  t.match(first.value, { finalOutput: 'held first' })
  t.same([got, accounts, leftovers(team.host)], [['second', 'third', 'first'], [], []])
})

t.test('rule 19: messages of a run that waits keep their order, whatever has passed them', async (t) => {
  const { team, got, open } = contended(t)
  const waiting = team.execute('holder:hold worker:1 worker:2 worker:3')
  await team.clock.advance(0)
  await team.execute('worker:other')
  open()
  await team.clock.runToIdle()
  t.equal((await waiting).finalOutput, 'held 1 2 3')
  t.same(got, ['other', '1', '2', '3'])
})

t.test('rule 16: what one agent sends in two runs keeps its order, so the later waits for the earlier', async (t) => {
  const { team, got, open } = contended(t, { sender: () => '' })
  const { id, result } = team.launch('holder:hold')
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'second', sender: 'sender', runId: id })
  await team.sendMessage({ recipient: 'worker', content: 'third', sender: 'sender' })
  await team.sendMessage({ recipient: 'worker', content: 'urgent', sender: 'sender', priority: 1 })
  await team.sendMessage({ recipient: 'worker', content: 'of the user' })
  await team.clock.advance(0)
  open()
  await team.clock.runToIdle()
  await result
  t.same(got, ['urgent', 'of the user', 'second', 'third'])
})

t.test('rule 16: what the caller outside sends keeps its order too', async (t) => {
  const { team, got, open } = contended(t)
  const { id, result } = team.launch('holder:hold')
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'first', runId: id })
  await team.sendMessage({ recipient: 'worker', content: 'second' })
  t.equal((await team.execute('worker:of-a-script')).finalOutput, 'of-a-script')
  open()
  await team.clock.runToIdle()
  await result
  t.same(got, ['of-a-script', 'first', 'second'])
})

t.test(
  'rule 19: who could not come when its permit was free waits for it next, however much others want',
  async (t) => {
    const order: string[] = []
    const works: Receive = async ({ content }, context) => {
      order.push(`${context.role.name} ${content}`)
      await context.sleep(10)
      return content
    }
    const { team } = contended(t, { worker: works, rival: works, other: works })
    // The run's permit goes from rival to other and back, and a message of another run is always there for the worker.
    const run = team.execute(
      `rival:0 worker:wanted ${[1, 2, 3, 4, 5, 6].map((i) => `other:${i} rival:${i}`).join(' ')}`,
    )
    for (let i = 0; i < 30; i++) {
      void team.sendMessage({ recipient: 'worker', content: `flood ${i}` })
      await team.clock.advance(7)
    }
    await team.clock.runToIdle()
    await run
    const others = order.filter((what) => !what.startsWith('worker flood'))
    t.equal(order.length - others.length, 30)
    const place = others.indexOf('worker wanted')
    t.ok(place < 10, `it was the ${place + 1}th of ${others.length} of its run`)
    t.same(leftovers(team.host), [])
  },
)

t.test('rule 19: many runs on few permits all come to their end, with every permit back', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const busy: Receive = async ({ content }, context) => {
      await context.sleep(Math.floor(context.random() * 5))
      return content
    }
    const names = ['a', 'b', 'c']
    const team = openTeam(t, Object.fromEntries(names.map((name) => [name, busy])), {
      maxConcurrentAgents: 1,
      orchestration: script,
      seed,
    })
    const accounts = watchAccounts(team.host)
    const runs = Array.from({ length: 8 }, (_, i) =>
      team.execute(names.map((name, n) => `${names[(n + i) % 3] ?? name}:${n}`).join(' ')),
    )
    await team.clock.advance(13)
    team.crash(names[seed % 3]!)
    await team.clock.runToIdle()
    for (const { finalOutput } of await Promise.all(runs)) t.equal(finalOutput, '0 1 2')
    t.same([accounts, leftovers(team.host)], [[], []])
    t.same(
      team.host.directory.cells.map(({ permit }) => permit).filter((permit) => permit !== undefined),
      [],
    )
  }
})

t.test('rule 19: a retried message that waits for its permit is not passed by those behind it', async (t) => {
  const handled: string[] = []
  const { team, open } = contended(
    t,
    {
      async worker({ content }, context) {
        if (content === 'fails' && context.attempt === 1) throw new Error('again')
        handled.push(content)
        return content
      },
      third: () => 'third',
    },
    { worker: { supervision: { onHandlerError: 'retry' } } },
  )
  const run = team.execute('worker:fails holder:hold worker:behind third:x')
  await team.clock.advance(0)
  t.equal(await ask(team, 'worker', 'other'), 'other')
  open()
  await team.clock.runToIdle()
  await run
  t.same(
    handled.filter((content) => content !== 'other'),
    ['fails', 'behind'],
  )
})

t.test(
  'rule 19: agents that wait for the permits of the same two runs do not pass them to each other for ever',
  async (t) => {
    const heard: string[] = []
    const works: Receive = async ({ content }, { role, runId }) => void heard.push(`${role.name} ${runId} ${content}`)
    const team = openTeam(
      t,
      {
        a: works,
        b: works,
        hog: (_message, context) => context.sleep(1_000),
        short: (_message, context) => context.sleep(10),
      },
      {
        maxConcurrentAgents: 1,
        orchestration: {
          strategy: 'custom',
          async run(script, query) {
            const [first, ...others] = query.split(' ')
            const asked = [script.request(first!, '')]
            await script.sleep(1)
            asked.push(...others.map((name) => script.request(name, '')))
            await Promise.all(asked)
            return ''
          },
        },
      },
    )
    const long = outcomeOf(team.execute('hog a b', { runId: 'long' }))
    await team.clock.advance(2)
    const short = outcomeOf(team.execute('short a b', { runId: 'short' }))
    await team.clock.advance(100)
    t.same(heard, ['a short ', 'b short '])
    t.equal(short.value?.success, true)
    await team.clock.runToIdle()
    t.equal(long.value?.success, true)
    t.same(leftovers(team.host), [])
  },
)
