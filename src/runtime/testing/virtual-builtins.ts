/**
 * The timers of one sandbox, on the clock of the run. They end with the agent's thread that set them, as real ones do.
 */

import { Console } from 'node:console'
import nodeCrypto from 'node:crypto'
import { EventEmitter } from 'node:events'
import { Writable } from 'node:stream'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { v4 } from 'uuid'
import { type Scheduler, sleeping, systemClock, type Timer } from '../../shared/clock.ts'
import type { Dice } from '../../shared/random.ts'
import { type AnyFunction, isReal, type Outside, type Refuse, stoppingTheClock } from './reach.ts'

type Callback = (...args: unknown[]) => void
type WaitOptions = { signal?: AbortSignal | undefined }

/** Result of `setTimeout` and similar functions. `ref` and `unref` have no effect, since it keeps no process alive. */
class VirtualTimer {
  readonly #arm: (timer: VirtualTimer) => Timer
  readonly #open: Set<VirtualTimer>
  #armed: Timer | undefined

  constructor(open: Set<VirtualTimer>, arm: (timer: VirtualTimer) => Timer) {
    this.#open = open
    this.#arm = arm
    this.refresh()
  }

  refresh(): this {
    this.#armed?.cancel()
    this.#open.add(this)
    this.#armed = this.#arm(this)
    return this
  }
  done(): void {
    this.#open.delete(this)
  }
  close(): this {
    this.done()
    this.#armed?.cancel()
    return this
  }
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
  hasRef(): boolean {
    return true
  }
  [Symbol.dispose](): void {
    this.close()
  }
}

/**
 * Timers of one sandbox. `failed` gets each error that a callback throws; in a worker thread it would end the thread.
 */
export class Timers {
  readonly #clock: Scheduler
  readonly #failed: (error: unknown) => void
  readonly #open = new Set<VirtualTimer>()
  #closed = false

  constructor(clock: Scheduler, failed: (error: unknown) => void) {
    this.#clock = clock
    this.#failed = failed
  }

  /** Clock for the calling code: real time within a step that reaches outside, else the clock of the run. */
  get #now(): Scheduler {
    return isReal() ? systemClock : this.#clock
  }

  close(): void {
    this.#closed = true
    for (const timer of [...this.#open]) timer.close()
  }

  guarded(callback: Callback): Callback {
    if (typeof callback !== 'function') throw new TypeError('The "callback" argument must be of type function.')
    return (...args) => {
      if (this.#closed) return
      try {
        callback(...args)
      } catch (error) {
        this.#failed(error)
      }
    }
  }

  #timeout(callback: Callback, ms: unknown, args: unknown[] = [], again = false): VirtualTimer {
    return this.#set(callback, Math.max(1, Number(ms) || 1), args, again) // Node's own minimum
  }

  #set(callback: Callback, delayMs: number, args: unknown[], again = false): VirtualTimer {
    const run = this.guarded(callback)
    return new VirtualTimer(this.#open, (timer) =>
      this.#now.timer(delayMs, () => {
        timer.done()
        if (again && !this.#closed) timer.refresh()
        run(...args)
      }),
    )
  }

  async #wait<T>(begin: (done: () => void) => VirtualTimer, value: T, { signal }: WaitOptions = {}): Promise<T> {
    if (signal?.aborted) throw aborted(signal)
    await sleeping((wake) => {
      const timer = begin(wake)
      return { cancel: () => void timer.close() }
    }, signal).catch(() => {
      throw aborted(signal)
    })
    return value
  }

  readonly functions = (() => {
    const clear = (timer: unknown) => {
      if (timer instanceof VirtualTimer) timer.close()
    }
    const setTimeout = (callback: Callback, ms?: number, ...args: unknown[]) => this.#timeout(callback, ms, args)
    const setInterval = (callback: Callback, ms?: number, ...args: unknown[]) => this.#timeout(callback, ms, args, true)
    const setImmediate = (callback: Callback, ...args: unknown[]) => this.#set(callback, 0, args)
    Object.defineProperty(setTimeout, promisify.custom, { get: () => this.promises.setTimeout })
    Object.defineProperty(setImmediate, promisify.custom, { get: () => this.promises.setImmediate })
    return {
      setTimeout,
      setInterval,
      setImmediate,
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    }
  })()

  readonly promises = {
    setTimeout: <T>(ms?: number, value?: T, options?: WaitOptions) =>
      this.#wait((done) => this.#timeout(done, ms), value, options),
    setImmediate: <T>(value?: T, options?: WaitOptions) => this.#wait((done) => this.#set(done, 0, []), value, options),
    setInterval: (ms?: number, value?: unknown, options?: WaitOptions) => this.#ticks(ms, value, options),
    scheduler: {
      wait: (ms: number, options?: WaitOptions) => this.promises.setTimeout(ms, undefined, options),
      yield: () => this.promises.setImmediate(),
    },
  }

  async *#ticks(ms: number | undefined, value: unknown, options?: WaitOptions): AsyncGenerator<unknown> {
    for (;;) yield await this.promises.setTimeout(ms, value, options)
  }

  timeoutSignal(ms: number): AbortSignal {
    const controller = new AbortController()
    const late = () => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
    this.#timeout(late, ms)
    return controller.signal
  }
}

