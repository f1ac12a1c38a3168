/** Finds in a text what earlier texts of its run and its thread have: as copies of these it is written again. */
import { MOST_BYTES, type Piece, type PutText, type Text, Texts } from './texts.ts'

/*
 * Anchors are places in texts, by a hash of the bytes that stand there: so a text that comes again is found. The bytes
 * say which places are anchors, so the same bytes have the same anchors wherever they stand.
 */

/** Bytes that the hash of an anchor is made of. */
const ANCHOR_BYTES = 16
/** Most bytes without an anchor. It is prime: bytes that repeat themselves get anchors at all of their phases. */
const MOST_BETWEEN = 127
/** Average distance of two anchors in bytes; a power of two. */
const SPARSENESS = 64

/** Returns the next anchor at or behind a place; -1 if there is none. `last`: the anchor before. */
function nextAnchor(bytes: Uint8Array, at: number, last: number): number {
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
function hashAt(bytes: Uint8Array, at: number): number {
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

/** Bytes below which a copy does not pay. */
const LEAST_COPY = 24

/** Bytes of a copy in which one anchor is noted for later texts, so that not all of it has to be searched for them. */
const NOTED_EACH = 1_024

/** Bytes of its own from which on a text says more than the one that it has a copy of. */
const LEAST_MORE = 128

interface Found {
  readonly source: Text
  readonly from: number
  readonly at: number
  readonly length: number
}

export class CopyFinder {
  readonly #anchors = new Map<number, Anchors>()
  readonly texts = new Texts(MOST_BYTES, (run) => this.#anchors.delete(run))

  /** Returns the text of an entry, put together from as much of earlier texts as there is in it. */
  add(entry: Pick<Text, 'seq' | 'run' | 'entryBytes'>, bytes: Buffer): PutText {
    const pieces: Piece[] = []
    const text = { ...entry, origin: pieces }
    const anchors = this.#anchorsOf(entry.run)
    const run = this.texts.before(entry.run)
    const before = run === undefined ? undefined : this.#anchors.get(run)
    const again: number[] = []
    let done = 0
    for (let at = nextAnchor(bytes, 0, 0); at >= 0; ) {
      const hash = hashAt(bytes, at)
      const found = anchors.find(hash)
      if (!found) anchors.note(hash, text, bytes.length, at)
      else if (found.text !== text) again.push(hash, at)
      const copy = longer(
        this.#extended(found, { text, bytes, at, done }),
        this.#extended(before?.find(hash), { text, bytes, at, done }),
      )
      if (copy) {
        if (copy.at > done) pieces.push(ownPiece(bytes, done, copy.at))
        pieces.push(copy)
        done = copy.at + copy.length
      }
      at = nextAnchor(bytes, Math.max(at + 1, done), Math.max(at, done))
    }
    if (done < bytes.length) pieces.push(ownPiece(bytes, done, bytes.length))
    this.texts.add(text)
    if (!saysMore(text)) return text
    // Later texts have copies of this one: it may have more of what comes next, as a prompt has a whole conversation.
    for (let n = 0; n < again.length; n += 2) anchors.note(again[n]!, text, bytes.length, again[n + 1]!)
    for (const copy of pieces)
      if (isCopyOf(copy, text))
        for (const place of placesIn(bytes, copy)) anchors.note(hashAt(bytes, place), text, bytes.length, place)
    this.texts.keepAtHand(text, bytes)
    return text
  }

  #anchorsOf(run: number): Anchors {
    let anchors = this.#anchors.get(run)
    if (!anchors || anchors.bytes > MOST_BYTES) {
      anchors = new Anchors()
      this.#anchors.set(run, anchors)
    }
    return anchors
  }

  /** Returns the copy around two places with the same anchor. Within one text it has to end before it comes again. */
  #extended(
    found: Anchor | undefined,
    { text, bytes, at, done }: { text: Text; bytes: Buffer; at: number; done: number },
  ): Found | undefined {
    if (!found) return undefined
    const { text: source, at: there } = found
    const isOwn = source === text
    if (!isOwn && this.texts.get(source.seq) !== source) return undefined // it is kept no more
    const before = isOwn ? bytes : this.texts.bytesOf(source)
    const most = Math.min(bytes.length - at, (isOwn ? at : before.length) - there)
    const behind = commonFrom(before, there, bytes, at, most)
    if (behind < Math.min(ANCHOR_BYTES, most)) return undefined
    let ahead = 0
    while (at - ahead > done && there > ahead && before[there - ahead - 1] === bytes[at - ahead - 1]) ahead += 1
    if (isOwn && there + behind > at - ahead) ahead = at - there - behind
    const length = ahead + behind
    return length < LEAST_COPY ? undefined : { source, from: there - ahead, at: at - ahead, length }
  }
}

const isCopyOf = ({ source }: Piece, text: Text) => !(source instanceof Uint8Array) && source !== text

/** Returns places of anchors in a copy, which the bytes alone make anchors. */
function placesIn(bytes: Buffer, { at, length }: Piece): number[] {
  const places: number[] = []
  const copied = bytes.subarray(0, at + length)
  const next = (from: number) => nextAnchor(copied, from, Number.POSITIVE_INFINITY)
  for (let place = next(at); place >= 0; place = next(place + NOTED_EACH)) places.push(place)
  return places
}

function longer(one: Found | undefined, other: Found | undefined): Found | undefined {
  return (other?.length ?? 0) > (one?.length ?? 0) ? other : one
}

/** Checks whether a text has more than an earlier one. A message that is only passed on has not. */
function saysMore({ origin }: PutText): boolean {
  let [own, copies] = [0, 0]
  for (const { source, length } of origin) {
    if (source instanceof Uint8Array) own += length
    else copies += 1
  }
  return own >= LEAST_MORE || copies > 1
}

/** Copies the bytes, so that a text whose other pieces are copies takes little memory. */
const ownPiece = (bytes: Buffer, at: number, end: number): Piece => {
  const own = at === 0 && end === bytes.length ? bytes : Buffer.from(bytes.subarray(at, end))
  return { at, length: end - at, source: own, from: 0 }
}

/** Bytes that are compared at once. */
const STRIDE = 1_024

/** Returns how many bytes from two places on are the same, at most so many. */
function commonFrom(one: Buffer, there: number, other: Buffer, at: number, most: number): number {
  let same = 0
  for (let step = Math.min(STRIDE, most); step > 0; step = Math.min(STRIDE, most - same)) {
    if (one.compare(other, at + same, at + same + step, there + same, there + same + step) !== 0) break
    same += step
  }
  while (same < most && one[there + same] === other[at + same]) same += 1
  return same
}
