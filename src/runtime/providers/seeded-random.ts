/** Random numbers from a seed and a purpose. One draw more for one purpose changes nothing for another. */
import { seededRandom } from '../../actors/definition/seeded-random.ts'

export class Dice {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number

  constructor(seed: number, purpose: string) {
    this.random = seededRandom([seed, hashOf(purpose), 3, 4])
  }

  /** Returns an integer from 0 (inclusive) to `below` (exclusive). */
  upTo(below: number): number {
    return Math.floor(this.random() * below)
  }
  chance(odds: number): boolean {
    return this.random() < odds
  }
  pick<T>(list: readonly T[]): T {
    return list[this.upTo(list.length)]!
  }
  /** Fills an array, as `crypto.getRandomValues` does. */
  fill<T extends ArrayBufferView>(array: T): T {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    for (let i = 0; i < bytes.length; i++) bytes[i] = this.upTo(256)
    return array
  }
}

/** Returns the FNV-1a hash of a text, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash
}
