/** Commands as their users have them: serve with its port and signals, --watch, and what is done with a log. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { readBlock, SEGMENT_HEADER_BYTES } from '../../src/runtime/store/block-format.ts'
import { main } from '../../src/service/commands/program.ts'
import { CodeWatch } from '../../src/service/shared/code-watch.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { folderOf, segmentsOf } from '../durability/log-folders.ts'
import { ask, silent } from '../kit/team.ts'
import { dramatis } from './command-line.ts'
import { fakeSurroundings } from './fake-team.ts'

// Commands for the runs of a durable log: runs, questions, answer, resume.

const teamFile = fileURLToPath(new URL('../fixtures/durability/desk-team-file.js', import.meta.url))

/** A folder, and the commands as they run there. */
function place(t: Test) {
  const folder = folderOf(t)
  mkdirSync(folder, { recursive: true })
  const env = { DESK_LOG: join(folder, 'log'), DESK_EFFECTS: join(folder, 'effects') }
  const command = (args: string[], more: Parameters<typeof dramatis>[1] = {}) =>
    dramatis(args, { cwd: folder, ...more, env })
  return { folder, env, command }
}

/** The same team in this process, with run "one" that waits for a person. */
async function asking(t: Test, env: { DESK_LOG: string; DESK_EFFECTS: string }) {
  Object.assign(process.env, env)
  const { default: definition } = await import('../fixtures/durability/desk-team-file.js')
  const team = createTeam({ ...definition, stateManagement: { path: env.DESK_LOG }, logger: silent })
  t.teardown(() => team.close())
  const run = team.launch('go', { runId: 'one' })
  for await (const event of run.events()) if (event.type === 'question') break
  await team.flush()
  return { team, questionId: team.questions()[0]!.questionId }
}

