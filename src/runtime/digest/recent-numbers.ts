/**
 * Numbers by keys of two words, of which older ones are forgotten. One block of memory of fixed size in place of a map:
 * an entry costs some nanoseconds, and nothing to collect.
 */
const PLACES = 2 ** 15
/** Places that a key may be at: the one with the lowest number is taken. Together they are a line of the cache. */
const WAYS = 4
const SETS = PLACES / WAYS
/** Words of a place: two of the key, then the number. */
const WORDS = 4

export class RecentNumbers {
  readonly #keys: Int32Array
  readonly #numbers: Float64Array

  constructor() {
    const memory = new ArrayBuffer(PLACES * WORDS * Int32Array.BYTES_PER_ELEMENT)
    this.#keys = new Int32Array(memory)
    this.#numbers = new Float64Array(memory)
    for (let place = 0; place < PLACES; place++) this.#numbers[place * 2 + 1] = -1
  }

  /**
   * Adds a number, which is above all earlier ones. `serial`: what differs by 1 from one key of a source to the next.
   * Such keys lie side by side.
   */
  set(serial: number, high: number, low: number, number: number): void {
    const keys = this.#keys
    const numbers = this.#numbers
    const first = firstPlace(serial, low)
    let oldest = first
    for (let place = first + 1; place < first + WAYS; place++)
      if (numbers[place * 2 + 1]! < numbers[oldest * 2 + 1]!) oldest = place
    keys[oldest * WORDS] = high
    keys[oldest * WORDS + 1] = low
    numbers[oldest * 2 + 1] = number
  }

  /** Returns the number of a key; -1 if there is none, or it is forgotten. */
  get(serial: number, high: number, low: number): number {
    const keys = this.#keys
    const first = firstPlace(serial, low)
    let place = first + WAYS
    while (--place >= first)
      if (keys[place * WORDS] === high && keys[place * WORDS + 1] === low) return this.#numbers[place * 2 + 1]!
    return -1
  }
}

const firstPlace = (serial: number, source: number): number =>
  ((serial + (Math.imul(source, 0x9e37_79b1) >>> 19)) & (SETS - 1)) * WAYS
