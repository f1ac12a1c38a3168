/**
 * Decides whether a message gets into its mailbox: finds the recipient and checks that it accepts the message.
 * mailboxes/mailboxes.ts handles mailboxes without room; mailboxes/receipts.ts reports the outcome to the sender.
 */
import { tooLarge } from '../../actors/definition/checks.ts'
import { AgentTerminatedError, ChainDepthError, type DramatisError, MessageRejectedError, shown } from '../../errors.ts'
import { actingSender, jsonIn, partsOf } from '../../mailbox/codec.ts'
import {
  ASKS,
  CORRELATION,
  flagsOf,
  HAS_NAME,
  KIND,
  kindOf,
  lengthOf,
  MOST_GROUPS,
  NOBODY,
  policyOf,
  REQUEST,
  SEND,
  SIGNALLED,
  STREAMS,
  senderOf,
  setFlag,
  TURN,
  turnOf,
  typeOf,
  WAITING_SHIFT,
  WHO,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { type Envelope, envelopeOf } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import { MESSAGE_TYPES } from '../../mailbox/message.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
import type { SubTask } from '../../mailbox/sub-task.ts'
import { type BlockedTasks, hasDependencies } from '../mailboxes/blocked-tasks.ts'
import type { Mailboxes } from '../mailboxes/mailboxes.ts'
import type { Receipts, Refusal, Sending } from '../mailboxes/receipts.ts'
import type { Requests } from '../mailboxes/requests.ts'
import { type AgentDirectory, ORCHESTRATOR_INDEX, USER_INDEX } from '../state/agent-directory.ts'
import type { Cell, HeldTask } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { RunState } from '../state/run-state.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import { turnWithin } from './chain.ts'
import type { Delegations } from './delegation.ts'
import { messageRefusal } from './trust.ts'

/** Message for a mailbox. `giver`: the agent that decided to send it, if that is not the sender. */
export interface Arrival extends Sending {
  readonly giver?: Cell
}

interface Needs {
  readonly blocked: BlockedTasks
  readonly cancellation: Cancellation
  readonly delegations: Delegations
  readonly directory: AgentDirectory
  readonly loop: HostLoop
  readonly mailboxes: Mailboxes
  readonly receipts: Receipts
  readonly requests: Requests
  readonly team: TeamMemory
}

export class Admission {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Admits or refuses a message from an agent or (with `settle`) from a caller in the host. */
  message(arrival: Arrival): void {
    const { sender, run, memory, at } = arrival
    const { delegations, directory, mailboxes } = this.#needs
    const { i32 } = memory
    const i = at >> 2
    const word = i32[i + KIND]!
    const flags = (word >>> 8) & 0xff
    const index = i32[i + WHO]! >>> 16
    const bytes = i32[i]!
    const isRequest = (word & 0xff) === REQUEST
    if (isRequest && sender.settings.playedByModel) run.askedByModel = true
    const named = index === NOBODY && flags & HAS_NAME ? readBody(memory, at).name : undefined
    const known = named === undefined ? directory.cells[index] : this.#named(named, sender, run)
    const callee = known?.removed ? directory.cell(known.name, run) : known // the run may have another
    if (run.ending) return this.#refuse(arrival, callee, 'cancelled', run.ending)
    const distrust = sender.settings.untrusted ? messageRefusal(sender, callee, memory, at) : undefined
    if (distrust) return this.#refuse(arrival, callee, 'rejected', distrust)
    if (!callee || !mayReach(sender, callee, run)) {
      if (callee && isReportToScript(callee, memory, at))
        return this.#needs.receipts.give(sender, run, memory, at, undefined)
      const error = directory.unknown(named ?? callee?.name ?? `#${index}`, run)
      return this.#refuse(arrival, callee, 'unknown_agent', error)
    }
    const { settings } = callee
    const gone = callee.stopped && callee.gone
    if (gone) return this.#refuse(arrival, callee, 'stopped', this.#terminated(callee, gone))
    const { maxMessageBytes } = settings.mailbox
    if (bytes > maxMessageBytes)
      return this.#refuse(arrival, callee, 'rejected', tooLarge(bytes, maxMessageBytes, callee.name))
    const foreign = settings.info.accepts && foreignPart(callee, memory, at)
    if (foreign) return this.#refuse(arrival, callee, 'rejected', foreign)
    const unheld = settings.keys && unheldKeys(callee, memory, at)
    if (unheld) return this.#refuse(arrival, callee, 'rejected', unheld)
    const isTask = MESSAGE_TYPES[(word >>> 24) & 7] === 'delegate'
    if (isTask) {
      const acting = actingSender(memory, at)
      const giver = acting === undefined ? (arrival.giver ?? sender) : directory.cell(acting, run)
      if (!giver || (acting !== undefined && !giver.settings.isAgent))
        return this.#refuse(arrival, callee, 'unknown_agent', directory.unknown(acting ?? '', run))
      const refusal = delegations.refusal(giver, sender, callee, memory, at)
      if (refusal) return this.#refuse(arrival, callee, 'rejected', refusal)
    }
    const isHeld = isTask && hasDependencies(memory, at)
    const mayNest = isRequest && !isHeld && settings.reentrancy === 'chain'
    const within = mayNest ? this.#within(sender, callee, memory, at) : undefined
    if (within instanceof ChainDepthError) return this.#refuse(arrival, callee, 'rejected', within)
    const envelope = envelopeOf(run, memory, at)
    envelope.within = within
    if (isRequest) open(arrival, callee, envelope)
    run.open += 1
    if (isHeld && this.#needs.blocked.hold(callee, envelope)) return this.#giveBack(callee, envelope)
    const { mailbox } = callee
    const { size, shelved } = mailbox.handed
    const hasRoom = mailbox.line.waiting + size + shelved.size < settings.mailbox.capacity
    if (!within && (flags & ASKS) === 0 && hasRoom) mailboxes.accept(callee, envelope)
    else this.#enter(callee, envelope, sender.index === 0)
  }

  #refuse(arrival: Arrival, callee: Cell | undefined, reason: Refusal, error: DramatisError): void {
    const { memory, at } = arrival
    // A sender without ASKS has claimed room: it goes back.
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#needs.mailboxes.freed(callee, lengthOf(memory, at))
    this.#needs.receipts.refuse(arrival, reason, error)
  }

  /** `isTrusted`: what the message says of its room is true, because the host has taken it. */
  #enter(callee: Cell, envelope: Envelope<RunState>, isTrusted = false): void {
    const { mailboxes } = this.#needs
    if (envelope.within) mailboxes.acceptNested(callee, envelope)
    else if (flagsOf(envelope.memory, envelope.at) & ASKS || !(isTrusted || this.#hasRoom(callee)))
      mailboxes.admitOrOverflow(callee, envelope)
    else mailboxes.accept(callee, envelope)
  }

  #within(sender: Cell, callee: Cell, memory: Memory, at: number): ReturnType<typeof turnWithin> {
    if (callee.settings.reentrancy !== 'chain') return undefined
    return turnWithin(this.#needs.requests, sender, turnOf(memory, at), callee)
  }

  /**
   * Returns the room that the sender of a held task had claimed, because the tasks that it depends on may need it. The
   * task asks for room again when it is released.
   */
  #giveBack(callee: Cell, { memory, at, bytes }: Envelope<RunState>): void {
    if (flagsOf(memory, at) & ASKS) return
    setFlag(memory, at, ASKS)
    this.#needs.mailboxes.freed(callee, bytes)
  }

  /** Releases a held task to its agent when nothing that it depends on is open any more. */
  release(held: HeldTask): void {
    const { blocked, cancellation, directory, loop } = this.#needs
    const { callee, envelope } = held
    const sender = directory.cells[senderOf(envelope.memory, envelope.at)]!
    const within = this.#within(sender, callee, envelope.memory, envelope.at)
    if (within instanceof ChainDepthError) return cancellation.fail(callee, envelope, within)
    blocked.remove(envelope)
    envelope.within = within
    this.#enter(callee, envelope)
    loop.wake()
  }

  #named(name: string, sender: Cell, run: RunState): Cell | undefined {
    const { directory } = this.#needs
    return sender.settings.untrusted ? directory.cell(name, run) : directory.find(name, run)
  }

  /**
   * Checks a sender's claim that it has its room. A full mailbox is accepted only if the shared words say that more
   * room was taken than the mailbox holds messages. A thread can forge these words, so at most twice the capacity is
   * accepted.
   */
  #hasRoom({ index, mailbox, settings }: Cell): boolean {
    const there = mailbox.waiting + mailbox.handed.size + mailbox.handed.shelved.size
    const { capacity } = settings.mailbox
    return there < capacity || (there < 2 * capacity && this.#needs.team.taken(index) > there)
  }

  #terminated({ name }: Cell, gone: DramatisError): AgentTerminatedError {
    return new AgentTerminatedError(`Agent "${name}" is stopped: ${gone.message}`, { agent: name }, gone)
  }
}

