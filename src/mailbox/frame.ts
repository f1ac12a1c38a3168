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
import { allocate, copyBytes, type Memory } from './memory.ts'
import { MESSAGE_TYPES, type MessageType } from './message.ts'

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
/** A part of a frame that is too large for the window. */
export const FRAGMENT = 31
/** Host to thread: the durable log has the beginning of step `step` of that turn. */
export const WRITTEN = 32
/** Host to thread: the turn `step` waits for a person. It has no permit and no place until UNSHELVE. */
export const SHELVE = 35
/** Host to thread: the turn `step` has a permit and a place again. */
export const UNSHELVE = 36
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
export const HAS_DATA = 1
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

/** The fields of a frame. */
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

/** Writes the header of a frame of `bytes` bytes. The caller must write the id. */
export function writeHeader(
  memory: Memory,
  at: number,
  fields: FrameFields,
  flags: number,
  bytes: number,
  bodyBytes: number,
  time: number,
): void {
  const { i32 } = memory
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
  i32[i + BODY] = bodyBytes
  memory.f64[(at >> 3) + TIME] = time
  i32[i + LIMIT] = fields.limit
  i32[i + PRIORITY] = fields.priority
  i32[i] = bytes
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
/** Returns the bits of several kinds, as `kindBit` makes them. */
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
/** The highest number of retries that a request can carry itself. */
export const MOST_RETRIES = 0x7e

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
