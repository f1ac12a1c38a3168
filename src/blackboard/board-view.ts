/** A blackboard as it stood after one write. It never changes, so it can be kept, compared and shown later. */
import type { BlackboardEntry, QueryFilter } from './entry.ts'
import { allOf, countOf, type Standing, type Standings, standingAt } from './standings.ts'

/** Reads one state of a board. */
export class BoardView {
  /** How many writes had been made. */
  readonly revision: number
  readonly #standings: Standings
  readonly #slots: ReadonlyMap<string, number>

  /** `slots` is the place of each key; it may know keys of a later time, which are beyond the end here. */
  constructor(revision: number, standings: Standings, slots: ReadonlyMap<string, number>) {
    this.revision = revision
    this.#standings = standings
    this.#slots = slots
  }

  /** How many keys there are: all that `read` knows, superseded ones too. */
  get size(): number {
    return countOf(this.#standings)
  }

  /** The newest entry of a key, superseded or not. */
  read(key: string): BlackboardEntry | undefined {
    return this.#standing(key)?.entry
  }

  /**
   * The entries that hold, in the order in which they were last written. A filter keeps those that equal it in each
   * field that it states. A superseded entry is left out, unless `key` asks for it by name.
   */
  query({ key, entryType, author }: QueryFilter = {}): BlackboardEntry[] {
    return this.#candidates(key)
      .map((standing) => standing.entry)
      .filter((entry) => entryType === undefined || entry.entryType === entryType)
      .filter((entry) => author === undefined || entry.author === author)
  }

  /** The value of each key that `query()` lists: what the board says, without what it has taken back. */
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
