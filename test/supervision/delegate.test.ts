/** Delegation and tasks that depend on others: who may give tasks to whom, and what comes of a task. */
import t from 'tap'
import {
  type AgentTask,
  DelegationRefusedError,
  defineAgent,
  type OrchestratorContext,
  type Run,
  type RuntimeEvent,
  TaskRefusedError,
} from '../../src/index.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, gate, given, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'
import { watched } from './verdicts.ts'

/** Delegates what it is asked, and answers with the result. */
const delegates =
  (to: string): Receive =>
  async ({ content }, context) =>
    `${(await context.delegate(to, content)).result}`

const echo: Receive = ({ content, type }, { role }) => `${role.name} did ${content} (${type})`

/** How each task of a run went: `lead < -: assigned in_progress`. Before the colon its agent and that of its parent. */
function courses(run: Run, events: readonly RuntimeEvent[]): string[] {
  const lines = new Map<string, string[]>()
  const agents = new Map(run.tasks.map(({ id, assignedTo }) => [id, assignedTo]))
  for (const event of events) {
    if (event.type !== 'task') continue
    const { task } = event
    const line = lines.get(task.id) ?? [`${task.assignedTo} < ${agents.get(task.parentTask ?? '') ?? '-'}:`]
    lines.set(task.id, [...line, task.status])
  }
  return [...lines.values()].map((line) => line.join(' '))
}

t.test('a delegated task is done by the other, and comes back with its result', async (t) => {
  let task: AgentTask | undefined
  const heard: unknown[] = []
  const lead: Receive = async (_message, context) => {
    const { id } = await context.delegate('worker', 'measure')
    task = await context.delegate('worker', {
      description: 'dig',
      priority: 2,
      dependencies: [id],
      requiredCapabilities: ['spade'],
    })
    return 'over'
  }
  const worker: Receive = ({ type, content, structuredData, priority }) => {
    heard.push({ type, content, structuredData, priority })
    return { structuredData: { holes: 3 } }
  }
  const team = openTeam(t, { lead, worker }, { roles: { worker: { capabilities: ['spade'] } } })
  const run = team.launch('q')
  await run.result
  const [parent, before, child] = run.tasks
  t.same(task, child)
  t.match(child, {
    description: 'dig',
    assignedTo: 'worker',
    status: 'completed',
    result: { holes: 3 },
    priority: 2,
    dependencies: [before!.id],
    requiredCapabilities: ['spade'],
    deadline: null,
    parentTask: parent!.id,
  })
  t.match(heard, [
    { type: 'delegate', content: 'measure', priority: 0 },
    {
      type: 'delegate',
      content: 'dig',
      priority: 2,
      structuredData: { description: 'dig', assignedTo: 'worker', parentTask: parent!.id },
    },
  ])
  t.same(run.messageHistory.find(({ id }) => id === child!.id)?.type, 'delegate')
})

t.test('the task of a turn is blocked while what it has delegated is open', async (t) => {
  const lead: Receive = async (_message, context) => {
    await Promise.all([context.delegate('a', 'x'), context.delegate('b', 'y')])
    return 'over'
  }
  const team = openTeam(t, { lead, a: echo, b: async (_, context) => void (await context.sleep(5)) })
  const run = team.launch('q')
  await team.clock.runToIdle()
  const events = []
  for await (const event of run.events()) events.push(event)
  t.same(courses(run, events), [
    'lead < -: assigned in_progress blocked in_progress completed',
    'a < lead: assigned in_progress completed',
    'b < lead: assigned in_progress completed',
  ])
})

t.test('a delegation by the script is a task too, of nobody', async (t) => {
  const orchestration = {
    strategy: 'custom' as const,
    run: async (script: { delegate(to: string, task: string): Promise<AgentTask> }) =>
      `${(await script.delegate('a', 'x')).result}`,
  }
  const team = openTeam(t, { a: echo }, { orchestration })
  const run = team.launch('q')
  t.equal((await run.result).finalOutput, 'a did x (delegate)')
  t.match(run.tasks, [{ assignedTo: 'a', status: 'completed', parentTask: null, result: 'a did x (delegate)' }])
})

