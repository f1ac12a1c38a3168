/**
 * Puts messages into mailboxes and takes them out, and gives out room: it decides about messages that find no room, and
 * who gets the room that is freed. Most messages have their room already, because their senders have reserved it.
 */

import { policyOf } from '../../actors/definition/role-config.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import { CLAIM } from '../../mailbox/channel.ts'
import { answering, isFailure, jsonIn, subTaskAt } from '../../mailbox/codec.ts'
import type { DeadLetterReason } from '../../mailbox/dead-letters.ts'
import {
  ACCEPTED,
  ASKS,
  CORRELATION,
  copyId,
  correlationOf,
  flagsOf,
  idOf,
  KIND,
  kindOf,
  type Memory,
  REFUSED,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  SEND,
  senderOf,
  setCorrelation,
  setRecipient,
  stepOf,
  turnOf,
  typeOf,
  WHO,
} from '../../mailbox/frame.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Timer } from '../../shared/clock.ts'
import { type DramatisError, MailboxFullError } from '../../shared/errors.ts'
import type { OwnFrame } from '../log/host-frames.ts'
import type { Agent, OpenRequest } from './agent.ts'
import type { Core } from './core.ts'
import type { ReplyQueue } from './replies.ts'
import type { RunState } from './run.ts'

export type Offered = Pick<AgentTask, 'requiredCapabilities' | 'deadline' | 'dependencies' | 'parentTask'>

export function offered(data: unknown): Offered {
  const { requiredCapabilities, deadline, dependencies, parentTask } = Object(data) as Record<string, unknown>
  return {
    requiredCapabilities: texts(requiredCapabilities),
    deadline: typeof deadline === 'number' ? deadline : null,
    dependencies: texts(dependencies),
    parentTask: typeof parentTask === 'string' ? parentTask : null,
  }
}

export const offeredIn = (memory: Memory, at: number): Offered => offered(jsonIn(readBody(memory, at).data))

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((text) => typeof text === 'string') : []

export const hasDependencies = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST && typeOf(memory, at) === 'delegate' && offeredIn(memory, at).dependencies.length > 0

/** Interval of the checks of a mailbox that is empty and has no room. */
const CHECK_MS = 50
/** Number of checks before its room is given back: a message may be on its way. */
const CHECKS = 5
/** The same if a thread says that it is about to send there: the system may not let it run for long. */
const MOST_CHECKS = 100

export class Mailboxes {
  readonly #core: Core
  readonly #requests: Requests
  /** Empty mailboxes that have no room by the words, with the messages that they had accepted by then. */
  readonly #denied = new Map<Agent, { readonly accepted: number; checks: number }>()
  #checkTimer: Timer | undefined

  constructor(core: Core, requests: Requests) {
    this.#core = core
    this.#requests = requests
  }

  /** Accepts a message that has its room. */
  accept(callee: Agent, envelope: Envelope<RunState>): void {
    if (callee.settings.queueTimeoutMs !== false) this.#waits(callee, envelope)
    callee.mailbox.line.push(envelope)
    if (envelope.priority > 0) this.#hasten(callee)
    else this.#core.ready.touch(callee)
  }

  /** Takes a message of an earlier process, which had accepted it. Its room is taken. */
  restore(callee: Agent, envelope: Envelope<RunState>): void {
    this.#waits(callee, envelope)
    callee.mailbox.restore(envelope, false)
    this.#core.ready.touch(callee)
  }

  /**
   * Accepts a message that runs within an open turn. It takes the room that it needs even in a full mailbox: the
   * messages there wait for that turn.
   */
  acceptNested(callee: Agent, envelope: Envelope<RunState>): void {
    if (flagsOf(envelope.memory, envelope.at) & ASKS) this.#core.team.force(callee.index, envelope.bytes)
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    this.#hasten(callee)
  }

