/** A process of the cluster as its parent has it: it can be asked, killed, frozen, ended and begun again. */
import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Asked, MemberSettings } from './member.ts'

interface Told {
  readonly number?: number
  readonly ready?: boolean
  readonly value?: unknown
  readonly error?: string
}

/** What became of a run. */
export interface Ended {
  readonly success: boolean
  readonly finalOutput: string | null
  readonly code: string | null
  readonly message: string | null
}

const PROGRAM = fileURLToPath(new URL('./member.js', import.meta.url))

/** A process that can be killed, frozen, ended and begun again. */
export class MemberProcess {
  readonly #settings: MemberSettings
  #child: ChildProcess | undefined
  #number = 0
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()

  constructor(settings: MemberSettings) {
    this.#settings = settings
  }

  /** Another process like this one, which does not run yet. */
  twin(): MemberProcess {
    return new MemberProcess(this.#settings)
  }

  /** Resolves when it has joined. `execArgv`: flags of Node. */
  async run(execArgv: string[] = []): Promise<void> {
    const stdio = ['ignore', 'inherit', 'pipe', 'ipc'] as const
    const child = fork(PROGRAM, [JSON.stringify(this.#settings)], { stdio: [...stdio], execArgv })
    child.stderr?.on('data', (bytes) => {
      if (process.env.DRAMATIS_CLUSTER_LOG) process.stderr.write(bytes)
    })
    this.#child = child
    child.on('error', () => {}) // it may end while it is told something
    child.once('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the process has ended'))
      this.#waiting.clear()
    })
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error('the process has ended before it joined')))
      child.on('message', ({ number, ready, value, error }: Told) => {
        if (ready) return resolve()
        const waiting = this.#waiting.get(number!)
        this.#waiting.delete(number!)
        if (error === undefined) waiting?.resolve(value)
        else waiting?.reject(new Error(error))
      })
    })
  }

  async ask(ask: Asked['ask'], id = '', ms = 5_000): Promise<unknown> {
    const number = ++this.#number
    const timeout = new AbortController()
    const answer = new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      if (!this.#child?.connected || !this.#child.send({ number, id, ask } satisfies Asked))
        reject(new Error('it is not there'))
    })
    try {
      return await Promise.race([
        answer,
        sleep(ms, undefined, { signal: timeout.signal, ref: false }).then(() => {
          throw new Error(`no answer in ${ms} ms`)
        }),
      ])
    } finally {
      timeout.abort()
      this.#waiting.delete(number)
    }
  }

  /** Sends a signal; resolves with SIGKILL and SIGTERM when it has ended. */
  async signal(signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await ended
  }
}
