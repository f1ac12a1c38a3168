/**
 * Memory shared by all threads of a team: whether the host sleeps, which agents have written something, and the free
 * room of each mailbox. A sender reserves room with two subtractions, and asks the host only if there is none. The host
 * returns room as turns commit, to parked senders first: it takes the room for the first of them beforehand. So a
 * successful reservation is an acceptance.
 *
 * Code in any thread can write anything here. The host therefore compares the words it depends on with its own records
 * (runtime/host/mailboxes.ts).
 */

/** 1: the host sleeps and wants a wake-up. */
export const HOST_ASLEEP = 0
/** Set by each wake-up of the host; the host clears it before it looks for frames. */
export const HOST_CALLED = 16
/** 1: a permit is wanted, so a turn that parks must wake the host. */
export const PERMITS_WANTED = 32
const FIRST = 48
const CLOSED = -(2 ** 30)
const MOST = 2 ** 31 - 1
const NO_NOTE = new Int32Array(1)

/** Maximum number of names in a team: an index has 16 bits in a frame. */
export const MAX_AGENTS = 65_535

const wordsFor = (names: number) => FIRST + 3 * names + Math.ceil(names / 32)

/** Free room of a mailbox. */
export interface Room {
  messages: number
  bytes: number
}

export class TeamMemory {
  /** `grow` replaces both. Fields, since a getter is a call more for each look of the host. */
  buffer!: SharedArrayBuffer
  words!: Int32Array
  #messages!: Int32Array
  #bytes!: Int32Array
  #largest!: Int32Array
  /** A bit for each agent that has written something since the host read it. */
  #writers!: Int32Array
  /** Room of each empty mailbox. Kept by the host in its own memory. */
  readonly #most: (Room & { largest: number })[] = []

  /** Creates the memory for that many names, or uses the buffer that another thread created. */
  constructor(names: number | SharedArrayBuffer) {
    this.#use(typeof names === 'number' ? new SharedArrayBuffer(wordsFor(names) * 4) : names)
  }

  #use(buffer: SharedArrayBuffer): void {
    const words = new Int32Array(buffer)
    const count = Math.floor(((words.length - FIRST) * 32) / 97) // 3 words and a bit each
    this.buffer = buffer
    this.words = words
    this.#messages = words.subarray(FIRST, FIRST + count)
    this.#bytes = words.subarray(FIRST + count, FIRST + 2 * count)
    this.#largest = words.subarray(FIRST + 2 * count, FIRST + 3 * count)
    this.#writers = words.subarray(FIRST + 3 * count)
  }

  /** Makes room for that many names. Only before a thread has the memory; each mailbox has to be opened again. */
  grow(names: number): void {
    if (names <= this.size) return
    const before = this.words
    this.#use(new SharedArrayBuffer(wordsFor(names) * 4))
    this.words.set(before.subarray(0, FIRST))
  }

  /** Maximum number of names. */
  get size(): number {
    return this.#messages.length
  }

  /** Marks that the agent has written something. The frame must be published before that. */
  wrote(index: number): void {
    const bit = 1 << (index & 31)
    if ((Atomics.load(this.#writers, index >> 5) & bit) === 0) Atomics.or(this.#writers, index >> 5, bit)
  }

  /** Marks all agents, in case a thread has taken away the mark of another. */
  allWrote(): void {
    for (let word = 0; word < this.#writers.length; word++) Atomics.store(this.#writers, word, -1)
  }

  /** Takes the marks of the agents from 32 times `word` on, as bits. What is written from now on is marked again. */
  takeWriters(word: number): number {
    return Atomics.load(this.#writers, word) === 0 ? 0 : Atomics.exchange(this.#writers, word, 0)
  }

  /**
   * Opens a mailbox with that room.
   *
   * @param largest maximum bytes of a message. The sender of a larger one must ask the host, which refuses it.
   */
  open(index: number, messages: number, bytes: number, largest: number): void {
    this.#most[index] = { messages, bytes, largest: Math.min(largest, MOST) }
    this.restoreLargest(index)
    Atomics.store(this.#messages, index, messages)
    Atomics.store(this.#bytes, index, bytes)
  }

  /** Closes a mailbox. From now on each send to it must ask the host, which knows the reason. */
  close(index: number): void {
    Atomics.store(this.#messages, index, CLOSED)
  }

  /**
   * Reserves room for one message. Returns false if there may be none; then the sender must ask the host.
   *
   * `note[0]` records the progress: the value left there when the thread ends shows what it has taken. A thread can end
   * between two calls, but not between a step and its note.
   */
  reserve(index: number, bytes: number, note: Int32Array = NO_NOTE): boolean {
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

  /**
   * Takes room that may not be there: for the first waiting sender, or for a message larger than the mailbox that is
   * alone in it.
   */
  force(index: number, bytes: number): void {
    Atomics.sub(this.#messages, index, 1)
    Atomics.sub(this.#bytes, index, bytes)
  }

  /** Returns the free room according to the shared words. */
  room(index: number): Room {
    return { messages: Atomics.load(this.#messages, index), bytes: Atomics.load(this.#bytes, index) }
  }

  /** Sets the shared words to that room. A reservation made at this moment stays valid. */
  setRoom(index: number, { messages, bytes }: Room): void {
    const said = this.room(index)
    Atomics.add(this.#messages, index, messages - said.messages)
    Atomics.add(this.#bytes, index, bytes - said.bytes)
  }

  /** Restores the host's value of the size limit. Returns true if the word had another value. */
  restoreLargest(index: number): boolean {
    const { largest } = this.#most[index]!
    return Atomics.exchange(this.#largest, index, largest) !== largest
  }

  /** Checks whether more room was taken than there is. */
  overdrawn(index: number): boolean {
    return Atomics.load(this.#messages, index) < 0 || Atomics.load(this.#bytes, index) < 0
  }

  /** Returns how much more room was taken than there is; negative values are free room. */
  overdraft(index: number): { messages: number; bytes: number } {
    return { messages: -Atomics.load(this.#messages, index), bytes: -Atomics.load(this.#bytes, index) }
  }

  /** Returns the number of messages for which room is taken, over all senders. */
  taken(index: number): number {
    return (this.#most[index]?.messages ?? 0) - Atomics.load(this.#messages, index)
  }

  /**
   * Returns the room of one message. Never raises it above the capacity, because a thread's record of what it has taken
   * may be false.
   */
  release(index: number, bytes: number): void {
    const most = this.#most[index]
    const messages = Atomics.add(this.#messages, index, 1) + 1
    const free = Atomics.add(this.#bytes, index, bytes) + bytes
    if (most && messages > most.messages) Atomics.sub(this.#messages, index, messages - most.messages)
    if (most && free > most.bytes) Atomics.sub(this.#bytes, index, free - most.bytes)
  }
}
