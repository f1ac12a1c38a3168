/** What programs/copies.ts moves bytes through: messages of one size in shared memory, from one thread to another. */

/** Bytes, as much as the runtime's rings have. */
const RING = 1 << 19
const [WRITTEN, TAKEN, WRITER_ASLEEP, READER_ASLEEP] = [0, 1, 2, 3] as const

export const slotMemory = () => new SharedArrayBuffer(RING + 16)

/** One end of it; who writes and who reads have one each. */
export class Slots {
  readonly bytes: Buffer
  readonly #words: Int32Array
  readonly #size: number
  readonly #count: number

  constructor(memory: SharedArrayBuffer, size: number) {
    this.#size = size
    this.bytes = Buffer.from(memory, 16)
    this.#words = new Int32Array(memory, 0, 4)
    this.#count = Math.floor(RING / size)
  }

  /** Where the next message is written; -1 if there is no room. */
  room(): number {
    const written = this.#words[WRITTEN]!
    return written - Atomics.load(this.#words, TAKEN) < this.#count ? (written % this.#count) * this.#size : -1
  }

  /** Where the next one is read; -1 if there is none. */
  next(): number {
    const taken = this.#words[TAKEN]!
    return Atomics.load(this.#words, WRITTEN) > taken ? (taken % this.#count) * this.#size : -1
  }

  /** The next message is written. */
  publish(wakeReader: () => void): void {
    Atomics.add(this.#words, WRITTEN, 1)
    this.#wake(READER_ASLEEP, wakeReader)
  }

  /** The next one is read. Who writes is woken when half is free. */
  pass(wakeWriter: () => void): void {
    const taken = Atomics.add(this.#words, TAKEN, 1) + 1
    if (Atomics.load(this.#words, WRITTEN) - taken <= this.#count >> 1) this.#wake(WRITER_ASLEEP, wakeWriter)
  }

  /** Returns false if a message has come meanwhile. */
  readerSleeps(): boolean {
    Atomics.store(this.#words, READER_ASLEEP, 1)
    return this.next() < 0
  }

  /** Returns false if there is room meanwhile. */
  writerSleeps(): boolean {
    Atomics.store(this.#words, WRITER_ASLEEP, 1)
    return this.room() < 0
  }

  #wake(word: number, wake: () => void): void {
    if (Atomics.load(this.#words, word) === 1 && Atomics.exchange(this.#words, word, 0) === 1) wake()
  }
}
