/**
 * Table of a line while it is made. All lines are written into the same memory: when a line is taken, lists are made of
 * it, and only for columns that are no few runs. Most are at full speed, as messages come in blocks.
 */
import type { Column, Columns } from './digest-line.ts'

/** Rows that there is room for at first: a line has about so many. */
const ROWS = 2_048

/** Lists begin as a part of this one: a list that grows number by number costs more than what is written into it. */
let zeros: readonly number[] = Array.from({ length: ROWS }, () => 0)

/** Columns to write into. */
export type Written<Name extends string> = Readonly<Record<Name, Int32Array>>

export class LineTable<Name extends string> {
  readonly #names: readonly Name[]
  #columns: Written<Name>
  #size = ROWS
  /** Numbers that are no 32-bit numbers, with their places. */
  #large: { readonly column: Int32Array; readonly row: number; readonly value: number }[] = []
  rows = 0

  constructor(names: readonly Name[]) {
    this.#names = names
    this.#columns = columnsOf(names, ROWS)
  }

  /** Columns with room for that many rows more. Each is written at the row `rows`, which grows by 1 then. */
  roomFor(rows: number): Written<Name> {
    if (this.rows + rows > this.#size) this.#grow(this.rows + rows)
    return this.#columns
  }

  /** Writes a whole number that may be too large for its column. */
  put(column: Int32Array, row: number, value: number): void {
    column[row] = value
    if ((value | 0) !== value) this.#large.push({ column, row, value })
  }

  /** Returns the rows and begins anew; undefined if there is none. */
  take(): Columns<Name> | undefined {
    const { rows } = this
    if (rows === 0) return undefined
    const taken = { rows } as Columns<Name>
    for (const name of this.#names) (taken as Record<Name, Column>)[name] = this.#columnOf(this.#columns[name], rows)
    if (this.#large.length > 0) this.#large = []
    this.rows = 0
    return taken
  }

  #columnOf(values: Int32Array, rows: number): Column {
    const large = this.#large.length === 0 ? this.#large : this.#large.filter(({ column }) => column === values)
    if (large.length === 0) return columnOf(values, rows)
    const list = listOf(values, rows)
    for (const { row, value } of large) list[row] = value
    return list
  }

  #grow(rows: number): void {
    const before = this.#columns
    this.#size = Math.max(this.#size * 2, rows)
    this.#columns = columnsOf(this.#names, this.#size)
    for (const name of this.#names) {
      this.#columns[name].set(before[name])
      this.#large = this.#large.map((large) =>
        large.column === before[name] ? { ...large, column: this.#columns[name] } : large,
      )
    }
  }
}

const columnsOf = <Name extends string>(names: readonly Name[], rows: number): Written<Name> =>
  Object.fromEntries(names.map((name) => [name, new Int32Array(rows)])) as Record<Name, Int32Array>

function columnOf(values: Int32Array, rows: number): Column {
  const count = runsOf(values, rows)
  if (count === RUN && runs[1] === 0) return values[0]!
  return count * 2 <= rows ? { runs: listOf(runs, count) } : listOf(values, rows)
}

/** Numbers of a run: its first number, the step to each next one, and its length. */
const RUN = 3
let runs = new Int32Array(ROWS)

/** Writes the values as runs. Returns the length of these, as far as they are to be used. */
function runsOf(values: Int32Array, rows: number): number {
  if (runs.length < rows) runs = new Int32Array(rows)
  const most = Math.max(RUN, rows >> 1)
  let count = 0
  for (let row = 0; row < rows; count += RUN) {
    if (count >= most) return rows
    const first = values[row]!
    const step = row + 1 < rows ? (values[row + 1]! - first) | 0 : 0
    let next = first
    const from = row
    do {
      row += 1
      next += step
    } while (row < rows && values[row] === next)
    runs[count] = first
    runs[count + 1] = step
    runs[count + 2] = row - from
  }
  return count
}

function listOf(values: Int32Array, rows: number): number[] {
  if (zeros.length < rows) zeros = Array.from({ length: rows }, () => 0)
  const list = zeros.slice(0, rows)
  for (let row = 0; row < rows; row++) list[row] = values[row]!
  return list
}
