/**
 * A mark names the answer, or the piece of one, that a thread had got last for a turn. Frames for what the thread
 * settles by itself carry one, since answers stand in the log where the host has sent them: STEP_DONE and SLEPT in the
 * fields correlation and priority, CANCEL in step and priority.
 */
import { CANCEL, CORRELATION, kindOf, PRIORITY, STEP } from './frame.ts'
import type { Memory } from './memory.ts'

export interface Mark {
  /** Number of the wait that was answered. */
  readonly correlation: number
  /** Number of the piece; 0: the answer itself, or its end. */
  readonly piece: number
}

/** Nothing had been answered. Frames of older versions have 0 and 0: they do not tell. */
export const UNANSWERED: Mark = { correlation: 0, piece: -1 }

const placeOf = (memory: Memory, at: number) => (at >> 2) + (kindOf(memory, at) === CANCEL ? STEP : CORRELATION)

export function markOf(memory: Memory, at: number): Mark {
  return { correlation: memory.i32[placeOf(memory, at)]!, piece: memory.i32[(at >> 2) + PRIORITY]! }
}

/** Sets the mark of a frame that has its kind. */
export function setMark(memory: Memory, at: number, { correlation, piece }: Mark): void {
  memory.i32[placeOf(memory, at)] = correlation
  memory.i32[(at >> 2) + PRIORITY] = piece
}
