/** Chunks: blocks that a store writes together, one chunk at a time. */
import type { DramatisError } from '../../shared/errors.ts'
import { blockLength, readBlock, writeBlock } from './block-format.ts'
import type { Block, Position, ReadOptions, StoredBlock } from './log-files.ts'

/** A block that is to be written, and who waits for it. */
export interface WaitingBlock {
  readonly block: Block
  resolve(position: Position): void
  reject(error: DramatisError): void
}

/** End of a log: the number of its last entry, and that of the carried blocks of its incarnation. */
export interface LogEnd {
  readonly lastSeq: number
  readonly carried: number
}

/** The first of those that wait, for a chunk of about so many bytes. */
export function nextGroup(waiting: readonly WaitingBlock[], most: number): WaitingBlock[] {
  let bytes = 0
  const past = waiting.findIndex(({ block }, i) => {
    bytes += blockLength(block)
    return i > 0 && bytes > most
  })
  return past < 0 ? [...waiting] : waiting.slice(0, past)
}

/** Writes a chunk. Returns it with the end that the log has behind it. */
export function chunkOf(
  group: readonly WaitingBlock[],
  incarnation: number,
  synced: Position,
  { lastSeq, carried }: LogEnd,
): { bytes: Buffer; end: LogEnd } {
  const bytes = Buffer.allocUnsafe(group.reduce((sum, { block }) => sum + blockLength(block), 0))
  const end = { lastSeq, carried }
  let at = 0
  for (const { block } of group) {
    at = writeBlock(bytes, at, block, { incarnation, synced, carriedBefore: end.carried })
    if (block.carried) end.carried += 1
    else end.lastSeq = block.lastSeq
  }
  return { bytes, end }
}

/**
 * Yields the blocks of a chunk that are asked for.
 *
 * @param positionOf gives the position of the block that begins at that byte, as the so manieth of the chunk
 * @param damaged says where the chunk is damaged
 */
export function* blocksIn(
  bytes: Buffer,
  { from = 0, runs }: ReadOptions,
  positionOf: (at: number, index: number) => Position,
  damaged: (at: number) => DramatisError,
): Generator<StoredBlock> {
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const block = readBlock(bytes, at)
    if (!block) throw damaged(at)
    const { synced: _, carriedBefore: __, bytes: length, ...rest } = block
    const position = positionOf(at, index)
    if (position >= from && (!runs || rest.runs.some((run) => runs.has(run)))) yield { ...rest, position }
    at += length
  }
}