const aborted = (signal: AbortSignal | undefined) =>
  Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
    name: 'AbortError',
    code: 'ABORT_ERR',
  })

/*
 * `crypto` in a sandbox: random functions are seeded, functions that work on other threads stop the clock, the rest is
 * Node's own.
 */

/** Functions that Node computes on other threads if they are given a callback. */
const ELSEWHERE = ['pbkdf2', 'scrypt', 'hkdf', 'checkPrime', 'sign', 'verify'] as const
const UNSEEDED = [
  'generateKey',
  'generateKeyPair',
  'generateKeySync',
  'generateKeyPairSync',
  'generatePrime',
  'generatePrimeSync',
  'createDiffieHellman',
  'createDiffieHellmanGroup',
  'getDiffieHellman',
  'createECDH',
] as const

type Done = (error: Error | null, result?: unknown) => void
type Filled = Parameters<typeof nodeCrypto.randomFillSync>[0]

/** `webcrypto` for the global, `node` for `require('node:crypto')`. */
export function virtualCrypto(dice: Dice, outside: Outside, refuse: Refuse): { webcrypto: object; node: object } {
  const randomUUID = () => v4({ random: dice.fill(new Uint8Array(16)) })
  const getRandomValues = <T extends ArrayBufferView>(array: T) => dice.fill(array)
  const randomBytes = (size: number, done?: Done) => answer(dice.fill(Buffer.alloc(size)), done)
  const randomFillSync = (target: Filled, offset?: number, size?: number) => {
    dice.fill(checkedRange(target, offset, size))
    return target
  }
  const randomFill = (target: Filled, ...rest: (number | Done)[]) => {
    const done = rest.pop() as Done
    const [offset, size] = rest as number[]
    return answer(randomFillSync(target, offset, size), done)
  }
  const randomInt = (...args: [number, (number | Done)?, Done?]) => {
    const [low, high] = typeof args[1] === 'number' ? [args[0], args[1]] : [0, args[0]]
    const done = args.find((arg): arg is Done => typeof arg === 'function')
    return answer(low + dice.upTo(high - low), done)
  }
  const subtle = new Proxy(nodeCrypto.webcrypto.subtle, {
    get(target, key) {
      if (key === 'generateKey') throw refuse('crypto.subtle.generateKey')
      const method: unknown = Reflect.get(target, key, target)
      if (typeof method !== 'function') return method
      return (...args: unknown[]) => outside(Promise.resolve(Reflect.apply(method, target, args)))
    },
  })
  const webcrypto = { randomUUID, getRandomValues, subtle }
  const drawn = { randomUUID, getRandomValues, randomBytes, randomFillSync, randomFill, randomInt }
  const elsewhere = ELSEWHERE.map((name) => [name, stoppingTheClock(nodeCrypto[name] as AnyFunction, outside)])
  const refusing = (name: string) => () => {
    throw refuse(`node:crypto.${name}`)
  }
  const refused = UNSEEDED.map((name) => [name, refusing(name)])
  const node = {
    ...nodeCrypto,
    ...drawn,
    pseudoRandomBytes: randomBytes,
    webcrypto,
    subtle,
    ...Object.fromEntries([...elsewhere, ...refused]),
  }
  return { webcrypto, node }
}

