/**
 * The frameworks to compare with live in a package of their own, so that nobody who uses or builds the product
 * installs them. They are fetched the first time that a benchmark asks for them.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// seen from dist/bench: the programs are plain .mjs files and stay in the source folder
const folder = new URL('../../bench/comparisons/', import.meta.url)
let installing: Promise<void> | undefined

/** The file of a program in bench/comparisons; rejects with the reason if its dependencies cannot be installed. */
export async function comparison(name: string): Promise<URL> {
  installing ??= install()
  await installing
  return new URL(`${name}.mjs`, folder)
}

async function install(): Promise<void> {
  // npm writes this file last: a half-finished install does not count
  if (existsSync(new URL('node_modules/.package-lock.json', folder))) return
  process.stderr.write('bench/comparisons: installing the frameworks to compare with (npm ci, once)\n')
  await new Promise<void>((resolve, reject) => {
    const npm = spawn('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: fileURLToPath(folder),
      stdio: ['ignore', 'ignore', 'pipe'],
      shell: process.platform === 'win32', // npm is a .cmd there, which only a shell can start
    })
    let stderr = ''
    npm.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    npm.on('error', (error) => reject(new Error(`npm ci in bench/comparisons did not start: ${error.message}`)))
    npm.on('close', (code) => {
      if (code === 0) return resolve()
      // the first lines say what failed; the rest is npm's own stack
      const why = stderr.replaceAll('npm error ', '').split('\n').slice(0, 4).join('; ')
      reject(new Error(`npm ci in bench/comparisons ended with exit code ${code}: ${why}`))
    })
  })
}
