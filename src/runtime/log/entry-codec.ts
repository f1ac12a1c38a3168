/**
 * Entries of the log as bytes, for a durable log: their layout, encoder and decoder.
 * A record is JSON in UTF-8, its errors as `errorData`. What an entry has in common with earlier ones of its run
 * is written as copies of these (copies.ts); a frame is an entry of its own then.
 */

import type { Verb } from '../../actors/definition/role.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import {
  allocate,
  CALL,
  dataAfter,
  dataPlace,
  END,
  kindOf,
  lengthOf,
  type Memory,
  senderOf,
  type TextPlace,
  turnOf,
} from '../../mailbox/frame.ts'
import { storedForm } from '../../mailbox/stored-parts.ts'
import { type DramatisError, type ErrorData, errorData, errorFrom } from '../../shared/errors.ts'
import { CopyFinder } from './copies.ts'
import { type FrameBlock, type HostRecord, type LogEntry, type RecordOf, SEQ_STEP } from './records.ts'
import {
  LEAST_TEXT,
  type Piece,
  type PutText,
  plainFrame,
  plainRecord,
  recordOf,
  Texts,
  writeFrameOf,
} from './texts.ts'

/*
 * Layout of the entries of a durable log. Frames are written as they are in memory: their layout (frame.ts) is part of
 * the format.
 *
 *     entry   kind u32 (1 frames, 2 record, 3 difference, 4 part, 5 copies) | body u32 (bytes) | run u32 | frames u32 |
 *             seq f64 | at f64 | body; zeros up to a multiple of 8
 *     difference, the body   seq of the frame before f64 | prefix u32 | suffix u32 (bytes that both prompts have) |
 *             the frame up to its prompt | what stands between prefix and suffix
 *     copies, the body       bytes of the frame or record when it is written whole u32 | bytes of the pieces u32 |
 *             the other run that it has copies of u32, or 0 | zeros u32 | the pieces | their own bytes. `frames` is 1
 *             for a frame, 0 for a record
 *     piece   numbers of 7 bits a byte, the lowest first: length * 2; or length * 2 + 1, the numbers between the entry
 *             and that which it is a copy of, and the place in the text of that
 *     part, the body         SHA-256 of the bytes, 32 bytes | the bytes
 */

const HEADER_BYTES = 32
const FRAMES = 1
const RECORD = 2
const DIFFERENCE = 3
const PART = 4
const COPIES = 5
const ALIGNMENT = 8

export type Numbers = Pick<LogEntry, 'run' | 'seq' | 'at'>

/** Entry as it is written: `bytes` are those of its body. */
export interface Written extends Numbers {
  readonly kind: number
  readonly frames: number
  readonly body: readonly Uint8Array[]
  readonly bytes: number
}

/** Place of an encoded entry among the bytes of a block, and the numbers that its header has. */
export interface EntrySpan {
  readonly run: number
  readonly seq: number
  /** Epoch ms. */
  readonly at: number
  readonly from: number
  readonly to: number
}

/** Finds the entries in what an encoder has written, without decoding them. */
export function* entrySpans(bytes: Uint8Array): Generator<EntrySpan> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let from = 0; from < view.length; ) {
    const to = from + HEADER_BYTES + aligned(view.readUInt32LE(from + 4))
    yield {
      run: view.readUInt32LE(from + 8),
      seq: view.readDoubleLE(from + 16),
      at: view.readDoubleLE(from + 24),
      from,
      to,
    }
    from = to
  }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}

const HEAD_BYTES = 16

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

