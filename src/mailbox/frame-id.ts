/** The id of a frame: 16 bytes in its header, converted to the text of a UUID on demand. */
import { ID } from './frame.ts'
import type { Memory } from './memory.ts'

/**
 * Generates ids in the layout of UUID version 7 (RFC 9562): time, then a counter, then bits that identify this thread.
 */
export class IdSource {
  #serial = 0
  #time = -1
  #high = 0
  #low = 0
  readonly #tail: number

  constructor(random: () => number) {
    this.#tail = (random() * 2 ** 30) | 0
  }

  /** Writes the next id, with that time (epoch ms), into the header of the frame at `at`. Ids of one source ascend. */
  write(i32: Int32Array, at: number, time: number): void {
    const serial = ++this.#serial
    if (time >= this.#time + 1) {
      this.#time = Math.floor(time)
      this.#high = (this.#time / 65536) | 0
      this.#low = (this.#time % 65536) << 16
    }
    const i = (at >> 2) + ID
    i32[i] = this.#high
    i32[i + 1] = this.#low | 0x7000 | ((serial >>> 18) & 0xfff)
    i32[i + 2] = 0x8000_0000 | ((serial & 0x3ffff) << 12) | (this.#tail >>> 18)
    i32[i + 3] = this.#tail << 14
  }
}

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Returns the id of a frame as the text of a UUID. */
export function idOf(memory: Memory, at: number): string {
  const i = (at >> 2) + ID
  return idText(memory.i32[i]!, memory.i32[i + 1]!, memory.i32[i + 2]!, memory.i32[i + 3]!)
}

export function idText(a: number, b: number, c: number, d: number): string {
  const first = `${hex[a >>> 24]}${hex[(a >>> 16) & 255]}${hex[(a >>> 8) & 255]}${hex[a & 255]}`
  const second = `${hex[b >>> 24]}${hex[(b >>> 16) & 255]}-${hex[(b >>> 8) & 255]}${hex[b & 255]}`
  const third = `${hex[c >>> 24]}${hex[(c >>> 16) & 255]}-${hex[(c >>> 8) & 255]}${hex[c & 255]}`
  return `${first}-${second}-${third}${hex[d >>> 24]}${hex[(d >>> 16) & 255]}${hex[(d >>> 8) & 255]}${hex[d & 255]}`
}

/** The four words of an id. */
export type FrameId = readonly [number, number, number, number]

/** Reads an id from its text. */
export function idFrom(text: string): FrameId {
  const digits = text.replaceAll('-', '')
  const word = (at: number) => Number.parseInt(digits.slice(at, at + 8), 16) | 0
  return [word(0), word(8), word(16), word(24)]
}

export function readId({ i32 }: Memory, at: number): FrameId {
  const i = (at >> 2) + ID
  return [i32[i]!, i32[i + 1]!, i32[i + 2]!, i32[i + 3]!]
}

export function writeId(memory: Memory, at: number, id: FrameId): void {
  const i = (at >> 2) + ID
  for (let word = 0; word < 4; word++) memory.i32[i + word] = id[word]!
}

/** Copies the 16 bytes of an id from one frame to another. */
export function copyId(from: Memory, at: number, to: Memory, target: number): void {
  const source = from.i32
  const copy = to.i32
  for (let word = 0, i = (at >> 2) + ID, j = (target >> 2) + ID; word < 4; word++) copy[j + word] = source[i + word]!
}
