/**
 * A thread for one call of an isolated tool, which is ended after it: nothing that the tool has changed is there for
 * another call. What comes from the thread is the tool's own say, since its code can post whatever it likes: each
 * message is looked at, and none makes a listener throw.
 */

import { Worker } from 'node:worker_threads'
import { TOOL_NAME } from '../../actors/definition/tool.ts'
import type { ToolNotice, ToolTask, ToolTaskResult } from '../../actors/tools/tool-task.ts'
import { systemClock } from '../../clock.ts'
import { environment } from '../../environment.ts'
import { picked } from '../../own.ts'
import { ownFile } from '../../own-files.ts'
import { threadFlags } from '../../thread-flags.ts'
import { errorIn } from '../log/thread-error.ts'
import { PrintedLines, type PrintListener } from '../logging/printed-lines.ts'
import { endWorker } from '../threads/end-worker.ts'
import { heapLimit } from '../threads/heap-limit.ts'
import { unrefWorker } from '../threads/unref-worker.ts'

/** Limits that the threads of a class share. */
export interface LimitClass {
  /** Names of variables of the host's environment. */
  readonly env: readonly string[]
  /** null: Node's own limit. */
  readonly maxHeapMb: number | null
}

export interface ThreadListener {
  heard(notice: ToolNotice): void
  /** Listener for the lines that the tool prints. */
  readonly printed: PrintListener
}

/** Number of notices of one call. A thread that posts more than a tool can have to say would keep the host busy. */
const MOST_NOTICES = 20_000

const LEVELS: ReadonlySet<unknown> = new Set(['debug', 'info', 'warn', 'error'])

export class ToolThread {
  readonly #worker: Worker
  /** Resolves when the thread is gone. */
  readonly gone: Promise<void>
  #listener: ThreadListener | undefined
  #settle: { resolve(result: ToolTaskResult): void; reject(error: unknown): void } | undefined
  #error: unknown
  #notices = 0
  #ending = false

  /** Boots at once, and waits for its task. */
  constructor({ env, maxHeapMb }: LimitClass) {
    this.#worker = new Worker(ownFile('actors/tools/tool-entry.bundle.js'), {
      execArgv: [...threadFlags(), '--conditions=dramatis-thread'],
      env: picked(environment(), env),
      stdout: true,
      stderr: true,
      ...heapLimit(maxHeapMb),
    })
    this.#worker.on('message', this.#hear)
    this.#worker.on('error', (error) => {
      this.#error = error
    })
    for (const stream of [this.#worker.stdout, this.#worker.stderr]) this.#readLines(stream)
    this.gone = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        this.#settle?.reject(this.#error ?? new Error(`it ended with exit code ${code}`))
        resolve()
      })
    })
  }

  /** A thread that nobody needs yet does not keep the process. */
  unref(): void {
    unrefWorker(this.#worker)
  }

  /** Once. Rejects with what the thread died of. */
  async perform(task: ToolTask, listener: ThreadListener): Promise<ToolTaskResult> {
    this.#worker.ref()
    this.#listener = listener
    const result = new Promise<ToolTaskResult>((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    this.#worker.postMessage(task) // control plane: no message of an agent
    return result
  }

  /** Ends the thread, and the wait for it at once: a thread that sits in a native call ends when that does. */
  abandon(reason: unknown): void {
    this.#settle?.reject(reason)
    this.terminate()
  }

  terminate(): void {
    if (this.#ending) return
    this.#ending = true
    endWorker(this.#worker)
  }

  readonly #hear = (message: unknown): void => {
    const result = resultIn(message)
    if (result) return this.#settle?.resolve(result)
    this.#notices += 1
    if (this.#notices > MOST_NOTICES) {
      this.#worker.off('message', this.#hear)
      return this.abandon(new Error(`it posted more than ${MOST_NOTICES} messages`))
    }
    const notice = noticeIn(message)
    if (notice) this.#listener?.heard(notice)
    else if (this.#notices === 1) this.#listener?.heard(FOREIGN)
  }

  #readLines(stream: NodeJS.ReadableStream): void {
    const lines = new PrintedLines(
      {
        line: (text) => this.#listener?.printed.line(text),
        flooded: () => this.#listener?.printed.flooded(),
        leftOut: (count) => this.#listener?.printed.leftOut(count),
      },
      systemClock.monotonic,
    )
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => lines.write(text))
    stream.on('end', () => lines.end())
  }
}

const FOREIGN: ToolNotice = { log: 'warn', fields: '{}', text: 'the tool posted what the runtime does not know' }

/** undefined: it is none. */
function noticeIn(message: unknown): ToolNotice | undefined {
  const { progress, log, fields, text } = Object(message) as Record<string, unknown>
  if (typeof progress === 'string') return { progress }
  if (!LEVELS.has(log) || typeof fields !== 'string' || typeof text !== 'string') return undefined
  return { log: log as Extract<ToolNotice, { log: unknown }>['log'], fields, text }
}

function isSpec(tool: unknown): tool is Extract<ToolTaskResult, { tool: unknown }>['tool'] {
  const { name, description, inputSchema, timeoutMs } = Object(tool) as Record<string, unknown>
  const isNamed = typeof name === 'string' && TOOL_NAME.test(name) && typeof description === 'string'
  return isNamed && typeof inputSchema === 'object' && inputSchema !== null && typeof timeoutMs === 'number'
}

/** undefined: it is none. */
function resultIn(message: unknown): ToolTaskResult | undefined {
  const { done } = Object(message) as { done?: unknown }
  const { ok, tool, output, error, importing } = Object(done) as Record<string, unknown>
  if (ok === true && tool !== undefined) return isSpec(tool) ? { ok, tool } : undefined
  if (ok === true && (output === undefined || typeof output === 'string')) return { ok, output }
  if (ok !== false) return undefined
  const found = errorIn(error)
  return found && { ok, error: found, ...(importing === true && { importing }) }
}
