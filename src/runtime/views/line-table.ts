/**
 * Table of a line while it is made. It is written stretch by stretch: rows whose columns differ by equal steps, mostly
 * by none. At full speed messages come so, dozens in a stretch, and each costs a comparison.
 */
import type { Column, Columns } from './digest-line.ts'

/**
 * Places of agents' names in a digest's table, by the indices that frames have. An index can get another name, but not
 * within one block: so a name is looked up once for each block that has it.
 */
export class AgentPlaces {
  readonly #agents: { name(index: number): string }
  readonly #table: { placeOf(name: string): number }
  readonly #names: string[] = []
  #places = new Int32Array(64)
  /** Number of the block in which each was looked up. */
  #blocks = new Float64Array(64)
  #block = 0

  constructor(agents: { name(index: number): string }, table: { placeOf(name: string): number }) {
    this.#agents = agents
    this.#table = table
  }

  beginBlock(): void {
    this.#block += 1
  }

  of(index: number): number {
    return this.#blocks[index] === this.#block ? this.#places[index]! : this.#lookedUp(index)
  }

  #lookedUp(index: number): number {
    const name = this.#agents.name(index)
    if (index >= this.#places.length) this.#grow(index + 1)
    if (this.#names[index] !== name) {
      this.#names[index] = name
      this.#places[index] = this.#table.placeOf(name)
    }
    this.#blocks[index] = this.#block
    return this.#places[index]!
  }

  #grow(size: number): void {
    const [places, blocks] = [this.#places, this.#blocks]
    const length = Math.max(size, places.length * 2)
    this.#places = new Int32Array(length)
    this.#blocks = new Float64Array(length)
    this.#places.set(places)
    this.#blocks.set(blocks)
  }
}

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

  get first(): Written<Name> {
    return this.#first
  }

  /** Differences from row to row of a stretch. A column is written for each longer stretch, or never: it is 0 then. */
  get steps(): Written<Name> {
    return this.#steps
  }

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

/**
 * Numbers by keys of two words, of which older ones are forgotten. One block of memory of fixed size in place of a map:
 * an entry costs some nanoseconds, and nothing to collect.
 */
const PLACES = 2 ** 15
/** Places that a key may be at: the one with the lowest number is taken. Together they are a line of the cache. */
const WAYS = 4
const SETS = PLACES / WAYS
/** Words of a place: two of the key, then the number. */
const WORDS = 4

export class RecentNumbers {
  readonly #keys: Int32Array
  readonly #numbers: Float64Array

  constructor() {
    const memory = new ArrayBuffer(PLACES * WORDS * Int32Array.BYTES_PER_ELEMENT)
    this.#keys = new Int32Array(memory)
    this.#numbers = new Float64Array(memory)
    for (let place = 0; place < PLACES; place++) this.#numbers[place * 2 + 1] = -1
  }

  /**
   * Adds a number, which is above all earlier ones. `serial`: what differs by 1 from one key of a source to the next.
   * Such keys lie side by side.
   */
  set(serial: number, high: number, low: number, number: number): void {
    const keys = this.#keys
    const numbers = this.#numbers
    const first = firstPlace(serial, low)
    let oldest = first
    for (let place = first + 1; place < first + WAYS; place++)
      if (numbers[place * 2 + 1]! < numbers[oldest * 2 + 1]!) oldest = place
    keys[oldest * WORDS] = high
    keys[oldest * WORDS + 1] = low
    numbers[oldest * 2 + 1] = number
  }

  /** Returns the number of a key; -1 if there is none, or it is forgotten. */
  get(serial: number, high: number, low: number): number {
    const keys = this.#keys
    const first = firstPlace(serial, low)
    let place = first + WAYS
    while (--place >= first)
      if (keys[place * WORDS] === high && keys[place * WORDS + 1] === low) return this.#numbers[place * 2 + 1]!
    return -1
  }
}

const firstPlace = (serial: number, source: number): number =>
  ((serial + (Math.imul(source, 0x9e37_79b1) >>> 19)) & (SETS - 1)) * WAYS
