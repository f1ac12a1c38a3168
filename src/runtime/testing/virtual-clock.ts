/**
 * A clock that stands still until it is advanced. Tasks that are due now run by themselves, in an order that follows
 * from the seed; tasks that are due later wait for `advance`. With it and agents in the host's thread the real
 * supervisor is deterministic.
 */

import { finite, methods, rule, shape } from '../../shared/checks.ts'
import { type Clock, type Scheduler, sleeping, systemClock, type Timer } from '../../shared/clock.ts'
import { seededRandom } from '../../shared/random.ts'
import { nextTurn } from '../../shared/timers.ts'

/** A clock that stands still until it is advanced. */
export interface VirtualClock extends Clock {
  /**
   * Lets `ms` pass. Tasks that become due run at their time, together with everything that follows from them at once.
   */
  advance(ms: number): Promise<void>
  /** Lets time pass until nothing is due any more. */
  runToIdle(): Promise<void>
}

export const testClock = methods('now', 'advance', 'runToIdle')

const checkOptions = shape<{ seed?: number; startAt?: number }>({ seed: finite, startAt: finite })
const checkPassing = rule(
  'a number of milliseconds, 0 or more; runToIdle lets all of it pass',
  (ms) => typeof ms === 'number' && ms >= 0 && Number.isFinite(ms),
)

interface Due {
  at: number
  order: number
  task: () => void
  /** True for a timer that ends a wait for something else; 'background': nothing waits for it. */
  limit: boolean | 'background'
}

/**
 * Makes a clock for a test. `startAt` is epoch ms; 0 by default, so that times in a test are small numbers. `seed`
 * (default 1) determines the order of tasks that are ready at the same time.
 *
 * @example
 * const clock = virtualClock({ seed: 7 })
 * const run = testTeam(options, { clock, modules }).launch('go')
 * await clock.advance(60_000)
 *
 * @throws {ConfigurationError} for a wrong option; `advance` rejects with it.
 */
export function virtualClock(options: { seed?: number; startAt?: number } = {}): VirtualClock & Scheduler {
  checkOptions(options, '')
  return new SteppedClock(options.seed ?? 1, options.startAt ?? 0)
}

const LONGEST_RUN = 10_000_000 // tasks; a team that never falls idle is a bug worth an error

/** Follows whether a promise has settled. */
export function settling(promise: Promise<unknown>): () => boolean {
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  promise.then(settle, settle)
  return () => isSettled
}

/** Result of `runUntil`: done, idle because no timer is left, or endless because tasks run on without time passing. */
export type Ending = 'done' | 'idle' | 'endless'

class EndlessError extends Error {}

export class SteppedClock implements VirtualClock, Scheduler {
  readonly virtual = true
  readonly #startAt: number
  readonly #random: () => number
  readonly #timers: Due[] = []
  readonly #longestRun: number
  readonly #onStep: () => void
  #ready: (() => void)[] = []
  /** Real operations that are open. Each becomes a function that delivers its outcome. */
  readonly #outside: Promise<() => void>[] = []
  #elapsed = 0
  #order = 0
  #pumping: Promise<void> | undefined

  constructor(seed: number, startAt: number, longestRun = LONGEST_RUN, onStep = () => {}) {
    this.#startAt = startAt
    this.#longestRun = longestRun
    this.#onStep = onStep
    this.#random = seededRandom([seed, seed ^ 0x5bd1e995, 1, 2])
  }

  /** True if nothing can happen before time passes. */
  get stands(): boolean {
    return this.#pumping === undefined
  }

  now(): number {
    return this.#startAt + this.#elapsed
  }
  monotonic(): number {
    return this.#elapsed
  }
  random(): number {
    return this.#random()
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleeping((wake) => this.timer(ms, wake), signal)
  }

  timer(ms: number, task: () => void, limit: Due['limit'] = false): Timer {
    if (ms <= 0) return this.#now(task)
    const due: Due = { at: this.#elapsed + ms, order: ++this.#order, task, limit }
    this.#timers.push(due)
    return {
      cancel: () => {
        const at = this.#timers.indexOf(due)
        if (at >= 0) this.#timers.splice(at, 1)
      },
    }
  }

  /** Defers a task that is due now; it can be cancelled until it runs. */
  #now(task: () => void): Timer {
    let cancelled = false
    this.defer(() => cancelled || task())
    return {
      cancel: () => {
        cancelled = true
      },
    }
  }

  defer(task: () => void): void {
    this.#ready.push(task)
    this.#pumping ??= this.#pump()
  }

  hold(): Timer {
    return { cancel() {} }
  }

