/**
 * Keeps a log in segment files. Blocks that are appended while a write is under way go out with one write behind it.
 * Each opening begins a segment of its own, which is created with its first block.
 */

import { type Scheduler, systemClock, type Timer } from '../../shared/clock.ts'
import { DramatisError, describe, LogCorruptError, LogLostError } from '../../shared/errors.ts'
import { blockLength, readBlock, SEGMENT_HEADER_BYTES, writeBlock } from './block-format.ts'
import { type Anchor, findCheckpoint, readCheckpoint, removeCheckpoint, writeCheckpoint } from './checkpoint-file.ts'
import {
  type Block,
  type Checkpoint,
  isFull,
  type LogFiles,
  type LogState,
  type LogStore,
  type OpenedLog,
  type Position,
  type ReadOptions,
  realFiles,
  type StoredBlock,
} from './log-files.ts'
import { LogLock } from './log-lock.ts'
import { removeLeftovers } from './log-reader.ts'
import {
  corrupt,
  listSegments,
  noteGivenUp,
  type Segment,
  SegmentWatch,
  SegmentWriter,
  scanSegments,
  storedBlock,
} from './segments.ts'
import { missingEnd, NOTHING_TOLD, readTold, type Told, ToldFile } from './told.ts'

/*
 * Checks all segments when a log is opened, and cuts off the block that a dying process or machine left unfinished.
 * Bytes that were noted to be on the disk are no such block (told.ts).
 */

/** State of the log that stands in a folder. `incarnation` is the last one that wrote. */
export interface CheckedLog extends Omit<OpenedLog, 'checkpoint'> {
  readonly checkpoint?: Anchor
  /** Position behind the last block. */
  readonly end: Position
  readonly bytes: number
  /** The last segment that has a block, and its bytes up to `end`. */
  readonly last: LastSegment | undefined
  /** True if it has bytes behind these. */
  readonly hasTail: boolean
  /** The segment behind it that has no block. */
  readonly empty: Segment | undefined
}

interface LastSegment {
  readonly segment: Segment
  readonly mark: string | undefined
  readonly bytes: number
}

/** Changes nothing of what the log says. @throws LogCorruptError, LogVersionError */
async function checkSegments(folder: string, files: LogFiles, signal?: AbortSignal): Promise<CheckedLog> {
  await removeLeftovers(folder, files)
  const [told, checkpoint] = [await readTold(folder, files), await findCheckpoint(folder, files)]
  const anchor = checkpoint && 'position' in checkpoint ? checkpoint : undefined
  const lastSeq = anchor?.lastSeq ?? 0
  const found = { incarnation: 0, lastSeq, cut: undefined as OpenedLog['cut'], end: 0, bytes: 0, hasTail: false }
  let [last, empty]: [CheckedLog['last'], CheckedLog['empty']] = [undefined, undefined]
  const from = anchor && { from: anchor.position }
  for await (const part of scanSegments({ folder, files, ...from, ...(signal && { signal }) })) {
    if (part.kind === 'block') {
      found.incarnation = Math.max(found.incarnation, part.block.incarnation)
      if (!part.block.carried) found.lastSeq = part.block.lastSeq
      continue
    }
    const { segment, mark } = part
    const bytes = part.kind === 'tail' ? part.wholeBytes : part.bytes
    if (part.kind === 'tail') found.cut = { position: segment.start + bytes, bytes: part.bytes - bytes }
    const isEmpty = bytes <= SEGMENT_HEADER_BYTES
    if (isEmpty)
      empty = segment // the next block begins a segment of this name
    else last = { segment, mark, bytes }
    found.hasTail = part.kind === 'tail' && !isEmpty
    found.end = segment.start + (isEmpty ? 0 : bytes)
    found.bytes += isEmpty ? 0 : bytes
    if (told?.segment === segment.start && told.mark && mark && mark !== told.mark) throw corrupt(segment, 0, REPLACED)
  }
  const missing = told && missingEnd(told, (empty ?? last?.segment)?.start, found.end)
  if (told && missing) throw endless(folder, told, found, missing)
  const unusable = checkpoint && 'unusable' in checkpoint && { checkpointUnusable: checkpoint.unusable }
  return { ...found, last, empty, ...(anchor && { checkpoint: anchor }), ...unusable }
}

