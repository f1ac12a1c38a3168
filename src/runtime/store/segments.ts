/**
 * Reads the segment files of a log and checks each block. A segment is named by the position of its first byte, so that
 * one that is missing is noticed (of the first ones by given-up.ts). It ends where the next begins, whatever a process
 * that had lost the log wrote behind.
 */
import { join } from 'node:path'
import { LogCorruptError, LogVersionError } from '../../errors.ts'
import {
  ALIGNMENT,
  BLOCK_HEADER_BYTES,
  BLOCK_MAGIC,
  CarriedCount,
  FORMAT,
  type ReadBlock,
  readBlock,
  readSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
  statedBlock,
  statedBytes,
} from './block-format.ts'
import { givenUpTo, noteName } from './given-up.ts'
import type { LogFiles } from './log-files.ts'
import type { Position } from './log-store.ts'
import { SegmentReader } from './segment-reader.ts'

export interface Segment {
  path: string
  start: Position
}

const NAME = /^[0-9a-f]{16}\.log$/

export function segmentName(start: Position): string {
  return `${start.toString(16).padStart(16, '0')}.log`
}

export async function listSegments(folder: string, files: LogFiles): Promise<Segment[]> {
  const names = (await files.list(folder)).filter((name) => NAME.test(name)).sort()
  return names.map((name) => ({ path: join(folder, name), start: Number.parseInt(name.slice(0, 16), 16) }))
}

/**
 * Lists the segments of a log, and those that are `left`: a repair has replaced them, and did not come to remove them.
 */
export async function logSegments(folder: string, files: LogFiles): Promise<{ segments: Segment[]; left: Segment[] }> {
  const all = await listSegments(folder, files)
  for (let at = all.length - 1; at > 0; at--) {
    const header = readSegmentHeader(await files.read(all[at]!.path, 0, SEGMENT_HEADER_BYTES))
    if (header?.begins) return { segments: all.slice(at), left: all.slice(0, at) }
  }
  return { segments: all, left: [] }
}

/** Number of bytes that are missing before the first segment of a log: they were never given up. */
export async function missingBefore(first: Segment, folder: string, files: LogFiles): Promise<number> {
  if (first.start === 0) return 0
  const header = readSegmentHeader(await files.read(first.path, 0, SEGMENT_HEADER_BYTES))
  if (!header?.noted || header.begins) return 0 // the first of an older version, and of a repair, stand for themselves
  return Math.max(0, first.start - (await givenUpTo(folder, files)))
}

export type SegmentPart =
  | { kind: 'block'; position: Position; block: ReadBlock }
  /** The last segment ends with bytes that are no whole block, or has no whole header (`wholeBytes` 0). */
  | { kind: 'tail'; segment: Segment; wholeBytes: number; bytes: number; mark?: string | undefined }
  | { kind: 'end'; segment: Segment; bytes: number; mark: string | undefined }

export interface Scan {
  folder: string
  files: LogFiles
  /**
   * Position behind the last block that may be read: a writer can be at work behind it. It has opened the log, so
   * nothing of an unfinished repair is left.
   */
  until?: Position
  /** Position of the block to begin with. */
  from?: Position
  signal?: AbortSignal
}

/**
 * Yields the blocks of all segments in their order, and the end of each segment.
 *
 * @throws LogCorruptError, LogVersionError
 */
export async function* scanSegments({
  folder,
  files,
  until = Number.POSITIVE_INFINITY,
  from = 0,
  signal,
}: Scan): AsyncGenerator<SegmentPart> {
  const isOpen = Number.isFinite(until)
  const segments = isOpen ? await listSegments(folder, files) : (await logSegments(folder, files)).segments
  const first = segments[0]
  if (!isOpen && first && (await missingBefore(first, folder, files)) > 0) throw headless(first)
  const order = new BlockOrder()
  for (const [index, segment] of segments.entries()) {
    signal?.throwIfAborted()
    const next = segments[index + 1]
    if (segment.start >= until) return
    if (next && next.start <= from) {
      if (!isOpen) yield await unread(segment, next.start - segment.start, files, order)
      continue
    }
    const end = Math.min(next?.start ?? Number.POSITIVE_INFINITY, until) - segment.start
    const reader = new SegmentReader(segment.path, files, end)
    const isLast = next === undefined && !isOpen
    const bytes = yield* partsOf(segment, reader, Math.max(0, from - segment.start), { isLast, isOpen, order })
    if (Number.isFinite(end) && bytes < end) throw missing(segment, bytes, end)
  }
}

/** Looks at a segment whose blocks are not read: whether it is of this log, and as long as it has to be. */
async function unread(segment: Segment, bytes: number, files: LogFiles, order: BlockOrder): Promise<SegmentPart> {
  const header = readSegmentHeader(await files.read(segment.path, 0, SEGMENT_HEADER_BYTES))
  if (!header) throw corrupt(segment, 0, 'the header of the segment is damaged')
  checkHeader(segment, header)
  order.begin(segment, header)
  const there = (await files.statusOf(segment.path))?.bytes ?? 0
  if (there < bytes) throw missing(segment, there, bytes)
  return { kind: 'end', segment, bytes, mark: header.mark }
}

