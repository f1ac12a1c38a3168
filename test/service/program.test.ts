/** Parts of the commands: options, failures, signals, files of teams, traces, pages of runs, and what they print. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  AgentCrashedError,
  AgentFailedError,
  type AgentMessage,
  type AgentTask,
  ConfigurationError,
  defineAgent,
  RunAbortedError,
  ToolTimeoutError,
  type TypedMessage,
} from '../../src/index.ts'
import { hashOf } from '../../src/mailbox/stored-parts.ts'
import { toldEvent } from '../../src/runtime/runs/told-events.ts'
import { type OrchestrationTrace, sequenceDiagram } from '../../src/runtime/runs/trace.ts'
import { main } from '../../src/service/commands/program.ts'
import { eventLines, isTrouble } from '../../src/service/shared/event-lines.ts'
import { exitCodeOf, failureWords, listenForInterrupt } from '../../src/service/shared/failure.ts'
import { jsonText, resultText, traceFile, traceText } from '../../src/service/shared/json-text.ts'
import { agentTable } from '../../src/service/shared/live-progress.ts'
import { loadTeamFile } from '../../src/service/shared/load-team-file.ts'
import { progressOn } from '../../src/service/shared/progress.ts'
import { redrawOn } from '../../src/service/shared/redraw.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { unlessAborted } from '../../src/shared/on-abort.ts'
import { seededRandom } from '../../src/shared/random.ts'
import { HOSTILE } from '../dashboard/hostile-texts.ts'
import { localTeam } from '../kit/team.ts'
import { agentHealth, fakeScreen, fakeSurroundings, fakeTeam, runtimeEvent } from './fake-team.ts'
import { stage } from './http/stage.ts'

// Parts of the commands: options, failures, signals, files of teams, traces and pages of runs.

t.test('--help and --version go to stdout and are no failure', async (t) => {
  const help = await dramatis('--help')
  t.match(help, { code: 0, stderr: '' })
  t.match(help.stdout, /^Usage: dramatis [\s\S]*run[\s\S]*Exit codes: 0 done, 1 a run failed, 2/)
  const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))
  t.strictSame(await dramatis('--version'), { code: 0, stdout: `${version}\n`, stderr: '' })
  const rehearse = /--seeds <number>[\s\S]*--seed <seed>[\s\S]*--faults \[list][\s\S]*--record <file>[\s\S]*--json/
  t.match(await dramatis('rehearse', '--help'), { code: 0, stdout: rehearse })
  t.match(await dramatis('run', '--help'), { code: 0, stdout: /--json[\s\S]*--trace <file>[\s\S]*--timeout <ms>/ })
})

t.test('wrong usage exits with 2, says why, and leaves stdout empty', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /Usage: dramatis/],
    [['rnu', 'team.js', 'why?'], /unknown command 'rnu'[\s\S]*Did you mean run/],
    [['run'], /missing required argument 'team-file'/],
    [['run', 'team.js'], /missing required argument 'query'/],
    [['run', 'team.js', 'two', 'words'], /too many arguments[\s\S]*needs quotes/],
    [['run', 'team.js', 'why?', '--jsno'], /unknown option '--jsno'/],
    [['run', 'team.js', 'why?', '--trace'], /argument missing/],
    [['run', 'team.js', 'why?', '--timeout', 'soon'], /whole number of milliseconds/],
    [['run', 'team.js', 'why?', '--timeout', '0'], /whole number of milliseconds/],
  ]
  for (const [args, why] of wrong)
    t.match(await dramatis(...args), { code: 2, stdout: '', stderr: why }, args.join(' '))
})

t.test('a command that does not exist is wrong usage, and the help names those that do', async (t) => {
  t.match(await dramatis('converse', 'team.ts'), { code: 2, stdout: '', stderr: /unknown command 'converse'/ })
  const listed = [...(await dramatis('--help')).stdout.matchAll(/^ {2}(\w+)(?: \[options\]| {10,})/gm)].map(
    ([, name]) => name,
  )
  t.strictSame(listed, [
    'run',
    'serve',
    'chat',
    'top',
    'rehearse',
    'eval',
    'trace',
    'replay',
    'runs',
    'resume',
    'questions',
    'answer',
    'mcp',
    'acp',
    'cluster',
    'log',
  ])
})

async function dramatis(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(args, surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

t.test('what the user has to change exits with 2, everything else with 1', async (t) => {
  t.equal(exitCodeOf(new ConfigurationError('agents: got nothing')), 2)
  t.equal(exitCodeOf(new RunAbortedError('aborted')), 1)
  t.equal(exitCodeOf(new Error('disk full')), 1)
  t.equal(exitCodeOf('thrown as a string'), 1)
})

t.test('an error of another copy of the library counts as its own', async (t) => {
  const foreign = Object.assign(new Error('agents: got nothing'), { code: 'CONFIGURATION', details: {} })
  t.equal(exitCodeOf(foreign), 2)
  const system = Object.assign(new Error('no such file'), { code: 'ENOENT' })
  t.equal(failureWords(system, {}), 'no such file')
})

t.test('a failure is one line with its code and without its stack', async (t) => {
  t.equal(failureWords(new AgentFailedError('printer:\nout of paper'), {}), 'AGENT_FAILED: printer: out of paper')
  t.equal(failureWords(new ConfigurationError('agents: got nothing'), {}), 'agents: got nothing')
  t.equal(failureWords(undefined, {}), 'undefined')
  t.equal(failureWords(new TypeError('x is no function'), {}), 'TypeError: x is no function')
  t.equal(failureWords(new Error(''), {}), 'Error')
})

t.test('DEBUG=dramatis shows the stack', async (t) => {
  for (const DEBUG of ['dramatis', 'http,dramatis'])
    t.match(failureWords(new Error('why'), { DEBUG }), /at .*program\.test/)
  t.notMatch(failureWords(new Error('why'), { DEBUG: 'dramatists' }), /at /)
})

t.test('the first Ctrl-C aborts and says so, the second leaves', async (t) => {
  const said: string[] = []
  const left: number[] = []
  const { signal, stop } = listenForInterrupt(
    (text) => said.push(text),
    (code) => left.push(code),
  )
  process.emit('SIGINT')
  t.ok(signal.aborted)
  t.match(said, [/Ctrl-C again leaves at once/])
  t.strictSame(left, [])
  process.emit('SIGINT')
  t.strictSame(left, [130])
  stop()
})

t.test('after stop Ctrl-C has its usual meaning', async (t) => {
  const before = process.listenerCount('SIGINT')
  const { stop } = listenForInterrupt(() => {})
  t.equal(process.listenerCount('SIGINT'), before + 1)
  stop()
  t.equal(process.listenerCount('SIGINT'), before)
})

t.test('work that nobody waits for any more is left alone', async (t) => {
  const controller = new AbortController()
  const waiting = unlessAborted(controller.signal, new Promise(() => {}))
  controller.abort(new Error('enough'))
  await t.rejects(waiting, { message: 'enough' })
  await t.rejects(unlessAborted(controller.signal, Promise.reject(new Error('too late'))))
  t.equal(await unlessAborted(new AbortController().signal, Promise.resolve('done')), 'done')
})

t.test('returns the default export of a JavaScript file', async (t) => {
  const folder = t.testdir({
    'team.mjs': "export default { agents: [{ name: 'a' }] }",
    'team.cjs': 'module.exports = { agents: [] }',
  })
  t.match(await loadTeamFile('team.mjs', folder), { agents: [{ name: 'a' }] })
  t.match(await loadTeamFile(join(folder, 'team.cjs'), '/'), { agents: [] })
})

t.test('what is no team file is refused with what to do', async (t) => {
  const folder = t.testdir({
    'named.mjs': 'export const team = {}',
    'list.mjs': 'export default []',
    'text.mjs': "export default 'team'",
    'running.mjs': 'export default { execute() {} }',
    'team.json': '{}',
    'agents.yaml': 'agents: []',
    'empty.yml': '',
    'folder.js': {},
    'agent.mjs': "export default { [Symbol.for('dramatis.agent')]: true, receive() {} }",
  })
  const refused: Record<string, RegExp> = {
    'nowhere.ts': /"nowhere\.ts": there is no such file in /,
    'folder.js': /"folder\.js": that is a folder/,
    'agent.mjs': /exports an agent; a team file names its module in a role\. Write: /,
    'named.mjs': /has no default export\. Write: export default defineTeam\(/,
    'list.mjs': /exports a list as its default/,
    'text.mjs': /exports team as its default/,
    'running.mjs': /exports a team that runs already/,
    'team.json': /got "\.json"; accepted: \.js, \.mjs/,
    'agents.yaml': /^agents\.yaml:1:9: agents: got an empty list/,
    'empty.yml': /^empty\.yml:1:1: the file is empty/,
  }
  for (const [file, message] of Object.entries(refused)) {
    await t.rejects(loadTeamFile(file, folder), { code: 'CONFIGURATION', message }, file)
  }
})

t.test('a file that cannot be imported is named with the place', async (t) => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'typo.mjs'), 'const a = 1\nexport default {{\n')
  writeFileSync(join(folder, 'throws.mjs'), "\n\nthrow new TypeError('no such key')")
  const typo = { code: 'CONFIGURATION', message: /^Team file "typo\.mjs": SyntaxError: .*\(at .*typo\.mjs:2\)/ }
  await t.rejects(loadTeamFile('typo.mjs', folder), typo)
  const throws = {
    code: 'CONFIGURATION',
    message: /^Team file "throws\.mjs": TypeError: no such key \(at .*throws\.mjs:3\)/,
  }
  await t.rejects(loadTeamFile('throws.mjs', folder), throws)
})

t.test('a missing library is named with the command that installs it', async (t) => {
  const folder = t.testdir({
    'team.mjs':
      "const error = Object.assign(new Error(\"Cannot find package 'dramatis' imported from x\"), { code: 'ERR_MODULE_NOT_FOUND' })\nthrow error",
  })
  await t.rejects(loadTeamFile('team.mjs', folder), { message: /npm install dramatis/ })
})

const trace: OrchestrationTrace = {
  events: [],
  decisions: [],
  agentActivations: [],
  messageFlow: [{ from: '$user', to: 'critic', messageId: 'm', type: 'request', at: 1 }],
  syncPointsReached: [],
}

t.test('the name of the file says what is written into it', async (t) => {
  t.equal(traceText('run.mmd', trace), sequenceDiagram(trace))
  t.equal(traceText('RUN.MD', trace), `\`\`\`mermaid\n${sequenceDiagram(trace)}\`\`\`\n`)
  t.strictSame(JSON.parse(traceText('run.json', trace)), trace)
  t.strictSame(JSON.parse(traceText('run', trace)), trace)
})

t.test('the file is written where the command runs', async (t) => {
  const folder = t.testdir()
  await traceFile('run.mmd', folder)(trace)
  t.equal(readFileSync(join(folder, 'run.mmd'), 'utf8'), sequenceDiagram(trace))
})

t.test('a file that cannot be there is refused before the run', async (t) => {
  const folder = t.testdir({ taken: {} })
  t.throws(() => traceFile('nowhere/run.mmd', folder), {
    code: 'CONFIGURATION',
    message: /does not exist; make it first/,
  })
  t.throws(() => traceFile('taken', folder), { code: 'CONFIGURATION', message: /is a folder/ })
})

t.test('errors are data in JSON', async (t) => {
  const text = jsonText({
    error: new AgentFailedError('no', { agent: 'a' }, new Error('secret')),
    other: new TypeError('x'),
  })
  t.strictSame(JSON.parse(text), {
    error: { code: 'AGENT_FAILED', message: 'no', details: { agent: 'a' } },
    other: { name: 'TypeError', message: 'x' },
  })
})

// A run as one HTML page: all of it, and nothing that runs.

const talkative = defineAgent({
  async receive({ content }, context) {
    if (content === 'fail') throw new Error(HOSTILE.join(' '))
    await context.blackboard!.write('entry.one', 1, 'number')
    return HOSTILE.join('\n\n')
  },
})

t.test('texts of agents are text in it: no element, attribute or link is made of them', async (t) => {
  const { send } = stage(t, talkative)
  const query = HOSTILE.join(' ')
  for (const [asked, status] of [
    [query, 'finished'],
    ['fail', 'failed'],
  ]) {
    const { headers } = await send('POST', '/api/tasks', {
      body: { query: asked },
      headers: { prefer: 'respond-async' },
    })
    const path = headers.get('location')!
    await send('GET', `${path}?wait=30`)
    const { body: page, headers: of } = await send('GET', `${path}/trace?as=html`)
    t.equal(of.get('content-type'), 'text/html; charset=utf-8')
    t.match(of.get('content-security-policy'), /^default-src 'none'; style-src 'unsafe-inline'; sandbox$/)
    const elements = new Set([...page.matchAll(/<([a-z]\w*)/gi)].map(([, name]) => name!.toLowerCase()))
    const own =
      'html head meta title style body main h1 h2 dl div dt dd strong code section pre p svg rect text line table'
    const made = `${own} thead tbody tr th td details summary small`.split(' ')
    t.same(
      [...elements].filter((name) => !made.includes(name)),
      [],
    )
    t.notMatch(page, /<[^>]*\s(?:on\w+|href|src|action)=/i)
    for (const unseen of ['\u202e', '\u2066', '\u200b', '\u0000']) t.notOk(page.includes(unseen))
    t.match(page, '&lt;img src=x onerror=alert(1)&gt;')
    t.match(page, `<strong class="${status}">`)
  }
})

t.test('it has the query, the answer, the agents with their figures, and each message', async (t) => {
  const { send } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'Is it raining?' } })
  const { body: page } = await send('GET', `/api/tasks/${task.id}/trace?as=html`)
  t.match(page, '<h1>Is it raining?</h1>')
  t.match(page, '<section><h2>Answer</h2><pre>heard: Is it raining?</pre></section>')
  t.match(page, '<th scope="row">worker</th><td>1</td><td>0</td>')
  t.match(page, /<td>request<\/td><td>strategy → worker<\/td><td><details><summary>Is it raining\? /)
  t.match(page, /<td>response<\/td><td>worker → strategy<\/td><td><details><summary>heard: Is it raining\? /)
  t.match(page, /<rect class="turn"/)
})

// Large parts in what a service writes: told by reference, in each message and event that has them.

const large = { type: 'image', data: new Uint8Array(100_000).fill(7), mediaType: 'image/png', name: 'sea.png' } as const
const small = { type: 'image', data: 'data:image/png;base64,AQID' } as const
const told = { type: 'image', mediaType: 'image/png', name: 'sea.png', hash: hashOf(large.data), bytes: 100_000 }

t.test('a result as text has large parts by reference, and small ones whole', async (t) => {
  const team = localTeam(t, {
    ann: async ({ parts }, context) => (await context.request('ben', 'look', { parts })).content,
    ben: () => 'seen',
  })
  const result = await team.execute([{ type: 'text', text: 'look' }, large, small])
  const text = resultText(result)
  const shown = JSON.parse(text).messageHistory.flatMap(({ parts = [] }) => parts)
  t.match(shown, [{ type: 'text' }, told, small, { type: 'text' }, told, small])
  t.ok(text.length < 50_000)
})

t.test('the event of a dead letter has them by reference', async (t) => {
  const team = localTeam(t, {
    ann: async (_message, context) => {
      await context.send('ben', 'look', { parts: [large] })
      return 'sent'
    },
    ben: () => {
      throw new Error('no ink')
    },
  })
  const run = team.launch('go')
  const events: string[] = []
  for await (const event of run.events({ types: ['message.dead'] })) events.push(JSON.stringify(toldEvent(event)))
  t.equal(events.length, 1)
  t.match(events[0], JSON.stringify(told))
  t.ok(events[0]!.length < 10_000)
})

// What the commands print: lines of events, tables, progress, frames drawn over each other.

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
