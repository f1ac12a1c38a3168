/** Chains: a request that comes back to an agent which waits for it runs within the turn that waits. */
import t from 'tap'
import type { AgentContext } from '../../src/actors/definition/context.ts'
import { defineAgent } from '../../src/actors/definition/definition.ts'
import { chainOf, isNested, MAX_CHAIN_DEPTH } from '../../src/runtime/host/delegation.ts'
import type { DramatisError } from '../../src/shared/errors.ts'
import { leftovers } from '../kit/accounts.ts'
import { pluck } from '../kit/lists.ts'
import {
  answerOf,
  type Cast,
  type Extras,
  gate,
  given,
  never,
  type OpenTeam,
  openTeam,
  outcomeOf,
  type Receive,
  statusesOf,
} from '../kit/team.ts'

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
  const { finalOutput, orchestrationTrace } = await team.execute('why')
  t.equal(finalOutput, 'manager: worker: told why')
  const turns = orchestrationTrace.agentActivations.filter(({ agent }) => !agent.startsWith('$'))
  t.same(pluck(turns, 'agent'), ['manager', 'worker', 'manager'])
})

t.test("with reentrancy 'none', as code has it by itself, the worker waits for the end of that turn", async (t) => {
  for (const role of [{}, { reentrancy: 'none' as const }]) {
    const roles = { manager: role, worker: { limits: { turnTimeoutMs: 1_000 } } }
    const team = openTeam(t, askingBack, { roles, supervision: { deadlock: false } })
    const run = team.execute('why')
    await team.clock.advance(999)
    t.equal(team.agent('manager').mailbox.waiting, 1)
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
  const team = given(t, { roles: CHAIN }).team({
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
  })
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
})

t.test('rule 15: it finds its place in a full mailbox, which nobody would empty before', async (t) => {
  const team = given(t, { roles: { manager: { reentrancy: 'chain', communication: { mailboxCapacity: 2 } } } }).team({
    manager: managerWho(({ content }) => `told ${content}`),
    async worker({ content }, context) {
      await context.send('manager', 'fills it')
      return (await context.request('manager', content)).content
    },
  })
  t.equal((await team.execute('why')).finalOutput, 'manager: told why')
  await team.clock.advance(0)
})

t.test('a chain that a send has begun is another one: nobody waits for its end', async (t) => {
  const { lines, note } = diary()
  const team = given(t, { roles: CHAIN }).team({
    async manager({ sender }, context) {
      note(`manager hears ${sender}`)
      if (sender === 'worker') return
      await context.send('worker', 'go')
      await context.request('slow', 'go')
      note('manager is done')
    },
    worker: async (_message, context) => void (await context.request('manager', 'why')),
    slow: (_message, context) => context.sleep(10),
  })
  t.ok((await team.within(10, team.execute('task'))).success)
  await team.clock.advance(0)
  t.same(lines, ['manager hears $orchestrator', 'manager is done', 'manager hears worker'])
})

t.test('the agent is at work while the nested turn is, and waits again after it', async (t) => {
  const team = given(t, { roles: CHAIN }).team({
    manager: managerWho((_message, context) => context.sleep(10).then(() => 'told')),
    worker,
  })
  const agent = team.getAgent('manager')!
  const told = statusesOf(team, 'manager')
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
  const team = given(t, { roles: { ping: { reentrancy: 'chain' }, pong: { reentrancy: 'chain' } } }).team({
    ping: async (message, context) => {
      const answer = pass('pong')(message, context)
      return Promise.resolve(answer).catch((error: DramatisError) => {
        told.push(error)
        throw error
      })
    },
    pong: pass('ping'),
  })
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
})

t.test('an agent may ask itself', async (t) => {
  const team = given(t, { roles: CHAIN }).team({
    async manager({ content }, context) {
      const left = Number(content)
      return left === 0 ? 'bottom' : `${left} ${(await context.request('manager', String(left - 1))).content}`
    },
  })
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
})

// ---- one at work

t.test('it begins when the turn that waits has nothing else to do', async (t) => {
  const { lines, note } = diary()
  const team = given(t, { roles: CHAIN }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return note(`nested at ${team.clock.monotonic() - began}`)
      await Promise.all([
        context.request('worker', 'go'),
        context.sleep(10),
        context.step('own', () => team.clock.sleep(5)),
      ])
    },
    worker,
  })
  await team.start()
  const began = team.clock.monotonic()
  t.ok((await team.within(10, team.execute('go'))).success)
  t.same(lines, ['nested at 10'])
})

