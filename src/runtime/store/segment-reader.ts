/** Reads a segment file piece by piece: who looks for one block, or begins late, does not read all of it. */
import { BLOCK_HEADER_BYTES, type ReadBlock, readBlock, SEGMENT_HEADER_BYTES, statedBytes } from './block-format.ts'
import type { LogFiles } from './log-files.ts'

const PIECE_BYTES = 2 ** 20

export class SegmentReader {
  readonly #path: string
  readonly #files: LogFiles
  readonly #end: number
  /** Bytes that are in memory, and the place of the first of them in the segment. */
  #piece: Buffer = Buffer.alloc(0)
  #start = 0
  /** True if the piece ends where the segment does. */
  #isLast = false

  /** `end`: byte of the file behind which nothing belongs to the log. */
  constructor(path: string, files: LogFiles, end: number) {
    this.#path = path
    this.#files = files
    this.#end = end
  }

  /** Returns bytes from that one on: at least so many, unless the segment ends before. */
  async at(from: number, least: number): Promise<Buffer> {
    const isThere = from >= this.#start && (this.#isLast || from + least <= this.#start + this.#piece.length)
    if (!isThere) await this.#read(from, Math.max(least, PIECE_BYTES))
    return this.#piece.subarray(from - this.#start)
  }

  /** Returns the header of the segment, for who does not read what stands behind it. */
  header(): Promise<Buffer> {
    return this.#files.read(this.#path, 0, SEGMENT_HEADER_BYTES)
  }

  /** Returns the block there, or all bytes from there on if no whole block begins there; undefined at the end. */
  async block(at: number): Promise<{ block: ReadBlock } | { rest: Buffer } | undefined> {
    const begun = await this.at(at, BLOCK_HEADER_BYTES)
    if (begun.length === 0) return undefined
    const block = readBlock(await this.at(at, statedBytes(begun, 0) ?? 0), 0)
    if (block) return { block }
    const rest = await this.rest(at)
    const ended = readBlock(rest, 0) // its writer may have ended it meanwhile
    return ended ? { block: ended } : { rest }
  }

  /** Returns all bytes from that one on, as they are in the file now. */
  async rest(from: number): Promise<Buffer> {
    await this.#read(from, Number.POSITIVE_INFINITY)
    return this.#piece
  }

  async #read(from: number, most: number): Promise<void> {
    const bytes = Math.max(0, Math.min(most, this.#end - from))
    this.#piece = await this.#files.read(this.#path, from, bytes)
    this.#start = from
    this.#isLast = this.#piece.length < bytes || from + bytes >= this.#end
  }
}
