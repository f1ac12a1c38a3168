/** What the commands print: lines of events, tables, progress, frames drawn over each other. */
import t from 'tap'
import {
  AgentCrashedError,
  type AgentMessage,
  type AgentTask,
  ToolTimeoutError,
  type TypedMessage,
} from '../../src/index.ts'
import { eventLines, isTrouble } from '../../src/service/shared/event-lines.ts'
import { agentTable } from '../../src/service/shared/live-progress.ts'
import { progressOn } from '../../src/service/shared/progress.ts'
import { redrawOn } from '../../src/service/shared/redraw.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { seededRandom } from '../../src/shared/random.ts'
import { agentHealth, fakeScreen, fakeTeam, runtimeEvent } from './fake-team.ts'

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

const size = { width: 80, height: 24 }

t.test('shows name, state, turns done, mailbox and restarts of each agent', async (t) => {
  const agents = {
    advocate: agentHealth({ status: 'running', queued: 12, inFlight: 1 }),
    critic: agentHealth({ status: 'restarting', restarts: 2 }),
  }
  t.strictSame(agentTable(agents, new Map([['advocate', 3]]), size), [
    'agent     state       turns  queued  in flight  restarts',
    'advocate  running     3      12      1          0',
    'critic    restarting  0      0       0          2',
  ])
})

t.test("leaves out what is the runtime's own", async (t) => {
  const lines = agentTable({ $orchestrator: agentHealth(), judge: agentHealth() }, new Map(), size)
  t.equal(lines.length, 2)
  t.match(lines[1], /^judge/)
})

t.test('is no wider than the terminal', async (t) => {
  const lines = agentTable({ [`a${'x'.repeat(60)}`]: agentHealth() }, new Map(), { width: 20, height: 24 })
  t.ok(lines.every((line) => line.length <= 20))
})

t.test('is no higher than the terminal: the agents that have nothing to do give way', async (t) => {
  const names = Array.from({ length: 10 }, (_, i) => `agent${i}`)
  const agents = Object.fromEntries(
    names.map((name, i) => [name, agentHealth(i === 7 ? { status: 'running' } : i === 9 ? { queued: 1 } : {})]),
  )
  const lines = agentTable(agents, new Map(), { width: 80, height: 5 })
  t.strictSame(
    lines.map((line) => line.split(' ')[0]),
    ['agent', 'agent0', 'agent7', 'agent9', 'and'],
  )
  t.equal(lines.at(-1), 'and 7 more: 7 idle; turns 0, queued 0, in flight 0, restarts 0')
  t.equal(agentTable(agents, new Map(), { width: 80, height: 0 }).length, 3)
})

t.test('of fifty, those that do not fit are summed up in one line', async (t) => {
  const names = Array.from({ length: 50 }, (_, i) => `agent${i}`)
  const agents = Object.fromEntries(
    names.map((name, i) => [
      name,
      agentHealth(
        i < 30 ? { status: 'running', inFlight: 1, queued: 2 } : i < 40 ? { status: 'starting', restarts: 1 } : {},
      ),
    ]),
  )
  const turns = new Map(names.map((name) => [name, 2]))
  const lines = agentTable(agents, turns, { width: 90, height: 23 })
  t.equal(lines.length, 23)
  t.equal(lines.filter((line) => line.includes('running ')).length, 21)
  t.equal(
    lines.at(-1),
    'and 29 more: 9 running, 10 starting, 10 idle; turns 58, queued 18, in flight 9, restarts 10'.slice(0, 90),
  )
})

const crash = runtimeEvent({
  type: 'agent.crashed',
  agent: 'critic',
  epoch: 1,
  error: new AgentCrashedError('its heap is full'),
  restartInMs: 0,
})
const turn = runtimeEvent({ type: 'turn.finished', agent: 'critic', messageId: 'm', attempt: 1 })
const terminal = { columns: 80, rows: 24 }

t.test('a pipe gets plain lines', async (t) => {
  const { screen, text } = fakeScreen()
  const team = fakeTeam({ critic: {} })
  const progress = await progressOn(screen)
  progress.watch(team)
  team.events.next(turn)
  team.events.next(crash)
  progress.print('a line of the log\n')
  progress.end()
  team.events.next(crash)
  t.equal(text(), 'critic crashed: its heap is full; restarts at once\na line of the log\n')
})