t.test('what the outer turn waits for is let in when the nested one is not at work', async (t) => {
  for (const pause of ['sleep', 'request']) {
    const { lines, note } = diary()
    const team = given(t, { roles: CHAIN }).team({
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
    })
    const run = team.execute('go')
    await team.clock.advance(10)
    t.same(lines, pause === 'sleep' ? [] : ['outer has quick', 'nested goes on'], pause) // told that nobody waits for it
    await team.clock.advance(10)
    t.ok((await run).success)
    t.same(lines.sort(), ['nested goes on', 'outer has quick'])
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
  const team = given(t, { roles: CHAIN }).team({
    manager: (message, context) =>
      message.sender === '$orchestrator'
        ? context.requestAll(['a', 'b'], 'go').then(() => 'done')
        : nested(message, context),
    a: asks,
    b: asks,
    slow: (_message, context) => context.sleep(100),
  })
  t.ok((await team.within(1_000, team.execute('go'))).success)
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
    const team = given(t, { roles: { manager: { reentrancy: 'chain', concurrency } }, maxConcurrentAgents: 1 }).team({
      manager: managerWho(async ({ content }, context) => (await context.request('expert', content)).content),
      worker,
      expert: ({ content }) => `the expert on ${content}`,
    })
    const results = await Promise.all(['x', 'y'].map((query) => team.execute(query)))
    t.same(
      pluck(results, 'finalOutput'),
      ['x', 'y'].map((query) => `manager: worker: the expert on ${query}`),
    )
  }
})

t.test('rule 19: when the nested turn has ended the outer one gets a permit before it goes on', async (t) => {
  for (const concurrency of [1, 2]) {
    const { lines, note } = diary()
    const { opened, open } = gate()
    const team = given(t, {
      roles: { manager: { reentrancy: 'chain', concurrency }, holder: { priority: 1 } },
      maxConcurrentAgents: 1,
    }).team({
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
    })
    const run = team.execute('go')
    await team.clock.advance(0)
    t.same(lines, ['holder holds'])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder holds', 'holder ends', 'manager goes on'])
  }
})

// Chains and permits: turns of one run in one thread share one, and one of them works at a time, beside turns of
// other runs.

const manager = (concurrency: number): Extras['roles'] => ({ manager: { reentrancy: 'chain', concurrency } })

t.test('rule 19: a nested turn waits for a permit, as the answer to the one that waits would', async (t) => {
  for (const concurrency of [1, 2]) {
    const { opened, open } = gate()
    const lines: string[] = []
    const team = given(t, { roles: { ...manager(concurrency), holder: { priority: 1 } }, maxConcurrentAgents: 1 }).team(
      {
        async manager({ sender }, context) {
          if (sender === 'worker') lines.push('nested begins')
          else await context.request('worker', 'go')
        },
        async worker(message, context) {
          void context.send('holder', 'go')
          return worker(message, context)
        },
        async holder() {
          lines.push('holder holds')
          await opened
          lines.push('holder ends')
        },
      },
    )
    const run = team.execute('go')
    await team.clock.advance(0)
    t.same(lines, ['holder holds'])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder holds', 'holder ends', 'nested begins'])
  }
})

