/** Checks all segments when a log is opened, and cuts off the block that a dying process or machine left unfinished. */
import { readBlock, SEGMENT_HEADER_BYTES } from './block-format.ts'
import type { LogFiles } from './log-files.ts'
import { removeLeftovers } from './log-rewriter.ts'
import type { OpenedLog, Position } from './log-store.ts'
import { listSegments, scanSegments } from './segments.ts'

/** State of the log that stands in a folder. `incarnation` is the last one that wrote. */
export interface CheckedLog extends OpenedLog {
  /** Position behind the last block. */
  readonly end: Position
  readonly bytes: number
}

/** @throws LogCorruptError, LogVersionError; neither after a change of what the log says. */
export async function checkSegments(folder: string, files: LogFiles, signal?: AbortSignal): Promise<CheckedLog> {
  await removeLeftovers(folder, files)
  const found = { incarnation: 0, lastSeq: 0, cut: undefined as OpenedLog['cut'], end: 0, bytes: 0 }
  for await (const part of scanSegments({ folder, files, ...(signal && { signal }) })) {
    if (part.kind === 'block') {
      found.incarnation = Math.max(found.incarnation, part.block.incarnation)
      if (!part.block.carried) found.lastSeq = part.block.lastSeq
      continue
    }
    const { segment } = part
    const whole = part.kind === 'tail' ? part.wholeBytes : part.bytes
    if (part.kind === 'tail') found.cut = { position: segment.start + whole, bytes: part.bytes - whole }
    const isEmpty = whole <= SEGMENT_HEADER_BYTES // the next block begins a segment of this name
    if (isEmpty) await files.remove(segment.path)
    else if (part.kind === 'tail') await cut(segment.path, whole, files)
    const kept = isEmpty ? 0 : whole
    found.end = segment.start + kept
    found.bytes += kept
  }
  await syncLast(folder, files)
  return found
}

/** Tells whether a whole block stands behind the end that was found: another process has written meanwhile. */
export async function hasGrown(folder: string, files: LogFiles, end: Position): Promise<boolean> {
  const last = (await listSegments(folder, files)).at(-1)
  if (!last) return false
  const from = last.start < end ? end - last.start : SEGMENT_HEADER_BYTES
  return readBlock(await files.read(last.path, from), 0) !== undefined
}

async function cut(path: string, bytes: number, files: LogFiles): Promise<void> {
  const file = await files.openExisting(path)
  await file.truncate(bytes).finally(() => file.close())
}

/** Syncs what the process before wrote last: only the last segment of a log may end within a block. */
async function syncLast(folder: string, files: LogFiles): Promise<void> {
  const last = (await listSegments(folder, files)).at(-1)
  if (last) {
    const file = await files.openExisting(last.path)
    await file.sync().finally(() => file.close())
  }
  await files.syncFolder(folder)
}
