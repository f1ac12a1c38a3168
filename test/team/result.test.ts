/** The result says what happened: its sums, times, outputs and failures against the trace and the events. */
import t from 'tap'
import { z } from 'zod'
import { defineAgent, RunTimeoutError, sequenceDiagram, TaskRefusedError } from '../../src/index.ts'
import { after, echo, refuses, says, stage, throws } from './stage.ts'

t.test('execution time and the times of the agents are those of the clock', async (t) => {
  const team = stage(t, { a: after(10), b: after(25) })
  const pending = team.execute('q')
  await team.clock.advance(50)
  const { executionTimeMs, agentExecutionTimesMs } = await pending
  t.equal(executionTimeMs, 35)
  t.same(agentExecutionTimesMs, { a: 10, b: 25 })
})

t.test('parallel work takes as long as its slowest agent, and each agent its own time', async (t) => {
  const team = stage(t, { a: after(10), b: after(25) }, { orchestration: { strategy: 'parallel' } })
  const pending = team.execute('q')
  await team.clock.advance(50)
  const { executionTimeMs, agentExecutionTimesMs } = await pending
  t.same({ executionTimeMs, agentExecutionTimesMs }, { executionTimeMs: 25, agentExecutionTimesMs: { a: 10, b: 25 } })
})

t.test('the times of the agents are the sums of their activations', async (t) => {
  const team = stage(
    t,
    { a: after(10), b: after(5), idle: echo },
    { orchestration: { strategy: 'sequential', agentOrder: ['a', 'b', 'a'] } },
  )
  const pending = team.execute('q')
  await team.clock.advance(50)
  const { agentExecutionTimesMs, orchestrationTrace } = await pending
  const sums: Record<string, number> = { a: 0, b: 0, idle: 0 }
  for (const { agent, startedAt, endedAt } of orchestrationTrace.agentActivations)
    if (agent in sums) sums[agent]! += endedAt - startedAt
  t.same(agentExecutionTimesMs, sums)
  t.same(sums, { a: 20, b: 5, idle: 0 })
})

t.test('a turn that the end of the run cuts off counts until then', async (t) => {
  const team = stage(t, { a: after(10), b: after(1_000) })
  const pending = team.execute('q', { timeoutMs: 100 })
  await team.clock.advance(100)
  const { success, executionTimeMs, agentExecutionTimesMs, orchestrationTrace } = await pending
  t.same({ success, executionTimeMs }, { success: false, executionTimeMs: 100 })
  t.same(agentExecutionTimesMs, { a: 10, b: 90 })
  const { messageId: _, ...last } = orchestrationTrace.agentActivations.find(({ agent }) => agent === 'b')!
  t.same(last, { agent: 'b', startedAt: 10, endedAt: 100 })
})

t.test('a turn that a crash cuts off counts until then, and so does the one that follows', async (t) => {
  const team = stage(t, { a: after(10) })
  const pending = team.execute('q')
  await team.clock.advance(4)
  team.crash('a')
  await team.clock.advance(20)
  const { agentExecutionTimesMs, executionTimeMs } = await pending
  t.same({ agentExecutionTimesMs, executionTimeMs }, { agentExecutionTimesMs: { a: 14 }, executionTimeMs: 14 })
})

t.test('outputs are what each agent answered, in order, with its data where there is any', async (t) => {
  const data = says({ content: 'B', structuredData: { n: 1 } })
  const team = stage(
    t,
    { a: says('A'), b: data, idle: echo },
    { orchestration: { strategy: 'sequential', agentOrder: ['a', 'b', 'a'] } },
  )
  t.same((await team.execute('q')).agentOutputs, {
    a: [{ content: 'A' }, { content: 'A' }],
    b: [{ content: 'B', structuredData: { n: 1 } }],
  })
})

