/** Pictures and figures of a team: diagrams, and the text format of Prometheus. */
import t from 'tap'
import { type OrchestrationTrace, sequenceDiagram } from '../../src/runtime/runs/trace.ts'
import { type Metric, prometheusText } from '../../src/runtime/views/prometheus.ts'
import { pluck } from '../kit/lists.ts'
import { readExposition } from '../team/exposition.ts'

type Flow = OrchestrationTrace['messageFlow'][number]

t.test('participants stand in the order in which they first appear', async (t) => {
  const text = diagram({ messageFlow: [flow(0, '$user', '$orchestrator'), flow(1, '$orchestrator', 'critic')] })
  t.equal(
    text,
    [
      'sequenceDiagram',
      '  participant p0 as $user',
      '  participant p1 as $orchestrator',
      '  participant p2 as critic',
      '  p0->>p1: request',
      '  p1->>p2: request',
      '',
    ].join('\n'),
  )
})

t.test('each type of message has the arrow of what it waits for', async (t) => {
  const types = ['request', 'delegate', 'response', 'broadcast', 'publish', 'subscribe', 'report'] as const
  const text = diagram({ messageFlow: types.map((type, i) => flow(i, 'a', 'b', type)) })
  t.strictSame(rows(text), [
    'p0->>p1: request',
    'p0->>p1: delegate',
    'p0-->>p1: response',
    'p0-)p1: broadcast',
    'p0-)p1: publish',
    'p0-)p1: subscribe',
    'p0-)p1: report',
  ])
})

t.test('an alarm stands over the agents that it is about, with the words of its detector', async (t) => {
  const found = (timestamp: number, sentence: string) => ({
    timestamp,
    eventType: 'deadlock',
    agent: null,
    details: { agents: ['a', 'b'], cycle: ['a', 'b'], tail: [], waits: [], sentence },
  })
  const stall = { timestamp: 4, eventType: 'stall', agent: null, details: { agents: [], sentence: 'nobody runs' } }
  const text = diagram({
    messageFlow: [flow(0, 'a', 'b'), flow(1, 'b', 'a')],
    events: [found(2, 'a -> b'), found(3, 'a -> b, b gives way'), stall],
  })
  t.strictSame(rows(text), [
    'p0->>p1: request',
    'p1->>p0: request',
    'Note over p0,p1: deadlock: a → b',
    'Note over p0,p1: deadlock: a → b, b gives way',
    'Note over p2: stall: nobody runs',
  ])
})

t.test('each step of a handoff stands over who took it', async (t) => {
  const step = (agent: string, name: string) =>
    event(2, agent, 'handoff', { agent, step: name, from: 'b', to: 'c', messageId: 'm0' })
  const text = diagram({
    messageFlow: [flow(0, 'a', 'b', 'request', 'm0')],
    events: [step('b', 'requested'), step('c', 'acknowledged')],
  })
  t.strictSame(participants(text), ['a', 'b', 'c'])
  t.strictSame(rows(text).slice(1), [
    'Note over p1: handoff from b to c: requested',
    'Note over p2: handoff from b to c: acknowledged',
  ])
})

t.test('messages, events and decisions are merged by time', async (t) => {
  const text = diagram({
    messageFlow: [flow(20, 'a', 'b', 'request', 'm1'), flow(60, 'b', 'a', 'response', 'm2')],
    events: [
      event(0, 'b', 'agent.ready'),
      event(25, 'b', 'turn.started', { messageId: 'm1' }),
      event(30, 'b', 'agent.crashed', { epoch: 1, error: new Error('heap is full') }),
      event(40, 'b', 'agent.ready', { epoch: 2 }),
      event(50, 'b', 'step.replayed', { step: 'fetch', messageId: 'm1' }),
      event(70, null, 'message.dead', { from: 'a', to: 'b', reason: 'late' }),
      event(71, null, 'message.dead', { from: 'a', to: ['b', 'c'], reason: 'stopped' }),
    ],
    decisions: [{ timestamp: 10, question: 'Who?', choice: 'b', reason: 'idle' }],
  })
  t.strictSame(participants(text), ['$orchestrator', 'a', 'b', '$runtime'])
  t.strictSame(rows(text), [
    'Note over p0: decision: Who?: b (idle)',
    'p1->>p2: request',
    'Note over p2: crashed: heap is full',
    'Note over p2: ready again',
    'Note over p2: step fetch answered from the log',
    'p2-->>p1: response',
    'Note over p2: dead letter from a: late',
    'Note over p3: dead letter from a: stopped',
  ])
})

