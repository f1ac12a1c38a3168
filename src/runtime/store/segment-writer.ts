/** The segment that a process writes: a file of its own, to which whole pieces are added. */
import { join } from 'node:path'
import { type NewSegment, newMark, segmentHeader } from './block-format.ts'
import { type LogFile, type LogFiles, writeWhole } from './log-files.ts'
import type { Position } from './log-store.ts'
import { segmentName } from './segments.ts'

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

  /** Creates the file, with its header. */
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
