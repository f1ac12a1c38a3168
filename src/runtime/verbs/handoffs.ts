/**
 * Handoffs: the duty to answer moves from a turn to another agent, in six steps. Each step
 * is a record.
 *
 * The target is asked in the name of the source. Until it acknowledges, the source keeps the duty: if the target
 * refuses, fails or is gone, the source loses nothing but that step. After that the request that the source's turn was
 * to answer waits for the target's message. Deadlines, cancellation and the wait chain then refer to the target, and
 * what the source returns answers nobody.
 */

import { asJson, readableMessages } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../actors/definition/model.ts'
import type { HandoffFilter } from '../../actors/definition/protocol.ts'
import { ACKNOWLEDGE, type Verb } from '../../actors/definition/role.ts'
import {
  areMessages,
  type Conversation,
  type HandedOver,
  handedOverIn,
  historyOf,
  onlyFor,
  type SpokenTurn,
} from '../../actors/model/conversation.ts'
import { lastSpeakerIn } from '../../actors/model/last-speaker.ts'
import { userContent } from '../../actors/model/prompt.ts'
import type { EscalationView, HandoffRequest, ReassignRequest } from '../../actors/turn/delegate.ts'
import {
  actingAt,
  answeredBy,
  decodeMessage,
  errorOf,
  isFailure,
  jsonIn,
  partsOf,
  subTaskAt,
} from '../../mailbox/codec.ts'
import {
  ASKS,
  correlationOf,
  END,
  idOf,
  kindOf,
  limitOf,
  type Memory,
  REQUEST,
  RESPONSE,
  readBody,
  recipientOf,
  SEND,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { withParts } from '../../mailbox/parts.ts'
import { CancelledError, DelegationRefusedError, type DramatisError, describe } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { picked } from '../../shared/values.ts'
import type { HostMessages } from '../host/admission.ts'
import { type Agent, NO_TURN, type OpenRequest } from '../host/agent.ts'
import type { Cancellation } from '../host/cancellation.ts'
import { cutOffAfterHandoff } from '../host/commits.ts'
import type { Core } from '../host/core.ts'
import { type Delegations, managersOf } from '../host/delegation.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import { noteHandedOff } from '../host/handed-answers.ts'
import { stepsOf } from '../host/journal.ts'
import { offered, type Requests } from '../host/mailboxes.ts'
import { directoryOf, type RunState, readerOf } from '../host/run.ts'
import type { Question } from '../log/host-frames.ts'
import type { HandoffStep, HostRecord } from '../log/records.ts'
import { framesOf } from '../log/run-log.ts'
import type { HostCaller, HostVerb } from './calls.ts'

/* Host side of an escalation: the managers that the agent may ask for a decision, and what its turn has done so far. */

export const escalationVerbs = (core: Core): [Verb, HostVerb][] => [
  [
    'managers',
    (_args, { agent, run, turn }): EscalationView => {
      const own = agent.holderOf(turn)?.mailbox.handed.get(turn)
      return {
        managers: managersOf(core.directory, agent, run),
        done: own ? stepsOf(agent, own, (index) => core.directory.name(index)) : [],
        ...(agent.settings.playedByModel && run.steering?.unreadBy(agent.name).length && { isSteered: true }),
      }
    },
  ],
]

/*
 * Reports failures to managers (`escalateTo` of a role): rule 32. A request without an answer goes to the manager of
 * who asked, a turn that failed after all of its tries to the manager of its agent. Who asked gets the error anyway.
 */

/** Failure that is reported. `sender`: the agent in whose name the report is. */
interface Report {
  readonly sender: Agent
  readonly event: 'unanswered' | 'failed'
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
  readonly tried: number
  readonly error: DramatisError
}

export class Escalations {
  readonly #core: Core
  readonly #hostMessages: HostMessages

  constructor(core: Core, hostMessages: HostMessages) {
    this.#core = core
    this.#hostMessages = hostMessages
  }

  /** Reports a request that had no answer in time, unless the manager is the agent that does not answer. */
  unanswered({ caller, callee, envelope, tried }: OpenRequest, error: DramatisError): void {
    const superior = this.#superiorOf(caller, envelope.run)
    if (superior === callee) return
    this.#report(superior, { sender: caller, event: 'unanswered', agent: callee, envelope, tried, error })
  }

  /** Reports a turn that failed after it was tried again, unless the manager is who asked. */
  failed({ first: agent }: Agent, envelope: Envelope<RunState>, error: DramatisError): void {
    const { retries, run, memory, at } = envelope
    if (!retries?.count || run.ending || run.over) return
    const superior = this.#superiorOf(agent, run)
    if (superior?.index === senderOf(memory, at)) return
    this.#report(superior, { sender: agent, event: 'failed', agent, envelope, tried: retries.count + 1, error })
  }

  #superiorOf(agent: Agent, run: RunState): Agent | undefined {
    const { escalateTo } = agent.settings.info
    const superior = escalateTo === undefined ? undefined : this.#core.directory.agent(escalateTo, run)
    return superior === agent ? undefined : superior
  }

  #report(superior: Agent | undefined, { sender, event, agent, envelope, tried, error }: Report): void {
    if (!superior) return
    const { frames, journal } = this.#core
    const { run, memory, at } = envelope
    const messageId = idOf(memory, at)
    const { code, message } = error
    journal.record(run, { kind: 'escalated', agent: agent.name, to: superior.name, messageId, tried, error })
    const frame = frames.make({
      kind: SEND,
      type: 'report',
      flags: ASKS,
      sender: sender.index,
      recipient: superior.index,
      run: run.index,
      content: message,
      data: JSON.stringify({ event, agent: agent.name, code, messageId, tried }),
    })
    this.#hostMessages.put(sender, run, frame)
  }
}

