/** A log of files as a whole: read beside the process that has it, without a lock, or replaced by its owner. */
import { join } from 'node:path'
import { encodeBlock, newMark, segmentHeader } from './block-format.ts'
import { removeCheckpoint } from './checkpoint-file.ts'
import {
  type Block,
  type LogFile,
  type LogFiles,
  type OpenedLog,
  type Position,
  realFiles,
  removeIfThere,
  type StoredBlock,
  writeWhole,
} from './log-files.ts'
import { LogLock } from './log-lock.ts'
import { logSegments, scanSegments, segmentName, storedBlock } from './segments.ts'

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
    if (part.kind === 'block') yield storedBlock(part)
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
  const hasUnfinished = await removeIfThere(join(folder, UNFINISHED), files)
  if (left.length > 0 || hasUnfinished) await files.syncFolder(folder)
}
