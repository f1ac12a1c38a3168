/** Events of a trace: messages stand among the rest, each once, where they were sent. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { defineAgent, sequenceDiagram } from '../../src/index.ts'
import { echo, stage, throws } from './stage.ts'

t.test('events list messages, between the turns that sent and handled them', async (t) => {
  const asks = defineAgent({
    async receive(_message, context) {
      await context.broadcast('all')
      await context.request('broken', 'why').catch(() => {})
      return 'done'
    },
  })
  const hears = defineAgent({ receive: () => '', observe() {} })
  const cast = { a: asks, b: hears, broken: throws() }
  const team = stage<string>(t, cast, { orchestration: { strategy: 'sequential', agentOrder: ['a'] } })
  const { orchestrationTrace, messageHistory } = await team.execute('Go.')
  const { events } = orchestrationTrace
  t.same(
    events.flatMap(({ eventType, agent, timestamp, details }) =>
      eventType === 'message' ? [{ agent, timestamp, ...details }] : [],
    ),
    messageHistory.map(({ id, type, sender, recipient, sentAt }) => ({
      agent: sender,
      timestamp: sentAt,
      messageId: id,
      type,
      to: recipient,
    })),
  )
  const [, asked] = messageHistory
  const about = events.flatMap(({ eventType, agent, details }) => {
    const { messageId, type = '' } = details as { messageId?: string; type?: string }
    const isIts = agent === 'a' && (messageId === asked?.id || type === 'response')
    return isIts && /^turn|^message$/.test(eventType) ? [eventType] : []
  })
  t.same(about, ['turn.started', 'message', 'turn.finished'])
  const diagram = sequenceDiagram(orchestrationTrace)
  t.equal(
    diagram.match(/->>/g)?.length,
    orchestrationTrace.messageFlow.filter(({ type }) => type !== 'broadcast').length,
  )
})

t.test('a task in the name of a manager is an event, and a message, of the manager', async (t) => {
  const tasks = [{ worker: 'b', task: 'dig' }]
  const boss = defineAgent({
    receive: ({ metadata }) =>
      Object(metadata.hierarchical).step === 'plan' ? { structuredData: { tasks, reasoning: 'so' } } : 'over',
  })
  const led = { strategy: 'hierarchical' as const, manager: 'boss', workers: ['b'], workerAutonomy: 'high' as const }
  const team = stage<string>(t, { boss, b: echo }, { orchestration: led })
  const { events } = (await team.execute('Go.')).orchestrationTrace
  const given = events.find(({ details }) => Object(details).type === 'delegate')
  t.match(given, { eventType: 'message', agent: 'boss', details: { to: 'b' } })
  const isTask = ({ type }: { type: string }) => type === 'delegate'
  t.equal(team.getAgent('boss')!.getMessageHistory().filter(isTask).length, 1)
})

t.test("the page has the documents' words for events, and ours are those of a trace", async (t) => {
  const page = readFileSync('docs/reference/events.md', 'utf8') // tests are started in the project's folder
  const rows = [...page.matchAll(/^\| `(agent_start|agent_end|message_sent|message_received)` +\| `([\w.]+)`/gm)]
  t.equal(rows.length, 4)
  const { orchestrationTrace } = await stage(t, { a: echo }).execute('Go.')
  const known = new Set(orchestrationTrace.events.map(({ eventType }) => eventType))
  for (const [, theirs, ours] of rows) t.ok(known.has(ours!), `${theirs}: ${ours}`)
})
