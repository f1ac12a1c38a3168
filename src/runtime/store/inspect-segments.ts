/**
 * Looks at all of a log that may be damaged: goes on behind damage, where `scanSegments` ends with an error. Damage and
 * the tail of a process that died are the same for both.
 */
import { join } from 'node:path'
import {
  CarriedCount,
  FORMAT,
  isOfLog,
  type ReadBlock,
  readSegmentHeader,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
} from './block-format.ts'
import type { LogFiles, Position } from './log-files.ts'
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
  format = FORMAT
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
