/**
 * The timers of one sandbox, on the clock of the run. They end with the agent's thread that set them, as real ones do.
 */
import { promisify } from 'node:util'
import { type Scheduler, systemClock, type Timer } from '../../../clock.ts'
import { onAbort } from '../../../on-abort.ts'
import { isReal } from './reach.ts'

type Callback = (...args: unknown[]) => void
type WaitOptions = { signal?: AbortSignal } | undefined

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
  /** Notes that the timer will not fire again. */
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

  /** Returns a callback that does not throw, and does nothing after `close`. */
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

  #timeout(callback: Callback, ms: unknown, again: boolean, args: unknown[]): VirtualTimer {
    const run = this.guarded(callback)
    const delayMs = Math.max(1, Number(ms) || 1) // Node's own minimum
    return new VirtualTimer(this.#open, (timer) =>
      this.#now.timer(delayMs, () => {
        timer.done()
        if (again && !this.#closed) timer.refresh()
        run(...args)
      }),
    )
  }

  #immediate(callback: Callback, args: unknown[]): VirtualTimer {
    const run = this.guarded(callback)
    return new VirtualTimer(this.#open, (timer) =>
      this.#now.timer(0, () => {
        timer.done()
        run(...args)
      }),
    )
  }

  #wait<T>(begin: (done: () => void) => VirtualTimer, value: T, options: WaitOptions): Promise<T> {
    return new Promise((resolve, reject) => {
      const signal = options?.signal
      if (signal?.aborted) return reject(aborted(signal))
      const timer = begin(() => {
        stop?.()
        resolve(value)
      })
      const stop =
        signal &&
        onAbort(signal, () => {
          timer.close()
          reject(aborted(signal))
        })
    })
  }

  /** Functions for `globalThis` and for `node:timers`. */
  readonly functions = (() => {
    const clear = (timer: unknown) => {
      if (timer instanceof VirtualTimer) timer.close()
    }
    const setTimeout = (callback: Callback, ms?: number, ...args: unknown[]) => this.#timeout(callback, ms, false, args)
    const setInterval = (callback: Callback, ms?: number, ...args: unknown[]) => this.#timeout(callback, ms, true, args)
    const setImmediate = (callback: Callback, ...args: unknown[]) => this.#immediate(callback, args)
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

  /** `node:timers/promises`. */
  readonly promises = {
    setTimeout: <T>(ms?: number, value?: T, options?: WaitOptions) =>
      this.#wait((done) => this.#timeout(done, ms, false, []), value, options),
    setImmediate: <T>(value?: T, options?: WaitOptions) =>
      this.#wait((done) => this.#immediate(done, []), value, options),
    setInterval: (ms?: number, value?: unknown, options?: WaitOptions) => this.#ticks(ms, value, options),
    scheduler: {
      wait: (ms: number, options?: WaitOptions) => this.promises.setTimeout(ms, undefined, options),
      yield: () => this.promises.setImmediate(),
    },
  }

  async *#ticks(ms: number | undefined, value: unknown, options: WaitOptions): AsyncGenerator<unknown> {
    for (;;) yield await this.promises.setTimeout(ms, value, options)
  }

  /** `AbortSignal.timeout`. */
  timeoutSignal(ms: number): AbortSignal {
    const controller = new AbortController()
    const late = () => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
    this.#timeout(late, ms, false, [])
    return controller.signal
  }
}

const aborted = ({ reason }: AbortSignal) =>
  Object.assign(new Error('The operation was aborted', { cause: reason }), { name: 'AbortError', code: 'ABORT_ERR' })
