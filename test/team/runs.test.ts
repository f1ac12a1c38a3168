/** Runs: how they are asked for, admitted, joined, found again, cancelled and forgotten. */
import t from 'tap'
import {
  type AgentMessage,
  defineAgent,
  type Run,
  type RunOptions,
  TeamClosedError,
  TeamOverloadedError,
} from '../../src/index.ts'
import { after, all, echo, stage, throws } from './stage.ts'

t.test('a handle says what the run is and how it stands', async (t) => {
  const team = stage(t, { a: after(10) })
  const run = team.launch('q', { runId: 'mine' })
  t.match(run, { id: 'mine', query: 'q', status: 'running' })
  await team.clock.advance(10)
  t.equal((await run.result).runId, 'mine')
  t.equal(run.status, 'finished')
})

t.test('a run that failed, was cancelled or was too late says so', async (t) => {
  const team = stage(
    t,
    { a: after(10), b: throws() },
    { orchestration: { strategy: 'sequential', agentOrder: ['a', 'b'] } },
  )
  const [failing, cancelled, late] = [team.launch('q'), team.launch('q'), team.launch('q', { timeoutMs: 5 })]
  void cancelled.cancel('changed my mind')
  await team.clock.advance(30)
  const errors = await Promise.all([failing, cancelled, late].map(async ({ result }) => (await result).error?.code))
  t.same(errors, ['AGENT_FAILED', 'RUN_ABORTED', 'RUN_TIMEOUT'])
  t.same([failing.status, cancelled.status, late.status], ['failed', 'aborted', 'failed'])
})

t.test('runs are found by their id and listed by their status, the oldest first', async (t) => {
  const team = stage(t, { a: after(10) })
  const one = team.launch('one')
  await team.clock.advance(15)
  const two = team.launch('two')
  t.equal(team.getRun(one.id), one)
  t.equal(team.getRun('nobody'), undefined)
  t.same(await team.listRuns(), [
    { id: one.id, query: 'one', status: 'finished', startedAt: 0 },
    { id: two.id, query: 'two', status: 'running', startedAt: 15 },
  ])
  t.match(await team.listRuns({ status: 'running' }), [{ id: two.id }])
  t.same(await team.listRuns({ status: 'interrupted' }), [])
})

t.test('the same id with the same query joins the run, with another query it is refused', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q', { runId: 'r' })
  t.equal(team.launch('q', { runId: 'r' }), run)
  t.throws(() => team.launch('other', { runId: 'r' }), { code: 'CONFIGURATION', details: { path: 'runId' } })
  await run.result
  t.equal(team.launch('q', { runId: 'r' }), run)
  await t.rejects(team.execute('other', { runId: 'r' }), { code: 'CONFIGURATION' })
})

t.test('metadata and threadId of a run reach every agent', async (t) => {
  const tells = defineAgent({ receive: (_message, { run, runId }) => ({ structuredData: { ...run, runId } }) })
  const team = stage(t, { a: tells })
  const { agentOutputs } = await team.execute('q', { runId: 'r', metadata: { user: 'ann' }, threadId: 'talk' })
  t.match(agentOutputs.a, [{ structuredData: { metadata: { user: 'ann' }, threadId: 'talk', runId: 'r' } }])
  const plain = await team.execute('q', { runId: 's' })
  t.same(plain.agentOutputs.a?.[0]?.structuredData, { metadata: {}, runId: 's' })
})

t.test('metadata cannot be changed by an agent', async (t) => {
  const meddles = defineAgent({
    receive(_message, { run }) {
      Object.assign(run.metadata, { user: 'eve' })
    },
  })
  t.match((await stage(t, { a: meddles }).execute('q', { metadata: { user: 'ann' } })).error, { code: 'AGENT_FAILED' })
})

t.test('options that cannot work are refused at once, by their path', async (t) => {
  const team = stage(t, { a: echo })
  const wrong: Record<string, RunOptions> = {
    timeoutMs: { timeoutMs: 0 },
    priority: { priority: Number.NaN },
    runId: { runId: '' },
    'metadata.user': { metadata: { user: 1 as never } },
    signal: { signal: {} as never },
    output: { output: {} as never },
    timeoutMS: { timeoutMS: 5 } as RunOptions,
    models: { models: { a: 'm' } },
    budget: { budget: { tokens: 5 } },
  }
  for (const [path, options] of Object.entries(wrong)) {
    t.throws(() => team.launch('q', options), { code: 'CONFIGURATION', details: { path } }, path)
    await t.rejects(team.execute('q', options), { code: 'CONFIGURATION' })
  }
  t.throws(() => team.launch(5 as never), { code: 'CONFIGURATION', details: { path: 'query' } })
  t.same(await team.listRuns(), [])
})