t.test('a question is answered while no process has the log, and the run goes on with the answer', async (t) => {
  const { env, command } = place(t)
  const { team, questionId } = await asking(t, env)
  const log = ['--log', 'log']
  t.match((await command(['runs', ...log])).stdout, /^one {2}waiting +\S+Z {2}go\n$/)
  const held = await command(['answer', questionId, 'yes', ...log])
  t.match(held, { code: 1, stderr: /LOG_HELD: .*Answer there \(run\.answer/ })
  await team.close()

  t.match(await command(['runs', ...log]), { code: 0, stdout: /^one {2}interrupted {2}\S+Z {2}go\n$/, stderr: '' })
  t.same((await command(['questions', ...log])).stdout, `${questionId}  bob in run one\n  really?\n  - yes\n  - no\n`)
  const [open] = JSON.parse((await command(['questions', ...log, '--json'])).stdout)
  t.match(open, { questionId, runId: 'one', agent: 'bob', text: 'really?', choices: ['yes', 'no'], askedAt: Number })
  t.match(await command(['answer', questionId, 'perhaps', ...log]), { code: 2, stderr: /accepted: "yes", "no"/ })
  const reason = await command(['answer', questionId, 'yes', '--reason', 'why not', ...log])
  t.match(reason, { code: 2, stderr: /--reason: it goes with the answer "no" alone/ })
  const input = await command(['answer', questionId, 'yes', '--input', '{}', ...log])
  t.match(input, { code: 2, stderr: /asks no approval of a tool/ })
  t.match(await command(['answer', 'unknown', 'yes', ...log]), { code: 2, stderr: new RegExp(`Open: ${questionId}`) })

  const answered = await command(['answer', questionId, 'yes', ...log])
  t.match(answered, { code: 0, stdout: '', stderr: 'bob gets the answer when run one goes on.\n' })
  t.match(await command(['questions', ...log]), { code: 0, stdout: '', stderr: 'No question is open.\n' })
  t.match(await command(['answer', questionId, 'no', ...log]), { code: 2 }, 'it is answered once')
  t.match(await command(['resume', 'one', teamFile]), { code: 0, stdout: 'go: 4444 yes\n' })
  t.match((await command(['runs', ...log, '--status', 'finished', '--json'])).stdout, '"id": "one"')
  t.match(await command(['runs', ...log, '--status', 'interrupted']), {
    stdout: '',
    stderr: 'No run is interrupted.\n',
  })
})

t.test('resume puts the open questions, and Ctrl-C leaves the run as it is', async (t) => {
  const { env, command } = place(t)
  const { team } = await asking(t, env)
  await team.close()

  const stopped = await command(['resume', teamFile], { interruptAt: 'bob asks: really?', keepsInput: true })
  t.match(stopped, { code: 130, stdout: '' })
  t.match((await command(['runs', '--log', 'log'])).stdout, /^one {2}interrupted /)
  const unanswered = await command(['resume', teamFile])
  t.match(unanswered, { code: 2, stdout: '', stderr: /The run stays interrupted: answer with dramatis answer/ })
  t.match(await command(['resume', teamFile], { input: 'no\n' }), { code: 0, stdout: 'go: 4444 no\n' })
  t.match(await command(['resume', teamFile]), { code: 0, stdout: '', stderr: /No run is interrupted/ })
})

t.test('what cannot be resumed is named', async (t) => {
  const { command } = place(t)
  t.match(await command(['resume', 'three', teamFile]), { code: 2, stderr: /UNKNOWN_RUN: No run "three" is known/ })
  const other = fileURLToPath(new URL('../fixtures/cli/echo-team.js', import.meta.url))
  t.match(await command(['resume', other]), { code: 2, stderr: /echo-team\.js" has no stateManagement/ })
  t.match(await command(['runs', '--log', 'nowhere']), { code: 2, stderr: /--log: "nowhere"/ })
  t.match(await command(['runs', '--log', 'log', '--status', 'gone']), { code: 2, stderr: /interrupted/ })
})

// Commands for the files of a durable log: check, compact, repair.

/** A folder with the log of a team that has ended some runs and has one open; and the commands as they run there. */
async function logFilesPlace(t: Test, runs: number) {
  const folder = folderOf(t)
  mkdirSync(folder, { recursive: true })
  const env = { DESK_LOG: join(folder, 'log'), DESK_EFFECTS: join(folder, 'effects') }
  Object.assign(process.env, env)
  const { default: definition } = await import('../fixtures/durability/desk-team-file.js')
  const team = createTeam({
    ...definition,
    stateManagement: { path: env.DESK_LOG, durability: 'commit' },
    logger: silent,
  })
  t.teardown(() => team.close())
  for (let n = 1; n <= runs; n++) {
    const run = team.launch('go', { runId: `ended ${n}` })
    for await (const event of run.events()) if (event.type === 'question') await run.answer(event.questionId, 'yes')
  }
  const open = team.launch('go', { runId: 'open' })
  for await (const event of open.events()) if (event.type === 'question') break
  await team.flush()
  const command = (...args: string[]) => dramatis(['log', ...args, '--log', 'log'], { cwd: folder, env })
  return { folder, env, team, command }
}

t.test('check counts what a log has, also while a process has it', async (t) => {
  const { team, command } = await logFilesPlace(t, 2)
  const counted = /^1 segment, \d+ blocks, [\d,]+ bytes, 3 runs \(1 unfinished\)\n$/
  t.match(await command('check'), { code: 0, stdout: counted, stderr: '' })
  await team.close()
  const { code, stdout } = await command('check', '--json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), {
    segments: 1,
    runs: 3,
    unfinishedRuns: 1,
    damage: [],
    lostRuns: [],
    runsWithoutBegin: 0,
    damageOfUnknownRuns: { places: 0, bytes: 0 },
  })
})

t.test('check says of an unfinished block at the end that it is no damage', async (t) => {
  const { folder, team, command } = await logFilesPlace(t, 0)
  await team.close()
  const [name] = segmentsOf(join(folder, 'log'))
  const path = join(folder, 'log', name!)
  writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from('BLK1 and so on')]))
  t.match(await command('check'), { code: 0, stdout: /the last 14 bytes are not whole\. That is no damage/ })
})

