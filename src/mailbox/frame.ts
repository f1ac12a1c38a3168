/**
 * The frame: the memory layout of messages and of all other data that crosses between host and thread.
 *
 *   byte  0  length, a multiple of 8         32  message id, 16 bytes
 *         4  kind | flags | attempt | type,  48  time, f64 epoch ms: sent, or ended
 *            and how the sender waits
 *         8  sender | recipient << 16        56  limit: response timeout in ms, or f64 started (END)
 *        12  run                             60  priority
 *        16  turn                            64  body: content, then the parts named by the flags, in their order
 *        20  correlation
 *        24  step: number of the verb in the turn
 *        28  bytes of the body
 *
 * The type takes the low three bits of its byte, and POLLING the fourth. Sender and recipient are indices into the
 * team's table of names. A string is a word (length, wide bit) and a plain copy, latin1 or UTF-16. Only structured data
 * and metadata are JSON; they are parsed on first access.
 */
import { MESSAGE_TYPES, type MessageType } from './message.ts'

/**
 * Buffer's own functions for copies between strings and bytes. `write` and `toString` end in them, after checks that
 * are skipped here.
 */
export interface TextBytes extends Uint8Array {
  latin1Write(text: string, at: number, bytes: number): number
  ucs2Write(text: string, at: number, bytes: number): number
  latin1Slice(from: number, to: number): string
  ucs2Slice(from: number, to: number): string
  compare(other: Uint8Array, from: number, to: number, ownFrom: number, ownTo: number): number
  fill(value: number | Uint8Array, from?: number, to?: number): this
}

/** A block of memory with the views that the codec needs. `at` offsets are in bytes from its start. */
export interface Memory {
  readonly u8: Uint8Array
  readonly i32: Int32Array
  readonly f64: Float64Array
  /** Writes and reads strings as latin1 and UTF-16 without conversion, so lone surrogates survive. */
  readonly text: TextBytes
}

/** Returns views on `bytes` bytes of `buffer` from `start`, which must be a multiple of 8. */
export function memoryOn(
  buffer: ArrayBuffer | SharedArrayBuffer,
  start = 0,
  bytes = buffer.byteLength - start,
): Memory {
  return {
    u8: new Uint8Array(buffer, start, bytes),
    i32: new Int32Array(buffer, start, bytes >> 2),
    f64: new Float64Array(buffer, start, bytes >> 3),
    text: textBytes(buffer, start, bytes),
  }
}

function textBytes(buffer: ArrayBuffer | SharedArrayBuffer, start: number, bytes: number): TextBytes {
  const text: object = Buffer.from(buffer as ArrayBuffer, start, bytes)
  return text as TextBytes
}

/** Memory for up to that many bytes shares a buffer with other small memory: a buffer costs more than its views. */
const SMALL = 1_024

export function allocate(bytes: number): Memory {
  const size = (bytes + 7) & ~7
  // Node keeps each place in its shared buffers a multiple of 8.
  const { buffer, byteOffset } = size <= SMALL ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size)
  return memoryOn(buffer, byteOffset, size)
}

/** From so many bytes on `fill` copies faster than `set`, though its call costs more. */
const LARGE = 8_192

/**
 * Copies bytes into other memory. V8's `set` copies word by word if either side is shared, which takes twice the time
 * of the `memcpy` that is under `fill`.
 */
export function copyBytes(from: Uint8Array, to: Memory, at: number): void {
  if (from.length < LARGE) to.u8.set(from, at)
  else to.text.fill(from, at, at + from.length)
}

const NO_MEMORY = memoryOn(new ArrayBuffer(0))

/**
 * Returns a new `Memory` on the same bytes and empties the old object. Code that still holds the old object cannot read
 * what is written from now on.
 */
export function renewed(memory: Memory): Memory {
  const { buffer, byteOffset, byteLength } = memory.u8
  Object.assign(memory, NO_MEMORY)
  return memoryOn(buffer, byteOffset, byteLength)
}

export const HEADER = 64

