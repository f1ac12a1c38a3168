/**
 * Whether a message gets into its mailbox: who it is for, and whether they take it. Where there is no room mailboxes/mailbox-room.ts
 * has the say; what its sender is told is in mailboxes/receipts.ts.
 */
import { AgentTerminatedError, ChainDepthError, type DramatisError, MessageRejectedError } from '../../errors.ts'
import {
  ASKS,
  correlationOf,
  flagsOf,
  HAS_NAME,
  kindOf,
  lengthOf,
  MOST_GROUPS,
  NOBODY,
  priorityOf,
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
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { type Envelope, NOT_YET } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { hasDependencies } from '../mailboxes/blocked-tasks.ts'
import { type Cell, groupKey, type HeldTask, type OpenRequest } from '../state/cell.ts'
import { type Admitting, type Core, ORCHESTRATOR_INDEX, type Refusal, USER_INDEX } from '../state/core.ts'
import type { RunState } from '../state/run-state.ts'
import { turnWithin } from './chain.ts'
import { delegationRefusal } from './delegation.ts'
import { messageRefusal } from './trust.ts'

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
      if (callee && !(flagsOf(memory, at) & ASKS)) this.#core.mailboxRoom.freed(callee, lengthOf(memory, at)) // its sender had claimed room
      this.#core.verdicts.refuse(sender, run, memory, at, reason, error, settle)
    }
    if (run.ending) return refuse('cancelled', run.ending)
    const distrust = sender.settings.untrusted ? messageRefusal(sender, callee, memory, at) : undefined
    if (distrust) return refuse('rejected', distrust)
    if (!callee || !mayReach(sender, callee, run)) {
      if (callee && isReportToScript(callee, memory, at))
        return this.#core.verdicts.give(sender, run, memory, at, undefined)
      return refuse('unknown_agent', this.#core.directory.unknown(name, run))
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
    else if (flagsOf(envelope.memory, envelope.at) & ASKS || !this.#hasRoom(callee))
      this.#core.mailboxRoom.ask(callee, envelope)
    else this.accept(callee, envelope)
  }

  #within(sender: Cell, callee: Cell, memory: Memory, at: number): ReturnType<typeof turnWithin> {
    if (callee.settings.reentrancy !== 'chain') return undefined
    return turnWithin(this.#core, sender, turnOf(memory, at), callee)
  }

  /** What it waits for may need the room that its sender had claimed: it asks for room when it comes. */
  #giveBack(callee: Cell, { memory, at, bytes }: Envelope<RunState>): void {
    if (flagsOf(memory, at) & ASKS) return
    setFlag(memory, at, ASKS)
    this.#core.mailboxRoom.freed(callee, bytes)
  }

  /** Nothing that the task depends on is in its way any more. */
  release(held: HeldTask): void {
    const { callee, envelope } = held
    const sender = this.#core.cells[senderOf(envelope.memory, envelope.at)]!
    const within = this.#within(sender, callee, envelope.memory, envelope.at)
    if (within instanceof ChainDepthError) return this.#core.held.fail(held, within)
    this.#core.held.remove(envelope)
    envelope.within = within
    this.#enter(callee, envelope)
    this.#core.wake()
  }

  #named(name: string, sender: Cell, run: RunState): Cell | undefined {
    return sender.settings.untrusted ? this.#core.cell(name, run) : this.#core.directory.find(name, run)
  }

  #broadcast(sender: Cell, run: RunState, memory: Memory, at: number): void {
    const distrust = sender.settings.untrusted ? messageRefusal(sender, undefined, memory, at) : undefined
    if (distrust) return this.#core.verdicts.refuse(sender, run, memory, at, 'rejected', distrust, undefined)
    this.#core.copies.broadcast(sender, run, memory, at)
  }

  /**
   * Whether one that says that it has its room can have it: a mailbox that is full has to be so by what was taken. That more was taken
   * than is there can be a lie, so it is believed up to twice the capacity.
   */
  #hasRoom({ index, mailbox, settings }: Cell): boolean {
    const there = mailbox.waiting + mailbox.handed.size
    const { capacity } = settings.mailbox
    return there < capacity || (there < 2 * capacity && this.#core.team.taken(index) > there)
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

  /** It has its room. */
  accept(callee: Cell, envelope: Envelope<RunState>): void {
    this.waits(callee, envelope)
    callee.mailbox.push(envelope)
    if (envelope.priority > 0) this.#hasten(callee)
    else this.#core.delivery.touch(callee)
  }

  /** It gets the room that it needs: what waits there waits for the turn that waits for it. */
  #acceptNested(callee: Cell, envelope: Envelope<RunState>): void {
    if (flagsOf(envelope.memory, envelope.at) & ASKS) this.#core.team.force(callee.index, envelope.bytes)
    this.waits(callee, envelope)
    callee.mailbox.push(envelope)
    this.#hasten(callee)
  }

  /** Whichever instance is free takes it. */
  #hasten(callee: Cell): void {
    for (const each of callee.instances) this.#core.delivery.hasten(each)
  }

  /** Its time runs from when it came, whether there was room for it or not. */
  waits({ settings }: Cell, envelope: Envelope<RunState>): void {
    if (settings.queueTimeoutMs === false || envelope.waitsSince !== NOT_YET) return
    envelope.waitsSince = this.#core.clock.monotonic()
  }

  #terminated({ name }: Cell, gone: DramatisError): AgentTerminatedError {
    return new AgentTerminatedError(`Agent "${name}" is stopped: ${gone.message}`, { agent: name }, gone)
  }
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
