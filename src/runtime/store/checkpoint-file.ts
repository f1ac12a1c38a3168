/**
 * The file with the checkpoint of a log. Its bytes are blocks as in a segment (block-format.ts), numbered from 1: the
 * first says to which block of the log it belongs, an empty one ends it, and each between them has a piece.
 */
import { join } from 'node:path'
import { describe } from '../../shared/errors.ts'
import { encodeBlock, SEGMENT_HEADER_BYTES } from './block-format.ts'
import { hasCode, type LogFiles, type Position, removeIfThere, writeWhole } from './log-files.ts'
import { listSegments, SegmentReader } from './segments.ts'

const NAME = 'checkpoint'
const UNFINISHED = 'checkpoint.tmp'
const FORMAT = 1
const NO_BYTES = new Uint8Array()
/** Place of the checksum in a block. */
const SUM_AT = 4

export interface Anchor {
  readonly position: Position
  readonly lastSeq: number
}

interface Head extends Anchor {
  readonly format: number
  readonly sum: number | undefined
}

/** Checkpoint that was found: where it stands, or why it is not used. */
export type FoundCheckpoint = Anchor | { readonly unusable: string }

/** Writes a checkpoint in the place of the one that is there, when all its pieces have come. */
export async function writeCheckpoint(
  folder: string,
  files: LogFiles,
  anchor: Anchor,
  pieces: AsyncIterable<Uint8Array>,
): Promise<void> {
  const unfinished = join(folder, UNFINISHED)
  await removeIfThere(unfinished, files)
  const file = await files.create(unfinished)
  let [at, count] = [0, 0]
  const put = async (entries: Uint8Array) => {
    count += 1
    const bytes = encodeBlock({ firstSeq: count, lastSeq: count, carried: false, runs: [], entries }, 0, 0, 0)
    await writeWhole(file, bytes, at)
    at += bytes.length
  }
  try {
    const head: Head = { format: FORMAT, ...anchor, sum: await sumOf(folder, files, anchor.position) }
    await put(Buffer.from(JSON.stringify(head)))
    for await (const piece of pieces) if (piece.byteLength > 0) await put(piece)
    await put(NO_BYTES)
    await file.sync()
  } catch (error) {
    await file.close()
    await removeIfThere(unfinished, files)
    throw error
  }
  await file.close()
  await files.rename(unfinished, join(folder, NAME))
  await files.syncFolder(folder)
}

/** Yields the pieces of a checkpoint. Throws where it is damaged. */
export async function* readCheckpoint(folder: string, files: LogFiles): AsyncGenerator<Uint8Array> {
  let isHead = true
  for await (const piece of piecesOf(folder, files)) {
    if (!isHead) yield piece
    isHead = false
  }
}

/** Looks for a checkpoint, and at all of it: whether it is whole, and of this log. */
export async function findCheckpoint(folder: string, files: LogFiles): Promise<FoundCheckpoint | undefined> {
  try {
    let head: Head | undefined
    for await (const piece of piecesOf(folder, files)) head ??= JSON.parse(Buffer.from(piece).toString()) as Head
    if (head?.format !== FORMAT) return { unusable: `it has format ${head?.format}, and this version reads ${FORMAT}` }
    const { position, lastSeq, sum } = head
    if (sum === undefined || (await sumOf(folder, files, position)) !== sum)
      return { unusable: 'the log has no such block as it was made behind' }
    return { position, lastSeq }
  } catch (error) {
    return hasCode(error, 'ENOENT') ? undefined : { unusable: describe(error) }
  }
}

export const removeCheckpoint = (folder: string, files: LogFiles): Promise<boolean> =>
  removeIfThere(join(folder, NAME), files)

async function* piecesOf(folder: string, files: LogFiles): AsyncGenerator<Uint8Array> {
  const reader = new SegmentReader(join(folder, NAME), files, Number.POSITIVE_INFINITY)
  for (let [at, count] = [0, 1]; ; count++) {
    const found = await reader.block(at)
    if (!found || 'rest' in found || found.block.firstSeq !== count)
      throw new Error(`it is damaged, or not whole (byte ${at})`)
    const { entries, bytes } = found.block
    if (entries.byteLength === 0) return
    yield entries
    at += bytes
  }
}

/** Returns the checksum that the block at that position states; undefined if the log has nothing there. */
async function sumOf(folder: string, files: LogFiles, position: Position): Promise<number | undefined> {
  const segment = (await listSegments(folder, files)).findLast(({ start }) => start + SEGMENT_HEADER_BYTES <= position)
  const bytes = segment && (await files.read(segment.path, position - segment.start + SUM_AT, 4))
  return bytes?.length === 4 ? bytes.readUInt32LE(0) : undefined
}