  /** Prioritizes all instances: any free one takes the message. */
  #hasten(callee: Agent): void {
    for (const each of callee.instances) this.#core.ready.hasten(each)
  }

  /** Starts the waiting time of a message when it arrives, also if there was no room for it. */
  #waits({ settings }: Agent, envelope: Envelope<RunState>): void {
    if (settings.queueTimeoutMs === false || envelope.waitsSince !== NOT_YET) return
    envelope.waitsSince = this.#core.clock.monotonic()
  }

  /**
   * Accepts a message whose sender found no room if there is room by now, else applies the overflow policy. A message
   * larger than the mailbox is accepted when it is alone.
   */
  admitOrOverflow(callee: Agent, envelope: Envelope<RunState>): void {
    const { team } = this.#core
    if (callee.mailbox.pending.length === 0) {
      if (team.reserve(callee.index, envelope.bytes)) return this.#admit(callee, envelope)
      if (envelope.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty) {
        team.force(callee.index, envelope.bytes)
        return this.#admit(callee, envelope)
      }
    }
    this.#noteDenied(callee)
    const { waits, displaces } = policyOf(callee.settings.mailbox.overflow)
    if (waits) {
      this.#waits(callee, envelope)
      callee.mailbox.pending.push(envelope)
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
  #turnAway(callee: Agent, envelope: Envelope<RunState>): void {
    const { run, memory, at } = envelope
    run.messageEnded()
    const sender = this.#core.directory.byIndex[senderOf(envelope.memory, envelope.at)]!
    const request = this.#requests.of(envelope)
    if (request) sender.open.delete(request.correlation)
    const error = mailboxFull(callee)
    if (policyOf(callee.settings.mailbox.overflow).refuses)
      return this.#requests.turnAway({ sender, run, memory, at, settle: request?.settle }, 'rejected', error)
    if (kindOf(memory, at) === REQUEST)
      return this.#requests.turnAway({ sender, run, memory, at, settle: request?.settle }, 'overflow', error)
    this.#core.journal.deadLetter(run, memory, at, 'overflow', [error])
    this.#accepted(sender, envelope)
  }

  /**
   * Returns the messages to drop so that this one has room: of the waiting messages without a higher priority the
   * lowest first, then the oldest. Returns undefined if that is not enough. Messages on their way here keep their room.
   */
  #inTheWayOf({ index, mailbox, settings }: Agent, envelope: Envelope<RunState>): Envelope<RunState>[] | undefined {
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

  #drop(callee: Agent, envelope: Envelope<RunState>): void {
    const error = mailboxFull(callee)
    if (this.takeOut(callee, envelope, 'overflow', [error], error)) this.freed(callee, envelope.bytes)
  }

  /**
   * Removes a message that waits or that an instance has, and dead-letters it. With `told`, a caller that waits for an
   * answer gets that error. The room of the message is still taken. Returns false if the end of another turn has
   * already withdrawn the message.
   */
  takeOut(
    callee: Agent,
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
    const request = told && this.#requests.of(envelope)
    envelope.run.messageEnded(envelope)
    this.#core.journal.deadLetter(envelope.run, envelope.memory, envelope.at, reason, errors)
    if (request) this.#requests.answerWithError(request, told)
  }

  #admit(callee: Agent, envelope: Envelope<RunState>): void {
    this.#accepted(this.#core.directory.byIndex[senderOf(envelope.memory, envelope.at)]!, envelope)
    this.accept(callee, envelope)
  }

  /** Sends the acknowledgement to a sender that had to ask for room: it goes on. */
  #accepted(sender: Agent, { run, memory, at }: Envelope<RunState>): void {
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0)
      this.#requests.acknowledge(sender, run, memory, at)
  }

  /** Returns the room of a message that has left the mailbox: to the sender that waits for it, else to all. */
  freed(callee: Agent, bytes: number): void {
    const { line } = callee.mailbox
    this.#core.team.release(callee.index, bytes)
    if (line.pending.length > 0) this.admit(callee)
    if (line.waiting > 0) this.#core.ready.touch(callee) // those behind it may be next
  }

  /**
   * Admits parked messages. The room of the first one is taken beforehand, so that no other message gets it. The
   * message enters when that room is free; a message larger than the mailbox enters when the mailbox is empty.
   */
  admit(callee: Agent): void {
    const { mailbox } = callee
    for (let first = mailbox.pending.peek(); first && !callee.gone; first = mailbox.pending.peek()) {
      if (mailbox.expected !== first) {
        mailbox.expected = first
        this.#core.team.force(callee.index, first.bytes)
      }
      const alone = first.bytes > callee.settings.mailbox.bytes && mailbox.empty
      if (!alone && this.#core.team.overdrawn(callee.index)) return this.#noteDenied(callee)
      mailbox.pending.shift()
      this.#admit(callee, first)
    }
  }

  // ---- room that the words of shared memory deny

  /**
   * Notes that an empty mailbox has no room by the words: for messages on their way, or because other code than the
   * runtime's has written there. The latter is set right, since its senders would wait for ever.
   */
  #noteDenied({ first }: Agent): void {
    const { accepted, empty } = first.mailbox
    if (!empty || this.#denied.has(first)) return
    this.#denied.set(first, { accepted, checks: 0 })
    this.#checkTimer ??= this.#core.clock.timer(CHECK_MS, this.#checkDenied, true)
  }

  readonly #checkDenied = () => {
    this.#checkTimer = undefined
    for (const [callee, denied] of this.#denied) {
      const { gone, mailbox, removed } = callee
      denied.checks += 1
      if (gone || removed || !mailbox.empty || mailbox.accepted !== denied.accepted) this.#denied.delete(callee)
      else if (denied.checks >= CHECKS && (denied.checks >= MOST_CHECKS || !this.#isReserved(callee))) {
        this.#denied.delete(callee)
        this.#setRoom(callee)
      }
    }
    if (this.#denied.size > 0) this.#checkTimer ??= this.#core.clock.timer(CHECK_MS, this.#checkDenied, true)
  }

  #isReserved({ index }: Agent): boolean {
    return this.#core.directory.living.some(
      ({ incarnation }) => incarnation && Math.abs(Atomics.load(incarnation.channel.words, CLAIM)) === index + 1,
    )
  }

  /** Gives an empty mailbox its room back, but that of the message which is to enter next. */
  #setRoom(callee: Agent): void {
    const { loop, repairs, team } = this.#core
    const { index, mailbox, name: agent, settings } = callee
    const { capacity: messages, bytes } = settings.mailbox
    const next = mailbox.expected
    const expected = next ? { messages: messages - 1, bytes: bytes - next.bytes } : { messages, bytes }
    const found = team.room(index)
    team.restoreLargest(index)
    team.setRoom(index, expected)
    repairs.report({ agent, word: 'room', expected, found })
    this.admit(callee)
    loop.wake() // no tick may be under way
  }

  /** Withdraws a message that waits for room or for other tasks. Returns false if it does not wait. */
  withdrawPending(callee: Agent, envelope: Envelope<RunState>, reason: DramatisError): boolean {
    const { mailbox } = callee
    if (this.#core.blocked.remove(envelope)) return true
    if (!mailbox.pending.remove(envelope)) return false
    if (kindOf(envelope.memory, envelope.at) === SEND) this.#requests.refusePending(envelope, reason)
    if (mailbox.expected === envelope) this.freed(callee, envelope.bytes)
    return true
  }
}