// Kinds. Constants, not an enum, because types are erased.
/** A frame without effect: it was refused, and keeps its place. */
export const NOTHING = 0
/** A message that expects no response. */
export const SEND = 1
/** A message whose sender waits for the response; `correlation` names the wait. */
export const REQUEST = 2
/** The end of a turn: its commit. Carries the reply if the turn's message was a request. */
export const END = 3
/** A chunk of an answer, sent before the answer. */
export const CHUNK = 4
/** A verb that the host itself serves: `content` is the operation, data its arguments. */
export const CALL = 5
export const STEP_BEGAN = 6
export const STEP_DONE = 7
/** A reading of the clock, so that a redelivered turn reads the same time. */
export const NOW = 8
export const LOG = 9
/** The caller withdraws the request `correlation`. */
export const CANCEL = 10
/** `limit` chunks of stream `correlation` have been read. */
export const STREAM_READ = 11
/** New state of the agent or of its run, as immer patches. Takes effect with the END of the turn. */
export const PATCH = 12
/** A redelivered turn has matched a logged step. */
export const REPLAYED = 13
/** A verb has refused a message. Data holds the kept parts of the message, and the error. */
export const REJECTED = 14
/** The writer of a stream begins (`limit` 1) or stops (0) to wait for its reader. For observers of the agent. */
export const STREAM_WAIT = 15
/** Requests of the turn marked with group `correlation` form one wait: for `limit` answers, or for all (0). */
export const GROUP = 16
/**
 * Answers PROBE `correlation` for the turn `turn`: 1 if it only waits for others, 2 if it waits for a model or a time
 * besides, else 0.
 */
export const QUIET = 17
/** A nested turn has begun. Only its thread decides when that happens. */
export const NESTED = 18
/**
 * A turn whose permit was taken wants to continue. With `turn` 0 that turn has ended, and the thread wants its next
 * message. GO_ON answers.
 */
export const WANTS_PERMIT = 19
/** Host to thread: settles a request. */
export const RESPONSE = 20
/** Host to thread: settles a CALL. */
export const RESULT = 21
/** Host to thread: a send that had to ask for room is in the mailbox. */
export const ACCEPTED = 22
/** Host to thread: a send that had to ask is refused; `structuredData` is the error. */
export const REFUSED = 23
/** Host to thread: end the turn `turn`; `structuredData` is the reason. */
export const ABORT = 24
/** Host to thread, before a redelivered message: the logged frames of its earlier attempts, one after the other. */
export const REPLAY = 25
/** Host to thread, before the first message of a run: the description of the run. */
export const RUN = 26
/** Host to thread: the run is over. */
export const RUN_OVER = 27
/** Host to thread: an agent has joined the run or the whole team. For a protocol script: the current list of agents. */
export const TEAM = 28
/** Host to thread: asks whether the turn `step` only waits for others. The answer carries the same `correlation`. */
export const PROBE = 29
/** Host to thread: answers WANTS_PERMIT. Like all frames for a turn, it is sent once the turn has the permit. */
export const GO_ON = 30
/** A part of a frame that is too large for the channel. */
export const FRAGMENT = 31
/** Host to thread: the durable log has the beginning of step `step` of that turn. */
export const WRITTEN = 32
/** Host to thread: the turn `step` waits for a person. It has no permit and no place until RESUME. */
export const SUSPEND = 35
/** Host to thread: the turn `step` has a permit and a place again. */
export const RESUME = 36
/** Bytes of a part, as latin1. They stand before the first frame of the run that refers to them; no log keeps it. */
export const PART = 37
/**
 * Things of the turn that wait for a limit that its thread keeps: `limit` of them; `correlation` numbers the waits of
 * the turn. The first frame of a wait names the limit in `content` and has data (`KeptLimitData`).
 */
export const LIMIT_WAIT = 38
/** The turn sleeps for `limit` ms, from the time of the frame on. */
export const SLEEP = 33
/** The sleep that is step `step` of the turn is over. */
export const SLEPT = 34

