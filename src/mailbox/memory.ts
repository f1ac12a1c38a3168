/**
 * Buffer's own functions for copies between strings and bytes. `write` and `toString` end in them, after checks that
 * are skipped here.
 */
export interface TextBytes extends Uint8Array {
  latin1Write(text: string, at: number, bytes: number): number
  ucs2Write(text: string, at: number, bytes: number): number
  latin1Slice(from: number, to: number): string
  ucs2Slice(from: number, to: number): string
  compare(other: Uint8Array, from: number, to: number, ownFrom: number, ownTo: number): number
  fill(value: number | Uint8Array, from?: number, to?: number): this
}

/** A block of memory with the views that the codec needs. `at` offsets are in bytes from its start. */
export interface Memory {
  readonly u8: Uint8Array
  readonly i32: Int32Array
  readonly f64: Float64Array
  /** Writes and reads strings as latin1 and UTF-16 without conversion, so lone surrogates survive. */
  readonly text: TextBytes
}

/** Returns views on `bytes` bytes of `buffer` from `start`, which must be a multiple of 8. */
export function memoryOn(
  buffer: ArrayBuffer | SharedArrayBuffer,
  start = 0,
  bytes = buffer.byteLength - start,
): Memory {
  return {
    u8: new Uint8Array(buffer, start, bytes),
    i32: new Int32Array(buffer, start, bytes >> 2),
    f64: new Float64Array(buffer, start, bytes >> 3),
    text: textBytes(buffer, start, bytes),
  }
}

function textBytes(buffer: ArrayBuffer | SharedArrayBuffer, start: number, bytes: number): TextBytes {
  const text: object = Buffer.from(buffer as ArrayBuffer, start, bytes)
  return text as TextBytes
}

/** Memory for up to that many bytes shares a buffer with other small memory: a buffer costs more than its views. */
const SMALL = 1_024

/** Allocates private memory for at least `bytes` bytes. */
export function allocate(bytes: number): Memory {
  const size = (bytes + 7) & ~7
  // Node keeps each place in its shared buffers a multiple of 8.
  const { buffer, byteOffset } = size <= SMALL ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size)
  return memoryOn(buffer, byteOffset, size)
}

/** From so many bytes on `fill` copies faster than `set`, though its call costs more. */
const LARGE = 8_192

/**
 * Copies bytes into other memory. V8's `set` copies word by word if either side is shared, which takes twice the time
 * of the `memcpy` that is under `fill`.
 */
export function copyBytes(from: Uint8Array, to: Memory, at: number): void {
  if (from.length < LARGE) to.u8.set(from, at)
  else to.text.fill(from, at, at + from.length)
}

const NOTHING = memoryOn(new ArrayBuffer(0))

/**
 * Returns a new `Memory` on the same bytes and empties the old object. Code that still holds the old object cannot read
 * what is written from now on.
 */
export function renewed(memory: Memory): Memory {
  const { buffer, byteOffset, byteLength } = memory.u8
  Object.assign(memory, NOTHING)
  return memoryOn(buffer, byteOffset, byteLength)
}
