/**
 * Guards a log that this process has: sees that another process has taken it, or that somebody has touched its files,
 * and notes how far it has come (told.ts). Files are looked at with each sync, and every few seconds besides.
 */
import type { Scheduler, Timer } from '../../clock.ts'
import { type CheckedLog, cutTail, removeEmpty } from './check-segments.ts'
import { isFull, type LogFiles } from './log-files.ts'
import type { LogLock } from './log-lock.ts'
import type { LogStore, Position } from './log-store.ts'
import { SegmentWatch } from './segment-watch.ts'
import type { SegmentWriter } from './segment-writer.ts'
import { NOTHING_TOLD, type Told, ToldFile } from './told.ts'

/** Time between two looks at files, which may not be written to, and so not be synced. */
const LOOK_MS = 5_000

interface Needs {
  readonly folder: string
  readonly files: LogFiles
  readonly clock: Scheduler
  readonly lock: LogLock
  /** Called when the log is not as it was. */
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
      await removeEmpty(folder, empty, files) // behind the note, which may say that it is there
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

  /** To be called before a segment is removed. */
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
