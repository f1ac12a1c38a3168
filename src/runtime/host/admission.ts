/**
 * Decides whether a message gets into its mailbox: finds the recipient and checks that it accepts the message.
 * mailboxes.ts handles mailboxes without room, and reports the outcome to the sender.
 */

import { tooLarge } from '../../actors/definition/checks.ts'
import { actingSender, jsonIn, partsOf } from '../../mailbox/codec.ts'
import {
  ASKS,
  CORRELATION,
  correlationOf,
  flagsOf,
  HAS_NAME,
  KIND,
  kindOf,
  lengthOf,
  type Memory,
  MOST_GROUPS,
  NOBODY,
  ownCopyOf,
  policyOf,
  REQUEST,
  readBody,
  SEND,
  SIGNALLED,
  STREAMS,
  senderOf,
  setCorrelation,
  setFlag,
  setRecipient,
  setTurn,
  TURN,
  turnOf,
  typeOf,
  WAITING_SHIFT,
  WHO,
} from '../../mailbox/frame.ts'
import { type Envelope, envelopeOf } from '../../mailbox/mailbox.ts'
import { MESSAGE_TYPES } from '../../mailbox/message.ts'
import type { SubTask } from '../../mailbox/sub-task.ts'
import {
  AgentTerminatedError,
  ChainDepthError,
  type DramatisError,
  MessageRejectedError,
  shown,
} from '../../shared/errors.ts'
import type { OwnFrame, Question } from '../log/host-frames.ts'
import { type Agent, type HeldTask, NO_TURN, type OpenRequest } from './agent.ts'
import type { Cancellation } from './cancellation.ts'
import type { Core } from './core.ts'
import { type Delegations, messageRefusal, turnWithin } from './delegation.ts'
import { ORCHESTRATOR_INDEX, USER_INDEX } from './directory.ts'
import { hasDependencies, type Mailboxes, type Refusal, type Requests, type Sending } from './mailboxes.ts'
import type { RunState } from './run.ts'

/**
 * Message for a mailbox. `giver`: the agent that decided to send it, if that is not the sender. `isChecked`: a task
 * that a verb moves, which has checked that it may.
 */
export interface Arrival extends Sending {
  readonly giver?: Agent
  readonly isChecked?: boolean
}

export class Admission {
  readonly #core: Core
  readonly #cancellation: Cancellation
  readonly #delegations: Delegations
  readonly #mailboxes: Mailboxes
  readonly #requests: Requests

  constructor(
    core: Core,
    cancellation: Cancellation,
    delegations: Delegations,
    mailboxes: Mailboxes,
    requests: Requests,
  ) {
    this.#core = core
    this.#cancellation = cancellation
    this.#delegations = delegations
    this.#mailboxes = mailboxes
    this.#requests = requests
  }

