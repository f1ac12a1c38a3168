/**
 * The thread of an agent: a worker with the bundled entry. Its bell is an empty post; the control plane is Comlink on a
 * port of its own. Each call of the control plane settles when the thread dies.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { type Remote, releaseProxy, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import {
  type Assignment,
  type CodeAssignment,
  OWN_SEAT,
  type Started,
  type ThreadControl,
} from '../../actors/definition/assignment.ts'
import type { AnsweredBytes, AskedBytes } from '../../actors/transport/part-downloads.ts'
import { epochZero, systemClock } from '../../clock.ts'
import { AgentCrashedError, describe, errorData } from '../../errors.ts'
import { ownFile } from '../../own-files.ts'
import { threadFlags } from '../../thread-flags.ts'
import { PrintedLines, type PrintListener } from '../logging/printed-lines.ts'
import { endWorker } from './end-worker.ts'
import { heapLimit } from './heap-limit.ts'
import { startedIn } from './start-reply.ts'
import type { SeatedThread, StoredBytes, ThreadExit } from './thread.ts'
import { type ThreadCode, threadCode } from './thread-code.ts'
import { ThreadClock, type ThreadTimes } from './thread-times.ts'
import { unrefWorker } from './unref-worker.ts'

/** First post of thread-boot.cjs. */
interface Booted {
  tid: number
  compiled: Uint8Array | undefined
}

/** From Node 22.16 and 24 on. */
interface Asked {
  getHeapStatistics?(): Promise<{ external_memory: number }>
}

export class WorkerThread implements SeatedThread {
  readonly isolated = true
  warm = false
  readonly #worker: Worker
  readonly #control: Remote<ThreadControl>
  readonly #clock: ThreadClock
  readonly #gone: Promise<void>
  /** Rejects the calls of the control plane that the thread has not answered yet. */
  readonly #unanswered = new Set<(error: Error) => void>()
  /** Error that calls of the control plane reject with once the thread is gone. */
  #end: AgentCrashedError | undefined
  /** Nobody waits for its start any more: it has loaded its code or started, or failed to, or was ended. */
  readonly settled: Promise<void>
  #settle = () => {}
  /** The thread has loaded all that is not the agent's own, or is gone. */
  readonly booted: Promise<void>
  #error: Error | undefined
  #print: PrintListener | undefined
  #rung = () => {}
  #foreignPost = () => {}
  #bytesOf: StoredBytes = () => undefined
  #ending = false

