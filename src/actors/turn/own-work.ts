/**
 * Tracks resources opened by turns of a thread that may call back: timers, sockets, thread pool jobs and the like. A
 * turn with such work does not only wait for others, whether or not the work keeps the thread alive. Work left open by
 * an earlier turn or by the module does not count for later turns. Node's async hooks report each resource.
 *
 * Ownership: a resource opened within a callback belongs to the owner of that callback's resource. So does everything
 * opened by promises that the callback settles. Work that begins with a message or an answer cannot be attributed to
 * one of several open turns. Therefore it belongs to all turns that are open in the thread.
 */

import type { AsyncHook } from 'node:async_hooks'
import asyncHooks from 'node:async_hooks'
import { types } from 'node:util'
import { EXTERNAL_KIB } from '../../mailbox/channel.ts'
import { type Scheduler, sleepBehind, timerBehind } from '../../shared/clock.ts'
import { clearTimeout, setImmediate, setTimeout } from '../../shared/timers.ts'

/** The field of a turn that is needed here. */
interface OpenTurn {
  readonly ended: boolean
}

/** The turns that opened a group of resources, and the number of them that are open. */
interface Origin {
  turns: readonly OpenTurn[]
  open: number
}

interface Opened {
  readonly origin: Origin
  /** True if a turn may wait for it. Other resources only lead to what is opened next. */
  readonly isWork: boolean
  readonly connection: Connection | undefined
}

/** A connection that may be kept for later turns. A turn that writes to it waits for the response. */
interface Connection {
  readonly handle: Stream
  /** Bytes written up to the last moment at which no turn was open, or data arrived. */
  writtenBefore: number
  readBefore: number
  hears: boolean
}

interface Stream {
  readonly bytesWritten: number
  readonly bytesRead: number
}

const NO_TURNS: readonly OpenTurn[] = []

export class OwnWork {
  readonly #opened = new Map<number, Opened>()
  readonly #connections = new Set<Connection>()
  /** The origins that have open work. */
  readonly #live = new Set<Origin>()
  #turns: readonly OpenTurn[] = NO_TURNS
  #onEnd: (() => void) | undefined
  #current: Origin = { turns: NO_TURNS, open: 0 }
  /**
   * Origin of the callback that ran last; the promises it settled continue after it. undefined: all open turns. That is
   * set when a message or an answer arrives: it may follow the callback of an earlier turn, for whose end it waited.
   */
  behind: Origin | undefined
  /** True while the runtime opens a resource for itself. */
  #isUnseen = false

  /**
   * Sets `turns`, a list of the open turns that the caller keeps up to date. `onEnd` is called when the last open work
   * of an origin is done.
   */
  follow(turns: readonly OpenTurn[], onEnd: () => void): void {
    this.#turns = turns
    this.#onEnd = onEnd
  }

  /** Checks whether the turn, alone or together with others, has open work that may call back. */
  isBusy(turn: OpenTurn): boolean {
    for (const origin of this.#live) {
      if (origin.turns.includes(turn)) return true
      if (!origin.turns.every(({ ended }) => ended)) continue
      origin.turns = NO_TURNS // releases the references to the turns
      this.#live.delete(origin)
    }
    for (const connection of this.#connections) if (isAwaited(connection)) return true
    return false
  }

  /** True if a connection may be kept for later turns. To be read only. */
  hasConnections = false

  /** Resets the connections while no turn is open: data written so far belongs to no turn. */
  rest(): void {
    for (const connection of this.#connections) note(connection)
  }

  // ---- opened resources

  /**
   * Records an opened resource. `within` is the resource whose callback runs; 0 between callbacks, where promises
   * continue.
   */
  opened(id: number, isWork: boolean, within: number, connection: Stream | undefined): void {
    if (this.#isUnseen) return
    const origin = this.#originOf(within)
    const kept = connection && { handle: connection, writtenBefore: 0, readBefore: 0, hears: false }
    if (kept) {
      this.#connections.add(kept)
      this.hasConnections = true
    }
    this.#opened.set(id, { origin, isWork, connection: kept })
    if (isWork) this.#began(origin)
  }

  /** Records that a callback of the resource begins. */
  calledBack(id: number): void {
    const opened = this.#opened.get(id)
    this.behind = opened?.origin
    const connection = opened?.connection
    if (!opened || !connection) return
    connection.hears = true
    note(connection)
    // A later turn may use a connection that an earlier one left open. Then what follows belongs to the open turns.
    if (isOver(opened.origin)) this.behind = undefined
  }

  closed(id: number): void {
    const opened = this.#opened.get(id)
    if (!opened) return
    this.#opened.delete(id)
    if (opened.connection) {
      this.#connections.delete(opened.connection)
      this.hasConnections = this.#connections.size > 0
    }
    if (opened.isWork) this.#ended(opened.origin)
  }

  /** Begins work that Node's hooks do not report. Returns the function to call when the work ends. */
  begin(within: number): () => void {
    const origin = this.#originOf(within)
    this.#began(origin)
    return () => this.#ended(origin)
  }

  /** Runs `open`; the resources opened by it belong to the runtime and count for no turn. */
  unseen<T>(open: () => T): T {
    this.#isUnseen = true
    try {
      return open()
    } finally {
      this.#isUnseen = false
    }
  }

  #began(origin: Origin): void {
    origin.open += 1
    if (origin.open === 1) this.#live.add(origin)
  }

  #ended(origin: Origin): void {
    origin.open -= 1
    if (origin.open > 0) return
    this.#live.delete(origin)
    if (origin.turns.length > 0) this.#onEnd?.()
  }

  #originOf(within: number): Origin {
    if (within === 0) return this.behind ?? this.#now()
    return this.#opened.get(within)?.origin ?? this.#now()
  }

