/** Chains that are cut off: agents that die within them, requests that are withdrawn, deadlines that pass. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { type Extras, gate, never, openTeam, outcomeOf, type Receive } from './teams.ts'

const CHAIN: Extras['roles'] = { manager: { reentrancy: 'chain' } }

const managerWho = (nested: Receive): Receive => {
  return async (message, context) => {
    if (message.sender === 'worker') return nested(message, context)
    return `manager: ${(await context.request('worker', message.content)).content}`
  }
}
const worker: Receive = async ({ content }, context) => `worker: ${(await context.request('manager', content)).content}`

/** What was done, how often. */
function counter() {
  const counts: Record<string, number> = {}
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1
  }
  return { counts, count }
}

t.test(
  'rule 6: when its agent dies both turns come again, the nested one within the other, and each effect is done once',
  async (t) => {
    const { counts, count } = counter()
    const attempts: string[] = []
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          const own = sender === 'worker' ? 'nested' : 'outer'
          attempts.push(`${own} ${context.attempt}`)
          await context.step(`${own} before`, () => count(`${own} before`))
          const to = own === 'nested' ? 'slow' : 'worker'
          const { content } = await context.request(to, 'go')
          await context.step(`${own} after`, () => count(`${own} after`))
          return `${own} ${content}`
        },
        worker,
        slow: (_message, context) => context.sleep(10).then(() => 'slow'),
      },
      { roles: CHAIN },
    )
    const found = watchAccounts(team.host)
    const run = team.execute('go')
    await team.clock.advance(5)
    team.crash('manager')
    await team.clock.advance(5)
    t.equal((await run).finalOutput, 'outer worker: nested slow')
    t.same(counts, { 'outer before': 1, 'nested before': 1, 'nested after': 1, 'outer after': 1 })
    t.same(attempts, ['outer 1', 'nested 1', 'outer 2', 'nested 2'])
    t.same([...found, ...leftovers(team.host)], [])
  },
)

t.test('rule 6: a request that has not begun when its agent dies gains no attempt', async (t) => {
  const seen: number[] = []
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender === 'worker') return void seen.push(context.attempt)
        await Promise.all([context.request('worker', 'go'), context.sleep(10)])
      },
      worker,
    },
    { roles: CHAIN },
  )
  const run = team.execute('go')
  await team.clock.advance(5)
  t.equal(team.host.directory.cell('manager')!.mailbox.handed.nested, 1)
  team.crash('manager')
  await team.clock.advance(20)
  t.ok((await run).success)
  t.same(seen, [1])
  t.same(leftovers(team.host), [])
})

t.test('a request that comes back while its agent is dead runs within the turn that comes again', async (t) => {
  const team = openTeam(
    t,
    {
      manager: managerWho(() => 'told'),
      async worker(message, context) {
        await context.sleep(10)
        return worker(message, context)
      },
    },
    { roles: CHAIN, supervision: { backoff: { baseMs: 100, capMs: 100 } } },
  )
  const run = team.execute('go')
  await team.clock.advance(5)
  team.crash('manager') // the first restart is at once
  await team.clock.advance(1)
  team.crash('manager')
  await team.clock.advance(4)
  t.equal(team.host.directory.cell('manager')!.life, undefined)
  await team.clock.advance(100)
  t.equal((await run).finalOutput, 'manager: worker: told')
  t.same(leftovers(team.host), [])
})

t.test(
  'with several instances it goes to the one that waits, also when another one tries the turn again',
  async (t) => {
    const team = openTeam(
      t,
      {
        async manager(message, context) {
          if (message.content === 'busy') return context.sleep(1_000).then(() => 'slept')
          return managerWho(() => context.sleep(100).then(() => 'told'))(message, context)
        },
        worker,
      },
      { roles: { manager: { reentrancy: 'chain', instances: 3 } } },
    )
    const { instances } = team.host.directory.cell('manager')!
    const holders = () => instances.filter(({ mailbox }) => mailbox.handed.nested > 0)
    const busy = team.execute('busy')
    await team.clock.advance(1)
    const run = team.execute('go')
    await team.clock.advance(5)
    t.same(
      holders().map(({ instance, mailbox }) => [instance, mailbox.handed.size]),
      [[1, 2]],
    )
    team.crashCell(holders()[0])
    await team.clock.advance(5)
    t.same(
      holders().map(({ mailbox }) => mailbox.handed.size),
      [2],
    )
    await team.clock.advance(1_000)
    t.equal((await run).finalOutput, 'manager: worker: told')
    t.equal((await busy).finalOutput, 'slept')
    t.same(leftovers(team.host), [])
  },
)