t.test('a query too large for any message fails its run', async (t) => {
  t.match(await stage(t, { a: echo }).execute('x'.repeat(17 * 2 ** 20)), {
    success: false,
    error: { code: 'MESSAGE_REJECTED', details: { limit: 2 ** 24 } },
  })
})

t.test('a signal aborts the run, at once if it is aborted already', async (t) => {
  const team = stage(t, { a: after(10) })
  const controller = new AbortController()
  const pending = team.execute('q', { signal: controller.signal })
  await team.clock.advance(5)
  controller.abort(new Error('the client left'))
  t.match((await pending).error, { code: 'RUN_ABORTED', details: { reason: 'the client left' } })
  const never = await team.execute('q', { signal: controller.signal })
  t.match(never.error, { code: 'RUN_ABORTED' })
  t.same(never.messageHistory, [])
})

t.test('the handler of a cancelled run is told by its signal', async (t) => {
  let reason: unknown
  const watches = defineAgent({
    receive: (_message, { signal }) =>
      new Promise<void>((_resolve, reject) =>
        signal.addEventListener('abort', () => {
          reason = signal.reason
          reject(signal.reason)
        }),
      ),
  })
  const team = stage(t, { a: watches })
  const run = team.launch('q')
  await team.clock.advance(0)
  await run.cancel('enough')
  await team.clock.advance(0)
  t.match(reason, { code: 'RUN_ABORTED', details: { reason: 'enough' } })
  t.equal(team.getAgentStatus('a'), 'idle')
})

t.test('cancelling twice, or what is over, does nothing', async (t) => {
  const team = stage(t, { a: echo })
  const run = team.launch('q')
  await run.result
  await run.cancel()
  await run.cancel('again')
  t.equal(run.status, 'finished')
})

t.test(
  'maxConcurrentRuns run at a time; the others wait in order, beyond maxQueuedRuns they are refused',
  async (t) => {
    const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 2, maxQueuedRuns: 2 })
    const runs = ['one', 'two', 'three', 'four'].map((query) => team.launch(query))
    const statuses = () => runs.map(({ status }) => status)
    t.same(statuses(), ['running', 'running', 'queued', 'queued'])
    t.same(team.health().runs, { running: 2, queued: 2 })
    t.throws(() => team.launch('five'), TeamOverloadedError)
    await team.clock.advance(10)
    t.same(statuses(), ['finished', 'running', 'running', 'queued'])
    await team.clock.advance(30)
    t.same(statuses(), ['finished', 'finished', 'finished', 'finished'])
  },
)

t.test('a run of higher priority leaves the queue first', async (t) => {
  const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 1 })
  const order: string[] = []
  team.events.subscribe((event) => void (event.type === 'run.started' && order.push(event.query)))
  team.launch('first')
  for (const [query, priority] of Object.entries({ low: -1, plain: undefined, high: 5, 'as high': 5 }))
    team.launch(query, { priority })
  await team.clock.advance(60)
  t.same(order, ['first', 'high', 'as high', 'plain', 'low'])
})

t.test('a run that waits can be cancelled, and its place goes to the next', async (t) => {
  const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 1, maxQueuedRuns: 1 })
  team.launch('one')
  await team.launch('two').cancel()
  const three = team.launch('three')
  await team.clock.advance(20)
  t.equal(three.status, 'finished')
})

t.test('the time of a run counts from its launch, in the queue too', async (t) => {
  const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 1, globalTimeoutMs: 15 })
  const [one, two] = [team.launch('one'), team.launch('two')]
  await team.clock.advance(20)
  t.same([one.status, two.status], ['finished', 'failed'])
  t.match((await two.result).error, { code: 'RUN_TIMEOUT', details: { timeoutMs: 15 } })
})

