/** What senders are told of messages on which the host had the say: that they are in a mailbox, or why they never will be. */
import type { DramatisError } from '../../errors.ts'
import {
  ACCEPTED,
  correlationOf,
  kindOf,
  REFUSED,
  REQUEST,
  recipientOf,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { Core, Judging, Refusal } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

export class Verdicts implements Judging {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** The message is dead, and its sender is told why. */
  refuse(
    sender: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    reason: Refusal,
    error: DramatisError,
    settle: OpenRequest['settle'],
  ): void {
    this.#core.journal.deadLetter(run, memory, at, reason, [error])
    const correlation = correlationOf(memory, at)
    if (kindOf(memory, at) === REQUEST) {
      const from = this.#core.cells[recipientOf(memory, at)]?.index ?? 0
      const turn = turnOf(memory, at)
      this.#core.settlement.answer(sender, run, correlation, from, turn, error, settle, { memory, at })
    } else if (correlation !== 0) this.give(sender, run, memory, at, error)
  }

  /** Tells a sender that had to ask what came of it. */
  give(sender: Cell, run: RunState, memory: Memory, at: number, error: DramatisError | undefined): void {
    const inHost = sender.verdicts.get(correlationOf(memory, at))
    if (inHost) {
      sender.verdicts.delete(correlationOf(memory, at))
      return inHost(error)
    }
    const fields = {
      sender: 0,
      recipient: sender.index,
      run: run.index,
      turn: turnOf(memory, at),
      correlation: correlationOf(memory, at),
    }
    const frame = error
      ? this.#core.frames.failure(REFUSED, fields, error)
      : this.#core.frames.make({ kind: ACCEPTED, ...fields })
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    this.#core.delivery.reply(sender, frame)
  }

  /** A send that was still waiting for room will never get any. */
  refuseParked(envelope: Envelope<RunState>, error: DramatisError): void {
    if (correlationOf(envelope.memory, envelope.at) !== 0)
      this.give(
        this.#core.cells[senderOf(envelope.memory, envelope.at)]!,
        envelope.run,
        envelope.memory,
        envelope.at,
        error,
      )
  }
}
