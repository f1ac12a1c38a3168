/**
 * Decides whether a message gets into its mailbox: finds the recipient and checks that it accepts the message.
 * mailboxes/mailboxes.ts handles mailboxes without room; mailboxes/receipts.ts reports the outcome to the sender.
 */
import { tooLarge } from '../../actors/definition/checks.ts'
import { AgentTerminatedError, ChainDepthError, type DramatisError, MessageRejectedError } from '../../errors.ts'
import { partsOf } from '../../mailbox/codec.ts'
import {
  ASKS,
  correlationOf,
  flagsOf,
  HAS_NAME,
  kindOf,
  lengthOf,
  MOST_GROUPS,
  NOBODY,
  policyOf,
  REQUEST,
  recipientOf,
  SEND,
  SIGNALLED,
  STREAMS,
  senderOf,
  setFlag,
  turnOf,
  typeOf,
  waitingOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { type Envelope, envelopeOf } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { TeamMemory } from '../../mailbox/room.ts'
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
    const { sender, run, memory, at, giver = sender } = arrival
    const { delegations, directory, mailboxes, receipts } = this.#needs
    const index = recipientOf(memory, at)
    const named = index === NOBODY && flagsOf(memory, at) & HAS_NAME ? readBody(memory, at).name : undefined
    const known = named === undefined ? directory.cells[index] : this.#named(named, sender, run)
    const callee = known?.removed ? directory.cell(known.name, run) : known // the run may have another
    const name = named ?? callee?.name ?? `#${index}`
    const refuse = (reason: Refusal, error: DramatisError) => {
      // A sender without ASKS has claimed room: it goes back.
      if (callee && !(flagsOf(memory, at) & ASKS)) mailboxes.freed(callee, lengthOf(memory, at))
      receipts.refuse(arrival, reason, error)
    }
    if (run.ending) return refuse('cancelled', run.ending)
    const distrust = sender.settings.untrusted ? messageRefusal(sender, callee, memory, at) : undefined
    if (distrust) return refuse('rejected', distrust)
    if (!callee || !mayReach(sender, callee, run)) {
      if (callee && isReportToScript(callee, memory, at)) return receipts.give(sender, run, memory, at, undefined)
      return refuse('unknown_agent', directory.unknown(name, run))
    }
    if (callee.gone) return refuse('stopped', this.#terminated(callee, callee.gone))
    const { maxMessageBytes } = callee.settings.mailbox
    if (lengthOf(memory, at) > maxMessageBytes)
      return refuse('rejected', tooLarge(lengthOf(memory, at), maxMessageBytes, callee.name))
    const foreign = foreignPart(callee, memory, at)
    if (foreign) return refuse('rejected', foreign)
    const refusal = delegations.refusal(giver, callee, memory, at)
    if (refusal) return refuse('rejected', refusal)
    const isRequest = kindOf(memory, at) === REQUEST
    const isHeld = hasDependencies(memory, at)
    const within = isRequest && !isHeld ? this.#within(sender, callee, memory, at) : undefined
    if (within instanceof ChainDepthError) return refuse('rejected', within)
    const envelope = envelopeOf(run, memory, at)
    envelope.within = within
    if (isRequest) open(arrival, callee, envelope)
    run.open += 1
    if (isHeld && this.#needs.blocked.hold(callee, envelope)) this.#giveBack(callee, envelope)
    else this.#enter(callee, envelope, sender.index === 0)
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

/** Registers the request: its sender waits for the answer. */
function open({ sender: caller, run, memory, at, settle }: Sending, callee: Cell, envelope: Envelope<RunState>): void {
  const correlation = correlationOf(memory, at)
  const { retries = caller.settings.retries, idempotent } = policyOf(memory, at)
  const waiting = waitingOf(memory, at)
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
    group: caller.groups.of(turnOf(memory, at), waiting & MOST_GROUPS),
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
