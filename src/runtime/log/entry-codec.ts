/**
 * Entries of the log as bytes, for a durable log. Frames are written as they are in memory: their layout (frame.ts) is
 * part of the format. A record is JSON in UTF-8, its errors as `errorData`.
 *
 *     entry   kind u32 (1 frames, 2 record) | body u32 (bytes) | run u32 | frames u32 | seq f64 | at f64
 *             body; zeros up to a multiple of 8
 */
import { type DramatisError, type ErrorData, errorData, errorFrom } from '../../errors.ts'
import { allocate } from '../../mailbox/memory.ts'
import type { HostRecord, LogEntry } from './records.ts'

const HEADER_BYTES = 32
const FRAMES = 1
const RECORD = 2
const ALIGNMENT = 8

/** Writes the entries one after the other. */
export function encodeEntries(entries: readonly LogEntry[]): Uint8Array {
  const bodies = entries.map(bodyOf)
  const bytes = Buffer.alloc(bodies.reduce((sum, body) => sum + HEADER_BYTES + aligned(body.byteLength), 0))
  let at = 0
  for (const [index, entry] of entries.entries()) {
    const body = bodies[index]!
    const isFrames = entry.kind === 'frames'
    bytes.writeUInt32LE(isFrames ? FRAMES : RECORD, at)
    bytes.writeUInt32LE(body.byteLength, at + 4)
    bytes.writeUInt32LE(entry.run, at + 8)
    bytes.writeUInt32LE(isFrames ? entry.count : 0, at + 12)
    bytes.writeDoubleLE(entry.seq, at + 16)
    bytes.writeDoubleLE(entry.at, at + 24)
    bytes.set(body, at + HEADER_BYTES)
    at += HEADER_BYTES + aligned(body.byteLength)
  }
  return bytes
}

/**
 * Reads what `encodeEntries` has written. Frames get memory of their own. Throws `RangeError` for anything else: a
 * store has checked the bytes before.
 */
export function* decodeEntries(bytes: Uint8Array): Generator<LogEntry> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at < view.length; ) {
    const kind = view.readUInt32LE(at)
    const body = at + HEADER_BYTES
    const end = body + view.readUInt32LE(at + 4)
    if (end > view.length) throw new RangeError(`the entry at byte ${at} ends behind the last of ${view.length} bytes`)
    const fields = { run: view.readUInt32LE(at + 8), seq: view.readDoubleLE(at + 16), at: view.readDoubleLE(at + 24) }
    const content = view.subarray(body, end)
    if (kind === FRAMES) yield framesFrom(content, view.readUInt32LE(at + 12), fields)
    else if (kind === RECORD) yield recordFrom(content, fields)
    else throw new RangeError(`the entry at byte ${at} is of kind ${kind}; known are ${FRAMES} and ${RECORD}`)
    at = body + aligned(end - body)
  }
}

/** Place of an encoded entry among the bytes of a block, and the numbers that its header has. */
export interface EntrySpan {
  readonly run: number
  readonly seq: number
  readonly from: number
  readonly to: number
}

/** Finds the entries in what `encodeEntries` has written, without decoding them. */
export function* entrySpans(bytes: Uint8Array): Generator<EntrySpan> {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let from = 0; from < view.length; ) {
    const to = from + HEADER_BYTES + aligned(view.readUInt32LE(from + 4))
    yield { run: view.readUInt32LE(from + 8), seq: view.readDoubleLE(from + 16), from, to }
    from = to
  }
}

const OF_LOG = Buffer.from('{"kind":"log.')

/** Checks for a record about the log itself: that a process took it, or gave it free. */
export function isOfLog(entry: Uint8Array): boolean {
  return OF_LOG.equals(entry.subarray(HEADER_BYTES, HEADER_BYTES + OF_LOG.byteLength))
}

/** Bytes that each run has among encoded entries. Entries without a run are under 0. */
export function bytesByRun(bytes: Uint8Array): Map<number, number> {
  const sizes = new Map<number, number>()
  for (const { run, from, to } of entrySpans(bytes)) sizes.set(run, (sizes.get(run) ?? 0) + to - from)
  return sizes
}

type Numbers = Pick<LogEntry, 'run' | 'seq' | 'at'>

function bodyOf(entry: LogEntry): Uint8Array {
  if (entry.kind === 'frames') return entry.memory.u8.subarray(entry.from, entry.to)
  const { run: _run, seq: _seq, at: _at, ...fields } = entry
  return Buffer.from(JSON.stringify(withErrorData(fields)))
}

function framesFrom(content: Uint8Array, count: number, numbers: Numbers): LogEntry {
  const memory = allocate(content.byteLength)
  memory.u8.set(content)
  return { kind: 'frames', ...numbers, memory, from: 0, to: content.byteLength, count }
}

function recordFrom(content: Buffer, numbers: Numbers): LogEntry {
  const fields: WrittenFields = JSON.parse(content.toString('utf8'))
  return Object.assign(withErrors(fields), numbers) as HostRecord
}

/** The fields of a record that need more than JSON. */
interface RecordFields {
  kind: HostRecord['kind']
  error?: DramatisError | null
  letter?: { errors: DramatisError[] }
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
    ...(letter && { letter: { ...letter, errors: letter.errors.map(errorData) } }),
  }
}

function withErrors(fields: WrittenFields): object {
  const { error, letter } = fields
  return {
    ...fields,
    ...(error && { error: errorFrom(error) }),
    ...(letter && { letter: { ...letter, errors: letter.errors.map(errorFrom) } }),
  }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}