function mailboxFull({ name, settings }: Agent): MailboxFullError {
  const { capacity, bytes, overflow } = settings.mailbox
  return new MailboxFullError(
    `The mailbox of agent "${name}" is full (${capacity} messages or ${bytes} bytes); ${policyOf(overflow).fate}. Send more slowly, or raise communication.mailboxCapacity.`,
    { agent: name, capacity, bytes, overflow },
  )
}

export type Refusal = 'unknown_agent' | 'stopped' | 'rejected' | 'cancelled' | 'overflow'

/** Message in memory that an agent or caller wants to send. `settle`: a caller in the host takes the answer. */
export interface Sending {
  readonly sender: Agent
  readonly run: RunState
  readonly memory: Memory
  readonly at: number
  readonly settle?: OpenRequest['settle'] | undefined
}

/** Destination of an answer: the caller, the correlation, and the caller's turn. */
export interface Asked extends Pick<OpenRequest, 'caller' | 'correlation' | 'run' | 'turn' | 'settle'> {
  /** Index of the agent that was asked; 0: the runtime. */
  readonly from: number
  /** Message of the request; the answer has its id. */
  readonly memory: Memory
  readonly at: number
}

export class Requests {
  readonly #core: Core
  readonly #replies: ReplyQueue
  /**
   * Requests whose duty was handed off, by the message that has the duty now. Its sender is not the caller that waits.
   */
  readonly #moved = new WeakMap<Envelope<RunState>, OpenRequest>()

  constructor(core: Core, replies: ReplyQueue) {
    this.#core = core
    this.#replies = replies
  }

  /** Returns the request that a message is, if its caller still waits. */
  of(envelope: Envelope<RunState>): OpenRequest | undefined {
    const { i32 } = envelope.memory
    const i = envelope.at >> 2
    if ((i32[i + KIND]! & 0xff) !== REQUEST) return undefined
    const request = this.#core.directory.byIndex[i32[i + WHO]! & 0xffff]!.open.get(i32[i + CORRELATION]!)
    if (request?.envelope === envelope) return request
    const duty = this.#moved.get(envelope)
    return duty?.envelope === envelope && duty.caller.open.get(duty.correlation) === duty ? duty : undefined
  }