t.test('rule 19: the outer turn at work keeps the permit while the nested one waits', async (t) => {
  const lines: string[] = []
  const team = given(t, {
    roles: manager(1),
    maxConcurrentAgents: 2,
    script: async (script) => {
      const asked = script.request('manager', 'go')
      await script.sleep(20)
      await Promise.all([asked, script.request('holder', 'go')])
      return ''
    },
  }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return void (await context.request('slow', 'go'))
      const asked = context.request('worker', 'go')
      await context.request('quick', 'go')
      await context.sleep(50)
      lines.push('outer has slept')
      await asked
    },
    worker,
    quick: (_message, context) => context.sleep(10),
    slow: (_message, context) => context.sleep(200),
    holder: () => void lines.push('holder'),
  })
  t.ok((await team.within(300, team.execute('go'))).success)
  t.same(lines, ['outer has slept', 'holder'])
})

t.test('a run whose turn has had another within it parks by itself, beside turns of other runs', async (t) => {
  const team = given(t, { roles: manager(2), maxConcurrentAgents: 1 }).team({
    async manager({ content, sender }, context) {
      if (sender === 'worker') return 'told'
      if (content === 'busy') return context.sleep(1_000).then(() => 'slept')
      await context.request('worker', 'go')
      return (await context.request('other', 'go')).content
    },
    async worker(message, context) {
      await worker(message, context)
      await context.sleep(10)
      return 'asked'
    },
    other: () => 'other',
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(5)
  const busy = team.execute('busy')
  await team.clock.advance(5)
  t.match(run.value, { finalOutput: 'other' })
  await team.clock.advance(1_000)
  t.equal((await busy).finalOutput, 'slept')
})

t.test('a nested turn takes no place of another run', async (t) => {
  const team = given(t, { roles: manager(2) }).team({
    async manager({ content, sender }, context) {
      if (sender === 'worker') return context.sleep(100).then(() => 'told')
      return content === 'go' ? (await context.request('worker', 'go')).content : 'at once'
    },
    worker,
  })
  const run = team.execute('go')
  await team.clock.advance(5)
  const other = outcomeOf(team.execute('other'))
  await team.clock.advance(0)
  t.match(other.value, { finalOutput: 'at once' })
  await team.clock.advance(100)
  t.equal((await run).finalOutput, 'worker: told')
})

t.test('what was handed over behind the outer turn stays behind it', async (t) => {
  const lines: string[] = []
  const team = given(t, {
    roles: manager(1),
    script: async (script) => {
      for (let i = 0; i < 50; i++) await script.request('manager', 'quick') // then more than one is handed over
      await Promise.all(['go', 'behind'].map((content) => script.request('manager', content)))
      return ''
    },
  }).team({
    async manager({ content, sender }, context) {
      if (content === 'quick') return
      lines.push(sender === 'worker' ? 'nested' : content)
      if (content !== 'go' || sender === 'worker') return
      await context.request('worker', 'go')
      lines.push('outer is done')
    },
    worker,
  })
  t.ok((await team.execute('go')).success)
  t.same(lines, ['go', 'nested', 'outer is done', 'behind'])
})

t.test(
  'rule 19: a nested turn that is to stop is told when the outer one waits or ends: its grace begins then',
  async (t) => {
    for (const concurrency of [1, 2]) {
      const lines: string[] = []
      const team = given(t, { roles: manager(concurrency), supervision: { stopGraceMs: 50 } }).team({
        async manager({ sender }, context) {
          if (sender === 'worker') {
            await context.request('slow', 'go').catch(({ code }) => lines.push(`nested: ${code}`))
            await team.clock.sleep(40) // less than its grace
            lines.push('nested ends')
          } else {
            await context.requestAny(['worker', 'quick'], 'go')
            await context.sleep(100)
            lines.push('outer ends')
          }
        },
        worker,
        quick: (_message, context) => context.sleep(10),
        slow: (_message, context) => context.sleep(1_000),
      })
      t.ok((await team.within(200, team.execute('go'))).success)
      t.same(lines, ['outer ends', 'nested: CANCELLED', 'nested ends'])
      t.equal(team.agent('manager').restarts, 0)
    }
  },
)

t.test('a new message does not take the place of an interrupted turn that others wait to run within', async (t) => {
  for (const concurrency of [1, 2]) {
    const runs = concurrency + 1
    const begun: string[] = []
    const team = given(t, { roles: manager(concurrency), maxConcurrentAgents: 1 }).team({
      async manager({ sender }, context) {
        begun.push(`${sender === 'worker' ? 'within ' : ''}${context.runId}`)
        if (sender === 'worker') return 'told'
        return (await context.request('worker', 'go')).content
      },
      // It has the permit of its run when the turn of the manager comes again, and the messages of other runs do not.
      async worker(message, context) {
        await context.sleep(10)
        return context.runId === '0' ? await worker(message, context) : 'done'
      },
    })
    const alarms: string[] = []
    team.events.subscribe(({ type }) => void (type === 'deadlock' && alarms.push(type)))
    const first = outcomeOf(team.execute('go', { runId: '0' }))
    await team.clock.advance(5)
    const others = Array.from({ length: runs - 1 }, (_, i) => outcomeOf(team.execute('go', { runId: `${i + 1}` })))
    team.crash('manager')
    await team.clock.runToIdle()
    t.same(
      [first, ...others].map(({ value }) => value?.finalOutput),
      ['worker: told', ...others.map(() => 'done')],
    )
    t.same(alarms, [])
    t.ok(begun.indexOf('within 0') >= 0)
  }
})

t.test('rule 24: a turn is missed that others wait to run within, and that has lost its place', async (t) => {
  const team = given(t, {
    roles: { manager: { reentrancy: 'chain', instances: 2, supervision: { maxRestarts: 0 } } },
  }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return 'told'
      return (await context.request('worker', 'go')).content
    },
    async worker(message, context) {
      await context.sleep(10)
      return context.runId === '0' ? await worker(message, context) : 'done'
    },
  })
  const cycles: string[][] = []
  team.events.subscribe((event) => void (event.type === 'deadlock' && cycles.push([...event.cycle].sort())))
  const first = outcomeOf(team.execute('go', { runId: '0' }))
  await team.clock.advance(0)
  const second = outcomeOf(team.execute('go', { runId: '1' }))
  await team.clock.advance(5)
  team.crash('manager') // for good: the other thread waits for the worker, and the worker for this turn
  await team.clock.advance(1_000)
  t.same(cycles[0], ['manager', 'worker'])
  t.match(first.value?.error?.message, /deadlock/)
  t.equal(second.value?.finalOutput, 'done')
})

