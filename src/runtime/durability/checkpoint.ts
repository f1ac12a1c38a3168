/**
 * Checkpoint of a log: what its reader needs of the blocks up to one, so that it need not read them. It has the index
 * of runs and parts, the facts of the team, and the entries that a compaction would carry for the runs that are open.
 * Facts are taken while the team works: each has the number of the entry behind which it holds.
 */

import { EntryEncoder, type EntrySpan, entrySpans, isLettersEnd, isOfIncarnation, isOfLog } from '../log/entry-codec.ts'
import type { AloneEntry } from '../log/read-entries.ts'
import type { HostRecord } from '../log/records.ts'
import type { Block, Checkpoint, LogStore, Position } from '../store/log-files.ts'
import type { PartRow, RunRow } from './run-index.ts'
import type { Slices } from './slices.ts'
import type { Fact } from './team-facts.ts'

/** Bytes from which on the gathered entries are written. */
export const CARRIED_BYTES = 2 ** 18

export class Carrier {
  readonly #runs = new Set<number>()
  #entries: Uint8Array[] = []
  #first = Number.POSITIVE_INFINITY
  #last = 0
  bytes = 0

  add(run: number, seq: number, entry: Uint8Array): void {
    this.#runs.add(run)
    this.#entries.push(entry)
    this.#first = Math.min(this.#first, seq)
    this.#last = Math.max(this.#last, seq)
    this.bytes += entry.byteLength
  }

