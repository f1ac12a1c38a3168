/**
 * Reads the entries of a log in the order of their numbers. Entries that a compaction has carried stand behind later
 * ones, and twice where the process died before their first place was given up.
 */
import { type Clock, systemClock } from '../../shared/clock.ts'
import { LogCorruptError, LogHeldError } from '../../shared/errors.ts'
import { hasCode, type Position, type StoredBlock } from '../store/log-files.ts'
import {
  bytesByRun,
  decodeEntries,
  EntryDecoder,
  EntryEncoder,
  leansIn,
  type PartEntry,
  partsIn,
  type WrittenEntry,
} from './entry-codec.ts'
import type { LogEntry } from './records.ts'

/** Gives the blocks of a log in the order in which they stand there; each call begins anew. */
export type ReadBlocks = () => AsyncIterable<StoredBlock>

/** Thrown when entries were carried while the log was read: it has to be read again. */
class LogMoved extends Error {
  constructor() {
    super('The log was compacted while it was read.')
  }
}

/** Number of times that a log is read which its process compacts meanwhile. */
const MOST_READS = 10

/** Pause before a log is read again of which files were removed. It doubles: a compaction removes one after another. */
const FIRST_PAUSE_MS = 20

/**
 * Reads a log that its process may compact meanwhile: then it is read again.
 *
 * @throws LogHeldError if that happens each time.
 */
export async function whileMoved<T>(read: () => Promise<T>, clock: Pick<Clock, 'sleep'> = systemClock): Promise<T> {
  for (let reads = 1; ; reads++) {
    try {
      return await read()
    } catch (error) {
      const isRemoved = hasCode(error, 'ENOENT')
      if (!isRemoved && !(error instanceof LogMoved)) throw error
      if (reads === MOST_READS) throw alwaysMoved(error)
      if (isRemoved) await clock.sleep(FIRST_PAUSE_MS * 2 ** (reads - 1))
    }
  }
}

function alwaysMoved(error: unknown): LogHeldError {
  const text = `The log could not be read to its end: the process that has it compacts it, and moved or removed what was not read yet, ${MOST_READS} times. The log is not damaged, and nothing was changed. Try again when that process writes less, or read a copy of the folder.`
  return new LogHeldError(text, { reads: MOST_READS }, error)
}

/** Block whose entries were read: its place, and the bytes that each run has in it. */
export interface SeenBlock {
  readonly position: Position
  readonly carried: boolean
  readonly bytes: number
  readonly sizes: ReadonlyMap<number, number>
  /** Runs that have copies of what another run said, and that run of each. */
  readonly leans: ReadonlyMap<number, number>
  readonly parts: readonly PartEntry[]
}

/** Entry that goes on from another one, `base`, which the log lacks. */
export type UnreadEntry = Extract<WrittenEntry, { readonly base: number }>

export interface EntryOptions {
  runs?: ReadonlySet<number>
  /** Called with each block, when all entries in it have been yielded. */
  seen?: (block: SeenBlock) => void
  /**
   * Called for each run with the first entry that cannot be read, because the log lacks one before it. By default that
   * is an error. If entries of the team are read too, it is called behind all entries.
   */
  lost?: (entry: UnreadEntry) => void
}

/**
 * Yields each entry once, in the order of the numbers. Reads twice: what was carried has to be known before. Of a run
 * that the log has forgotten any part may be left: its begin, carried while it was kept, or what stood behind.
 *
 * @throws LogCorruptError
 */
export async function* entriesOf(
  read: ReadBlocks,
  { runs, seen = () => {}, lost = refuse }: EntryOptions = {},
): AsyncGenerator<LogEntry> {
  const launched = new Set<number>()
  const broken = new Map<number, UnreadEntry>()
  const decoder = new EntryDecoder()
  const isWanted: IsWanted = (run) => !runs || runs.has(run)
  for await (const entry of encodedEntries(read, seen, isWanted)) {
    const whole = decoder.whole(entry)
    if (whole) yield whole
    else if ('base' in entry && launched.has(entry.run)) {
      if (!broken.has(entry.run)) broken.set(entry.run, entry)
      if (!isWanted(TEAM)) break
    } // else a rest of a forgotten run
    if (whole?.kind === 'run.launched') launched.add(entry.run)
    if (whole?.kind === 'runs.gone') for (const run of whole.runs) broken.delete(run)
  }
  for (const entry of broken.values()) lost(entry)
}

export interface AloneEntry {
  readonly seq: number
  readonly bytes: Uint8Array
}

/**
 * Yields the entries of a run that have copies of what another run said, written without these. `runs`: the run, and
 * those that it leans on.
 *
 * @throws LogCorruptError
 */
export async function* aloneEntries(
  read: ReadBlocks,
  run: number,
  runs: ReadonlySet<number>,
): AsyncGenerator<AloneEntry> {
  const decoder = new EntryDecoder()
  const encoder = new EntryEncoder()
  const isWanted: IsWanted = (each) => runs.has(each)
  for await (const entry of encodedEntries(read, () => {}, isWanted)) {
    const whole = decoder.whole(entry)
    if (entry.run !== run) continue
    if (!whole) {
      if ('base' in entry) refuse(entry)
      continue
    }
    const bytes = encoder.encode([whole])
    if (entry.kind === 'copies' && entry.leansOn !== 0) yield { seq: entry.seq, bytes }
  }
}

const TEAM = 0

function refuse({ run, seq, base }: UnreadEntry): never {
  const text = `The log is damaged: entry ${seq} of run number ${run} goes on from entry ${base}, which the log does not have. Nothing was changed. Restore the log from a copy; or see with "dramatis log repair" which runs are lost, and let it give them up; or start with another path.`
  throw new LogCorruptError(text, { runs: [run] })
}

type IsWanted = (run: number) => boolean

async function* encodedEntries(
  read: ReadBlocks,
  seen: (block: SeenBlock) => void,
  isWanted: IsWanted,
): AsyncGenerator<WrittenEntry> {
  const { blocks, entries: carried } = await carriedIn(read, isWanted)
  const known = new Set(blocks.map(({ position }) => position))
  let next = 0
  for await (const block of read()) {
    if (block.carried) {
      if (!known.has(block.position)) throw new LogMoved()
      continue
    }
    for (const entry of decodeEntries(block.entries, isWanted)) {
      while (next < carried.length && carried[next]!.seq < entry.seq) yield carried[next++]!
      // An entry that was carried may be written in other words than in its first place, which is still there.
      yield carried[next]?.seq === entry.seq ? carried[next++]! : entry
    }
    seen(seenBlock(block))
  }
  yield* carried.slice(next)
  for (const block of blocks) seen(block)
}

async function carriedIn(
  read: ReadBlocks,
  isWanted: IsWanted,
): Promise<{ blocks: SeenBlock[]; entries: WrittenEntry[] }> {
  const blocks: SeenBlock[] = []
  const entries = new Map<number, WrittenEntry>()
  for await (const block of read()) {
    if (!block.carried) continue
    blocks.push(seenBlock(block))
    for (const entry of decodeEntries(block.entries, isWanted)) entries.set(entry.seq, entry)
  }
  return { blocks, entries: [...entries.values()].sort((a, b) => a.seq - b.seq) }
}

export const inBlock = (entries: Uint8Array): Pick<SeenBlock, 'sizes' | 'leans'> => ({
  sizes: bytesByRun(entries),
  leans: leansIn(entries),
})

export function seenBlock({ position, carried, entries }: StoredBlock): SeenBlock {
  return { position, carried, bytes: entries.byteLength, ...inBlock(entries), parts: [...partsIn(entries)] }
}
