/**
 * Texts that a log has: the plain forms of its large entries. Later entries of a run are written as
 * copies of pieces of them, and those of the next run in its thread, which begins with what was said in this one. Who
 * writes and who reads see the same entries in the same order, and keep the same texts.
 */
import { isAscii } from 'node:buffer'
import { HEADER, type Memory, stringsOf, type WrittenString, writeStrings } from '../../mailbox/frame.ts'
import type { HostRecord, RecordOf } from './records.ts'

/*
 * Plain form of an entry: what was said in it looks the same as in other entries, whichever way each of them writes
 * texts. Frames have them as latin1 or UTF-16, records as JSON in UTF-8, prompts as JSON within a frame. The plain form
 * has UTF-8, and JSON strings without their escapes. It uses bytes that no UTF-8 has: a string that had escapes stands
 * between 0xFE and 0xFF, and each string of a frame ends with 0xFD.
 */

const OPEN = '\xfe'
const CLOSE = '\xff'
const END_OF_STRING = 0xfd
const BACKSLASH = 0x5c

/** Levels to which strings with JSON in them are looked into. */
const MOST_LEVELS = 4

export const plainRecord = (json: Buffer): Buffer => asBytes(plain(asLetters(json)))

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

/** Bytes of an entry from which on it is a text. */
export const LEAST_TEXT = 384

/** Bytes of entries that are kept as texts, of runs under way, and as many of the last runs of threads. */
export const MOST_BYTES = 2 ** 26
/** Bytes of entries that are kept as texts, of runs without an end. */
const MOST_OF_ENDLESS = 2 ** 24
/** Bytes of the entries of a run up to which it is kept, when it is over, for the next one in its thread. */
const MOST_OF_LAST = 2 ** 24
/** Bytes of texts that are at hand. Others are put together again when they are asked for. */
const MOST_AT_HAND = 2 ** 25

/** Piece of a text: `length` bytes from byte `at` on, which stand in `source` from `from` on. */
export interface Piece {
  readonly at: number
  readonly length: number
  readonly source: Text | Uint8Array
  readonly from: number
}

export interface Text {
  /** Number and run of its entry, and the bytes of that when it is written whole. */
  readonly seq: number
  readonly run: number
  readonly entryBytes: number
  /** Pieces that it is put together from, in their order, or a function that makes it anew. */
  readonly origin: readonly Piece[] | (() => Buffer)
}

export type PutText = Text & { readonly origin: readonly Piece[] }

/** Run under way, or the last one of its thread. `bytes`: of all entries that were texts, also of those given up. */
interface OfRun {
  readonly threadId: string | undefined
  readonly before: number | undefined
  bytes: number
}

export class Texts {
  /** Texts by their numbers, the oldest first. */
  readonly #kept = new Map<number, Text>()
  /** Those to drop next. It goes on where it was: a new one would pass over all that a map has forgotten. */
  #byAge = this.#kept.values()
  readonly #ofRuns = new Map<number, Set<Text>>()
  /** Runs whose launch was seen, until they have ended; those that are the last of their thread stay. */
  readonly #runs = new Map<number, OfRun>()
  /** Last run that has ended in each thread, the first to end is first. */
  readonly #lastIn = new Map<string, number>()
  /** Texts of runs that have no end, or that began before: by their numbers, the oldest first. */
  readonly #endless = new Map<number, Text>()
  /** Runs that are over and that no later text may have copies of. */
  readonly #silent = new Set<number>()
  /** Bytes of the entries of runs under way, of the last runs of threads, and of endless ones. */
  #bytes = 0
  #bytesOfLast = 0
  #bytesOfEndless = 0
  /** Texts that are at hand, the one that was asked for first is first. */
  readonly #atHand = new Map<Text, Buffer>()
  #bytesAtHand = 0
  readonly #most: number
  readonly #over: (run: number) => void

  /**
   * `most`: bytes that are kept of runs under way. Who reads keeps all of them. `over`: called when a run has no texts
   * any more.
   */
  constructor(most = Number.POSITIVE_INFINITY, over: (run: number) => void = () => {}) {
    this.#most = most
    this.#over = over
  }

