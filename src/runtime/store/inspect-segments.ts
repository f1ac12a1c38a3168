/**
 * Looks at all of a log that may be damaged: goes on behind damage, where `scanSegments` ends with an error. Damage and
 * the tail of a process that died are the same for both.
 */
import { join } from 'node:path'
import {
  CarriedCount,
  encodeBlock,
  FORMAT,
  isOfLog,
  newMark,
  type ReadBlock,
  readSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
  segmentHeader,
} from './block-format.ts'
import { removeCheckpoint } from './checkpoint-file.ts'
import {
  type Block,
  hasCode,
  type LogFile,
  type LogFiles,
  type OpenedLog,
  type Position,
  realFiles,
  type StoredBlock,
  writeWhole,
} from './log-files.ts'
import { LogLock } from './log-lock.ts'
import {
  hasBlock,
  isBehind,
  laterBlock,
  logSegments,
  missingBefore,
  newerFormat,
  type Segment,
  SegmentReader,
  STRANGER,
  scanSegments,
  segmentName,
} from './segments.ts'
import { missingEnd, readTold, type Told } from './told.ts'

/** Place in a log where it is not as it was written. */
export interface Damage {
  readonly segment: Segment
  readonly offset: number
  readonly bytes: number
  /** Sentence without its end. */
  readonly found: string
  /**
   * `bytes`: they are no block. `missing`: the segment is too short or not there, or those before it are missing.
   * `stranger`: the segment is of another log.
   * `order`: blocks are whole, and entries between them are missing. `stale`: a whole block of a process that had lost
   * the log. `header`: only that of the segment.
   */
  readonly kind: 'bytes' | 'missing' | 'stranger' | 'order' | 'stale' | 'header'
  /** The bytes that are no block. */
  readonly content: Buffer
}

/** Numbers of entries that no whole block has, and the places where they may have been. */
export interface Gap {
  readonly from: number
  /** Infinity if nothing stands behind. */
  readonly to: number
  /** Number of carried blocks that are missing there; undefined if that is not known. */
  readonly carried: number | undefined
  readonly damages: readonly Damage[]
  /** The end that the log had, if it does not go so far any more: then these are of the end. */
  readonly told?: Told | undefined
}

export type InspectedPart =
  | { kind: 'segment'; segment: Segment; bytes: number }
  | { kind: 'block'; position: Position; block: ReadBlock }
  | { kind: 'damage'; damage: Damage }
  | { kind: 'gap'; gap: Gap }
  /** Unfinished block at the end: it is cut when a process takes the log. */
  | { kind: 'tail'; segment: Segment; offset: number; bytes: number }

const NOTHING = Buffer.alloc(0)

/**
 * Yields the blocks that are whole, in their order, and what is between them.
 *
 * @throws LogVersionError
 */
export async function* inspectSegments(
  folder: string,
  files: LogFiles,
  signal?: AbortSignal,
): AsyncGenerator<InspectedPart> {
  const told = await readTold(folder, files) // first: who has the log may write on
  const { segments } = await logSegments(folder, files)
  const strangers = await strangersIn(segments, told, files)
  const order = new Order()
  const first = segments[0]
  const bytes = first ? await missingBefore(first, folder, files) : 0
  if (first && bytes > 0) {
    const found = `${bytes} bytes before it are missing`
    yield order.beginMissing({ kind: 'missing', segment: first, offset: 0, bytes, found, content: NOTHING })
  }
  let end = 0
  for (const [index, segment] of segments.entries()) {
    signal?.throwIfAborted()
    const next = segments[index + 1]
    if (strangers.has(segment)) yield* strange(segment, files, next, order)
    else end = yield* partsOf(segment, files, next, order, told?.end ?? 0)
  }
  const missing = told && missingEnd(told, segments.at(-1)?.start, order.wholeEnd)
  if (!told || !missing) return yield* order.end()
  const [segment] = segments.slice(-1).filter(({ start }) => start >= told.segment)
  const lacking = { path: join(folder, segmentName(told.segment)), start: told.segment }
  if (!segment || end < told.end) {
    const at = segment ?? lacking
    const offset = Math.max(0, end - at.start)
    const found = `entry ${told.seq} had been on the disk, and ${missing}`
    yield order.damage({
      kind: 'missing',
      segment: at,
      offset,
      bytes: Math.max(0, told.end - at.start - offset),
      found,
      content: NOTHING,
    })
  }
  yield* order.end(told)
}

