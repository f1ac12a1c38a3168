/**
 * Table of a line while it is made: a list of whole numbers for each column. It is made as long as the line before had
 * rows, because lists that grow row by row cost more than what is written into them.
 */
import type { Columns } from './digest-line.ts'

/** Rows that a table is made for at most: a line has about so many. */
const MOST_ROWS = 2_000

let zeros: readonly number[] = []

export class LineTable<Name extends string> {
  readonly #names: readonly Name[]
  #made: Columns<Name>
  /** Number of rows that it was made for. */
  #size = 0
  rows = 0

  constructor(...names: readonly Name[]) {
    this.#names = names
    this.#made = this.#make()
  }

  /** Columns to be written: each at the row `rows`, which grows by 1 then. */
  get columns(): Columns<Name> {
    return this.#made
  }

  /** Returns the rows and begins anew; undefined if there is none. */
  take(): Columns<Name> | undefined {
    if (this.rows === 0) return undefined
    const taken = this.#made
    if (this.rows < this.#size) for (const name of this.#names) taken[name].length = this.rows
    this.#size = Math.min(this.rows, MOST_ROWS)
    this.rows = 0
    this.#made = this.#make()
    return taken
  }

  #make(): Columns<Name> {
    if (zeros.length < this.#size) zeros = Array.from({ length: MOST_ROWS }, () => 0)
    return Object.fromEntries(this.#names.map((name) => [name, zeros.slice(0, this.#size)])) as Columns<Name>
  }
}
