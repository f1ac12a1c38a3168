/**
 * The thread of an agent: a worker with the bundled entry. Its wakeup is an empty post; the control plane is Comlink on
 * a port of its own. Each call of the control plane settles when the thread dies.
 */

import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { getHeapStatistics } from 'node:v8'
import { Script } from 'node:vm'
import { MessageChannel, type MessagePort, type ResourceLimits, Worker } from 'node:worker_threads'
import { type Remote, releaseProxy, wrap } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import {
  type Assignment,
  type CodeAssignment,
  OWN_SEAT,
  type Started,
  type ThreadControl,
  type ToolCode,
} from '../../actors/definition/assignment.ts'
import type { AnsweredBytes, AskedBytes } from '../../actors/turn/run-views.ts'
import { nestsTooDeep } from '../../mailbox/json.ts'
import { epochZero, systemClock, type Timer } from '../../shared/clock.ts'
import { ownFile, threadFlags } from '../../shared/environment.ts'
import { AgentCrashedError, describe, errorData, StartFailedError } from '../../shared/errors.ts'
import { setImmediate } from '../../shared/timers.ts'
import { errorIn } from '../log/host-frames.ts'
import { PrintedLines, type PrintListener } from '../logging/printed-lines.ts'
import {
  type CountsItself,
  type SeatedThread,
  type StoredBytes,
  ThreadClock,
  type ThreadExit,
  type ThreadTimes,
} from './thread.ts'

const FIRST_MS = 25

/**
 * Ends a thread, and tells it again, ever more seldom, until it has ended: Node 24 loses the order where it meets code
 * that runs for an async hook (the runtime has one in each thread of an agent), and who opens channels or timers in a
 * loop is there most of the time.
 */
export function endWorker(worker: Worker): void {
  if (worker.threadId === -1) return // it has ended
  worker.setMaxListeners(0) // each order waits for the end
  const from = systemClock.monotonic()
  let again: Timer | undefined
  let ended = false
  worker.once('exit', () => {
    ended = true
    again?.cancel()
  })
  const order = () => {
    void worker.terminate()
    if (ended) return // Deno says so before it returns
    again = systemClock.timer(Math.max(FIRST_MS, (systemClock.monotonic() - from) / 10), order)
  }
  order()
}

const MIB = 2 ** 20
const LEAST_MB = 8

/** Half of the memory that this process may use, in MiB: of its control group (a container), or of the machine. */
export function halfOfMemoryMb(): number {
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY // 0: not known
  return Math.max(LEAST_MB, Math.floor(Math.min(constrained, totalmem()) / 2 / MIB))
}

/**
 * Young generation of a thread, in MB. Node gives a heap that is full 16 MB more, until the thread has ended. What the
 * young generation leaves at once has to fit in there: otherwise V8 aborts the process. By the default of Node 24.21 it
 * did so in 52 of 180 threads, by this in none.
 */
const YOUNG_MB = 32

export function heapLimit(maxHeapMb: number | null): { resourceLimits: ResourceLimits } {
  const half = halfOfMemoryMb()
  const isNodesEnough = getHeapStatistics().heap_size_limit / MIB <= half
  const maxOldGenerationSizeMb = maxHeapMb ?? (isNodesEnough ? undefined : half)
  return {
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB, ...(maxOldGenerationSizeMb && { maxOldGenerationSizeMb }) },
  }
}

/*
 * Checks the reply of a thread to its start. The agent's code shares the thread with the code that replies, and can
 * change the reply or post to the same port. A reply of another shape is a failed start.
 */

export function startedIn(reply: unknown, { role, tools }: CodeAssignment): Started {
  const { ok, error, importing } = Object(reply) as Record<string, unknown>
  if (ok === true) return beganIn(Object(reply)) ?? failed(role.name)
  const found = ok === false ? errorIn(error) : undefined
  const whose = importedIn(importing, tools.modules)
  return found && whose ? { ok: false, error: found, ...whose } : failed(role.name)
}

function beganIn({ state, tools, harmful }: Record<string, unknown>): Started | undefined {
  const isOne = (state === undefined || isState(state)) && isNames(tools) && isNames(harmful)
  return isOne ? { ok: true, state, ...(tools && { tools }), ...(harmful && { harmful }) } : undefined
}

const isNames = (names: unknown): names is string[] | undefined =>
  names === undefined || (Array.isArray(names) && names.every((name) => typeof name === 'string'))

/**
 * The tool is one that the thread was given: files are read to say more of it. undefined: it names nothing that can be.
 */
function importedIn(importing: unknown, modules: readonly ToolCode[]): { importing?: 'agent' | ToolCode } | undefined {
  if (importing === undefined) return {}
  if (importing === 'agent') return { importing }
  const { module: file, export: name } = Object(importing) as Record<string, unknown>
  if (typeof file !== 'string' || typeof name !== 'string') return undefined
  const tool = modules.find((known) => known.module === file && known.export === name)
  return tool ? { importing: tool } : {}
}

function isState(json: unknown): json is string {
  if (typeof json !== 'string' || nestsTooDeep(json)) return false
  try {
    const state: unknown = JSON.parse(json)
    return typeof state === 'object' && state !== null
  } catch {
    return false
  }
}

function failed(agent: string): Started {
  const words = `The thread of agent "${agent}" answered its start with what the runtime does not know. Its module, or a package that it imports, writes to the runtime's own port, or changes how Node posts messages: it must leave both alone.`
  return { ok: false, error: errorData(new StartFailedError(words, { agent })) }
}

