import t from 'tap'
import {
  AgentCrashedError,
  type AgentMessage,
  type AgentTask,
  ToolTimeoutError,
  type TypedMessage,
} from '../../src/index.ts'
import { eventLines, isTrouble } from '../../src/service/shared/event-lines.ts'
import { runtimeEvent } from './fake-team.ts'

type Fields = Parameters<typeof runtimeEvent>[0]

t.test('says once that an agent is ready, and once more after a crash', async (t) => {
  const error = new AgentCrashedError('its heap is full.')
  t.strictSame(
    lines(
      { type: 'agent.status', agent: 'critic', status: 'starting', epoch: 1 },
      { type: 'agent.status', agent: 'critic', status: 'idle', epoch: 1 },
      { type: 'agent.status', agent: 'critic', status: 'running', epoch: 1 },
      { type: 'agent.status', agent: 'critic', status: 'idle', epoch: 1 },
      { type: 'agent.status', agent: 'critic', status: 'idle', epoch: 2 }, // passivated, or loaded anew
      { type: 'agent.crashed', agent: 'critic', epoch: 2, error, restartInMs: 0 },
      { type: 'agent.status', agent: 'critic', status: 'restarting', epoch: 2 },
      { type: 'agent.status', agent: 'critic', status: 'running', epoch: 3 },
      { type: 'agent.status', agent: 'critic', status: 'idle', epoch: 3 },
      { type: 'agent.status', agent: 'critic', status: 'failed', epoch: 3 },
    ),
    [
      'critic is ready',
      'critic crashed: its heap is full; restarts at once',
      'critic is ready again',
      'critic is stopped for good',
    ],
  )
})

t.test('says why an agent crashed and when it comes back', async (t) => {
  const crash = (restartInMs: number | null): Fields => ({
    type: 'agent.crashed',
    agent: 'critic',
    epoch: 1,
    error: new AgentCrashedError('its heap is full.'),
    restartInMs,
  })
  t.strictSame(lines(crash(0), crash(312.4), crash(null)), [
    'critic crashed: its heap is full; restarts at once',
    'critic crashed: its heap is full; restarts in 312 ms',
    'critic crashed: its heap is full; it does not restart',
  ])
})

t.test('a long reason leaves room for what follows', async (t) => {
  const error = new AgentCrashedError(`stuck: ${'x'.repeat(500)}`)
  const [line = ''] = lines({ type: 'agent.crashed', agent: 'critic', epoch: 1, error, restartInMs: 0 })
  t.match(line, /^critic crashed: stuck: x+…; restarts at once$/)
})

t.test("leaves out that the runtime's own are ready", async (t) => {
  t.strictSame(lines({ type: 'agent.status', agent: '$orchestrator', status: 'idle', epoch: 1 }), [])
})

t.test('says that a task has begun and how it ended', async (t) => {
  t.strictSame(
    lines(
      { type: 'task', task: task({ status: 'pending' }), previous: null },
      { type: 'task', task: task({ status: 'assigned' }), previous: 'pending' },
      { type: 'task', task: task({ status: 'in_progress' }), previous: 'assigned' },
      { type: 'task', task: task({ status: 'completed' }), previous: 'in_progress' },
      { type: 'task', task: task({ id: 't2', status: 'refused', assignedTo: null }), previous: 'assigned' },
      { type: 'task', task: task({ id: 't3', status: 'handed_off' }), previous: 'blocked' },
    ),
    [
      'task started: critic: find the flaw',
      'task completed: critic: find the flaw',
      'task refused: nobody: find the flaw',
      'task handed off: critic: find the flaw',
    ],
  )
})

t.test('names the sender, the recipient and the reason of a dead letter', async (t) => {
  const letter = (recipient: AgentMessage['recipient']): Fields => ({
    type: 'message.dead',
    letter: { id: 'l', message: message(recipient), reason: 'expired', errors: [], at: 0 },
  })
  t.strictSame(lines(letter('critic'), letter(['a', 'b']), letter(null)), [
    'dead letter: request from $orchestrator to critic: expired',
    'dead letter: request from $orchestrator to a, b: expired',
    'dead letter: request from $orchestrator to nobody: expired',
  ])
})