t.test('rule 9: who asked waits under its deadline, also while the nested turn waits to begin again', async (t) => {
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender === 'worker') return context.sleep(1_000).then(() => 'late')
        const asked = context.request('worker', 'go')
        if (context.attempt > 1) await context.sleep(1_000)
        return (await asked).content
      },
      worker: async (_message, context) =>
        await context.request('manager', 'why', { timeoutMs: 50 }).then(
          ({ content }) => content,
          ({ code }) => code,
        ),
    },
    { roles: CHAIN },
  )
  const run = team.execute('go')
  await team.clock.advance(10)
  team.crash('manager')
  await team.clock.advance(39)
  t.equal(team.host.directory.cell('worker')!.turns, 0)
  await team.clock.advance(1)
  t.equal(team.host.directory.cell('worker')!.turns, 1)
  await team.clock.advance(1_000)
  t.equal((await run).finalOutput, 'REQUEST_TIMEOUT')
  t.same(leftovers(team.host), [])
})

t.test('rule 0: a nested turn that fails is tried again within the same turn', async (t) => {
  const seen: number[] = []
  const team = openTeam(
    t,
    {
      manager: managerWho((_message, context) => {
        seen.push(context.attempt)
        if (context.attempt === 1) throw new Error('not yet')
        return 'told'
      }),
      worker,
    },
    { roles: { manager: { reentrancy: 'chain', concurrency: 2 } }, supervision: { onHandlerError: 'retry' } },
  )
  t.equal((await team.execute('go')).finalOutput, 'manager: worker: told')
  t.same(seen, [1, 2])
  t.same(leftovers(team.host), [])
})

t.test('rule 7: of turns one within the other the one that was at work answers for the death', async (t) => {
  for (const guilty of ['nested', 'outer']) {
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender !== 'worker') {
            const { content } = await context.requestAny(['worker', 'quick'], 'go')
            if (guilty === 'outer') team.crash('manager', new Error('poison'))
            return content
          }
          if (guilty === 'nested') team.crash('manager', new Error('poison'))
          await context.request('slow', 'go')
          return 'told'
        },
        worker: async (_message, context) =>
          await context.request('manager', 'why').then(
            ({ content }) => content,
            ({ code }) => code,
          ),
        quick: (_message, context) => context.sleep(guilty === 'outer' ? 10 : 1_000).then(() => 'quick'),
        slow: (_message, context) => context.sleep(100).then(() => 'slow'),
      },
      { roles: CHAIN },
    )
    const found = watchAccounts(team.host)
    const run = team.execute('go')
    await team.clock.advance(2_000)
    const poisoned = team.deadLetters.list().filter(({ reason }) => reason === 'poison')
    t.equal(poisoned.length, 1)
    if (guilty === 'nested') t.equal((await run).finalOutput, 'AGENT_CRASHED')
    else t.equal((await run).error?.code, 'AGENT_CRASHED')
    t.match(poisoned[0]!.message, { sender: guilty === 'nested' ? 'worker' : '$orchestrator' })
    t.same([...found, ...leftovers(team.host)], [])
  }
})

// ---- cancellation

t.test('who asks back and no longer waits has the nested turn stopped, begun or not', async (t) => {
  for (const outer of ['parks', 'works']) {
    const heard: string[] = []
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender !== 'worker') {
            const asked = context.request('worker', 'go')
            if (outer === 'works') await context.sleep(20)
            return (await asked).content
          }
          heard.push('begun')
          await context.sleep(1_000).catch((error) => heard.push(error.code))
        },
        async worker(_message, context) {
          const gone = new AbortController()
          const asked = context.request('manager', 'why', { signal: gone.signal }).catch(({ code }) => code)
          await context.sleep(10)
          gone.abort()
          return await asked
        },
      },
      { roles: CHAIN },
    )
    const run = team.execute('go')
    await team.clock.advance(20)
    t.equal((await run).finalOutput, 'CANCELLED', outer)
    t.same(heard, outer === 'parks' ? ['begun', 'CANCELLED'] : [])
    t.same(leftovers(team.host), [])
  }
})

