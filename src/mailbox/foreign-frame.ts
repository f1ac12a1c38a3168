/**
 * Validates frames written by a thread before the host uses them. An agent's code can reach the memory of these frames,
 * so the host trusts no field that it has not checked. A frame that our own thread code never writes is refused.
 */
import {
  ASKS,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  FRAGMENT,
  flagsOf,
  HAS_DATA,
  HAS_METADATA,
  HAS_NAME,
  HAS_THREAD,
  HEADER,
  kindOf,
  LIMIT_WAIT,
  lengthOf,
  MANY,
  NOBODY,
  PART,
  REQUEST,
  recipientOf,
  runOf,
  SEND,
  SLEEP,
  SLEPT,
  STREAMS,
  senderOf,
  startedOf,
  TO_ALL,
  timeOf,
  typeOf,
  WANTS_PERMIT,
} from './frame.ts'
import { stringsFit } from './frame-body.ts'
import type { Memory } from './memory.ts'

/** Largest frame in bytes that may come in parts. The host allocates memory for the size that a thread claims. */
export const LARGEST_FRAME = 2 ** 30

const LATEST = 8.64e15 // of a Date, in ms

const MESSAGE = HAS_DATA | HAS_METADATA | HAS_THREAD | HAS_NAME | ASKS
const ALLOWED: Readonly<Record<number, number>> = {
  [SEND]: MESSAGE | MANY | TO_ALL,
  [REQUEST]: MESSAGE | STREAMS,
  [END]: HAS_DATA | HAS_METADATA | FAILED,
}

/** Checks whether the memory between `at` and `end` can hold a whole frame of that run. */
export function frameFits(memory: Memory, at: number, end: number, run: number): boolean {
  const length = lengthOf(memory, at)
  return length >= HEADER && (length & 7) === 0 && length <= end - at && runOf(memory, at) === run
}

/**
 * Returns the fault of a frame, or undefined if the frame is valid. The whole frame must be in the host's own memory.
 */
export function flawOf(memory: Memory, at: number, sender: number): string | undefined {
  const kind = kindOf(memory, at)
  if (!isOfThread(kind)) return kind === FRAGMENT ? 'a part of a part' : `kind ${kind} is not a thread's`
  if (!stringsFit(memory, at)) return 'its strings reach beyond its end'
  if (senderOf(memory, at) !== sender) return 'its sender is somebody else'
  if (correlationOf(memory, at) < 0 && !answers(kind)) return "its correlation is not a thread's"
  if (!(timeOf(memory, at) >= 0 && timeOf(memory, at) <= LATEST)) return 'its time is none'
  if (kind === END && !(startedOf(memory, at) >= 0 && startedOf(memory, at) <= LATEST)) return 'its time is none'
  if (kind > END) return undefined
  const flags = flagsOf(memory, at)
  if ((flags & ~ALLOWED[kind]!) !== 0) return 'its flags are not of its kind'
  if (kind === END) return undefined
  const type = typeOf(memory, at)
  if (type === 'response' || type === 'publish' || type === 'subscribe') return `no agent sends a ${type}`
  if (kind === REQUEST && correlationOf(memory, at) === 0) return 'it asks, and names no wait'
  if ((flags & HAS_NAME) !== 0 && recipientOf(memory, at) !== NOBODY) return 'it has two recipients'
  if (kind === SEND && (flags & (MANY | TO_ALL)) !== 0 && !isBroadcast(flags, recipientOf(memory, at)))
    return 'it is for several, and says not for whom'
  return undefined
}

const isOfThread = (kind: number) =>
  (kind >= SEND && kind <= WANTS_PERMIT) || kind === SLEEP || kind === SLEPT || kind === PART || kind === LIMIT_WAIT

/**
 * Checks for the kinds that answer a request. Their correlation is the caller's number, and the caller can be the host.
 */
const answers = (kind: number) => kind === END || kind === CHUNK

const isBroadcast = (flags: number, recipient: number) =>
  (flags & (MANY | TO_ALL | ASKS | HAS_NAME)) === (MANY | TO_ALL | ASKS) && recipient === NOBODY
