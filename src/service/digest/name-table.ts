/**
 * Names that rows of a digest have as numbers. Lines number the names anew after each snapshot; the table keeps one
 * number for a name as long as a row has it. It uses nothing of Node or of a browser.
 */
import { NONE } from '../../runtime/digest/digest-line.ts'
import type { Column } from './columns.ts'

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

  /** Adds the next name of the lines. */
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

  /** Returns a name by its number in the lines. */
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
