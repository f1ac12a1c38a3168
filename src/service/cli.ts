#!/usr/bin/env node
/** The command `dramatis`. */
import { takeStdout } from './answer-stream.ts'
import { main } from './program.ts'

const LINGER_MS = 1_000

process.stderr.on('error', () => {}) // nobody reads the progress: the answer matters all the same
process.exitCode = await main(process.argv.slice(2), {
  answer: takeStdout(),
  stderr: process.stderr,
  stdin: process.stdin,
  folder: process.cwd(),
})
// What a team file has left open, like a connection, gets a moment to end and does not keep us for ever.
setTimeout(() => process.exit(), LINGER_MS).unref()
