/** Entries that are written as copies of pieces of earlier ones: their bodies as bytes, and back. */
import { COPIES, entrySpans, HEADER_BYTES, type Numbers } from './entry-layout.ts'
import { SEQ_STEP } from './records.ts'
import type { Piece, PutText, Texts } from './texts.ts'

const HEAD_BYTES = 16

/** Entry that is written as copies. */
export interface CopiedEntry extends Numbers {
  readonly kind: 'copies'
  readonly isFrame: boolean
  /** Bytes of the entry, were it written whole. */
  readonly entryBytes: number
  /** The other run that it has copies of; 0 without one. */
  readonly leansOn: number
  /** Number of the first entry that it has a copy of. */
  readonly base: number
  readonly pieces: readonly CopiedPiece[]
}

interface CopiedPiece extends Omit<Piece, 'source'> {
  /** Number of the entry, or bytes of its own. */
  readonly source: number | Uint8Array
}

/** Returns the body of the entry of a text. */
export function copiedBody({ seq, run, entryBytes, origin }: PutText): Uint8Array[] {
  const numbers: number[] = []
  const own: Uint8Array[] = []
  let leansOn = 0
  for (const { length, source, from } of origin) {
    const isOwn = source instanceof Uint8Array
    pushNumber(numbers, length * 2 + (isOwn ? 0 : 1))
    if (isOwn) own.push(source)
    else {
      if (source.run !== run) leansOn = source.run
      pushNumber(numbers, (seq - source.seq) / SEQ_STEP)
      pushNumber(numbers, from)
    }
  }
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32LE(entryBytes, 0)
  head.writeUInt32LE(numbers.length, 4)
  head.writeUInt32LE(leansOn, 8)
  return [head, Uint8Array.from(numbers), ...own]
}

function pushNumber(bytes: number[], number: number): void {
  let left = number
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128)
  bytes.push(left)
}

/** Returns the other run that an encoded entry has copies of; 0 without one. */
export function leanOf(entry: Uint8Array): number {
  const view = Buffer.from(entry.buffer, entry.byteOffset, entry.byteLength)
  return view.readUInt32LE(0) === COPIES ? view.readUInt32LE(HEADER_BYTES + 8) : 0
}

/** Finds the runs among encoded entries that have copies of what another run said, and that run of each. */
export function leansIn(bytes: Uint8Array): Map<number, number> {
  const leans = new Map<number, number>()
  for (const { run, from, to } of entrySpans(bytes)) {
    const other = leanOf(bytes.subarray(from, to))
    if (other !== 0) leans.set(run, other)
  }
  return leans
}

/** Reads the body of an entry. Its own bytes get memory of their own. */
export function copiedFrom(content: Buffer, isFrame: boolean, numbers: Numbers): CopiedEntry {
  const end = HEAD_BYTES + content.readUInt32LE(4)
  const own = Uint8Array.prototype.slice.call(content, end)
  const pieces: CopiedPiece[] = []
  let base = numbers.seq
  let place = HEAD_BYTES
  const next = () => {
    let number = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = content.readUInt8(place++)
      number += (byte % 128) * scale
      if (byte < 128) return number
    }
  }
  for (let [at, ownAt] = [0, 0]; place < end; ) {
    const first = next()
    const length = Math.floor(first / 2)
    if (first % 2 === 0) {
      pieces.push({ at, length, source: own, from: ownAt })
      ownAt += length
    } else {
      const source = numbers.seq - next() * SEQ_STEP
      base = Math.min(base, source)
      pieces.push({ at, length, source, from: next() })
    }
    at += length
  }
  const [entryBytes, leansOn] = [content.readUInt32LE(0), content.readUInt32LE(8)]
  return { kind: 'copies', ...numbers, isFrame, entryBytes, leansOn, base, pieces }
}

/** Returns the text of an entry; undefined if what it has copies of is not among the texts. */
export function copiedText({ seq, run, pieces, entryBytes }: CopiedEntry, texts: Texts): PutText | undefined {
  const origin: Piece[] = []
  const text: PutText = { seq, run, entryBytes, origin }
  for (const { source, ...piece } of pieces) {
    const from = typeof source === 'number' && source !== seq ? texts.get(source) : text
    if (!from) return undefined
    origin.push({ ...piece, source: source instanceof Uint8Array ? source : from })
  }
  return text
}