  add(text: Text): void {
    this.#kept.set(text.seq, text)
    const ofRun = this.#ofRuns.get(text.run)
    if (ofRun) ofRun.add(text)
    else this.#ofRuns.set(text.run, new Set([text]))
    const run = this.#runs.get(text.run)
    if (run) this.#count(text, run)
    else {
      this.#endless.set(text.seq, text)
      this.#bytesOfEndless += text.entryBytes
      for (const first of this.#endless.values()) if (this.#bytesOfEndless > MOST_OF_ENDLESS) this.#drop(first)
    }
  }

  #count(text: Text, run: OfRun): void {
    run.bytes += text.entryBytes
    if (this.#isLast(text.run)) this.#bytesOfLast += text.entryBytes
    else this.#bytes += text.entryBytes
    while (this.#bytes > this.#most) {
      const { value: oldest } = this.#byAge.next()
      if (!oldest) {
        this.#byAge = this.#kept.values()
        return
      }
      if (!this.#endless.has(oldest.seq) && !this.#isLast(oldest.run)) this.#drop(oldest)
    }
  }

  #isLast(run: number): boolean {
    const threadId = this.#runs.get(run)?.threadId
    return threadId !== undefined && this.#lastIn.get(threadId) === run
  }

  get(seq: number): Text | undefined {
    return this.#kept.get(seq)
  }

  /**
   * Reads a record. Each process begins without texts; those of a run that is over are kept for the next one of its
   * thread alone.
   */
  see(record: HostRecord): void {
    if (record.kind === 'log.opened')
      for (const run of [...this.#runs.keys(), ...this.#ofRuns.keys()]) this.#forget(run)
    else if (record.kind === 'run.launched') this.#launched(record)
    else if (record.kind === 'run.finished') this.#ended(record.run)
    else if (record.kind === 'runs.gone') for (const run of record.runs) this.#forget(run)
  }

  #launched({ run: index, threadId, own }: RecordOf<'run.launched'>): void {
    if (own || this.#runs.has(index)) return // the work of a message has no end
    const run = { threadId, before: threadId === undefined ? undefined : this.#lastIn.get(threadId), bytes: 0 }
    this.#runs.set(index, run)
    for (const text of this.#ofRuns.get(index) ?? []) {
      this.#endless.delete(text.seq) // the record of the launch is a text itself
      this.#bytesOfEndless -= text.entryBytes
      this.#count(text, run)
    }
  }

  #ended(index: number): void {
    const run = this.#runs.get(index)
    const { threadId } = run ?? {}
    if (!run || threadId === undefined || run.bytes === 0 || run.bytes > MOST_OF_LAST) return this.#forget(index)
    for (const text of this.#ofRuns.get(index) ?? []) this.#bytes -= text.entryBytes
    const last = this.#lastIn.get(threadId)
    if (last !== undefined) this.#forget(last)
    this.#lastIn.set(threadId, index)
    this.#bytesOfLast += run.bytes
    for (const first of this.#lastIn.values()) if (this.#bytesOfLast > MOST_BYTES) this.#forget(first)
  }

  /** Returns the run before a run in its thread, if later texts may have copies of what it said. */
  before(run: number): number | undefined {
    const before = this.#runs.get(run)?.before
    return before !== undefined && this.#ofRuns.has(before) && !this.#silent.has(before) ? before : undefined
  }

  /** Lets no later text have copies of what a run has said that is over. It is counted on, as who reads counts it. */
  silence(run: number): void {
    if (this.#isLast(run)) this.#silent.add(run)
  }

  silenceLast(): void {
    for (const run of this.#lastIn.values()) this.silence(run)
  }

  #forget(index: number): void {
    for (const text of this.#ofRuns.get(index) ?? []) this.#drop(text)
    const run = this.#runs.get(index)
    if (run?.threadId !== undefined && this.#isLast(index)) {
      this.#bytesOfLast -= run.bytes
      this.#lastIn.delete(run.threadId)
    }
    this.#runs.delete(index)
    this.#silent.delete(index)
  }

  #drop(text: Text): void {
    this.#kept.delete(text.seq)
    if (this.#endless.delete(text.seq)) this.#bytesOfEndless -= text.entryBytes
    else if (!this.#isLast(text.run)) this.#bytes -= text.entryBytes
    this.#putAway(text)
    const ofRun = this.#ofRuns.get(text.run)
    ofRun?.delete(text)
    if (ofRun?.size !== 0) return
    this.#ofRuns.delete(text.run)
    this.#over(text.run)
  }

  bytesOf(text: Text): Buffer {
    const known = this.#atHand.get(text)
    if (known) return known
    const bytes = typeof text.origin === 'function' ? text.origin() : this.put(text.origin)
    this.keepAtHand(text, bytes)
    return bytes
  }

  keepAtHand(text: Text, bytes: Buffer): void {
    this.#atHand.set(text, bytes)
    this.#bytesAtHand += bytes.length
    for (const first of this.#atHand.keys()) {
      if (this.#bytesAtHand <= MOST_AT_HAND) break
      if (first !== text) this.#putAway(first)
    }
  }

  #putAway(text: Text): void {
    this.#bytesAtHand -= this.#atHand.get(text)?.length ?? 0
    this.#atHand.delete(text)
  }

  /**
   * Puts pieces together. Those of other texts may be copies in turn, and so on: as deep as their run is
   * long.
   */
  put(pieces: readonly Piece[]): Buffer {
    const last = pieces.at(-1)
    const bytes = Buffer.allocUnsafeSlow(last ? last.at + last.length : 0)
    const left: Piece[] = [...pieces]
    for (let piece = left.pop(); piece; piece = left.pop()) {
      const { at, length, source, from } = piece
      if (source instanceof Uint8Array) bytes.set(source.subarray(from, from + length), at)
      else if (typeof source.origin === 'function' || this.#atHand.has(source))
        bytes.set(this.bytesOf(source).subarray(from, from + length), at)
      else for (const part of partsOf(source.origin, from, length, at)) left.push(part)
    }
    return bytes
  }
}

/** Yields what pieces have from byte `from` on, as pieces that stand from byte `to` on. */
function* partsOf(pieces: readonly Piece[], from: number, length: number, to: number): Generator<Piece> {
  for (let n = pieceAt(pieces, from); n < pieces.length; n++) {
    const piece = pieces[n]!
    if (piece.at >= from + length) return
    const skipped = Math.max(0, from - piece.at)
    const end = Math.min(piece.at + piece.length, from + length)
    const at = piece.at + skipped
    yield { at: to + at - from, length: end - at, source: piece.source, from: piece.from + skipped }
  }
}

function pieceAt(pieces: readonly Piece[], byte: number): number {
  let low = 0
  let high = pieces.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (pieces[middle]!.at <= byte) low = middle
    else high = middle - 1
  }
  return low
}
