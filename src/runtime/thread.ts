/**
 * What the supervisor needs of a thread, and the real one: a worker with the bundled entry. Its bell is an empty post;
 * the control plane is Comlink on a port of its own, and each of its calls settles when the thread dies.
 */
import { MessageChannel, Worker } from 'node:worker_threads'
import { type Remote, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { Assignment, Started, ThreadControl } from '../actors/assignment.ts'
import type { Logger } from '../actors/logger.ts'
import { AgentCrashedError, describe, errorData } from '../errors.ts'
import { PrintedLines, type PrintListener } from './printed-lines.ts'

/** Why a thread is gone. `error` is what it threw outside of any turn. */
export interface ThreadExit {
  code: number
  error: Error | undefined
  /** Ended from outside: to have died twice in the same way is no evidence against the message. */
  outside?: boolean
}

export interface Thread {
  /** False for a loop in the host's own thread: it has no watchdog and cannot be killed. */
  readonly isolated: boolean
  /** Whether it was kept ready before it was needed. */
  readonly warm: boolean
  onRing(listener: () => void): void
  /** Called once. */
  onExit(listener: (exit: ThreadExit) => void): void
  /** What the agent prints, on stdout and on stderr. */
  onPrint(listener: PrintListener): void
  /** Anything that the agent itself posted to its parent port: no bell, so nothing that the runtime knows. */
  onForeignPost(listener: () => void): void
  ring(): void
  /** How long its event loop has worked and waited, in ms; undefined for one without a loop of its own. */
  eventLoop(): { active: number; idle: number } | undefined
  start(assignment: Assignment): Promise<Started>
  /** Rejects with what the stop hook throws. */
  stop(): Promise<void>
  terminate(): void
}

export interface Spawner {
  /** A thread that waits for its assignment. `maxHeapMb` null: the default class, of which spares are kept. */
  spawn(maxHeapMb: number | null): Thread
  /** How many threads wait for an agent. */
  readonly spares: number
  /** Ends the spares. */
  close(): Promise<void>
}

const ENTRY = new URL('../actors/thread-entry.bundle.js', import.meta.url)

export class WorkerThread implements Thread {
  readonly isolated = true
  warm = false
  readonly #worker: Worker
  readonly #control: Remote<ThreadControl>
  readonly #dead: Promise<never>
  #error: Error | undefined
  #print: PrintListener | undefined

  constructor(maxHeapMb: number | null) {
    const { port1, port2 } = new MessageChannel()
    this.#worker = new Worker(ENTRY, {
      workerData: { control: port2 },
      transferList: [port2],
      env: {},
      execArgv: ['--conditions=dramatis-thread'],
      stdout: true,
      stderr: true,
      ...(maxHeapMb !== null && { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } }),
    })
    this.#worker.on('error', (error) => {
      this.#error = error instanceof Error ? error : new Error(String(error))
    })
    for (const stream of [this.#worker.stdout, this.#worker.stderr]) this.#readLines(stream)
    this.#control = wrap<ThreadControl>(nodeEndpoint(port1))
    this.#dead = new Promise((_resolve, reject) => {
      this.#worker.once('exit', (code) => {
        port1.close()
        reject(
          new AgentCrashedError(
            `The thread ended with code ${code} before it answered.`,
            { exitCode: code },
            this.#error,
          ),
        )
      })
    })
    this.#dead.catch(() => {})
    port1.unref()
  }

  #readLines(stream: NodeJS.ReadableStream): void {
    const listener: PrintListener = {
      line: (text) => this.#print?.line(text),
      flooded: () => this.#print?.flooded(),
      leftOut: (lines) => this.#print?.leftOut(lines),
    }
    const lines = new PrintedLines(listener, () => performance.now())
    stream.setEncoding('utf8') // what is no UTF-8 becomes U+FFFD
    stream.on('data', (text: string) => lines.write(text))
    stream.on('end', () => lines.end())
  }

  onRing(listener: () => void): void {
    this.#worker.on('message', (bell) => {
      if (bell === 0) listener()
    })
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#worker.once('exit', (code) => listener({ code, error: this.#error }))
  }
  onPrint(listener: PrintListener): void {
    this.#print = listener
  }
  onForeignPost(listener: () => void): void {
    this.#worker.on('message', (bell) => {
      if (bell !== 0) listener()
    })
  }
  ring(): void {
    this.#worker.postMessage(0)
  }
  eventLoop(): { active: number; idle: number } {
    return this.#worker.performance.eventLoopUtilization()
  }

  /** A Comlink promise to a dead thread never settles, so each call is raced against the thread's end. */
  async start(assignment: Assignment): Promise<Started> {
    try {
      return await Promise.race([this.#control.start(assignment), this.#dead])
    } catch (error) {
      const crashed =
        error instanceof AgentCrashedError
          ? error
          : new AgentCrashedError(`The thread could not be started: ${String(error)}`, {}, error)
      return { ok: false, error: errorData(crashed) }
    }
  }
  async stop(): Promise<void> {
    await Promise.race([this.#control.stop(), this.gone()])
  }
  terminate(): void {
    void this.#worker.terminate()
  }
  /** Resolves when the thread is gone. */
  async gone(): Promise<void> {
    await this.#dead.catch(() => {})
  }
}

/** Worker threads, with spares that have booted already, so that restarts do not wait. */
export class WorkerSpawner implements Spawner {
  readonly #target: number
  readonly #logger: Logger
  readonly #make: (maxHeapMb: number | null) => WorkerThread
  readonly #spares: WorkerThread[] = []
  #closed = false

  constructor(warmSpares: number, logger: Logger, make = (maxHeapMb: number | null) => new WorkerThread(maxHeapMb)) {
    this.#target = warmSpares
    this.#logger = logger
    this.#make = make
  }

  spawn(maxHeapMb: number | null): Thread {
    if (maxHeapMb !== null) return this.#make(maxHeapMb)
    const spare = this.#spares.shift()
    this.refill()
    return spare ?? this.#make(null)
  }

  /**
   * Boots what is missing, when the loop is idle: the thread that is needed now goes first. Where the system has no more
   * threads, whoever needs one is told; a spare is needed by nobody, and tried again when the next thread is taken.
   */
  refill(): void {
    setImmediate(() => {
      try {
        while (!this.#closed && this.#spares.length < this.#target) this.#addSpare()
      } catch (error) {
        this.#logger.warn(
          { error: describe(error), spares: this.#spares.length, wanted: this.#target },
          'a spare thread could not be made; it is tried again when the next thread is taken (threads.warmSpares)',
        )
      }
    })
  }

  #addSpare(): void {
    const spare = this.#make(null)
    spare.warm = true
    spare.onExit(() => {
      const at = this.#spares.indexOf(spare)
      if (at >= 0) this.#spares.splice(at, 1)
    })
    this.#spares.push(spare)
  }

  get spares(): number {
    return this.#spares.length
  }

  async close(): Promise<void> {
    this.#closed = true
    const spares = this.#spares.splice(0)
    for (const spare of spares) spare.terminate()
    await Promise.all(spares.map((spare) => spare.gone()))
  }
}
