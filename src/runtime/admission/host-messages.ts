/** Messages that the host puts into mailboxes for somebody who wants to know whether they were taken, or to be answered. */
import { tooLarge } from '../../actors/definition/checks.ts'
import type { DramatisError } from '../../errors.ts'
import { ASKS, correlationOf, REQUEST } from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { OwnFrame, Question } from '../log/host-frames.ts'
import { type Cell, NO_TURN, type OpenRequest } from '../state/cell.ts'
import { type Core, type Sending, USER_INDEX } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

export class HostSends implements Sending {
  readonly #core: Core
  #last = 0

  constructor(core: Core) {
    this.#core = core
  }

  /** The next frame's number for the question: below zero, where no agent's own numbers are. */
  number(): number {
    this.#last -= 1
    return this.#last
  }

  /** `frame` is a SEND with such a number, and asks for room. */
  post(sender: Cell, run: RunState, frame: OwnFrame, verdict: (error: DramatisError | undefined) => void): void {
    sender.verdicts.set(correlationOf(frame.memory, 0), verdict)
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    this.#core.admission.message(sender, run, frame.memory, 0, undefined)
    this.#core.wake()
  }

  /**
   * A request of the caller outside, or in the name of that agent; `settle` takes the answer. Gives the request, unless it was
   * answered at once. `giver`: who has decided that it is done, if that is another.
   *
   * @throws MessageRejectedError when it is larger than its recipient takes.
   */
  ask(
    target: Cell,
    run: RunState,
    question: Question,
    settle: (memory: Memory, at: number) => void,
    sender: Cell = this.#core.cells[USER_INDEX]!,
    giver: Cell = sender,
  ): OpenRequest | undefined {
    const correlation = sender.index === USER_INDEX ? ++sender.correlation : this.number()
    const threadId = question.threadId ?? run.threadId
    const { memory, bytes } = this.#core.frames.make({
      kind: REQUEST,
      sender: sender.index,
      recipient: target.index,
      run: run.index,
      turn: NO_TURN,
      correlation,
      ...question,
      ...(threadId !== undefined && { threadId }),
      flags: ASKS,
    })
    const { maxMessageBytes } = target.settings.mailbox
    if (bytes > maxMessageBytes) throw tooLarge(bytes, maxMessageBytes)
    this.#core.journal.appendOwned(run, memory, bytes)
    this.#core.admission.message(sender, run, memory, 0, settle, giver)
    this.#core.wake()
    return sender.open.get(correlation)
  }
}
