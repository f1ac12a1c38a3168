/** Map that drops its oldest entry when it is full. For entries that are usually removed, but in rare cases are not. */
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
