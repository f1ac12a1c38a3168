/** Each request of the protocol script is a task, whose status can be seen at any time. */
import t from 'tap'
import { type AgentDefinition, defineAgent, type Run } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { after, all, echo, refuses, says, stage, throws } from './stage.ts'

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