// The chain of open turns that led to what a turn does, as the host follows it.

/** The chain of the only turn that agent is at, nearest first. */
function chainAt(team: OpenTeam, name: string): string[] {
  const agent = team.agent(name)
  const last = [...agent.mailbox.handed.values()].at(-1)!
  return [...chainOf(team.host.requests, agent, last.turn)].map(
    (link) => `${link.agent.name}${isNested(link.envelope) ? ' nested' : ''}`,
  )
}

t.test('it goes from turn to turn up to the script, over those that run within others', async (t) => {
  const team = given(t, { roles: { b: { reentrancy: 'chain' } }, supervision: { stopGraceMs: 1 } }).team({
    a: async (_message, context) => void (await context.request('b', 'go')),
    b: async ({ sender }, context) => void (await context.request(sender === 'a' ? 'c' : 'd', 'go')),
    c: async (_message, context) => void (await context.request('b', 'go')),
    d: () => never,
  })
  const run = team.launch('go')
  await team.clock.advance(0)
  const chain = ['d', 'b nested', 'c', 'b', 'a', '$orchestrator']
  t.same(chainAt(team, 'd'), chain)
  t.same(chainAt(team, 'c'), chain.slice(2))
  team.crash('a') // it waits for its next life, and others go on waiting for it
  t.same(chainAt(team, 'd'), chain)
  await team.dies('d')
  t.same(chainAt(team, 'd'), chain)
  void run.cancel('enough')
  await team.clock.advance(1)
  await run.result
})