  #now(): Origin {
    const { turns } = this.#current
    const isSame = turns.length === this.#turns.length && turns.every((turn, i) => turn === this.#turns[i])
    if (!isSame) this.#current = { turns: [...this.#turns], open: 0 }
    return this.#current
  }
}

const isOver = ({ turns }: Origin): boolean => turns.every(({ ended }) => ended)

function note(connection: Connection): void {
  connection.writtenBefore = connection.handle.bytesWritten
  connection.readBefore = connection.handle.bytesRead
}

/**
 * Checks whether data was written to the connection and no response has come back. If another layer reads the
 * connection, only its count of read bytes shows a response.
 */
function isAwaited({ handle, writtenBefore, readBefore, hears }: Connection): boolean {
  if (handle.bytesWritten <= writtenBefore) return false
  return hears || handle.bytesRead === readBefore
}

/*
 * Reports to OwnWork which resources a thread opens and closes, by Node's async hooks. Promises are excluded, because a
 * hook for them would slow down each message.
 */

const { createHook, executionAsyncId } = asyncHooks
/** Names of Node's own resource types. Other runtimes have no such list. */
const PROVIDERS: object = asyncHooks.asyncWrapProviders ?? {}

/**
 * Resource types that do not count as work. They stay open as long as code keeps them, whether anything follows or not,
 * or they are a layer above a resource that already counts.
 */
const KEPT: ReadonlySet<string> = new Set([
  'BLOBREADER',
  'DIRHANDLE',
  'DNSCHANNEL',
  'ELDHISTOGRAM',
  'FILEHANDLE',
  'HTTP2SESSION',
  'HTTP2STREAM',
  'HTTPCLIENTREQUEST',
  'HTTPINCOMINGMESSAGE',
  'INSPECTORJSBINDING',
  'JSSTREAM',
  'MESSAGEPORT',
  'TLSWRAP',
])
const CONNECTIONS: ReadonlySet<string> = new Set(['PIPEWRAP', 'TCPWRAP'])
/**
 * Checks whether a resource type counts as work. Outside of Node's own types only timeouts and immediates call back;
 * the others are contexts kept by libraries, and ticks.
 */
const isWork = (type: string): boolean =>
  type === 'Timeout' || type === 'Immediate' || (Object.hasOwn(PROVIDERS, type) && !KEPT.has(type))

/** Global functions whose work the hooks show only as a promise. */
const PROMISING: Readonly<Record<string, readonly string[]>> = {
  Atomics: ['waitAsync'],
  WebAssembly: ['compile', 'compileStreaming', 'instantiate', 'instantiateStreaming'],
}

/** Starts to track all resources opened in this thread. Returns undefined if the runtime does not report them. */
export function followOwnWork(): OwnWork | undefined {
  if ('bun' in process.versions) return undefined // Bun's hooks are never called, and Bun prints a warning about it
  const work = new OwnWork()
  let heard = 0
  const hook = createHook({
    init(id, type, _trigger, resource) {
      if (type === 'PROMISE') return
      heard += 1
      work.opened(id, isWork(type), executionAsyncId(), CONNECTIONS.has(type) ? streamOf(resource) : undefined)
    },
    before: work.calledBack.bind(work),
    destroy: work.closed.bind(work),
  })
  enableWithoutPromises(hook)
  clearTimeout(setTimeout(() => {}))
  if (heard === 0) return undefined
  for (const [holder, names] of Object.entries(PROMISING)) {
    const of: unknown = Reflect.get(globalThis, holder)
    if (typeof of === 'object' && of !== null) for (const name of names) followPromises(work, of, name)
  }
  return work
}

/** Returns that clock with timers that belong to the runtime, so that no turn counts as waiting for them. */
export function unseenBy(work: OwnWork, clock: Scheduler): Scheduler {
  const later = (task: () => void) => work.unseen(() => setImmediate(task))
  return {
    ...clock,
    sleep: (ms, signal) => work.unseen(() => sleepBehind(ms, signal, later)),
    timer: (ms, task) => work.unseen(() => timerBehind(ms, task, later)),
    defer: (task) => work.unseen(() => clock.defer(task)),
    hold: () => work.unseen(() => clock.hold()),
  }
}