t.test('its input schema applies to a delegated task', async (t) => {
  const input = {
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: (value: unknown) =>
        Object(value).priority === 1 ? { value: 'checked' } : { issues: [{ message: 'priority is not 1' }] },
    },
  }
  const worker = defineAgent({ input, receive: ({ structuredData }) => `${structuredData}` })
  const lead: Receive = async (_message, context) => {
    const { result } = await context.delegate('worker', { description: 'x', priority: 1 })
    return `${result} ${await context.delegate('worker', 'x').catch(({ code }) => code)}`
  }
  const team = openTeam(t, { lead, worker })
  t.equal(await ask(team, 'lead'), 'checked MESSAGE_REJECTED')
})

t.test('rule 22: the duty is back with who delegated when the task is refused', async (t) => {
  const errors: unknown[] = []
  const lead: Receive = async ({ content }, context) => {
    try {
      await context.delegate('worker', content)
    } catch (error) {
      errors.push(error)
    }
    return `lead did ${content}`
  }
  const worker: Receive = (_message, context) => {
    throw context.refuse('too deep')
  }
  const team = openTeam(t, { lead, worker })
  const run = team.launch('dig')
  const result = await run.result
  t.equal(result.finalOutput, 'lead did dig')
  t.ok(errors[0] instanceof TaskRefusedError)
  t.same(
    run.tasks.map(({ assignedTo, status }) => [assignedTo, status]),
    [
      ['lead', 'completed'],
      ['worker', 'refused'],
    ],
  )
  t.match(result.failures, [{ agent: 'worker', taskId: run.tasks[1]!.id, error: { code: 'TASK_REFUSED' } }])
})

const ends: Record<string, { worker: Receive; code: string; status: string }> = {
  'that fails': {
    worker: () => {
      throw new Error('broken')
    },
    code: 'AGENT_FAILED',
    status: 'failed',
  },
  'that nobody is there for': { worker: echo, code: 'UNKNOWN_AGENT', status: 'failed' },
}
for (const [title, { worker, code, status }] of Object.entries(ends))
  t.test(`a task ${title} rejects with what it ended in`, async (t) => {
    const to = code === 'UNKNOWN_AGENT' ? 'workr' : 'worker'
    const lead: Receive = (_message, context) => context.delegate(to, 'x').then(String, (error) => error.code)
    const team = openTeam(t, { lead, worker })
    const run = team.launch('q')
    t.equal((await run.result).finalOutput, code)
    t.equal(run.tasks[1]!.status, status)
  })

t.test('a task whose agent is gone for good rejects with AGENT_TERMINATED', async (t) => {
  const lead: Receive = (_message, context) => context.delegate('worker', 'x').then(String, (error) => error.code)
  const team = openTeam(t, { lead, worker: () => new Promise<never>(() => {}) })
  const answer = outcomeOf(ask(team, 'lead'))
  await team.clock.advance(0)
  const removed = team.removeAgent('worker')
  await team.clock.runToIdle()
  await removed
  t.equal(answer.value, 'AGENT_TERMINATED')
})

t.test('the deadline of a task limits the wait for it, where it is done and where it waits', async (t) => {
  const held = gate()
  const worker: Receive = async (_message, context) => {
    await Promise.race([held.opened, context.sleep(100)])
    return 'late'
  }
  const outcomes: unknown[] = []
  const lead: Receive = async (_message, context) => {
    const deadline = context.now() + 20
    const tasks = ['first', 'second'].map((description) => context.delegate('worker', { description, deadline }))
    for (const { reason } of (await Promise.allSettled(tasks)) as PromiseRejectedResult[]) outcomes.push(reason.code)
    return `over at ${context.now()}`
  }
  const team = openTeam(t, { lead, worker })
  const startedAt = team.clock.now()
  const run = team.launch('q')
  await team.clock.advance(20)
  t.equal((await run.result).finalOutput, `over at ${startedAt + 20}`)
  t.same(outcomes, ['REQUEST_TIMEOUT', 'REQUEST_TIMEOUT'])
  t.match(run.tasks.slice(1), [{ status: 'failed' }, { status: 'failed' }])
  await team.clock.runToIdle()
})

