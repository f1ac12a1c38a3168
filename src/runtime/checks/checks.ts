/** Small checks that options are made of. Each is given a value and its path, and throws if it is wrong. */
import { ConfigurationError } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import { reading, refused, refusedAs } from './refused.ts'

/** Throws `ConfigurationError` if the value at `path` is wrong. */
export type Check = (value: unknown, path: string) => void

/** What an error says that it got where an option does not exist. */
export const NO_SUCH_OPTION = 'an option that does not exist'

/** A check for each field of `T`: the compiler sees to it that none is forgotten and none is invented. */
export type Fields<T> = { readonly [Key in keyof T]-?: Check }

/** A check from a predicate and what it accepts. */
export function rule(accepted: string, passes: (value: unknown) => boolean): Check {
  return (value, path) => {
    if (!reading(path, () => passes(value))) throw refused(path, value, accepted)
  }
}

const LARGEST = 2 ** 31 - 1 // of a 32-bit integer, and of a timer: Node fires a longer one at once

/** An integer from `least` to `most`. */
export function integer(least: number, most = LARGEST): Check {
  const accepted = `an integer from ${least} to ${format(most)}`
  return rule(accepted, (value) => Number.isInteger(value) && within(value, least, most))
}

/** A number from `least` to `most`. */
export function number(least: number, most: number): Check {
  return rule(`a number from ${least} to ${format(most)}`, (value) => within(value, least, most))
}

/** A wait: above 0. With `off`, false is accepted too and means none. */
export function wait(off?: 'off'): Check {
  const accepted = `${off ? 'false, or ' : ''}a number of milliseconds above 0, at most ${format(LARGEST)}`
  return rule(accepted, (value) => (off !== undefined && value === false) || (value !== 0 && within(value, 0, LARGEST)))
}

/** A pause: 0 is fine. */
export const pause = rule(`a number of milliseconds from 0 to ${format(LARGEST)}`, (value) => within(value, 0, LARGEST))
/** Any finite number. */
export const finite = rule('a finite number', (value) => Number.isFinite(value))
/** A string, the empty one too. */
export const text = rule('a string', (value) => typeof value === 'string')
/** true or false. */
export const flag = rule('true or false', (value) => typeof value === 'boolean')
/** An object whose inside is checked elsewhere, or not at all. */
export const anyObject = rule('an object', isObject)

/** A list whose entries are checked elsewhere, or not at all. */
export const anyList = rule('a list', Array.isArray)

/** One of a few values. */
export function oneOf(...values: readonly unknown[]): Check {
  return rule(values.map((value) => JSON.stringify(value)).join(', '), (value) => values.includes(value))
}

/** A list of what `each` accepts. */
export function listOf(each: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) throw refused(path, value, 'a list')
    for (const [i, entry] of reading(path, () => [...value]).entries()) each(entry, `${path}[${i}]`)
  }
}

/** An object with the methods named. */
export function methods(...names: readonly string[]): Check {
  const accepted = `an object with the methods ${names.join(', ')}`
  return (value, path) => {
    if (!isObject(value)) throw refused(path, value, accepted)
    const missing = reading(path, () => names.filter((name) => typeof Reflect.get(value, name) !== 'function'))
    if (missing.length > 0) throw refusedAs(path, `an object without ${missing.join(', ')}`, accepted)
  }
}

/** An object with these fields and no others. Only the required ones may not be absent; undefined counts as absent. */
export function shape<T>(fields: Fields<T>, ...required: readonly (keyof T)[]): Check {
  const known = Object.keys(fields)
  return (value, path) => {
    if (!isObject(value)) throw refused(path || 'options', value, 'an object')
    const at = (key: string) => (path === '' ? key : `${path}.${key}`)
    // First: a required field that seems to be missing is most often there under a mistyped name.
    for (const key of reading(path || 'options', () => Object.keys(value)))
      if (!known.includes(key)) throw noSuchOption(at(key), key, known)
    for (const key in fields) {
      const field: unknown = reading(at(key), () => Reflect.get(value, key))
      if (field !== undefined || required.includes(key)) fields[key](field, at(key))
    }
  }
}

function noSuchOption(path: string, key: string, known: readonly string[]): ConfigurationError {
  const meant = nearest(key, known)
  const advice = meant === undefined ? 'remove it.' : `did you mean "${meant}"?`
  const accepted = known.join(', ')
  const message = `${path}: there is no such option; ${advice} Accepted: ${accepted}.`
  return new ConfigurationError(message, { path, got: NO_SUCH_OPTION, accepted })
}

/** Narrows to what has fields: no null, no list, no function. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function within(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

/** With commas between thousands. Not by `toLocaleString`: the first call loads the locales, 20 ms of every start. */
function format(value: number): string {
  return Number.isInteger(value) ? String(value).replace(/\B(?=(?:\d{3})+$)/g, ',') : String(value)
}