t.test('it ends at a turn that nobody waits for', async (t) => {
  const team = given(t, { supervision: { stopGraceMs: 1 } }).team({
    a: async (_message, context) => {
      await context.send('b', 'go')
      await never
    },
    b: async (_message, context) => void (await context.request('c', 'go')),
    c: () => never,
  })
  const run = team.launch('go')
  await team.clock.advance(0)
  t.same(chainAt(team, 'c'), ['c', 'b'])
  void run.cancel('enough')
  await team.clock.advance(1)
  await run.result
  t.equal(MAX_CHAIN_DEPTH, 8)
})

// Chains that are cut off: agents that die within them, requests that are withdrawn, deadlines that pass.

/** What was done, how often. */
function counter() {
  const counts: Record<string, number> = {}
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1
  }
  return { counts, count }
}

t.test('rule 6: when its agent dies both turns come again, one within the other, each effect done once', async (t) => {
  const { counts, count } = counter()
  const attempts: string[] = []
  const team = given(t, { roles: CHAIN }).team({
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
  })
  const run = team.execute('go')
  await team.clock.advance(5)
  team.crash('manager')
  await team.clock.advance(5)
  t.equal((await run).finalOutput, 'outer worker: nested slow')
  t.same(counts, { 'outer before': 1, 'nested before': 1, 'nested after': 1, 'outer after': 1 })
  t.same(attempts, ['outer 1', 'nested 1', 'outer 2', 'nested 2'])
})

t.test('rule 6: a request that has not begun when its agent dies gains no attempt', async (t) => {
  const seen: number[] = []
  const team = given(t, { roles: CHAIN }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return void seen.push(context.attempt)
      await Promise.all([context.request('worker', 'go'), context.sleep(10)])
    },
    worker,
  })
  const run = team.execute('go')
  await team.clock.advance(5)
  t.equal(team.agent('manager').mailbox.handed.nested, 1)
  team.crash('manager')
  await team.clock.advance(20)
  t.ok((await run).success)
  t.same(seen, [1])
})

t.test('a request that comes back while its agent is dead runs within the turn that comes again', async (t) => {
  const team = given(t, { roles: CHAIN, supervision: { backoff: { baseMs: 100, capMs: 100 } } }).team({
    manager: managerWho(() => 'told'),
    async worker(message, context) {
      await context.sleep(10)
      return worker(message, context)
    },
  })
  const run = team.execute('go')
  await team.clock.advance(5)
  team.crash('manager') // the first restart is at once
  await team.clock.advance(1)
  team.crash('manager')
  await team.clock.advance(4)
  t.equal(team.agent('manager').incarnation, undefined)
  await team.clock.advance(100)
  t.equal((await run).finalOutput, 'manager: worker: told')
})

t.test('with several instances it goes to the one that waits, also when another tries the turn again', async (t) => {
  const team = given(t, { roles: { manager: { reentrancy: 'chain', instances: 3 } } }).team({
    async manager(message, context) {
      if (message.content === 'busy') return context.sleep(1_000).then(() => 'slept')
      return managerWho(() => context.sleep(100).then(() => 'told'))(message, context)
    },
    worker,
  })
  const { instances } = team.agent('manager')
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
})

t.test('rule 9: who asked waits under its deadline, also while the nested turn waits to begin again', async (t) => {
  const team = given(t, { roles: CHAIN }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return context.sleep(1_000).then(() => 'late')
      const asked = context.request('worker', 'go')
      if (context.attempt > 1) await context.sleep(1_000)
      return (await asked).content
    },
    worker: async (_message, context) => await answerOf(context.request('manager', 'why', { timeoutMs: 50 })),
  })
  const run = team.execute('go')
  await team.clock.advance(10)
  team.crash('manager')
  await team.clock.advance(39)
  t.equal(team.agent('worker').turns, 0)
  await team.clock.advance(1)
  t.equal(team.agent('worker').turns, 1)
  await team.clock.advance(1_000)
  t.equal((await run).finalOutput, 'REQUEST_TIMEOUT')
})