t.test('a task that is done in time is left alone by its deadline', async (t) => {
  const lead: Receive = async (_message, context) => {
    const { status } = await context.delegate('worker', { description: 'x', deadline: context.now() + 20 })
    await context.sleep(50)
    return status
  }
  const team = openTeam(t, { lead, worker: echo })
  const answer = outcomeOf(ask(team, 'lead'))
  await team.clock.advance(60)
  t.equal(answer.value, 'completed')
})

t.test('a delegation that is withdrawn with its turn is cancelled', async (t) => {
  const signals: AbortSignal[] = []
  const worker: Receive = async (_message, { signal }) => {
    signals.push(signal)
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  }
  const lead: Receive = async (_message, context) => {
    void context.delegate('worker', 'now')
    void context.delegate('worker', 'later')
    await context.sleep(10)
    return 'over'
  }
  const team = openTeam(t, { lead, worker })
  const run = team.launch('q')
  await team.clock.advance(10)
  await run.result
  await team.clock.runToIdle()
  t.ok(signals[0]?.aborted)
  t.same(pluck(run.tasks, 'status'), ['completed', 'cancelled', 'cancelled'])
})

for (const by of ['a deadline of who asked', 'the host'])
  t.test(`a delegation whose turn is cut off by ${by} is cancelled, waiting or begun`, async (t) => {
    const hangs: Receive = (_message, { signal }) =>
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const lead: Receive = async (_message, context) => {
      await Promise.all([context.delegate('worker', 'now'), context.delegate('worker', 'later')])
    }
    const options = by === 'the host' ? { limits: { turnTimeoutMs: 20 } } : { communication: { responseTimeoutMs: 20 } }
    const orchestration = {
      strategy: 'custom' as const,
      run: async (script: OrchestratorContext) => {
        await script.request('lead', 'go').catch(() => {})
        await script.sleep(50)
        return 'over'
      },
    }
    const team = openTeam(t, { lead, worker: hangs }, { orchestration, roles: { lead: options } })
    const run = team.launch('q')
    await team.clock.advance(100)
    await run.result
    t.same(pluck(run.tasks, 'status'), ['failed', 'cancelled', 'cancelled'])
  })

t.test('a turn that is tried again does not delegate twice', async (t) => {
  let done = 0
  const worker: Receive = async (_message, context) => {
    await context.sleep(10)
    done += 1
    return 'hole'
  }
  const lead: Receive = async (_message, context) => {
    const { result, status } = await context.delegate('worker', 'dig')
    await context.sleep(10)
    return `${result} ${status} at attempt ${context.attempt}`
  }
  const team = openTeam(t, { lead, worker })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('lead')
  await team.clock.advance(10)
  team.crash('lead')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, 'hole completed at attempt 3')
  t.equal(done, 1)
  t.same(pluck(run.tasks, 'status'), ['completed', 'completed'])
})

// ---- who may delegate to whom

const roles = {
  boss: { canDelegateTo: ['clerk'] },
  clerk: { canDelegateTo: [] },
  drone: { delegationAllowed: false },
  hermit: { canBeDelegatedTo: false },
  free: {},
}
const cast = Object.fromEntries(
  Object.keys(roles).map((name): [string, Receive] => [
    name,
    ({ content, type }, context) =>
      type === 'delegate' ? `${name} did it` : context.delegate(content, 'x').then(({ result }) => `${result}`),
  ]),
)
const graph = {
  boss: ['clerk'],
  clerk: [],
  drone: [],
  hermit: ['boss', 'clerk', 'drone', 'free'],
  free: ['boss', 'clerk', 'drone'],
}

t.test('the delegation graph says who may give tasks to whom', async (t) => {
  const team = openTeam(t, cast, { roles })
  t.same(team.getDelegationGraph(), graph)
  for (const from of Object.keys(roles))
    for (const to of Object.keys(roles))
      t.equal(team.canDelegate(from, to), graph[from as keyof typeof graph].includes(to as never), `${from} ${to}`)
  for (const from of ['$user', '$orchestrator'])
    t.same(
      Object.keys(roles).filter((to) => team.canDelegate(from, to)),
      ['boss', 'clerk', 'drone', 'free'],
    )
})