t.test('many runs at a time do not mix', async (t) => {
  const counts = defineAgent({
    initialRunState: { n: 0 },
    async receive({ content }, context) {
      context.setRunState((draft) => {
        draft.n += 1
      })
      await context.sleep(1)
      return `${content}${context.runState.n}`
    },
  })
  const team = stage(
    t,
    { a: counts, b: counts },
    { orchestration: { strategy: 'sequential', agentOrder: ['a', 'b', 'a'] } },
  )
  const pending = Promise.all(Array.from({ length: 50 }, (_, i) => team.execute(`${i}:`)))
  await team.clock.advance(1_000)
  const results = await pending
  t.same(
    results.map(({ finalOutput }) => finalOutput),
    results.map((_, i) => `${i}:112`),
  )
  for (const { runId, messageHistory } of results) t.ok(messageHistory.every((message) => message.runId === runId))
})

t.test('100 finished runs are kept; the next one drives out the oldest', async (t) => {
  const team = stage(t, { a: echo })
  const runs: Run[] = []
  for (let i = 0; i < 101; i++) {
    const run = team.launch(`q${i}`)
    await run.result
    runs.push(run)
  }
  await team.clock.advance(0)
  t.equal((await team.listRuns()).length, 100)
  t.equal(team.getRun(runs[0]!.id), undefined)
  t.equal(team.getRun(runs[1]!.id), runs[1])
  t.throws(() => team.getMessageHistory(runs[0]!.id), { code: 'UNKNOWN_RUN' })
  t.equal(team.getMessageHistory(runs[1]!.id).length, 4)
})

t.test('an id whose run was driven out can be used anew', async (t) => {
  const team = stage(t, { a: echo })
  await team.execute('old', { runId: 'r' })
  for (let i = 0; i < 101; i++) await team.execute(`q${i}`)
  t.equal((await team.execute('new', { runId: 'r' })).finalOutput, 'a: new')
})

t.test('without a runId history, tasks and blackboard are those of the run launched last', async (t) => {
  const team = stage(t, { a: echo }, { enableBlackboard: true })
  t.same([team.getMessageHistory(), team.getTaskStatus(), team.getBlackboard()], [[], {}, undefined])
  await team.execute('one')
  const two = team.launch('two')
  await two.result
  t.same(team.getMessageHistory(), two.messageHistory)
  t.equal(team.getMessageHistory()[0]?.content, 'two')
  t.same(
    Object.keys(team.getTaskStatus()),
    two.tasks.map(({ id }) => id),
  )
  await two.blackboard?.write('n', 1, 'fact')
  t.equal((await team.getBlackboard()?.read('n'))?.value, 1)
})

t.test('an id that no run has is an error, not an empty answer', async (t) => {
  const team = stage(t, { a: echo }, { enableBlackboard: true })
  const unknown = { code: 'UNKNOWN_RUN', details: { runId: 'nobody' } }
  t.throws(() => team.getMessageHistory('nobody'), unknown)
  t.throws(() => team.getTaskStatus('nobody'), unknown)
  t.throws(() => team.getBlackboard('nobody'), unknown)
})

t.test('one-way messages that are still under way when the result is there are delivered', async (t) => {
  const handled: string[] = []
  const slow = defineAgent({
    async receive({ content }, context) {
      await context.sleep(10)
      if (content === 'pass on') await context.send('b', 'passed on')
      handled.push(`${context.role.name} ${content}`)
    },
  })
  const team = stage(
    t,
    { a: slow, b: slow },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          for (const content of ['one', 'two', 'pass on']) await orchestrator.send('a', content)
          return 'over'
        },
      },
    },
  )
  t.equal((await team.execute('q')).finalOutput, 'over')
  t.same(handled, [])
  await team.clock.advance(100)
  t.same(handled, ['a one', 'a two', 'a pass on', 'b passed on'])
  t.same(team.deadLetters.list(), [])
})

t.test('one-way messages of a run that was cancelled are dead letters', async (t) => {
  const team = stage(
    t,
    { a: after(10) },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          for (const content of ['one', 'two']) await orchestrator.send('a', content)
          await orchestrator.sleep(1_000)
          return 'over'
        },
      },
    },
  )
  const run = team.launch('q')
  await team.clock.advance(5)
  await run.cancel()
  await team.clock.advance(5)
  t.same(
    team.deadLetters
      .list()
      .map(({ reason, message }) => `${message.content} ${reason}`)
      .sort(),
    ['one cancelled', 'two cancelled'],
  )
})

