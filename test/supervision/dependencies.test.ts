/** Tasks that depend on others: a task comes to its agent when those are completed. Document 002, 2.5.2. */
import t from 'tap'
import type { OrchestratorContext, Run } from '../../src/index.ts'
import { leftovers, watchAccounts } from './accounts.ts'
import { gate, type OpenTeam, openTeam, outcomeOf, type Receive } from './teams.ts'
import { watched } from './verdicts.ts'

/** Works for as many ms as its task says. */
const works: Receive = async ({ content }, context) => {
  if (content === 'refuse') throw context.refuse('busy')
  if (content === 'fail') throw new Error('broken')
  await context.sleep(Number(content))
  return `${context.role.name} at ${context.now()}`
}

const statuses = (run: Run) => run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`)

const scripted = (run: (script: OrchestratorContext) => Promise<string>) => ({
  orchestration: { strategy: 'custom' as const, run },
})

/** How each task went: `b: assigned blocked assigned in_progress completed`. */
async function courses(run: Run): Promise<string[]> {
  const lines = new Map<string, string>()
  for await (const event of run.events({ types: ['task'] })) {
    if (event.type !== 'task') continue
    const { id, assignedTo, status } = event.task
    lines.set(id, `${lines.get(id) ?? `${assignedTo}:`} ${status}`)
  }
  return [...lines.values()]
}

async function ended(team: OpenTeam, run: Run): Promise<string> {
  await team.clock.runToIdle()
  return `${(await run.result).finalOutput}`
}

const all = { a: works, b: works, c: works, d: works }

t.test('a task comes to its agent when those that it depends on are completed', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const start = script.now()
      const a = script.delegate('a', '10')
      const needsA = { dependencies: [await a.id] }
      const b = script.delegate('b', { description: '30', ...needsA })
      const c = script.delegate('c', { description: '5', ...needsA })
      const d = script.delegate('d', { description: '1', dependencies: [await b.id, await c.id] })
      return `${Number(String((await d).result).slice(5)) - start}`
    }),
  )
  const off = watchAccounts(team.host)
  const run = team.launch('q')
  await team.clock.advance(5)
  t.same(statuses(run), ['a in_progress', 'b blocked', 'c blocked', 'd blocked'])
  t.same(Object.values(team.getTaskStatus(run.id)), ['in_progress', 'blocked', 'blocked', 'blocked'])
  await team.clock.advance(7)
  t.same(statuses(run), ['a completed', 'b in_progress', 'c in_progress', 'd blocked'])
  t.equal(await ended(team, run), '41')
  t.same(await courses(run), [
    'a: assigned in_progress completed',
    'b: assigned blocked assigned in_progress completed',
    'c: assigned blocked assigned in_progress completed',
    'd: assigned blocked assigned in_progress completed',
  ])
  t.same([...off, ...leftovers(team.host)], [])
})

t.test('one that depends on what is completed already begins at once', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const { id } = await script.delegate('a', '10')
      return (await script.delegate('b', { description: '1', dependencies: [id, id] })).status
    }),
  )
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same((await courses(run))[1], 'b: assigned in_progress completed')
})

t.test('an agent waits for the tasks of others, by what it was told of them', async (t) => {
  const team = openTeam(
    t,
    {
      lead: async (_message, context) => {
        const survey = context.delegate('a', '20')
        return (await context.request('builder', await survey.id)).content
      },
      builder: async ({ content }, context) =>
        `${(await context.delegate('b', { description: '1', dependencies: [content] })).status}`,
      a: works,
      b: works,
    },
    { communication: { responseTimeoutMs: 1_000 } },
  )
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['lead completed', 'a completed', 'b completed'])
})

for (const [what, code] of Object.entries({ refuse: 'refused', fail: 'failed' }))
  t.test(`one that depends on a task that was ${code} fails, and says so of which`, async (t) => {
    const team = openTeam(
      t,
      all,
      scripted(async (script) => {
        const a = script.delegate('a', what)
        const b = outcomeOf(script.delegate('b', { description: '1', dependencies: [await a.id] }))
        const c = script.delegate('c', { description: '1', dependencies: [await a.id] })
        const d = script.delegate('d', { description: '1', dependencies: [await c.id] })
        await Promise.allSettled([a, c, d])
        t.match(b.error, { code: 'DEPENDENCY_FAILED', details: { agent: 'b', dependency: await a.id, status: code } })
        t.match(b.error?.message, `the task of "a" (${await a.id})`)
        const late = script.delegate('d', { description: '1', dependencies: [await a.id] })
        return `${await late.catch((error) => error.code)}`
      }),
    )
    const run = team.launch('q')
    t.equal(await ended(team, run), 'DEPENDENCY_FAILED')
    t.same(statuses(run), [`a ${code}`, 'b failed', 'c failed', 'd failed', 'd failed'])
    t.match((await run.result).failures.slice(1, 4), [{ agent: 'b' }, { agent: 'c' }, { agent: 'd' }])
    t.same(leftovers(team.host), [])
  })

t.test('one that depends on a task that is cancelled fails', async (t) => {
  const team = openTeam(
    t,
    {
      ...all,
      lead: async (_message, context) => {
        const dropped = context.delegate('a', '1000')
        await context.publish('dropped', await dropped.id, 'id')
        await context.sleep(10)
        return 'lead is done'
      },
    },
    scripted(async (script) => {
      const lead = script.request('lead', 'go')
      const id = `${(await script.blackboard.waitFor('dropped')).value}`
      const b = await script.delegate('b', { description: '1', dependencies: [id] }).catch((error) => error.code)
      return `${(await lead).content}, ${b}`
    }),
  )
  const run = team.launch('q')
  t.equal(await ended(team, run), 'lead is done, DEPENDENCY_FAILED')
})

t.test('one that names a task that there is not is refused, and its agent hears nothing of it', async (t) => {
  let heard = 0
  const team = openTeam(t, {
    lead: async (_message, context) =>
      context
        .delegate('worker', { description: 'x', dependencies: ['no-such-id'] })
        .then(String, ({ code, message }) => `${code} ${message}`),
    worker: () => {
      heard += 1
    },
  })
  const run = team.launch('q')
  const answer = await ended(team, run)
  t.match(answer, /^DELEGATION_REFUSED A task for "worker" depends on "no-such-id", and no task of its run has that id/)
  t.same(statuses(run), ['lead completed', 'worker refused'])
  t.equal(heard, 0)
  t.same(leftovers(team.host), [])
})

t.test('a task that depends on the one that it is a part of is refused', async (t) => {
  const team = openTeam(t, {
    lead: async (message, context) => (await context.request('middle', message.id)).content,
    middle: async ({ content }, context) =>
      context.delegate('worker', { description: '1', dependencies: [content] }).then(
        () => 'done',
        ({ code, message }) => `${code} ${message}`,
      ),
    worker: works,
  })
  const run = team.launch('q')
  t.match(await ended(team, run), /^DELEGATION_REFUSED .*the task of "lead" .*which waits for it itself/)
  t.equal(run.tasks[1]?.status, 'refused')
})

t.test('a circle that goes by dependencies of others is a deadlock, which is broken', async (t) => {
  // b's task depends on a's, and a's agent gives c one that depends on b's.
  const told = gate()
  let second = ''
  const team = openTeam(
    t,
    {
      ...all,
      a: async (_message, context) => {
        await told.opened
        return context.delegate('c', { description: '1', dependencies: [second] }).then(
          () => 'done',
          (error) => error.code,
        )
      },
    },
    scripted(async (script) => {
      const a = script.delegate('a', 'go')
      const b = script.delegate('b', { description: '1', dependencies: [await a.id] })
      second = await b.id
      told.open()
      return `${(await a).result} ${(await b).status}`
    }),
  )
  const found = watched(team)
  const run = team.launch('q')
  t.equal(await ended(team, run), 'DEADLOCK completed')
  t.match(found, [{ type: 'deadlock' }, {}])
  t.same(leftovers(team.host), [])
})

t.test('the time that it waits for others counts for the deadline of a task', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const a = script.delegate('a', '100')
      const b = { description: '1', dependencies: [await a.id], deadline: script.now() + 20 }
      const { code, message } = await script.delegate('b', b).catch((error) => error)
      return `${code} ${message}`
    }),
  )
  const run = team.launch('q')
  await team.clock.advance(20)
  const { finalOutput } = await run.result
  t.match(finalOutput, /^REQUEST_TIMEOUT .*it waited for what it depends on: .* of "a"/)
  t.same(statuses(run), ['a cancelled', 'b failed'])
})

t.test('a deadline that is over is refused at once', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const late = { description: '1', deadline: script.now() - 5 }
      const { code, message } = await script.delegate('a', late).catch((error) => error)
      return `${code} ${message}`
    }),
  )
  const run = team.launch('q')
  t.match(await ended(team, run), /^DELEGATION_REFUSED .*the deadline of the task was 5 ms ago/)
  t.same(statuses(run), ['a refused'])
})

t.test('a run that ends takes what waits for others with it', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const a = script.delegate('a', '1000')
      void script.delegate('b', { description: '1', dependencies: [await a.id] })
      await script.delegate('c', { description: '1', dependencies: [await a.id] })
      return 'over'
    }),
  )
  const accounts = watchAccounts(team.host)
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  await team.clock.runToIdle()
  t.same(statuses(run), ['a cancelled', 'b cancelled', 'c cancelled'])
  t.same([...accounts, ...leftovers(team.host)], [])
})

t.test('one that waits is withdrawn with the turn that had given it', async (t) => {
  const team = openTeam(
    t,
    {
      lead: async ({ content }, context) => {
        void context.delegate('b', { description: '1', dependencies: [content] })
        await context.sleep(5)
        return 'lead is done'
      },
      ...all,
    },
    scripted(async (script) => {
      const a = script.delegate('a', '100')
      await script.request('lead', await a.id)
      return `${(await a).status}`
    }),
  )
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['a completed', 'lead completed', 'b cancelled'])
  t.same(leftovers(team.host), [])
})

t.test('one whose agent is gone for good fails at once', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => {
      const a = script.delegate('a', '100')
      const b = script.delegate('b', { description: '1', dependencies: [await a.id] }).catch((error) => error.code)
      return `${await b}`
    }),
  )
  const run = team.launch('q')
  await team.clock.advance(5)
  const removed = team.removeAgent('b')
  await team.clock.advance(0)
  t.equal((await run.result).finalOutput, 'AGENT_TERMINATED')
  await team.clock.runToIdle()
  await removed
  t.same(leftovers(team.host), [])
})

t.test('a turn that is tried again takes up what it had given, and gives nothing twice', async (t) => {
  const ids: string[] = []
  const lead: Receive = async (_message, context) => {
    const a = context.delegate('a', '20')
    const id = await Promise.race([a.id, context.sleep(5).then(() => 'late')])
    ids.push(id)
    const { status } = await context.delegate('b', { description: '1', dependencies: [id] })
    return `${status} ${context.attempt}`
  }
  const team = openTeam(t, { lead, ...all })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('lead')
  t.equal(await ended(team, run), 'completed 2')
  t.same(ids, [run.tasks[1]!.id, run.tasks[1]!.id])
  t.same(statuses(run), ['lead completed', 'a completed', 'b completed'])
  t.same(leftovers(team.host), [])
})

t.test('a task that is given from outside waits too, and ends with its run', async (t) => {
  const team = openTeam(
    t,
    all,
    scripted(async (script) => `${(await script.delegate('a', '100')).status}`),
  )
  const run = team.launch('q')
  await team.clock.advance(5)
  const given = team.sendMessage({
    type: 'delegate',
    runId: run.id,
    recipient: 'b',
    content: '1',
    structuredData: { dependencies: [run.tasks[0]!.id] },
    requiresResponse: true,
  })
  const outcome = outcomeOf(given)
  await team.clock.advance(5)
  t.same(statuses(run), ['a in_progress', 'b blocked'])
  await run.cancel()
  await team.clock.runToIdle()
  t.equal(outcome.error?.code, 'RUN_ABORTED')
  t.same(statuses(run), ['a cancelled', 'b cancelled'])
  t.same(leftovers(team.host), [])
})

t.test('tasks that wait take no room in a mailbox', async (t) => {
  const team = openTeam(t, all, {
    ...scripted(async (script) => {
      const a = script.delegate('a', '10')
      const dependencies = [await a.id]
      const held = Array.from({ length: 6 }, () => script.delegate('b', { description: '5', dependencies }))
      const b = script.delegate('b', '1')
      await Promise.all([b, ...held])
      return 'over'
    }),
    communication: { mailboxCapacity: 2 },
  })
  const accounts = watchAccounts(team.host)
  const run = team.launch('q')
  await team.clock.advance(5)
  t.equal(run.tasks.at(-1)?.status, 'completed')
  await team.clock.advance(7)
  const { index, mailbox } = team.host.directory.cell('b')!
  t.equal(mailbox.waiting + mailbox.underWay, 2)
  t.equal(team.host.team.taken(index), mailbox.expected ? 3 : 2, 'what it has been given has its room')
  t.equal(await ended(team, run), 'over')
  t.same([...accounts, ...leftovers(team.host)], [])
})

t.test('those that were let go together go by priority', async (t) => {
  const order: string[] = []
  const b: Receive = ({ content }) => void order.push(content)
  const team = openTeam(
    t,
    { a: works, b },
    scripted(async (script) => {
      const a = script.delegate('a', '10')
      const dependencies = [await a.id]
      const given = [1, 9, 5].map((priority) =>
        script.delegate('b', { description: `${priority}`, priority, dependencies }),
      )
      await Promise.all(given)
      return 'over'
    }),
  )
  await ended(team, team.launch('q'))
  t.same(order, ['9', '5', '1'])
})

t.test('what depends on a task that is handed off waits for the one that it became', async (t) => {
  const team = openTeam(
    t,
    {
      a: (message, context) => context.handoff('c', message.content),
      b: works,
      c: works,
    },
    scripted(async (script) => {
      const a = script.delegate('a', '20')
      await script.delegate('b', { description: '1', dependencies: [await a.id] })
      return 'over'
    }),
  )
  const run = team.launch('q')
  await team.clock.advance(10)
  t.same(statuses(run), ['a handed_off', 'b blocked', 'c in_progress'])
  t.equal(await ended(team, run), 'over')
  t.same(statuses(run), ['a handed_off', 'b completed', 'c completed'])
})

t.test('what depends on a task that is reassigned waits for the one that it became', async (t) => {
  const team = openTeam(
    t,
    {
      a: async (_message, context) => {
        const outcome = await context.escalate('no spade')
        return outcome.kind === 'reassigned' ? `by ${outcome.to}` : outcome.kind
      },
      lead: () => ({ structuredData: { decision: 'reassign', to: 'c' } }),
      b: works,
      c: works,
    },
    {
      roles: { a: { escalateTo: 'lead' } },
      ...scripted(async (script) => {
        const a = script.delegate('a', '20')
        return (await script.delegate('b', { description: '1', dependencies: [await a.id] })).status
      }),
    },
  )
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['a handed_off', 'b completed', 'c completed'])
})

t.test('a task that finds no room has its id when it stands in line', async (t) => {
  const team = openTeam(t, all, {
    ...scripted(async (script) => {
      const given = ['10', '10'].map((description) => script.delegate('a', description))
      const id = await Promise.race([given[1]!.id, script.sleep(5).then(() => 'none')])
      return (await script.delegate('b', { description: '1', dependencies: [id] })).status
    }),
    communication: { mailboxCapacity: 1 },
  })
  t.equal(await ended(team, team.launch('q')), 'completed')
  t.same(leftovers(team.host), [])
})

t.test('a task is given to nobody who lacks a capability that it needs', async (t) => {
  const team = openTeam(
    t,
    { lead: () => {}, plain: works, able: works },
    {
      roles: { able: { capabilities: ['Spade', { name: 'rope' }] } },
      ...scripted(async (script) => {
        const dig = { description: '1', requiredCapabilities: ['spade', 'rope'] }
        const { code, message } = await script.delegate('plain', dig).catch((error) => error)
        return `${(await script.delegate('able', dig)).status} ${code} ${message}`
      }),
    },
  )
  const run = team.launch('q')
  t.match(
    await ended(team, run),
    /^completed DELEGATION_REFUSED .*the task needs "spade", "rope" \(requiredCapabilities\), which "plain" does not declare/,
  )
  t.same(statuses(run), ['plain refused', 'able completed'])
})
