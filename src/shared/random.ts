/** Returns a short hash of texts that can be long and are never read again: equal texts have equal hashes. */
import { createHash } from 'node:crypto'
import { canonical } from './values.ts'

export const hashOf = (...parts: readonly string[]): string =>
  createHash('sha1').update(JSON.stringify(parts)).digest('base64')

/** Returns the SHA-256 of a value as canonical JSON (RFC 8785), in hex: what people agree to, and schemas, go by it. */
export const digestOf = (value: unknown): string => createHash('sha256').update(canonical(value)).digest('hex')

/**
 * Returns a random generator whose numbers follow from a message's id, so that a redelivered turn draws the same
 * numbers. The generator is sfc32 (C. Doty-Humphrey, PractRand).
 */
export function seededRandom(seed: ArrayLike<number>): () => number {
  let a = seed[0]! | 0
  let b = seed[1]! | 0
  let c = seed[2]! | 0
  let d = seed[3]! | 0
  const next = () => {
    const t = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 2 ** 32
  }
  for (let i = 0; i < 12; i++) next() // mixes a seed with few bits set
  return next
}

export class Dice {
  readonly random: () => number

  constructor(seed: number, purpose: string) {
    this.random = seededRandom([seed, seedOf(purpose), 3, 4])
  }

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

function seedOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash
}
