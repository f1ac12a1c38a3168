/**
 * Notes how far a log had come on the disk, so that an end that is missing is noticed: the newest segments of a copy,
 * or some bytes. The file `told` is written after each sync, and is not synced itself: it may say less, and never more.
 */
import { join } from 'node:path'
import { hasCode, type LogFile, type LogFiles, type Position, writeWhole } from './log-files.ts'
import { segmentName } from './segments.ts'

/** End of a log that was on the disk, and the segment in which it was. */
export interface Told {
  /** Number of the last entry. */
  readonly seq: number
  readonly end: Position
  /** First position of the last segment, and its mark. */
  readonly segment: Position
  readonly mark: string
}

/** Says that the log has no segment. */
export const NOTHING_TOLD: Told = { seq: 0, end: 0, segment: -1, mark: '' }

export const TOLD = 'told'
/** The text is filled up, so that a shorter one leaves nothing of a longer one. */
const BYTES = 160

/** Returns undefined where nothing is noted, or where the machine died before the note was on the disk. */
export async function readTold(folder: string, files: LogFiles): Promise<Told | undefined> {
  try {
    const text = (await files.read(join(folder, TOLD))).toString('latin1')
    const { seq, end, segment, mark } = Object(JSON.parse(text))
    const isTold = [seq, end, segment].every((number) => Number.isSafeInteger(number)) && typeof mark === 'string'
    return isTold ? { seq, end, segment, mark } : undefined
  } catch (error) {
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

export class ToldFile {
  readonly #file: LogFile

  private constructor(file: LogFile) {
    this.#file = file
  }

  static async open(folder: string, files: LogFiles): Promise<ToldFile> {
    const path = join(folder, TOLD)
    if (!(await files.statusOf(path))) await files.create(path).then((file) => file.close())
    return new ToldFile(await files.openExisting(path))
  }

  async write(told: Told): Promise<void> {
    await writeWhole(this.#file, Buffer.from(`${JSON.stringify(told).padEnd(BYTES - 1)}\n`), 0)
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

/** Says which part of the end of a log is missing; undefined if nothing is. `last`: the last segment that is there. */
export function missingEnd(told: Told, last: Position | undefined, end: Position): string | undefined {
  if (told.segment > (last ?? -1)) return `segment ${segmentName(told.segment)} is missing`
  return end < told.end ? `it ends at byte ${end}, and went on to byte ${told.end}` : undefined
}
