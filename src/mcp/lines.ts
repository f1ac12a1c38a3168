/** Cuts what comes in chunks into lines, in time linear in its bytes however small the chunks are. */
const LF = 0x0a

export class Lines {
  #parts: Uint8Array[] = []
  #pending = 0

  /** Bytes of the line that is not over yet. */
  get pending(): number {
    return this.#pending
  }

  /** The lines that are whole with this chunk, without their ends. */
  *take(chunk: Uint8Array): Generator<Buffer> {
    let from = 0
    for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, at))
      from = at + 1
      yield this.#line()
    }
    this.#add(chunk.subarray(from))
  }

  /** Lets go of what is not a line yet. */
  drop(): void {
    this.#parts = []
    this.#pending = 0
  }

  #add(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.#parts.push(bytes)
    this.#pending += bytes.length
  }

  #line(): Buffer {
    const line = Buffer.concat(this.#parts)
    this.#parts = []
    this.#pending = 0
    return line
  }
}
