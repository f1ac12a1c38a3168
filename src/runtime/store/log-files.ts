/** The few file system calls that a log needs, as an interface: a test puts faults below it. */
import { constants, type FileHandle, mkdir, open, readdir, rename, stat, unlink } from 'node:fs/promises'

export interface LogFile {
  /**
   * Resolves to the number of bytes that were written, which can be fewer than given. Bytes of a file that was created
   * go to its end: where somebody has cut it, it stays shorter than it should be, and that shows.
   */
  write(bytes: Uint8Array, position: number): Promise<number>
  sync(): Promise<void>
  truncate(bytes: number): Promise<void>
  close(): Promise<void>
}

export interface FileStatus {
  /** Changes when another file takes the place of this one. */
  readonly identity: string
  readonly bytes: number
  /** Changes when the file is written or replaced. */
  readonly version: string
}

export interface LogFiles {
  /** Makes the folder, for its owner alone, and returns what identifies it on this machine, whatever its path. */
  folder(path: string): Promise<string>
  list(folder: string): Promise<string[]>
  /** Rejects with `EEXIST` where the file exists. */
  create(path: string): Promise<LogFile>
  openExisting(path: string): Promise<LogFile>
  /** Reads from that byte on, at most so many: fewer where the file ends before. By default all of it. */
  read(path: string, from?: number, bytes?: number): Promise<Buffer>
  /** Returns undefined where there is no such file. */
  statusOf(path: string): Promise<FileStatus | undefined>
  rename(from: string, to: string): Promise<void>
  remove(path: string): Promise<void>
  /** Makes names that were created, renamed or removed in the folder survive the death of the machine. */
  syncFolder(path: string): Promise<void>
}

/** Windows lets no file be cut that is open for its end alone. */
const APPENDS = process.platform === 'win32' ? 0 : constants.O_APPEND

const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700

/** Writes all of the bytes to that place. */
export async function writeWhole(file: LogFile, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const written = await file.write(bytes.subarray(done), position + done)
    if (written <= 0) throw new Error(`a write of ${bytes.byteLength - done} bytes wrote ${written}`)
    done += written
  }
}

/** Removes a file. Resolves to false where there is none. */
export const removeIfThere = (path: string, files: LogFiles): Promise<boolean> =>
  files.remove(path).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return false
      throw error
    },
  )

/** The real file system. */
export const realFiles: LogFiles = {
  async folder(path) {
    await mkdir(path, { recursive: true, mode: PRIVATE_FOLDER })
    const { dev, ino } = await stat(path, { bigint: true })
    return `${dev}-${ino}`
  },
  list: (folder) => readdir(folder),
  create: async (path) =>
    fileOf(
      path,
      await open(path, constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | APPENDS, PRIVATE_FILE),
      true,
    ),
  openExisting: async (path) => fileOf(path, (await opened(path, constants.O_RDWR)).file),
  async read(path, from = 0, most = Number.POSITIVE_INFINITY) {
    const { file, size } = await opened(path, constants.O_RDONLY)
    try {
      const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(most, size - from)))
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await naming(path, file.read(bytes, done, bytes.length - done, from + done))
        if (bytesRead === 0) return bytes.subarray(0, done)
        done += bytesRead
      }
      return bytes
    } finally {
      await file.close()
    }
  },
  async statusOf(path) {
    try {
      const { ino, mtimeNs, size } = await stat(path, { bigint: true })
      return { identity: `${ino}`, bytes: Number(size), version: `${ino} ${mtimeNs} ${size}` }
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined
      throw error
    }
  },
  rename: (from, to) => rename(from, to),
  remove: (path) => unlink(path),
  async syncFolder(path) {
    if (process.platform === 'win32') return // folders cannot be synced there
    const folder = await open(path, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  },
}

/** Opens a file that exists. A pipe, which a plain open waits at until somebody writes, is refused like any device. */
async function opened(path: string, flags: number): Promise<{ file: FileHandle; size: number }> {
  const file = await open(path, flags | (constants.O_NONBLOCK ?? 0)) // Windows has no such flag, and no such files
  try {
    const status = await naming(path, file.stat())
    if (status.isFile() || status.isDirectory()) return { file, size: status.size }
    throw Object.assign(new Error(`EINVAL: not a regular file, open '${path}'`), { code: 'EINVAL' })
  } catch (error) {
    await file.close()
    throw error
  }
}

function fileOf(path: string, handle: FileHandle, isCreated = false): LogFile {
  const place = (position: number) => (isCreated && APPENDS !== 0 ? null : position)
  return {
    write: async (bytes, position) =>
      (await naming(path, handle.write(bytes, 0, bytes.byteLength, place(position)))).bytesWritten,
    sync: () => naming(path, handle.datasync()),
    truncate: (bytes) => naming(path, handle.truncate(bytes)),
    close: () => naming(path, handle.close()),
  }
}