/**
 * Finds the segments that are of another log, or were not written behind the ones before them. Which of two is the
 * stranger, the note of the log's end tells; without one, the last segment is of the log.
 */
async function strangersIn(
  segments: readonly Segment[],
  told: Told | undefined,
  files: LogFiles,
): Promise<ReadonlySet<Segment>> {
  const strangers = new Set<Segment>()
  const noted = told?.mark && segments.some(({ start }) => start === told.segment) ? told : undefined
  let log = noted?.mark
  let isStranger = false
  let next: { readonly header: SegmentHeader; readonly start: Position } | undefined
  for (const segment of segments.toReversed()) {
    const header = readSegmentHeader(await files.read(segment.path, 0, SEGMENT_HEADER_BYTES))
    const { mark } = header ?? {}
    log ??= mark
    if (mark && log && !isOfLog(mark, log)) {
      strangers.add(segment)
      next = undefined
      continue
    }
    const { bytes = 0 } = (await files.statusOf(segment.path)) ?? {}
    if (next && segment.start + bytes >= next.start && !isBehind(next.header, mark)) isStranger = !isStranger
    if (mark && noted?.segment === segment.start) isStranger = mark !== noted.mark
    if (isStranger) strangers.add(segment)
    next = header && { header, start: segment.start }
  }
  return strangers
}

async function* strange(
  segment: Segment,
  files: LogFiles,
  next: Segment | undefined,
  order: Order,
): AsyncGenerator<InspectedPart> {
  const { bytes = 0 } = (await files.statusOf(segment.path)) ?? {}
  yield { kind: 'segment', segment, bytes }
  const size = next ? next.start - segment.start : bytes
  yield order.damage({ kind: 'stranger', segment, offset: 0, bytes: size, found: STRANGER, content: NOTHING })
}

/** Yields what a segment has, and returns the position behind its bytes. `told`: end of the log that was noted. */
async function* partsOf(
  segment: Segment,
  files: LogFiles,
  next: Segment | undefined,
  order: Order,
  told: Position,
): AsyncGenerator<InspectedPart, Position> {
  const end = next ? next.start - segment.start : Number.POSITIVE_INFINITY
  const reader = new SegmentReader(segment.path, files, end)
  const isLast = next === undefined
  const damaged = (damage: Omit<Damage, 'segment' | 'content'> & { content?: Buffer }): InspectedPart =>
    order.damage({ segment, content: NOTHING, ...damage })
  const header = readSegmentHeader(await reader.at(0, SEGMENT_HEADER_BYTES))
  order.format = header?.format ?? order.format
  if (header && header.format > FORMAT) throw newerFormat(segment, header.format)
  let at = SEGMENT_HEADER_BYTES
  if (!header || header.firstPosition !== segment.start) {
    const bytes = await reader.rest(0)
    if (isLast && !header && !hasBlock(bytes, 0)) {
      yield { kind: 'segment', segment, bytes: bytes.length }
      if (segment.start >= told) yield { kind: 'tail', segment, offset: 0, bytes: bytes.length }
      return segment.start
    }
    const found = header
      ? `the segment says that it begins at position ${header.firstPosition}`
      : 'the header of the segment is damaged'
    at = Math.min(at, bytes.length)
    yield damaged({ kind: 'header', offset: 0, bytes: at, found })
  }
  for (;;) {
    const read = await reader.block(at)
    if (!read) break
    if ('rest' in read) {
      const { rest } = read
      if (isLast && segment.start + at >= told && !hasBlock(rest, 1, segment.start + at)) {
        yield { kind: 'tail', segment, offset: at, bytes: rest.length }
        at += rest.length
        break
      }
      const bytes = laterBlock(rest) ?? rest.length
      const content = rest.subarray(0, bytes)
      const isZero = content.every((byte) => byte === 0)
      const found = isZero ? 'there are zeros where a block was' : 'a block is damaged'
      yield damaged({ kind: 'bytes', offset: at, bytes, found, content })
      at += bytes
      continue
    }
    const { block } = read
    yield* order.block(segment, at, block)
    at += block.bytes
  }
  yield { kind: 'segment', segment, bytes: at }
  if (at < end && !isLast) {
    const found = `the segment ends after ${at} bytes, and the log goes on ${end} after its start`
    yield damaged({ kind: 'missing', offset: at, bytes: end - at, found })
  }
  return segment.start + at
}

