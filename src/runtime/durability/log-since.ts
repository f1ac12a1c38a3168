/** Reads a log from its checkpoint on: what stands before it is not read. */
import { decodeEntries, EntryDecoder } from '../log/entry-codec.ts'
import { seenBlock } from '../log/read-entries.ts'
import type { HostRecord } from '../log/records.ts'
import type { Checkpoint, LogStore } from '../store/log-store.ts'
import { piecesOf } from './checkpoint.ts'
import { OldLog } from './old-log.ts'
import type { Slices } from './slices.ts'

/**
 * Returns the same as `OldLog.from`, but for what only runs had that are over. Rejects if the checkpoint cannot be
 * used: then all of the log has to be read.
 */
export async function logSince(
  checkpoint: Checkpoint,
  store: Pick<LogStore, 'read'>,
  windowMs: number,
  slices: Slices,
): Promise<OldLog> {
  const log = new OldLog(windowMs)
  const decoder = new EntryDecoder()
  const facts = await readPieces(checkpoint, log, decoder, slices)
  let told = 0
  const tell = (until: number) => {
    while (told < facts.length && facts[told]!.seq < until) log.see(facts[told++]!)
  }
  for await (const block of store.read({ from: checkpoint.position })) {
    if (block.position === checkpoint.position) continue
    // Entries that were carried since stand in the checkpoint, or behind it.
    if (!block.carried)
      for (const entry of decodeEntries(block.entries, all, true)) {
        tell(entry.seq)
        const whole = decoder.whole(entry)
        if (whole) log.see(whole)
        else if (log.index.get(entry.run)) throw new Error(`entry ${entry.seq} goes on from one that it does not have`)
      }
    log.wrote(seenBlock(block))
    await slices.othersTurn()
  }
  tell(log.next)
  if (told < facts.length) throw new Error('it was made of a log that had more entries')
  for await (const { position } of store.read()) {
    log.dropped(position)
    break
  }
  await log.end((options) => store.read(options))
  return log
}

const all = () => true

/** Puts the index in place and the entries of the runs that were open. Returns the facts of the team. */
async function readPieces(
  checkpoint: Checkpoint,
  log: OldLog,
  decoder: EntryDecoder,
  slices: Slices,
): Promise<HostRecord[]> {
  const facts: HostRecord[] = []
  let next = 0
  for await (const piece of piecesOf(checkpoint)) {
    if (piece.kind === 'state') {
      const { runs = [], parts = [], logParts = [] } = piece.state
      next = piece.state.next ?? next
      log.restore(runs)
      log.parts.restore(parts)
      log.blocks.push(...logParts)
    } else
      for (const entry of decodeEntries(piece.bytes, all, true)) {
        const whole = decoder.whole(entry)
        if (!whole) throw new Error(`entry ${entry.seq} goes on from one that it does not have`)
        if (piece.kind === 'entries') log.seeOpen(whole)
        else if (whole.kind !== 'frames') facts.push(whole)
      }
    await slices.othersTurn()
  }
  log.openRead(next)
  return facts
}
