/** Receipts of the host for senders: their message is in a mailbox, or the reason why it never will be. */
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
import type { ReplyLane } from '../dispatch/reply-lane.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'
import type { Requests } from './requests.ts'

/** Reason why a message does not enter a mailbox. */
export type Refusal = 'unknown_agent' | 'stopped' | 'rejected' | 'cancelled' | 'overflow'

/** Message in memory that an agent or caller wants to send. `settle`: a caller in the host takes the answer. */
export interface Sending {
  readonly sender: Cell
  readonly run: RunState
  readonly memory: Memory
  readonly at: number
  readonly settle?: OpenRequest['settle'] | undefined
}

interface Needs {
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly replies: ReplyLane
  readonly requests: Requests
}

export class Receipts {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Dead-letters a message and gives its sender the reason. */
  refuse({ sender, run, memory, at, settle }: Sending, reason: Refusal, error: DramatisError): void {
    const { directory, journal, requests } = this.#needs
    journal.deadLetter(run, memory, at, reason, [error])
    const correlation = correlationOf(memory, at)
    if (kindOf(memory, at) === REQUEST) {
      const from = directory.cells[recipientOf(memory, at)]?.index ?? 0
      requests.refuse({ caller: sender, correlation, run, turn: turnOf(memory, at), settle, from, memory, at }, error)
    } else if (correlation !== 0) this.give(sender, run, memory, at, error)
  }

  /** Gives a sender that had to ask the outcome. */
  give(sender: Cell, run: RunState, memory: Memory, at: number, error: DramatisError | undefined): void {
    const inHost = sender.verdicts.get(correlationOf(memory, at))
    if (inHost) {
      sender.verdicts.delete(correlationOf(memory, at))
      return inHost(error)
    }
    const { frames, journal, replies } = this.#needs
    const fields = {
      sender: 0,
      recipient: sender.index,
      run: run.index,
      turn: turnOf(memory, at),
      correlation: correlationOf(memory, at),
    }
    const frame = error ? frames.failure(REFUSED, fields, error) : frames.make({ kind: ACCEPTED, ...fields })
    journal.appendOwned(run, frame.memory, frame.bytes)
    replies.reply(sender, frame)
  }

  /** Refuses a send that still waited for room: it will never get any. */
  refuseParked({ memory, at, run }: Envelope<RunState>, error: DramatisError): void {
    if (correlationOf(memory, at) !== 0)
      this.give(this.#needs.directory.cells[senderOf(memory, at)]!, run, memory, at, error)
  }
}
