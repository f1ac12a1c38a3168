/**
 * What gets into mailboxes and out of them, and their room: what becomes of a message that finds none, and who gets what falls
 * free. Most messages come with their room, which their senders have claimed.
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

  /** The message has its room. */
  accept(callee: Cell, envelope: Envelope<RunState>): void {
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    if (envelope.priority > 0) this.#hasten(callee)
    else this.#needs.ready.touch(callee)
  }

  /** The message is to be handled within an open turn. It gets the room that it needs: what waits there waits for that turn. */
  acceptNested(callee: Cell, envelope: Envelope<RunState>): void {
    if (flagsOf(envelope.memory, envelope.at) & ASKS) this.#needs.team.force(callee.index, envelope.bytes)
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    this.#hasten(callee)
  }

  /** Whichever instance is free takes it. */
  #hasten(callee: Cell): void {
    for (const each of callee.instances) this.#needs.ready.hasten(each)
  }

  /** Its time runs from when it came, whether there was room for it or not. */
  #waits({ settings }: Cell, envelope: Envelope<RunState>): void {
    if (settings.queueTimeoutMs === false || envelope.waitsSince !== NOT_YET) return
    envelope.waitsSince = this.#needs.clock.monotonic()
  }

  /** The sender found no room. There may be some by now; a message larger than the mailbox is taken when it is alone. */
  ask(callee: Cell, envelope: Envelope<RunState>): void {
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

  /** A full mailbox does not take it. Who sends to one that drops is not told: it does not mind losses. */
  #turnAway(callee: Cell, envelope: Envelope<RunState>): void {
    const { run, memory, at } = envelope
    run.open -= 1
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
   * What has to go so that there is room for it: of what waits and has no higher priority the lowest first, then the
   * oldest. undefined: that would not be enough. What has its room and is still on its way here keeps it.
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
   * Takes a message out that waits, or that an instance has: it is dead, and with `told` who waits for an answer is told that. Its room is still taken.
   * False: the end of another has taken it out.
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

  /** The message is in no mailbox and will not be handled; with `told` who waits for an answer is told that. */
  markDead(
    envelope: Envelope<RunState>,
    reason: DeadLetterReason,
    errors: DramatisError[],
    told?: DramatisError,
  ): void {
    const { journal, requests } = this.#needs
    const request = told && requests.of(envelope)
    envelope.run.open -= 1
    journal.deadLetter(envelope.run, envelope.memory, envelope.at, reason, errors)
    if (request) requests.answerWithError(request, told)
  }

  #admit(callee: Cell, envelope: Envelope<RunState>): void {
    this.#accepted(this.#needs.directory.cells[senderOf(envelope.memory, envelope.at)]!, envelope)
    this.accept(callee, envelope)
  }

  /** Who had to ask for room goes on. */
  #accepted(sender: Cell, { run, memory, at }: Envelope<RunState>): void {
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0)
      this.#needs.receipts.give(sender, run, memory, at, undefined)
  }

  /** A message has left the mailbox: its room goes to who waits for it, else back to all. */
  freed(callee: Cell, bytes: number): void {
    this.#needs.team.release(callee.index, bytes)
    this.admit(callee)
    if (callee.mailbox.waiting > 0) this.#needs.ready.touch(callee) // what stood behind it may come
  }

  /**
   * The first of the parked has its room taken beforehand, so that nobody passes it by. It goes in when that room is
   * free; a message larger than the mailbox when nothing else is there.
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

  /** Takes back a message that waits for room, or for other tasks; false: it does not. */
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
