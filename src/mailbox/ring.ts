/**
 * Shared-memory ring of byte frames: one writer, one reader, on two threads.
 * A frame stays until `release()`. What survives a thread is the host's mailbox, never this ring.
 *
 * Positions only grow (int32, they wrap); the capacity is a power of two. A frame never straddles the end: a negative
 * length skips the rest of the lap, and the skipped bytes count as used. Each side knows its own end exactly and the
 * other's as of the last look: `free` is for the writer, `used` for the reader, and mixing them loses wake-ups.
 */
import { type Memory, memoryOn } from './memory.ts'

const HEAD = 0 // next read position; only the reader stores it
const TAIL = 16 // next write position; only the writer stores it. On a cache line of its own
const CONTROL = 128

/** In place of an offset: the ring is in a state in which no writer of ours leaves it. */
export const BROKEN = -2

/** Bytes of shared memory for a ring of that capacity. */
export const ringBytes = (capacity: number): number => CONTROL + capacity

export class Ring {
  readonly capacity: number
  /** Frames stand here; offsets from `reserve` and `peek` point into it. */
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

  /** Where a frame of `bytes` may be written, or -1 if there is no room now. */
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

  /** The frame at the reserved place is written. The reader does not see it yet. */
  advance(bytes: number): void {
    this.#tail = (this.#tail + bytes) | 0
  }

  /** Last: the reader trusts TAIL. */
  publish(): void {
    if (this.#tail === this.#published) return
    this.#published = this.#tail
    Atomics.store(this.#control, TAIL, this.#tail)
  }

  /** Copies frames that stand one after the other. False if there is no room for all of them. */
  copy(from: Uint8Array, start: number, end: number): boolean {
    const at = this.reserve(end - start)
    if (at < 0) return false
    this.memory.u8.set(from.subarray(start, end), at)
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

  /** How far the reader has come, as the writer sees it. Everything before it was taken. */
  readTo(): number {
    return Atomics.load(this.#control, HEAD)
  }

  /** Whether the frame that was written at `at`, up to position `end`, has been taken. For the time after the reader. */
  taken(at: number, end: number): boolean {
    return ((this.readTo() - end) | 0) >= 0 || this.memory.i32[at >> 2]! < 0
  }

  // ---- the reader's side

  /** Where the next frame stands, or -1. */
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

  /** As `peek`, where nobody vouches for the writer: what it says of positions and lengths is looked at first. */
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

  /** The end of the frames that stand one after the other from the offset that `peek` gave. */
  limit(): number {
    const at = this.#head & this.#mask
    return Math.min(this.capacity, at + ((this.#seenTail - this.#head) >>> 0))
  }

  /** The reader is done with that many bytes; the writer does not see it yet. */
  pass(bytes: number): void {
    this.#head = (this.#head + bytes) | 0
  }

  /** Where the published frame stands for which `better` never says that another is better, or -1. */
  best(better: (at: number, than: number) => boolean): number {
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

  /** Takes the frame at `at` out of turn: it becomes a gap that `peek` skips. */
  take(at: number): void {
    this.memory.i32[at >> 2] = -this.memory.i32[at >> 2]!
    this.peek() // passes the gaps at the head
  }

  release(): void {
    Atomics.store(this.#control, HEAD, this.#head)
  }

  used(): number {
    return (Atomics.load(this.#control, TAIL) - this.#head) >>> 0
  }

  /** Whether the writer has published more than was passed. Looks at shared memory each time. */
  more(): boolean {
    return Atomics.load(this.#control, TAIL) !== this.#head
  }
}
