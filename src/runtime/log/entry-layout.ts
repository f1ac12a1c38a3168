/**
 * Layout of the entries of a durable log. Frames are written as they are in memory: their layout (frame.ts) is part of
 * the format.
 *
 *     entry   kind u32 (1 frames, 2 record, 3 difference, 4 part, 5 copies) | body u32 (bytes) | run u32 | frames u32 |
 *             seq f64 | at f64 | body; zeros up to a multiple of 8
 *     difference, the body   seq of the frame before f64 | prefix u32 | suffix u32 (bytes that both prompts have) |
 *             the frame up to its prompt | what stands between prefix and suffix
 *     copies, the body       bytes of the frame or record when it is written whole u32 | bytes of the pieces u32 |
 *             the other run that it has copies of u32, or 0 | zeros u32 | the pieces | their own bytes. `frames` is 1
 *             for a frame, 0 for a record
 *     piece   numbers of 7 bits a byte, the lowest first: length * 2; or length * 2 + 1, the numbers between the entry
 *             and that which it is a copy of, and the place in the text of that
 *     part, the body         SHA-256 of the bytes, 32 bytes | the bytes
 */
import type { LogEntry } from './records.ts'

export const HEADER_BYTES = 32
export const FRAMES = 1
export const RECORD = 2
export const DIFFERENCE = 3
export const PART = 4
export const COPIES = 5
const ALIGNMENT = 8

/** Numbers that the header of an entry has. */
export type Numbers = Pick<LogEntry, 'run' | 'seq' | 'at'>

/** Entry as it is written: `bytes` are those of its body. */
export interface Written extends Numbers {
  readonly kind: number
  readonly frames: number
  readonly body: readonly Uint8Array[]
  readonly bytes: number
}

/** Place of an encoded entry among the bytes of a block, and the numbers that its header has. */
export interface EntrySpan {
  readonly run: number
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  readonly from: number
  readonly to: number
}

/** Finds the entries in what an encoder has written, without decoding them. */
export function* entrySpans(bytes: Uint8Array): Generator<EntrySpan> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let from = 0; from < view.length; ) {
    const to = from + HEADER_BYTES + aligned(view.readUInt32LE(from + 4))
    yield {
      run: view.readUInt32LE(from + 8),
      seq: view.readDoubleLE(from + 16),
      at: view.readDoubleLE(from + 24),
      from,
      to,
    }
    from = to
  }
}

/** Length of a body with the zeros behind it. */
export function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}
