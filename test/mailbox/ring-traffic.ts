/** Frames that tell their number, and fill themselves with what follows from it: a reader can check every byte. */
import { Ring, ringBytes } from '../../src/mailbox/channel.ts'

/** Length, number, priority, then words that follow from the number. */
export const SMALLEST = 16

const HEAD = 0 // words of the ring's control block, as ring.ts has them
const TAIL = 16

/** Both ends of a ring whose counters begin at `start`. */
export function ringPair(capacity: number, start = 0): { writer: Ring; reader: Ring; buffer: SharedArrayBuffer } {
  const buffer = new SharedArrayBuffer(ringBytes(capacity))
  const control = new Int32Array(buffer)
  control[HEAD] = start
  control[TAIL] = start
  return { writer: new Ring(buffer, 0, capacity), reader: new Ring(buffer, 0, capacity), buffer }
}

/** Numbers from 0 to below `below`, the same for the same seed. */
export function dice(seed: number): (below: number) => number {
  let state = seed | 1
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d)
    state = Math.imul(state ^ (state >>> 12), 0x297a2d39)
    state = (state ^ (state >>> 15)) + 0x6d2b79f5
    return (state >>> 0) % below
  }
}

const wordOf = (number: number, i: number) => Math.imul(number + 1, 0x9e3779b1) ^ Math.imul(i, 0x85ebca6b)

/** Writes frame `number`; where it stands, or -1 if there is no room. It is not published yet. */
export function writeNumbered(ring: Ring, bytes: number, number: number, priority = 0): number {
  const at = ring.reserve(bytes)
  if (at < 0) return -1
  const { i32 } = ring.memory
  i32[at >> 2] = bytes
  i32[(at >> 2) + 1] = number
  i32[(at >> 2) + 2] = priority
  for (let i = 3; i < bytes >> 2; i++) i32[(at >> 2) + i] = wordOf(number, i)
  ring.advance(bytes)
  return at
}

/** The number of the frame at `at`. Throws if a word of it is not what its number says. */
export function readNumbered(ring: Ring, at: number): { bytes: number; number: number; priority: number } {
  const { i32 } = ring.memory
  const bytes = i32[at >> 2]!
  const number = i32[(at >> 2) + 1]!
  for (let i = 3; i < bytes >> 2; i++)
    if (i32[(at >> 2) + i] !== wordOf(number, i))
      throw new Error(`frame ${number}: word ${i} of ${bytes >> 2} is wrong`)
  return { bytes, number, priority: i32[(at >> 2) + 2]! }
}

/** Mixes what was read, in its order, into one number. */
export const mix = (hash: number, number: number, bytes: number): number =>
  Math.imul(hash ^ number, 0x01000193) ^ Math.imul(bytes, 0x2c1b3c6d)

export interface Traffic {
  seed: number
  frames: number
  /** Frames have up to that many bytes. */
  largest: number
  /** How many priorities there are; with more than one they are taken out of turn. */
  priorities: number
}

const sizeFrom = (roll: (below: number) => number, largest: number) => SMALLEST + 8 * roll((largest - SMALLEST) / 8 + 1)

/** Writes all frames, publishing now and then. `pause` is called while there is no room. */
export function writeTraffic(ring: Ring, { seed, frames, largest, priorities }: Traffic, pause: () => void): void {
  const roll = dice(seed)
  for (let number = 0; number < frames; number++) {
    const bytes = sizeFrom(roll, largest)
    const priority = roll(priorities)
    while (writeNumbered(ring, bytes, number, priority) < 0) {
      ring.publish()
      pause()
    }
    if (roll(4) > 0) ring.publish()
  }
  ring.publish()
}

/** What a reader of the whole traffic must end up with. */
export function hashOf({ seed, frames, largest, priorities }: Traffic): number {
  const roll = dice(seed)
  let hash = 0
  for (let number = 0; number < frames; number++) {
    const bytes = sizeFrom(roll, largest)
    roll(priorities)
    roll(4)
    hash = mix(hash, number, bytes)
  }
  return hash
}

/** Reads all frames in their order, releasing now and then. Returns their hash. */
export function readTraffic(ring: Ring, { seed, frames }: Traffic, pause: () => void): number {
  const roll = dice(~seed)
  let hash = 0
  for (let next = 0; next < frames; ) {
    const at = ring.peek()
    if (at < 0) {
      ring.release()
      pause()
      continue
    }
    const { bytes, number } = readNumbered(ring, at)
    if (number !== next) throw new Error(`frame ${number} came where ${next} was due`)
    hash = mix(hash, number, bytes)
    ring.pass(bytes)
    if (roll(3) > 0) ring.release()
    next += 1
  }
  ring.release()
  return hash
}

/** Takes all frames, the highest priority first. Returns the hash of all, put back in their order. */
export function takeTraffic(ring: Ring, { frames, priorities }: Traffic, pause: () => void): number {
  const priorityAt = (at: number) => ring.memory.i32[(at >> 2) + 2]!
  const last = new Array<number>(priorities).fill(-1)
  const sizes = new Array<number>(frames).fill(0)
  for (let taken = 0; taken < frames; ) {
    const at = ring.best((one, than) => priorityAt(one) > priorityAt(than))
    if (at < 0) {
      ring.release()
      pause()
      continue
    }
    const { bytes, number, priority } = readNumbered(ring, at)
    if (sizes[number] !== 0) throw new Error(`frame ${number} came twice`)
    if (number <= last[priority]!) throw new Error(`frame ${number} came behind ${last[priority]} of its priority`)
    last[priority] = number
    sizes[number] = bytes
    ring.take(at)
    ring.release()
    taken += 1
  }
  return sizes.reduce((hash, bytes, number) => mix(hash, number, bytes), 0)
}
