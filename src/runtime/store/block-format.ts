/**
 * Bytes of a log on disk, format 4. All numbers are little-endian.
 *
 *     segment   'DRAMATIS' | format u32 | crc32 u32 (of the other 60 bytes) | incarnation u32 |
 *               flags u32 (1: the log begins here, whatever stands before; 2: what was given up before it is noted,
 *               segments.ts) | created f64 | first position f64 | mark, 8 bytes | mark of the segment before it |
 *               8 bytes of zeros
 *     block     'BLK1' | crc32 u32 (of all that follows) | body u32 (bytes) | flags u16 (1: carried) |
 *               carried blocks that its incarnation wrote before u16 (modulo 65,536) | incarnation u32 | runs u32 |
 *               first seq f64 | last seq f64 | synced f64
 *               body: the runs (u32 each), entries; zeros up to a multiple of 8
 *
 * `synced` is the position up to which all was known to be on the disk when the block was written. It tells damage from
 * the tail of a machine that went down, since disks write in any order. A mark has four random bytes for the log and
 * four for the segment: segments of different logs, or of copies that went on by themselves, are told apart. Older
 * versions wrote zeros there. Later formats keep the first 16 bytes of a segment and the rule of its checksum, so that
 * every version can tell that a log is newer.
 *
 * Format 4 has entries of kind 5 (entry-codec.ts). Format 3 has those of kind 4, format 2 has none of these.
 * Format 1 has no entries of kind 3 either, and does not count carried blocks.
 */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Block, Position } from './log-files.ts'

export const FORMAT = 4
export const SEGMENT_HEADER_BYTES = 64
export const BLOCK_HEADER_BYTES = 48
const SEGMENT_MAGIC = Buffer.from('DRAMATIS', 'latin1')
export const BLOCK_MAGIC = Buffer.from('BLK1', 'latin1')
const MARK_BYTES = 8
/** Hexadecimal digits of a mark that all segments of a log have in common. */
const LOG_DIGITS = 8
const MARK_AT = 40
const AFTER_AT = 48
const BEGINS = 1
const NOTED = 2
const CARRIED = 1
/** Numbers after which the count of carried blocks begins anew. */
const CARRIED_COUNTS = 2 ** 16
const RUN_BYTES = 4
/** All blocks begin at a multiple of it. */
export const ALIGNMENT = 8

export interface SegmentHeader {
  format: number
  /** Epoch ms. */
  createdAt: number
  firstPosition: Position
  /** True if segments before it are not part of the log: a repair has replaced them. */
  begins: boolean
  /** True if all that was ever given up before it is noted in the folder. */
  noted: boolean
  /** Names the segment, and the one behind which it was written. */
  mark?: string
  after?: string
}

export interface NewSegment extends Pick<SegmentHeader, 'createdAt' | 'firstPosition' | 'mark' | 'after'> {
  incarnation: number
  begins?: boolean
}

/** Makes a mark for a segment. `before`: mark of another one of the log, if there is one. */
export function newMark(before?: string): string {
  const log = before?.slice(0, LOG_DIGITS) ?? randomBytes(LOG_DIGITS / 2).toString('hex')
  return log + randomBytes(MARK_BYTES - LOG_DIGITS / 2).toString('hex')
}

/** Tells whether segments with these marks are of one log, or of copies of one. */
export const isOfLog = (mark: string, other: string): boolean =>
  mark.slice(0, LOG_DIGITS) === other.slice(0, LOG_DIGITS)

export function segmentHeader({
  incarnation,
  firstPosition,
  createdAt,
  mark = '',
  after = '',
  begins = false,
}: NewSegment): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES)
  SEGMENT_MAGIC.copy(bytes)
  bytes.writeUInt32LE(FORMAT, 8)
  bytes.writeUInt32LE(incarnation, 16)
  bytes.writeUInt32LE(NOTED | (begins ? BEGINS : 0), 20)
  bytes.writeDoubleLE(createdAt, 24)
  bytes.writeDoubleLE(firstPosition, 32)
  bytes.write(mark, MARK_AT, MARK_BYTES, 'hex')
  bytes.write(after, AFTER_AT, MARK_BYTES, 'hex')
  bytes.writeUInt32LE(segmentSum(bytes), 12)
  return bytes
}

export function readSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 8).equals(SEGMENT_MAGIC)) return undefined
  if (bytes.readUInt32LE(12) !== segmentSum(bytes)) return undefined
  const [mark, after] = [markAt(bytes, MARK_AT), markAt(bytes, AFTER_AT)]
  return {
    ...(mark !== undefined && { mark }),
    ...(after !== undefined && { after }),
    format: bytes.readUInt32LE(8),
    createdAt: bytes.readDoubleLE(24),
    firstPosition: bytes.readDoubleLE(32),
    begins: (bytes.readUInt32LE(20) & BEGINS) !== 0,
    noted: (bytes.readUInt32LE(20) & NOTED) !== 0,
  }
}

function markAt(bytes: Buffer, at: number): string | undefined {
  const mark = bytes.subarray(at, at + MARK_BYTES)
  return mark.every((byte) => byte === 0) ? undefined : mark.toString('hex')
}

function segmentSum(bytes: Buffer): number {
  return crc32(bytes.subarray(16, SEGMENT_HEADER_BYTES), crc32(bytes.subarray(0, 12)))
}