t.test('who met at a sync point stands under one note, and who did not come is named', async (t) => {
  const met = { point: 'noon', generation: 1, arrived: ['a', 'c'], missing: [], timedOut: false }
  const text = diagram({
    messageFlow: [flow(0, 'c', 'b'), flow(1, 'b', 'a')],
    events: [
      event(2, null, 'sync', met),
      event(3, null, 'sync', { ...met, arrived: ['b'], missing: ['a', 'c'] }),
      event(4, null, 'sync', { ...met, arrived: [], missing: ['a'] }),
    ],
  })
  t.strictSame(participants(text), ['c', 'b', 'a', '$runtime'])
  t.strictSame(rows(text).slice(2), [
    'Note over p0,p2: sync point noon',
    'Note over p1: sync point noon without a, c',
    'Note over p3: sync point noon without a',
  ])
})

t.test('within one millisecond what happened to a message stands between it and the next one', async (t) => {
  const text = diagram({
    messageFlow: [flow(5, 'a', 'b', 'request', 'm1'), flow(5, 'b', 'a', 'response', 'm2')],
    events: [
      event(5, 'b', 'turn.started', { messageId: 'm1' }),
      event(5, 'b', 'agent.crashed'),
      event(5, 'b', 'agent.ready'),
      event(5, 'b', 'turn.finished', { messageId: 'm1' }),
    ],
    decisions: [{ timestamp: 4, question: 'first', choice: 'yes', reason: '' }],
  })
  t.strictSame(rows(text), [
    'Note over p0: decision: first: yes',
    'p1->>p2: request',
    'Note over p2: crashed',
    'Note over p2: ready again',
    'p2-->>p1: response',
  ])
})

t.test('every row is there once, in the order of its own list', async (t) => {
  const count = 40
  const at = (i: number) => (i * 7) % 5 // times that go back and forth
  const text = diagram({
    messageFlow: Array.from({ length: count }, (_, i) => flow(at(i), 'a', 'b', 'request', `m${i}`)),
    events: Array.from({ length: count }, (_, i) => event(at(i + 1), 'b', 'message.dead', { reason: `e${i}` })),
    decisions: Array.from({ length: count }, (_, i) => ({
      timestamp: at(i + 2),
      question: `d${i}`,
      choice: '',
      reason: '',
    })),
  })
  t.equal(rows(text).length, 3 * count)
  const reasons = rows(text).flatMap((row) => row.match(/dead letter from nobody: e(\d+)/)?.[1] ?? [])
  t.strictSame(reasons.map(Number), [...Array(count).keys()])
})

t.test('a log that has forgotten its beginning says so', async (t) => {
  const text = diagram({ events: [event(0, null, 'log.forgotten', { entries: 7 })], messageFlow: [flow(1, 'a', 'b')] })
  t.equal(rows(text)[0], 'Note over p0: what came before is no longer in the log')
})

t.test('text that means something to Mermaid is made harmless', async (t) => {
  const text = diagram({
    messageFlow: [flow(0, 'end', 'a;b#c\nparticipant x'), flow(1, 'Ärztin', '')],
    decisions: [{ timestamp: 2, question: 'x', choice: '%%{init: {}}%%', reason: '<b>1 > 0</b>; p0->>p1: no' }],
  })
  t.strictSame(participants(text), ['end', 'a b c participant x', 'Ärztin', '(no name)', '$orchestrator'])
  t.equal(rows(text).at(-1), 'Note over p4: decision: x: %{init: {}}% (‹b›1 › 0‹/b› p0-››p1: no)')
})