  /** Admits or refuses a message from an agent or (with `settle`) from a caller in the host. */
  message(arrival: Arrival): void {
    const { sender, run, memory, at } = arrival
    const { directory } = this.#core
    const { i32 } = memory
    const i = at >> 2
    const word = i32[i + KIND]!
    const flags = (word >>> 8) & 0xff
    const index = i32[i + WHO]! >>> 16
    const bytes = i32[i]!
    const isRequest = (word & 0xff) === REQUEST
    if (isRequest && sender.settings.playedByModel) run.askedByModel = true
    const named = index === NOBODY && flags & HAS_NAME ? readBody(memory, at).name : undefined
    const known = named === undefined ? directory.byIndex[index] : this.#named(named, sender, run)
    const callee = known?.removed ? directory.agent(known.name, run) : known // the run may have another
    if (run.ending) return this.#refuse(arrival, callee, 'cancelled', run.ending)
    const distrust = sender.settings.untrusted ? messageRefusal(sender, callee, memory, at) : undefined
    if (distrust) return this.#refuse(arrival, callee, 'rejected', distrust)
    if (!callee || !mayReach(sender, callee, run)) {
      if (callee && isReportToScript(callee, memory, at)) return this.#requests.acknowledge(sender, run, memory, at)
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
    if (isTask && !arrival.isChecked) {
      const acting = actingSender(memory, at)
      const giver = acting === undefined ? (arrival.giver ?? sender) : directory.agent(acting, run)
      if (!giver || (acting !== undefined && !giver.settings.isAgent))
        return this.#refuse(arrival, callee, 'unknown_agent', directory.unknown(acting ?? '', run))
      const refusal = this.#delegations.refusal(giver, sender, callee, memory, at)
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
    if (isHeld && this.#core.blocked.hold(callee, envelope)) return this.#giveBack(callee, envelope)
    const { mailbox } = callee
    const { size, suspended } = mailbox.handed
    const hasRoom = mailbox.line.waiting + size + suspended.size < settings.mailbox.capacity
    if (!within && (flags & ASKS) === 0 && hasRoom) this.#mailboxes.accept(callee, envelope)
    else this.#enter(callee, envelope, sender.index === 0)
  }

  #refuse(arrival: Arrival, callee: Agent | undefined, reason: Refusal, error: DramatisError): void {
    const { memory, at } = arrival
    // A sender without ASKS has reserved room: it goes back.
    if (callee && !(flagsOf(memory, at) & ASKS)) this.#mailboxes.freed(callee, lengthOf(memory, at))
    this.#requests.turnAway(arrival, reason, error)
  }

  /** `isTrusted`: what the message says of its room is true, because the host has taken it. */
  #enter(callee: Agent, envelope: Envelope<RunState>, isTrusted = false): void {
    if (envelope.within) this.#mailboxes.acceptNested(callee, envelope)
    else if (flagsOf(envelope.memory, envelope.at) & ASKS || !(isTrusted || this.#hasRoom(callee)))
      this.#mailboxes.admitOrOverflow(callee, envelope)
    else this.#mailboxes.accept(callee, envelope)
  }

  #within(sender: Agent, callee: Agent, memory: Memory, at: number): ReturnType<typeof turnWithin> {
    if (callee.settings.reentrancy !== 'chain') return undefined
    return turnWithin(this.#requests, sender, turnOf(memory, at), callee)
  }

  /**
   * Returns the room that the sender of a held task had reserved, because the tasks that it depends on may need it. The
   * task asks for room again when it is released.
   */
  #giveBack(callee: Agent, { memory, at, bytes }: Envelope<RunState>): void {
    if (flagsOf(memory, at) & ASKS) return
    setFlag(memory, at, ASKS)
    this.#mailboxes.freed(callee, bytes)
  }

  /** Releases a held task to its agent when nothing that it depends on is open any more. */
  release(held: HeldTask): void {
    const { callee, envelope } = held
    const sender = this.#core.directory.byIndex[senderOf(envelope.memory, envelope.at)]!
    const within = this.#within(sender, callee, envelope.memory, envelope.at)
    if (within instanceof ChainDepthError) return this.#cancellation.fail(callee, envelope, within)
    this.#core.blocked.remove(envelope)
    envelope.within = within
    this.#enter(callee, envelope)
    this.#core.loop.wake()
  }

  #named(name: string, sender: Agent, run: RunState): Agent | undefined {
    return sender.settings.untrusted ? this.#core.directory.agent(name, run) : this.#core.directory.find(name, run)
  }

  /**
   * Checks a sender's claim that it has its room. A full mailbox is accepted only if the shared words say that more
   * room was taken than the mailbox holds messages. A thread can forge these words, so at most twice the capacity is
   * accepted.
   */
  #hasRoom({ index, mailbox, settings }: Agent): boolean {
    const there = mailbox.waiting + mailbox.handed.size + mailbox.handed.suspended.size
    const { capacity } = settings.mailbox
    return there < capacity || (there < 2 * capacity && this.#core.team.taken(index) > there)
  }

  #terminated({ name }: Agent, gone: DramatisError): AgentTerminatedError {
    return new AgentTerminatedError(`Agent "${name}" is stopped: ${gone.message}`, { agent: name }, gone)
  }
}

