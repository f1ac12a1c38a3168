/**
 * Store of a blackboard. It is in the host and synchronous, so two writes never overlap. Immer keeps the current
 * entries and, for each write, the patches that undo it. An earlier state of the board is the current one with those
 * patches applied.
 */
import { applyPatches, type Draft, enablePatches, freeze, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../shared/errors.ts'
import {
  type BlackboardEntry,
  checkKey,
  checkWrite,
  compilePattern,
  type EntryCallback,
  type QueryFilter,
  Subscriptions,
  type WriteOptions,
} from './entry.ts'

/**
 * Newest entry of one key, and the key that superseded it. It is a class because immer descends into plain objects.
 * With a class, a patch shares the entry instead of copying it.
 */
export class Standing {
  readonly entry: BlackboardEntry
  /** Revision of the board when the entry was written; it orders the entries. */
  readonly revision: number
  /** Key of the entry that replaced this one. */
  readonly supersededBy: string | null

  constructor(entry: BlackboardEntry, revision: number, supersededBy: string | null = null) {
    this.entry = entry
    this.revision = revision
    this.supersededBy = supersededBy
    Object.freeze(this)
  }
}

/**
 * Current entries, in the order in which the keys first appeared. They form a tree of lists, each with at most 32
 * elements except the first. Immer copies and compares each list that a write touches: for up to a million keys, that
 * is four short lists.
 */
export type Standings = readonly (readonly (readonly (readonly Standing[])[])[])[]

const BITS = 5
const WIDTH = 2 ** BITS

/** Returns the path to a position, from the first list to the last. */
const wayTo = (slot: number) =>
  [slot >> (3 * BITS), (slot >> (2 * BITS)) % WIDTH, (slot >> BITS) % WIDTH, slot % WIDTH] as const

/** Returns the entry at a position, if there are that many keys. */
export function standingAt(standings: Standings, slot: number): Standing | undefined {
  const [first, second, third, last] = wayTo(slot)
  return standings[first]?.[second]?.[third]?.[last]
}

/** Returns all entries, in their order. */
export const allOf = (standings: Standings): Standing[] => standings.flat(3)

/** Counts the keys: all lists are full except the last of each level. */
export function countOf(standings: Standings): number {
  const second = standings.at(-1)
  const third = second?.at(-1)
  const last = third?.at(-1)
  if (!second || !third || !last) return 0
  return (((standings.length - 1) * WIDTH + second.length - 1) * WIDTH + third.length - 1) * WIDTH + last.length
}

/** Replaces the entry at a position, or adds one at the end. */
export function putStanding(draft: Draft<Standings>, slot: number, standing: Standing): void {
  const [first, second, third, last] = wayTo(slot)
  const seconds = draft[first]
  const thirds = seconds?.[second]
  const page = thirds?.[third]
  if (page) page[last] = standing
  else if (thirds) thirds.push([standing])
  else if (seconds) seconds.push([[standing]])
  else draft.push([[[standing]]])
}

/** Reads one state of a board. */
export class BoardView {
  /** Number of writes up to this state. */
  readonly revision: number
  readonly #standings: Standings
  readonly #slots: ReadonlyMap<string, number>

  /**
   * Creates the view. `slots` has the position of each key; it may contain keys of later writes, whose positions are
   * beyond the end here.
   */
  constructor(revision: number, standings: Standings, slots: ReadonlyMap<string, number>) {
    this.revision = revision
    this.#standings = standings
    this.#slots = slots
  }

  /** Number of keys: all that `read` finds, superseded ones too. */
  get size(): number {
    return countOf(this.#standings)
  }

  /** Returns the newest entry of a key, superseded or not. */
  read(key: string): BlackboardEntry | undefined {
    return this.#standing(key)?.entry
  }

  /**
   * Returns the valid entries, in the order in which they were last written. A filter keeps the entries that equal it
   * in each field that it sets. A superseded entry is left out, unless the filter names its key.
   */
  query({ key, entryType, author }: QueryFilter = {}): BlackboardEntry[] {
    return this.#candidates(key)
      .map((standing) => standing.entry)
      .filter((entry) => entryType === undefined || entry.entryType === entryType)
      .filter((entry) => author === undefined || entry.author === author)
  }

  /** Returns the value of each key that `query()` lists: the content of the board without superseded entries. */
  snapshot(): Record<string, unknown> {
    return Object.fromEntries(this.query().map((entry) => [entry.key, entry.value]))
  }

  #candidates(key: string | undefined): Standing[] {
    if (key === undefined) {
      const holding = allOf(this.#standings).filter((standing) => standing.supersededBy === null)
      return holding.sort((a, b) => a.revision - b.revision)
    }
    const named = this.#standing(key)
    return named === undefined ? [] : [named]
  }

  #standing(key: string): Standing | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : standingAt(this.#standings, slot)
  }
}

enablePatches()

export interface BoardOptions {
  /**
   * Receives the error that a subscriber threw (or its promise rejected with), and the entry it was called with. Must
   * not throw.
   */
  onCallbackError: (error: unknown, entry: BlackboardEntry) => void
}

/**
 * Shared knowledge: one entry per key, with all its versions.
 *
 * An entry may supersede the entry of another key. The superseded entry stays readable by its key and in its history,
 * but `query()` and `snapshot()` leave it out until its key is written again. Nothing else brings it back: neither a
 * new version of the entry that replaced it, nor an entry that supersedes that one in turn.
 *
 * @example
 * const board = new Board({ onCallbackError: (error) => console.error(error) })
 * board.write('scout', 'finding.1', { rows: 3 }, 'fact', { confidence: 0.8 }, Date.now())
 * board.read('finding.1')?.value // { rows: 3 }
 */
export class Board {
  readonly #subscriptions: Subscriptions
  /** Patches that undo each write: the first element leads from revision 1 to 0. */
  readonly #inverses: Patch[][] = []
  readonly #history = new Map<string, BlackboardEntry[]>()
  readonly #written: BlackboardEntry[] = []
  /** Position of each key; positions are never removed. */
  readonly #slots = new Map<string, number>()
  #standings: Standings = []
  #now = new BoardView(0, this.#standings, this.#slots)

  constructor({ onCallbackError }: BoardOptions) {
    this.#subscriptions = new Subscriptions(onCallbackError)
  }

  /** Number of writes so far. */
  get revision(): number {
    return this.#now.revision
  }

  /** Number of keys, superseded ones too. */
  get size(): number {
    return this.#now.size
  }

  /**
   * Writes the next version of a key and notifies the subscribers. `value` must be a JSON value, which the caller has
   * checked. It belongs to the board from then on: it is deeply frozen, not copied (a part that is frozen already is
   * left as it is). `at` is epoch ms.
   *
   * `references` may name keys that do not exist yet, because writers run in parallel. `supersedes` may not: to replace
   * a missing entry is a mistake.
   *
   * @throws MessageRejectedError if a part of the write is invalid (`details.path` says which), if `ifVersion` is not
   *   the key's version (`details` has `expected`, `actual` and `author`, the author of the actual version), or if
   *   `supersedes` is the key itself or unknown. The board is then unchanged.
   */
  write<T>(
    author: string,
    key: string,
    value: T,
    entryType: string,
    options: WriteOptions,
    at: number,
  ): BlackboardEntry<T> {
    checkWrite(key, entryType, options)
    const { confidence = 1, supersedes, references = [], ifVersion } = options
    const previous = this.#now.read(key)
    if (ifVersion !== undefined) checkVersion(author, key, ifVersion, previous)
    if (supersedes !== undefined) this.#checkSupersedes(key, supersedes)
    const entry: BlackboardEntry<T> = {
      key,
      value,
      author,
      timestamp: at,
      entryType,
      confidence,
      supersedes: supersedes ?? null,
      references: [...references],
      version: (previous?.version ?? 0) + 1,
    }
    this.#apply(freeze(entry, true))
    this.#subscriptions.deliver(entry)
    return entry
  }

  /** All entries, in the order in which they were written. */
  get written(): Iterable<BlackboardEntry> {
    return this.#written
  }

  /** Returns the newest entry of a key, superseded or not. */
  read(key: string): BlackboardEntry | undefined {
    return this.#now.read(key)
  }

  /**
   * Returns the valid entries, in the order in which they were last written. A filter keeps the entries that equal it
   * in each field that it sets. A superseded entry is left out, unless the filter names its key.
   */
  query(filter?: QueryFilter): BlackboardEntry[] {
    return this.#now.query(filter)
  }

  /** Returns the value of each key that `query()` lists. */
  snapshot(): Record<string, unknown> {
    return this.#now.snapshot()
  }

  /** Returns all versions of a key, the oldest first; an empty list for a key that was never written. */
  getHistory(key: string): BlackboardEntry[] {
    return [...(this.#history.get(key) ?? [])]
  }

  /**
   * Returns the whole board after that number of writes, from 0 to `revision`.
   *
   * @throws MessageRejectedError for any other number.
   */
  at(revision: number): BoardView {
    if (revision === this.revision) return this.#now
    if (!Number.isInteger(revision) || revision < 0 || revision > this.revision) {
      const message = `The blackboard has revisions 0 to ${this.revision}, not ${revision}.`
      throw new MessageRejectedError(message, { path: 'revision' })
    }
    const newestFirst = this.#inverses.slice(revision).reverse().flat()
    return new BoardView(revision, applyPatches(this.#standings, newestFirst), this.#slots)
  }

  /**
   * Calls back on each later write whose key matches the pattern, in order, before `write` returns. A write made by a
   * callback is delivered after the current one, so all subscribers see the same order. A callback that throws does not
   * affect the others. A callback that on each call writes a key it listens to never ends.
   *
   * @returns a function that ends the subscription.
   * @throws MessageRejectedError for an invalid pattern; see `compilePattern`.
   */
  subscribe(pattern: string, callback: EntryCallback): () => void {
    return this.#subscriptions.add(compilePattern(pattern), callback)
  }

  /**
   * Calls back once: immediately if the key exists, otherwise when it is first written.
   *
   * @returns a function that stops the wait.
   * @throws MessageRejectedError for an invalid key.
   */
  once(key: string, callback: EntryCallback): () => void {
    checkKey(key)
    const entry = this.#now.read(key)
    if (entry !== undefined) {
      this.#subscriptions.call(callback, entry)
      return () => {}
    }
    const stop = this.#subscriptions.add(
      (written) => written === key,
      (written) => {
        stop()
        return callback(written)
      },
    )
    return stop
  }

  /** Adds an entry that was written before, by an earlier process. Nobody is notified. */
  restore(entry: BlackboardEntry): void {
    this.#apply(freeze(entry, true))
  }

  #apply(entry: BlackboardEntry): void {
    const revision = this.revision + 1
    const slot = this.#slots.get(entry.key) ?? this.size
    const replacedSlot = this.#slots.get(entry.supersedes ?? '') ?? -1 // '' is never a key
    const replaced = standingAt(this.#standings, replacedSlot)
    const [standings, , inverse] = produceWithPatches(this.#standings, (draft) => {
      putStanding(draft, slot, new Standing(entry, revision))
      if (replaced) putStanding(draft, replacedSlot, new Standing(replaced.entry, replaced.revision, entry.key))
    })
    this.#slots.set(entry.key, slot)
    this.#standings = standings
    this.#now = new BoardView(revision, standings, this.#slots)
    this.#inverses.push(inverse)
    this.#written.push(entry)
    const versions = this.#history.get(entry.key)
    if (versions) versions.push(entry)
    else this.#history.set(entry.key, [entry])
  }

  #checkSupersedes(key: string, supersedes: string): void {
    const details = { path: 'supersedes', key, supersedes }
    if (supersedes === key) {
      const message = `"${key}" cannot supersede itself. Write it again: the new version replaces the old one.`
      throw new MessageRejectedError(message, details)
    }
    if (this.#slots.has(supersedes)) return
    const message = `"${key}" cannot supersede "${supersedes}": there is no such key on the blackboard.`
    throw new MessageRejectedError(message, details)
  }
}

function checkVersion(author: string, key: string, expected: number, previous: BlackboardEntry | undefined): void {
  const actual = previous?.version ?? 0
  if (actual === expected) return
  const found = previous ? `is at version ${actual}, written by "${previous.author}"` : 'does not exist (version 0)'
  throw new MessageRejectedError(
    `"${key}" ${found}; "${author}" expected version ${expected}. Read it again and decide anew.`,
    { path: 'ifVersion', key, expected, actual, author: previous?.author ?? null },
  )
}
