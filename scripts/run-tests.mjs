/**
 * Runs dist/test/**\/*.test.js, each as a plain Node program, one more at a time than there are processors, and beside
 * them two of those that mostly wait.
 *
 *   node scripts/run-tests.mjs [part of a file's name ...] [--repeat N] [--brief] [--deep] [--soak] [--hostile]
 *
 * TEST_TIMEOUT_MS is the limit for one file. --deep plays more of what has no end, such as random programs; --brief, for
 * a second Node, other ones, and leaves out what is about browsers, engines of clusters and pages. --soak plays the soaks alone (or those of that name), each for SOAK_MINUTES (30). --hostile plays the
 * hostile game alone, for HOSTILE_MINUTES (10). A file fails if a test in it does, and also if it crashes, exits with
 * another code than 0, takes too long or runs no test. The last line is `N passed, N failed`.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { filesBelow, root } from './files.mjs'
import { readTap, toYaml } from './read-tap.mjs'

const atATime = availableParallelism() + 1 // most files wait now and then
const waitingAtATime = 2
const mostlyWaits = /test\/(cluster|postgres|jetstream)\// // for leases, databases and brokers
const holdsTheLongest = /test\/(restarts|examples|docs|dashboard|durability|simulation|service|replay)\// // begins first
/** A second Node changes nothing in them: the page of the dashboard, faults of databases and brokers, programs of pages. */
const onOneNode = /test\/(dashboard|docs|jetstream|postgres|cluster\/(nemesis|takeover|deploy))\b/
const tailLines = 40

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    repeat: { type: 'string', default: '1' },
    brief: { type: 'boolean', default: false },
    deep: { type: 'boolean', default: false },
    soak: { type: 'boolean', default: false },
    hostile: { type: 'boolean', default: false },
  },
})
const soakMinutes = Number(process.env.SOAK_MINUTES ?? 30)
const hostileMinutes = Number(process.env.HOSTILE_MINUTES ?? 10)
const limitMs = Number(process.env.TEST_TIMEOUT_MS ?? defaultLimitMs())
const compiled = mkdtempSync(join(tmpdir(), 'dramatis-compiled-')) // what one file has compiled, the next need not
const environment = testEnvironment()
const running = new Set()

const files = filesBelow('dist/test').filter(
  (name) =>
    name.endsWith('.test.js') &&
    (!values.soak || name.includes('test/soak/')) &&
    (!values.brief || positionals.length > 0 || !onOneNode.test(name)) &&
    (!values.hostile || name.includes('test/hostile/')) &&
    (positionals.length === 0 || positionals.some((part) => name.includes(part))),
)
const queue = Array.from({ length: Number(values.repeat) }, () => files).flat()
const waiting = queue.filter((name) => mostlyWaits.test(name))
const others = queue.filter((name) => !mostlyWaits.test(name))
const working = others
  .filter((name) => holdsTheLongest.test(name))
  .concat(others.filter((name) => !holdsTheLongest.test(name)))
const total = { passed: 0, failed: 0, skipped: 0 }
const failedFiles = new Set()
const began = performance.now()

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    for (const child of running) killGroup(child)
    rmSync(compiled, { recursive: true, force: true })
    process.kill(process.pid, signal) // now that nobody listens, it ends us as it would have
  })
}
process.on('exit', () => {
  for (const child of running) killGroup(child)
  rmSync(compiled, { recursive: true, force: true })
})

console.log(
  `Node ${process.version}, ${queue.length} files, ${atATime} and ${waitingAtATime} at a time, ${limitMs / 1000} s each`,
)
if (queue.length === 0) {
  console.log(`No test file matches ${positionals.join(', ') || 'dist/test/**/*.test.js'}`)
  total.failed = 1
}
await Promise.all([
  ...Array.from({ length: atATime }, () => work(working, waiting)),
  ...Array.from({ length: waitingAtATime }, () => work(waiting)),
])
for (const name of failedFiles) console.log(`failed: ${name}`)
const seconds = ((performance.now() - began) / 1000).toFixed(1)
console.log(`${queue.length} files in ${seconds} s, ${total.skipped} skipped`)
console.log(`${total.passed} passed, ${total.failed} failed`)
process.exitCode = total.failed > 0 ? 1 : 0

/** Runs what these queues hold, one file after the other, from the first queue that has one. */
async function work(...queues) {
  for (;;) {
    const name = queues.find(({ length }) => length > 0)?.shift()
    if (name === undefined) return
    print(name, await runFile(name))
  }
}

