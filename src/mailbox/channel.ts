/**
 * Shared-memory ring of byte frames: one writer and one reader, on two threads. A frame stays until `release()`. The
 * host's mailbox outlives a thread, this ring never does.
 *
 * Positions only grow (int32, they wrap); the capacity is a power of two. A frame never straddles the end: a negative
 * length skips the rest of the lap, and the skipped bytes count as used. Each side knows its own end exactly and the
 * other's as of its last look. `free` is for the writer, `used` for the reader; mixing them loses wake-ups.
 */
import { allocate, copyBytes, FRAGMENT, HEADER, lengthOf, type Memory, memoryOn } from './frame.ts'

const HEAD = 0 // next read position; only the reader stores it
const TAIL = 16 // next write position; only the writer stores it. On a cache line of its own
const CONTROL = 128

/** Returned instead of an offset if the ring is in a state in which our own writer never leaves it. */
export const BROKEN = -2

export const ringBytes = (capacity: number): number => CONTROL + capacity

export class Ring {
  readonly capacity: number
  /**
   * Largest size of a frame that is written whole. Larger frames cross in parts, so that they need no memory of their
   * own and keep their place in the order.
   */
  readonly inlineLimit: number
  /** Memory of the frames; offsets from `reserve` and `peek` refer to it. */
  readonly memory: Memory
  readonly #control: Int32Array
  readonly #mask: number
  #head = 0
  /** The position behind the last written frame, to compare with `readTo`. To be read only. */
  written = 0
  #seenHead = 0
  #seenTail = 0
  #published = 0

  constructor(buffer: SharedArrayBuffer, start: number, capacity: number) {
    this.capacity = capacity
    this.inlineLimit = capacity >> 2
    this.#mask = capacity - 1
    this.#control = new Int32Array(buffer, start, CONTROL >> 2)
    this.memory = memoryOn(buffer, start + CONTROL, capacity)
    this.#head = this.#seenHead = Atomics.load(this.#control, HEAD)
    this.written = this.#seenTail = this.#published = Atomics.load(this.#control, TAIL)
  }

  // ---- the writer's side