/** Yields the blocks from that byte on, and returns the byte behind the last one. */
async function* partsOf(
  segment: Segment,
  reader: SegmentReader,
  from: number,
  { isLast, isOpen, order }: { isLast: boolean; isOpen: boolean; order: BlockOrder },
): AsyncGenerator<SegmentPart, number> {
  let at = from
  let format: number | undefined
  let mark: string | undefined
  if (from <= SEGMENT_HEADER_BYTES || !isOpen) {
    const isPartial = from > SEGMENT_HEADER_BYTES
    const header = readSegmentHeader(await (isPartial ? reader.header() : reader.at(0, SEGMENT_HEADER_BYTES)))
    if (!header) {
      const bytes = await reader.rest(0)
      if (!isLast || hasBlock(bytes, 0)) throw corrupt(segment, 0, 'the header of the segment is damaged')
      yield { kind: 'tail', segment, wholeBytes: 0, bytes: bytes.length }
      return bytes.length
    }
    checkHeader(segment, header)
    order.begin(segment, header)
    format = header.format
    mark = header.mark
    at = Math.max(from, SEGMENT_HEADER_BYTES)
  }
  for (;;) {
    const found = await reader.block(at)
    if (!found) break
    if ('rest' in found) {
      const { rest } = found
      const runs = statedBlock(rest, 0)?.runs
      if (!isLast) throw corrupt(segment, at, 'a block is damaged', runs)
      if (hasBlock(rest, 1, segment.start + at))
        throw corrupt(segment, at, 'a block is damaged that had reached the disk', runs)
      yield { kind: 'tail', segment, wholeBytes: at, bytes: at + rest.length, mark }
      return at + rest.length
    }
    const { block } = found
    order.check(segment, at, block, format)
    yield { kind: 'block', position: segment.start + at, block }
    at += block.bytes
  }
  yield { kind: 'end', segment, bytes: at, mark }
  return at
}

function checkHeader(segment: Segment, { format, firstPosition }: SegmentHeader): void {
  if (format > FORMAT) throw newerFormat(segment, format)
  if (firstPosition !== segment.start)
    throw corrupt(segment, 0, `the segment says that it begins at position ${firstPosition}`)
}

export function newerFormat({ path }: Segment, format: number): LogVersionError {
  return new LogVersionError(
    `Segment ${path} has log format ${format}; this version of dramatis reads formats up to ${FORMAT}. Start it with the version that wrote the log, or a later one.`,
    { segment: path, format, supported: FORMAT },
  )
}

/**
 * Sees to it that no entry is missing between two blocks, that no older process wrote behind a newer one, and that each
 * segment was written behind the one before it.
 */
class BlockOrder {
  readonly #count = new CarriedCount()
  #lastSeq: number | undefined
  #incarnation = 0
  #mark: string | undefined

  begin(segment: Segment, header: SegmentHeader): void {
    if (!isBehind(header, this.#mark)) throw corrupt(segment, 0, STRANGER)
    this.#mark = header.mark
  }

  /** `format`: that of the segment, if it was read. */
  check(segment: Segment, at: number, block: ReadBlock, format: number | undefined): void {
    if (block.incarnation < this.#incarnation)
      throw corrupt(
        segment,
        at,
        `a block of incarnation ${block.incarnation} stands behind one of ${this.#incarnation}`,
        block.runs,
      )
    this.#incarnation = block.incarnation
    const missing = this.#count.missingBefore(block, format)
    if (missing) throw corrupt(segment, at, `${missing} of the blocks with repeated entries are missing before it`)
    if (block.carried) return
    const expected = this.#lastSeq === undefined ? block.firstSeq : this.#lastSeq + 1
    if (block.firstSeq !== expected)
      throw corrupt(segment, at, `entry ${expected} was expected and ${block.firstSeq} follows`, block.runs)
    this.#lastSeq = block.lastSeq
  }
}

/** Text about a segment that stands where another one was. */
export const STRANGER =
  'it was not written behind the segment before it: they are of different logs, or of copies that went on by themselves'

/** Tells whether a segment was written behind the one with that mark. Those of older versions have none. */
export function isBehind({ after }: SegmentHeader, mark: string | undefined): boolean {
  return after === undefined || mark === undefined || after === mark
}

/** Tells whether a whole block stands anywhere behind, of those that were written when `synced` was on the disk. */
export function hasBlock(bytes: Buffer, from: number, synced = -1): boolean {
  let at = bytes.indexOf(BLOCK_MAGIC, from)
  while (at >= 0 && at + BLOCK_HEADER_BYTES <= bytes.length) {
    const block = readBlock(bytes, at)
    if (block && block.synced > synced) return true
    at = bytes.indexOf(BLOCK_MAGIC, at + 1)
  }
  return false
}

/** Finds the next whole block behind bytes that are none: where they say that they end, or at the next place. */
export function laterBlock(bytes: Buffer): number | undefined {
  const stated = statedBytes(bytes, 0)
  if (stated !== undefined && readBlock(bytes, stated)) return stated
  let at = bytes.indexOf(BLOCK_MAGIC, 1)
  while (at >= 0 && (at % ALIGNMENT !== 0 || !readBlock(bytes, at))) at = bytes.indexOf(BLOCK_MAGIC, at + 1)
  return at < 0 ? undefined : at
}

function missing(segment: Segment, bytes: number, expected: number): LogCorruptError {
  return corrupt(
    segment,
    bytes,
    `the segment ends after ${bytes} bytes, and the log goes on ${expected} after its start`,
  )
}

function headless(segment: Segment): LogCorruptError {
  const note = noteName(segment.start)
  return corrupt(segment, 0, `the segments before it are missing, and no file ${note} says that they were given up`)
}

export function corrupt(
  segment: Segment,
  offset: number,
  found: string,
  runs: readonly number[] = [],
): LogCorruptError {
  return new LogCorruptError(
    `The log is damaged: ${found} (segment ${segment.path}, byte ${offset}). Nothing was changed. Restore the segment from a copy; or see with "dramatis log repair" which runs are lost, and let it give them up; or start with another path.`,
    { segment: segment.path, offset, runs: [...runs] },
  )
}