t.test('compact gives up finished runs beyond the limits, and open runs go on', async (t) => {
  const { env, folder, team, command } = await logFilesPlace(t, 4)
  t.match(await command('compact', '--keep-runs', '1'), { code: 1, stderr: /LOG_HELD: .*is held by process \d+/ })
  await team.close()
  t.match(await command('compact', '--keep-runs', 'all'), { code: 2, stderr: /whole number/ })
  const compacted = await command('compact', '--keep-runs', '1', '--archive', 'archive')
  t.match(compacted, { code: 0, stdout: /^[\d,]+ bytes before, [\d,]+ bytes after; 3 finished runs given up\n$/ })
  const files = readdirSync(join(folder, 'archive')).sort()
  t.same(
    files.map((name) => JSON.parse(readFileSync(join(folder, 'archive', name), 'utf8')).run.id),
    ['ended 1', 'ended 2', 'ended 3'],
  )
  t.match(await command('check'), { code: 0, stdout: /2 runs \(1 unfinished\)/ })
  const again = JSON.parse((await command('compact', '--json')).stdout)
  t.match(again, { runsForgotten: 0 })
  t.ok(again.after <= again.before + 1_000, `${again.before} bytes, then ${again.after}`)
  const run = (args: string[]) => dramatis(args, { cwd: folder, env, input: 'no\n' })
  t.match((await run(['runs', '--log', 'log'])).stdout, /^ended 4 {2}finished .*\nopen {2}interrupted /)
  t.match(await run(['trace', 'ended 4', '--log', 'log']), { code: 0, stdout: /^sequenceDiagram/ })
  t.match(await run(['resume', teamFile]), { code: 0, stdout: 'go: 4444 no\n' })
})

t.test('repair says that damage may hide runs that nothing names', async (t) => {
  const { folder, team, command } = await logFilesPlace(t, 1)
  await team.close()
  const path = join(folder, 'log', segmentsOf(join(folder, 'log'))[0]!)
  const bytes = readFileSync(path)
  const { bytes: length } = readBlock(bytes, SEGMENT_HEADER_BYTES)!
  writeFileSync(path, bytes.fill(0, SEGMENT_HEADER_BYTES + 8, SEGMENT_HEADER_BYTES + length))
  t.match((await command('check')).stdout, /May have lost something: .*any run that stood nowhere else/)
  const says = new RegExp(` any run that stood in 1 damaged place \\(${length.toLocaleString('en')} bytes\\) alone: `)
  t.match((await command('repair')).stdout, says)
})

t.test('repair says what it would give up, and does it when it is told so', async (t) => {
  const { env, folder, team, command } = await logFilesPlace(t, 3)
  await team.close()
  t.match(await command('repair', '--drop-runs'), { code: 0, stdout: /is not damaged\. Nothing was changed/ })
  const path = join(folder, 'log', segmentsOf(join(folder, 'log'))[0]!)
  const bytes = readFileSync(path)
  const blocks: { at: number; bytes: number }[] = [] // those with entries of "ended 3" alone
  for (let at = SEGMENT_HEADER_BYTES; at < bytes.length; ) {
    const block = readBlock(bytes, at)!
    if (block.runs.length === 1 && block.runs[0] === 3) blocks.push({ at, bytes: block.bytes })
    at += block.bytes
  }
  const damaged = blocks.at(-2)!
  bytes[damaged.at + damaged.bytes - 9]! ^= 1
  writeFileSync(path, bytes)
  const checked = await command('check')
  t.match(checked, { code: 1, stdout: new RegExp(`damaged: .*byte ${damaged.at}, .*runs ended 3\\.\\n`) })
  t.match(checked.stderr, /dramatis log repair --log log/)
  const planned = await command('repair')
  t.match(planned.stdout, /1 run would be given up:\n {2}run ended 3, finished, begun .*Z\nKept would be: 3 runs/)
  t.same(readFileSync(path), bytes, 'nothing was changed')
  const started = await dramatis(['resume', teamFile], { cwd: folder, env })
  t.match(started, { code: 1, stderr: /LOG_CORRUPT: .*dramatis log repair/ })

  const repaired = await command('repair', '--drop-runs')
  t.match(repaired.stdout, /1 run was given up:\n {2}run ended 3, finished, begun .*\nKept: 3 runs, .*bytes now\./)
  t.match(await command('check'), { code: 0, stdout: /3 runs \(1 unfinished\)/ })
  const resumed = await dramatis(['resume', teamFile], { cwd: folder, env, input: 'yes\n' })
  t.match(resumed, { code: 0, stdout: 'go: 4444 yes\n' })
})