t.test('a log that had to forget says so, in the history and in the trace', async (t) => {
  const load = 'x'.repeat(15 * 2 ** 20)
  const loads = defineAgent({ receive: ({ content }) => (content === 'last' ? 'over' : load) })
  const team = stage(
    t,
    { a: loads },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          for (let i = 0; i < 5; i++) await orchestrator.request('a', `load ${i}`)
          return (await orchestrator.request('a', 'last')).content
        },
      },
    },
  )
  const run = team.launch('q')
  const { success, messageHistory, orchestrationTrace, taskCompletion } = await run.result
  t.equal(success, true)
  const [first, ...rest] = messageHistory
  t.match(first, { type: 'report', sender: '$runtime', runId: run.id, content: /no longer in the log/ })
  const { entries } = (first as AgentMessage<{ entries: number }>).structuredData
  t.ok(entries > 0)
  t.notOk(rest.some(({ content }) => content === 'load 0'))
  t.match(rest.at(-1), { content: 'over' })
  t.match(orchestrationTrace.events[0], { eventType: 'log.forgotten', details: { entries } })
  t.equal(Object.values(taskCompletion).filter((status) => status === 'completed').length, 6)
})

t.test('a closed team takes no runs and no messages', async (t) => {
  const team = stage(t, { a: echo })
  await team.execute('q')
  await team.close()
  t.throws(() => team.launch('q'), TeamClosedError)
  await t.rejects(team.execute('q'), TeamClosedError)
  await t.rejects(team.sendMessage({ recipient: 'a', content: 'hi' }), TeamClosedError)
  await t.rejects(team.broadcast('hi', 'a'), TeamClosedError)
  await t.rejects(team.start(), TeamClosedError)
})

t.test('closing aborts what runs and what waits', async (t) => {
  const team = stage(t, { a: after(10) }, { maxConcurrentRuns: 1 })
  const runs = [team.launch('one'), team.launch('two')]
  await team.close()
  for (const run of runs) {
    t.equal(run.status, 'aborted')
    t.match((await run.result).error, { code: 'RUN_ABORTED', details: { reason: 'close' } })
    t.match((await all(run.events())).at(-1), { type: 'run.finished' })
  }
})

t.test('draining lets runs, queued runs and one-way messages end, and takes nothing new', async (t) => {
  const handled: string[] = []
  const slow = defineAgent({
    async receive({ content }, context) {
      await context.sleep(10)
      handled.push(content)
    },
  })
  const team = stage(t, { a: slow }, { maxConcurrentRuns: 1 })
  const runs = [team.launch('one'), team.launch('two')]
  await team.sendMessage({ recipient: 'a', content: 'note' })
  const closing = team.close({ drainMs: 1_000 })
  t.throws(() => team.launch('three'), TeamClosedError)
  t.match(team.health(), { ready: false, draining: true })
  await team.clock.advance(100)
  await closing
  t.same(
    runs.map(({ status }) => status),
    ['finished', 'finished'],
  )
  t.same(handled.sort(), ['note', 'one', 'two'])
})

t.test('draining ends after drainMs, and aborts what is left', async (t) => {
  const team = stage(t, { a: after(1_000) })
  const run = team.launch('q')
  const closing = team.close({ drainMs: 100 })
  await team.clock.advance(100)
  await closing
  t.equal(run.status, 'aborted')
})

t.test('what is queued for an agent when the team closes is a dead letter, and who waits is told', async (t) => {
  const team = stage(t, { a: after(1_000) })
  await team.sendMessage({ recipient: 'a', content: 'one' })
  await team.sendMessage({ recipient: 'a', content: 'two' })
  const waiting = team.sendMessage({ recipient: 'a', content: 'three', requiresResponse: true })
  const refused = t.rejects(waiting, { code: 'AGENT_TERMINATED' })
  await team.clock.advance(5)
  await team.close()
  await refused
  t.same(
    team.deadLetters.list().map(({ message }) => message.content),
    ['one', 'two', 'three'],
  )
})

t.test('closing while the team starts rejects who waits for its start', async (t) => {
  const team = stage(t, { a: echo })
  const started = t.rejects(team.start(), { code: 'TEAM_CLOSED' })
  await team.close()
  await started
})
