/** Chains: a request that comes back to an agent which waits for it runs within the turn that waits. */
import t from 'tap'
import type { DramatisError } from '../../src/shared/errors.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { type Cast, type Extras, gate, openTeam, type Receive } from './teams.ts'

const CHAIN: Extras['roles'] = { manager: { reentrancy: 'chain' } }

/** What the manager does when its worker asks back. */
const managerWho = (nested: Receive): Receive => {
  return async (message, context) => {
    if (message.sender === 'worker') return nested(message, context)
    return `manager: ${(await context.request('worker', message.content)).content}`
  }
}
const worker: Receive = async ({ content }, context) => `worker: ${(await context.request('manager', content)).content}`
/** A manager that gives its task away, and a worker that asks back. */
const askingBack: Cast = { manager: managerWho(({ content }) => `told ${content}`), worker }

/** What each agent did, in order. */
function diary() {
  const lines: string[] = []
  return { lines, note: (line: string) => void lines.push(line) }
}

t.test('a worker asks the manager who awaits it, and is answered within the turn that waits', async (t) => {
  const team = openTeam(t, askingBack, { roles: CHAIN })
  const found = watchAccounts(team.host)
  const { finalOutput, orchestrationTrace } = await team.execute('why')
  t.equal(finalOutput, 'manager: worker: told why')
  const turns = orchestrationTrace.agentActivations.filter(({ agent }) => !agent.startsWith('$'))
  t.same(
    turns.map(({ agent }) => agent),
    ['manager', 'worker', 'manager'],
  )
  t.same([...found, ...leftovers(team.host)], [])
})

t.test("with reentrancy 'none', as code has it by itself, the worker waits for the end of that turn", async (t) => {
  for (const role of [{}, { reentrancy: 'none' as const }]) {
    const roles = { manager: role, worker: { limits: { turnTimeoutMs: 1_000 } } }
    const team = openTeam(t, askingBack, { roles, supervision: { deadlock: false } })
    const run = team.execute('why')
    await team.clock.advance(999)
    t.equal(team.host.directory.cell('manager')!.mailbox.waiting, 1)
    await team.clock.advance(1)
    t.match(await run, { success: false, error: { code: 'AGENT_FAILED' } })
    t.same(leftovers(team.host), [])
    const found = openTeam(t, askingBack, { roles })
    const { error } = await found.execute('why')
    t.match(error, { code: 'AGENT_FAILED', message: /A deadlock: / })
  }
})

t.test('rule 16: it passes what waits in the mailbox, from others and from its own sender', async (t) => {
  const { lines, note } = diary()
  const team = openTeam(
    t,
    {
      async manager({ content, sender }, context) {
        note(`manager hears ${content.slice(0, 10)}`)
        if (sender === '$orchestrator') await context.request('worker', 'go')
        note(`manager is done with ${content.slice(0, 10)}`)
      },
      async worker(_message, context) {
        await context.send('manager', 'urgent', { priority: 5 })
        await context.send('manager', 'before')
        await context.request('other', 'go')
        await context.request('manager', 'large'.padEnd(300_000, '.'))
        await context.request('manager', 'small')
      },
      other: (_message, context) => context.send('manager', 'from other'),
    },
    { roles: CHAIN },
  )
  t.ok((await team.execute('task')).success)
  await team.clock.advance(0)
  t.same(
    lines.map((line) => line.replace('manager ', '')),
    [
      'hears task',
      'hears large.....',
      'is done with large.....',
      'hears small',
      'is done with small',
      'is done with task',
      ...['urgent', 'before', 'from other'].flatMap((what) => [`hears ${what}`, `is done with ${what}`]),
    ],
  )
  t.same(leftovers(team.host), [])
})

t.test('rule 15: it finds its place in a full mailbox, which nobody would empty before', async (t) => {
  const team = openTeam(
    t,
    {
      manager: managerWho(({ content }) => `told ${content}`),
      async worker({ content }, context) {
        await context.send('manager', 'fills it')
        return (await context.request('manager', content)).content
      },
    },
    { roles: { manager: { reentrancy: 'chain', communication: { mailboxCapacity: 2 } } } },
  )
  const found = watchAccounts(team.host)
  t.equal((await team.execute('why')).finalOutput, 'manager: told why')
  await team.clock.advance(0)
  t.same([...found, ...leftovers(team.host)], [])
})

