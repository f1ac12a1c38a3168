/** First-in-first-out queue with amortized constant cost. */
export class Queue<T> {
  #items: T[] = []
  #head = 0

  /** To be read only. A field, since it is asked for more often than anything else. */
  length = 0

  push(item: T): void {
    this.#items.push(item)
    this.length += 1
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    this.length -= 1
    if (this.length === 0) {
      this.#items.length = 0
      this.#head = 0
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  unshift(items: readonly T[]): void {
    this.#items = [...items, ...this.#items.slice(this.#head)]
    this.#head = 0
    this.length = this.#items.length
  }

  sort(compare: (a: T, b: T) => number): void {
    this.#items = this.#items.slice(this.#head).sort(compare)
    this.#head = 0
  }

  remove(item: T): boolean {
    if (this.#items[this.#head] === item) {
      this.shift()
      return true
    }
    const at = this.#items.indexOf(item, this.#head)
    if (at < 0) return false
    this.#items.splice(at, 1)
    this.length -= 1
    return true
  }

  find(fits: (item: T) => boolean): T | undefined {
    for (let i = this.#head; i < this.#items.length; i++) if (fits(this.#items[i]!)) return this.#items[i]
    return undefined
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!
  }
}