// Flags. The first ones name the optional parts of the body, in this order.
const HAS_DATA = 1
export const HAS_METADATA = 2
export const HAS_THREAD = 4
/** The recipient is given by name, because the sender's table does not have it. */
export const HAS_NAME = 8
/** The caller reads the answer in chunks. */
export const STREAMS = 16
/** The same bit on an END in the log: the start of its turn has a record of its own. */
export const ANNOUNCED = 16
/**
 * The same bit on a SEND: the frame is a message to several recipients, or one of its copies. The name, if present,
 * lists the recipients.
 */
export const MANY = 16
/** No room was claimed in the mailbox, so the host decides about the message. */
export const ASKS = 32
/** The same bit on a STEP_BEGAN: the step waits until the durable log has it. WRITTEN answers. */
export const AWAITS_LOG = 32
/** The same bit on an END in the log: the turn is tried again, so its message is not handled. */
export const BEGINS_AGAIN = 32
/** Structured data is an error. For STEP_BEGAN: the step may not run twice. */
export const FAILED = 64
/** The message is for all agents or all subscribers: the decoded message has the recipient null. */
export const TO_ALL = 128

// Encoding of the sender's wait for a message, stored above its type. Only the deadlock detector uses it.
/** Maximum number of open request groups in one turn. Groups are numbered from 1; 0 is no group. */
export const MOST_GROUPS = 7
/** The sender's own signal may end the wait. */
export const SIGNALLED = 8
export const WAITING_SHIFT = 28

/** Step of a SEND that the host logs for readers alone: it is in no mailbox. */
export const LOG_ONLY = -1

/** Recipient of a frame for no agent, or for an agent that is missing in the sender's table of names. */
export const NOBODY = 0xffff

// Word offsets in the header, for what is done with each frame: it reads the words that it needs once. Others use the
// functions below.
export const KIND = 1
export const WHO = 2
export const RUN_INDEX = 3
export const TURN = 4
export const CORRELATION = 5
export const STEP = 6
export const BODY = 7
/** Index of the first of the id's four words. */
export const ID = 8
export const TIME = 6 // in f64
export const STARTED = 7 // in f64, END only
export const LIMIT = 14
export const PRIORITY = 15

/** The sender intends to repeat the message. Stored behind the type, because the flags' own byte is full. */
const POLLING = 1 << 27

const TYPE_INDEX = Object.fromEntries(MESSAGE_TYPES.map((type, index) => [type, index])) as Record<MessageType, number>

/** The strings of a frame's body. `data` and `metadata` are JSON; what is undefined is absent. */
export interface Body {
  content: string
  data: string | undefined
  metadata: string | undefined
  threadId: string | undefined
  name: string | undefined
}

export interface FrameFields extends Body {
  kind: number
  flags: number
  type: MessageType
  sender: number
  recipient: number
  run: number
  turn: number
  correlation: number
  step: number
  attempt: number
  limit: number
  priority: number
  /** A group of requests, and `SIGNALLED`. */
  waiting: number
  polling: boolean
}

export const BLANK_BODY: Readonly<Body> = {
  content: '',
  data: undefined,
  metadata: undefined,
  threadId: undefined,
  name: undefined,
}

/** The fields of an empty frame. Fields that are not set are absent. */
export const BLANK: Readonly<FrameFields> = {
  kind: 0,
  flags: 0,
  type: 'request',
  sender: 0,
  recipient: 0,
  run: 0,
  turn: 0,
  correlation: 0,
  step: 0,
  attempt: 1,
  ...BLANK_BODY,
  limit: -1,
  priority: 0,
  waiting: 0,
  polling: false,
}

/** Writes a frame that has only a header. */
export function writeControl(
  memory: Memory,
  at: number,
  kind: number,
  sender: number,
  recipient: number,
  run: number,
  turn: number,
  correlation: number,
  step: number,
): number {
  const { i32 } = memory
  const i = at >> 2
  i32[i + KIND] = kind
  i32[i + WHO] = sender | (recipient << 16)
  i32[i + RUN_INDEX] = run
  i32[i + TURN] = turn
  i32[i + CORRELATION] = correlation
  i32[i + STEP] = step
  i32.fill(0, i + BODY, i + 16)
  i32[i] = HEADER
  return HEADER
}

