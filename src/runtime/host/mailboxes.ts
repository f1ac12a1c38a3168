/**
 * Puts messages into mailboxes and takes them out, and gives out room: it decides about messages that find no room, and
 * who gets the room that is freed. Most messages have their room already, because their senders have claimed it.
 */

import { policyOf } from '../../actors/definition/role-config.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import { CLAIM } from '../../mailbox/channel.ts'
import { answering, isFailure, jsonIn } from '../../mailbox/codec.ts'
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
import { HOST_ASLEEP, type Room, type TeamMemory } from '../../mailbox/team-memory.ts'
import type { Clock, Scheduler, Timer } from '../../shared/clock.ts'
import { type DramatisError, MailboxFullError } from '../../shared/errors.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { Cell, HeldTask, OpenRequest } from './agent.ts'
import type { HostLoop, Ready, WordRepairs } from './core.ts'
import type { AgentDirectory } from './directory.ts'
import type { Journal } from './journal.ts'
import type { ReplyLane } from './replies.ts'
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

/** Returns the task fields of the delegation at `at`. */
export const offeredIn = (memory: Memory, at: number): Offered => offered(jsonIn(readBody(memory, at).data))

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((text) => typeof text === 'string') : []

/*
 * Tasks that their agents get only when other tasks are done. Such a task is
 * in no mailbox, so it takes no room and blocks nothing. task-board.ts decides when it is released.
 */

export class BlockedTasks {
  /** Held tasks by the ids of their messages. */
  readonly #held = new Map<string, HeldTask>()

