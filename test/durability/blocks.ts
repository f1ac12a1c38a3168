import type { Block, LogStore, StoredBlock } from '../../src/runtime/store/log-files.ts'

/** Block of one entry that says its number; `bytes` makes it as long as wanted. */
export function blockOf(seq: number, runs: number[] = [1], bytes = 0): Block {
  return { firstSeq: seq, lastSeq: seq, carried: false, runs, entries: Buffer.from(`entry ${seq}`.padEnd(bytes, '.')) }
}

export async function appendAll(store: LogStore, first: number, last: number, bytes = 0): Promise<void> {
  const seqs = Array.from({ length: last - first + 1 }, (_, i) => first + i)
  await Promise.all(seqs.map((seq) => store.append(blockOf(seq, [seq % 3], bytes))))
}

export async function contentOf(blocks: AsyncIterable<StoredBlock>): Promise<string[]> {
  const found: string[] = []
  for await (const { entries } of blocks) found.push(Buffer.from(entries).toString().replace(/\.+$/, ''))
  return found
}

export function entriesUpTo(last: number, first = 1): string[] {
  return Array.from({ length: last - first + 1 }, (_, i) => `entry ${first + i}`)
}
