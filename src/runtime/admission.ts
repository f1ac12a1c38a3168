/** Whether a message gets into its mailbox: who it is for, whether they take it, whether there is room. */
import {
  AgentTerminatedError,
  ChainDepthError,
  type DramatisError,
  MailboxFullError,
  MessageRejectedError,
  type UnknownAgentError,
} from '../errors.ts'
import {
  ACCEPTED,
  ASKS,
  correlationOf,
  flagsOf,
  HAS_NAME,
  kindOf,
  lengthOf,
  MOST_GROUPS,
  NOBODY,
  priorityOf,
  REFUSED,
  REQUEST,
  recipientOf,
  SEND,
  SIGNALLED,
  STREAMS,
  senderOf,
  setFlag,
  TO_ALL,
  takePolicy,
  turnOf,
  typeOf,
  waitingOf,
} from '../mailbox/frame.ts'
import { readBody } from '../mailbox/frame-body.ts'
import { type Envelope, NOT_YET } from '../mailbox/mailbox.ts'
import type { Memory } from '../mailbox/memory.ts'
import { type Cell, groupKey, type HeldTask, type OpenRequest } from './cell.ts'
import { turnWithin } from './chain.ts'
import { type Admitting, type Core, ORCHESTRATOR_INDEX, USER_INDEX } from './core.ts'
import { delegationRefusal } from './delegation.ts'
import { hasDependencies } from './held-tasks.ts'
import type { RunState } from './run-state.ts'
import type { MailboxSettings } from './settings.ts'
import { messageRefusal } from './trust.ts'
import { unknownAgent } from './unknown-agent.ts'

type Overflow = Exclude<MailboxSettings['overflow'], 'block'>
type Refusal = 'unknown_agent' | 'stopped' | 'rejected' | 'cancelled' | 'overflow'

