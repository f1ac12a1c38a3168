/**
 * Numbers by keys, of which older ones are forgotten. Two arrays of fixed size in place of a map: an entry costs some
 * nanoseconds, and nothing to collect.
 */
const PLACES = 2 ** 15
/** Places that a key may be at: the one with the lowest number is taken. */
const WAYS = 4

export class RecentNumbers {
  readonly #keys = new Float64Array(PLACES)
  readonly #numbers = new Float64Array(PLACES).fill(-1)

  /** Adds a number, which is above all earlier ones. */
  set(key: number, number: number): void {
    const first = placeOf(key)
    let oldest = first
    for (let at = first; at < first + WAYS; at++) if (this.#numbers[at]! < this.#numbers[oldest]!) oldest = at
    this.#keys[oldest] = key
    this.#numbers[oldest] = number
  }

  /** Returns the number of a key; -1 if there is none, or it is forgotten. */
  get(key: number): number {
    const first = placeOf(key)
    for (let at = first; at < first + WAYS; at++) if (this.#keys[at] === key) return this.#numbers[at]!
    return -1
  }
}

/** Returns the first place for a key: keys that follow each other are spread. */
function placeOf(key: number): number {
  const hash = Math.imul((key % 2 ** 32) ^ (key / 2 ** 32), 0x9e37_79b1) >>> 17
  return hash & (PLACES - WAYS)
}