function copiedBody({ seq, run, entryBytes, origin }: PutText): Uint8Array[] {
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

function copiedFrom(content: Buffer, isFrame: boolean, numbers: Numbers): CopiedEntry {
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
function copiedText({ seq, run, pieces, entryBytes }: CopiedEntry, texts: Texts): PutText | undefined {
  const origin: Piece[] = []
  const text: PutText = { seq, run, entryBytes, origin }
  for (const { source, ...piece } of pieces) {
    const from = typeof source === 'number' && source !== seq ? texts.get(source) : text
    if (!from) return undefined
    origin.push({ ...piece, source: source instanceof Uint8Array ? source : from })
  }
  return text
}

const HASH_BYTES = 32

export type PartRecord = RecordOf<'part'>

function partEntry({ hash, bytes = new Uint8Array(), run, seq, at }: PartRecord): Written {
  const body = [Buffer.from(hash, 'hex'), bytes]
  return { kind: PART, run, seq, at, frames: 0, body, bytes: HASH_BYTES + bytes.byteLength }
}

/** Part among encoded entries. */
export interface PartEntry {
  readonly hash: string
  readonly seq: number
  readonly size: number
}

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

const partFrom = (content: Buffer, numbers: Numbers): PartRecord => ({
  kind: 'part',
  hash: content.toString('hex', 0, HASH_BYTES),
  size: content.byteLength - HASH_BYTES,
  ...numbers,
})

/*
 * Prompts of the turns that are open in a log. Up to format 3, a log has a later prompt of a turn as the difference to
 * the one before it.
 */

const VERB: Verb = 'model'

/** Bytes of a frame with a prompt that stand before the prompt. */
const BEFORE_PROMPT = dataAfter(VERB)

interface Prompt {
  readonly run: number
  readonly seq: number
  readonly memory: Memory
  readonly place: TextPlace
}

/** Bytes that a prompt has in common with the one before it: at its begin, and at its end. */
export interface Shared {
  /** Number of the frame with the earlier prompt. */
  readonly base: number
  readonly prefix: number
  readonly suffix: number
}

class Prompts {
  readonly #byTurn = new Map<number, Prompt>()

  see(memory: Memory, at: number, run: number, seq: number): void {
    const kind = kindOf(memory, at)
    if (kind === END && this.#byTurn.size > 0) this.#byTurn.delete(keyOf(memory, at))
    const place = kind === CALL ? dataPlace(memory, at, VERB) : undefined
    if (place) this.#byTurn.set(keyOf(memory, at), { run, seq, memory, place })
  }

  /** Reads a record: a run that is over has no turns any more, however they ended. */
  over({ kind, run }: LogEntry): void {
    if (kind === 'run.finished')
      for (const [key, prompt] of this.#byTurn) if (prompt.run === run) this.#byTurn.delete(key)
  }

  /** Returns the text of the last prompt of the turn that a frame belongs to, if that prompt has the number `seq`. */
  of(memory: Memory, at: number, seq: number): Uint8Array | undefined {
    const prompt = this.#byTurn.get(keyOf(memory, at))
    return prompt?.seq === seq ? textOf(prompt) : undefined
  }
}

/** Indices of agents have 16 bits, numbers of turns 31. */
const keyOf = (memory: Memory, at: number): number => senderOf(memory, at) * 2 ** 32 + turnOf(memory, at)

const textOf = ({ memory, place }: Prompt): Uint8Array => memory.u8.subarray(place.from, place.to)

const SHARED_BYTES = 16

/** Writes the entries of one process: it knows the texts that were written before. */
export class EntryEncoder {
  readonly #finder = new CopyFinder()
  #scratch = allocate(LEAST_TEXT)

  /** Writes the entries one after the other. `room` gives a buffer with at least so many bytes. */
  encode(entries: readonly LogEntry[], room: (bytes: number) => Buffer = Buffer.allocUnsafeSlow): Uint8Array {
    const all: Written[] = []
    for (const entry of entries)
      if (entry.kind === 'frames') this.#frames(entry, all)
      else all.push(this.#record(entry))
    let length = 0
    for (const { bytes } of all) length += HEADER_BYTES + aligned(bytes)
    const encoded = room(length)
    let at = 0
    for (const { kind, run, frames, seq, at: time, body, bytes } of all) {
      encoded.writeUInt32LE(kind, at)
      encoded.writeUInt32LE(bytes, at + 4)
      encoded.writeUInt32LE(run, at + 8)
      encoded.writeUInt32LE(frames, at + 12)
      encoded.writeDoubleLE(seq, at + 16)
      encoded.writeDoubleLE(time, at + 24)
      at += HEADER_BYTES
      let place = at
      for (const part of body) {
        encoded.set(part, place)
        place += part.byteLength
      }
      at += aligned(bytes)
      encoded.fill(0, place, at)
    }
    return encoded.subarray(0, length)
  }

  /** Lets no later entry have copies of what these runs have said, which are over; or no run that is over. */
  silence(runs?: Iterable<number>): void {
    const { texts } = this.#finder
    if (runs) for (const run of runs) texts.silence(run)
    else texts.silenceLast()
  }

  #record(record: HostRecord): Written {
    if (record.kind === 'part') return partEntry(record)
    const { run, seq, at, ...fields } = record
    const body = Buffer.from(JSON.stringify(withErrorData(fields)))
    const isText = run !== 0 && body.byteLength >= LEAST_TEXT
    const copied =
      isText && this.#copied(record, 0, body.byteLength, plainRecord(body), (form) => recordOf(form).equals(body))
    this.#finder.texts.see(record)
    return copied || { kind: RECORD, run, seq, at, frames: 0, body: [body], bytes: body.byteLength }
  }

  #frames(block: FrameBlock, all: Written[]): void {
    const { memory, from, to, run, at: time } = block
    let begin = from
    let frames = 0
    let { seq } = block
    const writeWhole = (end: number) => {
      const body = memory.u8.subarray(begin, end)
      const first = seq - frames * SEQ_STEP
      if (frames > 0) all.push({ kind: FRAMES, run, seq: first, at: time, frames, body: [body], bytes: end - begin })
    }
    for (let at = from; at < to; at += lengthOf(memory, at), seq += SEQ_STEP) {
      const copied = run !== 0 && this.#copiedFrame({ run, seq, at: time }, memory, at)
      if (!copied) {
        frames += 1
        continue
      }
      writeWhole(at)
      all.push(copied)
      begin = at + lengthOf(memory, at)
      frames = 0
    }
    writeWhole(to)
  }

  #copiedFrame(numbers: Numbers, memory: Memory, at: number): Written | undefined {
    const bytes = lengthOf(memory, at)
    if (bytes < LEAST_TEXT) return undefined
    return this.#copied(numbers, 1, bytes, plainFrame(memory, at), (form) => {
      if (this.#scratch.u8.length < bytes) this.#scratch = allocate(bytes * 2)
      this.#scratch.u8.fill(0, 0, bytes)
      writeFrameOf(form, this.#scratch)
      return memory.text.compare(this.#scratch.u8, 0, bytes, at, at + bytes) === 0
    })
  }

  /** Returns an entry as copies of earlier ones, if that is smaller, and gives the entry back as it is. */
  #copied(
    { run, seq, at }: Numbers,
    frames: number,
    entryBytes: number,
    form: Buffer,
    isSame: (form: Buffer) => boolean,
  ): Written | undefined {
    const text = this.#finder.add({ run, seq, entryBytes }, form)
    const body = copiedBody(text)
    const bytes = body.reduce((sum, { byteLength }) => sum + byteLength, 0)
    if (bytes >= entryBytes || !isSame(form)) return undefined
    return { kind: COPIES, run, seq, at, frames, body, bytes }
  }
}

/** Frame with a prompt as earlier versions have written it: without what it shares with the one before. */
export interface FrameDifference extends Numbers, Shared {
  readonly kind: 'difference'
  readonly head: Uint8Array
  readonly between: Uint8Array
}

interface WrittenRecord extends Numbers {
  readonly kind: 'record'
  readonly json: Buffer
}

/** Entry as it stands in a log: it may need others before it to be whole. */
export type WrittenEntry = FrameBlock | PartRecord | WrittenRecord | FrameDifference | CopiedEntry

/**
 * Reads what an encoder has written, without the runs that are not wanted. Frames get memory of their own; with
 * `together` all share one copy of the bytes, which is faster and stays as long as any of them. Throws `RangeError` for
 * anything else: a store has checked the bytes before.
 */
export function* decodeEntries(
  bytes: Uint8Array,
  isWanted: (run: number) => boolean = () => true,
  together = false,
): Generator<WrittenEntry> {
  const memory = together ? copyOf(bytes) : undefined
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at < view.length; ) {
    const kind = view.readUInt32LE(at)
    const body = at + HEADER_BYTES
    const end = body + view.readUInt32LE(at + 4)
    if (end > view.length) throw new RangeError(`the entry at byte ${at} ends behind the last of ${view.length} bytes`)
    const numbers = { run: view.readUInt32LE(at + 8), seq: view.readDoubleLE(at + 16), at: view.readDoubleLE(at + 24) }
    const content = view.subarray(body, end)
    const frames = view.readUInt32LE(at + 12)
    if (isWanted(numbers.run))
      if (kind === FRAMES && memory) yield framesIn(memory, body, end, frames, numbers)
      else yield entryFrom(kind, content, frames, numbers)
    at = body + aligned(end - body)
  }
}

function entryFrom(kind: number, content: Buffer, frames: number, numbers: Numbers): WrittenEntry {
  switch (kind) {
    case FRAMES:
      return framesIn(copyOf(content), 0, content.byteLength, frames, numbers)
    case RECORD:
      return { kind: 'record', ...numbers, json: Buffer.from(content) }
    case DIFFERENCE:
      return differenceFrom(content, numbers)
    case PART:
      return partFrom(content, numbers)
    case COPIES:
      return copiedFrom(content, frames > 0, numbers)
    default:
      throw new RangeError(`entry ${numbers.seq} is of kind ${kind}; known are ${FRAMES} to ${COPIES}`)
  }
}

/** Makes entries whole. It has to see all entries of a run, in the order of their numbers. */
export class EntryDecoder {
  readonly #prompts = new Prompts()
  readonly #texts = new Texts()

  /** Returns the entry; undefined if it goes on from one that was not among the entries before. */
  whole(entry: WrittenEntry): LogEntry | undefined {
    switch (entry.kind) {
      case 'copies':
        return this.#copied(entry)
      case 'difference':
        return this.#whole(entry)
      case 'frames':
        return this.#seeFrames(entry)
      case 'record':
        return this.#record(entry)
      default:
        return entry
    }
  }

  #record({ json, run, seq, at }: WrittenRecord): LogEntry {
    if (run !== 0 && json.byteLength >= LEAST_TEXT)
      this.#texts.add({ run, seq, entryBytes: json.byteLength, origin: () => plainRecord(json) })
    return this.#parsed(json, { run, seq, at })
  }

  #parsed(json: Buffer, numbers: Numbers): HostRecord {
    const record = recordFrom(json, numbers)
    this.#prompts.over(record)
    this.#texts.see(record)
    return record
  }

  #seeFrames(block: FrameBlock): FrameBlock {
    const { memory, from, to, run } = block
    let { seq } = block
    for (let at = from; at < to; at += lengthOf(memory, at), seq += SEQ_STEP) {
      this.#prompts.see(memory, at, run, seq)
      const entryBytes = lengthOf(memory, at)
      if (run !== 0 && entryBytes >= LEAST_TEXT)
        this.#texts.add({ run, seq, entryBytes, origin: () => plainFrame(memory, at) })
    }
    return block
  }

  #copied(entry: CopiedEntry): LogEntry | undefined {
    const text = copiedText(entry, this.#texts)
    if (!text) return undefined
    const { run, seq, at, entryBytes, isFrame } = entry
    const form = this.#texts.put(text.origin)
    this.#texts.add(text)
    this.#texts.keepAtHand(text, form)
    if (!isFrame) return this.#parsed(recordOf(form), { run, seq, at })
    const memory = allocate(entryBytes)
    memory.u8.fill(0)
    writeFrameOf(form, memory)
    this.#prompts.see(memory, 0, run, seq)
    return { kind: 'frames', run, seq, at, memory, from: 0, to: entryBytes, count: 1 }
  }

  #whole({ run, seq, at, base, prefix, suffix, head, between }: FrameDifference): LogEntry | undefined {
    const header = allocate(head.byteLength)
    header.u8.set(head)
    const before = this.#prompts.of(header, 0, base)
    if (!before) return undefined
    const bytes = lengthOf(header, 0)
    const memory = allocate(bytes)
    const { u8 } = memory
    u8.set(head)
    u8.set(before.subarray(0, prefix), head.byteLength)
    u8.set(between, head.byteLength + prefix)
    const end = head.byteLength + prefix + between.byteLength
    u8.set(before.subarray(before.byteLength - suffix), end)
    u8.fill(0, end + suffix, bytes)
    const block: FrameBlock = { kind: 'frames', run, seq, at, memory, from: 0, to: bytes, count: 1 }
    return this.#seeFrames(block)
  }
}

