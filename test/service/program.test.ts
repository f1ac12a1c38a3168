/** Parts of the commands: options, failures, signals, files of teams, traces and pages of runs. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { AgentFailedError, ConfigurationError, defineAgent, RunAbortedError } from '../../src/index.ts'
import { hashOf } from '../../src/mailbox/stored-parts.ts'
import { toldEvent } from '../../src/runtime/runs/told-events.ts'
import { type OrchestrationTrace, sequenceDiagram } from '../../src/runtime/runs/trace.ts'
import { main } from '../../src/service/commands/program.ts'
import { exitCodeOf, failureWords, listenForInterrupt } from '../../src/service/shared/failure.ts'
import { jsonText, resultText, traceFile, traceText } from '../../src/service/shared/json-text.ts'
import { loadTeamFile } from '../../src/service/shared/load-team-file.ts'
import { unlessAborted } from '../../src/shared/on-abort.ts'
import { HOSTILE } from '../dashboard/hostile-texts.ts'
import { localTeam } from '../kit/team.ts'
import { fakeSurroundings } from './fake-team.ts'
import { stage } from './http/stage.ts'

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
