/**
 * What becomes of what no agent of ours writes: a frame that is none, or that its agent has no business to write, is
 * refused and counts for nothing; an outbox that cannot be read any more costs the life of its agent, and nobody else's.
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

  /** The thread can go on writing as long as it lives: it is ended, and what it had under way is given back. */
  broken(cell: Cell, life: Life, what: string): void {
    life.broken = true
    const error = new AgentCrashedError(
      `The outbox of agent "${cell.name}" cannot be read any more (${what}), so its thread was ended. Only the runtime writes there: look for code in its thread that gets hold of shared memory.`,
      { agent: cell.name, epoch: life.epoch },
    )
    this.#needs.logger.error({ agent: cell.name, epoch: life.epoch, error: error.message }, 'the agent was ended')
    if (cell.life === life) life.kill(error)
  }

  /** The frame does nothing but what this says. Of a message its recipient has a dead letter, and its sender hears of it. */
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

  /** A flood of them is told of ever more seldom: with the first, the second, the fourth. */
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