t.test('a chain that a send has begun is another one: nobody waits for its end', async (t) => {
  const { lines, note } = diary()
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        note(`manager hears ${sender}`)
        if (sender === 'worker') return
        await context.send('worker', 'go')
        await context.request('slow', 'go')
        note('manager is done')
      },
      worker: async (_message, context) => void (await context.request('manager', 'why')),
      slow: (_message, context) => context.sleep(10),
    },
    { roles: CHAIN },
  )
  const run = team.execute('task')
  await team.clock.advance(10)
  t.ok((await run).success)
  await team.clock.advance(0)
  t.same(lines, ['manager hears $orchestrator', 'manager is done', 'manager hears worker'])
})

t.test('the agent is at work while the nested turn is, and waits again after it', async (t) => {
  const team = openTeam(
    t,
    { manager: managerWho((_message, context) => context.sleep(10).then(() => 'told')), worker },
    { roles: CHAIN },
  )
  const told: string[] = []
  const agent = team.getAgent('manager')!
  team.events.subscribe((event) => {
    if (event.type === 'agent.status' && event.agent === 'manager') told.push(event.status)
  })
  await team.start()
  told.length = 0
  const run = team.execute('go')
  await team.clock.advance(5)
  t.equal(agent.status, 'running')
  await team.clock.advance(5)
  t.ok((await run).success)
  t.same(told, ['running', 'waiting', 'running', 'waiting', 'running', 'idle'])
})

// ---- depth

t.test('rule 21: a chain has up to 8 turns that run within others, and the error names the bound', async (t) => {
  let deepest = 0
  const pass = (to: string): Receive => {
    return async ({ content }, context) => {
      deepest = Math.max(deepest, Number(content))
      return (await context.request(to, String(Number(content) + 1))).content
    }
  }
  const told: DramatisError[] = []
  const team = openTeam(
    t,
    {
      ping: async (message, context) => {
        const answer = pass('pong')(message, context)
        return Promise.resolve(answer).catch((error: DramatisError) => {
          told.push(error)
          throw error
        })
      },
      pong: pass('ping'),
    },
    { roles: { ping: { reentrancy: 'chain' }, pong: { reentrancy: 'chain' } } },
  )
  t.match(await team.execute('1'), { success: false, error: { code: 'AGENT_FAILED' } })
  t.equal(deepest, 10) // the first of each, and 8 within them
  const [first] = [...told].filter(({ code }) => code === 'CHAIN_DEPTH')
  t.equal(first, undefined) // it was the last of pong that was refused
  const letters = team.deadLetters.list().filter(({ reason }) => reason === 'rejected')
  t.equal(letters.length, 1)
  t.match(letters[0]!.errors[0], {
    code: 'CHAIN_DEPTH',
    message: /8 turns of that chain/,
    details: { bound: 'maxChainDepth', limit: 8 },
  })
  t.same(leftovers(team.host), [])
})

t.test('an agent may ask itself', async (t) => {
  const team = openTeam(
    t,
    {
      async manager({ content }, context) {
        const left = Number(content)
        return left === 0 ? 'bottom' : `${left} ${(await context.request('manager', String(left - 1))).content}`
      },
    },
    { roles: CHAIN },
  )
  t.equal((await team.execute('8')).finalOutput, '8 7 6 5 4 3 2 1 bottom')
  t.match((await team.execute('9')).error, { code: 'AGENT_FAILED', message: /8 turns of that chain run within others/ })
})

t.test('a nested turn asks on, also those whom its chain has come by', async (t) => {
  const { lines, note } = diary()
  const steps: Record<string, string> = { a: 'b', b: 'c', c: 'a', 'a within': 'b', 'b within': 'd' }
  const tells: Receive = async ({ content, sender }, context) => {
    const { name } = context.role
    note(`${name} hears ${sender}`)
    const isFirst = !lines.slice(0, -1).some((line) => line.startsWith(`${name} `))
    const to = steps[isFirst ? name : `${name} within`]
    return to ? `${name} ${(await context.request(to, content)).content}` : name
  }
  const role = { reentrancy: 'chain' as const }
  const team = openTeam(t, { a: tells, b: tells, c: tells, d: tells }, { roles: { a: role, b: role } })
  t.equal((await team.execute('go')).finalOutput, 'a b c a b d')
  t.same(lines, ['a hears $orchestrator', 'b hears a', 'c hears b', 'a hears c', 'b hears a', 'd hears b'])
  t.same(leftovers(team.host), [])
})

// ---- one at work

