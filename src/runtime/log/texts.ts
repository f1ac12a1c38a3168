/**
 * Texts that a log has: the plain forms of its large entries (plain-form.ts). Later entries of a run are written as
 * copies of pieces of them. Who writes and who reads see the same entries in the same order, and keep the same texts.
 */
import type { HostRecord } from './records.ts'

/** Bytes of an entry from which on it is a text. */
export const LEAST_TEXT = 320

/** Bytes of the entries that are kept as texts, all together: a copy is of nothing older. */
export const MOST_BYTES = 2 ** 26
/** Bytes of texts that are at hand. Others are put together again when they are asked for. */
const MOST_AT_HAND = 2 ** 25

/** Piece of a text: `length` bytes from byte `at` on, which stand in `source` from `from` on. */
export interface Piece {
  readonly at: number
  readonly length: number
  readonly source: Text | Uint8Array
  readonly from: number
}

export interface Text {
  /** Number and run of its entry, and the bytes of that when it is written whole. */
  readonly seq: number
  readonly run: number
  readonly entryBytes: number
  /** Pieces that it is put together from, in their order, or a function that makes it anew. */
  readonly origin: readonly Piece[] | (() => Buffer)
}

/** Text that is put together from pieces. */
export type PutText = Text & { readonly origin: readonly Piece[] }

export class Texts {
  /** By their numbers, the oldest first. */
  readonly #kept = new Map<number, Text>()
  readonly #ofRuns = new Map<number, Set<Text>>()
  #bytes = 0
  /** Texts that are at hand, the one that was asked for first is first. */
  readonly #atHand = new Map<Text, Buffer>()
  #bytesAtHand = 0
  readonly #over: (run: number) => void

  /** `over`: called when a run has no texts any more. */
  constructor(over: (run: number) => void = () => {}) {
    this.#over = over
  }

  add(text: Text): void {
    this.#kept.set(text.seq, text)
    this.#bytes += text.entryBytes
    const ofRun = this.#ofRuns.get(text.run)
    if (ofRun) ofRun.add(text)
    else this.#ofRuns.set(text.run, new Set([text]))
    for (const oldest of this.#kept.values()) {
      if (this.#bytes <= MOST_BYTES) break
      this.#drop(oldest)
    }
  }

  /** Returns the text with that number, if it is kept. */
  get(seq: number): Text | undefined {
    return this.#kept.get(seq)
  }

  /** Reads a record: what was said in a run that is over is not needed any more. */
  see(record: HostRecord): void {
    if (record.kind === 'run.finished') this.#forget(record.run)
    else if (record.kind === 'runs.gone') for (const run of record.runs) this.#forget(run)
  }

  #forget(run: number): void {
    for (const text of this.#ofRuns.get(run) ?? []) this.#drop(text)
  }

  #drop(text: Text): void {
    this.#kept.delete(text.seq)
    this.#bytes -= text.entryBytes
    this.#putAway(text)
    const ofRun = this.#ofRuns.get(text.run)
    ofRun?.delete(text)
    if (ofRun?.size !== 0) return
    this.#ofRuns.delete(text.run)
    this.#over(text.run)
  }

  /** Returns the bytes of a text. */
  bytesOf(text: Text): Buffer {
    const known = this.#atHand.get(text)
    if (known) return known
    const bytes = typeof text.origin === 'function' ? text.origin() : this.put(text.origin)
    this.keepAtHand(text, bytes)
    return bytes
  }

  keepAtHand(text: Text, bytes: Buffer): void {
    this.#atHand.set(text, bytes)
    this.#bytesAtHand += bytes.length
    for (const first of this.#atHand.keys()) {
      if (this.#bytesAtHand <= MOST_AT_HAND) break
      if (first !== text) this.#putAway(first)
    }
  }

  #putAway(text: Text): void {
    this.#bytesAtHand -= this.#atHand.get(text)?.length ?? 0
    this.#atHand.delete(text)
  }

  /**
   * Puts pieces together. Those of other texts may be copies in turn, and so on: as deep as their run is
   * long.
   */
  put(pieces: readonly Piece[]): Buffer {
    const last = pieces.at(-1)
    const bytes = Buffer.allocUnsafeSlow(last ? last.at + last.length : 0)
    const left: Piece[] = [...pieces]
    for (let piece = left.pop(); piece; piece = left.pop()) {
      const { at, length, source, from } = piece
      if (source instanceof Uint8Array) bytes.set(source.subarray(from, from + length), at)
      else if (typeof source.origin === 'function' || this.#atHand.has(source))
        bytes.set(this.bytesOf(source).subarray(from, from + length), at)
      else for (const part of partsOf(source.origin, from, length, at)) left.push(part)
    }
    return bytes
  }
}

/** Yields what pieces have from byte `from` on, as pieces that stand from byte `to` on. */
function* partsOf(pieces: readonly Piece[], from: number, length: number, to: number): Generator<Piece> {
  for (let n = pieceAt(pieces, from); n < pieces.length; n++) {
    const piece = pieces[n]!
    if (piece.at >= from + length) return
    const skipped = Math.max(0, from - piece.at)
    const end = Math.min(piece.at + piece.length, from + length)
    const at = piece.at + skipped
    yield { at: to + at - from, length: end - at, source: piece.source, from: piece.from + skipped }
  }
}

/** Finds the piece that has a byte. */
function pieceAt(pieces: readonly Piece[], byte: number): number {
  let low = 0
  let high = pieces.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (pieces[middle]!.at <= byte) low = middle
    else high = middle - 1
  }
  return low
}
