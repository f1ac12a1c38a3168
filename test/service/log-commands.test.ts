/** Commands for a durable log: for its runs, and for its files. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { readBlock, SEGMENT_HEADER_BYTES } from '../../src/runtime/store/block-format.ts'
import { folderOf, segmentsOf } from '../durability/log-folders.ts'
import { dramatis } from './command-line.ts'

// Commands for the runs of a durable log: runs, questions, answer, resume.

const teamFile = fileURLToPath(new URL('../fixtures/durability/desk-team-file.js', import.meta.url))
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

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
