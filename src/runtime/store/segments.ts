/**
 * Reads the segment files of a log and checks each block. A segment is named by the position of its first byte, so that
 * one that is missing is noticed. It ends where the next begins, whatever a process
 * that had lost the log wrote behind.
 */
import { join } from 'node:path'
import { LogCorruptError, LogLostError, LogVersionError } from '../../shared/errors.ts'
import {
  ALIGNMENT,
  BLOCK_HEADER_BYTES,
  BLOCK_MAGIC,
  CarriedCount,
  FORMAT,
  type NewSegment,
  newMark,
  type ReadBlock,
  readBlock,
  readSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
  segmentHeader,
  statedBlock,
  statedBytes,
} from './block-format.ts'
import { type LogFile, type LogFiles, type LogStore, type Position, type StoredBlock, writeWhole } from './log-files.ts'

/*
 * Notes how much of the beginning of a log was given up, so that first segments that are missing are noticed. The note
 * is the name of an empty file: it takes no room on a disk that is full, and is replaced in one moment.
 */

const GIVEN_UP_NAME = /^[0-9a-f]{16}\.begin$/

function noteName(position: Position): string {
  return `${position.toString(16).padStart(16, '0')}.begin`
}

const positionIn = (name: string): Position => Number.parseInt(name.slice(0, 16), 16)

async function notes(folder: string, files: LogFiles): Promise<string[]> {
  return (await files.list(folder)).filter((name) => GIVEN_UP_NAME.test(name)).sort()
}

/** Position up to which all may be gone; 0 if nothing was ever given up. */
async function givenUpTo(folder: string, files: LogFiles): Promise<Position> {
  const last = (await notes(folder, files)).at(-1)
  return last === undefined ? 0 : positionIn(last)
}

/** To be called before anything is removed. The note survives the death of the machine when this resolves. */
export async function noteGivenUp(folder: string, files: LogFiles, position: Position): Promise<void> {
  const path = join(folder, noteName(position))
  const old = (await notes(folder, files)).at(-1)
  if (old === undefined) await files.create(path).then((file) => file.close())
  else if (positionIn(old) < position) await files.rename(join(folder, old), path)
  await files.syncFolder(folder)
}

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

/** Returns a block as who reads the log gets it. */
export function storedBlock({
  block,
  position,
}: {
  readonly block: ReadBlock
  readonly position: Position
}): StoredBlock {
  const { synced: _, carriedBefore: __, bytes: ___, ...stored } = block
  return { ...stored, position }
}

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

/*
 * Sees what others do to the files of a log that is in use, such as a rotation of *.log files: what is written into a
 * file that somebody has removed, replaced or cut is lost, and nothing else would say so.
 */

/** Number of bytes that a segment has at least and, where this process writes it, at most. */
interface Size {
  readonly least: number
  most?(): number
}

interface Known extends Size {
  readonly identity: string
  /** Epoch ms. */
  readonly createdAt: number
}

export class SegmentWatch {
  readonly #folder: string
  readonly #files: LogFiles
  readonly #known = new Map<Position, Known>()

  constructor(folder: string, files: LogFiles) {
    this.#folder = folder
    this.#files = files
  }

  async takeAll(): Promise<void> {
    for (const { start, path } of await listSegments(this.#folder, this.#files)) {
      const status = await this.#files.statusOf(path)
      const header = readSegmentHeader(await this.#files.read(path, 0, SEGMENT_HEADER_BYTES))
      if (!status || !header) continue // it was checked, and is gone since
      this.#known.set(start, { identity: status.identity, least: status.bytes, createdAt: header.createdAt })
    }
  }

  async take(start: Position, createdAt: number): Promise<void> {
    const status = await this.#files.statusOf(this.#path(start))
    this.#known.set(start, { identity: status?.identity ?? '', least: 0, createdAt })
  }

  /** Notes how large a segment is to which nothing is added any more. */
  ended(start: Position, least: number): void {
    const known = this.#known.get(start)
    if (known) this.#known.set(start, { ...known, least })
  }

  forget(start: Position): void {
    this.#known.delete(start)
  }

  get segments(): LogStore['segments'] {
    const [first] = this.#known.values()
    return first && { count: this.#known.size, since: first.createdAt }
  }

  /** @throws LogLostError */
  async checkAll(written?: { readonly start: Position } & Size): Promise<void> {
    for (const [start, size] of [...this.#known]) await this.check(start, start === written?.start ? written : size)
  }

  /** @throws LogLostError */
  async check(start: Position, { least, most }: Size): Promise<void> {
    const path = this.#path(start)
    const status = await this.#files.statusOf(path)
    const known = this.#known.get(start)
    if (!known) return // this process has removed it meanwhile
    if (!status) throw this.#lost(path, 'was removed')
    const { identity, bytes } = status
    if (identity !== known.identity) throw this.#lost(path, 'was replaced by another one')
    if (bytes < least) throw this.#lost(path, `was cut: it should have ${least} bytes, and has ${bytes}`)
    if (most && bytes > most())
      throw this.#lost(path, `has ${bytes} bytes, and this process wrote ${most()}: others write there`)
  }

  #path(start: Position): string {
    return join(this.#folder, segmentName(start))
  }

  #lost(path: string, what: string): LogLostError {
    return new LogLostError(
      `The file ${path} of the log ${what} while this process used it: what it had there is lost. Nothing else may touch the files of a log, such as a rotation of *.log files. Put the file back from a copy, if there is one, and start again; if there is none, see with "dramatis log repair" what is lost.`,
      { path: this.#folder },
    )
  }
}

export class SegmentWriter {
  readonly start: Position
  readonly mark: string
  /** Epoch ms. */
  readonly createdAt: number
  /** Bytes that it has, and that it may have: a write can be under way. */
  bytes = 0
  reach = 0
  readonly #file: LogFile

  private constructor({ firstPosition, createdAt, after }: Omit<NewSegment, 'mark'>, file: LogFile) {
    this.start = firstPosition
    this.createdAt = createdAt
    this.mark = newMark(after)
    this.#file = file
  }

  static async begin(folder: string, files: LogFiles, segment: Omit<NewSegment, 'mark'>): Promise<SegmentWriter> {
    const path = join(folder, segmentName(segment.firstPosition))
    const file = await files.create(path)
    const writer = new SegmentWriter(segment, file)
    try {
      await writer.write(segmentHeader({ ...segment, mark: writer.mark }))
      await files.syncFolder(folder)
      return writer
    } catch (error) {
      await file.close()
      await files.remove(path)
      throw error
    }
  }

  /** Puts the bytes to the end, or leaves the file as it was. */
  async write(bytes: Uint8Array): Promise<void> {
    this.reach = this.bytes + bytes.length
    try {
      await writeWhole(this.#file, bytes, this.bytes)
      this.bytes = this.reach
    } catch (error) {
      await this.#file.truncate(this.bytes) // half a block is no harm, but it takes the room that others lack
      throw error
    }
  }

  sync(): Promise<void> {
    return this.#file.sync()
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
