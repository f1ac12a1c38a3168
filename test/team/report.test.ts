/** report: to the manager that a role names, else to the protocol script, which finds it in the run's history and events. */
import t from 'tap'
import { type AgentMessage, type DramatisError, defineAgent } from '../../src/index.ts'
import { testAgent } from '../../src/testing.ts'
import { where } from '../kit/lists.ts'
import { ask, given, localTeam, never, openTeam } from '../kit/team.ts'

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
