/** The command `dramatis`. */

import { main } from './commands/program.ts'
import { takeStdout } from './shared/screen.ts'

const LINGER_MS = 1_000

process.stderr.on('error', () => {}) // nobody reads the progress: the answer matters all the same
process.exitCode = await main(process.argv.slice(2), {
  answer: takeStdout(),
  stderr: process.stderr,
  stdin: process.stdin,
  folder: process.cwd(),
})
// Gives a moment to resources that a team file has left open, like a connection, and then ends the process.
setTimeout(() => process.exit(), LINGER_MS).unref()