t.test('with the outer turn goes what it waits for, down to the turn within it', async (t) => {
  const stopped: string[] = []
  const stops = (who: string, { signal }: AgentContext) => signal.addEventListener('abort', () => stopped.push(who))
  const team = openTeam(
    t,
    {
      manager(message, context) {
        stops(message.sender === 'worker' ? 'nested' : 'outer', context)
        return managerWho(() => context.sleep(1_000).then(() => 'late'))(message, context)
      },
      worker(message, context) {
        stops('worker', context)
        return worker(message, context)
      },
    },
    {
      roles: CHAIN,
      maxConcurrentAgents: 1,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const gone = new AbortController()
          const asked = script.request('manager', 'go', { signal: gone.signal }).catch(({ code }) => code)
          await script.sleep(10)
          gone.abort()
          return await asked
        },
      },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(10)
  t.equal((await run).finalOutput, 'CANCELLED')
  t.same(stopped.sort(), ['nested', 'outer', 'worker'])
  t.same(leftovers(team.host), [])
})

t.test('rule 19: a nested turn that is to stop is told with its permit, before the outer one goes on', async (t) => {
  for (const concurrency of [1, 2]) {
    const { opened, open } = gate()
    const lines: string[] = []
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender === 'manager') {
            context.signal.addEventListener('abort', () => lines.push('nested is told'))
            return void (await context.request('holder', 'go'))
          }
          await context.request('manager', 'why', { timeoutMs: 20 }).catch(({ code }) => lines.push(`outer: ${code}`))
        },
        async holder(_message, context) {
          await opened
          lines.push(`holder ends${context.signal.aborted ? ', told' : ''}`)
        },
      },
      { roles: { manager: { reentrancy: 'chain', concurrency } }, maxConcurrentAgents: 1 },
    )
    const run = team.execute('go')
    await team.clock.advance(20)
    t.same(lines, [])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder ends, told', 'nested is told', 'outer: REQUEST_TIMEOUT'])
    t.same(leftovers(team.host), [])
  }
})

t.test('a nested turn goes on by itself when the outer one has ended, as long as its grace', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const team = openTeam(
    t,
    {
      async manager({ content, sender }, context) {
        heard.push(content)
        if (sender === 'worker') return opened.then(() => 'nobody hears it')
        if (content === 'later') return 'later'
        return (await context.requestAny(['worker', 'quick'], 'go')).content
      },
      worker: (_message, context) => context.request('manager', 'nested').then(() => {}),
      quick: (_message, context) => context.sleep(10).then(() => 'quick'),
    },
    { roles: CHAIN },
  )
  const run = team.launch('go')
  await team.clock.advance(10)
  t.same(heard, ['go', 'nested']) // at work: what the outer one waits for is kept
  const later = outcomeOf(team.sendMessage({ recipient: 'manager', content: 'later', requiresResponse: true }))
  void run.cancel('enough')
  await team.clock.advance(1)
  t.same(heard, ['go', 'nested'])
  open()
  await team.clock.advance(0)
  t.match(later.value, { content: 'later' })
  t.equal((await run.result).error?.code, 'RUN_ABORTED')
  t.same(leftovers(team.host), [])
})

t.test('a nested turn that does not stop when it is told to costs the thread', async (t) => {
  const team = openTeam(
    t,
    {
      manager: managerWho(() => never),
      worker: async (_message, context) =>
        await context.request('manager', 'why', { timeoutMs: 100 }).then(
          () => '',
          ({ code }) => code,
        ),
    },
    { roles: CHAIN, supervision: { stopGraceMs: 50 } },
  )
  const run = team.execute('go')
  await team.clock.advance(99)
  t.equal(team.host.directory.cell('manager')!.epoch, 1)
  await team.clock.advance(1) // its own deadline holds, from its own start
  t.equal(team.host.directory.cell('worker')!.turns, 1)
  await team.clock.advance(50)
  t.equal(team.host.directory.cell('manager')!.epoch, 2)
  t.equal((await run).finalOutput, 'manager: REQUEST_TIMEOUT')
  t.same(leftovers(team.host), [])
})

