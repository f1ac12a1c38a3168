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
