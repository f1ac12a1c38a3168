/** Finds in a text what earlier texts of its run and its thread have: as copies of these it is written again. */
import { ANCHOR_BYTES, type Anchor, Anchors, hashAt, nextAnchor } from './anchors.ts'
import { MOST_BYTES, type Piece, type PutText, type Text, Texts } from './texts.ts'

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

/** Checks for a copy of an earlier text. */
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