// `dramatis run --watch`: agents get the code of their files as these are saved.

/** The query asks the worker until it says "enough". */
const TEAM = `
import { defineTeam } from 'dramatis'
export default defineTeam({
  agents: [{ name: 'worker', module: new URL('./worker.ts', import.meta.url) }],
  supervision: { livelock: false },
  orchestration: {
    strategy: 'custom',
    async run(script, query) {
      for (;;) {
        const { content } = await script.request('worker', query)
        if (content !== 'more') return content
        await script.sleep(20)
      }
    },
  },
})`
const WORKER = `
import { defineAgent } from 'dramatis'
import { answer } from './lib/answer.ts'
export default defineAgent({ receive: () => answer })`
const answer = (text: string) => `export const answer = '${text}'`

t.test('a file that is saved broken keeps the old code, and says so; the next one is loaded', async (t) => {
  const folder = t.testdir({ 'team.js': TEAM, 'worker.ts': WORKER, lib: { 'answer.ts': answer('more') } })
  const file = join(folder, 'lib', 'answer.ts')
  const saves = [
    { at: /^worker is ready$/m, text: 'export const answer = {{' },
    { at: /keeps its old code/, text: answer('enough') },
  ]
  const heard = (stderr: string) => {
    if (saves[0]?.at.test(stderr)) writeFileSync(file, saves.shift()!.text)
  }
  const { code, stdout, stderr } = await dramatis(['run', 'team.js', 'go', '--watch'], { cwd: folder, heard })
  t.equal(code, 0, stderr)
  t.equal(stdout, 'enough\n')
  t.match(stderr, /^lib\/answer\.ts changed: Agent "worker" was not reloaded .*lib\/answer\.ts:1:\d+: .*$/m)
  t.match(stderr, /^worker is reloaded: lib\/answer\.ts changed$/m)
  t.equal(stderr.match(/answer\.ts changed/g)?.length, 2, 'one line each')
})

t.test('without --watch nothing is reloaded', async (t) => {
  const folder = t.testdir({
    'team.js': TEAM.replace("content !== 'more'", 'true'),
    'worker.ts': WORKER,
    lib: { 'answer.ts': answer('once') },
  })
  const { stdout, stderr } = await dramatis(['run', 'team.js', 'go'], { cwd: folder })
  t.equal(stdout, 'once\n')
  t.notMatch(stderr, /reloaded/)
})

/** A team whose files are watched, and the lines of the watch. */
async function watched(t: Test, files: Record<string, string>, agents: Record<string, string>) {
  const folder = t.testdir(files)
  const role = (name: string, file: string) => ({ name, module: pathToFileURL(join(folder, file)) })
  const team = createTeam({
    agents: Object.entries(agents).map(([name, file]) => role(name, file)),
    orchestration: { strategy: 'sequential' },
    supervision: { maxRestarts: 0, coolDownMs: 2 ** 30 },
    logger: silent,
  })
  t.teardown(() => team.close())
  const lines: string[] = []
  let heard = () => {}
  const watch = new CodeWatch(team, {}, (line) => {
    lines.push(line)
    heard()
  })
  await watch.ready
  const hold = systemClock.hold() // neither the team nor the watch keeps the process from its end
  t.teardown(() => {
    watch.close()
    hold.cancel()
  })
  await team.start()
  /** Resolves when there are that many lines. */
  const untilLines = (count: number) =>
    new Promise<void>((resolve) => {
      heard = () => lines.length >= count && resolve()
      heard()
    })
  const path = (file: string) => join(folder, file)
  return {
    lines,
    team,
    watch,
    untilLines,
    path,
    role,
    save: (file: string, text: string) => writeFileSync(path(file), text),
  }
}

