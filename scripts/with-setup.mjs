/**
 * Sets the clone up, then runs a script with the arguments that follow: `node scripts/with-setup.mjs <script> ...`.
 * The script runs in this very process, so signals and exit codes are its own.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './files.mjs'
import { setup } from './setup.mjs'

const [node, , script, ...args] = process.argv
if (await setup()) {
  const path = join(root, script)
  if (existsSync(path)) {
    process.argv = [node, path, ...args]
    await import(pathToFileURL(path).href)
  } else {
    process.stderr.write(`There is no ${script}.\n`)
    process.exitCode = 1
  }
}