t.test('it begins when the turn that waits has nothing else to do', async (t) => {
  const { lines, note } = diary()
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender === 'worker') return note(`nested at ${team.clock.monotonic() - began}`)
        await Promise.all([
          context.request('worker', 'go'),
          context.sleep(10),
          context.step('own', () => team.clock.sleep(5)),
        ])
      },
      worker,
    },
    { roles: CHAIN },
  )
  await team.start()
  const began = team.clock.monotonic()
  const run = team.execute('go')
  await team.clock.advance(10)
  t.ok((await run).success)
  t.same(lines, ['nested at 10'])
})

t.test('what the outer turn waits for is let in when the nested one is not at work', async (t) => {
  for (const pause of ['sleep', 'request']) {
    const { lines, note } = diary()
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender !== 'worker') {
            const first = await context.requestAny(['quick', 'other'], 'go')
            return note(`outer has ${first.content}`)
          }
          if (pause === 'sleep') await context.sleep(20).catch(() => {})
          else await context.request('slow', 'go').catch(() => {})
          note('nested goes on')
        },
        quick: (_message, context) => context.sleep(10).then(() => 'quick'),
        other: (_message, context) => context.request('worker', 'go').then(() => 'other'),
        worker,
        slow: (_message, context) => context.sleep(20),
      },
      { roles: CHAIN },
    )
    const run = team.execute('go')
    await team.clock.advance(10)
    t.same(lines, pause === 'sleep' ? [] : ['outer has quick', 'nested goes on'], pause) // told that nobody waits for it
    await team.clock.advance(10)
    t.ok((await run).success)
    t.same(lines.sort(), ['nested goes on', 'outer has quick'])
    t.same(leftovers(team.host), [])
  }
})

t.test('of several that come back one works at a time, and the next when that one waits', async (t) => {
  const { lines, note } = diary()
  const nested: Receive = async ({ content }, context) => {
    note(`${content} begins`)
    await context.sleep(10)
    note(`${content} asks`)
    await context.request('slow', 'go')
    note(`${content} ends`)
  }
  const asks: Receive = (_message, context) => context.request('manager', context.role.name).then(() => {})
  const team = openTeam(
    t,
    {
      manager: (message, context) =>
        message.sender === '$orchestrator'
          ? context.requestAll(['a', 'b'], 'go').then(() => 'done')
          : nested(message, context),
      a: asks,
      b: asks,
      slow: (_message, context) => context.sleep(100),
    },
    { roles: CHAIN },
  )
  const run = team.execute('go')
  await team.clock.advance(1_000)
  t.ok((await run).success)
  const [first, second] = lines[0] === 'a begins' ? ['a', 'b'] : ['b', 'a']
  t.same(lines, [
    `${first} begins`,
    `${first} asks`,
    `${second} begins`,
    `${second} asks`,
    `${first} ends`,
    `${second} ends`,
  ])
})

t.test('rule 19: with one permit for all it is passed down the chain and back', async (t) => {
  for (const concurrency of [1, 3]) {
    const team = openTeam(
      t,
      {
        manager: managerWho(async ({ content }, context) => (await context.request('expert', content)).content),
        worker,
        expert: ({ content }) => `the expert on ${content}`,
      },
      { roles: { manager: { reentrancy: 'chain', concurrency } }, maxConcurrentAgents: 1 },
    )
    const results = await Promise.all(['x', 'y'].map((query) => team.execute(query)))
    t.same(
      results.map(({ finalOutput }) => finalOutput),
      ['x', 'y'].map((query) => `manager: worker: the expert on ${query}`),
    )
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 19: when the nested turn has ended the outer one gets a permit before it goes on', async (t) => {
  for (const concurrency of [1, 2]) {
    const { lines, note } = diary()
    const { opened, open } = gate()
    const team = openTeam(
      t,
      {
        async manager({ sender }, context) {
          if (sender === 'worker') return
          await context.request('worker', 'go')
          note('manager goes on')
        },
        async worker(_message, context) {
          await context.request('manager', 'why')
          void context.send('holder', 'go') // takes the permit that the worker's end sets free
        },
        async holder() {
          note('holder holds')
          await opened
          note('holder ends')
        },
      },
      { roles: { manager: { reentrancy: 'chain', concurrency }, holder: { priority: 1 } }, maxConcurrentAgents: 1 },
    )
    const run = team.execute('go')
    await team.clock.advance(0)
    t.same(lines, ['holder holds'])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder holds', 'holder ends', 'manager goes on'])
    t.same(leftovers(team.host), [])
  }
})
