/** Parts among the entries of a log: bytes of images, sounds and files, under their hash. */
import { entrySpans, HEADER_BYTES, type Numbers, PART, type Written } from './entry-layout.ts'
import type { HostRecord } from './records.ts'

const HASH_BYTES = 32

export type PartRecord = Extract<HostRecord, { kind: 'part' }>

/** Returns the entry of a part, as it is written. */
export function partEntry({ hash, bytes = new Uint8Array(), run, seq, at }: PartRecord): Written {
  const body = [Buffer.from(hash, 'hex'), bytes]
  return { kind: PART, run, seq, at, frames: 0, body, bytes: HASH_BYTES + bytes.byteLength }
}

/** Part among encoded entries. */
export interface PartEntry {
  readonly hash: string
  readonly seq: number
  readonly size: number
}

/** Finds the parts among encoded entries. */
export function* partsIn(bytes: Uint8Array): Generator<PartEntry> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (const { seq, from } of entrySpans(bytes)) if (view.readUInt32LE(from) === PART) yield partAt(view, from, seq)
}

/** Returns the bytes of a part among encoded entries, in memory of their own; undefined if it is not there. */
export function partBytes(bytes: Uint8Array, hash: string): Uint8Array | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (const { seq, from } of entrySpans(bytes)) {
    if (view.readUInt32LE(from) !== PART) continue
    const part = partAt(view, from, seq)
    const begin = from + HEADER_BYTES + HASH_BYTES
    if (part.hash === hash) return Uint8Array.prototype.slice.call(view, begin, begin + part.size)
  }
  return undefined
}

function partAt(view: Buffer, from: number, seq: number): PartEntry {
  const body = from + HEADER_BYTES
  const size = view.readUInt32LE(from + 4) - HASH_BYTES
  return { hash: view.toString('hex', body, body + HASH_BYTES), seq, size }
}

/** Reads the body of the entry of a part. */
export const partFrom = (content: Buffer, numbers: Numbers): PartRecord => ({
  kind: 'part',
  hash: content.toString('hex', 0, HASH_BYTES),
  size: content.byteLength - HASH_BYTES,
  ...numbers,
})
