/** The served desk as its clients see it: one process after another, on one log. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('../fixtures/soak/served-desk.js', import.meta.url))

export interface Usage {
  readonly cpuMs: number
  readonly heap: number
  readonly files: number
  readonly threads: number
}

export class DeskProcess {
  readonly url: string
  readonly openCpuMs: number
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number, openCpuMs: number) {
    this.#child = child
    this.url = `http://127.0.0.1:${port}`
    this.openCpuMs = openCpuMs
  }

  static async start(args: readonly string[]): Promise<DeskProcess> {
    const child = fork(script, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const ended = once(child, 'exit').then(([code, signal]) => Promise.reject(new Error(`it ended: ${code ?? signal}`)))
    ended.catch(() => {})
    const [{ port, openCpuMs }] = await Promise.race([once(child, 'message'), ended])
    return new DeskProcess(child, port, openCpuMs)
  }

  async usage(): Promise<Usage> {
    const answer = once(this.#child, 'message')
    this.#child.send('usage')
    const [usage] = await answer
    return usage
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill(signal)
    await ended
  }
}

/** Bytes that were ever written to a log, and its files. */
export function sizeOf(log: string): { bytes: number; files: number } {
  const segments = readdirSync(log)
    .filter((name) => name.endsWith('.log'))
    .sort()
  const last = segments.at(-1)
  const bytes = last ? Number.parseInt(last.slice(0, 16), 16) + statSync(join(log, last)).size : 0
  return { bytes, files: segments.length }
}