t.test('a terminal gets a table that stays, and a crash above it', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const team = fakeTeam({ critic: { status: 'running', restarts: 1 } })
  const progress = await progressOn(screen, {})
  progress.watch(team)
  team.events.next(turn)
  team.events.next(crash)
  progress.end()
  progress.end()
  const whole = text()
  t.match(whole, /critic {2}running {2}0/)
  t.ok(whole.lastIndexOf('critic  running  1') > whole.indexOf('critic crashed'), 'the table is drawn again below')
  t.notOk(team.events.observed)
})

t.test('what is printed while nobody is watched is shown as it is', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const progress = await progressOn(screen, {})
  progress.print('before\n')
  progress.watch(fakeTeam())
  progress.end()
  progress.print('after\n')
  t.ok(text().startsWith('before\n'))
  t.ok(text().endsWith('after\n'))
})

t.test('on a terminal nothing that is printed is lost, however much it is', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const progress = await progressOn(screen, {})
  progress.watch(fakeTeam({ critic: {} }))
  const lines = Array.from({ length: 100 }, (_, i) => `line ${i}\n`)
  for (const line of lines) progress.print(line)
  progress.print('no end of line')
  progress.end()
  t.ok(lines.every((line) => text().includes(line)))
  t.ok(text().lastIndexOf('critic') > text().indexOf('no end of line\n'), 'the table is drawn again below')
})

t.test('a terminal that cannot move its cursor, or has no size, gets plain lines', async (t) => {
  for (const [size, TERM] of [
    [terminal, 'dumb'],
    [{ columns: 0, rows: 0 }, 'xterm'],
  ] as const) {
    const { screen, text } = fakeScreen(size)
    const progress = await progressOn(screen, { TERM })
    progress.watch(fakeTeam({ critic: {} }))
    progress.end()
    t.equal(text(), '')
  }
})

// Frames that are drawn over each other: the screen shows the last one, and below it nothing.

const ROWS = 12

/** A screen that does what it is told to, as far as frames need it. Without its history that is ROWS lines high. */
function screen() {
  const lines: string[] = ['']
  let row = 0
  let column = 0
  let top = 0
  const to = (next: number) => {
    row = Math.min(top + ROWS - 1, Math.max(top, next))
    while (lines.length <= row) lines.push('')
  }
  const acts: Record<string, (value: string) => void> = {
    A: (value) => to(row - Number(value || 1)),
    B: (value) => to(row + Number(value || 1)),
    G: () => {
      column = 0
    },
    K: (value) => {
      lines[row] = value === '2' ? '' : lines[row]!.slice(0, column)
    },
    h: () => {},
    l: () => {},
  }
  const put = (text: string) => {
    const before = lines[row]!.padEnd(column)
    lines[row] = before.slice(0, column) + text + before.slice(column + text.length)
    column += text.length
  }
  const write = (text: string) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal is told by
    for (const [part, value = '', act] of text.matchAll(/\u001b\[([?\d;]*)([A-Za-z])|\n|[^\u001b\n]+/g)) {
      if (act !== undefined) acts[act]!(value)
      else if (part !== '\n') put(part)
      else {
        top = Math.max(top, row + 2 - ROWS)
        to(row + 1)
        column = 0
      }
    }
    return true
  }
  return { on: { columns: 40, rows: ROWS, isTTY: true, write } as unknown as Screen, lines }
}

t.test('whatever lines come and go, the screen has the last frame, and what was printed above', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom([seed, 2, 3, 4])
    const { on, lines } = screen()
    const draw = redrawOn(on)
    const printed: string[] = []
    for (let step = 0; step < 12; step++) {
      if (random() < 0.3) {
        printed.push(`line ${step}`)
        draw.clear()
        on.write(`line ${step}\n`)
      }
      const middle = Array.from({ length: Math.floor(random() * 6) }, () => `at work ${Math.floor(random() * 3)}`)
      const frame = ['team', ...middle, 'figures', '> ']
      draw(frame.join('\n'))
      const shown = lines.map((line) => line.trimEnd())
      const wanted = [...printed, ...frame.map((line) => line.trimEnd())]
      t.same(shown.slice(0, wanted.length), wanted, `seed ${seed}, step ${step}`)
      t.same(shown.slice(wanted.length).join(''), '', 'nothing is left behind')
      if (!t.passing()) return
    }
  }
})