  /**
   * Holds a task. Returns false if a task of that id is held already: only a thread that forges frames can cause that.
   */
  hold(callee: Cell, envelope: Envelope<RunState>): boolean {
    const id = idOf(envelope.memory, envelope.at)
    if (this.#held.has(id)) return false
    this.#held.set(id, { callee, envelope, waitsFor: new Set() })
    return true
  }

  get(id: string): HeldTask | undefined {
    return this.#held.get(id)
  }

  of(envelope: Envelope<RunState>): HeldTask | undefined {
    if (this.#held.size === 0) return undefined
    const held = this.#held.get(idOf(envelope.memory, envelope.at))
    return held?.envelope === envelope ? held : undefined
  }

  get all(): HeldTask[] {
    return [...this.#held.values()]
  }

  /** Removes a task. Returns false if it is not held. */
  remove(envelope: Envelope<RunState>): boolean {
    return this.of(envelope) !== undefined && this.#held.delete(idOf(envelope.memory, envelope.at))
  }
}

/** Checks whether a message is a task that depends on others. */
export const hasDependencies = (memory: Memory, at: number): boolean =>
  kindOf(memory, at) === REQUEST && typeOf(memory, at) === 'delegate' && offeredIn(memory, at).dependencies.length > 0

interface MailboxesNeeds {
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
  readonly #needs: MailboxesNeeds

  constructor(needs: MailboxesNeeds) {
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

interface ReceiptsNeeds {
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly replies: ReplyLane
  readonly requests: Requests
}

export class Receipts {
  readonly #needs: ReceiptsNeeds

  constructor(needs: ReceiptsNeeds) {
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

interface RequestsNeeds {
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly replies: ReplyLane
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
  readonly #needs: RequestsNeeds
  /**
   * Requests whose duty was handed off, by the message that has the duty now. Its sender is not the caller that waits.
   */
  readonly #moved = new WeakMap<Envelope<RunState>, OpenRequest>()

  constructor(needs: RequestsNeeds) {
    this.#needs = needs
  }

  /** Returns the request that a message is, if its caller still waits. */
  of(envelope: Envelope<RunState>): OpenRequest | undefined {
    const { i32 } = envelope.memory
    const i = envelope.at >> 2
    if ((i32[i + KIND]! & 0xff) !== REQUEST) return undefined
    const request = this.#needs.directory.cells[i32[i + WHO]! & 0xffff]!.open.get(i32[i + CORRELATION]!)
    if (request?.envelope === envelope) return request
    const duty = this.#moved.get(envelope)
    return duty?.envelope === envelope && duty.caller.open.get(duty.correlation) === duty ? duty : undefined
  }

  withId(messageId: string): OpenRequest | undefined {
    for (const cell of this.#needs.directory.cells)
      for (const request of cell.open.values())
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
  takeUp(request: OpenRequest): void {
    const { caller, correlation, envelope } = request
    const { memory, at } = envelope
    caller.open.set(correlation, request)
    if (senderOf(memory, at) !== caller.index || correlationOf(memory, at) !== correlation)
      this.#moved.set(envelope, request)
  }

  madeFor(caller: Cell, call: number): OpenRequest | undefined {
    for (const request of caller.open.values()) {
      const { memory, at } = request.envelope
      if (request.correlation < 0 && stepOf(memory, at) === call) return request
    }
    return undefined
  }

  /** Gives the answer at `at` to the caller that waits for it. */
  settle(request: OpenRequest, memory: Memory, at: number): void {
    const { caller, correlation, group, settle, turn } = request
    caller.open.delete(correlation)
    if (group && group.need > 1 && !isFailure(memory, at)) group.need -= 1
    if (settle) return settle(memory, at)
    this.#needs.replies.passOn(caller, memory, at, RESPONSE, turn)
  }

  /**
   * Gives an answer of the agent that has the duty now to the original caller, under the correlation of its request.
   */
  conclude(duty: OpenRequest, memory: Memory, at: number): void {
    setRecipient(memory, at, duty.caller.index)
    setCorrelation(memory, at, duty.correlation)
    this.settle(duty, memory, at)
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

  /** Answers a request that was never open with an error. */
  refuse({ caller, correlation, run, turn, settle, from, memory, at }: Asked, error: DramatisError): void {
    const { frames, journal, loop, replies } = this.#needs
    const whose = { sender: from, recipient: caller.index, run: run.index, turn, correlation }
    const frame = frames.failure(RESPONSE, { ...whose, ...answering(memory, at) }, error)
    copyId(memory, at, frame.memory, 0)
    journal.appendOwned(run, frame.memory, frame.bytes)
    if (settle) settle(frame.memory, 0)
    else replies.reply(caller, frame)
    loop.wake()
  }
}

/*
 * Checks the few words that all threads of a team share: the room of each mailbox, whether the host sleeps, whether an
 * agent waits for a permit (team-memory.ts). Threads write there directly, and code in any thread can write anything.
 * So the host does not trust these words where a wait depends on them: it has its own records of mailboxes, sleep and
 * waits, and looks at the frames of all agents now and then, whoever is marked.
 * It compares when a message waits for room that a mailbox should have, and with the slow check of the watchdog. It
 * repairs words that differ, and reports that.
 */

/**
 * Number and interval of checks before a repair. A message on its way has its room and is in no mailbox yet. So if the
 * words show less room than the host's records, that is an error only if it stays so, and if no sender claims room
 * meanwhile: in a flood some messages are always on their way. A thread that was stopped by the system after its claim
 * says so in its note (mailbox/channel.ts).
 */
const LOOKS = 5
const LOOK_MS = 50
/**
 * Number of checks that pass over a mailbox while the note of a live thread says that it is about to send there: the
 * system may not let that thread run for long. There is a limit, since code in the thread can write such a note, too.
 */
const LOOKS_AT_CLAIMS = 100
/** Number of agents that the slow check compares at a time: a team can have thousands. */
const COMPARED = 1_024
/** Interval of the host's own checks after a thread has suppressed its wake-ups. */
const WITHOUT_BELL_MS = 20

/** A mailbox that may have room though the words deny it. */
interface Doubt {
  /** Number of checks in a row that found this. */
  looks: number
  /** Number of checks passed over since then, because a thread was about to send. */
  passed: number
  /** Number of messages that the host admitted since the doubt began, because their senders found no room. */
  admitted: number
  /** Messages whose senders had claimed their room, at the last check. */
  claims: number
}

interface SharedWordsNeeds {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly loop: HostLoop
  readonly repairs: WordRepairs
  readonly team: TeamMemory
  /** Admits waiting messages to a mailbox that has room. */
  admit(callee: Cell): void
}

export class SharedWords {
  readonly #needs: SharedWordsNeeds
  readonly #doubts = new Map<Cell, Doubt>()
  #timer: Timer | undefined
  #ticks = 0
  #bellIsSilenced = false
  /**
   * True if the last check found that a thread had woken the host, and no wake-up. It may be on its way: the system can
   * stop a thread before it has posted it.
   */
  #wasUnheard = false
  /** Index of the agent that is compared next. */
  #next = 0

  constructor(needs: SharedWordsNeeds) {
    this.#needs = needs
  }

  /** Longest time until the next check of the watchdog, in ms. */
  get lookMs(): number {
    return this.#bellIsSilenced ? WITHOUT_BELL_MS : Number.POSITIVE_INFINITY
  }

  /**
   * Handles a message without room. If the mailbox is not full, messages on their way or a forged word can be the
   * reason.
   */
  doubt({ instances: [callee] }: Cell): void {
    const { mailbox, settings } = callee!
    if (callee!.gone || this.#doubts.has(callee!)) return
    if (mailbox.waiting + mailbox.underWay >= settings.mailbox.capacity) return
    this.#doubts.set(callee!, { looks: 0, passed: 0, admitted: 0, claims: mailbox.accepted })
    this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** Notes that a message was admitted whose sender found no room. */
  admitted({ instances: [callee] }: Cell): void {
    const doubt = this.#doubts.size > 0 ? this.#doubts.get(callee!) : undefined
    if (doubt) doubt.admitted += 1
  }

  readonly #lookAtDoubts = () => {
    this.#timer = undefined
    for (const [callee, doubt] of [...this.#doubts]) {
      this.#note(callee, doubt)
      const denied = !callee.gone && this.#isDenied(callee)
      if (!denied || doubt.looks >= LOOKS) this.#doubts.delete(callee)
      if (denied && doubt.looks >= LOOKS) this.#setRoom(callee)
    }
    if (this.#doubts.size > 0) this.#timer ??= this.#needs.clock.timer(LOOK_MS, this.#lookAtDoubts, true)
  }

  /** Counts this check, if no sender has claimed room since the last one and none is about to use its claim. */
  #note(callee: Cell, doubt: Doubt): void {
    const claims = callee.mailbox.accepted - doubt.admitted
    const isMoving = claims !== doubt.claims
    const isPassed = !isMoving && doubt.passed < LOOKS_AT_CLAIMS && this.#isClaimed(callee)
    doubt.looks = isMoving || isPassed ? 0 : doubt.looks + 1
    if (isMoving) doubt.passed = 0
    if (isPassed) doubt.passed += 1
    doubt.claims = claims
  }

  /** Checks whether a live thread has claimed room there for a message that it has not written yet. */
  #isClaimed({ index }: Cell): boolean {
    return this.#needs.directory.living.some(
      ({ life }) => life && Math.abs(Atomics.load(life.window.words, CLAIM)) === index + 1,
    )
  }

  /** Does the slow check of the watchdog, while a turn is open somewhere. */
  look(): void {
    const { directory, loop, repairs, team } = this.#needs
    const isUnheard = loop.ticks === this.#ticks && Atomics.load(team.words, HOST_ASLEEP) !== 1
    if (isUnheard && this.#wasUnheard && !this.#bellIsSilenced) {
      this.#bellIsSilenced = true
      repairs.report({ word: 'host asleep' })
    }
    this.#wasUnheard = isUnheard
    team.allWrote()
    loop.kick()
    this.#ticks = loop.ticks
    const { cells } = directory
    for (let left = Math.min(COMPARED, cells.length); left > 0; left--) {
      const cell = cells[this.#next % cells.length]!
      this.#next = (this.#next + 1) % cells.length
      if (!cell.gone && !cell.removed) this.#compare(cell)
    }
  }

  #compare(cell: Cell): void {
    const { team } = this.#needs
    if (team.restoreLargest(cell.index)) {
      this.#needs.repairs.report({ agent: cell.name, word: 'largest message' })
      this.#admit(cell)
    }
    const { capacity } = cell.settings.mailbox
    const { messages } = team.room(cell.index)
    if (messages > capacity - countOf(cell)) this.#setRoom(cell)
    else if (isLess(messages, capacity - countOf(cell)) || this.#isDenied(cell)) this.doubt(cell)
  }

  /** Checks whether the words show less than half of the real room. */
  #isDenied(callee: Cell): boolean {
    const { team } = this.#needs
    if (team.restoreLargest(callee.index)) return true
    const said = team.room(callee.index)
    const known = roomOf(callee)
    return isLess(said.messages, known.messages) || isLess(said.bytes, known.bytes)
  }

  #setRoom(callee: Cell): void {
    const { team } = this.#needs
    const found = team.room(callee.index)
    const expected = roomOf(callee)
    team.setRoom(callee.index, expected)
    this.#needs.repairs.report({ agent: callee.name, word: 'room', expected, found })
    this.#admit(callee)
  }

  #admit(callee: Cell): void {
    this.#needs.admit(callee)
    this.#needs.loop.wake() // no tick may be under way
  }
}

const isLess = (said: number, known: number): boolean => said < known && 2 * said < known

/** Returns the message that waits for room and has taken it already. */
const expectedAt = ({ mailbox }: Cell): Envelope<RunState> | undefined => {
  const first = mailbox.parked.peek()
  return first && first === mailbox.expected ? first : undefined
}

/** Returns the number of messages that have room in a mailbox. */
const countOf = (cell: Cell): number => cell.mailbox.waiting + cell.mailbox.underWay + (expectedAt(cell) ? 1 : 0)

/** Returns the free room of a mailbox by the host's own records; below zero if it holds more than its limit. */
function roomOf(cell: Cell): Room {
  const { instances, mailbox, settings } = cell
  let { bytes } = settings.mailbox
  for (const envelope of mailbox.queued()) bytes -= envelope.bytes
  for (const each of instances) for (const envelope of each.mailbox.handed.all()) bytes -= envelope.bytes
  return { messages: settings.mailbox.capacity - countOf(cell), bytes: bytes - (expectedAt(cell)?.bytes ?? 0) }
}