/**
 * Returns the runs of encoded entries that may be damaged; undefined if they are not entries, one after the other, with
 * these numbers. Carried ones may lack some, and stand in any order.
 */
export function runsIn(
  bytes: Uint8Array,
  firstSeq: number,
  lastSeq: number,
  carried: boolean,
): Set<number> | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const runs = new Set<number>()
  let next = firstSeq
  for (let at = 0; at < view.length; ) {
    if (at + HEADER_BYTES > view.length) return undefined
    const kind = view.readUInt32LE(at)
    const seq = view.readDoubleLE(at + 16)
    const isExpected = carried ? seq >= firstSeq && seq <= lastSeq : seq === next
    if (kind < FRAMES || kind > COPIES || !isExpected) return undefined
    runs.add(view.readUInt32LE(at + 8))
    next = seq + Math.max(1, view.readUInt32LE(at + 12)) * SEQ_STEP
    at += HEADER_BYTES + aligned(view.readUInt32LE(at + 4))
    if (at > view.length) return undefined
  }
  return carried || next === lastSeq + 1 ? runs : undefined
}

const OF_LOG = Buffer.from('{"kind":"log.')

const OF_INCARNATION = ['status', 'ready', 'exited', 'crashed', 'reloaded'].map((what) =>
  Buffer.from(`{"kind":"agent.${what}"`),
)