/*
 * Code that a thread runs before it is an agent: the bundled entry. It is read once for the process. The host compiles
 * it while the first thread boots, and a later thread, which has also run it, for all that come then.
 */

/** Without the functions that V8 compiles when they are first called, the code takes a fraction of that. */
const MOST_EARLY_BYTES = 512 * 1024

interface ThreadEntry {
  readonly path: string
  /**
   * A function of `require`, of the path, of what imports a module, and of what is to be called when a turn has been
   * played; without that, none is played.
   */
  readonly source: string
  /** In shared memory; undefined until a thread has compiled it. */
  readonly compiled: Uint8Array | undefined
  /** Compiled by the host, behind the number of its bytes (4 bytes), which is 0 until then. */
  readonly early: SharedArrayBuffer
  /** True if the thread plays a turn, and compiles what that needs. */
  readonly plays: boolean
}

export class ThreadCode {
  readonly boot: URL
  readonly #path: string
  readonly #source: string
  readonly #early = new SharedArrayBuffer(4 + MOST_EARLY_BYTES)
  #compiled: Uint8Array | undefined
  #hasBegun = false
  #hasTurn = false

  constructor(boot: URL, path: string, source: string) {
    this.boot = boot
    this.#path = path
    this.#source = source
  }

  /**
   * Returns the entry for a thread that begins now. The first one plays no turn, since a new program waits for it;
   * those behind it do, until one has.
   */
  begin(): ThreadEntry {
    const plays = this.#hasBegun && !this.#hasTurn
    if (!this.#hasBegun) setImmediate(() => this.#compileEarly())
    this.#hasBegun = true
    return { path: this.#path, source: this.#source, compiled: this.#compiled, early: this.#early, plays }
  }

  /** A thread that comes before this is done compiles the code itself. */
  #compileEarly(): void {
    const compiled = new Script(this.#source, { filename: this.#path }).createCachedData()
    if (compiled.length > MOST_EARLY_BYTES) return
    new Uint8Array(this.#early, 4).set(compiled)
    Atomics.store(new Int32Array(this.#early, 0, 1), 0, compiled.length)
  }

  /** Takes what a thread that began with that entry has compiled, for those that begin later. */
  take(compiled: Uint8Array | undefined, { plays }: ThreadEntry): void {
    if (!compiled || this.#hasTurn || (this.#compiled && !plays)) return
    this.#compiled = compiled
    this.#hasTurn = plays
  }
}

let code: ThreadCode | undefined

/** Throws `ConfigurationError` where this package was bundled without its files. */
export function threadCode(): ThreadCode {
  if (code) return code
  const path = fileURLToPath(ownFile('actors/thread/thread-entry.bundle.cjs'))
  const source = `(function (require, __filename, importModule, hasPlayed) {${readFileSync(path, 'utf8')}\n})`
  code = new ThreadCode(ownFile('actors/thread/thread-boot.cjs'), path, source)
  return code
}

/**
 * Lets the process end although the thread lives. To be called as soon as it is made: Node refs a port of its own for
 * whoever reads what a thread prints, when the reading begins, and `unref` does not undo that. It looks at a field of
 * the stream first, and clears that itself for a thread whose output it passes on. Where there is no such field the
 * process lives as long as the thread.
 */
export function unrefWorker(worker: Worker): void {
  for (const stream of [worker.stdout, worker.stderr]) {
    const field = Object.getOwnPropertySymbols(stream).find(({ description }) => description === 'kIncrementsPortRef')
    if (field) Reflect.set(stream, field, false)
  }
  worker.unref()
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
  #woken = () => {}
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
   * are wakeups.
   */
  #boot(take: (compiled: Uint8Array | undefined) => void): Promise<void> {
    return new Promise((resolve) => {
      this.#worker.once('message', ({ tid, compiled }: { tid: number; compiled: Uint8Array | undefined }) => {
        this.#clock.tid = tid
        take(compiled)
        // A single listener for both kinds, because two would cost each wakeup a copy of the listener list.
        this.#worker.on('message', (bell) => (bell === 0 ? this.#woken() : this.#foreignPost()))
        resolve()
      })
    })
  }

  unref(): void {
    unrefWorker(this.#worker)
    void this.booted.then(() => this.#worker.unref()) // the listener for wakeups has reffed it again
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

  onWake(listener: () => void): void {
    this.#woken = listener
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#worker.once('exit', (code) => listener({ code, error: this.#error }))
  }
  onPrint(listener: PrintListener): void {
    this.#print = listener
  }
  onOwnPost(listener: () => void): void {
    this.#foreignPost = listener
  }
  givesBytes(bytesOf: StoredBytes): void {
    this.#bytesOf = bytesOf
  }
  wake(seat = OWN_SEAT): void {
    this.#worker.postMessage(seat)
  }
  eventLoop(): { active: number; idle: number } {
    return this.#worker.performance.eventLoopUtilization()
  }
  held(): Promise<number> | undefined {
    const worker: CountsItself = this.#worker
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
    return this.#askUntilEnd((control) => control.isIdle(seat))
  }
  async stop(seat = OWN_SEAT): Promise<void> {
    await this.#askUntilEnd((control) => control.stop(seat))
  }
  async leave(seat: number): Promise<void> {
    await this.#askUntilEnd((control) => control.leave(seat))
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

  /** Resolves to false if it was the thread's end that kept the call from its answer. */
  #askUntilEnd<T>(call: (control: Remote<ThreadControl>) => Promise<T>): Promise<T | false> {
    return this.#ask(call).catch((error: unknown) => {
      if (error === this.#end) return false
      throw error
    })
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
  gone(): Promise<void> {
    return this.#gone
  }
}
