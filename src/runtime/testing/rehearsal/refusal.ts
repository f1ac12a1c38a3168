/**
 * Refuses what a rehearsal does not do when it is called, not when it is imported: code imports much that a run never
 * uses.
 */
import { ConfigurationError } from '../../../errors.ts'
import { mayReach } from './reach.ts'

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

/** Checks for a class instance, for example an agent of connections. */
function isInstance(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== null && prototype !== Object.prototype
}