t.test('one that waits for the outer turn to park expires like any other message that waits', async (t) => {
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender === 'worker') return 'never told'
        const asked = context.request('worker', 'go')
        await context.sleep(1_000)
        return (await asked).content
      },
      worker: async (_message, context) =>
        await context.request('manager', 'why').then(
          ({ content }) => content,
          ({ code }) => code,
        ),
    },
    { roles: CHAIN, communication: { queueTimeoutMs: 100 } },
  )
  const run = team.execute('go')
  await team.clock.advance(100)
  t.equal(team.host.directory.cell('worker')!.turns, 1)
  await team.clock.advance(900)
  t.equal((await run).finalOutput, 'MESSAGE_EXPIRED')
  t.same(leftovers(team.host), [])
})

t.test('the time of the outer turn runs on while another is at work within it', async (t) => {
  const team = openTeam(
    t,
    {
      manager: managerWho((_message, context) => context.sleep(60).then(() => 'told')),
      async worker(message, context) {
        await worker(message, context)
        return worker(message, context)
      },
    },
    { roles: { manager: { reentrancy: 'chain', limits: { turnTimeoutMs: 100 } } } },
  )
  const run = team.execute('go')
  await team.clock.advance(100)
  t.match(await run, { success: false, error: { code: 'TURN_TIMEOUT' } })
  await team.clock.advance(0)
  t.same(leftovers(team.host), [])
})

// ---- streams and state

t.test('a nested turn streams its answer, and reads one', async (t) => {
  const read = async (stream: AsyncIterable<string>) => {
    let pieces = 0
    for await (const _piece of stream) pieces += 1
    return pieces
  }
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender !== 'worker') return `outer read ${await read(context.requestStream('worker', 'go'))}`
        for (let i = 0; i < 500; i++) {
          context.emit('piece')
          await context.step(`${i}`, () => i)
        }
        return
      },
      async worker(_message, context) {
        for (let i = 0; i < 200; i++) context.emit('own')
        const pieces = await read(context.requestStream('manager', 'why'))
        for (let i = 0; i < pieces; i++) {
          context.emit('own')
          await context.step(`${i}`, () => i)
        }
      },
    },
    { roles: CHAIN, maxConcurrentAgents: 1, supervision: { deadlock: false } },
  )
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(run.value, { finalOutput: 'outer read 700' })
  t.same(leftovers(team.host), [])
})

t.test('what both turns change in a state counts: each is made of what stands when it commits', async (t) => {
  const seen: string[] = []
  let outer: { readonly state: unknown } | undefined
  const team = openTeam(
    t,
    {
      manager: defineAgent<unknown, unknown, { log: string[] }, { count: number }>({
        initialState: { log: [] },
        initialRunState: { count: 0 },
        async receive({ sender, content }, context) {
          const own = sender === 'worker' ? `nested ${content}` : 'outer'
          const change = () => {
            context.setState(({ log }) => void log.push(own))
            context.setRunState((draft) => {
              draft.count += 1
            })
          }
          change()
          seen.push(`${own}: ${context.state.log} ${context.runState.count}`)
          if (sender === 'worker') {
            if (content === 'fails') throw new Error('its changes go with it')
            return
          }
          outer = context
          await context.request('worker', 'go')
          change()
          seen.push(`${own}: ${context.state.log} ${context.runState.count}`)
        },
      }),
      async worker(_message, context) {
        await context.request('manager', 'fails').catch(() => {})
        await context.request('manager', 'works')
      },
    },
    { roles: CHAIN },
  )
  t.ok((await team.execute('go')).success)
  t.same(seen, [
    'outer: outer 1',
    'nested fails: nested fails 1',
    'nested works: nested works 1',
    'outer: nested works,outer,outer 3',
  ])
  t.same(team.host.directory.cell('manager')!.state, { log: ['nested works', 'outer', 'outer'] })
  t.same(outer?.state, { log: ['nested works', 'outer', 'outer'] }, 'also for who looks later')
  team.crash('manager')
  await team.clock.advance(0)
  t.ok((await team.execute('go')).success)
  t.equal(seen.at(-1), 'outer: nested works,outer,outer,nested works,outer,outer 3')
})
