/** Reads a log of files beside the process that has it: takes no lock and changes nothing. */
import { type LogFiles, realFiles } from './log-files.ts'
import type { StoredBlock } from './log-store.ts'
import { scanSegments } from './segments.ts'

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
    if (part.kind !== 'block') continue
    const { synced: _, carriedBefore: __, bytes: ___, ...block } = part.block
    yield { ...block, position: part.position }
  }
}