t.test('rule 0: a nested turn that fails is tried again within the same turn', async (t) => {
  const seen: number[] = []
  const team = given(t, {
    roles: { manager: { reentrancy: 'chain', concurrency: 2 } },
    supervision: { onHandlerError: 'retry' },
  }).team({
    manager: managerWho((_message, context) => {
      seen.push(context.attempt)
      if (context.attempt === 1) throw new Error('not yet')
      return 'told'
    }),
    worker,
  })
  t.equal((await team.execute('go')).finalOutput, 'manager: worker: told')
  t.same(seen, [1, 2])
})

t.test('rule 7: of turns one within the other the one that was at work answers for the death', async (t) => {
  for (const guilty of ['nested', 'outer']) {
    const team = given(t, { roles: CHAIN }).team({
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
      worker: async (_message, context) => await answerOf(context.request('manager', 'why')),
      quick: (_message, context) => context.sleep(guilty === 'outer' ? 10 : 1_000).then(() => 'quick'),
      slow: (_message, context) => context.sleep(100).then(() => 'slow'),
    })
    const run = team.execute('go')
    await team.clock.advance(2_000)
    const poisoned = team.deadLetters.list().filter(({ reason }) => reason === 'poison')
    t.equal(poisoned.length, 1)
    if (guilty === 'nested') t.equal((await run).finalOutput, 'AGENT_CRASHED')
    else t.equal((await run).error?.code, 'AGENT_CRASHED')
    t.match(poisoned[0]!.message, { sender: guilty === 'nested' ? 'worker' : '$orchestrator' })
  }
})

// ---- cancellation

t.test('who asks back and no longer waits has the nested turn stopped, begun or not', async (t) => {
  for (const outer of ['parks', 'works']) {
    const heard: string[] = []
    const team = given(t, { roles: CHAIN }).team({
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
    })
    t.equal((await team.within(20, team.execute('go'))).finalOutput, 'CANCELLED', outer)
    t.same(heard, outer === 'parks' ? ['begun', 'CANCELLED'] : [])
  }
})

t.test('with the outer turn goes what it waits for, down to the turn within it', async (t) => {
  const stopped: string[] = []
  const stops = (who: string, { signal }: AgentContext) => signal.addEventListener('abort', () => stopped.push(who))
  const team = given(t, {
    roles: CHAIN,
    maxConcurrentAgents: 1,
    script: async (script) => {
      const gone = new AbortController()
      const asked = script.request('manager', 'go', { signal: gone.signal }).catch(({ code }) => code)
      await script.sleep(10)
      gone.abort()
      return await asked
    },
  }).team({
    manager(message, context) {
      stops(message.sender === 'worker' ? 'nested' : 'outer', context)
      return managerWho(() => context.sleep(1_000).then(() => 'late'))(message, context)
    },
    worker(message, context) {
      stops('worker', context)
      return worker(message, context)
    },
  })
  t.equal((await team.within(10, team.execute('go'))).finalOutput, 'CANCELLED')
  t.same(stopped.sort(), ['nested', 'outer', 'worker'])
})

t.test('rule 19: a nested turn that is to stop is told with its permit, before the outer one goes on', async (t) => {
  for (const concurrency of [1, 2]) {
    const { opened, open } = gate()
    const lines: string[] = []
    const team = given(t, { roles: { manager: { reentrancy: 'chain', concurrency } }, maxConcurrentAgents: 1 }).team({
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
    })
    const run = team.execute('go')
    await team.clock.advance(20)
    t.same(lines, [])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder ends, told', 'nested is told', 'outer: REQUEST_TIMEOUT'])
  }
})