t.test('a long text is cut off', async (t) => {
  const decisions = [{ timestamp: 0, question: '🎭'.repeat(1_000), choice: 'yes', reason: '' }]
  const row = rows(diagram({ decisions }))[0]!
  t.equal([...row.slice('Note over p0: '.length)].length, 120)
  t.ok(row.endsWith('🎭…'))
})

t.test('a run without end has 500 rows and says how many more there were', async (t) => {
  const text = diagram({
    messageFlow: Array.from({ length: 1_234 }, (_, i) => flow(i, 'a', i < 900 ? 'b' : `late${i}`)),
  })
  t.equal(rows(text).length, 501)
  t.equal(rows(text).at(-1), 'Note over p0,p1: 734 more rows are left out')
  t.strictSame(participants(text), ['a', 'b'])
})

t.test('no diagram is longer than what Mermaid takes by default', async (t) => {
  const reason = 'x'.repeat(200)
  const decisions = Array.from({ length: 500 }, (_, i) => ({ timestamp: i, question: `${i}`, choice: 'yes', reason }))
  const text = diagram({ decisions })
  t.ok(text.length < 50_000)
  t.equal(rows(text).at(-1), `Note over p0: ${501 - rows(text).length} more rows are left out`)
  const messageFlow = Array.from({ length: 500 }, (_, i) => flow(i, `${i}${'a'.repeat(60)}`, `${i}${'b'.repeat(60)}`))
  const wide = diagram({ messageFlow })
  t.ok(wide.length < 50_000)
  t.equal(participants(wide).length, 2 * (rows(wide).length - 1))
})

t.test('an empty trace is a diagram too', async (t) => {
  t.equal(diagram({}), 'sequenceDiagram\n  participant p0 as $user\n  Note over p0: nothing happened\n')
})

function diagram(trace: Partial<OrchestrationTrace>): string {
  return sequenceDiagram({
    events: [],
    decisions: [],
    agentActivations: [],
    messageFlow: [],
    syncPointsReached: [],
    ...trace,
  })
}

function flow(at: number, from: string, to: string, type: Flow['type'] = 'request', messageId = `m${at}`): Flow {
  return { from, to, messageId, type, at }
}

function event(timestamp: number, agent: string | null, eventType: string, details: object = {}) {
  return { timestamp, agent, eventType, details }
}

function rows(text: string): string[] {
  return lines(text).filter((line) => !line.startsWith('participant'))
}

function participants(text: string): string[] {
  return lines(text).flatMap((line) => line.match(/^participant p\d+ as (.*)$/)?.[1] ?? [])
}

function lines(text: string): string[] {
  return text
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
}

// Prometheus' text format, for what a team does not have by itself: hostile labels, numbers that are none.

const gauge = (samples: Metric['samples'], help = 'Help.'): Metric => ({ name: 'm', help, kind: 'gauge', samples })

t.test('labels and help may have any character', async (t) => {
  const hostile = 'a "quoted" \\ back\\nslash,\nsecond="line"} 5'
  const text = prometheusText([gauge([{ labels: { x: hostile, y: '' }, value: 1 }], hostile)])
  t.equal(text.split('\n').length, 4)
  const { heads, series } = readExposition(text)
  t.same(heads, [{ name: 'm', help: hostile, kind: 'gauge' }])
  t.same(series, [{ name: 'm', of: 'm', labels: { x: hostile, y: '' }, value: 1 }])
})

t.test('numbers are written as Prometheus reads them', async (t) => {
  const values = [
    0,
    -1.5,
    1e21,
    5e-324,
    Number.MAX_SAFE_INTEGER,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.NaN,
  ]
  const text = prometheusText([gauge(values.map((value, i) => ({ labels: { i: String(i) }, value })))])
  t.same(pluck(readExposition(text).series, 'value'), values)
  t.match(text, '"5"} +Inf\n')
  t.match(text, '"6"} -Inf\n')
})

t.test('a metric without samples is not there', async (t) => {
  t.equal(prometheusText([gauge([])]), '')
})
