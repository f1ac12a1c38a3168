/**
 * Time and randomness as an interface, so that a test can own both. `systemClock` is the real one; the virtual one is
 * in `dramatis/testing`.
 */
import { onAbort } from './on-abort.ts'
import { clearImmediate, clearTimeout, setImmediate, setTimeout } from './timers.ts'

/** Source of time and randomness for a team. A test gives it one of its own: `virtualClock` of `dramatis/testing`. */
export interface Clock {
  /** Epoch ms. */
  now(): number
  /** Milliseconds from any moment on that never go back. */
  monotonic(): number
  /** From 0 up to 1. */
  random(): number
  /**
   * Resolves after `ms`, behind all that had come by then; rejects with the signal's reason when it is aborted first.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/**
 * Clock with what the runtime needs beyond `Clock`: timers that can be cancelled, and "later, but before any timer".
 */
export interface Scheduler extends Clock {
  /** Time passes when somebody says so: what is not due now, or later by this clock, never comes. */
  readonly virtual?: boolean
  /**
   * Runs `task` once after `ms`, behind all that had come by then. The timer alone does not keep the process alive.
   * `limit`: it ends a wait for something else, so that a virtual clock can tell when nothing but limits is left to
   * come. 'background': it comes again and again, so a virtual clock does not wait for it.
   */
  timer(ms: number, task: () => void, limit?: boolean | 'background'): Timer
  /** Runs `task` in a later turn of the event loop. */
  defer(task: () => void): void
  /** Keeps the process alive until it is cancelled: somebody waits, even if no timer or thread does. */
  hold(): Timer
}

export interface Timer {
  cancel(): void
}

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1 // setTimeout fires at once beyond it

let zero: number | undefined

/** Epoch ms at which `systemClock.monotonic()` is 0: the same in all threads of the process. */
export function epochZero(): number {
  zero ??= performance.timeOrigin + performance.now() - monotonic()
  return zero
}

/** `performance` has the same time, but a thread that asks it loads ten more modules of Node. */
function monotonic(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1_000 + nanoseconds / 1e6
}

/** The machine's own time. */
export const systemClock: Scheduler = {
  now: () => epochZero() + monotonic(),
  monotonic,
  random: () => Math.random(),
  sleep: (ms, signal) => sleepBehind(ms, signal),
  timer: (ms, task) => timerBehind(ms, task),
  defer: (task) => void setImmediate(task),
  hold() {
    const handle = setTimeout(() => {}, LONGEST_TIMEOUT_MS)
    return { cancel: () => clearTimeout(handle) }
  },
}

/**
 * Sets a timer whose task comes behind all that had come by then. An event loop that was late runs its timers before it
 * takes in messages and answers of sockets, so a limit would end a wait for what is there already. `later` defers the
 * task until the loop has taken those in.
 */
export function timerBehind(ms: number, task: () => void, later: Later = laterHere): Timer {
  const { handle, cancel } = timeoutBehind(ms, task, later)
  handle.unref()
  return { cancel }
}

/** Sleeps like a timer of `timerBehind`, and keeps the process alive. */
export function sleepBehind(ms: number, signal: AbortSignal | undefined, later: Later = laterHere): Promise<void> {
  return sleeping((wake) => timeoutBehind(ms, wake, later), signal)
}

/** Sleeps until the timer that is set calls `wake`; rejects with the signal's reason when it is aborted first. */
export function sleeping(set: (wake: () => void) => Timer, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = set(() => {
      stop?.()
      resolve()
    })
    const abort = () => {
      timer.cancel()
      reject(signal?.reason)
    }
    const stop = signal && onAbort(signal, abort)
  })
}

type Later = (task: () => void) => NodeJS.Immediate

const laterHere: Later = (task) => setImmediate(task)

function timeoutBehind(ms: number, task: () => void, later: Later): Timer & { handle: NodeJS.Timeout } {
  let due: NodeJS.Immediate | undefined
  const handle = setTimeout(
    () => {
      due = later(task)
    },
    Math.min(ms, LONGEST_TIMEOUT_MS),
  )
  return {
    handle,
    cancel() {
      clearTimeout(handle)
      clearImmediate(due)
    },
  }
}

export interface OwnScheduler extends Scheduler {
  /** Cancels all timers that are set: none may outlive who set it. */
  cancelTimers(): void
  /**
   * Time stands still until `runOn`, from when each clock is read next. For work in one go that notes the time often:
   * to read it is dearer than most of what is noted. Called again, it lets time catch up.
   */
  holdStill(): void
  runOn(): void
}

const UNREAD = Number.NEGATIVE_INFINITY

/** Makes the scheduler of an owner. `look` takes in what has come; it is called before the task of each limit. */
export function ownScheduler(scheduler: Scheduler, look: () => void): OwnScheduler {
  const open = new Set<Timer>()
  let isStill = false
  /** Epoch ms at 0 of the scheduler's own time, if that is one clock with two faces. */
  const zero = scheduler === systemClock ? epochZero() : undefined
  let now = UNREAD
  let read = UNREAD
  return {
    virtual: scheduler.virtual ?? false,
    now() {
      if (!isStill) return scheduler.now()
      if (now !== UNREAD) return now
      if (zero === undefined) now = scheduler.now()
      else {
        if (read === UNREAD) read = monotonic()
        now = zero + read
      }
      return now
    },
    monotonic() {
      if (!isStill) return scheduler.monotonic()
      if (read === UNREAD) read = zero === undefined ? scheduler.monotonic() : monotonic()
      return read
    },
    holdStill() {
      isStill = true
      now = UNREAD
      read = UNREAD
    },
    runOn() {
      isStill = false
    },
    random: () => scheduler.random(),
    sleep: (ms, signal) => scheduler.sleep(ms, signal),
    defer: (task) => scheduler.defer(task),
    hold: () => scheduler.hold(),
    timer(ms, task, limit) {
      const expire = () => {
        if (limit) look()
        if (open.delete(timer)) task() // else what has come has ended the wait
      }
      const set = scheduler.timer(ms, expire, limit)
      const timer = {
        cancel() {
          open.delete(timer)
          set.cancel()
        },
      }
      open.add(timer)
      return timer
    },
    cancelTimers() {
      for (const timer of [...open]) timer.cancel()
    },
  }
}

/** Gives a user's own `Clock` what the runtime needs beyond it. */
export function schedulerFrom(clock: Clock | Scheduler | undefined): Scheduler {
  if (clock === undefined) return systemClock
  if ('timer' in clock && 'defer' in clock) return clock
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    random: () => clock.random(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    timer(ms, task) {
      const gone = new AbortController()
      const expire = () => gone.signal.aborted || task()
      clock.sleep(ms, gone.signal).then(
        () => systemClock.defer(expire), // behind all that has come, as for `systemClock`
        () => {},
      )
      return { cancel: () => gone.abort() }
    },
    defer: systemClock.defer,
    hold: systemClock.hold,
  }
}

/** Resolves to true if that is over within `ms`. */
export async function isOverIn(ms: number, done: Promise<unknown>): Promise<boolean> {
  const enough = new AbortController()
  const late = systemClock.sleep(ms, enough.signal).then(
    () => false,
    () => true,
  )
  const isOver = await Promise.race([done.then(() => true), late])
  enough.abort()
  return isOver
}
