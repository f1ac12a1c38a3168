/**
 * Aborts of turns that have not begun: replies pass the messages in the window. An abort may also cross the end of its
 * turn; that one is for nobody, and told from the others by where its message stood.
 */
import type { DramatisError } from '../../errors.ts'
import { LANES } from '../../mailbox/envelope.ts'
import { limitOf, priorityOf, stepOf } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Window } from '../../mailbox/window.ts'

export class EarlyAborts {
  readonly #window: Window
  readonly #reasons = new Map<number, DramatisError>()
  /** A turn whose message was taken, and that is not open yet. */
  beginning = 0

  constructor(window: Window) {
    this.#window = window
  }

  /** At most one for each message in the window. */
  get size(): number {
    return this.#reasons.size
  }

  /** Keeps what the ABORT at that place says of a turn that is not open, if it is still to begin. */
  keep(turn: number, reason: DramatisError, memory: Memory, at: number): void {
    const lane = LANES[priorityOf(memory, at)]!
    if (lane === 'replies') return // it came behind its message, whose turn is over
    const ring = this.#window[lane]
    if (turn === this.beginning || !ring.taken(stepOf(memory, at), limitOf(memory, at))) this.#reasons.set(turn, reason)
  }

  /** Why the turn that begins is to end at once, if it is. */
  take(turn: number): DramatisError | undefined {
    const reason = this.#reasons.get(turn)
    if (reason) this.#reasons.delete(turn)
    return reason
  }
}
