/**
 * Plain form of an entry: what was said in it looks the same as in other entries, whichever way each of them writes
 * texts. Frames have them as latin1 or UTF-16, records as JSON in UTF-8, prompts as JSON within a frame. The plain form
 * has UTF-8, and JSON strings without their escapes. It uses bytes that no UTF-8 has: a string that had escapes stands
 * between 0xFE and 0xFF, and each string of a frame ends with 0xFD.
 */
import { isAscii } from 'node:buffer'
import { HEADER } from '../../mailbox/frame.ts'
import { stringsOf, type WrittenString, writeStrings } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'

const OPEN = '\xfe'
const CLOSE = '\xff'
const END_OF_STRING = 0xfd
const BACKSLASH = 0x5c

/** Levels to which strings with JSON in them are looked into. */
const MOST_LEVELS = 4

/** Returns the plain form of the JSON of a record. */
export const plainRecord = (json: Buffer): Buffer => asBytes(plain(asLetters(json)))

/** Returns the plain form of a frame. */
export function plainFrame(memory: Memory, at: number): Buffer {
  const strings = stringsOf(memory, at).map(plainString)
  const form = Buffer.allocUnsafe(strings.reduce((sum, { length }) => sum + length + 1, HEADER))
  form.set(memory.u8.subarray(at, at + HEADER))
  let end = HEADER
  for (const string of strings) {
    form.set(string, end)
    end += string.length
    form[end++] = END_OF_STRING
  }
  return form
}

/** Returns the record of a plain form. */
export const recordOf = (form: Buffer): Buffer => asBytes(original(asLetters(form)))

/** Writes the frame of a plain form into empty memory. */
export function writeFrameOf(form: Buffer, memory: Memory): void {
  memory.u8.set(form.subarray(0, HEADER))
  const strings: (string | Uint8Array)[] = []
  for (let from = HEADER; from < form.length; ) {
    const end = form.indexOf(END_OF_STRING, from)
    const string = form.subarray(from, end)
    // Marks are no ASCII either.
    strings.push(isAscii(string) ? string : asBytes(original(asLetters(string))).toString())
    from = end + 1
  }
  writeStrings(memory, 0, strings)
}

function plainString({ bytes, isWide }: WrittenString): Uint8Array {
  if (!isWide && isAscii(bytes)) return bytes.includes(BACKSLASH) ? asBytes(plain(asLetters(bytes))) : bytes
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(isWide ? 'utf16le' : 'latin1')
  return asBytes(plain(asLetters(Buffer.from(text))))
}

const asBytes = (letters: string): Buffer => Buffer.from(letters, 'latin1')
const asLetters = ({ buffer, byteOffset, byteLength }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('latin1')

/** Takes the escapes out of JSON strings in a text, whose letters are bytes, and likewise in what they hold. */
function plain(text: string, level = 0): string {
  if (level === MOST_LEVELS || !text.includes('\\')) return text
  const strings = new JsonStrings(text)
  let form = ''
  let done = 0
  for (let string = strings.next(); string; string = strings.next()) {
    const held = string.hasEscapes ? unescaped(text.slice(string.from, string.to)) : undefined
    if (held === undefined) continue
    form += text.slice(done, string.from) + OPEN + plain(held, level + 1) + CLOSE
    done = string.to
  }
  return form + text.slice(done)
}

/** Puts the escapes back. */
function original(form: string): string {
  const open = ['']
  let done = 0
  for (const { 0: mark, index } of form.matchAll(/[\xfe\xff]/g)) {
    open[open.length - 1] += form.slice(done, index)
    done = index + 1
    if (mark === OPEN) open.push('')
    else open[open.length - 2] += JSON.stringify(open.pop())
  }
  return open[0] + form.slice(done)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: bytes begin with them
const isBytes = (text: string) => /^[\u0000-\u00ff]*$/.test(text)

/** Returns what a JSON string holds; undefined if JSON would not write it in that way. */
function unescaped(json: string): string | undefined {
  try {
    const held: unknown = JSON.parse(json)
    return typeof held === 'string' && isBytes(held) && JSON.stringify(held) === json ? held : undefined
  } catch {
    return undefined // it only looks like a string
  }
}

/** Finds what looks like strings in a text that may be JSON, one after the other. */
class JsonStrings {
  readonly #text: string
  #at = 0
  /** Places of the next quote and of the next backslash, from `#at` on. */
  #quote = -1
  #escape = -1

  constructor(text: string) {
    this.#text = text
  }

  next(): { from: number; to: number; hasEscapes: boolean } | undefined {
    const from = this.#nextQuote(this.#at)
    let hasEscapes = false
    for (let at = from + 1; at < this.#text.length; at = this.#escape + 2) {
      const quote = this.#nextQuote(at)
      if (quote >= this.#nextEscape(at)) {
        hasEscapes = true
        continue
      }
      this.#at = quote + 1
      return { from, to: quote + 1, hasEscapes }
    }
    return undefined
  }

  #nextQuote(at: number): number {
    if (this.#quote < at) this.#quote = placeOf(this.#text, '"', at)
    return this.#quote
  }

  #nextEscape(at: number): number {
    if (this.#escape < at) this.#escape = placeOf(this.#text, '\\', at)
    return this.#escape
  }
}

function placeOf(text: string, letter: string, at: number): number {
  const place = text.indexOf(letter, at)
  return place < 0 ? text.length : place
}
