/**
 * In-memory log. Everything that happens is a record in it. Each run has a log of its own, so that it can be folded,
 * kept and discarded as one. Frames are copied once, in contiguous blocks, into chunks that grow; mailboxes point
 * there.
 *
 * The log is bounded, because teams live for months. Beyond 100 runs or 64 MiB, finished runs are discarded, the oldest
 * first. In a run under way the oldest entries are discarded beyond 64 MiB, and `forgotten` counts them. Host records
 * count as well: a run that writes little, but has many records of exits or of its task board, is bounded too.
 */
import { allocate, copyFrame, lengthOf, type Memory, renewed } from '../../mailbox/frame.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from './records.ts'

/** Map that drops its oldest entry when it is full. For entries that are usually removed, but in rare cases are not. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: Key, value: Value): this {
    super.set(key, value)
    if (this.size > this.#most)
      for (const oldest of this.keys()) {
        this.delete(oldest)
        break
      }
    return this
  }
}

/*
 * Memory that the frames of a run are copied into: chunks that grow to 1 MiB, filled one after the other. Touching
 * memory for the first time costs more than the copy, and so does its collection. So a chunk whose frames the log has
 * discarded is filled again if nothing else refers to it.
 */

const SMALLEST = 1 << 14
const LARGEST = 1 << 20
const MOST_SPARE = 16

interface Chunk {
  readonly memory: Memory
  entries: number
}

class LogChunks {
  /** Oldest first. The last one is being filled. */
  readonly #filled: Chunk[] = []
  /** Chunks without log entries. */
  #given: Memory[] = []
  readonly #spare: Memory[] = []
  #bytes = SMALLEST
  /** End of the last copy. To be read only. */
  end = 0

  /** Appends a copy of the bytes. Returns the memory that holds the copy, which ends at `end`. */
  copy(from: Memory, start: number, end: number): Memory {
    const bytes = end - start
    let chunk = this.#filled[this.#filled.length - 1]
    if (!chunk || this.end + bytes > chunk.memory.u8.length) chunk = this.#next(bytes)
    chunk.entries += 1
    copyFrame(from, start, chunk.memory, this.end, bytes)
    this.end += bytes
    return chunk.memory
  }

