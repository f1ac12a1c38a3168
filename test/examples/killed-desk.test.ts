/** The first run, killed with SIGKILL at several moments and started again: it goes on, and says what it went on with. */
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import t from 'tap'
import { takeLogFolder } from '../../examples/data-desk/lib/log-folder.ts'
import { withoutKeys } from '../../examples/lib/without-keys.ts'
import { kindOf, lengthOf, readBody, STEP_DONE } from '../../src/mailbox/frame.ts'
import { entriesOf } from '../../src/runtime/log/read-entries.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { folderOf } from '../durability/log-folders.ts'

const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const LIMIT_MS = 110_000

/** Starts the desk. It dies at that write to its log. */
async function start(t: Test, folder: string, diesAt = '') {
  const args = ['--import', preload, 'dist/examples/data-desk/main.js', '--log', folder]
  const env = { ...withoutKeys(process.env), DIES_AT_WRITE: diesAt }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = new Promise<[number | null, string | null]>((resolve) => {
    child.once('exit', (code, signal) => resolve([code, signal]))
  })
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { exit: await exited, stdout, stderr, report: stdout.split('\n## What happened')[0] }
}

/** Names of the steps that have an outcome in the log, and the number of runs in it. */
async function logged(folder: string) {
  const steps: string[] = []
  let [runs, ended] = [0, 0]
  for await (const entry of entriesOf(() => readLog(folder))) {
    if (entry.kind === 'run.launched') runs += 1
    if (entry.kind === 'run.finished') ended += 1
    if (entry.kind !== 'frames') continue
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at))
      if (kindOf(memory, at) === STEP_DONE) steps.push(readBody(memory, at).content)
  }
  return { steps, runs, ended }
}

const theOne = (folder: string): string => join(folder, readdirSync(folder)[0]!)

t.test('a first run says nothing of an earlier one, and leaves no log behind', async (t) => {
  const folder = folderOf(t)
  const { exit, stdout, stderr } = await start(t, folder)
  t.same(exit, [0, null], stderr)
  t.notMatch(stdout + stderr, /killed/)
  t.same(readdirSync(folder), [])
})

t.test('a desk that was killed goes on when it is started again, and does no step twice', async (t) => {
  t.setTimeout(LIMIT_MS)
  const { report } = await start(t, folderOf(t))
  let kills = 0
  for (const moment of ['1 before', '8 after', '17 within', '25 before']) {
    const folder = folderOf(t)
    const killed = await start(t, folder, moment)
    if (killed.exit[0] === 0) continue // a busy machine writes more at once, and so less often
    t.same(killed.exit, [null, 'SIGKILL'], moment)
    kills += 1
    const left = await logged(theOne(folder))
    const goesOn = left.runs > left.ended // else it was killed between the end of its run and that of its log
    const { exit, stdout, stderr, ...next } = await start(t, folder)
    t.same(exit, [0, null], stderr)
    t.equal(next.report, report, `${moment}: the report is that of a desk that nobody killed`)
    t.equal(/^Going on with the run of a process that was killed: \d of \d /m.test(stderr), goesOn, moment)
    t.equal(/^- The process that began this run was killed/m.test(stdout), goesOn, moment)
    const told: string[] = stdout.match(/^- The step ".*" had finished before and .*$/gm) ?? []
    for (const step of left.steps)
      if (!isOfEndedTurn(stdout, step))
        t.ok(
          told.includes(`- The step "${step}" had finished before and was answered from the log, not run again.`),
          step,
        )
    t.notMatch(stdout, 'was run again')
    t.match(stdout, /4 of 4 requests to agents were finished, 0 dead letters: nothing was lost\.\n.*each written once/)
    t.same(readdirSync(folder), [], 'its log is gone: the next start begins afresh')
  }
  t.ok(kills >= 2, `${kills} kills`)
})

/** The collector's turn may have ended before its process was killed: then nothing asked for its step again. */
function isOfEndedTurn(stdout: string, step: string): boolean {
  return step === 'read the file' && !stdout.includes('- The turn of collector began again')
}

t.test('a desk that was killed again and again comes to its end', async (t) => {
  t.setTimeout(LIMIT_MS)
  const folder = folderOf(t)
  for (const moment of ['10 after', '6 within'])
    t.same((await start(t, folder, moment)).exit, [null, 'SIGKILL'], moment)
  t.equal(readdirSync(folder).length, 1, 'they had one log, one after the other')
  const { exit, stdout, stderr } = await start(t, folder)
  t.same(exit, [0, null], stderr)
  t.match(stdout, '4 of 4 requests to agents were finished, 0 dead letters: nothing was lost.')
})

t.test('two desks that are started at once have a log each', async (t) => {
  const folder = folderOf(t)
  const [one, other] = await Promise.all([start(t, folder), start(t, folder)])
  for (const { exit, stderr } of [one, other]) {
    t.same(exit, [0, null], stderr)
    t.notMatch(stderr, 'killed')
  }
  t.equal(one.report, other.report)
  t.same(readdirSync(folder), [])
})

t.test('a log is taken from a dead process, and never from one that lives', async (t) => {
  const folder = folderOf(t)
  const own = join(folder, String(process.pid))
  mkdirSync(join(folder, String(process.ppid)))
  t.equal(await takeLogFolder(folder), own)
  t.same(readdirSync(folder), [String(process.ppid)])

  mkdirSync(join(folder, '999999999')) // above the highest pid that there is
  writeFileSync(join(folder, '999999999', 'owner'), '')
  writeFileSync(join(folder, 'notes.txt'), '')
  t.equal(await takeLogFolder(folder), own)
  t.same(readdirSync(own), ['owner'])
  t.equal(await takeLogFolder(folder), own, 'one of an earlier process with the same pid is its own')
  t.same(readdirSync(folder).sort(), [String(process.pid), String(process.ppid), 'notes.txt'].sort())
})

t.test('of several that want the log of a dead process one gets it', async (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, '999999999'))
  writeFileSync(join(folder, '999999999', 'owner'), '')
  const code = `
    import { takeLogFolder } from ${JSON.stringify(new URL('../../examples/data-desk/lib/log-folder.js', import.meta.url).href)}
    import { existsSync } from 'node:fs'
    console.log(existsSync(await takeLogFolder(${JSON.stringify(folder)}) + '/owner'))
    process.stdin.resume() // it lives until all have asked
  `
  const children = [1, 2, 3].map(() =>
    spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const said = await Promise.all(
    children.map((child) => new Promise<string>((resolve) => child.stdout.once('data', (line) => resolve(`${line}`)))),
  )
  for (const child of children) child.stdin.end()
  t.same(said.map((line) => line.trim()).sort(), ['false', 'false', 'true'])
})