interface Handoff {
  readonly run: RunState
  readonly from: Agent
  readonly own: Envelope<RunState>
  readonly name: string
  readonly to: Agent
  readonly call: number
}

type Step = Extract<HostRecord, { kind: 'reassignment' }>['step']

interface Reassignment {
  readonly from: Agent
  readonly own: Envelope<RunState>
  readonly by: Agent
  readonly to: Agent
  readonly call: number
}

type Caller = Pick<HostCaller, 'agent' | 'run' | 'turn' | 'correlation'>

interface HandoffParts {
  readonly cancellation: Cancellation
  readonly delegations: Delegations
  readonly hostMessages: HostMessages
  readonly requests: Requests
  readonly filter: HandoffFilter | undefined
}

const BY_TARGET: ReadonlySet<HandoffStep> = new Set(['acknowledged', 'declined', 'proceeding'])

export class Handoffs {
  readonly #core: Core
  readonly #delegations: Delegations
  readonly #cancellation: Cancellation
  readonly #hostMessages: HostMessages
  readonly #requests: Requests
  readonly #filter: HandoffFilter | undefined
  /** Offers that are not acknowledged yet, by the message to the target. */
  readonly #offers = new Map<Envelope<RunState>, () => void>()

  /** `filter`: what the next speaker sees of a conversation that agents share. */
  constructor(core: Core, parts: HandoffParts) {
    this.#core = core
    this.#delegations = parts.delegations
    this.#cancellation = parts.cancellation
    this.#hostMessages = parts.hostMessages
    this.#requests = parts.requests
    this.#filter = parts.filter
  }

  get verbs(): [Verb, HostVerb][] {
    return [
      ['handoff', (args, caller, signal) => this.handOff(caller, args as object, signal)],
      [ACKNOWLEDGE, (_args, { agent, turn }) => this.acknowledged(agent, turn)],
      ['reassign', (args, caller, signal) => this.reassign(caller, args as object, signal)],
    ]
  }