export function blockLength({ runs, entries }: Block): number {
  return aligned(BLOCK_HEADER_BYTES + runs.length * RUN_BYTES + entries.byteLength)
}

/** Fields of a block's header that the block itself does not have. */
interface Written {
  incarnation: number
  synced: Position
  /** Number of carried blocks that this incarnation has written before. */
  carriedBefore: number
}

/** Writes a block at that place, where there are `blockLength` bytes, whatever they are. Returns where it ends. */
export function writeBlock(bytes: Buffer, at: number, block: Block, written: Written): number {
  const { runs, entries, carried, firstSeq, lastSeq } = block
  const end = at + blockLength(block)
  BLOCK_MAGIC.copy(bytes, at)
  bytes.writeUInt32LE(runs.length * RUN_BYTES + entries.byteLength, at + 8)
  bytes.writeUInt16LE(carried ? CARRIED : 0, at + 12)
  bytes.writeUInt16LE(written.carriedBefore % CARRIED_COUNTS, at + 14)
  bytes.writeUInt32LE(written.incarnation, at + 16)
  bytes.writeUInt32LE(runs.length, at + 20)
  bytes.writeDoubleLE(firstSeq, at + 24)
  bytes.writeDoubleLE(lastSeq, at + 32)
  bytes.writeDoubleLE(written.synced, at + 40)
  let next = at + BLOCK_HEADER_BYTES
  for (const run of runs) next = bytes.writeUInt32LE(run, next)
  bytes.set(entries, next)
  bytes.fill(0, next + entries.byteLength, end)
  bytes.writeUInt32LE(crc32(bytes.subarray(at + 8, end)), at + 4)
  return end
}

export function encodeBlock(block: Block, incarnation: number, synced: Position, carriedBefore: number): Buffer {
  const bytes = Buffer.allocUnsafe(blockLength(block))
  writeBlock(bytes, 0, block, { incarnation, synced, carriedBefore })
  return bytes
}

export interface ReadBlock extends Block {
  incarnation: number
  synced: Position
  /** Number of carried blocks that its incarnation had written before; 0 in format 1. */
  carriedBefore: number
  /** Length of the whole block, with the zeros that fill it up. */
  bytes: number
}

/** Counts the carried blocks of an incarnation, so that one that is missing is noticed. Format 1 does not say them. */
export class CarriedCount {
  #last: { incarnation: number; carried: number } | undefined

  /** Returns the number of carried blocks that are missing before that one; undefined if that is not known. */
  missingBefore({ incarnation, carried, carriedBefore }: ReadBlock, format: number | undefined): number | undefined {
    const last = this.#last
    const isCounted = format !== undefined && format > 1
    this.#last = isCounted ? { incarnation, carried: carriedBefore + (carried ? 1 : 0) } : undefined
    if (!isCounted || last?.incarnation !== incarnation) return undefined
    return (carriedBefore - last.carried + CARRIED_COUNTS) % CARRIED_COUNTS
  }
}

/** Reads the block that begins there, or returns undefined where no whole one does. */
export function readBlock(segment: Buffer, at: number): ReadBlock | undefined {
  const bytes = blockBytes(segment, at)
  if (bytes === undefined) return undefined
  if (segment.readUInt32LE(at + 4) !== crc32(segment.subarray(at + 8, at + bytes))) return undefined
  return statedBlock(segment, at)
}

/** Reads a block as it states itself, unchecked: it may be damaged. Undefined where its header cannot be one. */
export function statedBlock(segment: Buffer, at: number): ReadBlock | undefined {
  const bytes = blockBytes(segment, at)
  if (bytes === undefined) return undefined
  const runs = runsAt(segment, at)
  const body = at + BLOCK_HEADER_BYTES
  return {
    firstSeq: segment.readDoubleLE(at + 24),
    lastSeq: segment.readDoubleLE(at + 32),
    carried: (segment.readUInt16LE(at + 12) & CARRIED) !== 0,
    carriedBefore: segment.readUInt16LE(at + 14),
    runs,
    entries: segment.subarray(body + runs.length * RUN_BYTES, body + segment.readUInt32LE(at + 8)),
    incarnation: segment.readUInt32LE(at + 16),
    synced: segment.readDoubleLE(at + 40),
    bytes,
  }
}

/** Length that a block states, unchecked: there may be fewer bytes. Undefined where no block begins. */
export function statedBytes(segment: Buffer, at: number): number | undefined {
  if (at + BLOCK_HEADER_BYTES > segment.length || segment.compare(BLOCK_MAGIC, 0, 4, at, at + 4) !== 0) return undefined
  const body = segment.readUInt32LE(at + 8)
  return segment.readUInt32LE(at + 20) * RUN_BYTES > body ? undefined : aligned(BLOCK_HEADER_BYTES + body)
}

function blockBytes(segment: Buffer, at: number): number | undefined {
  const bytes = statedBytes(segment, at)
  return bytes === undefined || at + bytes > segment.length ? undefined : bytes
}

function runsAt(segment: Buffer, at: number): number[] {
  const first = at + BLOCK_HEADER_BYTES
  return Array.from({ length: segment.readUInt32LE(at + 20) }, (_, i) => segment.readUInt32LE(first + i * RUN_BYTES))
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}
