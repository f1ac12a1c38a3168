import { type LogFile, type LogFiles, realFiles } from '../../src/runtime/store/log-files.ts'

/** The real file system, with faults where a test wants them. */
export class FaultyFiles implements LogFiles {
  /** Most bytes that one write takes. */
  shortest = Number.POSITIVE_INFINITY
  /** Bytes that may still be written before each write fails. */
  room = Number.POSITIVE_INFINITY
  /** Code with which writes fail when there is no room. */
  writeFailure = 'ENOSPC'
  syncFailure: string | undefined
  syncs = 0
  writes = 0
  /** Bytes that were read from segments. */
  readBytes = 0
  /** Called when the close of a segment has begun. */
  whileClosing: (() => Promise<void>) | undefined
  readonly #whenRefused: (() => void)[] = []

  /** Resolves with the next write that is refused. */
  refused(): Promise<void> {
    return new Promise((resolve) => this.#whenRefused.push(resolve))
  }

  folder = realFiles.folder
  list = realFiles.list
  rename = realFiles.rename
  statusOf = realFiles.statusOf
  remove = realFiles.remove
  syncFolder = realFiles.syncFolder
  read = async (path: string, from?: number, most?: number) => {
    const bytes = await realFiles.read(path, from, most)
    if (path.endsWith('.log')) this.readBytes += bytes.length
    return bytes
  }
  create = async (path: string) => this.#around(await realFiles.create(path), path)
  openExisting = async (path: string) => this.#around(await realFiles.openExisting(path), path)

  #around(file: LogFile, path: string): LogFile {
    if (!path.endsWith('.log')) return file
    let isClosing = false
    return {
      write: async (bytes, position) => {
        const taken = Math.min(bytes.byteLength, this.shortest, this.room)
        if (taken === 0) {
          for (const resolve of this.#whenRefused.splice(0)) resolve()
          throw failure(this.writeFailure)
        }
        this.room -= taken
        this.writes += 1
        return file.write(bytes.subarray(0, taken), position)
      },
      sync: async () => {
        if (isClosing) throw failure('EBADF')
        this.syncs += 1
        if (this.syncFailure !== undefined) throw failure(this.syncFailure)
        await file.sync()
      },
      truncate: (bytes) => file.truncate(bytes),
      close: async () => {
        isClosing = true
        await this.whileClosing?.()
        await file.close()
      },
    }
  }
}

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code })
}
