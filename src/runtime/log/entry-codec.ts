/**
 * Entries of the log as bytes, for a durable log: their encoder and their decoder. The layout is in entry-layout.ts.
 * A record is JSON in UTF-8, its errors as `errorData`. A prompt that shares much with the one before it in its turn is
 * written as the difference (prompts.ts); its frame is an entry of its own then.
 */
import { type DramatisError, type ErrorData, errorData, errorFrom } from '../../errors.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { lengthOf } from '../../mailbox/frame.ts'
import { allocate, type Memory } from '../../mailbox/memory.ts'
import { storedForm } from '../../mailbox/stored-parts.ts'
import {
  aligned,
  DIFFERENCE,
  entrySpans,
  FRAMES,
  HEADER_BYTES,
  type Numbers,
  PART,
  RECORD,
  type Written,
} from './entry-layout.ts'
import { partEntry, partFrom } from './part-entries.ts'
import { BEFORE_PROMPT, Prompts, type Shared } from './prompts.ts'
import { type FrameBlock, type HostRecord, type LogEntry, SEQ_STEP } from './records.ts'

const SHARED_BYTES = 16

/** Writes the entries of one process: it knows the prompts that were written before. */
export class EntryEncoder {
  readonly #prompts = new Prompts()

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

  #record(record: HostRecord): Written {
    if (record.kind === 'part') return partEntry(record)
    this.#prompts.over(record)
    const { run, seq, at, ...fields } = record
    const body = Buffer.from(JSON.stringify(withErrorData(fields)))
    return { kind: RECORD, run, seq, at, frames: 0, body: [body], bytes: body.byteLength }
  }

  /** Cuts the frames where a prompt is written as a difference. */
  #frames({ memory, from, to, run, seq: first, at: time }: FrameBlock, all: Written[]): void {
    let begin = from
    let frames = 0
    let seq = first
    for (let at = from; at < to; at += lengthOf(memory, at), seq += SEQ_STEP) {
      const prompt = this.#prompts.see(memory, at, run, seq)
      if (!prompt?.shared) {
        frames += 1
        continue
      }
      if (frames > 0) all.push(wholeFrames(memory, begin, at, { run, seq: seq - frames * SEQ_STEP, at: time }, frames))
      const { text, shared } = prompt
      const between = text.subarray(shared.prefix, text.length - shared.suffix)
      const body = [encodedShare(shared), memory.u8.subarray(at, at + BEFORE_PROMPT), between]
      const bytes = SHARED_BYTES + BEFORE_PROMPT + between.byteLength
      all.push({ kind: DIFFERENCE, run, seq, at: time, frames: 1, body, bytes })
      begin = at + lengthOf(memory, at)
      frames = 0
    }
    if (frames > 0) all.push(wholeFrames(memory, begin, to, { run, seq: seq - frames * SEQ_STEP, at: time }, frames))
  }
}

function wholeFrames(memory: Memory, from: number, to: number, numbers: Numbers, frames: number): Written {
  return { kind: FRAMES, ...numbers, frames, body: [memory.u8.subarray(from, to)], bytes: to - from }
}

function encodedShare({ base, prefix, suffix }: Shared): Uint8Array {
  const bytes = Buffer.alloc(SHARED_BYTES)
  bytes.writeDoubleLE(base, 0)
  bytes.writeUInt32LE(prefix, 8)
  bytes.writeUInt32LE(suffix, 12)
  return bytes
}

/** Frame with a prompt as it is written: without what it shares with the one before. */
export interface FrameDifference extends Numbers, Shared {
  readonly kind: 'difference'
  /** The frame up to its prompt. */
  readonly head: Uint8Array
  /** The prompt between prefix and suffix. */
  readonly between: Uint8Array
}

/**
 * Reads what an encoder has written, without the runs that are not wanted. Frames get memory of their own. Throws
 * `RangeError` for anything else: a store has checked the bytes before.
 */
export function* decodeEntries(
  bytes: Uint8Array,
  isWanted: (run: number) => boolean = () => true,
): Generator<LogEntry | FrameDifference> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at < view.length; ) {
    const kind = view.readUInt32LE(at)
    const body = at + HEADER_BYTES
    const end = body + view.readUInt32LE(at + 4)
    if (end > view.length) throw new RangeError(`the entry at byte ${at} ends behind the last of ${view.length} bytes`)
    const numbers = { run: view.readUInt32LE(at + 8), seq: view.readDoubleLE(at + 16), at: view.readDoubleLE(at + 24) }
    const content = view.subarray(body, end)
    if (kind < FRAMES || kind > PART)
      throw new RangeError(`the entry at byte ${at} is of kind ${kind}; known are ${FRAMES} to ${PART}`)
    if (isWanted(numbers.run))
      if (kind === FRAMES) yield framesFrom(content, view.readUInt32LE(at + 12), numbers)
      else if (kind === PART) yield partFrom(content, numbers)
      else yield kind === RECORD ? recordFrom(content, numbers) : differenceFrom(content, numbers)
    at = body + aligned(end - body)
  }
}

/** Makes whole frames of differences. It has to see all entries of a run, in the order of their numbers. */
export class EntryDecoder {
  readonly #prompts = new Prompts()

  /** Returns the entry; undefined for a difference to a prompt that was not among the entries before. */
  whole(entry: LogEntry | FrameDifference): LogEntry | undefined {
    if (entry.kind === 'difference') return this.#whole(entry)
    if (entry.kind === 'frames') this.#see(entry)
    else this.#prompts.over(entry)
    return entry
  }

  #see({ memory, from, to, run, seq }: FrameBlock): void {
    for (let at = from, n = 0; at < to; at += lengthOf(memory, at), n++)
      this.#prompts.see(memory, at, run, seq + n * SEQ_STEP)
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
    this.#see(block)
    return block
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
    if (kind < FRAMES || kind > PART || !isExpected) return undefined
    runs.add(view.readUInt32LE(at + 8))
    next = seq + (kind === RECORD || kind === PART ? 1 : view.readUInt32LE(at + 12)) * SEQ_STEP
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

function framesFrom(content: Uint8Array, count: number, numbers: Numbers): LogEntry {
  const memory = allocate(content.byteLength)
  memory.u8.set(content)
  return { kind: 'frames', ...numbers, memory, from: 0, to: content.byteLength, count }
}

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

function recordFrom(content: Buffer, numbers: Numbers): LogEntry {
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
