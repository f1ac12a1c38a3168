/**
 * Makes a clone ready to run: installs packages and builds where that is missing or out of date, says what it did,
 * and is silent when there is nothing to do. Uses Node's own modules alone, since it runs before anything is installed.
 *
 *   node scripts/setup.mjs [--modules]
 *
 * --modules builds what a package is made of (scripts/build.mjs), whatever there is; the next command builds anew.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { dist, root, sources } from './files.mjs'
import { withLock } from './lock.mjs'

const oldestNode = [20, 19]
const stamp = join(dist, '.stamp')
const read = (name) => readFileSync(join(root, name), 'utf8')
const say = (text) => process.stderr.write(text)

/** Resolves when packages and build are up to date; sets the exit code and resolves to false when they can't be. */
export async function setup({ modules = false } = {}) {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
    say(`dramatis needs Node.js ${oldestNode.join('.')} or newer; this is ${process.version}.\n`)
    process.exitCode = 1
    return false
  }
  if (!modules && !whyInstall() && !whyBuild()) return true
  return withLock(join(root, '.cache', 'setup.lock'), say, async () => {
    // asked again: the one who held the lock may have done it
    const install = whyInstall()
    // npm leaves the tools for developers out where NODE_ENV is production
    if (install && !(await step('Installing packages', install, npm(), ['ci', '--include=dev', ...quiet]))) return false
    const build = modules ? 'for a package' : whyBuild()
    if (!build) return true
    const hash = sourceHash()
    rmSync(stamp, { force: true }) // a build that fails leaves files of its own, also when its sources are taken back
    const args = [join(root, 'scripts', 'build.mjs'), ...(modules ? ['--modules'] : [])]
    if (!(await step('Building', build, process.execPath, args))) return false
    if (!modules) writeFileSync(stamp, hash)
    return true
  })
}

const quiet = ['--no-audit', '--no-fund', '--loglevel=error']

/** npm's own entry when npm started us, so that the same npm and Node go on. */
function npm() {
  const entry = process.env.npm_execpath
  return entry?.endsWith('npm-cli.js') ? entry : 'npm'
}

/** npm keeps a copy of the lock file in node_modules with what it laid out there. */
function whyInstall() {
  if (!existsSync(join(root, 'node_modules'))) return 'node_modules is missing'
  try {
    const wanted = JSON.parse(read('package-lock.json')).packages
    const present = JSON.parse(read('node_modules/.package-lock.json')).packages
    const same = (name) =>
      present[name]?.version === wanted[name].version && present[name]?.integrity === wanted[name].integrity
    const differs = Object.keys(wanted).some((name) => {
      if (name === '') return false
      // optional packages are for other platforms
      if (!present[name] && (wanted[name].optional || wanted[name].devOptional)) return false
      return !same(name)
    })
    return differs ? 'package-lock.json has changed' : undefined
  } catch {
    return 'node_modules is incomplete'
  }
}

function whyBuild() {
  if (!existsSync(dist)) return 'dist is missing'
  if (!existsSync(stamp)) return 'the last build did not finish'
  return readFileSync(stamp, 'utf8') === sourceHash() ? undefined : 'sources have changed'
}

function sourceHash() {
  const hash = createHash('sha256')
  for (const name of [
    ...sources(),
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'scripts/build.mjs',
    'scripts/clone-host.mjs',
    'scripts/files.mjs',
    'scripts/page.mjs',
  ]) {
    hash
      .update(`${name}\0`)
      .update(readFileSync(join(root, name)))
      .update('\0')
  }
  return hash.digest('hex')
}

/** Runs one command, says what and why in one line, and shows its output only if it fails. */
async function step(what, why, command, args) {
  say(`${what} (${why}) ... `)
  const began = performance.now()
  const script = command.endsWith('.js')
  const child = script ? spawn(process.execPath, [command, ...args], options()) : spawn(command, args, options())
  const output = []
  child.stdout.on('data', (chunk) => output.push(chunk))
  child.stderr.on('data', (chunk) => output.push(chunk))
  let stoppedBy
  const stop = (signal) => {
    stoppedBy = signal
    child.kill(signal)
  }
  process.on('SIGINT', stop).on('SIGTERM', stop)
  const { code, error } = await new Promise((resolve) => {
    child.on('error', (error) => resolve({ code: 1, error }))
    child.on('close', (code) => resolve({ code }))
  })
  process.off('SIGINT', stop).off('SIGTERM', stop)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  if (code === 0 && !stoppedBy) {
    say(`done in ${seconds} s\n`)
    return true
  }
  say(`${stoppedBy ? 'interrupted' : 'failed'} after ${seconds} s\n`)
  if (!stoppedBy) say(`${Buffer.concat(output)}${error ? `${error.message}\n` : ''}`)
  process.exitCode = stoppedBy ? 128 + constants.signals[stoppedBy] : code || 1
  return false
}

// npm is a command file on Windows, which only a shell starts
const options = () => ({ cwd: root, stdio: ['ignore', 'pipe', 'pipe'], shell: process.platform === 'win32' })

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await setup({ modules: process.argv.includes('--modules') })
