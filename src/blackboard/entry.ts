/** Entries of a blackboard, and the interface to read and write them. It is the same on the host and in a turn. */
import { inspect } from 'node:util'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { MessageRejectedError } from '../shared/errors.ts'

/*
 * Patterns of the keys that a subscriber wants. A key is words separated by dots; a pattern gives each word or a
 * wildcard. User text is never turned into a regular expression, so none can run out of control.
 */

const ONE = '*'
const ANY = '**'

/** Maximum length of keys and patterns, in characters. */
export const LONGEST_KEY = 256

/**
 * Compiles a pattern into a test for keys, which can be used for any number of keys. `*` matches one word, `**` matches
 * any number of words, also none; every other word matches itself. So `finding.*` matches `finding.7` but not
 * `finding.7.source`, and `finding.**` matches both and also `finding`.
 *
 * @throws MessageRejectedError if the pattern is empty, longer than 256 characters, has an empty word (`a..b`) or a
 * star inside a word (`find*`, `***`).
 * @example
 * const wanted = compilePattern('finding.*')
 * wanted('finding.7') // true
 */
export function compilePattern(pattern: string): (key: string) => boolean {
  const words = checkedWords(pattern)
  if (!words.some((word) => word === ONE || word === ANY)) return (key) => key === pattern
  return (key) => fits(words, key.split('.'))
}

/**
 * Checks whether one key matches one pattern. For many keys use `compilePattern`.
 *
 * @throws MessageRejectedError like `compilePattern`.
 */
export function matches(pattern: string, key: string): boolean {
  return compilePattern(pattern)(key)
}

function checkedWords(pattern: unknown): string[] {
  if (typeof pattern === 'string' && pattern.length <= LONGEST_KEY) {
    const words = pattern.split('.')
    if (words.every((word) => word !== '' && (word === ONE || word === ANY || !word.includes('*')))) return words
  }
  throw new MessageRejectedError(
    `The pattern ${inspect(pattern, { depth: 0, maxStringLength: 60 })} is none. A pattern is words with dots ` +
      `between them, at most ${LONGEST_KEY} characters: "*" stands for one word, "**" for any number of words, any ` +
      'other word for itself. Write "finding.*", not "finding*".',
    { path: 'pattern' },
  )
}

/**
 * Compares pattern and key word by word. `**` first matches no word. If the rest then fails, the last `**` takes one
 * word more. Earlier `**` need no second attempt, so the work stays below the product of the two lengths.
 */
function fits(pattern: string[], words: string[]): boolean {
  let at = 0
  let word = 0
  let lastAny = -1
  let afterAny = 0
  while (word < words.length) {
    if (pattern[at] === ANY) {
      lastAny = at++
      afterAny = word
    } else if (pattern[at] === ONE || pattern[at] === words[word]) {
      at++
      word++
    } else if (lastAny >= 0) {
      at = lastAny + 1
      word = ++afterAny
    } else return false
  }
  while (pattern[at] === ANY) at++
  return at === pattern.length
}

/**
 * Rejects an invalid key.
 *
 * @throws MessageRejectedError unless it is a string of 1 to 256 characters.
 */
export function checkKey(key: unknown): void {
  if (typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY) return
  refuse('key', `a string of 1 to ${LONGEST_KEY} characters`, key)
}

/**
 * Rejects writes that the types already forbid, for callers without types. The caller checks that the value is JSON.
 *
 * @throws MessageRejectedError whose `details.path` names the invalid part: `key`, `entryType`, `references[1]`.
 */
export function checkWrite(key: string, entryType: string, options: WriteOptions): void {
  checkKey(key)
  if (typeof entryType !== 'string' || entryType === '') refuse('entryType', 'a non-empty string', entryType, key)
  checkFields(options, 'options', ['confidence', 'supersedes', 'references', 'ifVersion'])
  const { confidence = 1, supersedes, references = [], ifVersion = 0 } = options
  if (typeof confidence !== 'number' || !(confidence >= 0 && confidence <= 1)) {
    refuse('confidence', 'a number from 0 to 1', confidence, key)
  }
  if (supersedes !== undefined && typeof supersedes !== 'string') refuse('supersedes', 'a key', supersedes, key)
  if (!Array.isArray(references)) refuse('references', 'a list of keys', references, key)
  for (const [index, reference] of references.entries()) {
    if (typeof reference !== 'string') refuse(`references[${index}]`, 'a key', reference, key)
  }
  if (!Number.isInteger(ifVersion) || ifVersion < 0) refuse('ifVersion', 'a whole number from 0 on', ifVersion, key)
}

