/**
 * Runs one measurement in a process of its own: fresh heap, fresh threads, nothing left over from the round before.
 * A program prints one line of JSON last; what comes before it on stdout is not looked at.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Far beyond any round; a program that hangs must not hang the whole bench. */
const LIMIT_MS = 120_000
const ERROR_TAIL = 2_000

export interface ChildResult {
  stdout: string
  /** From spawn to the first byte on stdout. */
  firstOutputMs: number
  /** From spawn to exit. */
  totalMs: number
}

/** Runs `node ...flags file ...args` to its end. Rejects with the end of its stderr if it fails or prints nothing. */
export function runChild(
  file: URL,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  flags: readonly string[] = [],
): Promise<ChildResult> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now()
    const path = fileURLToPath(file)
    const child = spawn(process.execPath, [...flags, path, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT_MS,
      env: { ...process.env, ...env },
    })
    let stdout = ''
    let stderr = ''
    let firstOutputMs = Number.NaN
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (stdout === '') firstOutputMs = performance.now() - startedAt
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-ERROR_TAIL)
    })
    child.on('error', reject)
    child.on('close', (code, signal) => {
      const totalMs = performance.now() - startedAt
      if (code === 0 && stdout !== '') return resolve({ stdout, firstOutputMs, totalMs })
      const end = signal ?? `exit code ${code}`
      reject(new Error(`${[path, ...args].join(' ')} ended with ${end}\n${stderr.trim()}`))
    })
  })
}

/** The JSON that a program of `programs/` printed last. `T` is what that program says it prints. */
export async function runProgram<T>(
  name: string,
  args: readonly (string | number)[] = [],
  env: NodeJS.ProcessEnv = {},
  flags: readonly string[] = [],
): Promise<T> {
  const { stdout } = await runChild(new URL(`./programs/${name}.js`, import.meta.url), args.map(String), env, flags)
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
}