export const lengthOf = (memory: Memory, at: number): number => memory.i32[at >> 2]!
export const kindOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + KIND]! & 0xff
export const flagsOf = (memory: Memory, at: number): number => (memory.i32[(at >> 2) + KIND]! >>> 8) & 0xff
export const attemptOf = (memory: Memory, at: number): number => ((memory.i32[(at >> 2) + KIND]! >>> 16) & 0xff) + 1
export const typeOf = (memory: Memory, at: number): MessageType =>
  MESSAGE_TYPES[(memory.i32[(at >> 2) + KIND]! >>> 24) & 7] ?? 'request'
export const waitingOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + KIND]! >>> WAITING_SHIFT
export const isPolling = (memory: Memory, at: number): boolean => (memory.i32[(at >> 2) + KIND]! & POLLING) !== 0
export const senderOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + WHO]! & 0xffff
export const recipientOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + WHO]! >>> 16
export const runOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + RUN_INDEX]!
export const turnOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + TURN]!
export const correlationOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + CORRELATION]!
export const bodyBytesOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + BODY]!
export const stepOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + STEP]!
export const timeOf = (memory: Memory, at: number): number => memory.f64[(at >> 3) + TIME]!
export const limitOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + LIMIT]!
export const priorityOf = (memory: Memory, at: number): number => memory.i32[(at >> 2) + PRIORITY]!
export const startedOf = (memory: Memory, at: number): number => memory.f64[(at >> 3) + STARTED]!

/** Returns a bit for the kind of the frame. Some kinds share a bit, so who gets a batch by it still has to look. */
export const kindBit = (memory: Memory, at: number): number => 1 << (memory.i32[(at >> 2) + KIND]! & 31)
export const kindBits = (...kinds: readonly number[]): number =>
  kinds.reduce((bits, kind) => bits | (1 << (kind & 31)), 0)

export function setKind(memory: Memory, at: number, kind: number): void {
  const i = (at >> 2) + KIND
  memory.i32[i] = (memory.i32[i]! & ~0xff) | kind
}
/** Turns all memory from `at` to `end` into one frame without effect. */
export function blank(memory: Memory, at: number, end: number): void {
  memory.i32[at >> 2] = end - at
  memory.i32[(at >> 2) + KIND] = NOTHING
}
export function setFlag(memory: Memory, at: number, flag: number): void {
  memory.i32[(at >> 2) + KIND]! |= flag << 8
}
export function clearFlag(memory: Memory, at: number, flag: number): void {
  memory.i32[(at >> 2) + KIND]! &= ~(flag << 8)
}
/** Sets the attempt. The header has room for 255 attempts. */
export function setAttempt(memory: Memory, at: number, attempt: number): void {
  const i = (at >> 2) + KIND
  memory.i32[i] = (memory.i32[i]! & ~0xff_0000) | (Math.min(attempt - 1, 255) << 16)
}
export function setTurn(memory: Memory, at: number, turn: number): void {
  memory.i32[(at >> 2) + TURN] = turn
}
export function setRecipient(memory: Memory, at: number, recipient: number): void {
  const i = (at >> 2) + WHO
  memory.i32[i] = (memory.i32[i]! & 0xffff) | (recipient << 16)
}
export function setStep(memory: Memory, at: number, step: number): void {
  memory.i32[(at >> 2) + STEP] = step
}
export function setCorrelation(memory: Memory, at: number, correlation: number): void {
  memory.i32[(at >> 2) + CORRELATION] = correlation
}
export function setLimit(memory: Memory, at: number, limit: number): void {
  memory.i32[(at >> 2) + LIMIT] = limit
}

const IDEMPOTENT = 0x80

/**
 * Encodes the retry policy of a REQUEST in its attempt field, which the sender does not use: the host numbers attempts.
 * The policy says how often the request may be retried, and whether its turn may be redelivered. Without `retries` the
 * setting of the sender's role applies.
 */
export const policyAttempt = (retries: number | undefined, idempotent: boolean): number =>
  1 + (retries === undefined ? 0 : retries + 1) + (idempotent ? IDEMPOTENT : 0)