/** Checks for an encoded record about the log itself: that a process took it, or gave it free. */
export const isOfLog = (entry: Uint8Array): boolean => beginsWith(entry, OF_LOG)

const LETTER_GONE = Buffer.from('{"kind":"letter.gone"')

/** Checks for an encoded record that a dead letter was sent again or discarded. */
export const isLettersEnd = (entry: Uint8Array): boolean => beginsWith(entry, LETTER_GONE)

/** Checks for an encoded record of an agent's life. */
export const isOfIncarnation = (entry: Uint8Array): boolean => OF_INCARNATION.some((text) => beginsWith(entry, text))

const beginsWith = (entry: Uint8Array, text: Buffer): boolean =>
  text.equals(entry.subarray(HEADER_BYTES, HEADER_BYTES + text.byteLength))

/** Bytes that each run has among encoded entries. Entries without a run are under 0. */
export function bytesByRun(bytes: Uint8Array): Map<number, number> {
  const sizes = new Map<number, number>()
  for (const { run, from, to } of entrySpans(bytes)) sizes.set(run, (sizes.get(run) ?? 0) + to - from)
  return sizes
}

function copyOf(bytes: Uint8Array): Memory {
  const memory = allocate(bytes.byteLength)
  memory.u8.set(bytes)
  return memory
}

