/** Replays or discards dead letters on request of the user. Rule 18. */

import { tooLarge } from '../../actors/definition/checks.ts'
import { asJson, messageParts } from '../../actors/definition/content.ts'
import { MessageRejectedError, shown } from '../../errors.ts'
import type { DeadLetter } from '../../mailbox/dead-letters.ts'
import { ASKS, SEND, TO_ALL } from '../../mailbox/frame.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { withParts } from '../../mailbox/parts.ts'
import type { RunBook } from '../runs/runs.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'

export class Letters {
  readonly #supervisor: Supervisor
  readonly #runs: RunBook
  /** Ids of dead letters that were sent again and are not accepted yet. */
  readonly #underWay = new Set<string>()

  constructor(supervisor: Supervisor, runs: RunBook) {
    this.#supervisor = supervisor
    this.#runs = runs
  }

  discard(id: string): void {
    if (!this.#supervisor.journal.removeLetter(id)) throw unknown(id)
  }

  /**
   * Sends a dead letter again. Resolves to the id of the new message's run when its recipient has accepted it; the
   * letter stays until then.
   */
  async replay(id: string): Promise<string> {
    const letter = this.#supervisor.journal.deadLetters.get(id)
    if (!letter) throw unknown(id)
    const run = this.#runs.get(letter.message.runId)?.state
    const recipient = this.#recipientOf(letter, run)
    if (this.#underWay.has(id)) throw cannot(id, 'it is being sent again, and waits for room', 'Wait for that.')
    this.#underWay.add(id)
    try {
      return await this.#send(letter, recipient)
    } finally {
      this.#underWay.delete(id)
    }
  }

  #recipientOf({ id, message, reason, errors }: DeadLetter, run: RunState | undefined): Cell {
    const { type, recipient, metadata } = message
    if (type === 'response' || type === 'subscribe') throw cannot(id, `nobody takes a ${type} that comes by itself`, '')
    if (reason === 'rejected' && errors[0]?.code !== 'MAILBOX_FULL' && Array.isArray(metadata.omitted))
      throw cannot(id, `the list has not kept all of it (${metadata.omitted.join(', ')})`, 'Send the message anew.')
    if (typeof recipient !== 'string')
      throw cannot(id, 'it was for several agents and refused for all of them', 'Send the message anew.')
    const cell = this.#supervisor.directory.cell(recipient, run)
    if (run?.over && run.agents.has(recipient))
      throw cannot(id, `"${recipient}" went with its run`, 'Send the message to another agent.')
    if (cell?.removed)
      throw cannot(id, `"${recipient}" was removed from the team`, 'Add one of that name, or send it to another agent.')
    if (cell?.settings.isAgent) return cell
    throw cannot(id, `"${recipient}" is no agent of this team`, 'Send the message to another agent.')
  }

  #send(letter: DeadLetter, recipient: Cell): Promise<string> {
    const { directory, frames, journal } = this.#supervisor
    const { deadLetters } = journal
    const { message } = letter
    const run = this.#runOf(message)
    const sender = directory.cell(message.sender, run) ?? directory.cells[USER_INDEX]!
    const parts = message.parts && messageParts(asJson(message.parts, this.#supervisor.parts.keeperFor(run)))
    const frame = frames.make({
      kind: SEND,
      type: message.type,
      flags: message.type === 'broadcast' || message.type === 'publish' ? ASKS | TO_ALL : ASKS,
      sender: sender.index,
      recipient: recipient.index,
      run: run.index,
      correlation: this.#supervisor.hostMessages.number(),
      content: message.content,
      ...(message.structuredData !== null && { data: JSON.stringify(message.structuredData) }),
      metadata: JSON.stringify(withParts({ ...message.metadata, replayOf: letter.id }, parts)),
      ...(message.threadId !== null && { threadId: message.threadId }),
      priority: message.priority,
    })
    const { maxMessageBytes } = recipient.settings.mailbox
    if (frame.bytes > maxMessageBytes) throw tooLarge(frame.bytes, maxMessageBytes)
    const messageId = idOf(frame.memory, 0)
    deadLetters.replayed.add(messageId)
    return new Promise<string>((resolve, reject) => {
      this.#supervisor.hostMessages.post(sender, run, frame, (error) => {
        if (error) return reject(error)
        deadLetters.replayed.delete(messageId) // before the message can become a dead letter again
        journal.removeLetter(letter.id)
        resolve(run.id)
      })
    }).finally(() => deadLetters.replayed.delete(messageId))
  }

  /**
   * Returns the run of the message while it is under way; otherwise a new one, which ends when all that the message
   * causes is over.
   */
  #runOf({ runId, threadId }: AgentMessage): RunState {
    const run = this.#runs.get(runId)?.state
    return run && !run.over ? run : this.#runs.ownRun(threadId ?? undefined)
  }
}

const unknown = (id: string) =>
  new MessageRejectedError(
    `There is no dead letter ${shown(id)}: there was none, or it was sent again, discarded, or forgotten because the list was full.`,
    { path: 'id', got: id },
  )

const cannot = (id: string, why: string, advice: string) =>
  new MessageRejectedError(`The dead letter "${id}" cannot be sent again: ${why}.${advice && ` ${advice}`}`, {
    path: 'id',
    got: id,
  })
