/** Broadcasts of agents: the log keeps the message as it was sent, and every other agent gets a copy of it. */
import { type DramatisError, MessageRejectedError } from '../../errors.ts'
import {
  correlationOf,
  lengthOf,
  ownCopyOf,
  setCorrelation,
  setRecipient,
  setTurn,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Receipts } from '../mailboxes/receipts.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { HostMessages } from './host-messages.ts'
import { messageRefusal } from './trust.ts'

interface Failure {
  agent: string
  error: DramatisError
}

interface Needs {
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly receipts: Receipts
}

export class Broadcasts {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Returns the recipients of a broadcast. */
  everybodyBut(sender: Cell, run: RunState): Cell[] {
    return this.#needs.directory.agents(run).filter((cell) => cell !== sender)
  }

  /** Sends the message at `at` to all other agents, or refuses it. */
  send(sender: Cell, run: RunState, memory: Memory, at: number): void {
    const { hostMessages, receipts } = this.#needs
    const distrust = sender.settings.untrusted ? messageRefusal(sender, undefined, memory, at) : undefined
    if (distrust) return receipts.refuse({ sender, run, memory, at }, 'rejected', distrust)
    const others = this.everybodyBut(sender, run)
    const numbers = others.map(() => hostMessages.number())
    const original = ownCopyOf(memory, at) // the log may discard its own copy before the receipt is sent
    sender.broadcasts.set(correlationOf(memory, at), { turn: turnOf(memory, at), copies: numbers })
    const posted = others.map(({ index }, i) =>
      this.#post(sender, run, addressed(ownCopyOf(memory, at), index, numbers[i]!)),
    )
    void Promise.all(posted).then((errors) => {
      sender.broadcasts.delete(correlationOf(original, 0))
      const failures = errors.flatMap((error, i) => (error ? { agent: others[i]!.name, error } : []))
      receipts.give(sender, run, original, 0, refusalOf(failures, others.length))
    })
  }

  /** Resolves when the message is accepted, or with the error that refuses it. */
  #post(sender: Cell, run: RunState, frame: OwnFrame): Promise<DramatisError | undefined> {
    return new Promise((resolve) => this.#needs.hostMessages.post(sender, run, frame, resolve))
  }
}

/**
 * Addresses a copy to one recipient. The copy belongs to no turn: the turn's record in the log is the message itself.
 */
function addressed(copy: Memory, recipient: number, number: number): OwnFrame {
  setRecipient(copy, 0, recipient)
  setCorrelation(copy, 0, number)
  setTurn(copy, 0, 0)
  return { memory: copy, bytes: lengthOf(copy, 0) }
}

function refusalOf(failures: readonly Failure[], count: number): MessageRejectedError | undefined {
  if (failures.length === 0) return undefined
  const others = failures.length < count ? '; the others have it' : ''
  const listed = failures.map(({ agent, error }) => `"${agent}": ${error.message}`).join(' ')
  return new MessageRejectedError(
    `The broadcast did not get to ${failures.length} of ${count} agents${others}. ${listed}`,
    { failures: failures.map(({ agent, error }) => ({ agent, code: error.code, message: error.message })) },
  )
}
