/**
 * Limits the nesting depth of JSON from other sources. Values are processed by recursion, and one nested some thousand
 * levels deep would end the process.
 */
import { own } from '../shared/values.ts'
import { jsonIssue } from './message.ts'

/** Maximum nesting depth. The same limit applies to senders (message.ts). */
export const MOST_LEVELS = 1_000

/**
 * Checks whether a JSON text is nested deeper than MOST_LEVELS. A text with few brackets is not read character by
 * character.
 */
export function nestsTooDeep(text: string): boolean {
  if (text.length <= 2 * MOST_LEVELS) return false // each level has two brackets
  if (countUpTo(MOST_LEVELS, '[', text) + countUpTo(MOST_LEVELS, '{', text) <= MOST_LEVELS) return false
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]
    if (isQuoted) {
      if (letter === '\\') at += 1
      else if (letter === '"') isQuoted = false
    } else if (letter === '"') isQuoted = true
    else if (letter === '[' || letter === '{') {
      depth += 1
      if (depth > MOST_LEVELS) return true
    } else if (letter === ']' || letter === '}') depth -= 1
  }
  return false
}

function countUpTo(most: number, letter: string, text: string): number {
  let count = 0
  for (let at = text.indexOf(letter); at >= 0 && count <= most; at = text.indexOf(letter, at + 1)) count += 1
  return count
}

/*
 * Converts values to JSON: dates to text, class instances to their fields, objects with a `toJSON` to its result, a Map
 * to an object (or to a list of pairs, if a key is no text and no number), and a Set to a list.
 * For results from other sources, above all database rows. Messages between agents are JSON already.
 */

/**
 * The type of a value after conversion to JSON: methods are left out, and a `toJSON` is replaced by its result.
 *
 * @example
 * type Row = JsonForm<{ at: Date; total: number }> // { at: string; total: number }
 */
export type JsonForm<T> = unknown extends T
  ? T
  : T extends string | number | boolean | bigint | symbol | null | undefined | void
    ? T
    : T extends { toJSON(...key: never[]): infer Made }
      ? JsonForm<Made>
      : T extends ReadonlyMap<infer Key, infer Value>
        ? Key extends string | number
          ? { [Name in Key]: JsonForm<Value> }
          : [JsonForm<Key>, JsonForm<Value>][]
        : T extends ReadonlySet<infer Member>
          ? JsonForm<Member>[]
          : T extends readonly unknown[]
            ? { [Index in keyof T]: JsonForm<T[Index]> }
            : T extends object
              ? { [Key in keyof T as T[Key] extends (...args: never[]) => unknown ? never : Key]: JsonForm<T[Key]> }
              : T

/** A value that JSON cannot represent: its path, its kind, and a sentence of advice what to return instead. */
export interface NotJson {
  path: string
  got: string
  advice: string
}

/**
 * Returns the value as JSON converts it, or the value itself if it is JSON already.
 *
 * Values that JSON would change or drop silently are returned as an issue: a function, a symbol, a bigint, NaN,
 * undefined in a list, a cycle, an error, and an object that would become empty, such as a Promise.
 *
 * @throws the error that a `toJSON` or a getter throws.
 */
export function jsonFormOf(
  value: unknown,
  path: string,
): { value: unknown; issue?: never } | { value?: never; issue: NotJson } {
  if (value === undefined || jsonIssue(value) === undefined) return { value }
  try {
    return { value: formOf(value, '', path, undefined) }
  } catch (error) {
    if (error instanceof Unsayable) return { issue: error.issue }
    throw error
  }
}

class Unsayable {
  readonly issue: NotJson

  constructor(path: string, got: string, advice = PLAIN) {
    this.issue = { path, got, advice }
  }
}

const PLAIN = 'Return strings, finite numbers, booleans, null, lists and objects of these.'
const ADVICE: Readonly<Record<string, string>> = {
  bigint: 'Return it as a string, or as a number.',
  Promise: 'Await it.',
}
const TOO_DEEP = 1_000 // JSON is written and read by recursion

interface Parents {
  readonly value: object
  readonly above: Parents | undefined
  readonly depth: number
}

/** Converts one value. `key` is its key in the parent, passed to its `toJSON`. */
function formOf(given: unknown, key: string, path: string, parents: Parents | undefined): unknown {
  const value = unboxed(ownFormOf(given, key))
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value
    case 'number':
      if (Number.isFinite(value)) return value
      throw new Unsayable(path, String(value))
    case 'object':
      return value === null ? null : insideOf(value, path, parents)
    default:
      throw new Unsayable(path, typeof value, own(ADVICE, typeof value))
  }
}

function ownFormOf(given: unknown, key: string): unknown {
  if ((typeof given !== 'object' || given === null) && typeof given !== 'bigint') return given
  const { toJSON } = Object(given) as { toJSON?: unknown }
  return typeof toJSON === 'function' ? (toJSON.call(given, key) as unknown) : given
}

function unboxed(value: unknown): unknown {
  const isBox = value instanceof Number || value instanceof String || value instanceof Boolean
  return isBox ? value.valueOf() : value
}

function insideOf(value: object, path: string, parents: Parents | undefined): unknown {
  for (let above = parents; above; above = above.above)
    if (above.value === value) throw new Unsayable(path, 'a cycle', 'Leave out what leads back.')
  const here: Parents = { value, above: parents, depth: (parents?.depth ?? 0) + 1 }
  if (here.depth > TOO_DEEP) throw new Unsayable(path.slice(0, 40), `nested more than ${TOO_DEEP} levels deep`)
  const list = value instanceof Set ? [...value] : value instanceof Map ? pairsOf(value) : value
  if (Array.isArray(list)) return Array.from(list, (one, i) => formOf(one, String(i), `${path}[${i}]`, here))
  if (value instanceof Map)
    return Object.fromEntries(
      Array.from(value, ([key, one]) => [key, formOf(one, String(key), `${path}.${key}`, here)]),
    )
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  if (isUnseen(value, fields.length)) {
    const name = value.constructor?.name ?? 'class instance'
    throw new Unsayable(path, `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`, own(ADVICE, name))
  }
  return Object.fromEntries(fields.map(([name, field]) => [name, formOf(field, name, `${path}.${name}`, here)]))
}

/** Returns the entries of a Map that no object can have as its fields: with a key that is no text and no number. */
const pairsOf = (map: ReadonlyMap<unknown, unknown>): unknown =>
  [...map.keys()].every((key) => typeof key === 'string' || typeof key === 'number') ? map : [...map]

/** Checks for an object whose content JSON would lose: an error, or a class instance without fields. */
function isUnseen(value: object, fields: number): boolean {
  if (Object.prototype.toString.call(value) === '[object Error]') return true
  const prototype = Object.getPrototypeOf(value)
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null // also of another realm
  return !isPlain && fields === 0
}
