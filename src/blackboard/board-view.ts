/** State of a blackboard after one write. It never changes, so it can be kept, compared and shown later. */
import type { BlackboardEntry, QueryFilter } from './entry.ts'
import { allOf, countOf, type Standing, type Standings, standingAt } from './standings.ts'

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
