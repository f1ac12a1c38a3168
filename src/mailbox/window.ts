/**
 * The transport between the host and one life of an agent, in a thread of its own or in a shared one: four rings and a
 * few shared words. It is discarded with that life; data that must outlive it is in the host's mailbox and log.
 *
 *   outbox   thread to host: messages, calls, commits
 *   plain    host to thread: messages of priority 0, in order
 *   ranked   host to thread: messages of any other priority; the thread takes the highest
 *   replies  host to thread: responses, receipts, aborts. User messages never enter it
 *
 * Wake-ups: a side that goes to sleep announces it, then looks at the rings again. A writer publishes its frame, then
 * checks whether the other side sleeps. The wake-up itself is an empty post. No timer is involved.
 */
import { FRAGMENT, HEADER, lengthOf } from './frame.ts'
import { allocate, copyBytes, type Memory } from './memory.ts'
import { Ring, ringBytes } from './ring.ts'

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
 * Mailbox room claimed for a message that is being sent: recipient + 1 (negative: a place and no bytes yet), bytes,
 * turn, step. A thread that dies before it has used its claim leaves it here. 0 if nothing is claimed.
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

/** Returns the word for a turn of that run. */
export const parkedWord = (run: number, state: typeof SURELY | typeof TAKEN): number => (run << 2) | state

/** Checks whether the word says SURELY, for a turn of any run. */
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

/** The shared memory of one agent's life, used by both sides. Its length says how large its rings are. */
export class Window {
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

  /** Returns a window with small rings, for an agent that shares its thread with others. */
  static ofSeat(): Window {
    return new Window(new SharedArrayBuffer(bytesOf(OF_SEAT)))
  }
}

/**
 * Returns the maximum number of frames in a ring. A reader that has read that many has read all frames that were there,
 * even if the writer continues.
 */
export const mostFrames = (ring: Ring): number => ring.capacity / FRAGMENT_HEADER

/**
 * Returns the largest size of a frame that is written whole. Larger frames cross in parts, so that they need no memory
 * of their own and keep their place in the order.
 */
export const inlineLimit = (ring: Ring): number => ring.capacity >> 2

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
    if (total <= inlineLimit(this.ring)) return this.ring.copy(from, start, end)
    const part = (inlineLimit(this.ring) >> 1) - FRAGMENT_HEADER
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