t.test('a nested turn goes on by itself when the outer one has ended, as long as its grace', async (t) => {
  const { opened, open } = gate()
  const heard: string[] = []
  const team = given(t, { roles: CHAIN }).team({
    async manager({ content, sender }, context) {
      heard.push(content)
      if (sender === 'worker') return opened.then(() => 'nobody hears it')
      if (content === 'later') return 'later'
      return (await context.requestAny(['worker', 'quick'], 'go')).content
    },
    worker: (_message, context) => context.request('manager', 'nested').then(() => {}),
    quick: (_message, context) => context.sleep(10).then(() => 'quick'),
  })
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
})

t.test('a nested turn that does not stop when it is told to costs the thread', async (t) => {
  const team = given(t, { roles: CHAIN, supervision: { stopGraceMs: 50 } }).team({
    manager: managerWho(() => never),
    worker: async (_message, context) =>
      await context.request('manager', 'why', { timeoutMs: 100 }).then(
        () => '',
        ({ code }) => code,
      ),
  })
  const run = team.execute('go')
  await team.clock.advance(99)
  t.equal(team.agent('manager').epoch, 1)
  await team.clock.advance(1) // its own deadline holds, from its own start
  t.equal(team.agent('worker').turns, 1)
  await team.clock.advance(50)
  t.equal(team.agent('manager').epoch, 2)
  t.equal((await run).finalOutput, 'manager: REQUEST_TIMEOUT')
})

t.test('one that waits for the outer turn to park expires like any other message that waits', async (t) => {
  const team = given(t, { roles: CHAIN, communication: { queueTimeoutMs: 100 } }).team({
    async manager({ sender }, context) {
      if (sender === 'worker') return 'never told'
      const asked = context.request('worker', 'go')
      await context.sleep(1_000)
      return (await asked).content
    },
    worker: async (_message, context) => await answerOf(context.request('manager', 'why')),
  })
  const run = team.execute('go')
  await team.clock.advance(100)
  t.equal(team.agent('worker').turns, 1)
  await team.clock.advance(900)
  t.equal((await run).finalOutput, 'MESSAGE_EXPIRED')
})

t.test('the time of the outer turn runs on while another is at work within it', async (t) => {
  const team = given(t, { roles: { manager: { reentrancy: 'chain', limits: { turnTimeoutMs: 100 } } } }).team({
    manager: managerWho((_message, context) => context.sleep(60).then(() => 'told')),
    async worker(message, context) {
      await worker(message, context)
      return worker(message, context)
    },
  })
  const run = team.execute('go')
  await team.clock.advance(100)
  t.match(await run, { success: false, error: { code: 'TURN_TIMEOUT' } })
  await team.clock.advance(0)
})

// ---- streams and state

t.test('a nested turn streams its answer, and reads one', async (t) => {
  const read = async (stream: AsyncIterable<string>) => {
    let pieces = 0
    for await (const _piece of stream) pieces += 1
    return pieces
  }
  const team = given(t, { roles: CHAIN, maxConcurrentAgents: 1, supervision: { deadlock: false } }).team({
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
  })
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(0)
  t.match(run.value, { finalOutput: 'outer read 700' })
})

t.test('what both turns change in a state counts: each is made of what stands when it commits', async (t) => {
  const seen: string[] = []
  let outer: { readonly state: unknown } | undefined
  const team = given(t, { roles: CHAIN }).team({
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
  })
  t.ok((await team.execute('go')).success)
  t.same(seen, [
    'outer: outer 1',
    'nested fails: nested fails 1',
    'nested works: nested works 1',
    'outer: nested works,outer,outer 3',
  ])
  t.same(team.agent('manager').state, { log: ['nested works', 'outer', 'outer'] })
  t.same(outer?.state, { log: ['nested works', 'outer', 'outer'] }, 'also for who looks later')
  await team.dies('manager')
  t.ok((await team.execute('go')).success)
  t.equal(seen.at(-1), 'outer: nested works,outer,outer,nested works,outer,outer 3')
})
