/** Printed text of which the first and the last part are kept: the beginning says what it does, the end how it went. */
export class BoundedOutput {
  readonly #most: number
  readonly #head: Buffer[] = []
  readonly #tail: Buffer[] = []
  #headBytes = 0
  #tailBytes = 0
  #left = 0

  /** @param most bytes of the head, and as many of the tail. */
  constructor(most: number) {
    this.#most = most
  }

  add(chunk: Buffer): void {
    const toHead = chunk.subarray(0, this.#most - this.#headBytes)
    const toTail = chunk.subarray(toHead.length)
    if (toHead.length > 0) this.#head.push(toHead)
    this.#headBytes += toHead.length
    if (toTail.length === 0) return
    this.#tail.push(toTail)
    this.#tailBytes += toTail.length
    while (this.#tailBytes > this.#most) this.#dropOldest()
  }

  toString(): string {
    if (this.#left === 0) return Buffer.concat([...this.#head, ...this.#tail]).toString()
    const note = `\n[... ${this.#left} bytes left out ...]\n`
    return Buffer.concat(this.#head).toString() + note + Buffer.concat(this.#tail).toString()
  }

  #dropOldest(): void {
    const over = this.#tailBytes - this.#most
    const oldest = this.#tail.shift()!
    const kept = oldest.subarray(over)
    if (kept.length > 0) this.#tail.unshift(Buffer.from(kept)) // a copy: the chunk's memory can go
    this.#tailBytes -= oldest.length - kept.length
    this.#left += oldest.length - kept.length
  }
}