  #next(bytes: number): Chunk {
    const spare = this.#bytes === LARGEST && bytes <= LARGEST ? this.#spare.pop() : undefined
    const memory = spare ? renewed(spare) : allocate(Math.max(this.#bytes, bytes))
    const chunk: Chunk = { memory, entries: 0 }
    this.#filled.push(chunk)
    this.#bytes = Math.min(this.#bytes * 2, LARGEST)
    this.end = 0
    return chunk
  }

  /** Registers that the log has discarded its oldest entry with frames. `memory` may be a chunk, or the entry's own. */
  giveUp(memory: Memory): void {
    const oldest = this.#filled[0]
    if (oldest?.memory !== memory) return
    oldest.entries -= 1
    while (this.#filled.length > 1 && this.#filled[0]!.entries === 0) this.#given.push(this.#filled.shift()!.memory)
  }

  /** Makes discarded chunks available again. Chunks in `held` are left to the garbage collector. */
  reuse(held: () => ReadonlySet<Memory>): void {
    if (this.#given.length === 0) return
    const inUse = held()
    for (const memory of this.#given)
      if (memory.u8.length === LARGEST && this.#spare.length < MOST_SPARE && !inUse.has(memory))
        this.#spare.push(memory)
    this.#given = []
  }

  /** Leaves all discarded chunks to the garbage collector, because a reader may still look at them. */
  leave(): void {
    this.#given = []
  }
}

export class RunLog {
  #entries: LogEntry[] = []
  readonly #chunks = new LogChunks()
  #end: number | undefined
  /** Number of readers of the entries. Each may stop at an entry for as long as it likes. */
  #readers = 0
  /** Number of entries that an earlier process has written. */
  adopted = 0
  /** Bytes that are kept: exact for frames, approximate for records. */
  bytes = 0
  /** Bytes beyond which `onLarge` is called after each entry. */
  most = Number.POSITIVE_INFINITY
  onLarge: (() => void) | undefined
  /** Number of entries that were discarded because the run's log was full. */
  forgotten = 0
  /**
   * Number of the last discarded record. A turn that began before it cannot be redelivered: the log of what it did is
   * not complete any more.
   */
  forgottenTo = -1
  /**
   * True until the log has the end of its run: so long it gets what happens to agents. Never true for the work that a
   * message from outside has caused.
   */
  isUnderWay = true

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
    const memory = this.#chunks.copy(from, start, end)
    const to = this.#chunks.end
    const block: FrameBlock = { kind: 'frames', seq, at, run, memory, from: to - bytes, to, count }
    this.bytes += bytes
    this.#entries.push(block)
    if (this.bytes > this.most) this.onLarge?.()
    return block
  }

  adopt(entry: LogEntry): void {
    this.adopted += 1
    this.#keep(entry)
  }

  appendOwned(seq: number, at: number, run: number, memory: Memory, bytes: number): FrameBlock {
    const block: FrameBlock = { kind: 'frames', seq, at, run, memory, from: 0, to: bytes, count: 1 }
    this.#keep(block)
    return block
  }

  #keep(entry: LogEntry): void {
    this.bytes += entry.kind === 'frames' ? entry.to - entry.from : bytesOf(entry)
    this.#entries.push(entry)
    if (this.bytes > this.most) this.onLarge?.()
    if (entry.kind !== 'run.finished') return
    this.isUnderWay = false
    this.#end ??= this.length
  }

  append(record: HostRecord): void {
    this.#keep(record)
  }

  /**
   * Discards the oldest entries if more than `limit` bytes are kept. Their memory is reused, except what is `held` for
   * messages that wait in a mailbox. Without `held` it is left to the garbage collector.
   */
  trim(limit: number, held?: () => ReadonlySet<Memory>): void {
    if (this.bytes <= limit) return
    let gone = 0
    const enough = limit - (limit >> 3) // more at once than comes at once
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

  get oldest(): LogEntry | undefined {
    return this.#entries[0]
  }

  /**
   * Yields the entries with a number above `after`, up to the `until`th, in order. Includes entries that are appended
   * meanwhile.
   */
  *entries(after = -1, until = Number.POSITIVE_INFINITY): IterableIterator<LogEntry> {
    // Counts entries from the beginning of the run: while a reader looks at one, the oldest may be discarded.
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

  /** Number of all entries so far, including discarded ones. */
  get length(): number {
    return this.forgotten + this.#entries.length
  }

  /** Number of the entries up to the end of its run, so far. What is still under way may write more. */
  get end(): number {
    return this.#end ?? this.length
  }

  /** Returns the number of entries up to that number; 0 if it is the number of a discarded entry. */
  countUpTo(seq: number): number {
    return seq < this.forgottenTo ? 0 : this.forgotten + this.#firstAfter(seq)
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

/** Approximate bytes of an object with its fields, and of an error with its stack. */
const RECORD = 256
const ERROR = 1_024

/**
 * Returns the bytes that an entry keeps from being collected. Approximate for a record: only its texts can be large.
 */
function bytesOf(entry: LogEntry): number {
  switch (entry.kind) {
    case 'frames':
      return entry.to - entry.from
    case 'turn.started':
      return RECORD
    case 'message.dead':
      return RECORD + ERROR * entry.letter.errors.length + 2 * entry.letter.message.content.length
    case 'agent.exited':
    case 'agent.crashed':
    case 'model.called':
    case 'step.mismatch':
    case 'turn.retried':
    case 'escalated':
      return RECORD + ERROR
    case 'model.piece':
      return RECORD + 2 * entry.text.length
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

export const lastSeq = (entry: LogEntry): number =>
  entry.seq + (entry.kind === 'frames' ? entry.count * SEQ_STEP : SEQ_STEP) - 1

export const framesOf = (log: RunLog, until?: number): IterableIterator<[memory: Memory, at: number]> =>
  framesIn(log.entries(-1, until))

export function* framesIn(entries: Iterable<LogEntry>): IterableIterator<[memory: Memory, at: number]> {
  for (const entry of entries) {
    if (entry.kind !== 'frames') continue
    for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) yield [entry.memory, at]
  }
}