  take(): Block {
    const entries = Buffer.concat(this.#entries)
    const block = { firstSeq: this.#first, lastSeq: this.#last, carried: true, runs: [...this.#runs], entries }
    this.#runs.clear()
    Object.assign(this, { bytes: 0 })
    this.#entries = []
    this.#first = Number.POSITIVE_INFINITY
    this.#last = 0
    return block
  }
}

/** Changes when other versions cannot read what is written here. */
const VERSION = 1
const ROWS = 256

const STATE = 1
const ENTRIES = 2
const FACTS = 3

/** Begin of a part in which space is given up, and the bytes that were written from there on. */
export interface LogPart {
  readonly position: Position
  readonly bytes: number
}

interface State {
  readonly version?: number
  readonly next?: number
  readonly logParts?: readonly LogPart[]
  readonly runs?: readonly RunRow[]
  readonly parts?: readonly PartRow[]
}

/** State of the log in a moment in which nothing was being written. */
export interface Moment {
  readonly position: Position
  readonly next: number
  readonly logParts: readonly LogPart[]
  readonly runs: readonly RunRow[]
  readonly parts: readonly PartRow[]
  /** Numbers of records of the team that concern the entries of runs before them. */
  readonly ofTeam: ReadonlySet<number>
}

interface Source {
  readonly store: Pick<LogStore, 'read'>
  readonly slices: Slices
  readonly signal: AbortSignal
  readonly last: Checkpoint | undefined
  facts(): Iterable<Fact>
  /** Number of the last entry that was logged, and the time that its facts are of, in epoch ms. */
  lastSeq(): number
  now(): number
  readonly past: {
    /** Reads the entries of a run that have copies of what another one said, written without them. */
    alone(run: Pick<RunRow, 'index'>): Promise<readonly AloneEntry[]>
  }
}

export async function* checkpointPieces(moment: Moment, source: Source): AsyncGenerator<Uint8Array> {
  const { next, logParts, runs, parts } = moment
  yield statePiece({ version: VERSION, next, logParts })
  for (let from = 0; from < runs.length; from += ROWS) {
    yield statePiece({ runs: runs.slice(from, from + ROWS) })
    await source.slices.othersTurn()
  }
  for (let from = 0; from < parts.length; from += ROWS) {
    yield statePiece({ parts: parts.slice(from, from + ROWS) })
    await source.slices.othersTurn()
  }
  yield* gathered(ENTRIES, openEntries(moment, source))
  yield* gathered(FACTS, encodedFacts(source))
}

/** Yields the entries of the runs that are open, and those of the team that go with them, in their order. */
async function* openEntries({ runs, position, ofTeam }: Moment, source: Source): AsyncGenerator<Uint8Array> {
  const open = new Set(runs.filter((run) => run.open).map(({ index }) => index))
  const since = Math.min(...runs.filter((run) => run.open && !run.own).map(({ startedAt }) => startedAt))
  const isKept: IsKept = ({ run, seq, at }, entry) => {
    if (run !== 0) return open.has(run)
    return ofTeam.has(seq) || isOfLog(entry) || isLettersEnd(entry) || (at >= since && isOfIncarnation(entry))
  }
  const again = new Map<number, Uint8Array>()
  for (const run of runs)
    if (run.open && run.leansOn !== undefined)
      for (const { seq, bytes } of await source.past.alone(run)) again.set(seq, bytes)
  let last: (Pick<EntrySpan, 'seq' | 'at'> & { readonly isKept: boolean }) | undefined
  for await (const entries of inOrder(position, source, isKept))
    for (const span of entrySpans(entries)) {
      const entry = entries.subarray(span.from, span.to)
      // Team time stands still from the last entry of a process on, whatever that was.
      if (last && !last.isKept && isOfLog(entry)) yield encodedTime(last)
      last = { seq: span.seq, at: span.at, isKept: isKept(span, entry) }
      if (last.isKept) yield again.get(span.seq) ?? entry
    }
}

type IsKept = (span: EntrySpan, entry: Uint8Array) => boolean

/** Makes an entry that says nothing but its time. */
const encodedTime = ({ seq, at }: Pick<EntrySpan, 'seq' | 'at'>): Uint8Array =>
  new EntryEncoder().encode([{ kind: 'turns', turns: [], again: true, run: 0, seq, at }])

/** Yields the entries of the checkpoint before and those behind it, up to that block, in the order of their numbers. */
async function* inOrder(position: Position, source: Source, isKept: IsKept): AsyncGenerator<Uint8Array> {
  const { store, last, slices, signal } = source
  if (last) for await (const piece of piecesOf(last)) if (piece.kind === 'entries') yield piece.bytes
  if (!last) yield await carriedBefore(source, isKept)
  for await (const block of store.read({ ...(last && { from: last.position }), signal })) {
    if (block.position > position) return
    // Entries that were carried since stand in the checkpoint before, or behind it.
    if (!block.carried && block.position !== last?.position) yield block.entries
    await slices.othersTurn()
  }
}

/** Returns the entries that are only left where they were carried to: all others come behind them. */
async function carriedBefore({ store, slices, signal }: Source, isKept: IsKept): Promise<Uint8Array> {
  const found = new Map<number, Uint8Array>()
  let first = Number.POSITIVE_INFINITY
  for await (const { carried, entries, firstSeq } of store.read({ signal })) {
    if (!carried) first = Math.min(first, firstSeq)
    else
      for (const span of entrySpans(entries)) {
        const entry = entries.subarray(span.from, span.to)
        if (!found.has(span.seq) && isKept(span, entry)) found.set(span.seq, Uint8Array.from(entry))
      }
    await slices.othersTurn()
  }
  const before = [...found].filter(([seq]) => seq < first).sort(([one], [other]) => one - other)
  return Buffer.concat(before.map(([, entry]) => entry))
}

async function* encodedFacts({ facts, lastSeq, now, slices }: Source): AsyncGenerator<Uint8Array> {
  const encoder = new EntryEncoder()
  for (const fact of facts()) {
    const record = Object.assign({ ...fact }, { seq: lastSeq(), at: now(), run: 0 }) as HostRecord
    yield encoder.encode([record]) // of this moment: nothing may happen before
    await slices.othersTurn()
  }
}

function statePiece(state: State): Uint8Array {
  return Buffer.concat([Uint8Array.of(STATE), Buffer.from(JSON.stringify(state))])
}

async function* gathered(kind: number, all: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let [parts, bytes]: [Uint8Array[], number] = [[Uint8Array.of(kind)], 0]
  for await (const each of all) {
    parts.push(each)
    bytes += each.byteLength
    if (bytes < CARRIED_BYTES) continue
    yield Buffer.concat(parts)
    ;[parts, bytes] = [[Uint8Array.of(kind)], 0]
  }
  if (bytes > 0) yield Buffer.concat(parts)
}

/** Piece of a checkpoint as it is read: of the index, or encoded entries. */
export type Piece =
  | { readonly kind: 'state'; readonly state: State }
  | { readonly kind: 'entries' | 'facts'; readonly bytes: Uint8Array }

/** Yields what a checkpoint has: the index, then entries, then facts. Throws for one that is of another version. */
export async function* piecesOf(checkpoint: Checkpoint): AsyncGenerator<Piece> {
  let isFirst = true
  for await (const piece of checkpoint.read()) {
    const [kind, bytes] = [piece[0], piece.subarray(1)]
    if (kind === STATE) {
      const state = JSON.parse(Buffer.from(bytes).toString()) as State
      if (isFirst && state.version !== VERSION)
        throw new Error(`it has version ${state.version}, and this one reads ${VERSION}`)
      yield { kind: 'state', state }
    } else if (kind === ENTRIES || kind === FACTS) yield { kind: kind === ENTRIES ? 'entries' : 'facts', bytes }
    else throw new Error(`it has a piece of kind ${kind}`)
    isFirst = false
  }
}