  /** Returns the offset at which a frame of `bytes` may be written, or -1 if there is no room now. */
  reserve(bytes: number): number {
    const at = this.written & this.#mask
    const lap = this.capacity - at
    const needed = lap < bytes ? bytes + lap : bytes
    if (this.capacity - ((this.written - this.#seenHead) >>> 0) < needed) {
      this.#seenHead = Atomics.load(this.#control, HEAD)
      if (this.capacity - ((this.written - this.#seenHead) >>> 0) < needed) return -1
    }
    if (lap >= bytes) return at
    this.memory.i32[at >> 2] = -lap
    this.written = (this.written + lap) | 0
    return 0
  }

  /** Moves the write position past a frame written at the reserved offset. The reader does not see the frame yet. */
  advance(bytes: number): void {
    this.written = (this.written + bytes) | 0
  }

  /** Makes the written frames visible to the reader. TAIL is stored last, because the reader trusts it. */
  publish(): void {
    if (this.written === this.#published) return
    this.#published = this.written
    Atomics.store(this.#control, TAIL, this.written)
  }

  /** Copies contiguous frames into the ring. Returns false if there is no room for all of them. */
  copy(from: Uint8Array, start: number, end: number): boolean {
    const at = this.reserve(end - start)
    if (at < 0) return false
    copyBytes(from.subarray(start, end), this.memory, at)
    this.advance(end - start)
    return true
  }

  free(): number {
    this.#seenHead = Atomics.load(this.#control, HEAD)
    return this.capacity - ((this.written - this.#seenHead) >>> 0)
  }

  /** Returns the reader's position as the writer sees it. All frames before it have been taken. */
  readTo(): number {
    return Atomics.load(this.#control, HEAD)
  }

  /**
   * Checks whether the frame written at `at`, up to position `end`, has been taken. Also works after the reader has
   * ended.
   */
  taken(at: number, end: number): boolean {
    return ((this.readTo() - end) | 0) >= 0 || this.memory.i32[at >> 2]! < 0
  }

  /** Moves the write position past a frame written at the reserved offset, and makes it visible to the reader. */
  commit(bytes: number): void {
    this.#published = this.written = (this.written + bytes) | 0
    Atomics.store(this.#control, TAIL, this.written)
  }

  /** Returns the offset of the next frame, or -1 if there is none. */
  peek(): number {
    for (;;) {
      if (this.#head === this.#seenTail) {
        this.#seenTail = Atomics.load(this.#control, TAIL)
        if (this.#head === this.#seenTail) return -1
      }
      const at = this.#head & this.#mask
      const length = this.memory.i32[at >> 2]!
      if (length > 0) return at
      this.#head = (this.#head - length) | 0
    }
  }

  /**
   * Works as `peek` for a writer that cannot be trusted: checks the positions and lengths it has written before using
   * them.
   */
  peekInvalid(): number {
    for (;;) {
      if (this.#head === this.#seenTail) {
        this.#seenTail = Atomics.load(this.#control, TAIL)
        if (this.#head === this.#seenTail) return -1
      }
      const at = this.#head & this.#mask
      const there = (this.#seenTail - this.#head) >>> 0
      const length = this.memory.i32[at >> 2]!
      if (there > this.capacity || ((there | length) & 7) !== 0) return BROKEN
      const lap = this.capacity - at
      if (length > 0) return length <= there && length <= lap ? at : BROKEN
      if (-length !== lap || lap > there) return BROKEN
      this.#head = (this.#head + lap) | 0
    }
  }

  /** Returns the end of the contiguous frames that begin at the offset from `peek`. */
  limit(): number {
    const at = this.#head & this.#mask
    return Math.min(this.capacity, at + ((this.#seenTail - this.#head) >>> 0))
  }

  /** Moves the read position by that many bytes. The writer does not see it yet. */
  pass(bytes: number): void {
    this.#head = (this.#head + bytes) | 0
  }

  /**
   * Returns the offset of the best published frame, or -1. `better` compares two frames; on a tie the earlier one
   * stays.
   */
  best(better: (at: number, than: number) => boolean): number {
    if (this.#head === Atomics.load(this.#control, TAIL)) return -1
    let best = this.peek()
    if (best < 0) return -1
    this.#seenTail = Atomics.load(this.#control, TAIL)
    for (let position = this.#head; position !== this.#seenTail; ) {
      const at = position & this.#mask
      const length = this.memory.i32[at >> 2]!
      if (length > 0 && better(at, best)) best = at
      position = (position + Math.abs(length)) | 0
    }
    return best
  }

  /** Takes the frame at `at` out of order: it becomes a gap that `peek` skips. */
  take(at: number): void {
    this.memory.i32[at >> 2] = -this.memory.i32[at >> 2]!
    this.peek() // passes the gaps at the head
  }

  /** Passes a frame that has been read: its room is free. */
  done(bytes: number): void {
    this.#head = (this.#head + bytes) | 0
    Atomics.store(this.#control, HEAD, this.#head)
  }

  release(): void {
    Atomics.store(this.#control, HEAD, this.#head)
  }

  used(): number {
    return (Atomics.load(this.#control, TAIL) - this.#head) >>> 0
  }

  /** Checks whether the writer has published frames that were not passed yet. Reads shared memory each time. */
  more(): boolean {
    return Atomics.load(this.#control, TAIL) !== this.#head
  }
}

/*
 * The transport between the host and one incarnation of an agent, in a thread of its own or in a shared one: four rings
 * and a few shared words. It is discarded with that incarnation; data that must outlive it is in the host's mailbox and
 * log.
 *
 *   outbox   thread to host: messages, calls, commits
 *   plain    host to thread: messages of priority 0, in order
 *   ranked   host to thread: messages of any other priority; the thread takes the highest
 *   replies  host to thread: responses, acknowledgements, aborts; of messages only nested requests
 *
 * Wake-ups: a side that goes to sleep announces it, then looks at the rings again. A writer publishes its frame, then
 * checks whether the other side sleeps. The wake-up itself is an empty post. No timer is involved.
 */

// Words that host and thread share, each on a cache line of its own.
/** 0: awake. 1: asleep, any frame wakes it. 2: a turn is open and no other may start, so only replies wake it. */
export const ASLEEP = 0
/** Number of wake-ups that the thread has answered. A thread that answers none is stuck. */
export const BEAT = 32
/** 1: the host wants a wake-up when space frees in a ring towards the thread. */
export const ROOM_WANTED = 48
/** 1: the thread wants a wake-up when space frees in its outbox. */
export const OUT_BLOCKED = 64
/**
 * Mailbox room reserved for a message that is being sent: recipient + 1 (negative: a place and no bytes yet), bytes,
 * turn, step. A thread that dies before it has used its reservation leaves it here. 0 if nothing is reserved.
 */
export const CLAIM = 96
/** Memory that the thread holds outside of its heap, in KiB; kept up to date if that memory has a limit. */
export const EXTERNAL_KIB = 112
/**
 * The turn that continued last, while several turns of one run are open; else 0. If the thread dies, that turn is held
 * responsible.
 */
export const AT_WORK = 120
/** First of the words for parked turns, one per open turn: a `parkedWord`, or 0 while the turn executes. */
export const PARKED = 128
/** Maximum number of open turns of a thread whose turns need permits. */
export const MAX_CONCURRENCY = 256
/**
 * Returns the number of turns that may be open in a thread with that many places. A turn that gave up its place and is
 * asked back goes on beside the others: these may wait for its run.
 */
export const mostOpenTurns = (concurrency: number): number =>
  concurrency === 1 ? 1 : Math.min(2 * concurrency, MAX_CONCURRENCY)
const CONTROL_BYTES = (PARKED + MAX_CONCURRENCY) * 4
const FRAGMENT_HEADER = 16

/** The turn only waits for others, and the thread's loop is idle. */
export const SURELY = 1
/**
 * The turn was SURELY parked, and the host has taken its permit. Only the host writes this value; it writes SURELY
 * again when it returns the permit.
 */
export const TAKEN = 3

export const parkedWord = (run: number, state: typeof SURELY | typeof TAKEN): number => (run << 2) | state

export const isSurely = (word: number): boolean => (word & 3) === SURELY

/** Capacities of the rings, in bytes. */
interface Sizes {
  readonly outbox: number
  readonly plain: number
  readonly ranked: number
  readonly replies: number
}

const OF_THREAD: Sizes = { outbox: 1 << 19, plain: 1 << 19, ranked: 1 << 16, replies: 1 << 16 }
/** For an agent that shares its thread: it waits for models most of the time, and there may be hundreds. */
const OF_SEAT: Sizes = { outbox: 1 << 16, plain: 1 << 16, ranked: 1 << 14, replies: 1 << 15 }

const bytesOf = ({ outbox, plain, ranked, replies }: Sizes): number =>
  CONTROL_BYTES + ringBytes(outbox) + ringBytes(plain) + ringBytes(ranked) + ringBytes(replies)

/** The shared memory of one agent's incarnation, used by both sides. Its length says how large its rings are. */
export class Channel {
  readonly buffer: SharedArrayBuffer
  readonly words: Int32Array
  readonly outbox: Ring
  readonly plain: Ring
  readonly ranked: Ring
  readonly replies: Ring

  constructor(buffer = new SharedArrayBuffer(bytesOf(OF_THREAD))) {
    this.buffer = buffer
    this.words = new Int32Array(buffer, 0, CONTROL_BYTES >> 2)
    const sizes = buffer.byteLength === bytesOf(OF_SEAT) ? OF_SEAT : OF_THREAD
    let start = CONTROL_BYTES
    const next = (capacity: number) => {
      const ring = new Ring(buffer, start, capacity)
      start += ringBytes(capacity)
      return ring
    }
    this.outbox = next(sizes.outbox)
    this.plain = next(sizes.plain)
    this.ranked = next(sizes.ranked)
    this.replies = next(sizes.replies)
  }

  /** Returns a channel with small rings, for an agent that shares its thread with others. */
  static ofSeat(): Channel {
    return new Channel(new SharedArrayBuffer(bytesOf(OF_SEAT)))
  }
}

/**
 * Returns the maximum number of frames in a ring. A reader that has read that many has read all frames that were there,
 * even if the writer continues.
 */
export const mostFrames = (ring: Ring): number => ring.capacity / FRAGMENT_HEADER

/**
 * Writes frames of any size into a ring: whole if they fit, otherwise in parts. Each ring has one writer. A frame whose
 * parts are being written comes before all others.
 */
export class FrameWriter {
  readonly ring: Ring
  #sent = 0 // bytes of the large frame under way

  constructor(ring: Ring) {
    this.ring = ring
  }

  /** Writes a frame. Returns false if it is not complete: offer it again once the reader has freed space. */
  write(from: Uint8Array, start: number, end: number): boolean {
    const total = end - start
    if (total <= this.ring.inlineLimit) return this.ring.copy(from, start, end)
    const part = (this.ring.inlineLimit >> 1) - FRAGMENT_HEADER
    while (this.#sent < total) {
      const bytes = Math.min(part, total - this.#sent)
      const padded = (FRAGMENT_HEADER + bytes + 7) & ~7
      const at = this.ring.reserve(padded)
      if (at < 0) return false
      const { i32 } = this.ring.memory
      i32[at >> 2] = padded
      i32[(at >> 2) + 1] = FRAGMENT
      i32[(at >> 2) + 2] = total
      i32[(at >> 2) + 3] = this.#sent
      copyBytes(from.subarray(start + this.#sent, start + this.#sent + bytes), this.ring.memory, at + FRAGMENT_HEADER)
      this.ring.advance(padded)
      this.#sent += bytes
    }
    this.#sent = 0
    return true
  }
}

/** Joins the parts of large frames. A frame left unfinished by a dead writer is never returned. */
export class FrameJoiner {
  readonly #largest: number
  #memory: Memory | undefined
  #total = 0
  #joined = 0

  constructor(largest = Number.POSITIVE_INFINITY) {
    this.#largest = largest
  }

  /**
   * Takes one part of `length` bytes; returns the memory of the frame once it is complete.
   *
   * @throws RangeError if the part is invalid.
   */
  join(memory: Memory, at: number, length = lengthOf(memory, at)): Memory | undefined {
    const i = at >> 2
    const total = memory.i32[i + 2]!
    const offset = memory.i32[i + 3]!
    if (offset === 0) {
      if (total > this.#largest) throw new RangeError(`a frame of ${total} bytes`)
      this.#memory = allocate(Math.max(total, HEADER))
      this.#total = total
      this.#joined = 0
    }
    // Parts must be in order and without a gap. Otherwise unwritten bytes would expose old content of the host's
    // memory.
    if (!this.#memory || total !== this.#total || offset !== this.#joined) return undefined
    const bytes = Math.min(length - FRAGMENT_HEADER, total - offset)
    if (bytes <= 0) throw new RangeError(`a part of ${length} bytes, for ${total - offset}`)
    copyBytes(memory.u8.subarray(at + FRAGMENT_HEADER, at + FRAGMENT_HEADER + bytes), this.#memory, offset)
    this.#joined += bytes
    if (this.#joined < total) return undefined
    const whole = this.#memory
    this.#memory = undefined
    return whole
  }
}