/** Reads the retry policy of a REQUEST in the log. */
export function policyOf(memory: Memory, at: number): { retries: number | undefined; idempotent: boolean } {
  const said = (memory.i32[(at >> 2) + KIND]! >>> 16) & 0xff
  if (said === 0) return NO_POLICY
  const retries = said & (IDEMPOTENT - 1)
  return { retries: retries === 0 ? undefined : retries - 1, idempotent: (said & IDEMPOTENT) !== 0 }
}
const NO_POLICY = { retries: undefined, idempotent: false }

/** Encodes a limit for an answer in wall-clock time: below -1, which stands for no limit. */
export const wallClockLimit = (ms: number): number => -2 - ms

export const isWallClockLimit = (limit: number): boolean => limit < -1

/** Returns the limit for an answer in ms; undefined: that of the callee holds. */
export const answerMsOf = (limit: number): number | undefined =>
  limit === -1 ? undefined : isWallClockLimit(limit) ? -2 - limit : limit

/** Sets the start and end time of an END's turn. They take the place of limit and priority. */
export function setTimes(memory: Memory, at: number, started: number, ended: number): void {
  memory.f64[(at >> 3) + TIME] = ended
  memory.f64[(at >> 3) + STARTED] = started
}

/** Copies a frame. Most frames are small, and for them a loop over their words is faster than a view and a call. */
export function copyFrame(from: Memory, at: number, to: Memory, target: number, bytes: number): void {
  if (bytes > 1024) {
    copyBytes(from.u8.subarray(at, at + bytes), to, target)
    return
  }
  const source = from.i32
  const destination = to.i32
  const words = bytes >> 2
  for (let word = 0, i = at >> 2, j = target >> 2; word < words; word++) destination[j + word] = source[i + word]!
}

/** Copies a frame into memory of its own. `bytes`: the length of several frames that follow one another. */
export function ownCopyOf(memory: Memory, at: number, bytes: number = lengthOf(memory, at)): Memory {
  const copy = allocate(bytes)
  copyFrame(memory, at, copy, 0, bytes)
  return copy
}

/** Bits of the second word that a repeated step has too: kind, the flags of the body's parts, type and `POLLING`. */
const STEP_BITS = 0xff | ((HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME) << 8) | (7 << 24) | POLLING

/**
 * Checks whether two frames are the same step, repeated: same `STEP_BITS`, recipient and body. A piece of an answer
 * goes to whoever waits for it, whose name its writer need not know.
 */
export function sameStep(a: Memory, at: number, b: Memory, bt: number): boolean {
  const i = at >> 2
  const j = bt >> 2
  if (((a.i32[i + KIND]! ^ b.i32[j + KIND]!) & STEP_BITS) !== 0) return false
  if (kindOf(a, at) !== CHUNK && recipientOf(a, at) !== recipientOf(b, bt)) return false
  if (a.i32[i + BODY] !== b.i32[j + BODY]) return false
  const bytes = a.i32[i + BODY]!
  return a.text.compare(b.text, bt + HEADER, bt + HEADER + bytes, at + HEADER, at + HEADER + bytes) === 0
}

/*
 * A frame's body: its strings, each with its length before it, as latin1 or, if needed, UTF-16. The flags of the frame
 * say which strings it has; a body without strings takes no room.
 */

const WIDE = 0x4000_0000
const LENGTH = 0x3fff_ffff
// biome-ignore lint/suspicious/noControlCharactersInRegex: latin1 begins with them
const wide = /[^\u0000-\u00ff]/

const stringBytes = (text: string) => (4 + (wide.test(text) ? text.length * 2 : text.length) + 3) & ~3

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
  const { i32 } = memory
  if (bytes > end - at) i32[end >> 2] = 0 // frames go to the log, and this word would have what stood here before
  const i = at >> 2
  i32[i + KIND] =
    fields.kind |
    (flags << 8) |
    (Math.min(fields.attempt - 1, 255) << 16) |
    (TYPE_INDEX[fields.type] << 24) |
    (fields.polling ? POLLING : 0) |
    (fields.waiting << WAITING_SHIFT)
  i32[i + WHO] = fields.sender | (fields.recipient << 16)
  i32[i + RUN_INDEX] = fields.run
  i32[i + TURN] = fields.turn
  i32[i + CORRELATION] = fields.correlation
  i32[i + STEP] = fields.step
  i32[i + BODY] = end - at - HEADER
  memory.f64[(at >> 3) + TIME] = time
  i32[i + LIMIT] = fields.limit
  i32[i + PRIORITY] = fields.priority
  i32[i] = bytes
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

