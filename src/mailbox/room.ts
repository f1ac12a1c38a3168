/**
 * What all threads of a team share: whether the host sleeps, and how much room each mailbox has. A sender claims room
 * with two subtractions; it has to ask the host only when there is none. The host gives room back as turns commit, to
 * parked senders first: for the first of them it is taken beforehand. So a claim that succeeds is an acceptance.
 *
 * Code in any thread can write here what it likes. What depends on it the host compares with its own book (runtime/mailboxes/shared-words.ts).
 */

/** 1: the host sleeps and wants a bell. */
export const HOST_ASLEEP = 0
/** Set with every call to the host; the host clears it before it looks. */
export const HOST_CALLED = 16
/** 1: somebody waits for a permit, so a turn that parks must ring. */
export const PERMITS_WANTED = 32
const FIRST = 48
const CLOSED = -(2 ** 30)
const MOST = 2 ** 31 - 1
const NO_NOTE = new Int32Array(1)

/** Names have 16 bits in a frame. */
export const MAX_AGENTS = 65_535

/** What a mailbox has room for. */
export interface Room {
  messages: number
  bytes: number
}

export class TeamMemory {
  readonly buffer: SharedArrayBuffer
  readonly words: Int32Array
  readonly #messages: Int32Array
  readonly #bytes: Int32Array
  readonly #largest: Int32Array
  /** What each mailbox has room for when it is empty; the host's, on its own memory. */
  readonly #most: (Room & { largest: number })[] = []

  /** For that many names, or over the buffer that another thread made. */
  constructor(names: number | SharedArrayBuffer) {
    this.buffer = typeof names === 'number' ? new SharedArrayBuffer((FIRST + 3 * names) * 4) : names
    this.words = new Int32Array(this.buffer)
    const count = (this.words.length - FIRST) / 3
    this.#messages = this.words.subarray(FIRST, FIRST + count)
    this.#bytes = this.words.subarray(FIRST + count, FIRST + 2 * count)
    this.#largest = this.words.subarray(FIRST + 2 * count)
  }

  /** How many names there is room for. */
  get size(): number {
    return this.#messages.length
  }

  /** `largest`: bytes of a message beyond which its sender has to ask the host, which refuses it. */
  open(index: number, messages: number, bytes: number, largest: number): void {
    this.#most[index] = { messages, bytes, largest: Math.min(largest, MOST) }
    this.restoreLargest(index)
    Atomics.store(this.#messages, index, messages)
    Atomics.store(this.#bytes, index, bytes)
  }

  /** From now on every send to it has to ask the host, which has the reason. */
  close(index: number): void {
    Atomics.store(this.#messages, index, CLOSED)
  }

  /**
   * Claims room for one message. False: there may be none, ask the host. `note[0]` says how far it has come: what stays
   * there when the thread ends is what it took. A thread can end between two calls, not between a step and its note.
   */
  claim(index: number, bytes: number, note: Int32Array = NO_NOTE): boolean {
    if (bytes > this.#largest[index]!) return false
    const place = Atomics.sub(this.#messages, index, 1)
    note[0] = -(index + 1)
    if (place <= 0) {
      Atomics.add(this.#messages, index, 1)
      note[0] = 0
      return false
    }
    const free = Atomics.sub(this.#bytes, index, bytes)
    note[0] = index + 1
    if (free < bytes) {
      Atomics.add(this.#bytes, index, bytes)
      note[0] = -(index + 1)
      Atomics.add(this.#messages, index, 1)
      note[0] = 0
      return false
    }
    return true
  }

  /** Takes room that may not be there: for who waits first, or for a message that is larger than the mailbox and alone. */
  force(index: number, bytes: number): void {
    Atomics.sub(this.#messages, index, 1)
    Atomics.sub(this.#bytes, index, bytes)
  }

  /** How much room the words say that there is. */
  room(index: number): Room {
    return { messages: Atomics.load(this.#messages, index), bytes: Atomics.load(this.#bytes, index) }
  }

  /** Makes the words say so. Who claims room at this moment has it. */
  setRoom(index: number, { messages, bytes }: Room): void {
    const said = this.room(index)
    Atomics.add(this.#messages, index, messages - said.messages)
    Atomics.add(this.#bytes, index, bytes - said.bytes)
  }

  /** Whether the word was not what the host had said. */
  restoreLargest(index: number): boolean {
    const { largest } = this.#most[index]!
    return Atomics.exchange(this.#largest, index, largest) !== largest
  }

  /** Whether more was taken than there is. */
  overdrawn(index: number): boolean {
    return Atomics.load(this.#messages, index) < 0 || Atomics.load(this.#bytes, index) < 0
  }

  /** How much more was taken than there is; below zero is room. */
  overdraft(index: number): { messages: number; bytes: number } {
    return { messages: -Atomics.load(this.#messages, index), bytes: -Atomics.load(this.#bytes, index) }
  }

  /** How much is taken, over all. */
  taken(index: number): number {
    return (this.#most[index]?.messages ?? 0) - Atomics.load(this.#messages, index)
  }

  /** Never more than there is: of what a thread says that it had taken some may be a lie. */
  release(index: number, bytes: number): void {
    const most = this.#most[index]
    const messages = Atomics.add(this.#messages, index, 1) + 1
    const free = Atomics.add(this.#bytes, index, bytes) + bytes
    if (most && messages > most.messages) Atomics.sub(this.#messages, index, messages - most.messages)
    if (most && free > most.bytes) Atomics.sub(this.#bytes, index, free - most.bytes)
  }
}
