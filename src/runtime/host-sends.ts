/** Messages that the host puts into mailboxes for somebody who wants to know whether they were taken. */
import type { DramatisError } from '../errors.ts'
import { correlationOf } from '../mailbox/frame.ts'
import type { Cell } from './cell.ts'
import type { Core, Sending } from './core.ts'
import type { OwnFrame } from './host-frames.ts'
import type { RunState } from './run-state.ts'

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
    this.#core.appendOwned(run, frame.memory, frame.bytes)
    this.#core.admission.message(sender, run, frame.memory, 0, undefined)
    this.#core.wake()
  }
}