const framesIn = (memory: Memory, from: number, to: number, count: number, numbers: Numbers): FrameBlock => ({
  kind: 'frames',
  ...numbers,
  memory,
  from,
  to,
  count,
})

function differenceFrom(content: Buffer, numbers: Numbers): FrameDifference {
  const between = SHARED_BYTES + BEFORE_PROMPT
  return {
    kind: 'difference',
    ...numbers,
    base: content.readDoubleLE(0),
    prefix: content.readUInt32LE(8),
    suffix: content.readUInt32LE(12),
    head: content.subarray(SHARED_BYTES, between),
    between: content.subarray(between),
  }
}

function recordFrom(content: Buffer, numbers: Numbers): HostRecord {
  const fields: WrittenFields = JSON.parse(content.toString('utf8'))
  return Object.assign(withErrors(fields), numbers) as HostRecord
}

/** The fields of a record that need more than JSON. */
interface RecordFields {
  kind: HostRecord['kind']
  error?: DramatisError | null
  letter?: Pick<DeadLetter, 'message'> & { errors: DramatisError[] }
}

/** The same as JSON has them. */
interface WrittenFields {
  error?: ErrorData | null
  letter?: { errors: ErrorData[] }
}

/** Replaces the errors of a record by data: with the stack of the cause, and without what is made from the rest. */
function withErrorData(fields: RecordFields): object {
  const { error, letter } = fields
  return {
    ...fields,
    ...(error && { error: errorData(error) }),
    ...(letter && { letter: { ...letter, ...withReferences(letter), errors: letter.errors.map(errorData) } }),
  }
}

/** Returns the message of a letter with references in place of the bytes of its stored parts. */
function withReferences({ message }: Pick<DeadLetter, 'message'>): Pick<DeadLetter, 'message'> {
  const { parts } = message
  return { message: parts ? { ...message, parts: parts.map((part) => storedForm(part) ?? part) } : message }
}

function withErrors(fields: WrittenFields): object {
  const { error, letter } = fields
  return {
    ...fields,
    ...(error && { error: errorFrom(error) }),
    ...(letter && { letter: { ...letter, errors: letter.errors.map(errorFrom) } }),
  }
}
