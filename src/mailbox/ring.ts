/**
 * Shared-memory ring of byte frames: one writer and one reader, on two threads. A frame stays until `release()`. The
 * host's mailbox outlives a thread, this ring never does.
 *
 * Positions only grow (int32, they wrap); the capacity is a power of two. A frame never straddles the end: a negative
 * length skips the rest of the lap, and the skipped bytes count as used. Each side knows its own end exactly and the
 * other's as of its last look. `free` is for the writer, `used` for the reader; mixing them loses wake-ups.
 */
import { copyBytes, type Memory, memoryOn } from './memory.ts'

const HEAD = 0 // next read position; only the reader stores it
const TAIL = 16 // next write position; only the writer stores it. On a cache line of its own
const CONTROL = 128

/** Returned instead of an offset if the ring is in a state in which our own writer never leaves it. */
export const BROKEN = -2

/** Returns the bytes of shared memory for a ring of that capacity. */
export const ringBytes = (capacity: number): number => CONTROL + capacity

export class Ring {
  readonly capacity: number
  /** Memory of the frames; offsets from `reserve` and `peek` refer to it. */
  readonly memory: Memory
  readonly #control: Int32Array
  readonly #mask: number
  #head = 0
  #tail = 0
  #seenHead = 0
  #seenTail = 0
  #published = 0

  constructor(buffer: SharedArrayBuffer, start: number, capacity: number) {
    this.capacity = capacity
    this.#mask = capacity - 1
    this.#control = new Int32Array(buffer, start, CONTROL >> 2)
    this.memory = memoryOn(buffer, start + CONTROL, capacity)
    this.#head = this.#seenHead = Atomics.load(this.#control, HEAD)
    this.#tail = this.#seenTail = this.#published = Atomics.load(this.#control, TAIL)
  }

  // ---- the writer's side

  /** Returns the offset at which a frame of `bytes` may be written, or -1 if there is no room now. */
  reserve(bytes: number): number {
    const at = this.#tail & this.#mask
    const lap = this.capacity - at
    const needed = lap < bytes ? bytes + lap : bytes
    if (this.capacity - ((this.#tail - this.#seenHead) >>> 0) < needed) {
      this.#seenHead = Atomics.load(this.#control, HEAD)
      if (this.capacity - ((this.#tail - this.#seenHead) >>> 0) < needed) return -1
    }
    if (lap >= bytes) return at
    this.memory.i32[at >> 2] = -lap
    this.#tail = (this.#tail + lap) | 0
    return 0
  }

  /** Moves the write position past a frame written at the reserved offset. The reader does not see the frame yet. */
  advance(bytes: number): void {
    this.#tail = (this.#tail + bytes) | 0
  }

  /** Makes the written frames visible to the reader. TAIL is stored last, because the reader trusts it. */
  publish(): void {
    if (this.#tail === this.#published) return
    this.#published = this.#tail
    Atomics.store(this.#control, TAIL, this.#tail)
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
    return this.capacity - ((this.#tail - this.#seenHead) >>> 0)
  }

  /** The position behind the last written frame, to compare with `readTo`. */
  get written(): number {
    return this.#tail
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

  // ---- the reader's side

  /** Moves the write position past a frame written at the reserved offset, and makes it visible to the reader. */
  commit(bytes: number): void {
    this.#published = this.#tail = (this.#tail + bytes) | 0
    Atomics.store(this.#control, TAIL, this.#tail)
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
  peekForeign(): number {
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
