/**
 * Room in the mailboxes: what becomes of a message that finds none, and who gets what falls free. Most messages come with
 * their room, which their senders have claimed; this is for the others.
 */
import { type DramatisError, MailboxFullError } from '../../errors.ts'
import { correlationOf, kindOf, REQUEST, SEND, senderOf } from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { MailboxSettings } from '../settings/settings.ts'
import type { Cell } from '../state/cell.ts'
import type { Core, MakingRoom } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'

type Overflow = Exclude<MailboxSettings['overflow'], 'block'>

export class MailboxRoom implements MakingRoom {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** The sender found no room. There may be some by now; a message larger than the mailbox is taken when it is alone. */
  ask(callee: Cell, envelope: Envelope<RunState>): void {
    const { team } = this.#core
    if (callee.mailbox.parked.length === 0) {
      if (team.claim(callee.index, envelope.bytes)) return this.#admit(callee, envelope)
      if (envelope.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty) {
        team.force(callee.index, envelope.bytes)
        return this.#admit(callee, envelope)
      }
    }
    this.#core.sharedWords.doubt(callee)
    const { overflow } = callee.settings.mailbox
    if (overflow === 'block') {
      this.#core.admission.waits(callee, envelope)
      callee.mailbox.parked.push(envelope)
      return this.admit(callee)
    }
    const inItsWay = overflow === 'drop_oldest' ? this.#inTheWayOf(callee, envelope) : undefined
    if (!inItsWay) return this.#turnAway(callee, envelope, overflow)
    team.force(callee.index, envelope.bytes)
    this.#admit(callee, envelope)
    for (const dropped of inItsWay) this.#drop(callee, dropped)
  }

  /** A full mailbox does not take it. Who sends to one that drops is not told: it does not mind losses. */
  #turnAway(callee: Cell, envelope: Envelope<RunState>, overflow: Overflow): void {
    const { run, memory, at } = envelope
    run.open -= 1
    const sender = this.#core.cells[senderOf(envelope.memory, envelope.at)]!
    const request = this.#core.settlement.requestOf(envelope)
    if (request) sender.open.delete(request.correlation)
    const error = mailboxFull(callee, overflow)
    if (overflow === 'reject')
      return this.#core.verdicts.refuse(sender, run, memory, at, 'rejected', error, request?.settle)
    if (kindOf(memory, at) === REQUEST)
      return this.#core.verdicts.refuse(sender, run, memory, at, 'overflow', error, request?.settle)
    this.#core.journal.deadLetter(run, memory, at, 'overflow', [error])
    this.#accepted(sender, envelope)
  }

  /**
   * What has to go so that there is room for it: of what waits and has no higher priority the lowest first, then the
   * oldest. undefined: that would not be enough. What has its room and is still on its way here keeps it.
   */
  #inTheWayOf({ index, mailbox, settings }: Cell, envelope: Envelope<RunState>): Envelope<RunState>[] | undefined {
    const overdraft = this.#core.team.overdraft(index)
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
    const { settlement } = this.#core
    const error = mailboxFull(callee, 'drop_oldest')
    const request = settlement.requestOf(envelope)
    if (!callee.mailbox.discard(envelope)) return // the end of another has withdrawn it
    settlement.drop(envelope, 'overflow', [error])
    if (request) settlement.answerWithError(request, error)
    this.freed(callee, envelope.bytes)
  }

  #admit(callee: Cell, envelope: Envelope<RunState>): void {
    this.#accepted(this.#core.cells[senderOf(envelope.memory, envelope.at)]!, envelope)
    this.#core.admission.accept(callee, envelope)
  }

  /** Who had to ask for room goes on. */
  #accepted(sender: Cell, { run, memory, at }: Envelope<RunState>): void {
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0)
      this.#core.verdicts.give(sender, run, memory, at, undefined)
  }

  /** A message has left the mailbox: its room goes to who waits for it, else back to all. */
  freed(callee: Cell, bytes: number): void {
    this.#core.team.release(callee.index, bytes)
    this.admit(callee)
    if (callee.mailbox.waiting > 0) this.#core.delivery.touch(callee) // what stood behind it may come
  }

  /**
   * The first of the parked has its room taken beforehand, so that nobody passes it by. It goes in when that room is
   * free; a message larger than the mailbox when nothing else is there.
   */
  admit(callee: Cell): void {
    const { team } = this.#core
    const { mailbox } = callee
    for (let first = mailbox.parked.peek(); first && !callee.gone; first = mailbox.parked.peek()) {
      if (mailbox.expected !== first) {
        mailbox.expected = first
        team.force(callee.index, first.bytes)
      }
      const alone = first.bytes > callee.settings.mailbox.bytes && mailbox.empty
      if (!alone && team.overdrawn(callee.index)) return this.#core.sharedWords.doubt(callee)
      mailbox.parked.shift()
      this.#admit(callee, first)
    }
  }

  /** Takes back a message that waits for room, or for other tasks; false: it does not. */
  withdrawParked(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): boolean {
    const { mailbox } = callee
    if (this.#core.held.remove(envelope)) return true
    if (!mailbox.parked.remove(envelope)) return false
    if (kindOf(envelope.memory, envelope.at) === SEND) this.#core.verdicts.refuseParked(envelope, reason)
    if (mailbox.expected === envelope) this.freed(callee, envelope.bytes)
    return true
  }
}

/** What a full mailbox does with a message, for who is told of it. */
const FATES = {
  reject: "its overflow policy is 'reject'",
  drop_newest: "its overflow policy is 'drop_newest', so what comes now is dropped",
  drop_oldest: "its overflow policy is 'drop_oldest', so this message was dropped",
}

function mailboxFull({ name, settings }: Cell, overflow: Overflow): MailboxFullError {
  const { capacity, bytes } = settings.mailbox
  return new MailboxFullError(
    `The mailbox of agent "${name}" is full (${capacity} messages or ${bytes} bytes); ${FATES[overflow]}. Send more slowly, or raise communication.mailboxCapacity.`,
    { agent: name, capacity, bytes, overflow },
  )
}