t.test('what an agent answers to another agent is an output too; a failure is none', async (t) => {
  const asking = defineAgent({
    async receive(_message, context) {
      await context.request('bad', 'help').catch(() => {})
      return (await context.request('b', 'help')).content
    },
  })
  const team = stage(
    t,
    { a: asking, b: echo, bad: throws() },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  t.same((await team.execute('q')).agentOutputs, { a: [{ content: 'b: help' }], b: [{ content: 'b: help' }] })
})

t.test('a partial result has success and says who is missing', async (t) => {
  const team = stage(
    t,
    { a: says('A'), b: throws('broken'), c: refuses() },
    { orchestration: { strategy: 'parallel' } },
  )
  const { success, finalOutput, failures, taskCompletion, error } = await team.execute('q')
  t.same({ success, finalOutput, error }, { success: true, finalOutput: '## a\n\nA', error: null })
  t.match(
    failures.sort((one, other) => (one.agent < other.agent ? -1 : 1)),
    [
      { agent: 'b', error: { code: 'AGENT_FAILED', message: /Error: broken/ } },
      { agent: 'c', error: TaskRefusedError },
    ],
  )
  t.same(
    failures.map(({ taskId }) => taskCompletion[taskId!]),
    ['failed', 'refused'],
  )
})

t.test('a failed run has neither output nor data, but its error', async (t) => {
  const { success, finalOutput, data, error, failures } = await stage(t, { a: throws() }).execute('q')
  t.same({ success, finalOutput, data }, { success: false, finalOutput: null, data: null })
  t.match(error, { code: 'AGENT_FAILED', details: { agent: 'a' } })
  t.match(failures, [{ agent: 'a', error: { code: 'AGENT_FAILED' } }])
})

t.test('the error of a handler keeps its stack over the way', async (t) => {
  const { error } = await stage(t, { a: throws('in the handler') }).execute('q')
  t.match(error?.cause, { message: /in the handler/, stack: /stage\.(ts|js)/ })
})

t.test('data is what the output schema makes of the last answer', async (t) => {
  const team = stage(t, { a: says({ content: 'words', structuredData: { n: '5' } }) })
  const result = await team.execute('q', { output: z.object({ n: z.string().transform(Number) }) })
  if (!result.success) return t.fail(result.error.message)
  t.equal(result.data.n, 5)
  t.equal(result.finalOutput, 'words')
})

t.test('an answer without data is checked by its words', async (t) => {
  const result = await stage(t, { a: says('yes') }).execute('q', { output: z.enum(['yes', 'no']) })
  t.equal(result.data, 'yes')
})

t.test('an answer that misses the output schema fails the run', async (t) => {
  const team = stage(t, { a: says({ structuredData: { n: 'five' } }) })
  const { success, error, taskCompletion } = await team.execute('q', { output: z.object({ n: z.number() }) })
  t.equal(success, false)
  t.match(error, { code: 'REPLY_INVALID', message: /misses its output schema: n: / })
  t.same(Object.values(taskCompletion), ['completed'])
})

t.test('tokens of a team without models are none, for every agent', async (t) => {
  const { tokenUsage, totalTokenUsage, rehearsed } = await stage(t, { a: echo, b: echo }).execute('q')
  const none = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  t.same(
    { tokenUsage, totalTokenUsage, rehearsed },
    { tokenUsage: { a: none, b: none }, totalTokenUsage: none, rehearsed: false },
  )
})

t.test('the state of the blackboard is that at the end; null where there is none', async (t) => {
  const writes = defineAgent({
    async receive(_message, context) {
      await context.publish('n', 1, 'fact')
      await context.publish('n', 2, 'fact')
      await context.publish('old', 1, 'fact')
      await context.publish('new', { is: 'better' }, 'fact', { supersedes: 'old' })
    },
  })
  t.same((await stage(t, { a: writes }, { enableBlackboard: true }).execute('q')).blackboardState, {
    n: 2,
    new: { is: 'better' },
  })
  t.equal((await stage(t, { a: echo }).execute('q')).blackboardState, null)
})

t.test('as JSON it is whole but for history, trace and blackboard', async (t) => {
  const team = stage(
    t,
    { a: says('A'), b: throws() },
    { orchestration: { strategy: 'parallel' }, enableBlackboard: true },
  )
  const result = await team.execute('q')
  const { failures, ...json } = JSON.parse(JSON.stringify(result))
  t.same(Object.keys(json).sort(), [
    'agentExecutionTimesMs',
    'agentOutputs',
    'error',
    'executionTimeMs',
    'finalOutput',
    'rehearsed',
    'runId',
    'success',
    'taskCompletion',
    'tokenUsage',
    'totalTokenUsage',
  ])
  t.match(failures, [{ agent: 'b', error: { code: 'AGENT_FAILED', details: { agent: 'b' } } }])
})

t.test('a failed result as JSON has its error as data', async (t) => {
  const json = JSON.parse(JSON.stringify(await stage(t, { a: refuses('no time') }).execute('q')))
  t.match(json, { success: false, finalOutput: null, error: { code: 'TASK_REFUSED', details: { reason: 'no time' } } })
})

t.test('the history has every message in order, requests with their responses', async (t) => {
  const { messageHistory, runId } = await stage(t, { a: echo, b: echo }).execute('q')
  t.same(
    messageHistory.map(({ type, sender, recipient, content }) => `${type} ${sender} ${recipient} ${content}`),
    [
      'request $user $orchestrator q',
      'request $orchestrator a q',
      'response a $orchestrator a: q',
      'request $orchestrator b a: q',
      'response b $orchestrator b: a: q',
      'response $orchestrator $user b: a: q',
    ],
  )
  t.ok(messageHistory.every((message) => message.runId === runId))
  const [query, first, answer] = messageHistory
  t.equal(answer?.correlationId, first?.id)
  t.match(query, { requiresResponse: true, structuredData: null, priority: 0, metadata: {}, correlationId: null })
})

t.test('the flow of messages in the trace is the history', async (t) => {
  const { messageHistory, orchestrationTrace } = await stage(t, { a: echo, b: echo }).execute('q')
  t.same(
    orchestrationTrace.messageFlow,
    messageHistory.map(({ sender, recipient, id, type, sentAt }) => ({
      from: sender,
      to: recipient,
      messageId: id,
      type,
      at: sentAt,
    })),
  )
})

t.test('decisions of the script are in the trace, with their time', async (t) => {
  const team = stage(
    t,
    { a: after(10) },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await orchestrator.request('a', 'go')
          orchestrator.decide('Who?', 'a', 'There is nobody else.')
          return 'over'
        },
      },
    },
  )
  const pending = team.execute('q')
  await team.clock.advance(10)
  t.same((await pending).orchestrationTrace.decisions, [
    { timestamp: 10, question: 'Who?', choice: 'a', reason: 'There is nobody else.' },
  ])
})

