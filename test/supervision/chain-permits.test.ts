/** Chains and permits: turns of one run in one thread share one, and one of them works at a time, beside turns of other runs. */
import t from 'tap'
import { leftovers } from './accounts.ts'
import { type Extras, gate, openTeam, outcomeOf, type Receive } from './teams.ts'

const worker: Receive = async ({ content }, context) => `worker: ${(await context.request('manager', content)).content}`
const manager = (concurrency: number): Extras['roles'] => ({ manager: { reentrancy: 'chain', concurrency } })

t.test('rule 19: a nested turn waits for a permit, as the answer to the one that waits would', async (t) => {
  for (const concurrency of [1, 2]) {
    const { opened, open } = gate()
    const lines: string[] = []
    const team = openTeam(
      t,
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
      { roles: { ...manager(concurrency), holder: { priority: 1 } }, maxConcurrentAgents: 1 },
    )
    const run = team.execute('go')
    await team.clock.advance(0)
    t.same(lines, ['holder holds'])
    open()
    t.ok((await run).success)
    t.same(lines, ['holder holds', 'holder ends', 'nested begins'])
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 19: the outer turn at work keeps the permit while the nested one waits', async (t) => {
  const lines: string[] = []
  const team = openTeam(
    t,
    {
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
    },
    {
      roles: manager(1),
      maxConcurrentAgents: 2,
      orchestration: {
        strategy: 'custom',
        async run(script) {
          const asked = script.request('manager', 'go')
          await script.sleep(20)
          await Promise.all([asked, script.request('holder', 'go')])
          return ''
        },
      },
    },
  )
  const run = team.execute('go')
  await team.clock.advance(300)
  t.ok((await run).success)
  t.same(lines, ['outer has slept', 'holder'])
  t.same(leftovers(team.host), [])
})

t.test('a run whose turn has had another within it parks by itself, beside turns of other runs', async (t) => {
  const team = openTeam(
    t,
    {
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
    },
    { roles: manager(2), maxConcurrentAgents: 1 },
  )
  const run = outcomeOf(team.execute('go'))
  await team.clock.advance(5)
  const busy = team.execute('busy')
  await team.clock.advance(5)
  t.match(run.value, { finalOutput: 'other' })
  await team.clock.advance(1_000)
  t.equal((await busy).finalOutput, 'slept')
  t.same(leftovers(team.host), [])
})

t.test('a nested turn takes no place of another run', async (t) => {
  const team = openTeam(
    t,
    {
      async manager({ content, sender }, context) {
        if (sender === 'worker') return context.sleep(100).then(() => 'told')
        return content === 'go' ? (await context.request('worker', 'go')).content : 'at once'
      },
      worker,
    },
    { roles: manager(2) },
  )
  const run = team.execute('go')
  await team.clock.advance(5)
  const other = outcomeOf(team.execute('other'))
  await team.clock.advance(0)
  t.match(other.value, { finalOutput: 'at once' })
  await team.clock.advance(100)
  t.equal((await run).finalOutput, 'worker: told')
  t.same(leftovers(team.host), [])
})

t.test('what was handed over behind the outer turn stays behind it', async (t) => {
  const lines: string[] = []
  const team = openTeam(
    t,
    {
      async manager({ content, sender }, context) {
        if (content === 'quick') return
        lines.push(sender === 'worker' ? 'nested' : content)
        if (content !== 'go' || sender === 'worker') return
        await context.request('worker', 'go')
        lines.push('outer is done')
      },
      worker,
    },
    {
      roles: manager(1),
      orchestration: {
        strategy: 'custom',
        async run(script) {
          for (let i = 0; i < 50; i++) await script.request('manager', 'quick') // then more than one is handed over
          await Promise.all(['go', 'behind'].map((content) => script.request('manager', content)))
          return ''
        },
      },
    },
  )
  t.ok((await team.execute('go')).success)
  t.same(lines, ['go', 'nested', 'outer is done', 'behind'])
  t.same(leftovers(team.host), [])
})

t.test(
  'rule 19: a nested turn that is to stop is told when the outer one at work waits or ends, and has its grace then',
  async (t) => {
    for (const concurrency of [1, 2]) {
      const lines: string[] = []
      const team = openTeam(
        t,
        {
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
        },
        { roles: manager(concurrency), supervision: { stopGraceMs: 50 } },
      )
      const run = team.execute('go')
      await team.clock.advance(200)
      t.ok((await run).success)
      t.same(lines, ['outer ends', 'nested: CANCELLED', 'nested ends'])
      t.equal(team.host.directory.cell('manager')!.restarts, 0)
      t.same(leftovers(team.host), [])
    }
  },
)

t.test('a new message does not take the place of an interrupted turn that others wait to run within', async (t) => {
  for (const concurrency of [1, 2]) {
    const runs = concurrency + 1
    const begun: string[] = []
    const team = openTeam(
      t,
      {
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
      },
      { roles: manager(concurrency), maxConcurrentAgents: 1 },
    )
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
    t.same(leftovers(team.host), [])
  }
})

t.test('rule 24: a turn is missed that others wait to run within, and that has lost its place', async (t) => {
  const team = openTeam(
    t,
    {
      async manager({ sender }, context) {
        if (sender === 'worker') return 'told'
        return (await context.request('worker', 'go')).content
      },
      async worker(message, context) {
        await context.sleep(10)
        return context.runId === '0' ? await worker(message, context) : 'done'
      },
    },
    { roles: { manager: { reentrancy: 'chain', instances: 2, supervision: { maxRestarts: 0 } } } },
  )
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
  t.same(leftovers(team.host), [])
})
