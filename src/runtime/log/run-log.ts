/**
 * The memory log. Everything that happens is a record in it; each run has its own stretch, so that it can be folded,
 * kept and forgotten as one. Frames are copied once, in contiguous runs, into chunks that grow; mailboxes point there.
 *
 * It is bounded, since teams live for months: a finished run goes, oldest first, beyond 100 runs or 64 MiB; in a run
 * under way the oldest entries go beyond 64 MiB, and `forgotten` says so. Records of the host count as well: a run that
 * writes little but is told much, of deaths or on its task board, has its bound too.
 */
import { lengthOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { LogChunks } from './chunks.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from './records.ts'

export class RunLog {
  #entries: LogEntry[] = []
  readonly #chunks = new LogChunks()
  /** Who goes through the entries may stop at one for as long as he likes. */
  #readers = 0
  /** Bytes that are kept: of frames as they are, of records about. */
  bytes = 0
  /** Entries that were given up because the run's log was full. */
  forgotten = 0
  /** The number up to which. A turn that began before it cannot be tried again: what it did is not known any more. */
  forgottenTo = -1

  /** Copies frames that stand one after the other; returns where they are now. */
  appendFrames(
    seq: number,
    at: number,
    run: number,
    from: Memory,
    start: number,
    end: number,
    count: number,
  ): FrameBlock {
    const memory = this.#chunks.copy(from, start, end)
    const to = this.#chunks.end
    const block: FrameBlock = { kind: 'frames', seq, at, run, memory, from: to - (end - start), to, count }
    this.#keep(block)
    return block
  }

  /** Takes a frame that has memory of its own. */
  appendOwned(seq: number, at: number, run: number, memory: Memory, bytes: number): FrameBlock {
    const block: FrameBlock = { kind: 'frames', seq, at, run, memory, from: 0, to: bytes, count: 1 }
    this.#keep(block)
    return block
  }

  #keep(entry: LogEntry): void {
    this.bytes += bytesOf(entry)
    this.#entries.push(entry)
  }

  append(record: HostRecord): void {
    this.#keep(record)
  }

  /**
   * Gives the oldest entries up until `limit` bytes are left. Their memory is written again, but for what is `held`, by
   * what waits in a mailbox; without that it is left to the collector.
   */
  trim(limit: number, held?: () => ReadonlySet<Memory>): void {
    if (this.bytes <= limit) return
    let gone = 0
    const enough = limit - (limit >> 3) // in larger bites than are eaten at once
    while (this.bytes > enough && gone < this.#entries.length - 1) {
      const entry = this.#entries[gone]!
      this.bytes -= bytesOf(entry)
      this.forgottenTo = lastSeq(entry)
      if (entry.kind === 'frames') this.#chunks.giveUp(entry.memory)
      gone += 1
    }
    this.#entries = this.#entries.slice(gone)
    this.forgotten += gone
    if (held && this.#readers === 0) this.#chunks.reuse(held)
    else this.#chunks.leave()
  }

  /** The oldest entry that is left. */
  get oldest(): LogEntry | undefined {
    return this.#entries[0]
  }

  /** The entries with a number above `after`, up to the `until`th, in order. Sees what is appended meanwhile. */
  *entries(after = -1, until = Number.POSITIVE_INFINITY): IterableIterator<LogEntry> {
    // By the number that each has had from the beginning: while somebody looks at one, the oldest may be given up.
    this.#readers += 1
    try {
      for (let n = this.forgotten + this.#firstAfter(after); ; n++) {
        n = Math.max(n, this.forgotten)
        if (n >= Math.min(this.length, until)) return
        yield this.#entries[n - this.forgotten]!
      }
    } finally {
      this.#readers -= 1
    }
  }

  /** How many entries there have been. */
  get length(): number {
    return this.forgotten + this.#entries.length
  }

  #firstAfter(after: number): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (lastSeq(this.#entries[middle]!) <= after) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** An object with its fields, and what an error has with its stack. */
const RECORD = 256
const ERROR = 1_024

/** What an entry keeps from being collected. Of a record about: its texts are what can be large. */
function bytesOf(entry: LogEntry): number {
  switch (entry.kind) {
    case 'frames':
      return entry.to - entry.from
    case 'message.dead':
      return RECORD + ERROR * entry.letter.errors.length + 2 * entry.letter.message.content.length
    case 'agent.exited':
    case 'agent.crashed':
    case 'model.called':
    case 'step.mismatch':
      return RECORD + ERROR
    case 'task':
      return RECORD + 2 * (entry.task.description.length + textLength(entry.task.result))
    case 'handoff':
      return RECORD + 2 * textLength(entry.summary)
    case 'blackboard':
      return RECORD + 2 * textLength(entry.entry.value)
    case 'sync':
      return RECORD + 2 * Object.values(entry.result.data).reduce<number>((sum, data) => sum + textLength(data), 0)
    default:
      return RECORD
  }
}

const textLength = (value: unknown) => (typeof value === 'string' ? value.length : 0)

/** The last number that the entry takes. */
export const lastSeq = (entry: LogEntry): number =>
  entry.seq + (entry.kind === 'frames' ? entry.count * SEQ_STEP : SEQ_STEP) - 1

/** All frames of a log, in order. */
export function* framesOf(log: RunLog, until?: number): IterableIterator<[memory: Memory, at: number]> {
  for (const entry of log.entries(-1, until)) {
    if (entry.kind !== 'frames') continue
    for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) yield [entry.memory, at]
  }
}