/** Follows the numbers of entries and incarnations over damage. */
class Order {
  #lastSeq: number | undefined
  #incarnation = 0
  readonly #count = new CarriedCount()
  /** Number of carried blocks that are missing since the last gap ended. */
  #carried: number | undefined = 0
  /** Damage since the last whole block that has entries for the first time. */
  #damages: Damage[] = []
  /** Format of the segment. */
  format = FORMAT
  /** Position behind the last whole block. */
  wholeEnd = 0

  damage(damage: Damage): InspectedPart {
    if (damage.kind !== 'header') this.#damages.push(damage)
    return { kind: 'damage', damage }
  }

  beginMissing(damage: Damage): InspectedPart {
    this.#lastSeq = 0
    return this.damage(damage)
  }

  *block(segment: Segment, at: number, block: ReadBlock): Generator<InspectedPart> {
    const place = { segment, offset: at, content: NOTHING }
    if (block.incarnation < this.#incarnation) {
      const found = `a block of incarnation ${block.incarnation} stands behind one of ${this.#incarnation}: its process had lost the log`
      yield { kind: 'damage', damage: { ...place, kind: 'stale', bytes: block.bytes, found } }
      return
    }
    this.#incarnation = block.incarnation
    this.wholeEnd = segment.start + at + block.bytes
    const missing = this.#count.missingBefore(block, this.format)
    if (missing === undefined && this.#damages.length > 0) this.#carried = undefined
    else if (missing && this.#carried !== undefined) this.#carried += missing
    if (missing && this.#damages.length === 0) {
      const found = `${missing} of the blocks with repeated entries are missing before it`
      yield this.damage({ ...place, kind: 'order', bytes: 0, found })
    }
    if (!block.carried) {
      const expected = this.#lastSeq === undefined ? block.firstSeq : this.#lastSeq + 1
      if (block.firstSeq !== expected && this.#damages.length === 0) {
        const found = `entry ${expected} was expected and ${block.firstSeq} follows`
        yield this.damage({ ...place, kind: 'order', bytes: 0, found })
      }
      this.#lastSeq = block.lastSeq
      if (this.#damages.length > 0) yield this.#gap(expected, block.firstSeq - 1)
    }
    yield { kind: 'block', position: segment.start + at, block }
  }

  /** Yields what is missing at the end of the log. */
  *end(told?: Told): Generator<InspectedPart> {
    this.#carried = undefined
    if (this.#damages.length > 0) yield this.#gap((this.#lastSeq ?? 0) + 1, told?.seq ?? Number.POSITIVE_INFINITY, told)
  }

  #gap(from: number, to: number, told?: Told): InspectedPart {
    const damages = this.#damages
    const carried = this.#carried
    this.#damages = []
    this.#carried = 0
    return { kind: 'gap', gap: { from, to, carried, damages, told } }
  }
}

export interface LogReadOptions {
  files?: LogFiles
  signal?: AbortSignal
}

/**
 * Yields the blocks of the log in a folder in their order. A block that is unfinished at the end is left out: its
 * writer is at work, or has died there.
 *
 * @throws LogCorruptError, LogVersionError
 */
export async function* readLog(
  folder: string,
  { files = realFiles, signal }: LogReadOptions = {},
): AsyncGenerator<StoredBlock> {
  for await (const part of scanSegments({ folder, files, ...(signal && { signal }) })) {
    if (part.kind !== 'block') continue
    const { synced: _, carriedBefore: __, bytes: ___, ...block } = part.block
    yield { ...block, position: part.position }
  }
}

/*
 * Replaces a log as a whole. The new one is a single segment, whose header says that the log begins there. It takes the
 * place of all others in the moment in which its file gets its name; until then the old log is as it was.
 */

/** Name of the new segment as long as it is written. */
const UNFINISHED = 'repair.tmp'
const WRITE_BYTES = 2 ** 20

/** Position up to which all is on the disk when the segment gets its name. */
const ALL = Number.POSITIVE_INFINITY

export class LogRewriter {
  readonly #folder: string
  readonly #files: LogFiles
  readonly #lock: LogLock
  #file: LogFile | undefined
  #incarnation = 0
  #start = 0
  #written = 0
  #carried = 0
  #waiting: Buffer[] = []
  #waitingBytes = 0

  private constructor(folder: string, files: LogFiles, lock: LogLock) {
    this.#folder = folder
    this.#files = files
    this.#lock = lock
  }

  /** Takes the log. @throws LogHeldError */
  static async take(folder: string, files: LogFiles): Promise<LogRewriter> {
    return new LogRewriter(folder, files, await LogLock.take(folder, files))
  }

  /**
   * Begins the new log as an incarnation of its own. `last`: the highest one of the old log. `end`: position
   * behind all of its segments.
   */
  async begin(last: number, end: Position, createdAt: number): Promise<Pick<OpenedLog, 'incarnation' | 'ended'>> {
    await removeLeftovers(this.#folder, this.#files)
    this.#start = end
    const before = await this.#lock.before()
    this.#incarnation = Math.max(last, before.incarnation) + 1
    await this.#lock.own(this.#incarnation)
    this.#file = await this.#files.create(join(this.#folder, UNFINISHED))
    const header = {
      incarnation: this.#incarnation,
      firstPosition: this.#start,
      createdAt,
      mark: newMark(),
      begins: true,
    }
    await this.#add(segmentHeader(header))
    return { incarnation: this.#incarnation, ...(before.ended && { ended: true }) }
  }

  async append(block: Block): Promise<void> {
    await this.#add(encodeBlock(block, this.#incarnation, ALL, this.#carried))
    if (block.carried) this.#carried += 1
  }

  /** Puts the new log in the place of the old one, and returns its size. */
  async commit(): Promise<number> {
    await this.#write()
    await this.#file?.sync()
    await this.#closeFile()
    const name = join(this.#folder, segmentName(this.#start))
    await removeCheckpoint(this.#folder, this.#files) // it is of the old log
    await this.#files.rename(join(this.#folder, UNFINISHED), name)
    await this.#files.syncFolder(this.#folder)
    await removeLeftovers(this.#folder, this.#files)
    return this.#written
  }

  /** Gives the log free. What was begun and not committed is removed. */
  async close(): Promise<void> {
    try {
      if (this.#file) {
        await this.#closeFile()
        await this.#files.remove(join(this.#folder, UNFINISHED))
      }
    } finally {
      await this.#lock.free()
    }
  }

  async #closeFile(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }

  async #add(bytes: Buffer): Promise<void> {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    if (this.#waitingBytes >= WRITE_BYTES) await this.#write()
  }

  async #write(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#waitingBytes = 0
    if (this.#file) await writeWhole(this.#file, bytes, this.#written)
    this.#written += bytes.length
  }
}

/** Removes what a process has left that died while it replaced the log. */
export async function removeLeftovers(folder: string, files: LogFiles): Promise<void> {
  const { left } = await logSegments(folder, files)
  for (const { path } of left) await files.remove(path)
  const hasUnfinished = await files.remove(join(folder, UNFINISHED)).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return false
      throw error
    },
  )
  if (left.length > 0 || hasUnfinished) await files.syncFolder(folder)
}