export class Admission implements Admitting {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** A message for somebody's mailbox, from an agent or (with `settle`) from a caller in the host. `giver`: whose task it is. */
  message(
    sender: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    settle: OpenRequest['settle'],
    giver: Cell = sender,
  ): void {
    const index = recipientOf(memory, at)
    if (index === NOBODY && flagsOf(memory, at) & TO_ALL) return this.#broadcast(sender, run, memory, at)
    const named = index === NOBODY && flagsOf(memory, at) & HAS_NAME ? readBody(memory, at).name : undefined
    const known = named === undefined ? this.#core.cells[index] : this.#named(named, sender, run)
    const callee = known?.removed ? this.#core.cell(known.name, run) : known // the run may have another of that name
    const name = named ?? callee?.name ?? `#${index}`
    const refuse = (reason: Refusal, error: DramatisError) => {
      if (callee && !(flagsOf(memory, at) & ASKS)) this.freed(callee, lengthOf(memory, at)) // its sender had claimed room
      this.#refuse(sender, run, memory, at, reason, error, settle)
    }
    if (run.ending) return refuse('cancelled', run.ending)
    const distrust = sender.settings.untrusted ? messageRefusal(sender, callee, memory, at) : undefined
    if (distrust) return refuse('rejected', distrust)
    if (!callee || !mayReach(sender, callee, run)) {
      if (callee && isReportToScript(callee, memory, at)) return this.verdict(sender, run, memory, at, undefined)
      return refuse('unknown_agent', this.unknown(name, run))
    }
    if (callee.gone) return refuse('stopped', this.#terminated(callee, callee.gone))
    const { maxMessageBytes } = callee.settings.mailbox
    if (lengthOf(memory, at) > maxMessageBytes)
      return refuse('rejected', tooLarge(callee.name, lengthOf(memory, at), maxMessageBytes))
    const refusal = delegationRefusal(this.#core, giver, callee, memory, at)
    if (refusal) return refuse('rejected', refusal)
    const isRequest = kindOf(memory, at) === REQUEST
    const isHeld = hasDependencies(memory, at)
    const within = isRequest && !isHeld ? this.#within(sender, callee, memory, at) : undefined
    if (within instanceof ChainDepthError) return refuse('rejected', within)
    const envelope: Envelope<RunState> = {
      memory,
      at,
      bytes: lengthOf(memory, at),
      run,
      priority: priorityOf(memory, at),
      within,
      turn: 0,
      attempt: 1,
      lane: 'plain',
      windowAt: 0,
      windowEnd: 0,
      handedSeq: 0,
      waitsSince: NOT_YET,
      startedAt: NOT_YET,
      begunAt: NOT_YET,
      announced: false,
      cancelled: false,
      handedOff: false,
      uncharged: 0,
      deaths: null,
    }
    if (isRequest) this.#open(sender, callee, run, memory, at, envelope, settle)
    run.open += 1
    if (isHeld && this.#core.held.hold(callee, envelope)) this.#giveBack(callee, envelope)
    else this.#enter(callee, envelope)
  }

  #enter(callee: Cell, envelope: Envelope<RunState>): void {
    if (envelope.within) this.#acceptNested(callee, envelope)
    else if (flagsOf(envelope.memory, envelope.at) & ASKS || !this.#hasRoom(callee)) this.#ask(callee, envelope)
    else this.#accept(callee, envelope)
  }

  #within(sender: Cell, callee: Cell, memory: Memory, at: number): ReturnType<typeof turnWithin> {
    if (callee.settings.reentrancy !== 'chain') return undefined
    return turnWithin(this.#core, sender, turnOf(memory, at), callee)
  }

  /** What it waits for may need the room that its sender had claimed: it asks for room when it comes. */
  #giveBack(callee: Cell, { memory, at, bytes }: Envelope<RunState>): void {
    if (flagsOf(memory, at) & ASKS) return
    setFlag(memory, at, ASKS)
    this.freed(callee, bytes)
  }

  /** Nothing that the task depends on is in its way any more. */
  release(held: HeldTask): void {
    const { callee, envelope } = held
    const within = this.#within(this.#senderOf(envelope), callee, envelope.memory, envelope.at)
    if (within instanceof ChainDepthError) return this.#core.held.fail(held, within)
    this.#core.held.remove(envelope)
    envelope.within = within
    this.#enter(callee, envelope)
    this.#core.wake()
  }

  #named(name: string, sender: Cell, run: RunState): Cell | undefined {
    return this.#core.cell(name, run) ?? (sender.settings.untrusted ? undefined : this.#core.newcomer(name))
  }

  #broadcast(sender: Cell, run: RunState, memory: Memory, at: number): void {
    const distrust = sender.settings.untrusted ? messageRefusal(sender, undefined, memory, at) : undefined
    if (distrust) return this.#refuse(sender, run, memory, at, 'rejected', distrust, undefined)
    this.#core.copies.broadcast(sender, run, memory, at)
  }

