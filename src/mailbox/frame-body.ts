/**
 * A frame's body: its strings, each with its length before it, as latin1 or, if needed, UTF-16. The flags of the frame
 * say which strings it has; a body without strings takes no room.
 */
import {
  BLANK_BODY,
  BODY,
  type Body,
  bodyBytesOf,
  type FrameFields,
  flagsOf,
  HAS_DATA,
  HAS_METADATA,
  HAS_NAME,
  HAS_THREAD,
  HEADER,
  KIND,
  writeHeader,
} from './frame.ts'
import type { Memory } from './memory.ts'

const WIDE = 0x4000_0000
const LENGTH = 0x3fff_ffff
// biome-ignore lint/suspicious/noControlCharactersInRegex: latin1 begins with them
const wide = /[^\u0000-\u00ff]/

const stringBytes = (text: string) => (4 + (wide.test(text) ? text.length * 2 : text.length) + 3) & ~3

/** Returns the exact size in bytes of a frame with this body. */
export function frameBytes({ content, data, metadata, threadId, name }: Body): number {
  let bytes = 0
  if (data !== undefined) bytes += stringBytes(data)
  if (metadata !== undefined) bytes += stringBytes(metadata)
  if (threadId !== undefined) bytes += stringBytes(threadId)
  if (name !== undefined) bytes += stringBytes(name)
  return content === '' && bytes === 0 ? HEADER : (HEADER + stringBytes(content) + bytes + 7) & ~7
}

/** The same for a body of content and data alone. */
export function plainFrameBytes(content: string, data?: string): number {
  const bytes = data === undefined ? 0 : stringBytes(data)
  return content === '' && bytes === 0 ? HEADER : (HEADER + stringBytes(content) + bytes + 7) & ~7
}

function writeString(memory: Memory, at: number, text: string): number {
  const { i32 } = memory
  const { length } = text
  const isWide = wide.test(text)
  const end = (at + 4 + (isWide ? length * 2 : length) + 3) & ~3
  i32[(end >> 2) - 1] = 0 // the padding of the last word is part of the body, and bodies are compared
  if (isWide) {
    i32[at >> 2] = length | WIDE
    memory.text.ucs2Write(text, at + 4, length * 2)
  } else {
    i32[at >> 2] = length
    memory.text.latin1Write(text, at + 4, length)
  }
  return end
}

/** Writes header and body of a message and returns the frame's size in bytes. The caller must write the id. */
export function writeFrame(memory: Memory, at: number, fields: FrameFields, time: number): number {
  const { content, data, metadata, threadId, name } = fields
  let { flags } = fields
  if (data !== undefined) flags |= HAS_DATA
  if (metadata !== undefined) flags |= HAS_METADATA
  if (threadId !== undefined) flags |= HAS_THREAD
  if (name !== undefined) flags |= HAS_NAME
  let end = at + HEADER
  if (content !== '' || flags !== fields.flags) end = writeString(memory, end, content)
  if (data !== undefined) end = writeString(memory, end, data)
  if (metadata !== undefined) end = writeString(memory, end, metadata)
  if (threadId !== undefined) end = writeString(memory, end, threadId)
  if (name !== undefined) end = writeString(memory, end, name)
  const bytes = (end - at + 7) & ~7
  if (bytes > end - at) memory.i32[end >> 2] = 0 // frames go to the log, and this word would have what stood here before
  writeHeader(memory, at, fields, flags, bytes, end - at - HEADER, time)
  return bytes
}

let cursor = 0 // where readString stopped; a module variable is enough for one reader at a time

function readString(memory: Memory): string {
  const at = cursor
  const word = memory.i32[at >> 2]!
  const length = word & LENGTH
  if (word & WIDE) {
    cursor = (at + 4 + length * 2 + 3) & ~3
    return memory.text.ucs2Slice(at + 4, at + 4 + length * 2)
  }
  cursor = (at + 4 + length + 3) & ~3
  return length === 0 ? '' : memory.text.latin1Slice(at + 4, at + 4 + length)
}

/** Returns the content alone, because the other strings may be long. */
export function contentOf(memory: Memory, at: number): string {
  if (bodyBytesOf(memory, at) === 0) return ''
  cursor = at + HEADER
  return readString(memory)
}

