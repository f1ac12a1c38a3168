/**
 * The package as users install it: packed, so that what they import is a bundle, and laid out in a folder of its own
 * below the clone, whose node_modules has what the package depends on.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = new URL('../../', import.meta.url)
const home = new URL('.cache/installed/', root)

/** Installs the package, and copies compiled programs of bench/ beside it. Returns the folder that stands for dist/bench. */
export function installed(programs: readonly string[]): URL {
  rmSync(home, { recursive: true, force: true })
  const own = new URL('node_modules/dramatis/', home)
  mkdirSync(own, { recursive: true })
  writeFileSync(new URL('package.json', home), '{ "private": true, "type": "module" }\n')
  const shell = process.platform === 'win32' // npm is a .cmd there, which only a shell can start
  execFileSync('npm', ['pack', '--loglevel=error', '--pack-destination', fileURLToPath(home)], {
    cwd: fileURLToPath(root),
    stdio: ['ignore', 'ignore', 'inherit'],
    shell,
  })
  const tarball = readdirSync(home).find((name) => name.endsWith('.tgz'))!
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', 'node_modules/dramatis'], {
    cwd: fileURLToPath(home),
  })
  for (const program of programs) {
    const copy = fileURLToPath(new URL(program, home))
    mkdirSync(dirname(copy), { recursive: true })
    cpSync(fileURLToPath(new URL(program, import.meta.url)), copy)
  }
  return home
}