t.test('the events of the trace are data, with the turns, the tasks and the end in order', async (t) => {
  const team = stage(t, { a: throws() })
  const { events } = (await team.execute('q')).orchestrationTrace
  t.same(JSON.parse(JSON.stringify(events)), events)
  t.same(
    events
      .filter(({ eventType }) => !eventType.startsWith('agent.'))
      .map(({ eventType, agent }) => `${eventType} ${agent}`),
    [
      'run.started null',
      'turn.started $orchestrator',
      'task null',
      'turn.started a',
      'task null',
      'turn.finished a',
      'task null',
      'turn.finished $orchestrator',
      'run.finished null',
    ],
  )
  t.match(events.at(-1)?.details, { error: { code: 'AGENT_FAILED' } })
})

t.test('a trace opens as a sequence diagram', async (t) => {
  const team = stage(t, { a: after(10) })
  const pending = team.execute('q')
  await team.clock.advance(5)
  team.crash('a')
  await team.clock.advance(20)
  const diagram = sequenceDiagram((await pending).orchestrationTrace)
  t.match(diagram, /^sequenceDiagram\n {2}participant p0 as \$user\n/)
  for (const row of [
    'p0->>p1: request',
    'p1->>p2: request',
    'Note over p2: crashed',
    'Note over p2: ready again',
    'p2-->>p1: response',
    'p1-->>p0: response',
  ])
    t.ok(diagram.includes(row), row)
})

t.test('what happens in the run after its result does not change it', async (t) => {
  const team = stage(
    t,
    { a: after(10) },
    {
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await orchestrator.send('a', 'for later')
          return 'over'
        },
      },
    },
  )
  const run = team.launch('q')
  const result = await run.result
  await team.clock.advance(20)
  t.equal(result.messageHistory.length, 3)
  t.same(result.agentExecutionTimesMs, { a: 0 })
  t.match(team.getMessageHistory(run.id).at(-1), { type: 'response', sender: '$orchestrator' })
})

t.test('a run that fails while it waits in the queue has a whole result', async (t) => {
  const team = stage(t, { a: after(100) }, { maxConcurrentRuns: 1 })
  void team.execute('first')
  const waiting = team.execute('second', { timeoutMs: 10 })
  await team.clock.advance(10)
  const { error, messageHistory, executionTimeMs, taskCompletion } = await waiting
  t.ok(error instanceof RunTimeoutError)
  t.same(
    { messageHistory, executionTimeMs, taskCompletion },
    { messageHistory: [], executionTimeMs: 10, taskCompletion: {} },
  )
})
