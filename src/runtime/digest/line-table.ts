/**
 * Table of a line while it is made. It is written stretch by stretch: rows whose columns differ by equal steps, mostly
 * by none. At full speed messages come so, dozens in a stretch, and each costs a comparison.
 */
import type { Column, Columns } from './digest-line.ts'

/** Stretches that there is room for at first: a line has about so many at full speed. */
const STRETCHES = 256

/** Numbers of a run: its first number, the step to each next one, and its length. */
const RUN = 3

/** Lists begin as a part of this one: a list that grows number by number costs more than what is written into it. */
let zeros = zerosOf(2_048)

/** A number of each stretch, in columns. */
export type Written<Name extends string> = Readonly<Record<Name, Float64Array>>

export class LineTable<Name extends string> {
  readonly #names: readonly Name[]
  #first: Written<Name>
  #steps: Written<Name>
  #lengths = new Int32Array(STRETCHES)
  #stretches = 0
  #rows = 0

  constructor(names: readonly Name[]) {
    this.#names = names
    this.#first = columnsOf(names, STRETCHES)
    this.#steps = columnsOf(names, STRETCHES)
  }

  get rows(): number {
    return this.#rows
  }

  /** Adds a stretch of one row. Returns its place: all columns of `first` are to be written there. */
  add(): number {
    const at = this.#stretches
    if (at === this.#lengths.length) this.#grow()
    this.#lengths[at] = 1
    this.#stretches = at + 1
    this.#rows += 1
    return at
  }

  /** Makes the last stretch longer, to more than one row. Returns its place, to write what it has in `steps`. */
  lengthen(rows: number): number {
    const at = this.#stretches - 1
    this.#rows += rows - this.#lengths[at]!
    this.#lengths[at] = rows
    return at
  }

  /** First rows of the stretches. */
  get first(): Written<Name> {
    return this.#first
  }

  /** Differences from row to row of a stretch. A column is written for each longer stretch, or never: it is 0 then. */
  get steps(): Written<Name> {
    return this.#steps
  }

  /** Returns the rows and begins anew; undefined if there is none. */
  take(): Columns<Name> | undefined {
    if (this.#rows === 0) return undefined
    const taken = { rows: this.#rows } as Columns<Name>
    for (const name of this.#names)
      (taken as Record<Name, Column>)[name] = this.#columnOf(this.#first[name], this.#steps[name])
    this.#stretches = 0
    this.#rows = 0
    return taken
  }

  #columnOf(values: Float64Array, steps: Float64Array): Column {
    const runs = this.#runsOf(values, steps)
    if (runs.length === RUN && runs[1] === 0) return runs[0]!
    return runs.length * 2 <= this.#rows ? { runs } : this.#listOf(values, steps)
  }

  /** Joins stretches to runs, as long as these are few. */
  #runsOf(values: Float64Array, steps: Float64Array): number[] {
    const lengths = this.#lengths
    const stretches = this.#stretches
    const most = this.#rows >> 1
    const runs: number[] = []
    let first = values[0]!
    let step = steps[0]!
    let length = lengths[0]!
    for (let at = 1; at < stretches && runs.length <= most; at++) {
      const rows = lengths[at]!
      if (length === 1) step = values[at]! - first
      if (values[at] === first + step * length && (rows === 1 || steps[at] === step)) {
        length += rows
        continue
      }
      runs.push(first, length === 1 ? 0 : step, length)
      first = values[at]!
      step = steps[at]!
      length = rows
    }
    runs.push(first, length === 1 ? 0 : step, length)
    return runs
  }

  #listOf(values: Float64Array, steps: Float64Array): number[] {
    if (zeros.length < this.#rows) zeros = zerosOf(this.#rows)
    const list = zeros.slice(0, this.#rows)
    let row = 0
    for (let at = 0; at < this.#stretches; at++) {
      const end = row + this.#lengths[at]!
      for (let value = values[at]!; row < end; value += steps[at]!) list[row++] = value
    }
    return list
  }

  #grow(): void {
    const [first, steps, lengths] = [this.#first, this.#steps, this.#lengths]
    const size = lengths.length * 2
    this.#first = columnsOf(this.#names, size)
    this.#steps = columnsOf(this.#names, size)
    this.#lengths = new Int32Array(size)
    this.#lengths.set(lengths)
    for (const name of this.#names) {
      this.#first[name].set(first[name])
      this.#steps[name].set(steps[name])
    }
  }
}

const columnsOf = <Name extends string>(names: readonly Name[], size: number): Written<Name> =>
  Object.fromEntries(names.map((name) => [name, new Float64Array(size)])) as Record<Name, Float64Array>

function zerosOf(length: number): number[] {
  return Array.from({ length }, () => 0)
}
