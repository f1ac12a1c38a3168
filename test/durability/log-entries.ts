/** Entries as bytes and back, for tests that do without what reads a whole log. */
import { decodeEntries, EntryDecoder, EntryEncoder, type WrittenEntry } from '../../src/runtime/log/entry-codec.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'

export const encoded = (entries: readonly LogEntry[]): Uint8Array => new EntryEncoder().encode(entries)

/** `decoder`: of the entries before, for bytes that do not begin a log. */
export function decoded(bytes: Uint8Array, decoder = new EntryDecoder()): LogEntry[] {
  return inOrder(decodeEntries(bytes), decoder)
}

/** Entries of blocks in the order of their numbers, each once: what was carried stands in two places for a while. */
export function entriesIn(blocks: Iterable<{ readonly entries: Uint8Array }>): LogEntry[] {
  const all = new Map(Array.from(blocks, ({ entries }) => [...decodeEntries(entries)]).flatMap(bySeq))
  return inOrder(
    [...all.values()].sort((a, b) => a.seq - b.seq),
    new EntryDecoder(),
  )
}

const bySeq = (entries: WrittenEntry[]) => entries.map((entry) => [entry.seq, entry] as const)

function inOrder(entries: Iterable<WrittenEntry>, decoder: EntryDecoder): LogEntry[] {
  const all = Array.from(entries, (entry) => ({ entry, whole: decoder.whole(entry) }))
  const launched = new Set<number>()
  for (const { whole } of all) {
    if (whole?.kind === 'run.launched') launched.add(whole.run)
    if (whole?.kind === 'runs.gone') for (const run of whole.runs) launched.delete(run)
  }
  return all.flatMap(({ entry, whole }) => {
    if (!whole && launched.has(entry.run)) throw new RangeError(`entry ${entry.seq} lacks the one that it goes on from`)
    return whole ? [whole] : [] // a rest of a run that the log has forgotten
  })
}