  /** Whether one that says that it has its room can have it: a mailbox that is full has to be so by what was taken. */
  #hasRoom({ index, mailbox, settings }: Cell): boolean {
    const there = mailbox.waiting + mailbox.handed.size
    return there < settings.mailbox.capacity || this.#core.team.taken(index) > there
  }

  #open(
    caller: Cell,
    callee: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    envelope: Envelope<RunState>,
    settle: OpenRequest['settle'],
  ): void {
    const correlation = correlationOf(memory, at)
    const { retries = caller.settings.retries, idempotent } = takePolicy(memory, at)
    const waiting = waitingOf(memory, at)
    const group = waiting & MOST_GROUPS
    caller.open.set(correlation, {
      caller,
      correlation,
      run,
      turn: turnOf(memory, at),
      callee,
      envelope,
      streams: (flagsOf(memory, at) & STREAMS) !== 0,
      settle,
      retries,
      idempotent,
      group: group === 0 ? undefined : caller.groups.get(groupKey(turnOf(memory, at), group)),
      signalled: (waiting & SIGNALLED) !== 0,
      tried: 1,
      grantedMs: 0,
      replaced: 0,
      offers: false,
    })
  }

  #accept(callee: Cell, envelope: Envelope<RunState>): void {
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    if (envelope.priority > 0) this.#hasten(callee)
    else this.#core.delivery.touch(callee)
  }

  /** It gets the room that it needs: what waits there waits for the turn that waits for it. */
  #acceptNested(callee: Cell, envelope: Envelope<RunState>): void {
    if (flagsOf(envelope.memory, envelope.at) & ASKS) this.#core.team.force(callee.index, envelope.bytes)
    this.#waits(callee, envelope)
    callee.mailbox.push(envelope)
    this.#hasten(callee)
  }

  /** Whichever instance is free takes it. */
  #hasten(callee: Cell): void {
    for (const each of callee.instances) this.#core.delivery.hasten(each)
  }

  /** Its time runs from when it came, whether there was room for it or not. */
  #waits({ settings }: Cell, envelope: Envelope<RunState>): void {
    if (settings.queueTimeoutMs === false || envelope.waitsSince !== NOT_YET) return
    envelope.waitsSince = this.#core.clock.monotonic()
  }

  /** The sender found no room. There may be some by now; a message larger than the mailbox is taken when it is alone. */
  #ask(callee: Cell, envelope: Envelope<RunState>): void {
    const { team } = this.#core
    if (callee.mailbox.parked.length === 0) {
      if (team.claim(callee.index, envelope.bytes)) return this.#admit(callee, envelope)
      if (envelope.bytes > callee.settings.mailbox.bytes && callee.mailbox.empty) {
        team.force(callee.index, envelope.bytes)
        return this.#admit(callee, envelope)
      }
    }
    const { overflow } = callee.settings.mailbox
    if (overflow === 'block') {
      this.#waits(callee, envelope)
      callee.mailbox.parked.push(envelope)
      return this.#admitParked(callee)
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
    const sender = this.#senderOf(envelope)
    const request = this.#core.settlement.requestOf(envelope)
    if (request) sender.open.delete(request.correlation)
    const error = mailboxFull(callee, overflow)
    if (overflow === 'reject') return this.#refuse(sender, run, memory, at, 'rejected', error, request?.settle)
    if (kindOf(memory, at) === REQUEST) return this.#refuse(sender, run, memory, at, 'overflow', error, request?.settle)
    this.#core.deadLetter(run, memory, at, 'overflow', [error])
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
    this.#accepted(this.#senderOf(envelope), envelope)
    this.#accept(callee, envelope)
  }

  /** Who had to ask for room goes on. */
  #accepted(sender: Cell, { run, memory, at }: Envelope<RunState>): void {
    if (kindOf(memory, at) === SEND && correlationOf(memory, at) !== 0) this.verdict(sender, run, memory, at, undefined)
  }

  /** A message has left the mailbox: its room goes to who waits for it, else back to all. */
  freed(callee: Cell, bytes: number): void {
    this.#core.team.release(callee.index, bytes)
    this.#admitParked(callee)
    if (callee.mailbox.waiting > 0) this.#core.delivery.touch(callee) // what stood behind it may come
  }

  /**
   * The first of the parked has its room taken beforehand, so that nobody passes it by. It goes in when that room is
   * free; a message larger than the mailbox when nothing else is there.
   */
  #admitParked(callee: Cell): void {
    const { team } = this.#core
    const { mailbox } = callee
    for (let first = mailbox.parked.peek(); first && !callee.gone; first = mailbox.parked.peek()) {
      if (mailbox.expected !== first) {
        mailbox.expected = first
        team.force(callee.index, first.bytes)
      }
      const alone = first.bytes > callee.settings.mailbox.bytes && mailbox.empty
      if (!alone && team.overdrawn(callee.index)) return
      mailbox.parked.shift()
      this.#admit(callee, first)
    }
  }

  /** Takes back a message that waits for room, or for other tasks; false: it does not. */
  withdrawParked(callee: Cell, envelope: Envelope<RunState>, reason: DramatisError): boolean {
    const { mailbox } = callee
    if (this.#core.held.remove(envelope)) return true
    if (!mailbox.parked.remove(envelope)) return false
    if (kindOf(envelope.memory, envelope.at) === SEND) this.refuseParked(envelope, reason)
    if (mailbox.expected === envelope) this.freed(callee, envelope.bytes)
    return true
  }

  #senderOf(envelope: Envelope<RunState>): Cell {
    return this.#core.cells[senderOf(envelope.memory, envelope.at)]!
  }

  /** The message is dead, and its sender is told why. */
  #refuse(
    sender: Cell,
    run: RunState,
    memory: Memory,
    at: number,
    reason: Refusal,
    error: DramatisError,
    settle: OpenRequest['settle'],
  ): void {
    this.#core.deadLetter(run, memory, at, reason, [error])
    const correlation = correlationOf(memory, at)
    if (kindOf(memory, at) === REQUEST) {
      const from = this.#core.cells[recipientOf(memory, at)]?.index ?? 0
      const turn = turnOf(memory, at)
      this.#core.settlement.answer(sender, run, correlation, from, turn, error, settle, { memory, at })
    } else if (correlation !== 0) this.verdict(sender, run, memory, at, error)
  }

  /** Tells a sender that had to ask what came of it. */
  verdict(sender: Cell, run: RunState, memory: Memory, at: number, error: DramatisError | undefined): void {
    const inHost = sender.verdicts.get(correlationOf(memory, at))
    if (inHost) {
      sender.verdicts.delete(correlationOf(memory, at))
      return inHost(error)
    }
    const fields = {
      sender: 0,
      recipient: sender.index,
      run: run.index,
      turn: turnOf(memory, at),
      correlation: correlationOf(memory, at),
    }
    const frame = error
      ? this.#core.frames.failure(REFUSED, fields, error)
      : this.#core.frames.make({ kind: ACCEPTED, ...fields })
    this.#core.appendOwned(run, frame.memory, frame.bytes)
    this.#core.delivery.reply(sender, frame)
  }

  /** A send that was still waiting for room will never get any. */
  refuseParked(envelope: Envelope<RunState>, error: DramatisError): void {
    if (correlationOf(envelope.memory, envelope.at) !== 0)
      this.verdict(this.#senderOf(envelope), envelope.run, envelope.memory, envelope.at, error)
  }

  unknown(name: string, run: RunState): UnknownAgentError {
    return unknownAgent(
      name,
      this.#core.agents(run).map((cell) => cell.name),
    )
  }

  #terminated({ name }: Cell, gone: DramatisError): AgentTerminatedError {
    return new AgentTerminatedError(`Agent "${name}" is stopped: ${gone.message}`, { agent: name }, gone)
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

const tooLarge = (agent: string, bytes: number, limit: number) =>
  new MessageRejectedError(
    `The message to "${agent}" is ${bytes} bytes encoded; at most ${limit} are taken (communication.maxMessageBytes). Send it in parts, or a reference to it.`,
    { agent, bytes, limit },
  )

/** It needs no turn: that it is in the log is what it is for. */
const isReportToScript = ({ index }: Cell, memory: Memory, at: number) =>
  index === ORCHESTRATOR_INDEX && kindOf(memory, at) === SEND && typeOf(memory, at) === 'report'

/**
 * Agents can be reached by everybody, those of a run alone within it; the protocol script by the caller and by the
 * blackboard alone.
 */
const mayReach = (sender: Cell, callee: Cell, run: RunState) =>
  (callee.settings.counted && (!callee.run || callee.run === run)) ||
  (sender.index <= USER_INDEX && callee.index === ORCHESTRATOR_INDEX)
