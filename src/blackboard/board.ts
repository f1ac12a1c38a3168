/**
 * The blackboard itself: one store in the host, synchronous, so that two writes never overlap. Immer keeps what stands
 * and, for each write, the patches that take it back; the board of any earlier moment is today's with those applied.
 */
import { applyPatches, enablePatches, freeze, type Patch, produceWithPatches } from 'immer'
import { MessageRejectedError } from '../errors.ts'
import { BoardView } from './board-view.ts'
import { checkKey, checkWrite } from './check-write.ts'
import type { BlackboardEntry, QueryFilter, WriteOptions } from './entry.ts'
import { compilePattern } from './pattern.ts'
import { putStanding, Standing, type Standings, standingAt } from './standings.ts'
import { type EntryCallback, Subscriptions } from './subscriptions.ts'

enablePatches()

export interface BoardOptions {
  /** Is given what a subscriber threw (or its promise rejected with), and the entry it was told of. Must not throw. */
  onCallbackError: (error: unknown, entry: BlackboardEntry) => void
}

/**
 * Shared knowledge: one entry a key, with all its versions.
 *
 * An entry may supersede another key's. That one then stays readable by its key and in its history, but `query()` and
 * `snapshot()` leave it out until its key is written anew. Nothing else brings it back: not a new version of the entry
 * that replaced it, nor that one being superseded in turn.
 *
 * @example
 * const board = new Board({ onCallbackError: (error) => console.error(error) })
 * board.write('scout', 'finding.1', { rows: 3 }, 'fact', { confidence: 0.8 }, Date.now())
 * board.read('finding.1')?.value // { rows: 3 }
 */
export class Board {
  readonly #subscriptions: Subscriptions
  /** What takes each write back: the first leads from revision 1 to 0. */
  readonly #inverses: Patch[][] = []
  readonly #history = new Map<string, BlackboardEntry[]>()
  /** The place of each key; only ever grows. */
  readonly #slots = new Map<string, number>()
  #standings: Standings = []
  #now = new BoardView(0, this.#standings, this.#slots)

  constructor({ onCallbackError }: BoardOptions) {
    this.#subscriptions = new Subscriptions(onCallbackError)
  }

  /** How many writes there were. */
  get revision(): number {
    return this.#now.revision
  }

  /** How many keys there are, superseded ones too. */
  get size(): number {
    return this.#now.size
  }

  /**
   * Writes the next version of a key and tells the subscribers. `value` must be a JSON value, which the caller has
   * checked, and belongs to the board from then on: it is frozen through and through, not copied (a part that is
   * frozen already is left as it is). `at` is epoch ms.
   *
   * `references` may name keys that are not there yet, since writers run side by side. `supersedes` may not: to replace
   * what nobody wrote is a slip.
   *
   * @throws MessageRejectedError if a part of it is not as it should be (`details.path` says which), if `ifVersion` is
   * not the key's version (`details` has `expected`, `actual` and `author`, who wrote that one), or if `supersedes` is
   * the key itself or unknown. The board is then as before.
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

  /** The newest entry of a key, superseded or not. */
  read(key: string): BlackboardEntry | undefined {
    return this.#now.read(key)
  }

  /**
   * The entries that hold, in the order in which they were last written. A filter keeps those that equal it in each
   * field that it states. A superseded entry is left out, unless `key` asks for it by name.
   */
  query(filter?: QueryFilter): BlackboardEntry[] {
    return this.#now.query(filter)
  }

  /** The value of each key that `query()` lists. */
  snapshot(): Record<string, unknown> {
    return this.#now.snapshot()
  }

  /** All versions of a key, the oldest first; none for a key that nobody wrote. */
  getHistory(key: string): BlackboardEntry[] {
    return [...(this.#history.get(key) ?? [])]
  }

  /**
   * The whole board as it stood after that many writes, from 0 to `revision`.
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
   * Calls back on each write from now on whose key fits the pattern, in order, before `write` returns. A write made by
   * a callback is delivered after the one under way, so everybody sees the same order. A callback that throws harms
   * nobody. One that writes what it listens to, each time, never ends.
   *
   * @returns ends the subscription.
   * @throws MessageRejectedError for a pattern that is none; see `compilePattern`.
   */
  subscribe(pattern: string, callback: EntryCallback): () => void {
    return this.#subscriptions.add(compilePattern(pattern), callback)
  }

  /**
   * Calls back once: at once if the key is there, else when it is first written.
   *
   * @returns gives up waiting.
   * @throws MessageRejectedError for a key that no entry can have.
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

  #apply(entry: BlackboardEntry): void {
    const revision = this.revision + 1
    const slot = this.#slots.get(entry.key) ?? this.size
    const replacedSlot = this.#slots.get(entry.supersedes ?? '') ?? -1 // no key is empty
    const replaced = standingAt(this.#standings, replacedSlot)
    const [standings, , inverse] = produceWithPatches(this.#standings, (draft) => {
      putStanding(draft, slot, new Standing(entry, revision))
      if (replaced) putStanding(draft, replacedSlot, new Standing(replaced.entry, replaced.revision, entry.key))
    })
    this.#slots.set(entry.key, slot)
    this.#standings = standings
    this.#now = new BoardView(revision, standings, this.#slots)
    this.#inverses.push(inverse)
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
