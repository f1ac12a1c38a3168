/**
 * Threads for isolated tools of one limit class: the same heap, the same environment. A call has a thread alone, which is ended
 * when nobody waits for the call any more; threads that have nothing to do go after a while.
 *
 * Piscina makes and keeps the threads. What waits for one waits here: it never has more tasks than threads, since its queue
 * knows no bound for tasks with a signal, and forgets them when the thread that they wait for is ended.
 */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import type { ToolCode } from '../../actors/assignment.ts'
import type { ToolNotice, ToolTask, ToolTaskResult } from '../../actors/tool-task.ts'
import { systemClock } from '../../clock.ts'
import { CancelledError, describe, ToolFailedError } from '../../errors.ts'
import { onAbort } from '../../on-abort.ts'
import { FENCE_MS } from '../deaths.ts'
import { PrintedLines, type PrintListener } from '../printed-lines.ts'

const ENTRY = fileURLToPath(new URL('../../actors/tool-entry.bundle.js', import.meta.url))
const MOST_THREADS = Math.max(2, availableParallelism())
const MOST_WAITING = 256
const IDLE_MS = 10_000

/** What threads of the class share. */
export interface LimitClass {
  /** Names of variables of the host's environment. */
  readonly env: readonly string[]
  /** null: Node's own limit. */
  readonly maxHeapMb: number | null
}

/** Somebody who asks for something, and hears of it while it is under way. */
export interface PoolCaller {
  readonly signal: AbortSignal
  heard(notice: Exclude<ToolNotice, { begun: number }>): void
  /** What is printed in its thread. */
  readonly printed: PrintListener
}

interface Job {
  readonly task: Omit<ToolTask, 'port'>
  readonly caller: PoolCaller
  readonly resolve: (result: ToolTaskResult) => void
  readonly reject: (error: Error) => void
  /** Ends its thread, when it has one. */
  readonly end: AbortController
}

export class ToolPool {
  readonly #threads: Piscina<ToolTask, ToolTaskResult>
  readonly #waiting = new Set<Job>()
  readonly #running = new Set<Job>()
  /** Which job has begun last in which thread: what it has printed may come after its end. */
  readonly #begun = new Map<number, Job>()
  readonly #alive = new Set<Worker>()
  #closed = false

  constructor({ env, maxHeapMb }: LimitClass) {
    this.#threads = new Piscina<ToolTask, ToolTaskResult>({
      filename: ENTRY,
      minThreads: 0,
      maxThreads: MOST_THREADS,
      idleTimeout: IDLE_MS,
      atomics: 'disabled', // a thread that waits for the next task by Atomics freezes what the last one has left open
      recordTiming: false,
      execArgv: ['--conditions=dramatis-thread'],
      env: Object.fromEntries(
        env.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
      ),
      ...(maxHeapMb !== null && { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } }),
    })
    // A thread that had no task died: of what a tool had left open, or while it booted. Who waits for it waits in vain.
    this.#threads.on('error', (error: unknown) => this.#failUnbegun(error))
  }

  /** Rejects with `ToolFailedError` where too many wait, or the thread dies, and with the signal's reason when it is aborted. */
  async perform(code: ToolCode, call: ToolTask['call'], caller: PoolCaller): Promise<ToolTaskResult> {
    caller.signal.throwIfAborted()
    if (this.#closed) throw closed()
    if (this.#waiting.size >= MOST_WAITING)
      throw new ToolFailedError(
        `${MOST_WAITING} calls of isolated tools wait for a thread already, and no more may. Call fewer at a time.`,
        { waiting: MOST_WAITING, limit: MOST_WAITING },
      )
    const end = new AbortController()
    const result = new Promise<ToolTaskResult>((resolve, reject) => {
      this.#waiting.add({ task: { code, ...(call && { call }) }, caller, resolve, reject, end })
    })
    const stop = onAbort(caller.signal, () => end.abort(caller.signal.reason))
    this.#next()
    return result.finally(stop)
  }

  #next(): void {
    for (const job of this.#waiting) {
      if (this.#running.size >= MOST_THREADS) return
      this.#waiting.delete(job)
      this.#running.add(job)
      void this.#run(job)
    }
  }

  async #run(job: Job): Promise<void> {
    const { port1, port2 } = new MessageChannel()
    port1.on('message', (notice: ToolNotice) => this.#hear(job, notice))
    port1.unref()
    try {
      const result = this.#threads.run({ ...job.task, port: port2 }, { signal: job.end.signal, transferList: [port2] })
      for (const thread of this.#threads.threads) this.#watch(thread)
      job.resolve(await result)
    } catch (error) {
      job.reject(job.end.signal.aborted ? job.end.signal.reason : died(job, error))
    } finally {
      this.#running.delete(job)
      this.#drain(job, port1)
      this.#next()
    }
  }

  /** What was said before the end comes before it. */
  #drain(job: Job, port: MessagePort): void {
    for (let left = receiveMessageOnPort(port); left; left = receiveMessageOnPort(port))
      this.#hear(job, left.message as ToolNotice)
    port.close()
  }

  #hear(job: Job, notice: ToolNotice): void {
    if ('begun' in notice) this.#begun.set(notice.begun, job)
    else job.caller.heard(notice)
  }

  /** A thread that is new: what it prints goes to who has it, not to the streams of this process. */
  #watch(thread: Worker): void {
    if (this.#alive.has(thread)) return
    this.#alive.add(thread)
    const { threadId } = thread
    thread.once('exit', () => {
      this.#alive.delete(thread)
      this.#begun.delete(threadId)
    })
    const to = () => this.#begun.get(threadId)?.caller.printed
    const listener: PrintListener = {
      line: (text) => to()?.line(text),
      flooded: () => to()?.flooded(),
      leftOut: (lines) => to()?.leftOut(lines),
    }
    for (const [stream, own] of [
      [thread.stdout, process.stdout],
      [thread.stderr, process.stderr],
    ] as const) {
      stream.unpipe(own) // which pauses it
      const lines = new PrintedLines(listener, () => performance.now())
      stream.setEncoding('utf8')
      stream.on('data', (text: string) => lines.write(text))
      stream.on('end', () => lines.end())
      stream.resume()
    }
  }

  #failUnbegun(error: unknown): void {
    const begun = new Set(this.#begun.values())
    for (const job of this.#running) if (!begun.has(job)) job.end.abort(died(job, error))
  }

  /** Ends all threads. Who waits gets `CancelledError`. Resolves when nothing is left. */
  async close(): Promise<void> {
    this.#closed = true
    for (const job of this.#waiting) job.reject(closed())
    this.#waiting.clear()
    for (const { end } of this.#running) end.abort(closed())
    const gone = [...this.#alive].map((thread) => new Promise((resolve) => thread.once('exit', resolve)))
    await this.#threads.destroy()
    const fence = new AbortController()
    const fenced = systemClock.sleep(FENCE_MS, fence.signal).catch(() => {})
    await Promise.race([Promise.all(gone), fenced]) // one that sits in a native call ends when that does
    fence.abort()
  }
}

const closed = () => new CancelledError('The team was closed, and the threads of its tools with it.', {})

function died({ task }: Job, error: unknown): ToolFailedError {
  const why =
    error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      ? 'ran out of memory (limits.maxHeapMb)'
      : `died: ${describe(error)}`
  const text = `The thread of the isolated tool in ${task.code.shown} ${why}. What it had begun may have happened, or not.`
  return new ToolFailedError(text, { module: task.code.shown }, error)
}
