/** Each field of a role reaches its agent; reports to managers; requests of scripts as tasks. */
import t from 'tap'
import {
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  type DramatisError,
  defineAgent,
  type RoleInfo,
  type Run,
} from '../../src/index.ts'
import { testAgent } from '../../src/testing.ts'
import { pluck, where } from '../kit/lists.ts'
import { ask, given, localTeam, never, openTeam } from '../kit/team.ts'
import { after, all, echo, refuses, says, stage, throws } from './stage.ts'

// Each field of a role reaches its agent, or changes what happens.

/** What the agent `a` sees of its role. */
async function seen(t: Parameters<typeof stage>[0], role: Omit<AgentRole, 'name'>): Promise<RoleInfo> {
  const tells = defineAgent({
    receive: (_message, context) => ({ structuredData: JSON.parse(JSON.stringify(context.role)) }),
  })
  const team = stage(
    t,
    { a: { code: tells, ...role }, b: echo, c: echo },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  const result = await team.execute('q')
  if (!result.success) throw result.error
  return result.agentOutputs.a![0]!.structuredData as RoleInfo
}

const fields: Omit<Required<RoleInfo>, 'name' | 'trust'> = {
  description: 'Finds things out.',
  systemPrompt: 'You find things out.',
  capabilities: [
    'search',
    {
      name: 'count',
      description: 'Counts',
      inputTypes: ['text'],
      outputTypes: ['number'],
      estimatedTokens: 50,
      confidence: 0.5,
    },
  ],
  skills: ['MathSkill'],
  verbs: 'all',
  model: 'small',
  temperature: 0.2,
  topP: 0.9,
  stop: ['END'],
  seed: 7,
  reasoningEffort: 'low',
  toolChoice: { tool: 'search' },
  parallelToolCalls: false,
  strict: true,
  promptCaching: true,
  headers: { 'x-team': 'desk' },
  extraBody: { top_k: 3 },
  providerOptions: { anthropic: { thinking: { type: 'enabled' } } },
  maxTokens: 8_000,
  maxOutputTokens: 500,
  maxRounds: 4,
  maxParallelToolCalls: 3,
  delegationAllowed: false,
  canDelegateTo: ['b'],
  canHandoffTo: ['b'],
  canBeDelegatedTo: false,
  escalateTo: 'b',
  sharedWith: ['c'],
  priority: 3,
  weight: 2.5,
  data: { step: 2, deep: [{ n: null }] },
  accepts: ['image'],
}
for (const [field, value] of Object.entries(fields))
  t.test(`${field} is in the role that the agent sees`, async (t) => {
    t.same(await seen(t, { [field]: value }), { name: 'a', [field]: value })
  })

t.test('a role without anything has its name alone', async (t) => {
  t.same(await seen(t, {}), { name: 'a' })
})

t.test('what is for the host alone is not seen', async (t) => {
  const hostOnly = {
    env: ['PATH'],
    limits: { turnTimeoutMs: 50 },
    supervision: { maxRestarts: 1 },
    communication: { mailboxCapacity: 5 },
  }
  t.same(await seen(t, hostOnly), { name: 'a' })
})

t.test('the role cannot be changed, neither by its agent nor by who wrote it', async (t) => {
  const role = { data: { list: [1] } }
  const changes = defineAgent({
    receive(_message, context) {
      ;(context.role.data as { list: number[] }).list.push(2)
    },
  })
  const team = stage(t, { a: { code: changes, ...role } })
  t.match((await team.execute('q')).error, { code: 'AGENT_FAILED' })
  const tells = defineAgent({ receive: (_message, context) => JSON.stringify(context.role.data) })
  const other = stage(t, { a: { code: tells, ...role } })
  role.data.list.push(3)
  t.equal((await other.execute('q')).finalOutput, '{"list":[1]}')
})

t.test('data is what the schema of the agent makes of it', async (t) => {
  const { z } = await import('zod')
  const code = defineAgent({
    data: z.object({ step: z.coerce.number(), unit: z.string().default('m') }),
    receive: (_message, { data, role }) => ({ structuredData: { data, role: role.data } }),
  })
  const team = stage(t, { a: { code, data: { step: '2' } } })
  t.same((await team.execute('q')).agentOutputs.a?.[0]?.structuredData, {
    data: { step: 2, unit: 'm' },
    role: { step: '2' },
  })
})

t.test('data that misses the schema is a configuration error, before any message is handled', async (t) => {
  const { z } = await import('zod')
  const code = defineAgent({ data: z.object({ step: z.number() }), receive: () => 'never' })
  const team = stage(t, { a: { code, data: { step: 'two' } } })
  const wrong = {
    code: 'CONFIGURATION',
    message: /data of agent "a" misses its schema: step: /,
    details: { path: 'data', agent: 'a' },
  }
  await t.rejects(team.start(), wrong)
  await t.rejects(team.execute('q'), wrong)
  await t.rejects(team.launch('q').result, wrong)
  await t.rejects(team.sendMessage({ recipient: 'a', content: 'hi' }), wrong)
})

t.test('weight counts in a vote', async (t) => {
  const team = stage(
    t,
    { a: { code: says('yes'), weight: 3 }, b: says('no'), c: says('no') },
    { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' } },
  )
  t.equal((await team.execute('q')).finalOutput, 'yes')
})

t.test('a weight that is none makes it a vote by majority', async (t) => {
  for (const weight of [null, Number.NaN, Number.POSITIVE_INFINITY]) {
    const team = stage(
      t,
      { a: { code: says('yes'), weight: 3 }, b: { code: says('no'), weight }, c: says('no') },
      { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' } },
    )
    t.equal((await team.execute('q')).finalOutput, 'no', String(weight))
  }
})

t.test('priority decides a conflict, if it is to', async (t) => {
  const team = stage(
    t,
    { a: says('yes'), b: { code: says('no'), priority: 2 } },
    { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'priority' } },
  )
  t.equal((await team.execute('q')).finalOutput, 'no')
})

t.test('escalateTo gets the reports of its agent', async (t) => {
  const heard: string[] = []
  const boss = defineAgent({ receive() {}, observe: ({ content }) => void heard.push(content) })
  const team = stage(t, { a: { code: echo, escalateTo: 'boss' }, boss })
  await team.sendMessage({ type: 'report', sender: 'a', recipient: null, content: 'stuck' })
  await team.clock.advance(0)
  t.same(heard, ['stuck'])
})

t.test('limits.turnTimeoutMs ends a turn', async (t) => {
  const team = stage(t, { a: { code: after(100), limits: { turnTimeoutMs: 10 } } })
  const pending = team.execute('q')
  await team.clock.advance(10)
  t.match((await pending).error, { code: 'TURN_TIMEOUT', details: { agent: 'a', turnTimeoutMs: 10 } })
})

t.test('communication of a role goes before that of the team', async (t) => {
  const patient = { code: after(100), communication: { responseTimeoutMs: 200 } }
  const team = stage(t, { a: patient, b: after(100) }, { communication: { responseTimeoutMs: 10 } })
  const [a, b] = ['a', 'b'].map((recipient) => team.sendMessage({ recipient, content: 'hi', requiresResponse: true }))
  const late = t.rejects(b!, { code: 'REQUEST_TIMEOUT', details: { waitedMs: 10 } })
  await team.clock.advance(100)
  await late
  t.match(await a, { content: 'done' })
})

t.test('queueTimeoutMs limits how long a message may wait', async (t) => {
  const team = stage(t, { a: { code: after(100), communication: { queueTimeoutMs: 10 } } })
  await team.sendMessage({ recipient: 'a', content: 'first' })
  const waiting = team.sendMessage({ recipient: 'a', content: 'second', requiresResponse: true })
  const expired = t.rejects(waiting, { code: 'MESSAGE_EXPIRED', details: { queueTimeoutMs: 10 } })
  await team.clock.advance(10)
  await expired
  t.match(team.deadLetters.list(), [{ reason: 'expired', message: { content: 'second' } }])
})

t.test('supervision of a role goes before that of the team', async (t) => {
  const team = stage(
    t,
    { a: { code: echo, supervision: { maxRestarts: 5 } }, b: echo },
    { supervision: { maxRestarts: 0 } },
  )
  await team.start()
  team.crash('a')
  team.crash('b')
  await team.clock.advance(0)
  t.same([team.getAgentStatus('a'), team.getAgentStatus('b')], ['idle', 'failed'])
})

// report: to the manager that a role names, else to the protocol script, which finds it in the run's history and
// events.

const reports = defineAgent({
  receive: (_message, context) => context.report('half done', { done: 0.5 }),
})

t.test('a report comes to observe of the manager', async (t) => {
  const heard: AgentMessage[] = []
  const manager = defineAgent({ receive: () => 'not here', observe: (message) => void heard.push(message) })
  const team = localTeam(t, { worker: reports, manager }, { roles: { worker: { escalateTo: 'manager' } } })
  const result = await team.execute('go')
  await team.clock.advance(0)
  const report = { type: 'report', sender: 'worker', recipient: 'manager', content: 'half done' }
  t.match(heard, [{ ...report, structuredData: { done: 0.5 }, runId: result.runId }])
  t.match(where(result.messageHistory, 'type', 'report'), [report])
})

t.test(
  "without a manager a report is the script's: in its run's history, trace and events, when the verb resolves",
  async (t) => {
    const seen: number[] = []
    const told: AgentMessage[] = []
    const team = given(t, {
      script: async (script, query) => {
        await script.request('worker', query)
        const history = team.getRun(script.runId)!.messageHistory
        seen.push(history.filter(({ type }) => type === 'report').length)
        return 'done'
      },
    }).team({ worker: reports })
    team.events.subscribe((event) => void (event.type === 'message' && told.push(event.message)))
    const result = await team.execute('go')
    const report = {
      type: 'report',
      sender: 'worker',
      recipient: '$orchestrator',
      content: 'half done',
      structuredData: { done: 0.5 },
    }
    t.match(where(result.messageHistory, 'type', 'report'), [report])
    t.match(where(told, 'type', 'report'), [report])
    t.match(where(result.orchestrationTrace.messageFlow, 'type', 'report'), [{ from: 'worker', to: '$orchestrator' }])
    t.same(seen, [1])
    t.same(team.deadLetters.list(), [])
  },
)

t.test('a report to a manager that does not take it is refused, and a dead letter', async (t) => {
  const team = given(t, {
    roles: {
      worker: { escalateTo: 'manager' },
      manager: { communication: { mailboxCapacity: 1, overflow: 'reject' } },
    },
  }).testTeam({
    worker: (_message, context) => context.report('half done').catch((error: DramatisError) => error.code),
    manager: () => never,
  })
  void ask(team, 'manager').catch(() => {})
  await team.clock.advance(0)
  t.equal(await ask(team, 'worker'), 'MAILBOX_FULL')
  t.match(team.deadLetters.list(), [{ reason: 'rejected', message: { type: 'report', recipient: 'manager' } }])
})

t.test('a redelivered turn reports once', async (t) => {
  const team = openTeam(t, {
    async worker(_message, context) {
      await context.report('half done')
      if (context.attempt > 1) return 'done'
      team.crash('worker')
      return never
    },
  })
  const result = await team.execute('go')
  t.equal(result.finalOutput, 'done')
  t.equal(result.messageHistory.filter(({ type }) => type === 'report').length, 1)
})

t.test('a test of one agent sees what it reports', async (t) => {
  const agent = testAgent(reports)
  await agent.request('go')
  t.match(agent.sent, [{ type: 'report', recipient: '$orchestrator', content: 'half done' }])
})

t.test('nothing but a report reaches the names of the runtime, and its sender is told', async (t) => {
  const team = localTeam(t, {
    worker: ({ content }, context) => context.send(content, 'hi').catch((error: DramatisError) => error.code),
  })
  for (const name of ['$orchestrator', '$user', '$runtime']) t.equal(await ask(team, 'worker', name), 'UNKNOWN_AGENT')
  t.same(
    team.deadLetters.list().map(({ reason, message }) => [reason, message.recipient]),
    ['$orchestrator', '$user', '$runtime'].map((name) => ['unknown_agent', name]),
  )
})

// Each request of the protocol script is a task, whose status can be seen at any time.

/** How each task of a run went, in the order in which they were made: `a: assigned in_progress completed`. */
async function courses(run: Run): Promise<string[]> {
  const lines = new Map<string, string>()
  for (const event of await all(run.events({ types: ['task'] }))) {
    if (event.type !== 'task') continue
    const { id, assignedTo, status } = event.task
    lines.set(id, `${lines.get(id) ?? `${assignedTo}:`} ${status}`)
  }
  return [...lines.values()]
}

const script = (run: (ask: (to: string) => Promise<unknown>) => Promise<unknown>) => ({
  orchestration: {
    strategy: 'custom' as const,
    run: async (orchestrator: { request(to: string, content: string): Promise<unknown> }) => {
      await run((to) => orchestrator.request(to, 'work'))
      return 'over'
    },
  },
})

t.test('a task is assigned, then in progress, then completed', async (t) => {
  const run = stage(t, { a: echo }).launch('q')
  t.same(await courses(run), ['a: assigned in_progress completed'])
})

t.test('its id is the id of the message, its description the content, its result the answer', async (t) => {
  const team = stage(t, { a: says({ content: 'words', structuredData: { n: 1 } }), b: echo })
  const run = team.launch('q')
  const { messageHistory } = await run.result
  const requests = messageHistory.filter(({ type, sender }) => type === 'request' && sender === '$orchestrator')
  t.same(pluck(run.tasks, 'id'), pluck(requests, 'id'))
  t.match(run.tasks, [
    { assignedTo: 'a', description: 'q', status: 'completed', result: { n: 1 }, priority: 0 },
    { assignedTo: 'b', description: 'words', status: 'completed', result: 'b: words' },
  ])
})

t.test('every event of a task says what it was before', async (t) => {
  const run = stage(t, { a: echo }).launch('q')
  const events = await all(run.events({ types: ['task'] }))
  t.match(events, [
    { previous: null, task: { status: 'assigned' } },
    { previous: 'assigned', task: { status: 'in_progress' } },
    { previous: 'in_progress', task: { status: 'completed' } },
  ])
})

const ends: Record<string, { code: AgentDefinition; course: string; failure: string | undefined }> = {
  'that throws fails': { code: throws(), course: 'a: assigned in_progress failed', failure: 'AGENT_FAILED' },
  'that is refused is refused': {
    code: refuses(),
    course: 'a: assigned in_progress refused',
    failure: 'TASK_REFUSED',
  },
  'whose reply is none fails': {
    code: defineAgent({ receive: () => 5 as never }),
    course: 'a: assigned in_progress failed',
    failure: 'REPLY_INVALID',
  },
}
for (const [title, { code, course, failure }] of Object.entries(ends))
  t.test(`a task ${title}`, async (t) => {
    const run = stage(
      t,
      { a: code },
      script((ask) => ask('a').catch(() => {})),
    ).launch('q')
    t.same(await courses(run), [course])
    const { failures, taskCompletion } = await run.result
    t.match(failures, [{ agent: 'a', taskId: run.tasks[0]!.id, error: { code: failure } }])
    t.same(taskCompletion, { [run.tasks[0]!.id]: run.tasks[0]!.status })
  })

t.test('a task for an agent that nobody has fails, and names it', async (t) => {
  const run = stage(
    t,
    { a: echo },
    script((ask) => ask('zoe').catch(() => {})),
  ).launch('q')
  const { failures } = await run.result
  t.same(await courses(run), ['zoe: assigned failed'])
  t.match(failures, [{ agent: 'zoe', taskId: run.tasks[0]!.id, error: { code: 'UNKNOWN_AGENT' } }])
})

t.test('a refused request is answered by the runtime, under the request that it answers', async (t) => {
  const run = stage(
    t,
    { a: echo },
    script((ask) => ask('zoe').catch(() => {})),
  ).launch('q')
  const { messageHistory } = await run.result
  const request = messageHistory.find(({ recipient }) => recipient === 'zoe')
  t.match(
    messageHistory.find(({ correlationId }) => correlationId === request?.id),
    { type: 'response', sender: '$runtime', recipient: '$orchestrator' },
  )
})

t.test('a task for a full mailbox that rejects fails', async (t) => {
  const a = { code: after(10), communication: { mailboxCapacity: 1, overflow: 'reject' as const } }
  const team = stage(
    t,
    { a },
    script((ask) => Promise.allSettled([ask('a'), ask('a')])),
  )
  const run = team.launch('q')
  await team.clock.advance(10)
  t.match((await run.result).failures, [{ agent: 'a', error: { code: 'MAILBOX_FULL' } }])
  t.same((await courses(run)).sort(), ['a: assigned failed', 'a: assigned in_progress completed'])
})

t.test('a task that is too late fails', async (t) => {
  const a = { code: after(100), communication: { responseTimeoutMs: 10 } }
  const team = stage(
    t,
    { a },
    script((ask) => ask('a').catch(() => {})),
  )
  const run = team.launch('q')
  await team.clock.advance(10)
  t.same(await courses(run), ['a: assigned in_progress failed'])
  t.match((await run.result).failures, [{ error: { code: 'REQUEST_TIMEOUT' } }])
})

t.test('the losers of requestAny are cancelled, and are no failures', async (t) => {
  const team = stage(
    t,
    { a: after(10), b: after(5), c: after(20) },
    { orchestration: { strategy: 'custom', run: async (o) => (await o.requestAny(['a', 'b', 'c'], 'go')).sender } },
  )
  const run = team.launch('q')
  await team.clock.advance(5)
  const result = await run.result
  t.equal(result.finalOutput, 'b')
  t.same(result.failures, [])
  t.same(
    run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`),
    ['a cancelled', 'b completed', 'c cancelled'],
  )
})

t.test('a task that the script does not wait for is cancelled with it', async (t) => {
  const team = stage(
    t,
    { a: after(10) },
    script(async (ask) => void ask('a')),
  )
  const run = team.launch('q')
  t.equal((await run.result).success, true)
  t.same(await courses(run), ['a: assigned cancelled'])
})

for (const [title, end] of Object.entries({
  'that is cancelled': (run: Run) => run.cancel(),
  'whose time is up': () => {},
}))
  t.test(`a run ${title} cancels the tasks that are open, and only these`, async (t) => {
    const team = stage(t, { a: echo, b: after(100), c: echo }, { maxConcurrentAgents: 1 })
    const run = team.launch('q', { timeoutMs: 20 })
    await team.clock.advance(15)
    void end(run)
    await team.clock.advance(5)
    const { taskCompletion } = await run.result
    t.same(Object.values(taskCompletion), ['completed', 'cancelled'])
    t.same(await courses(run), ['a: assigned in_progress completed', 'b: assigned in_progress cancelled'])
  })

t.test('a task survives the crash of its agent', async (t) => {
  const team = stage(t, { a: after(10) })
  const run = team.launch('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(20)
  t.same(await courses(run), ['a: assigned in_progress completed'])
  t.equal((await run.result).success, true)
})

t.test('a turn that is tried again has not failed its task', async (t) => {
  const flaky = defineAgent({
    receive(_message, { attempt }) {
      if (attempt < 3) throw new Error('not yet')
      return `done at ${attempt}`
    },
  })
  const run = stage(t, { a: { code: flaky, supervision: { onHandlerError: 'retry' } } }).launch('q')
  const { failures, finalOutput, messageHistory } = await run.result
  t.same({ failures, finalOutput }, { failures: [], finalOutput: 'done at 3' })
  t.same(await courses(run), ['a: assigned in_progress completed'])
  t.equal(messageHistory.filter(({ sender }) => sender === 'a').length, 1)
})

t.test('status can be asked for while the run is under way', async (t) => {
  const team = stage(t, { a: after(10), b: after(10) })
  const run = team.launch('q')
  await team.clock.advance(15)
  t.same(Object.values(team.getTaskStatus(run.id)), ['completed', 'in_progress'])
  t.same(team.getTaskStatus(), team.getTaskStatus(run.id))
})

t.test('priority and deadline of a task are those of the request', async (t) => {
  const team = stage(
    t,
    { a: echo },
    {
      orchestration: {
        strategy: 'custom',
        run: async (o) => (await o.request('a', 'urgent', { priority: 7 })).content,
      },
    },
  )
  const run = team.launch('q')
  await run.result
  t.match(run.tasks, [{ priority: 7, deadline: null, dependencies: [], parentTask: null, requiredCapabilities: [] }])
})
