/** Tables of numbers that grow: a column each, as readers of many rows want them. */
import { type Columns, NONE, type Column as Numbers } from '../../runtime/views/digest-line.ts'

const FIRST_ROWS = 64

/** Returns the number of places, from 0 on, at which that holds: behind them it holds nowhere. */
export function countWhile(length: number, holds: (place: number) => boolean): number {
  let low = 0
  let high = length
  while (low < high) {
    const middle = (low + high) >> 1
    if (holds(middle)) low = middle + 1
    else high = middle
  }
  return low
}

/** Numbers in one array that doubles when it is full. */
export class Column {
  #values = new Float64Array(FIRST_ROWS)
  length = 0

  push(value: number): void {
    if (this.length === this.#values.length) {
      const larger = new Float64Array(this.length * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.length++] = value
  }

  /** Adds a value to values that ascend, behind those that are not above it. */
  insert(value: number): void {
    this.push(value)
    let row = this.length - 1
    for (; row > 0 && this.#values[row - 1]! > value; row--) this.#values[row] = this.#values[row - 1]!
    this.#values[row] = value
  }

  /** Returns the value of a row; NaN for one that is not there. */
  at(row: number): number {
    return row >= 0 && row < this.length ? this.#values[row]! : Number.NaN
  }

  put(row: number, value: number): void {
    this.#values[row] = value
  }

  drop(rows: number): void {
    this.#values.copyWithin(0, rows, this.length)
    this.length -= rows
  }

  /** Returns the number of values that are at most that one. They ascend. */
  countUpTo(value: number): number {
    return countWhile(this.length, (row) => this.#values[row]! <= value)
  }
}

export class Table<Name extends string> {
  readonly columns: Readonly<Record<Name, Column>>
  dropped = 0

  constructor(names: readonly Name[]) {
    this.columns = Object.fromEntries(names.map((name) => [name, new Column()])) as Record<Name, Column>
  }

  get length(): number {
    const [column] = Object.values<Column>(this.columns)
    return column?.length ?? 0
  }

  /** Drops the oldest rows if there are more than `most`, and some more at once. Returns whether it did. */
  bound(most: number): boolean {
    if (this.length <= most) return false
    const rows = this.length - (most >> 1)
    for (const column of Object.values<Column>(this.columns)) column.drop(rows)
    this.dropped += rows
    return true
  }
}

/** Returns a number for each row of all columns of a line's table. */
export function listsOf<Name extends string>({ rows, ...columns }: Columns<Name>): Record<Name, readonly number[]> {
  const lists = Object.entries<Numbers>(columns).map(([name, column]) => [name, listOf(column, rows)])
  return Object.fromEntries(lists)
}

function listOf(column: Numbers, rows: number): readonly number[] {
  if (Array.isArray(column)) return column
  const { runs } = typeof column === 'number' ? { runs: [column, 0, rows] } : column
  const list: number[] = []
  for (let at = 0; at < runs.length; at += 3) {
    const [first, step, length] = [runs[at]!, runs[at + 1]!, runs[at + 2]!]
    for (let i = 0; i < length; i++) list.push(first + i * step)
  }
  return list
}

/*
 * Names that rows of a digest have as numbers. Lines number the names anew after each snapshot; the table keeps one
 * number for a name as long as a row has it. It uses nothing of Node or of a browser.
 */

export class NameTable {
  /** By their place, which is the number that rows have. */
  readonly names: string[] = []
  readonly #known = new Map<string, number>()
  /** Place of each name of the lines since the last snapshot. */
  #places: number[] = []
  readonly #leastMost: number
  #most: number

  /** `most`: number of names beyond which the table is full, unless rows have more. */
  constructor(most: number) {
    this.#leastMost = most
    this.#most = most
  }

  get isFull(): boolean {
    return this.names.length > this.#most
  }

  /** Forgets the numbers of the lines: the next lines begin with 0 again. */
  beginAnew(): void {
    this.#places = []
  }

  read(name: string): void {
    let place = this.#known.get(name)
    if (place === undefined) {
      place = this.names.push(name) - 1
      this.#known.set(name, place)
    }
    this.#places.push(place)
  }

  /** Returns the place of a name by its number in the lines; `NONE` if there is none. */
  placeOf(number: number): number {
    return number === NONE ? NONE : (this.#places[number] ?? NONE)
  }

  nameOf(number: number): string | undefined {
    return this.names[this.placeOf(number)]
  }

  /**
   * Drops names that these columns do not have and that no later line can have: each run has one. The columns get the
   * new places.
   */
  keepThoseOf(columns: readonly Column[]): void {
    const used = new Set(this.#places)
    for (const column of columns) for (let row = 0; row < column.length; row++) used.add(column.at(row))
    used.delete(NONE)
    const places = new Map<number, number>()
    for (const place of [...used].sort((one, other) => one - other)) {
      this.names[places.size] = this.names[place]!
      places.set(place, places.size)
    }
    this.names.length = places.size
    this.#known.clear()
    for (const [place, name] of this.names.entries()) this.#known.set(name, place)
    const moved = (place: number) => places.get(place) ?? NONE
    this.#places = this.#places.map(moved)
    for (const column of columns) for (let row = 0; row < column.length; row++) column.put(row, moved(column.at(row)))
    this.#most = Math.max(this.#leastMost, 2 * this.names.length)
  }
}