/** Cuts off what stands behind the last block, and syncs what the process before wrote last. */
async function cutTail({ segment, bytes }: LastSegment, hasTail: boolean, files: LogFiles): Promise<void> {
  const file = await files.openExisting(segment.path)
  try {
    if (hasTail) await file.truncate(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Tells whether a whole block stands behind the end that was found: another process has written meanwhile. */
async function hasGrown(folder: string, files: LogFiles, end: Position): Promise<boolean> {
  const last = (await listSegments(folder, files)).at(-1)
  if (!last) return false
  const from = last.start < end ? end - last.start : SEGMENT_HEADER_BYTES
  return readBlock(await files.read(last.path, from), 0) !== undefined
}

const REPLACED = 'it is another one than that which the log had'

function endless(
  folder: string,
  told: Told,
  { lastSeq, end }: Pick<CheckedLog, 'lastSeq' | 'end'>,
  missing: string,
): LogCorruptError {
  return new LogCorruptError(
    `The log in ${folder} lacks its end: its last entry is ${lastSeq}, and entry ${told.seq} had been on the disk (${missing}). Nothing was changed. Put back the files that are missing, or the whole folder from a copy; or accept that what stood there is lost: "dramatis log repair --log ${folder}" says which runs that are, and does it with --accept-loss.`,
    { path: folder, offset: end, runs: [], lastSeq, toldSeq: told.seq },
  )
}

/*
 * Guards a log that this process has: sees that another process has taken it, or that somebody has touched its files,
 * and notes how far it has come (told.ts). Files are looked at with each sync, and every few seconds besides.
 */

/** Time between two looks at files, which may not be written to, and so not be synced. */
const LOOK_MS = 5_000

interface Needs {
  readonly folder: string
  readonly files: LogFiles
  readonly clock: Scheduler
  readonly lock: LogLock
  lost(error: unknown): void
}

export class LogGuard {
  readonly #needs: Needs
  readonly #watch: SegmentWatch
  readonly #told: ToldFile
  #writer: SegmentWriter | undefined
  #look: Timer | undefined
  #looking: Promise<void> | undefined
  #isClosed = false

  private constructor(needs: Needs, watch: SegmentWatch, told: ToldFile) {
    this.#needs = needs
    this.#watch = watch
    this.#told = told
    this.#lookLater()
  }

  /** Takes a log that was checked: what stands behind its last block is cut off, and what is left is on the disk. */
  static async take(needs: Needs, { last, empty, hasTail, lastSeq, end }: CheckedLog): Promise<LogGuard> {
    const { folder, files } = needs
    if (last) await cutTail(last, hasTail, files)
    const told = await ToldFile.open(folder, files)
    try {
      const { segment, mark = '' } = last ?? {}
      await told.write(segment ? { seq: lastSeq, end, segment: segment.start, mark } : NOTHING_TOLD)
      if (empty) await files.remove(empty.path) // behind the note, which may say that it is there
      await files.syncFolder(folder)
      const watch = new SegmentWatch(folder, files)
      await watch.takeAll()
      return new LogGuard(needs, watch, told)
    } catch (error) {
      await told.close()
      throw error
    }
  }

  /** Notes that a segment was begun. `seq`: number of the last entry before it. */
  async begins(writer: SegmentWriter, seq: number): Promise<void> {
    await this.#watch.take(writer.start, writer.createdAt)
    this.#writer = writer
    await this.#note({ seq, end: writer.start, segment: writer.start, mark: writer.mark })
  }

  ended({ start, bytes }: SegmentWriter): void {
    this.#writer = undefined
    this.#watch.ended(start, bytes)
  }

  get segments(): LogStore['segments'] {
    return this.#watch.segments
  }

  forget(start: Position): void {
    this.#watch.forget(start)
  }

  /**
   * Called when all up to there is on the disk; `writer` has the last of it.
   *
   * @throws LogLostError where the log is not as it was.
   */
  async synced(writer: SegmentWriter | undefined, { seq, end }: Pick<Told, 'seq' | 'end'>): Promise<void> {
    await Promise.all([this.#needs.lock.check(), writer && this.#watch.check(writer.start, sizeOf(writer))])
    if (writer) await this.#note({ seq, end, segment: writer.start, mark: writer.mark })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#look?.cancel()
    await this.#looking
    await this.#told.close()
  }

  /** A note for which there is no room is left out: the next one says more. */
  async #note(told: Told): Promise<void> {
    await this.#told.write(told).catch((error: unknown) => {
      if (!isFull(error)) throw error
    })
  }

  #lookLater(): void {
    const look = () => {
      this.#looking = this.#lookAround()
    }
    this.#look = this.#needs.clock.timer(LOOK_MS, look, 'background')
  }

  async #lookAround(): Promise<void> {
    const { lock, lost } = this.#needs
    const written = this.#writer && { start: this.#writer.start, ...sizeOf(this.#writer) }
    try {
      await Promise.all([lock.check(), this.#watch.checkAll(written)])
      if (!this.#isClosed) this.#lookLater()
    } catch (error) {
      lost(error)
    }
  }
}

const sizeOf = (writer: SegmentWriter) => ({ least: writer.bytes, most: () => writer.reach })

export interface FileStoreOptions {
  files?: LogFiles
  clock?: Scheduler
  /** Bytes after which the next block begins a new segment. */
  segmentBytes?: number
  /** Bytes that are appended between two checkpoints. */
  checkpointBytes?: number
  /** Bytes that one write has at most, unless one block is larger. */
  writeBytes?: number
  /** True: blocks wait for room on a full disk. False: they are refused, for a command that somebody waits for. */
  waitsForRoom?: boolean
  /** Called when the disk has no room for the next block, and when it has room again. */
  onRoom?(hasRoom: boolean): void
  /** Called once, when nothing can be written any more. */
  onLost?(error: DramatisError): void
}

interface Waiting {
  block: Block
  resolve(position: Position): void
  reject(error: unknown): void
}

const SEGMENT_BYTES = 64 * 2 ** 20
const CHECKPOINT_BYTES = 16 * 2 ** 20
const WRITE_BYTES = 2 ** 20
const FULL_RETRY_MS = 1_000
/** The buffer of a larger write is not kept. */
const KEPT_BYTES = 2 ** 23
const NO_BYTES = Buffer.alloc(0)

export class FileStore implements LogStore {
  readonly #folder: string
  readonly #files: LogFiles
  readonly #clock: Scheduler
  readonly segmentBytes: number
  readonly checkpointBytes: number
  readonly #writeBytes: number
  readonly #waitsForRoom: boolean
  readonly #onRoom: (hasRoom: boolean) => void
  readonly #onLost: (error: DramatisError) => void
  #state: LogState = 'new'
  #bytes = 0
  #lock: LogLock | undefined
  #lost: DramatisError | undefined
  #incarnation = 0
  #guard: LogGuard | undefined
  /** Segment that is being written, the mark of the one before it, and the end of the last whole block. */
  #segment: SegmentWriter | undefined
  #mark: string | undefined
  #end: Position = 0
  #lastSeq = 0
  #synced: Position = 0
  /** Position of the block behind which the last checkpoint was made. */
  #checkpoint: Position | undefined
  #carried = 0
  #waiting: Waiting[] = []
  #buffer = NO_BYTES
  #writing: Promise<void> | undefined
  #syncing: Promise<void> | undefined
  #opening: Promise<OpenedLog> | undefined
  #closing: Promise<void> | undefined
  readonly #closed = new AbortController()

  constructor(
    folder: string,
    {
      files = realFiles,
      clock = systemClock,
      segmentBytes = SEGMENT_BYTES,
      checkpointBytes = CHECKPOINT_BYTES,
      writeBytes = WRITE_BYTES,
      waitsForRoom = true,
      onRoom = () => {},
      onLost = () => {},
    }: FileStoreOptions = {},
  ) {
    this.#folder = folder
    this.#files = files
    this.#clock = clock
    this.segmentBytes = segmentBytes
    this.checkpointBytes = checkpointBytes
    this.#writeBytes = writeBytes
    this.#waitsForRoom = waitsForRoom
    this.#onRoom = onRoom
    this.#onLost = onLost
  }

  get state(): LogState {
    return this.#state
  }

  get bytes(): number {
    return this.#bytes
  }

  get segments(): LogStore['segments'] {
    return this.#guard?.segments
  }

  async open(signal?: AbortSignal): Promise<OpenedLog> {
    if (this.#opening || this.#closing) throw new TypeError('a store is opened once: make another one')
    signal?.throwIfAborted()
    this.#opening = this.#open(signal)
    return this.#opening
  }

  async #open(signal?: AbortSignal): Promise<OpenedLog> {
    try {
      const lock = await LogLock.take(this.#folder, this.#files)
      this.#lock = lock
      const checked = await checkSegments(this.#folder, this.#files, signal)
      const before = await lock.before()
      this.#incarnation = Math.max(checked.incarnation, before.incarnation) + 1
      await lock.own(this.#incarnation)
      // A process whose lock this one cannot see may have synced more until `own` has fenced it off.
      const isGrown = await hasGrown(this.#folder, this.#files, checked.end)
      const found = isGrown ? await checkSegments(this.#folder, this.#files, signal) : checked
      const lost = (error: unknown) => this.#lose(error)
      const guarded = { folder: this.#folder, files: this.#files, clock: this.#clock, lock, lost }
      this.#guard = await LogGuard.take(guarded, found)
      const { cut, lastSeq, checkpoint, checkpointUnusable } = found
      this.#mark = found.last?.mark
      this.#end = found.end
      this.#lastSeq = lastSeq
      this.#bytes = found.bytes
      this.#state = 'open'
      this.#checkpoint = checkpoint?.position
      return {
        lastSeq,
        cut,
        incarnation: this.#incarnation,
        ...(checkpoint && { checkpoint: this.#checkpointAt(checkpoint.position) }),
        ...(checkpointUnusable !== undefined && { checkpointUnusable }),
        ...(before.ended && { ended: true }),
      }
    } catch (error) {
      this.#state = 'new'
      await this.#freeLock()
      this.#opening = undefined // it can be tried again
      if (error instanceof DramatisError || signal?.aborted) throw error
      const advice = isFull(error) ? 'Make room on its disk' : 'Make the folder readable and writable for this process'
      throw new LogLostError(
        `The log in ${this.#folder} cannot be opened: ${describe(error)}. ${advice}.`,
        { path: this.#folder },
        error,
      )
    }
  }

  append(block: Block): Promise<Position> {
    return new Promise((resolve, reject) => {
      if (this.#state !== 'open' && this.#state !== 'full') return reject(this.#refusal())
      if (this.#closing) return reject(this.#refusal())
      this.#waiting.push({ block, resolve, reject })
      this.#writing ??= this.#writeAll()
    })
  }

  async sync(): Promise<void> {
    await this.#syncing // it may have begun before the last write: that one proves nothing for this call
    if (this.#lost) throw this.#lost
    this.#syncing ??= this.#syncNow().finally(() => {
      this.#syncing = undefined
    })
    await this.#syncing
  }

  async *read({ from, runs, signal }: ReadOptions = {}): AsyncGenerator<StoredBlock> {
    if (this.#state === 'new') throw new TypeError('a store is opened before it is read')
    const scan = { folder: this.#folder, files: this.#files, until: this.#end }
    for await (const part of scanSegments({
      ...scan,
      ...(from !== undefined && { from }),
      ...(signal && { signal }),
    })) {
      if (part.kind !== 'block') continue
      if (!runs || part.block.runs.some((run) => runs.has(run))) yield storedBlock(part)
    }
  }

  async checkpoint(position: Position, lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint> {
    await writeCheckpoint(this.#folder, this.#files, { position, lastSeq }, pieces)
    this.#checkpoint = position
    return this.#checkpointAt(position)
  }

  #checkpointAt(position: Position): Checkpoint {
    return { position, read: () => readCheckpoint(this.#folder, this.#files) }
  }

  async dropBefore(position: Position): Promise<void> {
    const segments = await listSegments(this.#folder, this.#files)
    const first = segments.findLastIndex(({ start }, index) => index === 0 || start <= position)
    if (first < 1) return
    if (this.#checkpoint !== undefined && this.#checkpoint < segments[first]!.start) {
      await removeCheckpoint(this.#folder, this.#files) // it is behind a block that goes
      this.#checkpoint = undefined
    }
    await noteGivenUp(this.#folder, this.#files, segments[first]!.start)
    for (const [index, { path, start }] of segments.slice(0, first).entries()) {
      this.#guard?.forget(start)
      await this.#files.remove(path)
      this.#bytes -= segments[index + 1]!.start - start
      await this.#files.syncFolder(this.#folder) // each by itself: a gap would be damage
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#closed.abort(this.#refusal())
    await this.#opening?.catch(() => {}) // a failure is told to who opened it
    await this.#writing
    try {
      if (this.#segment && !this.#lost) await this.sync()
    } finally {
      if (!this.#lost) this.#state = 'closed'
      await this.#closeSegment().catch(() => {}) // synced, or known to be lost
      await this.#freeLock()
    }
  }

  async #freeLock(): Promise<void> {
    const [guard, lock] = [this.#guard, this.#lock]
    this.#guard = undefined
    this.#lock = undefined
    await guard?.close()
    await lock?.free()
  }

  /** Writes until nothing waits. Never rejects: a failure is told to who appended. */
  async #writeAll(): Promise<void> {
    await undefined // what is appended in the same task goes out together
    while (this.#waiting.length > 0 && !this.#lost) {
      try {
        await this.#writeNext()
      } catch (error) {
        if (!isFull(error)) this.#lose(error)
        else await this.#waitForRoom()
      }
    }
    this.#writing = undefined
  }

  async #writeNext(): Promise<void> {
    const segment = this.#segment ?? (await this.#beginSegment())
    const ends: number[] = []
    let bytes = 0
    for (const { block } of this.#waiting) {
      const end = bytes + blockLength(block)
      if (ends.length > 0 && end > this.#writeBytes) break
      ends.push(end)
      bytes = end
      if (this.#end + bytes - segment.start >= this.segmentBytes) break
    }
    await segment.write(this.#encoded(ends))
    const begin = this.#end
    for (const end of ends) {
      const written = this.#waiting.shift() // none is left if the log was lost meanwhile
      if (written?.block.carried) this.#carried += 1
      else if (written) this.#lastSeq = written.block.lastSeq
      written?.resolve(this.#end)
      this.#end = begin + end
    }
    this.#bytes += bytes
    if (this.#state === 'full') {
      this.#state = 'open'
      this.#onRoom(true)
    }
    if (this.#end - segment.start >= this.segmentBytes) await this.#endSegment()
  }

  /** The first blocks that wait, one behind the other, in a buffer that the next write takes again. */
  #encoded(ends: readonly number[]): Buffer {
    const bytes = ends.at(-1) ?? 0
    if (this.#buffer.length < bytes)
      this.#buffer = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(Math.max(bytes, this.#writeBytes))))
    const buffer = this.#buffer
    if (bytes > KEPT_BYTES) this.#buffer = NO_BYTES // one large block is no reason to keep so much
    const written = { incarnation: this.#incarnation, synced: this.#synced, carriedBefore: this.#carried }
    let at = 0
    for (let i = 0; i < ends.length; i++) {
      const { block } = this.#waiting[i]!
      at = writeBlock(buffer, at, block, written)
      if (block.carried) written.carriedBefore += 1
    }
    return buffer.subarray(0, bytes)
  }

  async #beginSegment(): Promise<SegmentWriter> {
    const [incarnation, firstPosition, createdAt, after] = [this.#incarnation, this.#end, this.#clock.now(), this.#mark]
    const header = { incarnation, firstPosition, createdAt, ...(after !== undefined && { after }) }
    const segment = await SegmentWriter.begin(this.#folder, this.#files, header)
    this.#segment = segment
    this.#mark = segment.mark
    this.#end += SEGMENT_HEADER_BYTES
    this.#bytes += SEGMENT_HEADER_BYTES
    await this.#guard?.begins(segment, this.#lastSeq)
    return segment
  }

  async #endSegment(): Promise<void> {
    await this.sync() // a later sync reaches the segment of then alone
    await this.#closeSegment()
  }

  async #closeSegment(): Promise<void> {
    const segment = this.#segment
    this.#segment = undefined // first: a file that is being closed cannot be synced any more
    if (segment) this.#guard?.ended(segment)
    await segment?.close()
  }

  async #syncNow(): Promise<void> {
    const [seq, end, segment] = [this.#lastSeq, this.#end, this.#segment]
    try {
      await segment?.sync()
      const isEmpty = segment && end <= segment.start + SEGMENT_HEADER_BYTES
      await this.#guard?.synced(segment, { seq, end: isEmpty ? segment.start : end })
      this.#synced = Math.max(this.#synced, end)
    } catch (error) {
      this.#lose(error)
      throw this.#lost
    }
  }

  async #waitForRoom(): Promise<void> {
    if (this.#closed.signal.aborted || !this.#waitsForRoom) return this.#refuseWaiting(withoutRoom(this.#folder))
    const isTold = this.#state === 'full'
    this.#state = 'full'
    if (!isTold) this.#onRoom(false)
    await this.#clock.sleep(FULL_RETRY_MS, this.#closed.signal).catch(() => {})
  }

  #lose(error: unknown): void {
    if (this.#lost) return
    this.#lost =
      error instanceof LogLostError
        ? error
        : new LogLostError(
            `The log in ${this.#folder} cannot be written: ${describe(error)}. What stands there is kept; repair the disk and start again.`,
            { path: this.#folder },
            error,
          )
    this.#state = 'lost'
    this.#refuseWaiting(this.#lost)
    this.#onLost(this.#lost)
  }

  #refuseWaiting(reason: DramatisError): void {
    for (const { reject } of this.#waiting.splice(0)) reject(reason)
  }

  #refusal(): DramatisError {
    return (
      this.#lost ??
      new LogLostError(
        `The log in ${this.#folder} is ${this.#state === 'new' ? 'not open yet' : 'closed'}: nothing can be appended.`,
        { path: this.#folder },
      )
    )
  }
}

function withoutRoom(path: string): LogLostError {
  return new LogLostError(
    `The disk of the log in ${path} has no room: what waited for room is not written. Make room, and start again: what stands in the log goes on from there.`,
    { path },
  )
}
