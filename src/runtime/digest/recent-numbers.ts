/** Numbers by keys, of which the oldest are forgotten: at least the last `most` are there. */
export class RecentNumbers {
  readonly #most: number
  #recent = new Map<number, number>()
  #older = new Map<number, number>()

  constructor(most = 20_000) {
    this.#most = most
  }

  set(key: number, value: number): void {
    if (this.#recent.size >= this.#most) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(key, value)
  }

  get(key: number): number | undefined {
    return this.#recent.get(key) ?? this.#older.get(key)
  }
}
