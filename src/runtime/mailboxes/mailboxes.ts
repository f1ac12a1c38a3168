/**
 * Puts messages into mailboxes and takes them out, and gives out room: it decides about messages that find no room, and
 * who gets the room that is freed. Most messages have their room already, because their senders have claimed it.
 */
import type { Clock } from '../../clock.ts'
import { type DramatisError, MailboxFullError } from '../../errors.ts'
import type { DeadLetterReason } from '../../mailbox/dead-letters.ts'
import { ASKS, correlationOf, flagsOf, kindOf, REQUEST, SEND, senderOf } from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import { policyOf } from '../../mailbox/overflow.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import type { Ready } from '../state/ready.ts'
import type { RunState } from '../state/run-state.ts'
import type { BlockedTasks } from './blocked-tasks.ts'
import type { Receipts } from './receipts.ts'
import type { Requests } from './requests.ts'
import type { SharedWords } from './shared-words.ts'

interface Needs {
  readonly clock: Clock
  readonly blocked: BlockedTasks
  readonly directory: AgentDirectory
  readonly journal: Journal
  readonly ready: Ready
  readonly receipts: Receipts
  readonly requests: Requests
  readonly sharedWords: SharedWords
  readonly team: TeamMemory
}

export class Mailboxes {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Accepts a message that has its room. */
  accept(callee: Cell, envelope: Envelope<RunState>): void {
    if (callee.settings.queueTimeoutMs !== false) this.#waits(callee, envelope)
    callee.mailbox.line.push(envelope)
    if (envelope.priority > 0) this.#hasten(callee)
    else this.#needs.ready.touch(callee)
  }

  /** Takes a message of an earlier process, which had accepted it. Its room is taken. */
  takeUp(callee: Cell, envelope: Envelope<RunState>): void {
    this.#waits(callee, envelope)
    callee.mailbox.takeUp(envelope, false)
    this.#needs.ready.touch(callee)
  }

  /**
   * Accepts a message that runs within an open turn. It takes the room that it needs even in a full mailbox: the
   * messages there wait for that turn.
   */
  acceptNested(callee: Cell, envelope: Envelope<RunState>): void {
    if (flagsOf(envelope.memory, envelope.at) & ASKS) {
      this.#needs.team.force(callee.index, envelope.bytes)
      this.#needs.sharedWords.admitted(callee)
    }
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    this.#hasten(callee)
  }