/** Returns the error for a part that the recipient does not accept. */
function foreignPart({ name, settings }: Cell, memory: Memory, at: number): MessageRejectedError | undefined {
  const { accepts } = settings.info
  const foreign = (accepts && partsOf(memory, at))?.find(({ type }) => type !== 'text' && !accepts?.includes(type))
  if (!accepts || !foreign) return undefined
  const accepted = ['text', ...accepts].join(', ')
  const text = `Agent "${name}" does not accept a part of type "${foreign.type}"; it accepts ${accepted} (accepts). Ask another agent, or leave the part out.`
  return new MessageRejectedError(text, { path: 'parts', agent: name, got: foreign.type, accepted })
}

/** Returns the error for a sub-task that names a profile of keys which its recipient does not hold. */
function unheldKeys({ name, settings }: Cell, memory: Memory, at: number): MessageRejectedError | undefined {
  const { data } = readBody(memory, at)
  if (!data?.includes('"apiKeysConfigRef"')) return undefined
  const { apiKeysConfigRef: wanted } = Object(jsonIn(data)) as Partial<Record<keyof SubTask, unknown>>
  if (typeof wanted !== 'string' || settings.keys?.includes(wanted)) return undefined
  const held = settings.keys?.join(', ') || 'none'
  const text = `Agent "${name}" does not hold the keys ${shown(wanted)}; it holds ${held} (keys). Give the sub-task to one that does.`
  return new MessageRejectedError(text, { path: 'structuredData.apiKeysConfigRef', agent: name, got: wanted })
}

