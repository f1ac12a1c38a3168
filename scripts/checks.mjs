/** Checks of packages as strangers use them: each has a title, is counted, and runs its commands with a limit of time. */
import { spawnSync } from 'node:child_process'

export const limitMs = 120_000
export const installLimitMs = 600_000
/** Arguments of an npm that says what went wrong, and nothing else. */
export const install = ['install', '--no-audit', '--no-fund', '--loglevel=error']
// npm tells its scripts about the package that they belong to, and what runs here belongs to another; nor should a
// program that finds a key talk to a paid model
export const env = Object.fromEntries(
  Object.entries(process.env).filter(([key]) => !/^(npm_|OPENAI_|DRAMATIS_|FLOW_MODE$|NODE_ENV$)/i.test(key)),
)
export const counts = { passed: 0, failed: 0 }

/** Runs one check; what its task returns, if anything, is printed behind the title. */
export async function check(title, task) {
  try {
    const figure = await task()
    counts.passed += 1
    console.log(`ok   ${title}${figure ? ` (${figure})` : ''}`)
  } catch (error) {
    counts.failed += 1
    console.log(`FAIL ${title}\n${error.message.replace(/^/gm, '     ')}`)
  }
}

/** What a command prints on stdout; throws with all that it printed if it fails or takes too long. */
export function run(command, args, options) {
  const limited = { env, encoding: 'utf8', timeout: limitMs, killSignal: 'SIGKILL', ...options }
  const { status, signal, error, stdout, stderr } = spawnSync(command, args, limited)
  if (status === 0) return stdout
  const ending = error?.message ?? (signal ? `ended by ${signal}` : `exit code ${status}`)
  throw new Error(`${[command, ...args].join(' ')}: ${ending}\n${stdout ?? ''}${stderr ?? ''}`.trimEnd())
}

export function expect(output, part) {
  if (!output.includes(part)) throw new Error(`expected "${part}" in:\n${output.trimEnd()}`)
}

/** Says how many have passed: the last line of a script. */
export function sumUp() {
  console.log(`${counts.passed} passed, ${counts.failed} failed`)
  process.exitCode = counts.failed > 0 ? 1 : 0
}