/** Throws Node's own errors: Node fills the bytes first, then they are overwritten. */
function checkedRange(target: Filled, offset = 0, size?: number): Uint8Array {
  nodeCrypto.randomFillSync(target, offset, size)
  const view = ArrayBuffer.isView(target)
  const width = view && 'BYTES_PER_ELEMENT' in target ? Number(target.BYTES_PER_ELEMENT) : 1
  const all = view ? new Uint8Array(target.buffer, target.byteOffset, target.byteLength) : new Uint8Array(target)
  return all.subarray(offset * width, size === undefined ? undefined : (offset + size) * width)
}

function answer<T>(value: T, done: Done | undefined): T | undefined {
  if (!done) return value
  queueMicrotask(() => done(null, value))
  return undefined
}

/*
 * `process`, `performance` and `console` of a sandbox. They show one agent with the clock of the run, not the machine.
 */

/** Error that ends the code that called `process.exit`. It is not reported, since the agent's thread has ended. */
class ExitError extends Error {}

function lines(write: (line: string) => void): Writable {
  let rest = ''
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const parts = `${rest}${String(chunk)}`.split('\n')
      rest = parts.pop() ?? ''
      for (const part of parts) write(part)
      done()
    },
  })
}

export function virtualProcess(
  clock: Scheduler,
  timers: Timers,
  env: Readonly<Record<string, string | undefined>>,
  print: (line: string) => void,
  exit: (code: number) => void,
): object {
  const { version, versions, arch, platform, release, execPath } = process
  const nanoseconds = () => BigInt(Math.round(clock.monotonic() * 1e6))
  const hrtime = (before: [number, number] = [0, 0]) => {
    const since = nanoseconds() - (BigInt(before[0]) * 1_000_000_000n + BigInt(before[1]))
    return [Number(since / 1_000_000_000n), Number(since % 1_000_000_000n)]
  }
  return Object.assign(new EventEmitter(), {
    version,
    versions: { ...versions },
    release: { ...release },
    arch,
    platform,
    execPath,
    argv: [execPath],
    execArgv: [],
    pid: 1,
    title: 'rehearsal',
    env: { ...env },
    exitCode: undefined,
    stdout: lines(print),
    stderr: lines(print),
    cwd: () => process.cwd(),
    uptime: () => clock.monotonic() / 1_000,
    hrtime: Object.assign(hrtime, { bigint: nanoseconds }),
    nextTick: (task: (...args: unknown[]) => void, ...args: unknown[]) =>
      process.nextTick(timers.guarded(task), ...args),
    memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), {
      rss: () => 0,
    }),
    emitWarning: (warning: unknown) => print(`warning: ${String(warning)}`),
    exit(code = 0) {
      exit(Number(code))
      throw new ExitError('process.exit')
    },
    abort() {
      exit(134)
      throw new ExitError('process.abort')
    },
  })
}

export function virtualPerformance(clock: Scheduler): object {
  const now = () => clock.monotonic()
  return {
    now,
    timeOrigin: clock.now() - clock.monotonic(),
    mark: (name: string) => ({ name, entryType: 'mark', startTime: now(), duration: 0 }),
    measure: (name: string) => ({ name, entryType: 'measure', startTime: 0, duration: now() }),
    clearMarks() {},
    clearMeasures() {},
    getEntries: () => [],
    getEntriesByName: () => [],
    getEntriesByType: () => [],
    timerify: <T>(task: T) => task,
    eventLoopUtilization: () => ({ idle: 0, active: 0, utilization: 0 }),
    toJSON: () => ({ timeOrigin: clock.now() - clock.monotonic() }),
  }
}

export function virtualConsole(print: (line: string) => void): Console {
  return new Console({ stdout: lines(print), stderr: lines(print) })
}

/*
 * `node:zlib` in a sandbox: Node's own functions handle whole buffers, and asynchronous ones stop the clock. Streams
 * are refused.
 */

const NO_STREAMS = 'Take the function for a whole buffer: gzipSync, or gzip with a callback, and the like.'

export function virtualZlib(outside: Outside, refuse: Refuse): object {
  const entries = Object.entries(zlib).map(([name, value]: [string, unknown]) => {
    if (typeof value !== 'function' || name.endsWith('Sync') || name === 'crc32') return [name, value]
    if (Object.hasOwn(zlib, `${name}Sync`)) return [name, stoppingTheClock(value as AnyFunction, outside)]
    return [
      name,
      function refused() {
        throw refuse(`node:zlib.${name}`, NO_STREAMS)
      },
    ]
  })
  return Object.fromEntries(entries)
}
