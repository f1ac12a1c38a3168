/** Small checks for options. Each gets a value and its path, and throws if the value is wrong. */
import { ConfigurationError, DramatisError, describe, shown } from './errors.ts'
import { optionMeant } from './text.ts'

/** `path` is the option's, like `agents[0].limits.maxHeapMb`; `advice` says what to do. */
export function refused(path: string, value: unknown, accepted: string, advice = ''): ConfigurationError {
  return refusedAs(path, shown(value), accepted, advice)
}

/** Returns the same error for a value that `shown` cannot or must not describe: `got` is a phrase. */
export function refusedAs(path: string, got: string, accepted: string, advice = ''): ConfigurationError {
  const message = `${path}: got ${got}; accepted: ${accepted}.${advice && ` ${advice}`}`
  return new ConfigurationError(message, { path, got, accepted })
}

/** Returns the result of `look`. Refuses the option at `path` if reading it throws (a getter, a proxy). */
export function reading<T>(path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (error instanceof DramatisError) throw error
    throw refusedAs(path, `what throws when it is read (${describe(error)})`, 'plain values')
  }
}

export type Check = (value: unknown, path: string) => void

/** Text for the `got` of an error about an option that does not exist. */
export const NO_SUCH_OPTION = 'an option that does not exist'

/** An option with its default. */
export interface Option<T> {
  readonly check: Check
  readonly value: T
}

export const option = <T>(check: Check, value: T): Option<T> => ({ check, value })

/** Checks for all fields of `T`: the compiler rejects a missing or an unknown field. */
export type Fields<T> = { readonly [Key in keyof T]-?: Check | Option<unknown> }

/** Values of those of the options that have a default. */
export type Filled<Of> = {
  [Name in keyof Of as Of[Name] extends Option<unknown> ? Name : never]: Of[Name] extends Option<infer T> ? T : never
}

/** For each option that has a default: the first value that is given, else the default. */
export function filled<Of extends object>(options: Of, ...given: readonly (object | undefined)[]): Filled<Of> {
  const withDefault = Object.entries(options).filter(([, field]) => typeof field === 'object')
  const entryOf = ([name, { value }]: [string, Option<unknown>]) => {
    const values = given.map((each) => Reflect.get(Object(each), name)).filter((each) => each !== undefined)
    return [name, values.length > 0 ? values[0] : value]
  }
  return Object.fromEntries(withDefault.map(entryOf))
}

export function rule(accepted: string, passes: (value: unknown) => boolean): Check {
  return (value, path) => {
    if (!reading(path, () => passes(value))) throw refused(path, value, accepted)
  }
}

const LARGEST = 2 ** 31 - 1 // the largest 32-bit integer, also for timers: Node fires a longer one at once

export function integer(least: number, most = LARGEST): Check {
  const accepted = `an integer from ${least} to ${format(most)}`
  return rule(accepted, (value) => Number.isInteger(value) && within(value, least, most))
}

export function number(least: number, most: number): Check {
  return rule(`a number from ${least} to ${format(most)}`, (value) => within(value, least, most))
}

/** Accepts a waiting time above 0, in ms. With `off` it also accepts false, for no limit. */
export function wait(off?: 'off'): Check {
  const accepted = `${off ? 'false, or ' : ''}a number of milliseconds above 0, at most ${format(LARGEST)}`
  return rule(accepted, (value) => (off !== undefined && value === false) || (value !== 0 && within(value, 0, LARGEST)))
}

/** Accepts a pause in ms; 0 is allowed. */
export const pause = rule(`a number of milliseconds from 0 to ${format(LARGEST)}`, (value) => within(value, 0, LARGEST))
export const finite = rule('a finite number', (value) => Number.isFinite(value))
/** Accepts a string, also an empty one. */
export const text = rule('a string', (value) => typeof value === 'string')
export const flag = rule('true or false', (value) => typeof value === 'boolean')
export const anyObject = rule('an object', isObject)

/** Accepts a list. Its entries are checked elsewhere, or not at all. */
export const anyList = rule('a list', Array.isArray)

export function oneOf(...values: readonly unknown[]): Check {
  return rule(values.map((value) => JSON.stringify(value)).join(', '), (value) => values.includes(value))
}

export function listOf(each: Check): Check {
  return (value, path) => {
    if (!isList(value)) throw refused(path, value, 'a list')
    for (const [i, entry] of reading(path, () => [...(value as unknown[])]).entries()) each(entry, `${path}[${i}]`)
  }
}

/** Checks each value of an object. */
export const byName =
  (accepted: string, check: Check): Check =>
  (value, path) => {
    if (!isObject(value)) throw refused(path, value, accepted)
    for (const [name, each] of reading(path, () => Object.entries(value))) check(each, `${path}.${name}`)
  }

export function methods(...names: readonly string[]): Check {
  const accepted = `an object with the methods ${names.join(', ')}`
  return (value, path) => {
    if (!isObject(value)) throw refused(path, value, accepted)
    const missing = reading(path, () => names.filter((name) => typeof Reflect.get(value, name) !== 'function'))
    if (missing.length > 0) throw refusedAs(path, `an object without ${missing.join(', ')}`, accepted)
  }
}

/**
 * Accepts an object with these fields and no others. Only the required fields must be present; undefined counts as
 * absent.
 */
export function shape<T>(fields: Fields<T>, ...required: readonly (keyof T)[]): Check {
  const known = Object.keys(fields)
  return (value, path) => {
    if (!isObject(value)) {
      const accepted = path === '' ? 'an object' : `an object { ${known.join(', ')} }` // all options are too many to read
      throw refused(path || 'options', value, accepted)
    }
    const at = (key: string) => (path === '' ? key : `${path}.${key}`)
    // Unknown fields first: a required field that seems to be missing is usually there under a mistyped name.
    for (const key of reading(path || 'options', () => Object.keys(value)))
      if (!known.includes(key)) throw noSuchOption(at(key), key, known)
    for (const key in fields) {
      const given: unknown = reading(at(key), () => Reflect.get(value, key))
      const field: Check | Option<unknown> = fields[key]
      const check = typeof field === 'function' ? field : field.check
      if (given !== undefined || required.includes(key)) check(given, at(key))
    }
  }
}

/** Returns the error for an option that does not exist, with the one that is meant. */
export function noSuchOption(path: string, key: string, known: readonly string[]): ConfigurationError {
  const meant = optionMeant(key, known)
  const advice = meant === undefined ? 'remove it.' : `did you mean "${meant}"?`
  const accepted = known.join(', ')
  const message = `${path}: there is no such option; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: NO_SUCH_OPTION, accepted })
}

/** Narrows to an object with fields: no null, no list, no function. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && isList(value) === false
}

/** Tells a list from another value; undefined for a proxy that was revoked, which is neither. */
function isList(value: unknown): boolean | undefined {
  try {
    return Array.isArray(value)
  } catch {
    return undefined
  }
}

function within(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

/**
 * Formats a number with commas between thousands. `toLocaleString` is not used: its first call loads the locales, 20 ms
 * of every start.
 */
function format(value: number): string {
  return Number.isInteger(value) ? String(value).replace(/\B(?=(?:\d{3})+$)/g, ',') : String(value)
}