t.test('it knows who comes and goes, and no other names', async (t) => {
  const team = openTeam(t, cast, { roles, later: { late: echo } })
  await team.addAgent({ name: 'late', canDelegateTo: ['free'] })
  await team.removeAgent('drone')
  t.same(team.getDelegationGraph().late, ['free'])
  t.same(team.getDelegationGraph().free, ['boss', 'clerk', 'late'])
  for (const [from, to] of [
    ['drone', 'free'],
    ['free', 'drone'],
    ['fre', 'boss'],
    ['free', '$user'],
    ['$runtime', 'free'],
  ] as const)
    t.throws(() => team.canDelegate(from, to), { code: 'UNKNOWN_AGENT' }, `${from} ${to}`)
})

const refused = [
  [
    'boss',
    'free',
    /"boss" cannot delegate to "free": "boss" may delegate to "clerk" alone \(canDelegateTo\)\. Add "free"/,
  ],
  ['clerk', 'free', /"clerk" may delegate to nobody alone/],
  ['drone', 'free', /"drone" may not delegate \(delegationAllowed: false\)/],
  ['free', 'hermit', /"hermit" takes no tasks of others \(canBeDelegatedTo: false\)/],
  ['free', 'free', /nobody delegates to itself/],
] as const

t.test('a delegation outside of the graph is refused with who, to whom, why and what to change', async (t) => {
  const team = openTeam(t, cast, { roles })
  for (const [from, to, why] of refused) {
    const error = await ask(team, from, to).then(
      () => undefined,
      (error) => error,
    )
    t.match(error.details.cause, { code: 'DELEGATION_REFUSED', message: why, details: { from, to } })
  }
  t.match(
    where(team.deadLetters.list(), 'reason', 'rejected'),
    refused.map(([from, to]) => ({ message: { type: 'delegate', sender: from, recipient: to } })),
  )
})

t.test('a refused delegation is a refused task, and the turn goes on', async (t) => {
  const lead: Receive = (_message, context) =>
    context.delegate('worker', 'x').then(String, (error) => `${error instanceof DelegationRefusedError}`)
  const team = openTeam(t, { lead, worker: echo }, { roles: { lead: { delegationAllowed: false } } })
  const run = team.launch('q')
  t.equal((await run.result).finalOutput, 'true')
  t.same(pluck(run.tasks, 'status'), ['completed', 'refused'])
})

t.test('rule 21: delegations are nested up to a bound, which is named', async (t) => {
  let turns = 0
  const passes =
    (to: string): Receive =>
    async ({ content }, context) => {
      turns += 1
      return `${(await context.delegate(to, content)).result}`
    }
  const names = Array.from({ length: 12 }, (_, i) => `n${i}`)
  const line = Object.fromEntries(names.map((name, i) => [name, passes(names[i + 1] ?? 'n0')]))
  const team = openTeam(t, line)
  const error = await ask(team, 'n0').then(
    () => undefined,
    (error) => error,
  )
  t.equal(turns, 9)
  t.match(JSON.stringify(error), 'it would be 9 delegations deep, and maxDelegationDepth is 8')
  t.match(team.deadLetters.list().find(({ reason }) => reason === 'rejected')?.errors, [
    { code: 'DELEGATION_REFUSED', details: { from: 'n8', to: 'n9', bound: 'maxDelegationDepth', limit: 8, depth: 9 } },
  ])
})

t.test('requests between delegations do not hide how deep they are', async (t) => {
  const passes: Receive = async ({ content, type }, context) => {
    const next = `n${Number(content) + 1}`
    if (type === 'request') return `${(await context.delegate(next, `${Number(content) + 1}`)).result}`
    return (await context.request(next, `${Number(content) + 1}`)).content
  }
  const line = Object.fromEntries(Array.from({ length: 24 }, (_, i) => [`n${i}`, passes]))
  const team = openTeam(t, line)
  await t.rejects(ask(team, 'n0', '0'))
  t.match(team.deadLetters.list().find(({ reason }) => reason === 'rejected')?.errors, [{ details: { from: 'n16' } }])
})

