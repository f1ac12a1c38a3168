/**
 * Keeps aborts of turns that have not begun, because replies overtake messages in the window. An abort may also arrive
 * after its turn has ended. Such an abort is dropped; the position of its message tells the two cases apart.
 */
import type { DramatisError } from '../../errors.ts'
import { LANES } from '../../mailbox/envelope.ts'
import { limitOf, priorityOf, stepOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Window } from '../../mailbox/window.ts'

export class EarlyAborts {
  readonly #window: Window
  readonly #reasons = new Map<number, DramatisError>()
  /** The turn whose message has been taken but which is not open yet; 0 if there is none. */
  beginning = 0

  constructor(window: Window) {
    this.#window = window
  }

  /** Number of kept aborts, at most one for each message in the window. */
  get size(): number {
    return this.#reasons.size
  }

  /** Keeps the reason of an ABORT for a turn that is not open, if that turn is still to begin. */
  keep(turn: number, reason: DramatisError, memory: Memory, at: number): void {
    const lane = LANES[priorityOf(memory, at)]!
    if (lane === 'replies') return // the frame followed its message, whose turn is over
    const ring = this.#window[lane]
    if (turn === this.beginning || !ring.taken(stepOf(memory, at), limitOf(memory, at))) this.#reasons.set(turn, reason)
  }

  /** Returns the reason why a beginning turn must end at once, if there is one. */
  take(turn: number): DramatisError | undefined {
    const reason = this.#reasons.get(turn)
    if (reason) this.#reasons.delete(turn)
    return reason
  }
}