/** Adds the path to an error of an open file, as Node adds it to those of paths: "EIO: i/o error, read" has none. */
async function naming<T>(path: string, done: Promise<T>): Promise<T> {
  try {
    return await done
  } catch (error) {
    if (error instanceof Error) error.message += ` '${path}'`
    throw error
  }
}

/** Tells whether an error of the operating system has that code. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

export function isFull(error: unknown): boolean {
  return hasCode(error, 'ENOSPC') || hasCode(error, 'EDQUOT')
}

/** Place of a block in a log. Positions ascend with the blocks; nothing else may be concluded from their value. */
export type Position = number

/** Entries that are in the log together or not at all. */
export interface Block {
  /** Number of its first and its last entry. Blocks follow each other without a gap, except for carried ones. */
  firstSeq: number
  lastSeq: number
  /** Repeats entries of older segments, under their old numbers. */
  carried: boolean
  /** Indices of the runs that have entries here. */
  runs: readonly number[]
  /** The store does not look into them. */
  entries: Uint8Array
}

export interface StoredBlock extends Block {
  position: Position
  /** Number of the `open` under which the block was written. */
  incarnation: number
}

/** Note of the log's user about all blocks up to one: with it they need not be read again. */
export interface Checkpoint {
  /** Position of the last of these blocks. */
  readonly position: Position
  /** Yields the pieces that it was made of. Throws where they are damaged. */
  read(): AsyncIterable<Uint8Array>
}

export interface OpenedLog {
  /** Above that of every process that had this log before. */
  incarnation: number
  /** Number of the last entry, 0 in an empty log. */
  lastSeq: number
  /** True if the process before had the log until it ended by itself: by `process.exit`, or by an uncaught error. */
  ended?: boolean
  /** The last checkpoint, if the store has one that is whole and belongs to its blocks. */
  checkpoint?: Checkpoint
  /** Why a checkpoint that is there cannot be used. */
  checkpointUnusable?: string
  /** Unfinished block at the end, left by a process or a machine that died: it was cut off. */
  cut: { position: Position; bytes: number } | undefined
}

export interface ReadOptions {
  /** Position of a block: leaves out the blocks before. */
  from?: Position
  /** Leaves out blocks in which none of these runs has a part. */
  runs?: ReadonlySet<number>
  signal?: AbortSignal
}

/**
 * `full`: the disk has no room, appends wait and are tried again. `lost`: nothing can be appended any more; what stands
 * in the log stays readable.
 */
export type LogState = 'new' | 'open' | 'full' | 'lost' | 'closed'

/** Keeps the log of a team. All implementations pass one contract suite. */
export interface LogStore {
  readonly state: LogState
  /** Size of what is kept. */
  readonly bytes: number
  /** Number of the files of a log, and the time at which the first of them was begun, in epoch ms. */
  readonly segments?: { readonly count: number; readonly since: number } | undefined
  /** Size of the pieces, about, in which `dropBefore` gives up space. Default: 64 MiB. */
  readonly segmentBytes?: number
  /** Bytes that are appended between two checkpoints, about. Default: 16 MiB. */
  readonly checkpointBytes?: number
  /**
   * Takes the log for this process and checks it: all of it, or what stands behind its checkpoint.
   *
   * @throws LogHeldError, LogCorruptError, LogVersionError, LogLostError
   */
  open(signal?: AbortSignal): Promise<OpenedLog>
  /**
   * Appends behind all earlier blocks. Resolves when the block survives the death of the process; waits while the store
   * is full. Rejects with `LogLostError` when this or an earlier block could not be written. The bytes of its entries
   * are the store's until then; the caller writes over them afterwards.
   */
  append(block: Block): Promise<Position>
  /**
   * Resolves when all blocks that were written before the call survive the death of the machine. A failure is final:
   * nobody knows what the disk has.
   */
  sync(): Promise<void>
  /** The blocks in their order, checked: throws `LogCorruptError` where one is damaged. */
  read(options?: ReadOptions): AsyncIterable<StoredBlock>
  /** Gives up space that lies wholly before a position. The caller has carried on what is still needed. */
  dropBefore(position: Position): Promise<void>
  /**
   * Keeps a checkpoint of all blocks up to that one, in place of the one before, when all of its pieces have come; then
   * it survives the death of the machine. `lastSeq`: number of the last entry that it covers. Optional: the log of a
   * store without checkpoints is read whole at each opening. A store must not give out one that is damaged, or that was
   * made of other blocks.
   */
  checkpoint?(position: Position, lastSeq: number, pieces: AsyncIterable<Uint8Array>): Promise<Checkpoint>
  /** Writes and syncs what was appended, and gives the log free. Blocks that wait for room are refused. */
  close(): Promise<void>
}
