/**
 * Anchors are places in texts, by a hash of the bytes that stand there: so a text that comes again is found. The bytes
 * say which places are anchors, so the same bytes have the same anchors wherever they stand.
 */
import type { Text } from './texts.ts'

/** Bytes that the hash of an anchor is made of. */
export const ANCHOR_BYTES = 16
/** Most bytes without an anchor. It is prime: bytes that repeat themselves get anchors at all of their phases. */
const MOST_BETWEEN = 127
/** Average distance of two anchors in bytes; a power of two. */
const SPARSENESS = 64

/** Returns the next anchor at or behind a place; -1 if there is none. `last`: the anchor before. */
export function nextAnchor(bytes: Uint8Array, at: number, last: number): number {
  const end = bytes.length - ANCHOR_BYTES
  const forced = last + MOST_BETWEEN
  let before = at > 0 ? bytes[at - 1]! : 0
  let byte = at <= end ? bytes[at]! : 0
  for (let place = at; place <= end; place++) {
    const next = bytes[place + 1]!
    if (((before * 37 + byte * 11 + next) & (SPARSENESS - 1)) === 0 || place >= forced) return place
    before = byte
    byte = next
  }
  return -1
}

/** Returns a hash of the bytes from a place on; never 0. */
export function hashAt(bytes: Uint8Array, at: number): number {
  let hash = 0
  for (let n = at; n < at + ANCHOR_BYTES; n++) hash = Math.imul(hash ^ bytes[n]!, 0x0100_0193) ^ (hash >>> 15)
  return hash || 1
}

const FIRST_SLOTS = 256

/** Place of an anchor in a text. */
export interface Anchor {
  readonly text: Text
  readonly at: number
}

export class Anchors {
  readonly #texts: Text[] = []
  /** Place of the first byte of each text, if they stood one behind the other. */
  readonly #begins: number[] = []
  /** Pairs of the hash of an anchor and its place, each where its hash says, or behind. */
  #slots = new Int32Array(FIRST_SLOTS * 2)
  #count = 0
  /** Bytes of all texts. */
  bytes = 0

  /** Notes an anchor in a text of that length, in place of an earlier one with the same bytes. */
  note(hash: number, text: Text, length: number, at: number): void {
    if (this.#texts.at(-1) !== text) {
      this.#texts.push(text)
      this.#begins.push(this.bytes)
      this.bytes += length
    }
    if (this.#count * 4 >= this.#slots.length) this.#grow()
    this.#put(hash, this.#begins.at(-1)! + at)
  }

  #put(hash: number, place: number): void {
    const slot = this.#slotOf(hash)
    if (this.#slots[slot] === 0) this.#count += 1
    this.#slots[slot] = hash
    this.#slots[slot + 1] = place
  }

  #slotOf(hash: number): number {
    const slots = this.#slots
    const last = slots.length - 1
    let slot = ((hash ^ (hash >>> 16)) << 1) & last
    while (slots[slot] !== 0 && slots[slot] !== hash) slot = (slot + 2) & last
    return slot
  }

  #grow(): void {
    const slots = this.#slots
    this.#slots = new Int32Array(slots.length * 2)
    this.#count = 0
    for (let slot = 0; slot < slots.length; slot += 2) if (slots[slot] !== 0) this.#put(slots[slot]!, slots[slot + 1]!)
  }

  /** Finds the last anchor with that hash. */
  find(hash: number): Anchor | undefined {
    const slot = this.#slotOf(hash)
    if (this.#slots[slot] === 0) return undefined
    const place = this.#slots[slot + 1]!
    let [low, high] = [0, this.#begins.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#begins[middle]! <= place) low = middle
      else high = middle - 1
    }
    return { text: this.#texts[low]!, at: place - this.#begins[low]! }
  }
}
