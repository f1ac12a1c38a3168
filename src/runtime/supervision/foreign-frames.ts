/**
 * Handles bytes in an outbox that the runtime did not write. A frame that is invalid, or that its agent may not write,
 * is refused and has no effect. An outbox that cannot be read any more ends the thread of its agent, and no other.
 */
import type { Logger } from '../../actors/definition/logger.ts'
import { AgentCrashedError, MessageRejectedError } from '../../errors.ts'
import { type Directory, decodeMessage } from '../../mailbox/codec.ts'
import {
  ASKS,
  correlationOf,
  flagsOf,
  kindOf,
  lengthOf,
  NOTHING,
  REQUEST,
  recipientOf,
  SEND,
  setKind,
  turnOf,
} from '../../mailbox/frame.ts'
import { stringsFit } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { remainsOf } from '../../mailbox/remains.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { Receipts } from '../mailboxes/receipts.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Life } from '../state/life.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly journal: Journal
  readonly logger: Logger
  readonly mailboxes: Mailboxes
  readonly names: Directory
  readonly receipts: Receipts
  readonly requests: Requests
}

export class ForeignFrames {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Ends a thread whose outbox cannot be read, since the thread could go on writing. Its open work is given back. */
  broken(cell: Cell, life: Life, what: string): void {
    life.broken = true
    const error = new AgentCrashedError(
      `The outbox of agent "${cell.name}" cannot be read any more (${what}), so its thread was ended. Only the runtime writes there: look for code in its thread that gets hold of shared memory.`,
      { agent: cell.name, epoch: life.epoch },
    )
    this.#needs.logger.error({ agent: cell.name, epoch: life.epoch, error: error.message }, 'the agent was ended')
    if (cell.life === life) life.kill(error)
  }

  /**
   * Refuses a frame: it has no effect beyond this. For a message the recipient gets a dead letter, and the sender is
   * notified.
   */
  refuse(cell: Cell, life: Life, run: RunState | undefined, memory: Memory, at: number, flaw: string): void {
    const kind = kindOf(memory, at)
    this.#warn(cell, life, kind, flaw)
    const isMessage = kind === SEND || kind === REQUEST
    const error = new MessageRejectedError(`A frame of agent "${cell.name}" was refused: ${flaw}.`, {
      agent: cell.name,
      kind,
      flaw,
    })
    if (isMessage) this.#bury(cell, run, memory, at, error)
    setKind(memory, at, NOTHING)
    const correlation = correlationOf(memory, at)
    if (!isMessage || !run || correlation <= 0 || cell.open.has(correlation)) return
    const { receipts, requests } = this.#needs
    if (kind === SEND) return receipts.give(cell, run, memory, at, error)
    const turn = turnOf(memory, at)
    requests.refuse({ caller: cell, correlation, run, turn, settle: undefined, from: 0, memory, at }, error)
  }

  /** Logs the refusal. In a flood it logs ever more rarely: with the first, the second, the fourth. */
  #warn(cell: Cell, life: Life, kind: number, flaw: string): void {
    life.refusedFrames += 1
    if ((life.refusedFrames & (life.refusedFrames - 1)) !== 0) return
    this.#needs.logger.warn(
      { agent: cell.name, epoch: life.epoch, kind, flaw, frames: life.refusedFrames },
      'the agent wrote a frame that no agent may write; it was refused',
    )
  }

  #bury(cell: Cell, run: RunState | undefined, memory: Memory, at: number, error: MessageRejectedError): void {
    const callee = this.#needs.directory.cells[recipientOf(memory, at)]
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#needs.mailboxes.freed(callee, lengthOf(memory, at))
    const given = stringsFit(memory, at) ? decodeMessage(memory, at, this.#needs.names) : { recipient: undefined }
    const remains = remainsOf({ ...given, recipient: callee?.name ?? given.recipient, sender: cell.name })
    if (remains) this.#needs.journal.refused(run, remains, error)
  }
}