  /**
   * Waits for work that takes real time, like reading a file: virtual time stands still and no other task runs until it
   * is done. The outcomes of several arrive in the order in which they were begun, however long each takes.
   */
  outside<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const outcome = work.then(
        (value) => () => resolve(value),
        (error: unknown) => () => reject(error),
      )
      this.#outside.push(outcome)
      this.#pumping ??= this.#pump()
    })
  }

  /** Runs what is ready, one task at a time, until all that follows from it has settled. */
  async #pump(): Promise<void> {
    let count = 0
    await nextTurn()
    while (this.#ready.length + this.#outside.length > 0) {
      const outcome = this.#outside.shift()
      if (outcome) {
        const deliver = await outcome
        deliver()
        await nextTurn()
        continue
      }
      if (++count > this.#longestRun)
        throw new EndlessError(
          `The virtual clock ran ${this.#longestRun} tasks without time passing: something schedules itself for ever.`,
        )
      this.#onStep()
      const pick = Math.floor(this.#random() * this.#ready.length)
      const [task] = this.#ready.splice(pick, 1)
      task?.()
      await nextTurn()
    }
    this.#pumping = undefined
  }

  async #quiet(): Promise<void> {
    await nextTurn()
    while (this.#pumping) {
      await this.#pumping
      await nextTurn()
    }
  }

  async advance(ms: number): Promise<void> {
    checkPassing(ms, 'ms')
    const until = this.#elapsed + ms
    await this.#quiet()
    for (let next = this.#next(until); next; next = this.#next(until)) await this.#fire(next)
    this.#elapsed = until
    await this.#quiet()
  }

  async runToIdle(): Promise<void> {
    await this.#quiet()
    for (let next = this.#nextOfAll(); next; next = this.#nextOfAll()) await this.#fire(next)
  }

  /**
   * Lets time pass until `done()`, or until no timer is left. `passes` is called before each advance of time; its
   * argument is true if only timers are left that limit a wait.
   */
  async runUntil(done: () => boolean, passes = (_limitsAlone: boolean): void => {}): Promise<Ending> {
    try {
      await this.#quiet()
      for (let next = this.#nextOfAll(); next && !done(); ) {
        passes(this.#timers.every(({ limit }) => limit))
        await this.#fire(next)
        next = this.#nextOfAll()
      }
      return done() ? 'done' : 'idle'
    } catch (error) {
      if (error instanceof EndlessError) return 'endless'
      throw error
    }
  }

  async #fire(due: Due): Promise<void> {
    this.#timers.splice(this.#timers.indexOf(due), 1)
    this.#elapsed = Math.max(this.#elapsed, due.at)
    this.#onStep()
    due.task()
    await this.#quiet()
  }

  /** Returns the next timer, unless only those are left that come again and again. */
  #nextOfAll(): Due | undefined {
    const isBackground = this.#timers.every(({ limit }) => limit === 'background')
    return isBackground ? undefined : this.#next(Number.POSITIVE_INFINITY)
  }

  #next(until: number): Due | undefined {
    let next: Due | undefined
    for (const due of this.#timers) {
      if (due.at > until) continue
      if (!next || due.at < next.at || (due.at === next.at && due.order < next.order)) next = due
    }
    return next
  }
}

/*
 * Tells a test that it waits for a team whose clock stands still. Nothing else would: the test ends by the limit of its
 * runner, without a reason.
 */

const LOOK_MS = 1_000 // real time

interface Watched {
  /** The team's clock; one that is not from here is not looked at. */
  clock: object
  isAsking(): boolean
  warn(text: string): void
}

/**
 * Warns once if the result is not there after a second of real time in which nothing has happened in virtual time.
 * Returns the result.
 */
export async function whileTimePasses<T>(
  result: Promise<T>,
  { clock, isAsking, warn }: Watched,
  real: Scheduler = systemClock,
): Promise<T> {
  if (!(clock instanceof SteppedClock)) return result
  const hold = real.hold() // else the process may end before it is told
  const lookAfter = (then: number): Timer =>
    real.timer(LOOK_MS, () => {
      const now = clock.monotonic()
      if (!clock.stands || now !== then) {
        timer = lookAfter(now)
        return
      }
      hold.cancel()
      warn(isAsking() ? ASKED : `${STANDS} ${clock.now()} ms: ${REMEDY}`)
    })
  let timer = lookAfter(clock.monotonic())
  try {
    return await result
  } finally {
    timer.cancel()
    hold.cancel()
  }
}

const STANDS = 'A test waits for an answer, and the clock of its team stands at'
const REMEDY =
  'time passes only while the test lets it. Ask first, let time pass, then wait: const running = team.execute(query); await team.clock.runToIdle(); await running. An agent of testAgent takes a clock: testAgent(agent, { clock: virtualClock() }).'
const ASKED =
  'A test waits for an answer, and the team waits for a person. Answer in the test: const run = team.launch(query); for await (const event of run.events()) if (event.type === "question") await run.answer(event.questionId, "yes").'
