/**
 * Threads for isolated tools of one limit class: the same heap, the same environment. A call has a thread alone, which
 * is ended after it. One more is booted ahead while there are calls, so that the next does not wait for a boot.
 */
import { Worker } from 'node:worker_threads'
import type { ToolCode } from '../../actors/definition/assignment.ts'
import { TOOL_NAME } from '../../actors/definition/tool.ts'
import type { ToolNotice, ToolTask, ToolTaskResult } from '../../actors/turn/run-tool.ts'
import { systemClock, type Timer } from '../../shared/clock.ts'
import { environment, ownFile, threadFlags } from '../../shared/environment.ts'
import { CancelledError, describe, ToolFailedError } from '../../shared/errors.ts'
import { onAbort, Slots } from '../../shared/on-abort.ts'
import { picked } from '../../shared/values.ts'
import { errorIn } from '../log/host-frames.ts'
import { PrintedLines, type PrintListener } from '../logging/printed-lines.ts'
import { FENCE_MS } from '../threads/thread.ts'
import { endWorker, heapLimit, unrefWorker } from '../threads/worker-thread.ts'

/*
 * A thread for one call of an isolated tool, which is ended after it: nothing that the tool has changed is there for
 * another call. What comes from the thread is the tool's own say, since its code can post whatever it likes: each
 * message is looked at, and none makes a listener throw.
 */

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
  readonly gone: Promise<void>
  #listener: ThreadListener | undefined
  #settle: { resolve(result: ToolTaskResult): void; reject(error: unknown): void } | undefined
  #error: unknown
  #notices = 0
  #ending = false

  /** Boots at once, and waits for its task. */
  constructor({ env, maxHeapMb }: LimitClass) {
    this.#worker = new Worker(ownFile('actors/turn/tool-entry.bundle.js'), {
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

const IDLE_MS = 10_000

/** Size of a pool: the threads at a time, and the calls that may wait for one. */
export interface PoolSize {
  readonly threads: number
  readonly queue: number
}

/** Somebody who asks for something, and hears of it while it is under way. */
export interface PoolCaller extends ThreadListener {
  readonly signal: AbortSignal
  waits?(): void
  begins?(): void
  /** Decides whether the call is made again in another thread after its thread has died of that error. */
  again?(died: ToolFailedError): boolean
}

export class ToolPool {
  readonly #limits: LimitClass
  readonly #threads: number
  readonly #queue: number
  readonly #slots: Slots
  /** Controllers that end the calls, waiting or running. */
  readonly #calls = new Set<AbortController>()
  /** Until they are gone. */
  readonly #alive = new Set<ToolThread>()
  #spare: { thread: ToolThread; idle: Timer } | undefined
  #closed = false

  /** `threads`: number of calls at a time; `queue`: number of those that may wait. */
  constructor(limits: LimitClass, { threads, queue }: PoolSize) {
    this.#limits = limits
    this.#threads = threads
    this.#queue = queue
    this.#slots = new Slots(threads)
  }

  /**
   * Rejects with `ToolFailedError` where too many wait, or the thread dies, and with the signal's reason when it is
   * aborted.
   */
  async perform(code: ToolCode, call: ToolTask['call'], caller: PoolCaller): Promise<ToolTaskResult> {
    caller.signal.throwIfAborted()
    if (this.#closed) throw closed()
    if (this.#calls.size >= this.#threads + this.#queue)
      throw new ToolFailedError(
        `${this.#queue} calls of isolated tools wait for a thread already, and no more may (threads.toolQueue). Call fewer at a time, or raise it.`,
        { waiting: this.#queue, limit: this.#queue },
      )
    const end = new AbortController()
    const stop = onAbort(caller.signal, () => end.abort(caller.signal.reason))
    this.#calls.add(end)
    if (this.#calls.size > this.#threads) caller.waits?.()
    try {
      const free = await this.#slots.take(end.signal)
      caller.begins?.()
      try {
        return await this.#attempts({ code, ...(call && { call }) }, caller, end.signal)
      } finally {
        free()
      }
    } finally {
      stop()
      this.#calls.delete(end)
    }
  }

  async #attempts(task: ToolTask, caller: PoolCaller, signal: AbortSignal): Promise<ToolTaskResult> {
    for (;;) {
      try {
        return await this.#run(task, caller, signal)
      } catch (error) {
        if (signal.aborted || !(error instanceof ToolFailedError) || !caller.again?.(error)) throw error
      }
    }
  }

  async #run(task: ToolTask, caller: ThreadListener, signal: AbortSignal): Promise<ToolTaskResult> {
    const thread = this.#take()
    const stop = onAbort(signal, () => thread.abandon(signal.reason))
    try {
      return await thread.perform(task, caller)
    } catch (error) {
      signal.throwIfAborted()
      throw died(task, error)
    } finally {
      stop()
      thread.terminate()
      this.#bootAhead()
    }
  }

  #take(): ToolThread {
    const { thread = this.#boot(), idle } = this.#spare ?? {}
    idle?.cancel()
    this.#spare = undefined
    return thread
  }

  #boot(): ToolThread {
    const thread = new ToolThread(this.#limits)
    this.#alive.add(thread)
    void thread.gone.then(() => {
      this.#alive.delete(thread)
      if (this.#spare?.thread !== thread) return
      this.#spare.idle.cancel()
      this.#spare = undefined
    })
    return thread
  }

  /** Boots a thread in advance. It waits a while for a call, and does not keep the process alive. */
  #bootAhead(): void {
    if (this.#closed || this.#spare) return
    const thread = this.#boot()
    thread.unref()
    this.#spare = { thread, idle: systemClock.timer(IDLE_MS, () => thread.terminate()) }
  }

  /** Ends all threads. Who waits gets `CancelledError`. Resolves when nothing is left. */
  async close(): Promise<void> {
    this.#closed = true
    for (const end of this.#calls) end.abort(closed())
    for (const thread of this.#alive) thread.terminate()
    this.#spare?.idle.cancel()
    const fence = new AbortController()
    const fenced = systemClock.sleep(FENCE_MS, fence.signal).catch(() => {})
    const gone = Promise.all(Array.from(this.#alive, (thread) => thread.gone))
    await Promise.race([gone, fenced]) // one that sits in a native call ends when that does
    fence.abort()
  }
}

const closed = () => new CancelledError('The team was closed, and the threads of its tools with it.', {})

function died({ code }: ToolTask, error: unknown): ToolFailedError {
  const why =
    error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      ? 'ran out of memory (limits.maxHeapMb)'
      : `died: ${describe(error)}`
  const text = `The thread of the isolated tool in ${code.shown} ${why}. What it had begun may have happened, or not.`
  return new ToolFailedError(text, { module: code.shown }, error)
}
