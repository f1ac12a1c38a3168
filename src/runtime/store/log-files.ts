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
