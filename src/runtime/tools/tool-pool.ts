/**
 * Threads for isolated tools of one limit class: the same heap, the same environment. A call has a thread alone, which
 * is ended after it. One more is booted ahead while there are calls, so that the next does not wait for a boot.
 */
import type { ToolCode } from '../../actors/definition/assignment.ts'
import type { ToolTask, ToolTaskResult } from '../../actors/tools/tool-task.ts'
import { systemClock, type Timer } from '../../clock.ts'
import { CancelledError, describe, ToolFailedError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import { Slots } from '../../slots.ts'
import { FENCE_MS } from '../threads/thread.ts'
import { type LimitClass, type ThreadListener, ToolThread } from './tool-thread.ts'

const IDLE_MS = 10_000

/** Size of a pool: the threads at a time, and the calls that may wait for one. */
export interface PoolSize {
  readonly threads: number
  readonly queue: number
}

/** Somebody who asks for something, and hears of it while it is under way. */
export interface PoolCaller extends ThreadListener {
  readonly signal: AbortSignal
  /** Called if the call has to wait for a thread. */
  waits?(): void
  /** Called when the call has a thread. */
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
