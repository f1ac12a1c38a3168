/**
 * The memory log. Everything that happens is a record in it; each run has its own stretch, so that it can be folded,
 * kept and forgotten as one. Frames are copied once, in contiguous runs, into chunks that grow; mailboxes point there.
 *
 * It is bounded, since teams live for months: a finished run goes, oldest first, beyond 100 runs or 64 MiB; in a run
 * under way the oldest entries go beyond 64 MiB, and `forgotten` says so. Records of the host count as well: a run that
 * writes little but is told much, of deaths or on its task board, has its bound too.
 */
import { allocate, type Memory } from '../mailbox/memory.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from './records.ts'

const FIRST_CHUNK = 1 << 14
const LARGEST_CHUNK = 1 << 20

export class RunLog {
  #entries: LogEntry[] = []
  #chunk: Memory | undefined
  #at = 0
  #chunkBytes = FIRST_CHUNK
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
    const bytes = end - start
    if (!this.#chunk || this.#at + bytes > this.#chunk.u8.length) this.#nextChunk(bytes)
    const memory = this.#chunk!
    memory.u8.set(from.u8.subarray(start, end), this.#at)
    const to = this.#at + bytes
    const block: FrameBlock = { kind: 'frames', seq, at, run, memory, from: this.#at, to, count }
    this.#at = to
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

  #nextChunk(bytes: number): void {
    this.#chunk = allocate(Math.max(this.#chunkBytes, bytes))
    this.#at = 0
    this.#chunkBytes = Math.min(this.#chunkBytes * 2, LARGEST_CHUNK)
  }

  append(record: HostRecord): void {
    this.#keep(record)
  }

  /** Gives the oldest entries up until `limit` bytes are left. What waits in a mailbox holds its own frame. */
  trim(limit: number): void {
    if (this.bytes <= limit) return
    let gone = 0
    const enough = limit - (limit >> 3) // in larger bites than are eaten at once
    while (this.bytes > enough && gone < this.#entries.length - 1) {
      const entry = this.#entries[gone]!
      this.bytes -= bytesOf(entry)
      this.forgottenTo = lastSeq(entry)
      gone += 1
    }
    this.#entries = this.#entries.slice(gone)
    this.forgotten += gone
  }

  /** The entries with a number above `after`, up to the `until`th, in order. Sees what is appended meanwhile. */
  *entries(after = -1, until = Number.POSITIVE_INFINITY): IterableIterator<LogEntry> {
    // By the number that each has had from the beginning: while somebody looks at one, the oldest may be given up.
    for (let n = this.forgotten + this.#firstAfter(after); ; n++) {
      n = Math.max(n, this.forgotten)
      if (n >= Math.min(this.length, until)) return
      yield this.#entries[n - this.forgotten]!
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
    case 'step.mismatch':
      return RECORD + ERROR
    case 'task':
      return RECORD + 2 * (entry.task.description.length + textLength(entry.task.result))
    case 'blackboard':
      return RECORD + 2 * textLength(entry.entry.value)
    default:
      return RECORD
  }
}

const textLength = (value: unknown) => (typeof value === 'string' ? value.length : 0)

/** The last number that the entry takes. */
export const lastSeq = (entry: LogEntry): number =>
  entry.seq + (entry.kind === 'frames' ? entry.count * SEQ_STEP : SEQ_STEP) - 1
