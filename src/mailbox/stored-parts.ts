/**
 * Parts whose bytes are stored once for the whole team, under their hash. In a frame, in a record of the log and in a
 * prompt a reference stands in place of the bytes. Who reads such a part gets its bytes as a data URL.
 */
import { createHash } from 'node:crypto'
import { PartLostError } from '../shared/errors.ts'
import type { MediaPart } from './parts.ts'

/** Number of bytes from which on a part is stored. */
export const STORED_FROM = 2 ** 16
/** Largest part that is taken: its data URL is a text, and a text has a longest length. */
export const LARGEST_PART = 2 ** 28

/** The content of a reference. */
export interface StoredPart {
  /** SHA-256 of the bytes, in hex. */
  readonly hash: string
  readonly bytes: number
}

/** Reads bytes; undefined if they are gone. */
export type ReadBytes = () => Uint8Array | undefined

const REFERENCE = /^stored:sha256-([0-9a-f]{64}):(\d{1,9})$/
const LONGEST_REFERENCE = 96

export const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export const referenceTo = ({ hash, bytes }: StoredPart): string => `stored:sha256-${hash}:${bytes}`

/** Returns what the data of a part refers to; undefined if it is no reference. */
export function storedIn(data: unknown): StoredPart | undefined {
  if (typeof data !== 'string' || data.length > LONGEST_REFERENCE) return undefined
  const [, hash, bytes] = REFERENCE.exec(data) ?? []
  return hash === undefined ? undefined : { hash, bytes: Number(bytes) }
}

/** References of parts that can be read. */
const references = new WeakMap<object, string>()

/** Returns what a part refers to; undefined if its bytes are not stored. They are not read. */
export function referenceIn(part: object): StoredPart | undefined {
  return storedIn(references.get(part) ?? Reflect.get(part, 'data'))
}

/** Finds the hashes of the stored parts among these. */
export function* hashesOf(parts: Iterable<object>): Generator<string> {
  for (const part of parts) {
    const stored = referenceIn(part)
    if (stored) yield stored.hash
  }
}

/** Returns a part as it crosses threads, if it is one whose bytes are stored. Its bytes are not read. */
export function storedForm<Part extends object>(part: Part): Part | undefined {
  const reference = references.get(part)
  if (reference === undefined) return storedIn(Reflect.get(part, 'data')) ? part : undefined
  const fields = Object.entries(Object.getOwnPropertyDescriptors(part)).map(([name, { value }]) => [name, value])
  return { ...Object.fromEntries(fields), data: reference }
}

/**
 * Returns parts whose stored bytes can be read: `data` is the data URL, made when it is asked for. `reader` returns the
 * function that reads the bytes; a part for which there is none stays as it is.
 */
export function readableParts<Part extends object>(
  parts: readonly Part[],
  reader: (stored: StoredPart) => ReadBytes | undefined,
): Part[] {
  return parts.map((part) => {
    const stored = referenceIn(part)
    const read = stored && reader(stored)
    return read ? readable(part, stored, read) : part
  })
}

function readable<Part extends object>(part: Part, stored: StoredPart, read: ReadBytes): Part {
  const made = { ...storedForm(part)! }
  const { mediaType = 'application/octet-stream' } = made as Partial<MediaPart>
  references.set(made, referenceTo(stored))
  return Object.defineProperty(made, 'data', {
    enumerable: true,
    configurable: true,
    get: () => `data:${mediaType};base64,${Buffer.from(bytesOf(stored, read())).toString('base64')}`,
  })
}

/** @throws PartLostError if the bytes are gone. */
export function bytesOf(stored: StoredPart, bytes: Uint8Array | undefined): Uint8Array {
  if (bytes) return bytes
  const { hash } = stored
  const text = `The bytes of a part (${stored.bytes} bytes, sha256 ${hash}) are gone: the run that they belong to has left the memory and the log of the team, or the team had no room for them (maxStoredBytes). Give the part again with its bytes.`
  throw new PartLostError(text, { hash, bytes: stored.bytes })
}