/** Returns the content as bytes, in the memory of the frame; undefined if it is not latin1. */
export function contentBytes(memory: Memory, at: number): Uint8Array | undefined {
  const word = bodyBytesOf(memory, at) === 0 ? 0 : memory.i32[(at + HEADER) >> 2]!
  const from = at + HEADER + 4
  return word & WIDE ? undefined : memory.u8.subarray(from, from + (word & LENGTH))
}

/** Place of a text in a memory, in bytes. */
export interface TextPlace {
  readonly from: number
  readonly to: number
}

/**
 * Finds the data of a frame whose body is that content, which is latin1, and data. Returns undefined for any other
 * body. The data begins `dataAfter(content)` bytes after the frame.
 */
export function dataPlace(memory: Memory, at: number, content: string): TextPlace | undefined {
  const parts = flagsOf(memory, at) & (HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME)
  if (parts !== HAS_DATA || memory.i32[(at + HEADER) >> 2] !== content.length) return undefined
  if (memory.text.latin1Slice(at + HEADER + 4, at + HEADER + 4 + content.length) !== content) return undefined
  const from = at + dataAfter(content)
  const word = memory.i32[(from >> 2) - 1]!
  const length = word & LENGTH
  return { from, to: from + (word & WIDE ? length * 2 : length) }
}

/** Bytes from the begin of a frame to its data, for content that is latin1. */
export const dataAfter = (content: string): number => HEADER + stringBytes(content) + 4

export function readBody(memory: Memory, at: number): Body {
  const { i32 } = memory
  if (i32[(at >> 2) + BODY] === 0) return { ...BLANK_BODY }
  const flags = i32[(at >> 2) + KIND]! >>> 8
  cursor = at + HEADER
  const content = readString(memory)
  return {
    content,
    data: flags & HAS_DATA ? readString(memory) : undefined,
    metadata: flags & HAS_METADATA ? readString(memory) : undefined,
    threadId: flags & HAS_THREAD ? readString(memory) : undefined,
    name: flags & HAS_NAME ? readString(memory) : undefined,
  }
}

/** String of a body: its bytes, latin1 or UTF-16. */
export interface WrittenString {
  readonly bytes: Uint8Array
  readonly isWide: boolean
}

/** Returns the strings of a body as they are written, in their order. */
export function stringsOf(memory: Memory, at: number): WrittenString[] {
  if (bodyBytesOf(memory, at) === 0) return []
  const strings: WrittenString[] = []
  let place = at + HEADER
  for (let left = 1 | (namedBy(flagsOf(memory, at)) << 1); left !== 0; left >>= 1) {
    if ((left & 1) === 0) continue
    const word = memory.i32[place >> 2]!
    const isWide = (word & WIDE) !== 0
    const end = place + 4 + (word & LENGTH) * (isWide ? 2 : 1)
    strings.push({ bytes: memory.u8.subarray(place + 4, end), isWide })
    place = (end + 3) & ~3
  }
  return strings
}

/** Writes the strings of a body behind the header of their frame, into empty memory. Bytes are those of latin1. */
export function writeStrings(memory: Memory, at: number, strings: readonly (string | Uint8Array)[]): void {
  let end = at + HEADER
  for (const text of strings) {
    if (typeof text === 'string') end = writeString(memory, end, text)
    else {
      memory.i32[end >> 2] = text.length
      memory.u8.set(text, end + 4)
      end = (end + 4 + text.length + 3) & ~3
    }
  }
}

/** Strings that the flags name, beside the content. */
const namedBy = (flags: number): number => flags & (HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME)

/** Checks whether the body lies within the frame, and the strings named by the flags within the body. */
export function stringsFit(memory: Memory, at: number): boolean {
  const { i32 } = memory
  const bytes = i32[(at >> 2) + BODY]!
  if (bytes === 0) return true
  if (bytes < 0 || bytes > i32[at >> 2]! - HEADER) return false
  const end = at + HEADER + bytes
  let place = at + HEADER
  for (let left = 1 | (namedBy(i32[(at >> 2) + KIND]! >>> 8) << 1); left !== 0; left >>= 1) {
    if ((left & 1) === 0) continue
    if (place + 4 > end) return false
    const word = i32[place >> 2]!
    const length = word & LENGTH
    place = (place + 4 + (word & WIDE ? length * 2 : length) + 3) & ~3
    if (place > end || place < 0) return false // an end beyond the int32 range is negative
  }
  return true
}