export function stringsOf(memory: Memory, at: number): WrittenString[] {
  if (bodyBytesOf(memory, at) === 0) return []
  const strings: WrittenString[] = []
  let place = at + HEADER
  for (let left = 1 | ((flagsOf(memory, at) & NAMED) << 1); left !== 0; left >>= 1) {
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

/** Flags that name strings of the body, beside the content. */
const NAMED = HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME

/** Checks whether the body lies within the frame, and the strings named by the flags within the body. */
export function stringsFit(memory: Memory, at: number): boolean {
  const { i32 } = memory
  const bytes = i32[(at >> 2) + BODY]!
  if (bytes === 0) return true
  if (bytes < 0 || bytes > i32[at >> 2]! - HEADER) return false
  const end = at + HEADER + bytes
  let place = at + HEADER
  for (let left = 1 | (((i32[(at >> 2) + KIND]! >>> 8) & NAMED) << 1); left !== 0; left >>= 1) {
    if ((left & 1) === 0) continue
    if (place + 4 > end) return false
    const word = i32[place >> 2]!
    const length = word & LENGTH
    place = (place + 4 + (word & WIDE ? length * 2 : length) + 3) & ~3
    if (place > end || place < 0) return false // an end beyond the int32 range is negative
  }
  return true
}

/*
 * Validates frames written by a thread before the host uses them. An agent's code can reach the memory of these frames,
 * so the host trusts no field that it has not checked. A frame that our own thread code never writes is refused.
 */

/** Largest frame in bytes that may come in parts. The host allocates memory for the size that a thread claims. */
export const LARGEST_FRAME = 2 ** 30

const LATEST = 8.64e15 // of a Date, in ms

const MESSAGE = HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME | ASKS
const ALLOWED: Readonly<Record<number, number>> = {
  [SEND]: MESSAGE | MANY | TO_ALL,
  [REQUEST]: MESSAGE | STREAMS,
  [END]: HAS_DATA | HAS_METADATA | HAS_THREAD | FAILED,
}

export function frameFits({ i32 }: Memory, at: number, end: number, run: number): boolean {
  const length = i32[at >> 2]!
  return length >= HEADER && (length & 7) === 0 && length <= end - at && i32[(at >> 2) + RUN_INDEX] === run
}

/**
 * Returns the fault of a frame, or undefined if the frame is valid. The whole frame must be in the host's own memory.
 */
export function flawOf(memory: Memory, at: number, sender: number): string | undefined {
  const { i32, f64 } = memory
  const i = at >> 2
  const word = i32[i + KIND]!
  const kind = word & 0xff
  if ((kind < SEND || kind > END) && !isOfThread(kind))
    return kind === FRAGMENT ? 'a part of a part' : `kind ${kind} is not a thread's`
  if (i32[i + BODY] !== 0 && !stringsFit(memory, at)) return 'its strings reach beyond its end'
  const who = i32[i + WHO]!
  if ((who & 0xffff) !== sender) return 'its sender is somebody else'
  const correlation = i32[i + CORRELATION]!
  // An answer has the number of its caller, which can be the host.
  if (correlation < 0 && kind !== END && kind !== CHUNK) return "its correlation is not a thread's"
  const time = f64[(at >> 3) + TIME]!
  if (!(time >= 0 && time <= LATEST)) return 'its time is none'
  if (kind > END) return undefined
  const flags = (word >>> 8) & 0xff
  if (kind === END) {
    const started = f64[(at >> 3) + STARTED]!
    if (!(started >= 0 && started <= LATEST)) return 'its time is none'
    return (flags & ~ALLOWED[END]!) === 0 ? undefined : 'its flags are not of its kind'
  }
  if ((flags & ~ALLOWED[kind]!) !== 0) return 'its flags are not of its kind'
  const type = MESSAGE_TYPES[(word >>> 24) & 7] ?? 'request'
  if (type === 'response' || type === 'publish' || type === 'subscribe') return `no agent sends a ${type}`
  if (kind === REQUEST && correlation === 0) return 'it asks, and names no wait'
  const recipient = who >>> 16
  if ((flags & HAS_NAME) !== 0 && recipient !== NOBODY) return 'it has two recipients'
  if (kind === SEND && (flags & (MANY | TO_ALL)) !== 0 && !isBroadcast(flags, recipient))
    return 'it is for several, and says not for whom'
  return undefined
}

const isOfThread = (kind: number) =>
  (kind >= SEND && kind <= WANTS_PERMIT) || kind === SLEEP || kind === SLEPT || kind === PART || kind === LIMIT_WAIT

const isBroadcast = (flags: number, recipient: number) =>
  (flags & (MANY | TO_ALL | ASKS | HAS_NAME)) === (MANY | TO_ALL | ASKS) && recipient === NOBODY

/**
 * Generates ids in the layout of UUID version 7 (RFC 9562): time, then a counter, then bits that identify this thread.
 */
export class IdSource {
  #serial = 0
  #time = -1
  #high = 0
  #low = 0
  readonly #tail: number

  constructor(random: () => number) {
    this.#tail = (random() * 2 ** 30) | 0
  }

  /** Writes the next id, with that time (epoch ms), into the header of the frame at `at`. Ids of one source ascend. */
  write(i32: Int32Array, at: number, time: number): void {
    const serial = ++this.#serial
    if (time >= this.#time + 1) {
      this.#time = Math.floor(time)
      this.#high = (this.#time / 65536) | 0
      this.#low = (this.#time % 65536) << 16
    }
    const i = (at >> 2) + ID
    i32[i] = this.#high
    i32[i + 1] = this.#low | 0x7000 | ((serial >>> 18) & 0xfff)
    i32[i + 2] = 0x8000_0000 | ((serial & 0x3ffff) << 12) | (this.#tail >>> 18)
    i32[i + 3] = this.#tail << 14
  }
}

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Returns the id of a frame as the text of a UUID. */
export function idOf(memory: Memory, at: number): string {
  const i = (at >> 2) + ID
  return idText(memory.i32[i]!, memory.i32[i + 1]!, memory.i32[i + 2]!, memory.i32[i + 3]!)
}

export function idText(a: number, b: number, c: number, d: number): string {
  const first = `${hex[a >>> 24]}${hex[(a >>> 16) & 255]}${hex[(a >>> 8) & 255]}${hex[a & 255]}`
  const second = `${hex[b >>> 24]}${hex[(b >>> 16) & 255]}-${hex[(b >>> 8) & 255]}${hex[b & 255]}`
  const third = `${hex[c >>> 24]}${hex[(c >>> 16) & 255]}-${hex[(c >>> 8) & 255]}${hex[c & 255]}`
  return `${first}-${second}-${third}${hex[d >>> 24]}${hex[(d >>> 16) & 255]}${hex[(d >>> 8) & 255]}${hex[d & 255]}`
}

/** The four words of an id. */
export type FrameId = readonly [number, number, number, number]

export function idFrom(text: string): FrameId {
  const digits = text.replaceAll('-', '')
  const word = (at: number) => Number.parseInt(digits.slice(at, at + 8), 16) | 0
  return [word(0), word(8), word(16), word(24)]
}

export function readId({ i32 }: Memory, at: number): FrameId {
  const i = (at >> 2) + ID
  return [i32[i]!, i32[i + 1]!, i32[i + 2]!, i32[i + 3]!]
}

/** Copies the 16 bytes of an id from one frame to another. */
export function copyId(from: Memory, at: number, to: Memory, target: number): void {
  const source = from.i32
  const copy = to.i32
  for (let word = 0, i = (at >> 2) + ID, j = (target >> 2) + ID; word < 4; word++) copy[j + word] = source[i + word]!
}