t.test('delegations one after the other are not nested', async (t) => {
  const lead: Receive = async (_message, context) => {
    for (let n = 0; n < 20; n++) await context.delegate('worker', `${n}`)
    return 'over'
  }
  t.equal(await ask(openTeam(t, { lead, worker: echo }), 'lead'), 'over')
})

// ---- from outside

t.test('delegateTask gives a task in the name of an agent, and resolves with it', async (t) => {
  const senders: string[] = []
  const worker: Receive = ({ sender, content }) => {
    senders.push(sender)
    return `did ${content}`
  }
  const team = openTeam(t, { lead: echo, worker }, { roles: { lead: { canDelegateTo: ['worker'] } } })
  const task = await team.delegateTask('lead', 'worker', { description: 'dig', priority: 3 })
  t.match(task, { description: 'dig', assignedTo: 'worker', status: 'completed', result: 'did dig', priority: 3 })
  await team.delegateTask('$user', 'worker', 'dig')
  t.same(senders, ['lead', '$user'])
})

t.test('delegateTask rejects as the verb does', async (t) => {
  const worker: Receive = (_message, context) => {
    throw context.refuse('no')
  }
  const team = openTeam(t, { lead: echo, worker }, { roles: { worker: { delegationAllowed: false } } })
  await t.rejects(team.delegateTask('lead', 'worker', 'x'), { code: 'TASK_REFUSED' })
  await t.rejects(team.delegateTask('worker', 'lead', 'x'), { code: 'DELEGATION_REFUSED' })
  await t.rejects(team.delegateTask('led', 'worker', 'x'), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.delegateTask('lead', 'wroker', 'x'), { code: 'UNKNOWN_AGENT' })
  await t.rejects(team.delegateTask('lead', 'worker', 5 as never), { code: 'MESSAGE_REJECTED' })
  await team.close()
  await t.rejects(team.delegateTask('lead', 'worker', 'x'), { code: 'TEAM_CLOSED' })
})

t.test('delegateTask outlives the agent in whose name the task was given, and who has its name next', async (t) => {
  const worker: Receive = async (_message, context) => {
    await context.sleep(10)
    return 'done'
  }
  const team = openTeam(t, { lead: echo, worker }, { later: { lead: echo } })
  const given = outcomeOf(team.delegateTask('lead', 'worker', 'x'))
  await team.clock.advance(0)
  await team.removeAgent('lead')
  await team.addAgent({ name: 'lead' })
  await team.clock.advance(10)
  t.match(given.value, { status: 'completed', result: 'done' })
})

t.test('a delegate message from outside is held to the graph in the name of its sender', async (t) => {
  const team = openTeam(t, cast, { roles })
  const message = { type: 'delegate' as const, recipient: 'free', content: 'x' }
  await t.rejects(team.sendMessage({ ...message, sender: 'boss' }), { code: 'DELEGATION_REFUSED' })
  t.equal(await team.sendMessage({ ...message, sender: 'hermit' }), null)
  t.match(await team.sendMessage({ ...message, requiresResponse: true }), { content: 'free did it' })
})

t.test('delegations work in a chain', async (t) => {
  const team = openTeam(t, { a: delegates('b'), b: delegates('c'), c: echo })
  const run = team.launch('dig')
  t.equal((await run.result).finalOutput, 'c did dig (delegate)')
  const [a, b, c] = run.tasks
  t.same([a!.parentTask, b!.parentTask, c!.parentTask], [null, a!.id, b!.id])
})

// Tasks that depend on others: a task comes to its agent when those are completed. Document 002, 2.5.2.

/** Works for as many ms as its task says. */
const works: Receive = async ({ content }, context) => {
  if (content === 'refuse') throw context.refuse('busy')
  if (content === 'fail') throw new Error('broken')
  await context.sleep(Number(content))
  return `${context.role.name} at ${context.now()}`
}

