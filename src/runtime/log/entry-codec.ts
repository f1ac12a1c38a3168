/**
 * Entries of the log as bytes, for a durable log: their encoder and their decoder. The layout is in entry-layout.ts.
 * A record is JSON in UTF-8, its errors as `errorData`. What an entry has in common with earlier ones of its run
 * is written as copies of these (copies.ts); a frame is an entry of its own then.
 */
import { type DramatisError, type ErrorData, errorData, errorFrom } from '../../errors.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { lengthOf } from '../../mailbox/frame.ts'
import { allocate, type Memory } from '../../mailbox/memory.ts'
import { storedForm } from '../../mailbox/stored-parts.ts'
import { type CopiedEntry, copiedBody, copiedFrom, copiedText } from './copied-entries.ts'
import { CopyFinder } from './copies.ts'
import {
  aligned,
  COPIES,
  DIFFERENCE,
  entrySpans,
  FRAMES,
  HEADER_BYTES,
  type Numbers,
  PART,
  RECORD,
  type Written,
} from './entry-layout.ts'
import { type PartRecord, partEntry, partFrom } from './part-entries.ts'
import { plainFrame, plainRecord, recordOf, writeFrameOf } from './plain-form.ts'
import { BEFORE_PROMPT, Prompts, type Shared } from './prompts.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from './records.ts'
import { LEAST_TEXT, Texts } from './texts.ts'

const SHARED_BYTES = 16

/** Writes the entries of one process: it knows the texts that were written before. */
export class EntryEncoder {
  readonly #finder = new CopyFinder()
  /** Frames that are made again, to compare them. */
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

  /** Cuts the frames where one is written as copies. */
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
  /** The frame up to its prompt. */
  readonly head: Uint8Array
  /** The prompt between prefix and suffix. */
  readonly between: Uint8Array
}

/** Record as it is written. */
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

const OF_LIFE = ['status', 'ready', 'exited', 'crashed', 'reloaded'].map((what) =>
  Buffer.from(`{"kind":"agent.${what}"`),
)

/** Checks for an encoded record about the log itself: that a process took it, or gave it free. */
export const isOfLog = (entry: Uint8Array): boolean => beginsWith(entry, OF_LOG)

const LETTER_GONE = Buffer.from('{"kind":"letter.gone"')

/** Checks for an encoded record that a dead letter was sent again or discarded. */
export const isLettersEnd = (entry: Uint8Array): boolean => beginsWith(entry, LETTER_GONE)

/** Checks for an encoded record of an agent's life. */
export const isOfLife = (entry: Uint8Array): boolean => OF_LIFE.some((text) => beginsWith(entry, text))

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
