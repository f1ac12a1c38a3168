/**
 * Sees what others do to the files of a log that is in use, such as a rotation of *.log files: what is written into a
 * file that somebody has removed, replaced or cut is lost, and nothing else would say so.
 */
import { join } from 'node:path'
import { LogLostError } from '../../errors.ts'
import { readSegmentHeader, SEGMENT_HEADER_BYTES } from './block-format.ts'
import type { LogFiles } from './log-files.ts'
import type { LogStore, Position } from './log-store.ts'
import { listSegments, segmentName } from './segments.ts'

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

  /** Takes the segments of the folder as they are now. */
  async takeAll(): Promise<void> {
    for (const { start, path } of await listSegments(this.#folder, this.#files)) {
      const status = await this.#files.statusOf(path)
      const header = readSegmentHeader(await this.#files.read(path, 0, SEGMENT_HEADER_BYTES))
      if (!status || !header) continue // it was checked, and is gone since
      this.#known.set(start, { identity: status.identity, least: status.bytes, createdAt: header.createdAt })
    }
  }

  /** Takes a segment that was created now. */
  async take(start: Position, createdAt: number): Promise<void> {
    const status = await this.#files.statusOf(this.#path(start))
    this.#known.set(start, { identity: status?.identity ?? '', least: 0, createdAt })
  }

  /** Notes how large a segment is to which nothing is added any more. */
  ended(start: Position, least: number): void {
    const known = this.#known.get(start)
    if (known) this.#known.set(start, { ...known, least })
  }

  /** To be called before a segment is removed. */
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