const says = (text: string) => `import { defineAgent } from 'dramatis'
export default defineAgent({ receive({ content }) {
  if (content === 'die') process.exit(1)
  return '${text}'
} })`

t.test('only agents whose files have changed are reloaded, those that came later too', async (t) => {
  const { lines, team, untilLines, role, save, watch } = await watched(
    t,
    { 'a.js': says('a'), 'b.js': says('b'), 'c.js': says('c') },
    { ann: 'a.js', bob: 'b.js' },
  )
  save('b.js', says('new b'))
  await untilLines(1)
  t.equal(await ask(team, 'bob'), 'new b')
  await team.addAgent(role('cleo', 'c.js'))
  await watch.ready
  save('a.js', says('a')) // saved, but not changed
  save('c.js', says('new c'))
  await untilLines(2)
  t.equal(await ask(team, 'cleo'), 'new c')
  t.match(lines, [/^bob is reloaded: .*b\.js changed$/, /^cleo is reloaded: .*c\.js changed$/])
})

t.test('an import that is new is watched as well, and a file that is gone is told', async (t) => {
  const { lines, team, untilLines, path, save } = await watched(
    t,
    { 'a.js': says('a'), 'word.js': "export default 'one'" },
    { ann: 'a.js' },
  )
  save('a.js', `import word from './word.js'\n${says('x').replace("'x'", 'word')}`)
  await untilLines(1)
  t.equal(await ask(team, 'ann'), 'one')
  save('word.js', "export default 'two'")
  await untilLines(2)
  t.equal(await ask(team, 'ann'), 'two')
  rmSync(path('a.js'))
  await untilLines(3)
  t.match(lines[2], /a\.js changed: .*there is no file .*a\.js/)
  t.equal(await ask(team, 'ann'), 'two')
})

t.test('an agent that was stopped for good begins again when its file is saved', async (t) => {
  const { lines, team, untilLines, save } = await watched(t, { 'a.js': says('a') }, { ann: 'a.js' })
  await t.rejects(ask(team, 'ann', 'die'), { code: 'AGENT_TERMINATED' })
  save('a.js', says('mended'))
  await untilLines(1)
  t.match(lines, [/^ann is restarted: .*a\.js changed$/])
  t.equal(await ask(team, 'ann'), 'mended')
})

// `dramatis serve` as its user has it: a process, its port, its signals.

const cli = fileURLToPath(new URL('../../src/service/cli.js', import.meta.url))
const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))
const TOKEN = 'a token of more than sixteen characters'.replaceAll(' ', '-')

