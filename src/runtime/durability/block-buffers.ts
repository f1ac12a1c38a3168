/**
 * Buffers for the entries of blocks, each used again when its block is written. A new one for each block would keep the
 * garbage collector busy.
 */
const LEAST_BYTES = 2 ** 16
/** Bytes of the buffers that are kept, all together. */
const KEPT_BYTES = 2 ** 24

export class BlockBuffers {
  /** Buffers that nobody has, the smallest first. */
  readonly #free: Buffer[] = []

  /** Returns a buffer with at least so many bytes, whatever they are. */
  readonly take = (bytes: number): Buffer => {
    const at = this.#free.findIndex(({ length }) => length >= bytes)
    if (at >= 0) return this.#free.splice(at, 1)[0]!
    return Buffer.allocUnsafeSlow(Math.max(LEAST_BYTES, 2 ** Math.ceil(Math.log2(bytes))))
  }

  /** Takes back the buffer of a block that is written. Where they are too many, the smallest go. */
  giveBack({ buffer }: Uint8Array): void {
    if (buffer.byteLength > KEPT_BYTES) return
    this.#free.push(Buffer.from(buffer))
    this.#free.sort((one, other) => one.length - other.length)
    let bytes = this.#free.reduce((sum, { length }) => sum + length, 0)
    while (bytes > KEPT_BYTES) bytes -= this.#free.shift()!.length
  }
}
