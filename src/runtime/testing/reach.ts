/**
 * Allows code in a rehearsal to reach outside, within a step whose result is recorded. From its first real call on,
 * virtual time stands still until the step is done, and all that the step waits for is real.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { AgentFailedError, ConfigurationError } from '../../shared/errors.ts'
import type { SteppedClock } from './virtual-clock.ts'

export type Outside = <T>(work: Promise<T>) => Promise<T>
export type AnyFunction = (...args: unknown[]) => unknown

/**
 * Wraps a function that works on another thread if it is given a callback: the clock stops for that. Without a callback
 * the function works in this thread.
 */
export function stoppingTheClock(work: AnyFunction, outside: Outside): AnyFunction {
  return (...args) => {
    const done = args.at(-1)
    if (typeof done !== 'function') return work(...args)
    const settled = outside(
      new Promise<unknown[]>((resolve) => void work(...args.slice(0, -1), (...results: unknown[]) => resolve(results))),
    )
    void settled.then((results) => Reflect.apply(done, undefined, results))
    return undefined
  }
}

const LIMIT_MS = 60_000

export class Reach {
  readonly #clock: SteppedClock
  readonly #step: string
  readonly #limitMs: number
  readonly #over = new AbortController()
  #begun = false
  #late: (error: Error) => void = () => {}

  /** `step`: name of the step, for errors. `limitMs`: limit in real time, counted from the step's first real call. */
  constructor(clock: SteppedClock, step: string, limitMs = LIMIT_MS) {
    this.#clock = clock
    this.#step = step
    this.#limitMs = limitMs
  }

  get begun(): boolean {
    return this.#begun
  }

  /** True if the step has made a real call and is not over. */
  get lasts(): boolean {
    return this.#begun && !this.#over.signal.aborted
  }

  /** Rejects if the step takes too long, most likely because it waits for the team, which waits for the step. */
  run<T>(work: () => Promise<T> | T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#late = reject
      reaching.run(this, async () => work()).then(resolve, reject)
    })
  }

  /** Begins real time for the step. Returns false once the step is over. */
  begin(): boolean {
    if (this.#over.signal.aborted) return false
    if (this.#begun) return true
    this.#begun = true
    const text = `Step "${this.#step}" did not end within ${this.#limitMs} ms of its first real input or output. Time stands still in a rehearsal meanwhile: ask other agents, and sleep, outside of the step.`
    const timer = setTimeout(() => this.#late(new AgentFailedError(text, { step: this.#step })), this.#limitMs)
    const over = new Promise<void>((resolve) => {
      this.#over.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    void this.#clock.outside(over).then(() => clearTimeout(timer))
    return true
  }

  end(): void {
    this.#over.abort()
  }
}

const reaching = new AsyncLocalStorage<Reach>()

/** Checks whether a call may be real. If so, the step is real from now on. */
const mayReach = (): boolean => reaching.getStore()?.begin() ?? false

export const isReal = (): boolean => reaching.getStore()?.lasts ?? false

/** Stops the clock for work, except for code that has stopped it already: such code cannot wait for the clock. */
export const outsideOf =
  (clock: SteppedClock): Outside =>
  (work) =>
    isReal() ? work : clock.outside(work)

/*
 * Refuses what a rehearsal does not do when it is called, not when it is imported: code imports much that a run never
 * uses.
 */

/** The error for real input and output. `who`: the agent in words; `what`: the module or function that it wanted. */
export function refusedIo(who: string, what: string, advice: string): ConfigurationError {
  const text = `${who}: ${what} is real input or output, which a rehearsal refuses: each of its runs has to be the same when it is played again. ${advice}`
  return new ConfigurationError(text, { who, what, rehearsal: true })
}

/** Makes the error for refused input or output in one sandbox. `advice` says what to do instead. */
export type Refuse = (what: string, advice?: string) => Error

/**
 * Returns an object with the names of `module`. Its functions refuse when they are called, class instances refuse when
 * they are read. Neither refuses where real calls are allowed and recorded.
 */
export function refusingIn(module: object, path: string, refuse: Refuse): object {
  const copy = {}
  for (const name of Object.keys(module)) {
    let value: unknown
    let known = false
    const set = (given: unknown) => {
      value = given
      known = true
    }
    const get = () => {
      if (known) return value
      const real: unknown = Reflect.get(module, name)
      if (isInstance(real)) {
        if (mayReach()) return real
        throw refuse(`${path}.${name}`)
      }
      set(standIn(real, `${path}.${name}`, refuse))
      return value
    }
    Object.defineProperty(copy, name, { get, set, enumerable: true, configurable: true })
  }
  return copy
}

function standIn(value: unknown, what: string, refuse: Refuse): unknown {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? value : refusingIn(value, what, refuse)
  if (typeof value !== 'function') return value
  /** Replaces the function, also when it is called with `new` or used as a base class. */
  function outside(this: unknown, ...args: unknown[]): unknown {
    if (!mayReach()) throw refuse(what)
    if (!new.target) return Reflect.apply(real, this, args)
    return Reflect.construct(real, args, new.target === outside ? real : new.target)
  }
  const real = value
  outside.prototype = Reflect.get(real, 'prototype')
  return outside
}

function isInstance(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== null && prototype !== Object.prototype
}