t.test('SIGTERM under load: every accepted task is answered, and the exit code is 0', async (t) => {
  const { url, child, stderr } = await serving(t, ['desk=patient-team'])
  const answers = Array.from({ length: 50 }, () => post(url, '1500'))
  await until(async () => (await tasks(url)).filter(({ status }) => status !== 'queued').length === 50)
  child.kill('SIGTERM')
  await until(() => stderr().includes('Closing'))
  t.equal((await post(url, '1')).status, 503)
  t.equal((await fetch(`${url}/api/tasks`)).headers.get('connection'), 'close')
  const statuses = await Promise.all(answers.map(async (answer) => (await answer).status))
  t.same(new Set(statuses), new Set([200]))
  const [code] = await once(child, 'exit')
  t.equal(code, 0, stderr())
  t.match(stderr(), /approveOwn is on: without a token this is one person's own machine/)
})

t.test('what is open after the time for it is ended, and answered too', async (t) => {
  const { url, child } = await serving(t, ['desk=patient-team', '--drain', '0'])
  const open = post(url, '60000')
  await until(async () => (await tasks(url, 'running')).length === 1)
  child.kill('SIGINT')
  const answer = await open
  t.match(await answer.json(), { task: { status: 'aborted' } })
  t.equal((await once(child, 'exit'))[0], 0)
})

t.test('a second signal leaves at once', async (t) => {
  const { url, child, stderr } = await serving(t, ['desk=patient-team'])
  const open = post(url, '60000').catch(() => 'cut')
  await until(async () => (await tasks(url, 'running')).length === 1)
  child.kill('SIGTERM')
  await until(() => stderr().includes('Closing'))
  child.kill('SIGTERM')
  t.equal((await once(child, 'exit'))[0], 143)
  t.equal(await open, 'cut')
})

t.test('with --token-env each request needs the token; several teams have names', async (t) => {
  const args = ['one=patient-team', 'two=patient-team', '--token-env', 'SERVE_TOKEN']
  const { url, stderr } = await serving(t, args, { SERVE_TOKEN: TOKEN })
  await until(() => /approveOwn is off; --approve-own turns it on/.test(stderr()))
  const unknown = await fetch(`${url}/api/tasks`)
  t.equal(unknown.status, 401)
  t.equal(unknown.headers.get('keep-alive'), 'timeout=75', 'longer than proxies keep idle connections')
  const asked = (token: string) => fetch(`${url}/api/tasks?team=two`, { headers: { authorization: `Bearer ${token}` } })
  t.equal((await asked(`${TOKEN}x`)).status, 401)
  t.equal((await asked(TOKEN)).status, 200)
})

t.test('what cannot be served is said at once, with exit code 2', async (t) => {
  const refused = async (args: string[], message: RegExp) => {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await main(['serve', ...args], surroundings), 2)
    t.match(stderr(), message)
  }
  Object.assign(process.env, { SERVE_SHORT: 'secret', SERVE_OK: TOKEN })
  const team = compiled('patient-team')
  await refused([team, '--host', '0.0.0.0'], /without a token everybody who reaches that address/)
  await refused([team, '--token-env', 'SERVE_NONE'], /--token-env SERVE_NONE: there is no such environment variable/)
  await refused([team, '--token-env', 'SERVE_SHORT'], /at least 16 characters/)
  await refused([team, team], /Two teams would have the name "patient-team"/)
  await refused([team, '--price', 'none.json'], /--price none.json: it cannot be read/)
  await refused([team, '--port', '99999'], /a port, from 0 to 65535/)
  await refused([team, '--port', '1', '--host', '203.0.113.1', '--token-env', 'SERVE_OK'], /cannot be had/)
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  await refused([team, '--port', String(port)], /cannot be had: another process listens there \(EADDRINUSE\)\. Give/)
})

interface Serving {
  url: string
  child: ChildProcess
  stderr: () => string
}

async function serving(t: Test, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Serving> {
  const named = args.map((arg) => arg.replace(/=([\w-]+)$/, (_, name: string) => `=${compiled(name)}`))
  const child = spawn(process.execPath, [cli, 'serve', ...named, '--port', '0'], {
    env: { ...process.env, DEBUG: '', ...env },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const url = () => /^dramatis serves .* at (\S+)$/m.exec(text)?.[1]
  await until(() => url() !== undefined || child.exitCode !== null)
  return { url: url() ?? text, child, stderr: () => text }
}

const post = (url: string, query: string) => {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${url}/api/tasks`, { method: 'POST', headers, body: JSON.stringify({ query }) })
}

async function tasks(url: string, status?: string): Promise<{ status: string }[]> {
  const asked = `${url}/api/tasks?limit=100${status === undefined ? '' : `&status=${status}`}`
  return ((await (await fetch(asked)).json()) as { tasks: { status: string }[] }).tasks
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await setTimeout(20)
}