/**
 * Rejects an invalid filter, which would have no effect.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkFilter(filter: QueryFilter): void {
  checkFields(filter, 'filter', ['entryType', 'author', 'key'])
  for (const [field, value] of Object.entries(filter))
    if (value !== undefined && typeof value !== 'string') refuse(`filter.${field}`, 'a string', value)
}

/**
 * Rejects a callback that is not a function.
 *
 * @throws MessageRejectedError unless it is a function.
 */
export function checkCallback(callback: unknown): void {
  if (typeof callback !== 'function') refuse('callback', 'a function', callback)
}

/**
 * Rejects unknown options of a wait, which would be ignored.
 *
 * @throws MessageRejectedError whose `details.path` names the field.
 */
export function checkWait(options: object): void {
  checkFields(options, 'options', ['timeoutMs', 'signal'])
}

/** Rejects unknown fields, because a mistyped field would be ignored silently. */
function checkFields(value: unknown, path: string, known: readonly string[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse(path, 'an object', value)
  const strange = Object.keys(value).find((field) => !known.includes(field))
  if (strange === undefined) return
  const where = `${path}.${strange}`
  throw new MessageRejectedError(`${where}: there is no such field; there are ${known.join(', ')}.`, { path: where })
}

function refuse(path: string, wanted: string, got: unknown, key?: string): never {
  const shown = inspect(got, { depth: 0, maxStringLength: 60, breakLength: Number.POSITIVE_INFINITY })
  const where = key === undefined ? 'for the blackboard' : `of "${key}"`
  throw new MessageRejectedError(`The ${path} ${where} must be ${wanted}, not ${shown}.`, { path, key })
}

/** Returns the value of an entry: a text as it is, anything else as JSON. */
export function entryText({ value }: Pick<BlackboardEntry, 'value'>): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Returns the key, type, author and value of an entry in one line. */
export function entryLine(entry: BlackboardEntry): string {
  return `${entry.key} (${entry.entryType} by ${entry.author}): ${entryText(entry)}`
}

/** Entry: one version of one key. `confidence` is 0 to 1; `version` counts from 1; `timestamp` is epoch ms. */
export interface BlackboardEntry<T = unknown> {
  key: string
  value: T
  author: string
  timestamp: number
  entryType: string
  confidence: number
  /** Key that this entry replaces. */
  supersedes: string | null
  /** Keys of the entries that this entry is based on. */
  references: string[]
  version: number
}

/** Options of a write, besides key, value and type. */
export interface WriteOptions {
  /** Confidence in the entry, from 0 to 1. Default: 1. */
  confidence?: number | undefined
  /** Key that this entry replaces; it must exist. */
  supersedes?: string | undefined
  /** Keys of the entries that this entry is based on; they need not exist yet. */
  references?: readonly string[] | undefined
  /**
   * Version that the key must have; 0 means that the key must not exist. Otherwise the write is rejected, with
   * `details.path` 'ifVersion', the versions `expected` and `actual`, and the `author` of the latter.
   */
  ifVersion?: number | undefined
}

/** Filter that keeps the entries that equal it in each field that it sets. */
export interface QueryFilter {
  entryType?: string | undefined
  author?: string | undefined
  key?: string | undefined
}

/**
 * Shared knowledge: one entry per key, with all its versions. Keys are words separated by dots, with at most 256
 * characters. The blackboard is in the host. A read in a turn is a logged step, so a redelivered turn reads the same
 * values again.
 *
 * @example
 * await context.blackboard.write('finding.rain', { mm: 55.9 }, 'finding', { confidence: 0.99 })
 * const findings = await context.blackboard.query({ entryType: 'finding' })
 */
export interface Blackboard {
  /**
   * Writes the next version of a key. Rejects with `MessageRejectedError` for a wrong key or value, or a stale
   * `ifVersion`.
   */
  write<T>(key: string, value: T, entryType: string, options?: WriteOptions): Promise<BlackboardEntry<T>>
  /**
   * Returns the newest entry of a key, or undefined. With a schema, the value is what the schema returns for it. A
   * value that does not match rejects with `MessageRejectedError`.
   */
  read<T = unknown>(key: string, schema?: StandardSchemaV1<unknown, T>): Promise<BlackboardEntry<T> | undefined>
  /**
   * Returns the valid entries, in the order in which they were last written; superseded ones only if the filter names
   * their key.
   */
  query(filter?: QueryFilter): Promise<BlackboardEntry[]>
  /**
   * Calls back on each later write whose key matches the pattern. Resolves to a function that ends the subscription.
   *
   * A callback of an agent runs in the agent's thread, between its turns; use no verbs in it. It ends with the run and
   * with its thread: a turn that is tried again subscribes again, and gets later entries alone. `context.subscribe`
   * sends entries to `observe` instead, also after a restart. An agent with `instances` rejects with
   * `ConfigurationError`, because another instance would get the entry.
   */
  subscribe(pattern: string, callback: (entry: BlackboardEntry) => void): Promise<() => void>
  /**
   * Returns the entry of a key as soon as it exists. Rejects with `RequestTimeoutError` after the timeout, by default
   * the team's `globalTimeoutMs`.
   */
  waitFor(
    key: string,
    options?: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
  ): Promise<BlackboardEntry>
  /** Returns all versions of a key, the oldest first. */
  getHistory(key: string): Promise<BlackboardEntry[]>
}

/*
 * Subscriptions of a board. All subscribers see all writes in the order in which they were made. If a callback writes,
 * its entry waits until all subscribers have received the current one.
 */

/** Callback that is called with each write that its subscription matches. */
export type EntryCallback = (entry: BlackboardEntry) => void

interface Subscription {
  wants: (key: string) => boolean
  callback: EntryCallback
}

/** Holds the subscriptions of one board. */
export class Subscriptions {
  readonly #onCallbackError: (error: unknown, entry: BlackboardEntry) => void
  readonly #all = new Set<Subscription>()
  readonly #queue: { to: Subscription; entry: BlackboardEntry }[] = []
  #delivering = false

  /** Creates an empty set. `onCallbackError` receives what a callback throws, or what its promise rejects with. */
  constructor(onCallbackError: (error: unknown, entry: BlackboardEntry) => void) {
    this.#onCallbackError = onCallbackError
  }

  get isEmpty(): boolean {
    return this.#all.size === 0
  }

  /** Adds a subscription from the next write on, until the returned function is called. */
  add(wants: (key: string) => boolean, callback: EntryCallback): () => void {
    const subscription = { wants, callback }
    this.#all.add(subscription)
    return () => void this.#all.delete(subscription)
  }

  /**
   * Delivers an entry to its subscribers. It returns when all have been called. If a callback made this write, it
   * returns at once, and the entry waits in the queue.
   */
  deliver(entry: BlackboardEntry): void {
    // The recipients are fixed here: a subscription added while the entry waits in the queue is later than the write.
    for (const to of this.#all) if (to.wants(entry.key)) this.#queue.push({ to, entry })
    if (this.#delivering) return
    this.#delivering = true
    try {
      for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
        if (this.#all.has(next.to)) this.call(next.to.callback, next.entry)
      }
    } finally {
      this.#delivering = false
    }
  }

  /** Calls a callback, and reports its failure instead of throwing it. */
  call(callback: EntryCallback, entry: BlackboardEntry): void {
    try {
      const outcome: unknown = callback(entry)
      // The type also allows an async callback; without this its rejection would end the whole process.
      if (outcome instanceof Promise) outcome.catch((error) => this.#onCallbackError(error, entry))
    } catch (error) {
      this.#onCallbackError(error, entry)
    }
  }
}