  constructor(maxHeapMb: number | null, code: ThreadCode = threadCode()) {
    const { port1, port2 } = new MessageChannel()
    const parts = new MessageChannel()
    const entry = code.begin()
    this.#worker = new Worker(code.boot, {
      workerData: { control: port2, parts: parts.port2, entry, zero: epochZero() },
      transferList: [port2, parts.port2],
      env: {},
      execArgv: [...threadFlags(), '--conditions=dramatis-thread'],
      stdout: true,
      stderr: true,
      ...heapLimit(maxHeapMb),
    })
    this.#clock = new ThreadClock(this.#worker)
    this.#worker.on('error', (error) => {
      this.#error = error instanceof Error ? error : new Error(String(error))
    })
    for (const stream of [this.#worker.stdout, this.#worker.stderr]) this.#readLines(stream)
    this.#control = wrap<ThreadControl>(nodeEndpoint(port1))
    this.#gone = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        port1.close()
        parts.port1.close()
        this.#endCalls(code)
        resolve()
      })
    })
    this.settled = new Promise((resolve) => {
      this.#settle = resolve
    })
    void this.#gone.then(this.#settle)
    this.booted = Promise.race([this.#boot((compiled) => code.take(compiled, entry)), this.#gone])
    port1.unref()
    parts.port1.on('message', (asked: AskedBytes) => this.#give(parts.port1, asked))
    parts.port1.unref()
  }

  /** Answers a thread that waits. The bytes are a copy of its own: what code does with them concerns nobody else. */
  #give(port: MessagePort, { hash, word }: AskedBytes): void {
    port.postMessage({ hash, bytes: this.#bytesOf(hash) } satisfies AnsweredBytes) // the control plane: no message
    Atomics.store(word, 0, 1)
    Atomics.notify(word, 0)
  }

  /**
   * Waits for the first post, which says that the thread has booted, before any code of an agent is loaded. Later posts
   * are bells.
   */
  #boot(take: (compiled: Uint8Array | undefined) => void): Promise<void> {
    return new Promise((resolve) => {
      this.#worker.once('message', ({ tid, compiled }: Booted) => {
        this.#clock.tid = tid
        take(compiled)
        // A single listener for both kinds, because two would cost each bell a copy of the listener list.
        this.#worker.on('message', (bell) => (bell === 0 ? this.#rung() : this.#foreignPost()))
        resolve()
      })
    })
  }

  /** Lets the process end although it lives. To be called as soon as it is made. */
  unref(): void {
    unrefWorker(this.#worker)
    void this.booted.then(() => this.#worker.unref()) // the listener for bells has reffed it again
  }

  #readLines(stream: NodeJS.ReadableStream): void {
    const listener: PrintListener = {
      line: (text) => this.#print?.line(text),
      flooded: () => this.#print?.flooded(),
      leftOut: (lines) => this.#print?.leftOut(lines),
    }
    const lines = new PrintedLines(listener, systemClock.monotonic)
    stream.setEncoding('utf8') // what is no UTF-8 becomes U+FFFD
    stream.on('data', (text: string) => lines.write(text))
    stream.on('end', () => lines.end())
  }

  onRing(listener: () => void): void {
    this.#rung = listener
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#worker.once('exit', (code) => listener({ code, error: this.#error }))
  }
  onPrint(listener: PrintListener): void {
    this.#print = listener
  }
  onForeignPost(listener: () => void): void {
    this.#foreignPost = listener
  }
  givesBytes(bytesOf: StoredBytes): void {
    this.#bytesOf = bytesOf
  }
  ring(seat = OWN_SEAT): void {
    this.#worker.postMessage(seat)
  }
  eventLoop(): { active: number; idle: number } {
    return this.#worker.performance.eventLoopUtilization()
  }
  held(): Promise<number> | undefined {
    const worker: Worker & Asked = this.#worker
    return worker.getHeapStatistics?.().then(({ external_memory }) => external_memory)
  }
  times(): ThreadTimes {
    return this.#clock.read()
  }

  /**
   * Imports a module of the package: Node compiles and prepares what it loads modules with. If that fails, the import
   * of an agent says why.
   */
  warmUp(): void {
    const { href } = ownFile('thread-api.js')
    void this.#ask((control) => control.warmUp(href)).catch(() => undefined)
  }

  load(assignment: CodeAssignment): Promise<Started> {
    return this.#started(assignment, (control) => control.load(assignment))
  }
  start(assignment: Assignment): Promise<Started> {
    return this.#started(assignment, (control) => control.start(assignment))
  }
  async #started(
    assignment: CodeAssignment,
    call: (control: Remote<ThreadControl>) => Promise<Started>,
  ): Promise<Started> {
    try {
      const reply: unknown = await this.#ask(call)
      return startedIn(reply, assignment)
    } catch (error) {
      const crashed =
        error instanceof AgentCrashedError
          ? error
          : new AgentCrashedError(`The thread could not be started: ${describe(error)}`, {}, error)
      return { ok: false, error: errorData(crashed) }
    } finally {
      this.#settle()
    }
  }
  isIdle(seat = OWN_SEAT): Promise<boolean> {
    return this.#ask((control) => control.isIdle(seat)).catch((error: unknown) => this.#ended(error))
  }
  async stop(seat = OWN_SEAT): Promise<void> {
    await this.#ask((control) => control.stop(seat)).catch((error: unknown) => this.#ended(error))
  }
  async leave(seat: number): Promise<void> {
    await this.#ask((control) => control.leave(seat)).catch((error: unknown) => this.#ended(error))
  }

  /** Calls the control plane. Rejects when the thread ends first, for Comlink's promise would never settle. */
  #ask<T>(call: (control: Remote<ThreadControl>) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#end) return reject(this.#end)
      this.#unanswered.add(reject)
      void call(this.#control)
        .then(resolve, reject)
        .finally(() => this.#unanswered.delete(reject))
    })
  }

  /** Returns false if it was the thread's end that kept a call from its answer. */
  #ended(error: unknown): false {
    if (error === this.#end) return false
    throw error
  }

  /** Comlink keeps calls without an answer for as long as the process lives, with all that waits for them. */
  #endCalls(exitCode: number): void {
    const text = `The thread ended with code ${exitCode} before it answered.`
    this.#end = new AgentCrashedError(text, { exitCode }, this.#error)
    for (const reject of this.#unanswered) reject(this.#end)
    this.#unanswered.clear()
    this.#control[releaseProxy]()
  }

  terminate(): void {
    this.#settle()
    if (this.#ending) return
    this.#ending = true
    endWorker(this.#worker)
  }
  /** Resolves when the thread is gone. */
  gone(): Promise<void> {
    return this.#gone
  }
}