t.test('says of an alarm what its detector says', async (t) => {
  t.strictSame(
    lines(
      { type: 'deadlock', cycle: ['a', 'b'], tail: [], waits: [], victim: 'b', sentence: 'a -> b; b gives way' },
      { type: 'deadlock', cycle: ['a', 'b'], tail: [], waits: [], victim: null, sentence: 'a -> b' },
      { type: 'stall', evidence: ['a waits', 'nobody runs'], sentence: 'a waits; nobody runs' },
    ),
    ['deadlock: a -> b; b gives way', 'deadlock: a -> b', 'stall: a waits; nobody runs'],
  )
})

t.test('says who met at a sync point, and who did not come', async (t) => {
  const met = { generation: 2, arrived: ['a', 'b'], missing: [], timedOut: false, data: { a: 'secret' } }
  const missed = { generation: 3, arrived: ['a'], missing: ['b', 'c'], timedOut: true, data: {} }
  const lost = { ...missed, arrived: [], missing: ['a'] }
  t.strictSame(
    lines(
      { type: 'sync', point: 'noon', result: met },
      { type: 'sync', point: 'noon', result: missed },
      { type: 'sync', point: 'noon', result: lost },
    ),
    [
      'sync point noon (generation 2): a, b met',
      'sync point noon (generation 3) ended without b, c; a arrived',
      'sync point noon (generation 3) ended without a; nobody arrived',
    ],
  )
  t.notOk(isTrouble(runtimeEvent({ type: 'sync', point: 'noon', result: met })))
  t.ok(isTrouble(runtimeEvent({ type: 'sync', point: 'noon', result: missed })))
})

t.test('says how far a tool is and why it failed, and never what went in', async (t) => {
  const call = { agent: 'critic', messageId: 'm', callId: '1', tool: 'search' }
  const error = new ToolTimeoutError('Tool "search" did not end within 5 ms.')
  t.strictSame(
    lines(
      { type: 'tool.started', ...call, input: { query: 'secret' } },
      { type: 'tool.progress', ...call, note: 'page 2' },
      { type: 'tool.finished', ...call, durationMs: 5, error: null },
      { type: 'tool.finished', ...call, durationMs: 5, error },
    ),
    ['critic uses search: page 2', 'critic uses search: Tool "search" did not end within 5 ms'],
  )
})

t.test('is silent about what happens all the time', async (t) => {
  t.strictSame(
    lines(
      { type: 'run.started', query: 'why?' },
      { type: 'turn.started', agent: 'critic', messageId: 'm', attempt: 1 },
      { type: 'message', message: message('critic') },
    ),
    [],
  )
})

t.test('what an agent wrote makes no second line and steers no terminal', async (t) => {
  const description = `one\ntwo\u001b[2J${'x'.repeat(500)}`
  const [line] = lines({ type: 'task', task: task({ status: 'assigned', description }), previous: null })
  t.match(line, /^task started: critic: one two \[2Jx+…$/)
  t.ok(line!.length <= 200)
})

t.test('a crash is trouble, a finished task is none', async (t) => {
  const error = new AgentCrashedError('gone')
  t.ok(isTrouble(runtimeEvent({ type: 'agent.crashed', agent: 'a', epoch: 1, error, restartInMs: 0 })))
  t.notOk(isTrouble(runtimeEvent({ type: 'task', task: task({}), previous: null })))
})

function lines(...events: Fields[]): string[] {
  const lineOf = eventLines()
  return events.flatMap((fields) => lineOf(runtimeEvent(fields)) ?? [])
}

function task(given: Partial<AgentTask>): AgentTask {
  return {
    id: 't1',
    description: 'find the flaw',
    requiredCapabilities: [],
    assignedTo: 'critic',
    status: 'completed',
    priority: 0,
    deadline: null,
    dependencies: [],
    result: null,
    parentTask: null,
    ...given,
  }
}

function message(recipient: AgentMessage['recipient']): TypedMessage {
  return {
    id: 'm',
    type: 'request',
    sender: '$orchestrator',
    recipient,
    content: '',
    structuredData: null,
    priority: 0,
    requiresResponse: true,
    responseTimeoutMs: null,
    threadId: null,
    metadata: {},
    runId: 'run',
    correlationId: null,
    sentAt: 0,
  }
}
