/**
 * The transport between the host and one life of an agent: four rings and a few shared words. It is thrown away with
 * the thread; what must outlive it is in the host's mailbox and log.
 *
 *   outbox   thread to host: messages, calls, commits
 *   plain    host to thread: messages of priority 0, in order
 *   ranked   host to thread: messages of any other priority; the thread takes the highest
 *   replies  host to thread: responses, verdicts, aborts. User messages never enter it
 *
 * Wake-ups: who sleeps announces it and looks again; who writes publishes and then looks whether the other sleeps. The
 * bell is an empty post. There is no timer here.
 */
import { FRAGMENT, HEADER, lengthOf } from './frame.ts'
import { allocate, type Memory } from './memory.ts'
import { Ring, ringBytes } from './ring.ts'

// Words that host and thread share, each on a cache line of its own.
/** 0: awake. 1: asleep, wakes for anything. 2: a turn is open and no other may start, wakes for replies alone. */
export const ASLEEP = 0
/** Counts the bells that the thread has answered: a thread that answers none is stuck. */
export const BEAT = 32
/** 1: the host wants a bell when room frees in a ring towards the thread. */
export const ROOM_WANTED = 48
/** 1: the thread wants a bell when room frees in its outbox. */
export const OUT_BLOCKED = 64
/**
 * Room that a message under way has claimed: recipient + 1 (negative: a place and no bytes yet), bytes, turn, step. Left
 * behind by a thread that died before it had used it; 0 when nothing is claimed.
 */
export const CLAIM = 96
/** What the thread holds outside of its heap, in KiB, where that has a limit. */
export const EXTERNAL_KIB = 112
/** Where several turns of one run are open: the one that went on last. It answers for the death of its thread. Else 0. */
export const AT_WORK = 120
/** The first of as many words as turns may be open, one for each: a `parkedWord`, or 0 where the turn works. */
export const PARKED = 128
/** More turns than that are never open at once where somebody asks whether they are parked. */
export const MAX_CONCURRENCY = 256
const CONTROL_BYTES = (PARKED + MAX_CONCURRENCY) * 4
const FRAGMENT_HEADER = 16

/** The turn waits for others alone, and the thread's loop is idle. */
export const SURELY = 1
/** Waits are open; ring to find out whether it is so. */
export const PERHAPS = 2
/** It was SURELY, and the host has taken the turn's permit: the host alone writes this, and writes SURELY when it gives it back. */
export const TAKEN = 3

/** What is said of a turn of that run. */
export const parkedWord = (run: number, state: typeof SURELY | typeof PERHAPS | typeof TAKEN): number =>
  (run << 2) | state

/** Whether it says so of a turn of any run. */
export const isSurely = (word: number): boolean => (word & 3) === SURELY

const OUTBOX_BYTES = 1 << 19
const PLAIN_BYTES = 1 << 19
const RANKED_BYTES = 1 << 16
const REPLY_BYTES = 1 << 16

/** One life's shared memory, as seen from either side. */
export class Window {
  readonly buffer: SharedArrayBuffer
  readonly words: Int32Array
  readonly outbox: Ring
  readonly plain: Ring
  readonly ranked: Ring
  readonly replies: Ring

  constructor(
    buffer = new SharedArrayBuffer(
      CONTROL_BYTES +
        ringBytes(OUTBOX_BYTES) +
        ringBytes(PLAIN_BYTES) +
        ringBytes(RANKED_BYTES) +
        ringBytes(REPLY_BYTES),
    ),
  ) {
    this.buffer = buffer
    this.words = new Int32Array(buffer, 0, CONTROL_BYTES >> 2)
    let start = CONTROL_BYTES
    const next = (capacity: number) => {
      const ring = new Ring(buffer, start, capacity)
      start += ringBytes(capacity)
      return ring
    }
    this.outbox = next(OUTBOX_BYTES)
    this.plain = next(PLAIN_BYTES)
    this.ranked = next(RANKED_BYTES)
    this.replies = next(REPLY_BYTES)
  }
}

/** No more can stand in it at once: who reads that many has read all that there was, also when its writer goes on. */
export const mostFrames = (ring: Ring): number => ring.capacity / FRAGMENT_HEADER

/** Larger frames cross in parts, so that they need no room of their own and keep their place in the order. */
export const inlineLimit = (ring: Ring): number => ring.capacity >> 2

/**
 * Writes frames of any size into a ring: whole where they fit, in parts where they are larger. One writer for each
 * ring; a frame whose parts are under way comes before all others.
 */
export class FrameWriter {
  readonly ring: Ring
  #sent = 0 // bytes of the large frame under way

  constructor(ring: Ring) {
    this.ring = ring
  }

  /** True when the whole frame is in the ring; false when it must be offered again after the reader has made room. */
  write(from: Uint8Array, start: number, end: number): boolean {
    const total = end - start
    if (total <= inlineLimit(this.ring)) return this.ring.copy(from, start, end)
    const part = (inlineLimit(this.ring) >> 1) - FRAGMENT_HEADER
    while (this.#sent < total) {
      const bytes = Math.min(part, total - this.#sent)
      const padded = (FRAGMENT_HEADER + bytes + 7) & ~7
      const at = this.ring.reserve(padded)
      if (at < 0) return false
      const { i32, u8 } = this.ring.memory
      i32[at >> 2] = padded
      i32[(at >> 2) + 1] = FRAGMENT
      i32[(at >> 2) + 2] = total
      i32[(at >> 2) + 3] = this.#sent
      u8.set(from.subarray(start + this.#sent, start + this.#sent + bytes), at + FRAGMENT_HEADER)
      this.ring.advance(padded)
      this.#sent += bytes
    }
    this.#sent = 0
    return true
  }
}

/** Puts the parts of large frames together. What a dead writer left unfinished never becomes a frame. */
export class FrameJoiner {
  readonly #largest: number
  #memory: Memory | undefined
  #total = 0
  #joined = 0

  constructor(largest = Number.POSITIVE_INFINITY) {
    this.#largest = largest
  }

  /** Takes one part, of that many bytes; returns the frame's memory when it is whole. Throws where it can be no part. */
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
    // In order and without a gap: what nobody has written there is what the host had in that memory before.
    if (!this.#memory || total !== this.#total || offset !== this.#joined) return undefined
    const bytes = Math.min(length - FRAGMENT_HEADER, total - offset)
    if (bytes <= 0) throw new RangeError(`a part of ${length} bytes, for ${total - offset}`)
    this.#memory.u8.set(memory.u8.subarray(at + FRAGMENT_HEADER, at + FRAGMENT_HEADER + bytes), offset)
    this.#joined += bytes
    if (this.#joined < total) return undefined
    const whole = this.#memory
    this.#memory = undefined
    return whole
  }
}