  /** Prioritizes all instances: any free one takes the message. */
  #hasten(callee: Cell): void {
    for (const each of callee.instances) this.#needs.ready.hasten(each)
  }

  /** Starts the waiting time of a message when it arrives, also if there was no room for it. */
  #waits({ settings }: Cell, envelope: Envelope<RunState>): void {
    if (settings.queueTimeoutMs === false || envelope.waitsSince !== NOT_YET) return
    envelope.waitsSince = this.#needs.clock.monotonic()
  }

  /**
   * Accepts a message whose sender found no room if there is room by now, else applies the overflow policy. A message
   * larger than the mailbox is accepted when it is alone.
   */
  admitOrOverflow(callee: Cell, envelope: Envelope<RunState>): void {
    const { team } = this.#needs
    if (callee.mailbox.parked.length === 0) {
      if (team.claim(callee.index, envelope.bytes)) return this.#admit(callee, envelope)
      if (envelope.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty) {
        team.force(callee.index, envelope.bytes)
        return this.#admit(callee, envelope)
      }
    }
    this.#needs.sharedWords.doubt(callee)
    const { waits, displaces } = policyOf(callee.settings.mailbox.overflow)
    if (waits) {
      this.#waits(callee, envelope)
      callee.mailbox.parked.push(envelope)
      return this.admit(callee)
    }
    const inItsWay = displaces ? this.#inTheWayOf(callee, envelope) : undefined
    if (!inItsWay) return this.#turnAway(callee, envelope)
    team.force(callee.index, envelope.bytes)
    this.#admit(callee, envelope)
    for (const dropped of inItsWay) this.#drop(callee, dropped)
  }

  /**
   * Handles a message that a full mailbox does not take. If the mailbox drops messages, the sender is not notified: it
   * has chosen to accept losses.
   */
  #turnAway(callee: Cell, envelope: Envelope<RunState>): void {
    const { run, memory, at } = envelope
    run.messageEnded()
    const sender = this.#needs.directory.cells[senderOf(envelope.memory, envelope.at)]!
    const request = this.#needs.requests.of(envelope)
    if (request) sender.open.delete(request.correlation)
    const error = mailboxFull(callee)
    if (policyOf(callee.settings.mailbox.overflow).refuses)
      return this.#needs.receipts.refuse({ sender, run, memory, at, settle: request?.settle }, 'rejected', error)
    if (kindOf(memory, at) === REQUEST)
      return this.#needs.receipts.refuse({ sender, run, memory, at, settle: request?.settle }, 'overflow', error)
    this.#needs.journal.deadLetter(run, memory, at, 'overflow', [error])
    this.#accepted(sender, envelope)
  }

  /**
   * Returns the messages to drop so that this one has room: of the waiting messages without a higher priority the
   * lowest first, then the oldest. Returns undefined if that is not enough. Messages on their way here keep their room.
   */
  #inTheWayOf({ index, mailbox, settings }: Cell, envelope: Envelope<RunState>): Envelope<RunState>[] | undefined {
    const overdraft = this.#needs.team.overdraft(index)
    const alone = envelope.bytes > settings.mailbox.bytes
    let messages = alone ? mailbox.waiting + mailbox.underWay : overdraft.messages + 1
    let bytes = alone ? 0 : overdraft.bytes + envelope.bytes
    const found: Envelope<RunState>[] = []
    for (const waiting of mailbox.droppable()) {
      if (waiting.priority > envelope.priority || (messages <= 0 && bytes <= 0)) break
      found.push(waiting)
      messages -= 1
      bytes -= waiting.bytes
    }
    return messages <= 0 && bytes <= 0 ? found : undefined
  }

  #drop(callee: Cell, envelope: Envelope<RunState>): void {
    const error = mailboxFull(callee)
    if (this.takeOut(callee, envelope, 'overflow', [error], error)) this.freed(callee, envelope.bytes)
  }

  /**
   * Removes a message that waits or that an instance has, and dead-letters it. With `told`, a caller that waits for an
   * answer gets that error. The room of the message is still taken. Returns false if the end of another turn has
   * already withdrawn the message.
   */
  takeOut(
    callee: Cell,
    envelope: Envelope<RunState>,
    reason: DeadLetterReason,
    errors: DramatisError[],
    told?: DramatisError,
  ): boolean {
    if (!callee.mailbox.discard(envelope)) return false
    callee.suspects.delete(envelope)
    this.markDead(envelope, reason, errors, told)
    return true
  }

  /** Dead-letters a message that is in no mailbox. With `told`, a caller that waits for an answer gets that error. */
  markDead(
    envelope: Envelope<RunState>,
    reason: DeadLetterReason,
    errors: DramatisError[],
    told?: DramatisError,
  ): void {
    const { journal, requests } = this.#needs
    const request = told && requests.of(envelope)
    envelope.run.messageEnded()
    journal.deadLetter(envelope.run, envelope.memory, envelope.at, reason, errors)
    if (request) requests.answerWithError(request, told)
  }

  #admit(callee: Cell, envelope: Envelope<RunState>): void {
    this.#accepted(this.#needs.directory.cells[senderOf(envelope.memory, envelope.at)]!, envelope)
    this.#needs.sharedWords.admitted(callee)
    this.accept(callee, envelope)
  }

  /** Sends the receipt to a sender that had to ask for room: it goes on. */
  #accepted(sender: Cell, { run, memory, at }: Envelope<RunState>): void {
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0)
      this.#needs.receipts.give(sender, run, memory, at, undefined)
  }

  /** Returns the room of a message that has left the mailbox: to the sender that waits for it, else to all. */
  freed(callee: Cell, bytes: number): void {
    const { line } = callee.mailbox
    this.#needs.team.release(callee.index, bytes)
    if (line.parked.length > 0) this.admit(callee)
    if (line.waiting > 0) this.#needs.ready.touch(callee) // those behind it may be next
  }

  /**
   * Admits parked messages. The room of the first one is taken beforehand, so that no other message gets it. The
   * message enters when that room is free; a message larger than the mailbox enters when the mailbox is empty.
   */
  admit(callee: Cell): void {
    const { team } = this.#needs
    const { mailbox } = callee
    for (let first = mailbox.parked.peek(); first && !callee.gone; first = mailbox.parked.peek()) {
      if (mailbox.expected !== first) {
        mailbox.expected = first
        team.force(callee.index, first.bytes)
      }
      const alone = first.bytes > callee.settings.mailbox.bytes && mailbox.empty
      if (!alone && team.overdrawn(callee.index)) return this.#needs.sharedWords.doubt(callee)
      mailbox.parked.shift()
      this.#admit(callee, first)
    }
  }

  /** Withdraws a message that waits for room or for other tasks. Returns false if it does not wait. */
  withdrawParked(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): boolean {
    const { mailbox } = callee
    if (this.#needs.blocked.remove(envelope)) return true
    if (!mailbox.parked.remove(envelope)) return false
    if (kindOf(envelope.memory, envelope.at) === SEND) this.#needs.receipts.refuseParked(envelope, reason)
    if (mailbox.expected === envelope) this.freed(callee, envelope.bytes)
    return true
  }
}

function mailboxFull({ name, settings }: Cell): MailboxFullError {
  const { capacity, bytes, overflow } = settings.mailbox
  return new MailboxFullError(
    `The mailbox of agent "${name}" is full (${capacity} messages or ${bytes} bytes); ${policyOf(overflow).fate}. Send more slowly, or raise communication.mailboxCapacity.`,
    { agent: name, capacity, bytes, overflow },
  )
}