/**
 * Enables the hook without promise tracking. With a hook Node also tracks each promise, which slows all of them by
 * about the time that one message takes.
 *
 * Newer Node versions have an option against that. Node 20 starts promise tracking at the end of `enable`, and stops it
 * when `disable` finds no hook left. So this hook is enabled while another one, the last, is being disabled. The code
 * of Node 20 does not change any more.
 */
function enableWithoutPromises(hook: AsyncHook): void {
  const own = (of: AsyncHook, name: string) =>
    Object.getOwnPropertySymbols(of).find(({ description }) => description === name)
  const without = own(hook, 'kNoPromiseHook')
  if (without) {
    Object.assign(hook, { [without]: true })
    hook.enable()
    return
  }
  const last = createHook({ init() {} })
  const read = own(last, 'promiseResolve')
  if (!read) return void hook.enable()
  last.enable()
  Object.defineProperty(last, read, { get: () => void hook.enable() })
  last.disable()
}

function streamOf(resource: object): { bytesWritten: number; bytesRead: number } | undefined {
  return 'bytesWritten' in resource && 'bytesRead' in resource
    ? (resource as { bytesWritten: number; bytesRead: number })
    : undefined
}

function followPromises(work: OwnWork, of: object, name: string): void {
  const property = Object.getOwnPropertyDescriptor(of, name)
  const begins: unknown = property?.value
  if (typeof begins !== 'function') return
  const followed = function (this: unknown, ...args: unknown[]): unknown {
    const result: unknown = Reflect.apply(begins, this, args)
    const isBoxed = typeof result === 'object' && result !== null && 'value' in result
    const promise = isBoxed ? result.value : result // `waitAsync` returns an object that holds the promise
    if (types.isPromise(promise)) {
      const end = work.begin(executionAsyncId())
      promise.then(end, end)
    }
    return result
  }
  Object.defineProperty(followed, 'name', { value: name })
  Object.defineProperty(of, name, { ...property, value: followed })
}

/*
 * Reports the memory that a thread holds outside of its heap (buffers, typed arrays, WebAssembly memories) to the host.
 * The value is in a shared word, updated after a wake-up and at the end of a slice, at most every 100 ms. The thread
 * needs no timer, because the host wakes it.
 */

const EVERY_MS = 100
/**
 * Pause after a garbage collection, as a multiple of the collection's duration. LONGEST_PAUSE_MS is its upper limit.
 */
const PAUSE_PER_COLLECTION = 10
const LONGEST_PAUSE_MS = 1_000

/** Memory functions of one thread. */
export interface Memories {
  /** Returns the bytes outside of the heap, including garbage that is not collected yet. */
  external(): number
  collect(): void
}

export class ExternalMemory {
  readonly #words: Int32Array
  readonly #limit: number
  readonly #memories: Memories
  readonly #now: () => number
  #next = Number.NEGATIVE_INFINITY

  constructor(words: Int32Array, limitMb: number, memories: Memories, now: () => number) {
    this.#words = words
    this.#limit = limitMb * 2 ** 20
    this.#memories = memories
    this.#now = now
  }

  /**
   * Updates the shared word. A value above the limit is reported only if a garbage collection has not lowered it,
   * because garbage alone must not count against the agent.
   */
  sample(): void {
    const now = this.#now()
    if (now < this.#next) return
    this.#next = now + EVERY_MS
    let bytes = this.#memories.external()
    if (bytes > this.#limit) {
      this.#memories.collect()
      const collected = this.#now()
      const pauseMs = Math.min(PAUSE_PER_COLLECTION * (collected - now), LONGEST_PAUSE_MS)
      this.#next = collected + Math.max(EVERY_MS, pauseMs)
      bytes = this.#memories.external()
    }
    Atomics.store(this.#words, EXTERNAL_KIB, Math.ceil(bytes / 1_024))
  }
}

let collectGarbage: (() => void) | undefined
// Loaded on demand: few threads need it, and each would load it while it boots.
const v8 = () => process.getBuiltinModule('node:v8')

export const threadMemories: Memories = {
  external: () => v8().getHeapStatistics().external_memory,
  collect() {
    collectGarbage ??= collector()
    // The second call counts the buffers that the first call has found as freed.
    collectGarbage()
    collectGarbage()
  },
}

/** Returns V8's gc function. The flag is valid for the whole process, so it is removed again. */
function collector(): () => void {
  v8().setFlagsFromString('--expose-gc')
  const collect = process.getBuiltinModule('node:vm').runInNewContext('gc') as () => void
  v8().setFlagsFromString('--no-expose-gc')
  return collect
}