/** Returns the error for a part that the recipient does not accept. */
function foreignPart({ name, settings }: Agent, memory: Memory, at: number): MessageRejectedError | undefined {
  const { accepts } = settings.info
  const foreign = (accepts && partsOf(memory, at))?.find(({ type }) => type !== 'text' && !accepts?.includes(type))
  if (!accepts || !foreign) return undefined
  const accepted = ['text', ...accepts].join(', ')
  const text = `Agent "${name}" does not accept a part of type "${foreign.type}"; it accepts ${accepted} (accepts). Ask another agent, or leave the part out.`
  return new MessageRejectedError(text, { path: 'parts', agent: name, got: foreign.type, accepted })
}

/** Returns the error for a sub-task that names a profile of keys which its recipient does not hold. */
function unheldKeys({ name, settings }: Agent, memory: Memory, at: number): MessageRejectedError | undefined {
  const { data } = readBody(memory, at)
  if (!data?.includes('"apiKeysConfigRef"')) return undefined
  const { apiKeysConfigRef: wanted } = Object(jsonIn(data)) as Partial<Record<keyof SubTask, unknown>>
  if (typeof wanted !== 'string' || settings.keys?.includes(wanted)) return undefined
  const held = settings.keys?.join(', ') || 'none'
  const text = `Agent "${name}" does not hold the keys ${shown(wanted)}; it holds ${held} (keys). Give the sub-task to one that does.`
  return new MessageRejectedError(text, { path: 'structuredData.apiKeysConfigRef', agent: name, got: wanted })
}

