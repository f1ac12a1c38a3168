/**
 * Checks all segments when a log is opened, and cuts off the block that a dying process or machine left unfinished.
 * Bytes that were noted to be on the disk are no such block (told.ts).
 */
import { LogCorruptError } from '../../errors.ts'
import { readBlock, SEGMENT_HEADER_BYTES } from './block-format.ts'
import { type Anchor, findCheckpoint } from './checkpoint-file.ts'
import type { LogFiles } from './log-files.ts'
import { removeLeftovers } from './log-rewriter.ts'
import type { OpenedLog, Position } from './log-store.ts'
import { corrupt, listSegments, type Segment, scanSegments } from './segments.ts'
import { missingEnd, readTold, type Told } from './told.ts'

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
export async function checkSegments(folder: string, files: LogFiles, signal?: AbortSignal): Promise<CheckedLog> {
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
export async function cutTail({ segment, bytes }: LastSegment, hasTail: boolean, files: LogFiles): Promise<void> {
  const file = await files.openExisting(segment.path)
  try {
    if (hasTail) await file.truncate(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

export async function removeEmpty(folder: string, empty: Segment | undefined, files: LogFiles): Promise<void> {
  if (empty) await files.remove(empty.path)
  await files.syncFolder(folder)
}

/** Tells whether a whole block stands behind the end that was found: another process has written meanwhile. */
export async function hasGrown(folder: string, files: LogFiles, end: Position): Promise<boolean> {
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