/** Registers the request: its sender waits for the answer. */
function open({ sender: caller, run, memory, at, settle }: Sending, callee: Cell, envelope: Envelope<RunState>): void {
  const { i32 } = memory
  const i = at >> 2
  const word = i32[i + KIND]!
  const turn = i32[i + TURN]!
  const correlation = i32[i + CORRELATION]!
  const { retries = caller.settings.retries, idempotent } = policyOf(memory, at)
  const waiting = word >>> WAITING_SHIFT
  const group = waiting & MOST_GROUPS
  caller.open.set(correlation, {
    caller,
    correlation,
    run,
    turn,
    callee,
    envelope,
    streams: ((word >>> 8) & STREAMS) !== 0,
    settle,
    retries,
    idempotent,
    group: group === 0 ? undefined : caller.groups.of(turn, group),
    signalled: (waiting & SIGNALLED) !== 0,
    tried: 1,
    grantedMs: 0,
    replaced: 0,
    offers: false,
  })
}

/** Checks for a report to the protocol script. It needs no turn: its purpose is to be in the log. */
const isReportToScript = ({ index }: Cell, memory: Memory, at: number) =>
  index === ORCHESTRATOR_INDEX && kindOf(memory, at) === SEND && typeOf(memory, at) === 'report'

/**
 * Checks that the sender may reach the recipient. All senders reach team agents; a run agent is reached only within its
 * run, and the protocol script only by the caller and the blackboard.
 */
const mayReach = (sender: Cell, callee: Cell, run: RunState) =>
  (callee.settings.isAgent && (!callee.run || callee.run === run)) ||
  (sender.index <= USER_INDEX && callee.index === ORCHESTRATOR_INDEX)