function open({ sender: caller, run, memory, at, settle }: Sending, callee: Agent, envelope: Envelope<RunState>): void {
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
const isReportToScript = ({ index }: Agent, memory: Memory, at: number) =>
  index === ORCHESTRATOR_INDEX && kindOf(memory, at) === SEND && typeOf(memory, at) === 'report'

/**
 * Checks that the sender may reach the recipient. All senders reach team agents; a run agent is reached only within its
 * run, and the protocol script only by the caller and the blackboard.
 */
const mayReach = (sender: Agent, callee: Agent, run: RunState) =>
  (callee.settings.isAgent && (!callee.run || callee.run === run)) ||
  (sender.index <= USER_INDEX && callee.index === ORCHESTRATOR_INDEX)

interface Failure {
  agent: string
  error: DramatisError
}

/**
 * Addresses a copy to one recipient. The copy belongs to no turn: the turn's record in the log is the message itself.
 */
function addressed(copy: Memory, recipient: number, number: number): OwnFrame {
  setRecipient(copy, 0, recipient)
  setCorrelation(copy, 0, number)
  setTurn(copy, 0, 0)
  return { memory: copy, bytes: lengthOf(copy, 0) }
}

function refusalOf(failures: readonly Failure[], count: number): MessageRejectedError | undefined {
  if (failures.length === 0) return undefined
  const others = failures.length < count ? '; the others have it' : ''
  const listed = failures.map(({ agent, error }) => `"${agent}": ${error.message}`).join(' ')
  return new MessageRejectedError(
    `The broadcast did not get to ${failures.length} of ${count} agents${others}. ${listed}`,
    { failures: failures.map(({ agent, error }) => ({ agent, code: error.code, message: error.message })) },
  )
}

export interface HostRequest {
  readonly target: Agent
  readonly run: RunState
  readonly question: Question
  /** Agent in whose name the host asks; by default the caller. */
  readonly sender?: Agent
  /** Agent that decided to send the request, if that is not the sender. */
  readonly giver?: Agent
  /** Number of the agent's call that the request is made for: a later process finds it by that. */
  readonly call?: number
  settle(memory: Memory, at: number): void
}

export class HostMessages {
  readonly #core: Core
  readonly #admission: Admission
  readonly #requests: Requests
  #last = 0

  constructor(core: Core, admission: Admission, requests: Requests) {
    this.#core = core
    this.#admission = admission
    this.#requests = requests
  }

  /** Continues the numbers of an earlier process. */
  continueFrom(last: number): void {
    this.#last = Math.min(this.#last, last)
  }

  /** Lowest number that a frame of the host has had. */
  get last(): number {
    return this.#last
  }

  /** Returns the next correlation for a frame of the host. It is negative, so it differs from the numbers of agents. */
  number(): number {
    this.#last -= 1
    return this.#last
  }

  /**
   * Sends `frame`, a SEND with such a correlation that asks for room. `told` is called with the acknowledgement: an
   * error if the message was refused.
   */
  post(sender: Agent, run: RunState, frame: OwnFrame, told: (error: DramatisError | undefined) => void): void {
    sender.acknowledgements.set(correlationOf(frame.memory, 0), told)
    this.put(sender, run, frame)
    this.#core.loop.wake()
  }

  /**
   * Writes the frame into the log of the run and sends it. The message must have its room, or nobody waits for its
   * acknowledgement.
   */
  put(sender: Agent, run: RunState, { memory, bytes }: OwnFrame): void {
    this.#core.journal.appendOwned(run, memory, bytes)
    this.#admission.message({ sender, run, memory, at: 0 })
  }

  /**
   * Sends a message of type report from the runtime to an agent, for its `observe`. It takes room even in a full
   * mailbox. For an agent without `observe` it is an empty turn.
   */
  report(run: RunState, recipient: number, content: string, data: object): void {
    const fields = { kind: SEND, type: 'report', recipient, run: run.index, content } as const
    const frame = this.#core.frames.make({ ...fields, data: JSON.stringify(data) })
    this.#core.team.force(recipient, frame.bytes)
    this.put(this.#core.directory.byIndex[0]!, run, frame)
  }

  /**
   * Sends a request. Returns it, or undefined if it was answered at once.
   *
   * @throws MessageRejectedError when it is larger than its recipient takes.
   */
  ask({
    target,
    run,
    question,
    settle,
    sender = this.#caller,
    giver = sender,
    call = 0,
  }: HostRequest): OpenRequest | undefined {
    const correlation = sender.index === USER_INDEX ? ++sender.correlation : this.number()
    const { streams = false, ...asked } = question
    const threadId = asked.threadId ?? run.threadId
    const { memory, bytes } = this.#core.frames.make({
      kind: REQUEST,
      sender: sender.index,
      recipient: target.index,
      run: run.index,
      turn: NO_TURN,
      step: call,
      correlation,
      ...asked,
      ...(threadId !== undefined && { threadId }),
      flags: streams ? ASKS | STREAMS : ASKS,
    })
    const { maxMessageBytes } = target.settings.mailbox
    if (bytes > maxMessageBytes) throw tooLarge(bytes, maxMessageBytes)
    this.#core.journal.appendOwned(run, memory, bytes)
    this.#admission.message({ sender, run, memory, at: 0, settle, giver, isChecked: call !== 0 })
    this.#core.loop.wake()
    return sender.open.get(correlation)
  }

  everybodyBut(sender: Agent, run: RunState): Agent[] {
    return this.#core.directory.agents(run).filter((agent) => agent !== sender)
  }

  /** Sends the message at `at` to all other agents, or refuses it. */
  broadcast(sender: Agent, run: RunState, memory: Memory, at: number): void {
    const distrust = sender.settings.untrusted ? messageRefusal(sender, undefined, memory, at) : undefined
    if (distrust) return this.#requests.turnAway({ sender, run, memory, at }, 'rejected', distrust)
    const others = this.everybodyBut(sender, run)
    const numbers = others.map(() => this.number())
    const original = ownCopyOf(memory, at) // the log may discard its own copy before the acknowledgement is sent
    sender.broadcasts.set(correlationOf(memory, at), { turn: turnOf(memory, at), copies: numbers })
    const posted = others.map(({ index }, i) => {
      const frame = addressed(ownCopyOf(memory, at), index, numbers[i]!)
      return new Promise<DramatisError | undefined>((resolve) => this.post(sender, run, frame, resolve))
    })
    void Promise.all(posted).then((errors) => {
      sender.broadcasts.delete(correlationOf(original, 0))
      const failures = errors.flatMap((error, i) => (error ? { agent: others[i]!.name, error } : []))
      this.#requests.acknowledge(sender, run, original, 0, refusalOf(failures, others.length))
    })
  }

  get #caller(): Agent {
    return this.#core.directory.byIndex[USER_INDEX]!
  }
}
