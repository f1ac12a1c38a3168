/**
 * A program that is started here, in a process group of its own, and what passes over its pipes, one message a line. It
 * is a stranger: what it writes and what it leaves unread has bounds, and nothing of its group outlives it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { v4 } from 'uuid'
import { Lines, MIB, MOST_TOOL_VALUES, tooLarge, tooMany } from '../shared/answers.ts'
import { isOverIn } from '../shared/clock.ts'
import { describe } from '../shared/errors.ts'
import { visible } from '../shared/text.ts'
import { nextTurn } from '../shared/timers.ts'
import { valuesIn } from '../shared/values.ts'

const LONGEST_LINE = 16 * MIB
/** Lines in a row that are no message: some programs print there by mistake, but not that much. */
const MOST_NOISE = 10_000
/** Characters that are kept of what it prints on stderr: the last ones. */
const LAST_WORDS = 2_000
/** Time in ms that it has to exit after it was told to. */
const TERM_MS = 5_000
/** Time in ms for what a program that is gone has written to be read. */
const PIPES_MS = 1_000

/** Variable by which all that a program has started is found, also in groups of its own. */
const MARK = 'DRAMATIS_AGENT'

/** Programs that run: they end with this process, also when nobody closes the team. */
const running = new Set<Program>()
const endAll = () => {
  for (const program of running) program.kill('SIGKILL')
}

export interface ProgramOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

export class Program {
  readonly #child: ChildProcess
  readonly #mark = v4()
  #stderr = ''
  /** Reason for which it is ended here. */
  #fault: string | undefined
  #how = ''
  readonly #gone: Promise<void>
  #ending: Promise<void> | undefined

  private constructor({ command, args, cwd, env }: ProgramOptions) {
    // a group of its own: what it starts is ended with it
    const marked = { ...env, [MARK]: this.#mark }
    const child = spawn(command, args, { cwd, env: marked, stdio: 'pipe', detached: true, windowsHide: true })
    this.#child = child
    child.stdin.on('error', () => {}) // its exit says more
    child.stderr.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-LAST_WORDS)
    })
    this.#gone = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#how = describe(error)
        resolve()
      })
      child.once('exit', (code, signal) => {
        running.delete(this)
        if (running.size === 0) process.removeListener('exit', endAll)
        this.#how = signal ? `it was ended by ${signal}` : `it exited with code ${code}`
        this.kill('SIGKILL') // what it has started, and left
        void isOverIn(PIPES_MS, new Promise<void>((over) => child.once('close', over))).then(() => {
          child.stdout.destroy() // a process that it has started elsewhere may have it, and live on
          child.stderr.destroy()
          resolve()
        })
      })
    })
  }

  /** Rejects if it cannot be started. */
  static async start(options: ProgramOptions): Promise<Program> {
    const program = new Program(options)
    const child = program.#child
    await new Promise<void>((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    if (running.size === 0) process.once('exit', endAll)
    running.add(program)
    return program
  }

  /** Resolves when it has exited, and what it has written is read. */
  get gone(): Promise<void> {
    return this.#gone
  }

  /** How it ended, and its last words. */
  get end(): string {
    const said = visible(this.#stderr.trim(), '\n')
    return `${this.#fault ?? this.#how}${said && `; its last words on stderr: ${said}`}`
  }

  /** Yields what it writes that is a JSON object. */
  async *messages(): AsyncGenerator<Record<string, unknown>> {
    const lines = new Lines()
    let noise = 0
    try {
      for await (const chunk of this.#child.stdout as Readable) {
        for (const line of lines.take(chunk as Buffer)) {
          if (line.length > LONGEST_LINE) return this.fail(tooLarge('a line', LONGEST_LINE))
          if (line.length > MOST_TOOL_VALUES && valuesIn(line) > MOST_TOOL_VALUES)
            return this.fail(tooMany('a line', MOST_TOOL_VALUES))
          const message = objectIn(line)
          noise = message ? 0 : noise + 1
          if (noise > MOST_NOISE) return this.fail(`sends more than ${MOST_NOISE} lines that are no message`)
          if (message) yield message
        }
        if (lines.pending > LONGEST_LINE) return this.fail(tooLarge('a line', LONGEST_LINE))
        await nextTurn()
      }
    } catch {
      // its pipe was closed here
    }
  }

  write(message: object): void {
    const { stdin } = this.#child
    if (!stdin || stdin.destroyed) return
    if (stdin.writableLength > LONGEST_LINE) this.fail(`does not read the ${LONGEST_LINE / MIB} MiB sent to it`)
    else stdin.write(`${JSON.stringify(message)}\n`)
  }

  /** Ends it at once, for what it did. */
  fail(what: string): void {
    this.#fault ??= `it ${what}`
    this.kill('SIGKILL')
  }

  /** Tells it to leave, and ends it if it does not. */
  stop(): Promise<void> {
    this.#ending ??= (async () => {
      this.#child.stdin?.end()
      this.kill('SIGTERM')
      if (!(await isOverIn(TERM_MS, this.#gone))) this.kill('SIGKILL')
      await this.#gone
    })()
    return this.#ending
  }

  kill(signal: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this.#child
    if (pid === undefined) return
    if (process.platform === 'win32') this.#child.kill(signal)
    else kill(-pid, signal)
    if (signal === 'SIGKILL') for (const each of marked(`${MARK}=${this.#mark}`)) kill(each, signal)
  }
}

/** Returns the ids of processes with that variable, where the system says so. */
function marked(variable: string): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && textOf(`/proc/${pid}/environ`).split('\0').includes(variable))
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // it is gone, or that of somebody else
  }
}

function kill(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // it is gone
  }
}

function objectIn(line: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