/** The counts of one file, and why the file as a whole is bad, if it is. */
async function runFile(name) {
  const { parser, report } = readTap()
  const started = performance.now()
  // a group of its own, so that whatever a test leaves behind can be ended with it
  const child = spawn(process.execPath, [join(root, name)], {
    cwd: root,
    env: environment,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let timedOut = false
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text) => parser.write(text))
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors = (errors + text).slice(-64_000)
  })
  const limit = setTimeout(() => {
    timedOut = true
    killGroup(child)
  }, limitMs)
  child.on('exit', () => killGroup(child)) // what is left of the group holds our pipes open
  const { code, signal } = await new Promise((resolve) => {
    child.on('error', (error) => resolve({ code: error.message }))
    child.on('close', (code, signal) => resolve({ code, signal }))
  })
  clearTimeout(limit)
  running.delete(child)
  const lastSeen = report.lastSeen()
  parser.end()
  return { ...report, errors, lastSeen, reason: reason(), ms: Math.round(performance.now() - started) }

  function reason() {
    const { passed, failed, skipped, results } = report
    const planned = !parser.syntheticPlan && results?.plan.skipAll && results.plan.skipReason
    if (timedOut) return `took longer than ${limitMs} ms`
    if (results?.bailout) return `bailed out: ${results.bailout}`
    if (signal) return `ended by ${signal}`
    if (code !== 0 && (code !== 1 || failed === 0)) return `exit code ${code}`
    if (passed + failed + skipped === 0 && !planned) return 'ran no test'
    if (results?.ok || failed > 0) return undefined
    return `broken TAP: ${results?.failures.map((failure) => failure.tapError ?? failure.name).join(', ')}`
  }
}

function print(name, outcome) {
  const { passed, skipped, failures, lastSeen, reason, ms } = outcome
  const failed = reason ? Math.max(outcome.failed, 1) : outcome.failed
  total.passed += passed
  total.failed += failed
  total.skipped += skipped
  const counts = [`${passed} passed`, failed && `${failed} failed`, skipped && `${skipped} skipped`].filter(Boolean)
  const title = name.slice('dist/test/'.length)
  console.log(`${failed ? 'FAIL' : 'ok  '} ${title}  ${counts.join(', ')}  ${ms} ms${reason ? `  ${reason}` : ''}`)
  if (!failed) return
  failedFiles.add(name)
  if (reason && lastSeen) console.log(`  last seen: ${lastSeen}`)
  for (const failure of failures) process.stdout.write(`  not ok: ${failure.name}\n${toYaml(failure.diag, '    ')}`)
  printTail('stdout', outcome.noise.join(''))
  printTail('stderr', outcome.errors)
}

function printTail(stream, text) {
  if (text.trim() === '') return
  const lines = text.trimEnd().split('\n').slice(-tailLines)
  console.log(`  ${stream}:\n${lines.map((line) => `    ${line}`).join('\n')}`)
}

function killGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    child.kill('SIGKILL') // no such group, or no groups on this system
  }
}

function defaultLimitMs() {
  if (values.soak) return soakMinutes * 60_000 + 120_000
  if (values.hostile) return hostileMinutes * 60_000 + 180_000
  return values.deep ? 3_600_000 : 400_000 // the longest takes 50 to 170 s on 2 cores, as fast as they are
}

function testEnvironment() {
  const env = { ...process.env, NODE_ENV: 'test' }
  for (const key of Object.keys(env)) {
    // a test that finds a key would talk to a paid model; npm's and tap's settings are for other programs
    if (/^(OPENAI_|DRAMATIS_|FLOW_MODE$|npm_|TAP|FORCE_COLOR$)/i.test(key)) delete env[key]
  }
  // tap gives up a little before we do, since it can say which test it was
  env.TAP_TIMEOUT = String(Math.max(limitMs * 0.8, limitMs - 5_000) / 1000)
  env.NODE_COMPILE_CACHE ??= compiled // Node 20 knows no such cache
  if (values.brief) env.DRAMATIS_BRIEF = '1'
  if (values.deep) env.DRAMATIS_DEEP = '1'
  if (values.hostile) env.HOSTILE_MINUTES = String(hostileMinutes)
  if (values.soak) env.SOAK_MINUTES = String(soakMinutes)
  return env
}
