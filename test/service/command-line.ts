/** The command line as a process of its own. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const cli = fileURLToPath(new URL('../../src/service/cli.js', import.meta.url))

interface Options {
  cwd?: string
  env?: NodeJS.ProcessEnv
  /** Sends one SIGINT as soon as this stands on stderr. */
  interruptAt?: string
  /** Called with all that stands on stderr by then. */
  heard?: (stderr: string) => void
  /** What is on its standard input, which ends with it. */
  input?: string
  /** Keeps its standard input open. */
  keepsInput?: boolean
}

/** Runs it to its end. */
export async function dramatis(args: string[], options: Options = {}) {
  const { cwd, env, interruptAt, heard, input, keepsInput = false } = options
  const child = spawn(process.execPath, [cli, ...args], {
    cwd,
    env: { ...process.env, DEBUG: '', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {}) // it may have ended, and read nothing
  if (!keepsInput) child.stdin.end(input)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const before = interruptAt !== undefined && stderr.includes(interruptAt)
    stderr += text
    heard?.(stderr)
    if (interruptAt !== undefined && !before && stderr.includes(interruptAt)) child.kill('SIGINT')
  })
  const [code]: (number | null)[] = await once(child, 'close')
  return { code, stdout, stderr }
}
