/** A map that gives its oldest entry up when it is full: for what is mostly taken out again, and once in a while is not. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: Key, value: Value): this {
    super.set(key, value)
    if (this.size > this.#most)
      for (const oldest of this.keys()) {
        this.delete(oldest)
        break
      }
    return this
  }
}
