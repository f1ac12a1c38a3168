/**
 * Validates frames written by a thread before the host uses them. An agent's code can reach the memory of these frames,
 * so the host trusts no field that it has not checked. A frame that our own thread code never writes is refused.
 */
import {
  ASKS,
  BODY,
  CHUNK,
  CORRELATION,
  END,
  FAILED,
  FRAGMENT,
  HAS_DATA,
  HAS_METADATA,
  HAS_NAME,
  HAS_THREAD,
  HEADER,
  KIND,
  LIMIT_WAIT,
  MANY,
  NOBODY,
  PART,
  REQUEST,
  RUN_INDEX,
  SEND,
  SLEEP,
  SLEPT,
  STARTED,
  STREAMS,
  TIME,
  TO_ALL,
  WANTS_PERMIT,
  WHO,
} from './frame.ts'
import { stringsFit } from './frame-body.ts'
import type { Memory } from './memory.ts'
import { MESSAGE_TYPES } from './message.ts'

/** Largest frame in bytes that may come in parts. The host allocates memory for the size that a thread claims. */
export const LARGEST_FRAME = 2 ** 30

const LATEST = 8.64e15 // of a Date, in ms

const MESSAGE = HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME | ASKS
const ALLOWED: Readonly<Record<number, number>> = {
  [SEND]: MESSAGE | MANY | TO_ALL,
  [REQUEST]: MESSAGE | STREAMS,
  [END]: HAS_DATA | HAS_METADATA | HAS_THREAD | FAILED,
}

/** Checks whether the memory between `at` and `end` can hold a whole frame of that run. */
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