  withId(messageId: string): OpenRequest | undefined {
    for (const agent of this.#core.directory.byIndex)
      for (const request of agent.open.values())
        if (idOf(request.envelope.memory, request.envelope.at) === messageId) return request
    return undefined
  }

  /**
   * Moves a duty to the message of a handoff offer: the caller of the old request waits for that message from now on.
   */
  move(duty: OpenRequest, offer: OpenRequest): void {
    offer.caller.open.delete(offer.correlation)
    if (typeOf(duty.envelope.memory, duty.envelope.at) === 'delegate') duty.replaced += 1
    duty.callee = offer.callee
    duty.envelope = offer.envelope
    duty.tried = 1
    duty.grantedMs = 0
    this.#moved.set(offer.envelope, duty)
  }

  /** Opens a request of an earlier process again. Its message may be the offer of a handoff that was accepted. */
  restore(request: OpenRequest): void {
    const { caller, correlation, envelope } = request
    const { memory, at } = envelope
    caller.open.set(correlation, request)
    if (senderOf(memory, at) !== caller.index || correlationOf(memory, at) !== correlation)
      this.#moved.set(envelope, request)
  }

  madeFor(caller: Agent, call: number): OpenRequest | undefined {
    for (const request of caller.open.values()) {
      const { memory, at } = request.envelope
      if (request.correlation < 0 && stepOf(memory, at) === call) return request
    }
    return undefined
  }

  settle(request: OpenRequest, memory: Memory, at: number): void {
    const { caller, correlation, group, settle, turn } = request
    caller.open.delete(correlation)
    if (group && group.need > 1 && !isFailure(memory, at)) group.need -= 1
    if (settle) return settle(memory, at)
    this.#replies.passOn(caller, memory, at, RESPONSE, turn)
  }

  /**
   * Gives an answer of the agent that has the duty now to the original caller, under the correlation of its request.
   */
  conclude(duty: OpenRequest, memory: Memory, at: number): void {
    setRecipient(memory, at, duty.caller.index)
    setCorrelation(memory, at, duty.correlation)
    this.settle(duty, memory, at)
  }

  /** Dead-letters a message and gives its sender the reason. */
  turnAway({ sender, run, memory, at, settle }: Sending, reason: Refusal, error: DramatisError): void {
    this.#core.journal.deadLetter(run, memory, at, reason, [error])
    const correlation = correlationOf(memory, at)
    if (kindOf(memory, at) === REQUEST) {
      const from = this.#core.directory.byIndex[recipientOf(memory, at)]?.index ?? 0
      this.refuse({ caller: sender, correlation, run, turn: turnOf(memory, at), settle, from, memory, at }, error)
    } else if (correlation !== 0) this.acknowledge(sender, run, memory, at, error)
  }

  /** Gives a sender that had to ask for room the outcome. `error`: the message was refused. */
  acknowledge(sender: Agent, run: RunState, memory: Memory, at: number, error?: DramatisError): void {
    const correlation = correlationOf(memory, at)
    const inHost = sender.acknowledgements.get(correlation)
    if (inHost) {
      sender.acknowledgements.delete(correlation)
      return inHost(error)
    }
    const { frames, journal } = this.#core
    const fields = { sender: 0, recipient: sender.index, run: run.index, turn: turnOf(memory, at), correlation }
    const frame = error ? frames.failure(REFUSED, fields, error) : frames.make({ kind: ACCEPTED, ...fields })
    journal.appendOwned(run, frame.memory, frame.bytes)
    this.#replies.reply(sender, frame)
  }

  /** Refuses a send that still waited for room: it will never get any. */
  refusePending({ memory, at, run }: Envelope<RunState>, error: DramatisError): void {
    if (correlationOf(memory, at) === 0) return
    this.acknowledge(this.#core.directory.byIndex[senderOf(memory, at)]!, run, memory, at, error)
  }

  /**
   * Answers a request with an error that the host makes. The error is in the log too, so a redelivered turn gets the
   * same answer.
   */
  answerWithError(request: OpenRequest, error: DramatisError): void {
    if (!request.caller.open.delete(request.correlation)) return
    const { caller, correlation, run, turn, settle, callee, envelope } = request
    const { memory, at } = envelope
    this.refuse({ caller, correlation, run, turn, settle, from: callee.index, memory, at }, error)
  }

  /**
   * Logs the result of a sub-task whose caller waits no longer. It comes after the log of the withdrawal, so no turn
   * takes it for its answer. A duty that is only offered has the result of the agent that still has it.
   */
  logResult({ caller, correlation, run, turn, callee, envelope, offers }: OpenRequest, error: DramatisError): void {
    const { memory, at } = envelope
    if (!offers && subTaskAt(memory, at))
      this.#logFailure({ caller, correlation, run, turn, from: callee.index, memory, at }, error)
  }

  #logFailure(
    { caller, correlation, run, turn, from, memory, at }: Omit<Asked, 'settle'>,
    error: DramatisError,
  ): OwnFrame {
    const whose = { sender: from, recipient: caller.index, run: run.index, turn, correlation }
    const frame = this.#core.frames.failure(RESPONSE, { ...whose, ...answering(memory, at) }, error)
    copyId(memory, at, frame.memory, 0)
    this.#core.journal.appendOwned(run, frame.memory, frame.bytes)
    return frame
  }

  /** Answers a request that was never open with an error. */
  refuse(asked: Asked, error: DramatisError): void {
    const { caller, settle } = asked
    const frame = this.#logFailure(asked, error)
    if (settle) settle(frame.memory, 0)
    else this.#replies.reply(caller, frame)
    this.#core.loop.wake()
  }
}