const statuses = (run: Run) => run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`)

/** How each task went: `b: assigned blocked assigned in_progress completed`. */
async function courseOf(run: Run): Promise<string[]> {
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
  const team = openTeam(t, all, {
    script: async (script) => {
      const start = script.now()
      const a = script.delegate('a', '10')
      const needsA = { dependencies: [await a.id] }
      const b = script.delegate('b', { description: '30', ...needsA })
      const c = script.delegate('c', { description: '5', ...needsA })
      const d = script.delegate('d', { description: '1', dependencies: [await b.id, await c.id] })
      return `${Number(String((await d).result).slice(5)) - start}`
    },
  })
  const run = team.launch('q')
  await team.clock.advance(5)
  t.same(statuses(run), ['a in_progress', 'b blocked', 'c blocked', 'd blocked'])
  t.same(Object.values(team.getTaskStatus(run.id)), ['in_progress', 'blocked', 'blocked', 'blocked'])
  await team.clock.advance(7)
  t.same(statuses(run), ['a completed', 'b in_progress', 'c in_progress', 'd blocked'])
  t.equal(await ended(team, run), '41')
  t.same(await courseOf(run), [
    'a: assigned in_progress completed',
    'b: assigned blocked assigned in_progress completed',
    'c: assigned blocked assigned in_progress completed',
    'd: assigned blocked assigned in_progress completed',
  ])
})

t.test('one that depends on what is completed already begins at once', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const { id } = await script.delegate('a', '10')
      return (await script.delegate('b', { description: '1', dependencies: [id, id] })).status
    },
  })
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same((await courseOf(run))[1], 'b: assigned in_progress completed')
})

t.test('an agent waits for the tasks of others, by what it was told of them', async (t) => {
  const team = given(t, { communication: { responseTimeoutMs: 1_000 } }).team({
    lead: async (_message, context) => {
      const survey = context.delegate('a', '20')
      return (await context.request('builder', await survey.id)).content
    },
    builder: async ({ content }, context) =>
      `${(await context.delegate('b', { description: '1', dependencies: [content] })).status}`,
    a: works,
    b: works,
  })
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['lead completed', 'a completed', 'b completed'])
})

for (const [what, code] of Object.entries({ refuse: 'refused', fail: 'failed' }))
  t.test(`one that depends on a task that was ${code} fails, and says so of which`, async (t) => {
    const team = openTeam(t, all, {
      script: async (script) => {
        const a = script.delegate('a', what)
        const b = outcomeOf(script.delegate('b', { description: '1', dependencies: [await a.id] }))
        const c = script.delegate('c', { description: '1', dependencies: [await a.id] })
        const d = script.delegate('d', { description: '1', dependencies: [await c.id] })
        await Promise.allSettled([a, c, d])
        t.match(b.error, { code: 'DEPENDENCY_FAILED', details: { agent: 'b', dependency: await a.id, status: code } })
        t.match(b.error?.message, `the task of "a" (${await a.id})`)
        const late = script.delegate('d', { description: '1', dependencies: [await a.id] })
        return `${await late.catch((error) => error.code)}`
      },
    })
    const run = team.launch('q')
    t.equal(await ended(team, run), 'DEPENDENCY_FAILED')
    t.same(statuses(run), [`a ${code}`, 'b failed', 'c failed', 'd failed', 'd failed'])
    t.match((await run.result).failures.slice(1, 4), [{ agent: 'b' }, { agent: 'c' }, { agent: 'd' }])
  })

t.test('one that depends on a task that is cancelled fails', async (t) => {
  const team = given(t, {
    script: async (script) => {
      const lead = script.request('lead', 'go')
      const id = `${(await script.blackboard.waitFor('dropped')).value}`
      const b = await script.delegate('b', { description: '1', dependencies: [id] }).catch((error) => error.code)
      return `${(await lead).content}, ${b}`
    },
  }).team({
    ...all,
    lead: async (_message, context) => {
      const dropped = context.delegate('a', '1000')
      await context.publish('dropped', await dropped.id, 'id')
      await context.sleep(10)
      return 'lead is done'
    },
  })
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
  const team = given(t, {
    script: async (script) => {
      const a = script.delegate('a', 'go')
      const b = script.delegate('b', { description: '1', dependencies: [await a.id] })
      second = await b.id
      told.open()
      return `${(await a).result} ${(await b).status}`
    },
  }).team({
    ...all,
    a: async (_message, context) => {
      await told.opened
      return context.delegate('c', { description: '1', dependencies: [second] }).then(
        () => 'done',
        (error) => error.code,
      )
    },
  })
  const found = watched(team)
  const run = team.launch('q')
  t.equal(await ended(team, run), 'DEADLOCK completed')
  t.match(found, [{ type: 'deadlock' }, {}])
})

t.test('the time that it waits for others counts for the deadline of a task', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const a = script.delegate('a', '100')
      const b = { description: '1', dependencies: [await a.id], deadline: script.now() + 20 }
      const { code, message } = await script.delegate('b', b).catch((error) => error)
      return `${code} ${message}`
    },
  })
  const run = team.launch('q')
  await team.clock.advance(20)
  const { finalOutput } = await run.result
  t.match(finalOutput, /^REQUEST_TIMEOUT .*it waited for what it depends on: .* of "a"/)
  t.same(statuses(run), ['a cancelled', 'b failed'])
})

t.test('a deadline that is over is refused at once', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const late = { description: '1', deadline: script.now() - 5 }
      const { code, message } = await script.delegate('a', late).catch((error) => error)
      return `${code} ${message}`
    },
  })
  const run = team.launch('q')
  t.match(await ended(team, run), /^DELEGATION_REFUSED .*the deadline of the task was 5 ms ago/)
  t.same(statuses(run), ['a refused'])
})

t.test('a run that ends takes what waits for others with it', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const a = script.delegate('a', '1000')
      void script.delegate('b', { description: '1', dependencies: [await a.id] })
      await script.delegate('c', { description: '1', dependencies: [await a.id] })
      return 'over'
    },
  })
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  await team.clock.runToIdle()
  t.same(statuses(run), ['a cancelled', 'b cancelled', 'c cancelled'])
})

t.test('one that waits is withdrawn with the turn that had given it', async (t) => {
  const team = given(t, {
    script: async (script) => {
      const a = script.delegate('a', '100')
      await script.request('lead', await a.id)
      return `${(await a).status}`
    },
  }).team({
    lead: async ({ content }, context) => {
      void context.delegate('b', { description: '1', dependencies: [content] })
      await context.sleep(5)
      return 'lead is done'
    },
    ...all,
  })
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['a completed', 'lead completed', 'b cancelled'])
})

t.test('one whose agent is gone for good fails at once', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const a = script.delegate('a', '100')
      const b = script.delegate('b', { description: '1', dependencies: [await a.id] }).catch((error) => error.code)
      return `${await b}`
    },
  })
  const run = team.launch('q')
  await team.clock.advance(5)
  const removed = team.removeAgent('b')
  await team.clock.advance(0)
  t.equal((await run.result).finalOutput, 'AGENT_TERMINATED')
  await team.clock.runToIdle()
  await removed
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
})

t.test('a task that is given from outside waits too, and ends with its run', async (t) => {
  const team = openTeam(t, all, { script: async (script) => `${(await script.delegate('a', '100')).status}` })
  const run = team.launch('q')
  await team.clock.advance(5)
  const sent = team.sendMessage({
    type: 'delegate',
    runId: run.id,
    recipient: 'b',
    content: '1',
    structuredData: { dependencies: [run.tasks[0]!.id] },
    requiresResponse: true,
  })
  const outcome = outcomeOf(sent)
  await team.clock.advance(5)
  t.same(statuses(run), ['a in_progress', 'b blocked'])
  await run.cancel()
  await team.clock.runToIdle()
  t.equal(outcome.error?.code, 'RUN_ABORTED')
  t.same(statuses(run), ['a cancelled', 'b cancelled'])
})

t.test('tasks that wait take no room in a mailbox', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const a = script.delegate('a', '10')
      const dependencies = [await a.id]
      const held = Array.from({ length: 6 }, () => script.delegate('b', { description: '5', dependencies }))
      const b = script.delegate('b', '1')
      await Promise.all([b, ...held])
      return 'over'
    },
    communication: { mailboxCapacity: 2 },
  })
  const run = team.launch('q')
  await team.clock.advance(5)
  t.equal(run.tasks.at(-1)?.status, 'completed')
  await team.clock.advance(7)
  const { index, mailbox } = team.agent('b')
  t.equal(mailbox.waiting + mailbox.underWay, 2)
  t.equal(team.host.team.taken(index), mailbox.expected ? 3 : 2, 'what it has been given has its room')
  t.equal(await ended(team, run), 'over')
})

t.test('those that were let go together go by priority', async (t) => {
  const order: string[] = []
  const b: Receive = ({ content }) => void order.push(content)
  const team = given(t, {
    script: async (script) => {
      const a = script.delegate('a', '10')
      const dependencies = [await a.id]
      const given = [1, 9, 5].map((priority) =>
        script.delegate('b', { description: `${priority}`, priority, dependencies }),
      )
      await Promise.all(given)
      return 'over'
    },
  }).team({ a: works, b })
  await ended(team, team.launch('q'))
  t.same(order, ['9', '5', '1'])
})

t.test('what depends on a task that is handed off waits for the one that it became', async (t) => {
  const team = given(t, {
    script: async (script) => {
      const a = script.delegate('a', '20')
      await script.delegate('b', { description: '1', dependencies: [await a.id] })
      return 'over'
    },
  }).team({
    a: (message, context) => context.handoff('c', message.content),
    b: works,
    c: works,
  })
  const run = team.launch('q')
  await team.clock.advance(10)
  t.same(statuses(run), ['a handed_off', 'b blocked', 'c in_progress'])
  t.equal(await ended(team, run), 'over')
  t.same(statuses(run), ['a handed_off', 'b completed', 'c completed'])
})

t.test('what depends on a task that is reassigned waits for the one that it became', async (t) => {
  const team = given(t, {
    roles: { a: { escalateTo: 'lead' } },
    script: async (script) => {
      const a = script.delegate('a', '20')
      return (await script.delegate('b', { description: '1', dependencies: [await a.id] })).status
    },
  }).team({
    a: async (_message, context) => {
      const outcome = await context.escalate('no spade')
      return outcome.kind === 'reassigned' ? `by ${outcome.to}` : outcome.kind
    },
    lead: () => ({ structuredData: { decision: 'reassign', to: 'c' } }),
    b: works,
    c: works,
  })
  const run = team.launch('q')
  t.equal(await ended(team, run), 'completed')
  t.same(statuses(run), ['a handed_off', 'b completed', 'c completed'])
})

t.test('a task that finds no room has its id when it stands in line', async (t) => {
  const team = openTeam(t, all, {
    script: async (script) => {
      const given = ['10', '10'].map((description) => script.delegate('a', description))
      const id = await Promise.race([given[1]!.id, script.sleep(5).then(() => 'none')])
      return (await script.delegate('b', { description: '1', dependencies: [id] })).status
    },
    communication: { mailboxCapacity: 1 },
  })
  t.equal(await ended(team, team.launch('q')), 'completed')
})

t.test('a task is given to nobody who lacks a capability that it needs', async (t) => {
  const team = given(t, {
    roles: { able: { capabilities: ['Spade', { name: 'rope' }] } },
    script: async (script) => {
      const dig = { description: '1', requiredCapabilities: ['spade', 'rope'] }
      const { code, message } = await script.delegate('plain', dig).catch((error) => error)
      return `${(await script.delegate('able', dig)).status} ${code} ${message}`
    },
  }).team({ lead: () => {}, plain: works, able: works })
  const run = team.launch('q')
  t.match(
    await ended(team, run),
    /^completed DELEGATION_REFUSED .*the task needs "spade", "rope" \(requiredCapabilities\), which "plain" does not declare/,
  )
  t.same(statuses(run), ['plain refused', 'able completed'])
})