  /**
   * Hands the duty of a turn off. Resolves when the target has acknowledged; rejects with the reason if it will not
   * take the duty.
   */
  async handOff(
    { agent: from, run, turn, correlation: call }: Caller,
    given: object,
    signal: AbortSignal,
  ): Promise<void> {
    const request = given as Partial<HandoffRequest>
    const own = from.messageOf(turn)
    if (!own || own.handedOff) throw notItsDuty(from, own !== undefined)
    const name = String(request.to)
    const made = this.#requests.madeFor(from, call)
    if (made) return this.#ask({ run, from, own, name, to: made.callee, call }, made, signal)
    const summary = String(request.summary ?? this.#summary(from, own, request))
    this.#record('summarized', { run, from, own, name }, { summary })
    const to = this.#core.directory.require(name, run)
    const refusal = this.#delegations.refusalOfHandoff(from, to, turn, offered(request.offer))
    if (refusal) throw refusal
    if (from.settings.floor && !to.settings.floor && isSpeaking(this.#asked(own))) throw maySpeakNot(from, to)
    const handoff: Handoff = { run, from, own, name, to, call }
    this.#record('identified', handoff)
    await this.#ask(handoff, this.#question(handoff, request, summary), signal)
  }

  #record(
    step: HandoffStep,
    { run, from, own, name }: Omit<Handoff, 'to' | 'call'>,
    fields: { summary?: string; offer?: string } = {},
  ): void {
    const agent = BY_TARGET.has(step) ? name : from.name
    const messageId = idOf(own.memory, own.at)
    this.#core.journal.record(run, {
      kind: 'handoff',
      step,
      agent,
      from: from.name,
      to: name,
      turn: own.turn,
      messageId,
      ...fields,
    })
  }

  /** Acknowledges an offer: the target's turn has begun and continues, so the target has not refused. */
  acknowledged(agent: Agent, turn: number): void {
    const envelope = agent.holderOf(turn)?.mailbox.handed.get(turn)
    if (envelope) this.#offers.get(envelope)?.()
  }

  /** `asked`: what to ask, or the request that an earlier process has made for it. */
  #ask(handoff: Handoff, asked: Question | OpenRequest, signal: AbortSignal): Promise<void> {
    const { run, from, own, to, call } = handoff
    return new Promise((resolve, reject) => {
      let offer: OpenRequest | undefined
      let isOpen = true
      const close = () => {
        isOpen = false
        stop()
        if (offer) this.#offers.delete(offer.envelope)
      }
      const accept = () => {
        close()
        this.#record('acknowledged', handoff)
        this.#move(from, own, offer!)
        this.#record('handed_off', handoff, { offer: idOf(offer!.envelope.memory, offer!.envelope.at) })
        this.#record('proceeding', handoff)
        resolve()
      }
      const settle = (memory: Memory, at: number) => {
        const failure = isFailure(memory, at) ? errorOf(memory, at) : undefined
        if (!isOpen) return this.#ended(handoff, offer!, failure)
        if (failure) {
          close()
          this.#record('declined', handoff)
          return reject(failure)
        }
        accept()
        const duty = this.#requests.of(offer!.envelope)
        if (duty) this.#requests.conclude(duty, memory, at)
      }
      const stop = onAbort(signal, () => {
        if (offer) this.#cancellation.recall(offer, withdrawn(from, to))
        close()
        reject(withdrawn(from, to))
      })
      if ('caller' in asked) {
        offer = asked
        offer.settle = settle
      } else {
        this.#record('requested', handoff)
        offer = this.#hostMessages.ask({ target: to, run, question: asked, settle, sender: from, call })
      }
      if (!offer || !isOpen) return
      offer.turn = own.turn // until then the source waits
      offer.offers = true
      this.#offers.set(offer.envelope, accept)
    })
  }

  /** Moves the duty: the caller of the source waits for the target from now on. */
  #move(from: Agent, own: Envelope<RunState>, offer: OpenRequest): void {
    const duty = this.#requests.of(own)
    noteHandedOff(from, own)
    own.run.handoffs += 1
    own.run.successors.set(idOf(own.memory, own.at), idOf(offer.envelope.memory, offer.envelope.at))
    if (duty) this.#requests.move(duty, offer)
    else offer.turn = NO_TURN
    // The source's turn was interrupted meanwhile. It cannot be redelivered within its outer turn, which waits for the
    // target now.
    if (own.within && from.holderOf(own.turn)?.incarnation?.begun(own) !== true)
      this.#cancellation.withdraw(from, own, cutOffAfterHandoff(from.name))
  }

  /** Dead-letters the failure of a handed-off turn. Nobody had asked the source, so no caller is notified. */
  #ended({ run }: Handoff, { envelope }: OpenRequest, failure: DramatisError | undefined): void {
    if (failure) this.#core.journal.deadLetter(run, envelope.memory, envelope.at, 'failed', [failure])
  }

  #asked({ memory, at, run }: Envelope<RunState>): AgentMessage {
    return decodeMessage(memory, at, directoryOf(run, this.#core.directory))
  }

  #question(handoff: Handoff, request: Partial<HandoffRequest>, summary: string): Question {
    const { run, own, to } = handoff
    const { description, priority, offer } = request
    const { parentTask, deadline } = offered(offer)
    const due = [deadline, run.tasks.get(parentTask ?? '')?.deadline].filter((time) => typeof time === 'number')
    const asked = this.#asked(own)
    const { threadId } = readBody(own.memory, own.at)
    const subTask = subTaskAt(own.memory, own.at)
    const metadata = {
      ...formOf(asked),
      ...answeredBy(subTask, actingAt(own.memory, own.at)),
      handoff: { ...this.#handedOver(handoff, request, summary, asked), ...this.#bounds(handoff, request, asked) },
    }
    // The conversation that both share has the parts of the question in their place.
    const parts = to.settings.floor && request.said ? undefined : partsOf(own.memory, own.at)
    return {
      type: 'delegate',
      content: String(description),
      data: JSON.stringify({ ...Object(offer), deadline: due.length > 0 ? Math.min(...due) : null }),
      metadata: JSON.stringify(withParts(metadata, parts)),
      streams: to.settings.playedByModel && this.#requests.of(own)?.streams === true,
      ...(threadId !== undefined && { threadId }),
      ...(Number.isInteger(priority) && { priority: Number(priority) | 0 }),
      ...(kindOf(own.memory, own.at) === REQUEST && { limit: limitOf(own.memory, own.at) }),
    }
  }

  /** Returns what the target reads of the handoff. */
  #handedOver(handoff: Handoff, request: Partial<HandoffRequest>, summary: string, asked: AgentMessage): HandedOver {
    const handed = handedOverWith(handoff, request, summary, asked)
    const { from, run, to } = handoff
    const { playedByModel } = to.settings
    const { said } = playedByModel ? handed : request
    if (!said || !from.settings.playedByModel || !to.settings.floor || !isSpeaking(asked)) return handed
    if (this.#filter && playedByModel) {
      const shown = this.#filtered(this.#filter, handoff, handed, summary)
      return { ...handed, said: [onlyFor(to.name, said, shown)] }
    }
    // Turns that the thread has need not go with the message. Code has no conversation: that of the source is the same.
    const reader = playedByModel ? to : from
    this.#core.agentStates.conversations.begin(reader, run)
    const { turns = [], summary: before } = (run.states.get(reader.index) ?? {}) as Partial<Conversation>
    const known = new Set(turns.map(({ id }) => id))
    const isNews = ({ id, for: alone, instead }: SpokenTurn) => !known.has(id) && (!before || !alone || instead)
    return { ...handed, said: said.filter(isNews) }
  }

  #filtered(
    filter: HandoffFilter,
    { from, own, to }: Handoff,
    { task, said = [] }: HandedOver,
    summary: string,
  ): readonly ModelMessage[] {
    const about = { from: from.name, to: to.name }
    const refused = (what: string, cause?: unknown) =>
      new DelegationRefusedError(
        `"${from.name}" cannot hand off to "${to.name}": orchestration.history ${what}.`,
        about,
        cause,
      )
    const { stored } = own.run
    const messages = readableMessages(historyOf({ turns: said }), ({ hash }) => readerOf(stored, hash))
    let shown: unknown
    try {
      shown = filter(messages, { ...about, task: task.description, summary })
    } catch (error) {
      throw refused(`has thrown: ${describe(error)}`, error)
    }
    const keeper = this.#core.parts.keeperFor(own.run)
    if (areMessages(shown)) return shown.map((message) => ({ ...message, content: asJson(message.content, keeper) }))
    throw refused('has returned something else than messages of a user, an assistant and tools')
  }

  /**
   * Says whether the next speaker may hand the duty on again: not at the bound of the run, and not if two agents have
   * handed it to and fro twice with nothing in between.
   */
  #bounds({ run, from, own, to }: Handoff, { isSilent }: Partial<HandoffRequest>, asked: AgentMessage): object {
    const silent = isSilent ? [...(handedOverIn(asked)?.silent ?? []), from.name].slice(-TO_AND_FRO) : []
    const [a, b, c, d] = silent
    const isToAndFro = silent.length === TO_AND_FRO && a === c && b === d && a === to.name
    const handoffs = this.#delegations.handoffsUntil(from, own.turn) + 1
    const isLast = isToAndFro || !this.#delegations.hasHandoffsLeft(handoffs)
    if (isLast)
      this.#core.journal.record(run, {
        kind: 'decision',
        question: `May "${to.name}" hand off again?`,
        choice: 'no',
        reason: isToAndFro
          ? `"${a}" and "${b}" have handed off to each other twice with nothing in between.`
          : `This is handoff number ${handoffs} of the run (maxHandoffs).`,
      })
    return { ...(silent.length > 0 && { silent }), ...(isLast && { last: true }) }
  }

  /** Builds a summary if the source gives none: the task, and what its turn has done. */
  #summary(from: Agent, own: Envelope<RunState>, { description }: Partial<HandoffRequest>): string {
    const done = stepsOf(from, own, (index) => this.#core.directory.name(index))
    return `${description} ${done.length === 0 ? 'Nothing was done yet.' : `Done so far: ${done.join(', ')}.`}`
  }

  /*
   * Reassignments: a manager that was asked for a decision gives the task to another agent. This is a delegation on the
   * manager's behalf: the manager's right to delegate decides, and the new owner has a task on the board. The turn that
   * had asked waits for it, as for a delegation of its own.
   */

  /** Reassigns a task. Resolves with the answer of the new owner; rejects with the reason if there is none. */
  async reassign(
    { agent: from, run, turn, correlation: call }: HostCaller,
    given: object,
    signal: AbortSignal,
  ): Promise<AgentMessage> {
    const request = given as Partial<ReassignRequest>
    const own = from.messageOf(turn)
    const by = this.#core.directory.require(String(request.by), run)
    const to = this.#core.directory.require(String(request.to), run)
    const made = this.#requests.madeFor(from, call)
    if (own && made) return this.#askNewOwner({ from, own, by, to, call }, made, signal)
    if (!own || !hasDecided(from, own, by, to)) throw notDecided(from, by, to)
    const refusal = this.#delegations.refusalOfReassignment(by, from, to, turn)
    if (refusal) throw refusal
    return this.#askNewOwner({ from, own, by, to, call }, questionOf(request, own), signal)
  }

  #recordReassignment(step: Step, { from, own, by, to }: Reassignment): void {
    const messageId = idOf(own.memory, own.at)
    const names = { agent: by.name, from: from.name, to: to.name }
    this.#core.journal.record(own.run, { kind: 'reassignment', step, ...names, turn: own.turn, messageId })
  }

  /** `asked`: what to ask, or the request that an earlier process has made for it. */
  #askNewOwner(reassignment: Reassignment, asked: Question | OpenRequest, signal: AbortSignal): Promise<AgentMessage> {
    const { from, own, by, to, call } = reassignment
    const { run } = own
    return new Promise((resolve, reject) => {
      let offer: OpenRequest | undefined
      const fail = (error: DramatisError) => {
        stop()
        this.#recordReassignment('failed', reassignment)
        reject(error)
      }
      const settle = (memory: Memory, at: number) => {
        if (isFailure(memory, at)) return fail(errorOf(memory, at))
        stop()
        run.successors.set(idOf(own.memory, own.at), idOf(memory, at))
        this.#recordReassignment('done', reassignment)
        resolve(decodeMessage(memory, at, directoryOf(run, this.#core.directory)))
      }
      const stop = onAbort(signal, () => {
        const reason = new CancelledError(`The task of "${from.name}" is not wanted of "${to.name}" any more.`, {
          agent: to.name,
          from: from.name,
        })
        if (offer) this.#cancellation.recall(offer, reason)
        fail(reason)
      })
      if ('caller' in asked) {
        offer = asked
        offer.settle = settle
        return
      }
      this.#recordReassignment('requested', reassignment)
      offer = this.#hostMessages.ask({ target: to, run, question: asked, settle, sender: from, giver: by, call })
      if (offer) offer.turn = own.turn
    })
  }
}

/** Returns the metadata for the form of the answer, and for whose it is: both stay the same, whoever gives it. */
function formOf(asked: AgentMessage): object {
  const lastSpeaker = lastSpeakerIn(asked)
  return { ...picked(asked.metadata, FORM), ...(lastSpeaker && { lastSpeaker }) }
}

const FORM = ['answerSchema', 'answerFunction', 'answerContent']

/**
 * Returns what the target reads of the handoff. A model reads the conversation; of code that has none, the request that
 * it was asked.
 */
function handedOverWith(
  { from, own, to }: Handoff,
  { description, task: offered, summary: given, said }: Partial<HandoffRequest>,
  summary: string,
  asked: AgentMessage,
): HandedOver {
  const task = { ...offered, description: String(description) }
  if (!to.settings.playedByModel) return { from: from.name, summary, task }
  const content = userContent(asked, senderOf(own.memory, own.at) === ORCHESTRATOR_INDEX)
  const request: SpokenTurn = { id: idOf(own.memory, own.at), messages: [{ role: 'user', content }] }
  return { from: from.name, task, ...(given !== undefined && { summary: given }), said: said ?? [request] }
}

/** Number of handoffs between two agents, with nothing in between, that are twice to and fro. */
const TO_AND_FRO = 4

/** Checks whether the answer to that message is the one of the run: who gives it speaks for the run. */
const isSpeaking = (asked: AgentMessage): boolean => lastSpeakerIn(asked) === true

const maySpeakNot = ({ name: from }: Agent, { name: to }: Agent) =>
  new DelegationRefusedError(
    `"${from}" cannot hand off to "${to}": it is none of the agents that speak. Add it to orchestration.agents.`,
    { from, to },
  )

const withdrawn = ({ name }: Agent, to: Agent) =>
  new CancelledError(`The handoff of "${name}" to "${to.name}" was withdrawn.`, { agent: to.name, from: name })

const notItsDuty = ({ name }: Agent, isOver: boolean) =>
  new DelegationRefusedError(
    isOver
      ? `Agent "${name}" has handed its duty off already; nobody waits for this turn any more. End it.`
      : `Agent "${name}" has no such turn open, so there is no duty to hand off. Await the handoff in the handler.`,
    { from: name },
  )

/**
 * Checks in the log whether that manager has answered the turn that its task goes to that agent. The word of the thread
 * does not count.
 */
function hasDecided(from: Agent, { run, turn }: Envelope<RunState>, by: Agent, to: Agent): boolean {
  const asked = new Set<number>()
  for (const [memory, at] of framesOf(run.log)) {
    const kind = kindOf(memory, at)
    if (kind === REQUEST && senderOf(memory, at) === from.index && turnOf(memory, at) === turn) {
      const name = readBody(memory, at).name
      if (recipientOf(memory, at) === by.index || name === by.name) asked.add(correlationOf(memory, at))
    } else if ((kind === END || kind === RESPONSE) && recipientOf(memory, at) === from.index) {
      if (!asked.has(correlationOf(memory, at)) || isFailure(memory, at)) continue
      const answer = Object(jsonIn(readBody(memory, at).data)) as { decision?: unknown; to?: unknown }
      if (answer.decision === 'reassign' && answer.to === to.name) return true
    }
  }
  return false
}

function questionOf(request: Partial<ReassignRequest>, own: Envelope<RunState>): Question {
  const { description, data, metadata, priority } = request
  const { threadId } = readBody(own.memory, own.at)
  return {
    type: 'delegate',
    content: String(description),
    data: JSON.stringify(data),
    metadata: JSON.stringify(withParts(Object(metadata), partsOf(own.memory, own.at))),
    ...(threadId !== undefined && { threadId }),
    ...(Number.isInteger(priority) && { priority: Number(priority) | 0 }),
  }
}

const notDecided = ({ name }: Agent, by: Agent, to: Agent) =>
  new DelegationRefusedError(
    `"${by.name}" has not decided that "${to.name}" gets the task of the turn that "${name}" is at. Escalate, and await it in the handler.`,
    { from: by.name, to: to.name, agent: name },
  )
