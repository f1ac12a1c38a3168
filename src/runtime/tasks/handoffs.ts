/**
 * Handoffs: the duty to answer moves from a turn to another agent, in the six steps of document 002, 2.6.1. Each step
 * is a record.
 *
 * The target is asked in the name of the source. Until it acknowledges, the source keeps the duty: if the target
 * refuses, fails or is gone, the source loses nothing but that step. After that the request that the source's turn was
 * to answer waits for the target's message. Deadlines, cancellation and the wait chain then refer to the target, and
 * what the source returns answers nobody.
 */

import { ACKNOWLEDGE, type Verb } from '../../actors/definition/trust.ts'
import { lastSpeakerIn } from '../../actors/model/last-speaker.ts'
import { userContent } from '../../actors/model/prompt.ts'
import type { HandoffRequest } from '../../actors/turn/handoff.ts'
import { CancelledError, DelegationRefusedError, type DramatisError } from '../../errors.ts'
import { decodeMessage, errorOf, isFailure, partsOf, subTaskAt } from '../../mailbox/codec.ts'
import { kindOf, limitOf, REQUEST, senderOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { withParts } from '../../mailbox/parts.ts'
import { SUB_TASK } from '../../mailbox/sub-task.ts'
import { onAbort } from '../../on-abort.ts'
import { picked } from '../../own.ts'
import type { Delegations } from '../admission/delegation.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { Question } from '../log/host-frames.ts'
import type { HandoffStep } from '../log/records.ts'
import type { Requests } from '../mailboxes/requests.ts'
import { offered } from '../mailboxes/task-offer.ts'
import { type AgentDirectory, ORCHESTRATOR_INDEX } from '../state/agent-directory.ts'
import { stepsOf } from '../state/attempt-log.ts'
import { type Cell, NO_TURN, type OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import { cutOffAfterHandoff } from '../turns/redelivery.ts'
import type { HostCaller, HostVerb } from '../verbs/host-verb.ts'

interface Needs {
  readonly delegations: Delegations
  readonly cancellation: Cancellation
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly requests: Requests
}

/** Handoff under way: the turn that gives its duty away, and the target. */
interface Handoff {
  readonly run: RunState
  readonly from: Cell
  readonly own: Envelope<RunState>
  readonly name: string
  readonly to: Cell
  /** Number of the call of the verb. */
  readonly call: number
}

type Caller = Pick<HostCaller, 'cell' | 'run' | 'turn' | 'correlation'>

const BY_TARGET: ReadonlySet<HandoffStep> = new Set(['acknowledged', 'declined', 'proceeding'])

export class Handoffs {
  readonly #needs: Needs
  /** Offers that are not acknowledged yet, by the message to the target. */
  readonly #offers = new Map<Envelope<RunState>, () => void>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  get verbs(): [Verb, HostVerb][] {
    return [
      ['handoff', (args, caller, signal) => this.handOff(caller, args as object, signal)],
      [ACKNOWLEDGE, (_args, { cell, turn }) => this.acknowledged(cell, turn)],
    ]
  }

  /**
   * Hands the duty of a turn off. Resolves when the target has acknowledged; rejects with the reason if it will not
   * take the duty.
   */
  async handOff(
    { cell: from, run, turn, correlation: call }: Caller,
    given: object,
    signal: AbortSignal,
  ): Promise<void> {
    const request = given as Partial<HandoffRequest>
    const own = from.messageOf(turn)
    if (!own || own.handedOff) throw notItsDuty(from, own !== undefined)
    const name = String(request.to)
    const made = this.#needs.requests.madeFor(from, call)
    if (made) return this.#ask({ run, from, own, name, to: made.callee, call }, made, signal)
    const summary = String(request.summary ?? this.#summary(from, own, request))
    this.#record('summarized', { run, from, own, name }, { summary })
    const to = this.#needs.directory.require(name, run)
    const refusal = this.#needs.delegations.refusalOfHandoff(from, to, turn, offered(request.offer))
    if (refusal) throw refusal
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
    this.#needs.journal.record(run, {
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
  acknowledged(agent: Cell, turn: number): void {
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
        const duty = this.#needs.requests.of(offer!.envelope)
        if (duty) this.#needs.requests.conclude(duty, memory, at)
      }
      const stop = onAbort(signal, () => {
        if (offer) this.#needs.cancellation.recall(offer, withdrawn(from, to))
        close()
        reject(withdrawn(from, to))
      })
      if ('caller' in asked) {
        offer = asked
        offer.settle = settle
      } else {
        this.#record('requested', handoff)
        offer = this.#needs.hostMessages.ask({ target: to, run, question: asked, settle, sender: from, call })
      }
      if (!offer || !isOpen) return
      offer.turn = own.turn // until then the source waits
      offer.offers = true
      this.#offers.set(offer.envelope, accept)
    })
  }

  /** Moves the duty: the caller of the source waits for the target from now on. */
  #move(from: Cell, own: Envelope<RunState>, offer: OpenRequest): void {
    const { cancellation, requests } = this.#needs
    const duty = requests.of(own)
    own.handedOff = true
    own.run.handoffs += 1
    own.run.successors.set(idOf(own.memory, own.at), idOf(offer.envelope.memory, offer.envelope.at))
    if (duty) requests.move(duty, offer)
    else offer.turn = NO_TURN
    // The source's turn was interrupted meanwhile. It cannot be redelivered within its outer turn, which waits for the
    // target now.
    if (own.within && from.holderOf(own.turn)?.life?.begun(own) !== true)
      cancellation.withdraw(from, own, cutOffAfterHandoff(from.name))
  }

  /** Dead-letters the failure of a handed-off turn. Nobody had asked the source, so no caller is notified. */
  #ended({ run }: Handoff, { envelope }: OpenRequest, failure: DramatisError | undefined): void {
    if (failure) this.#needs.journal.deadLetter(run, envelope.memory, envelope.at, 'failed', [failure])
  }

  #question(handoff: Handoff, request: Partial<HandoffRequest>, summary: string): Question {
    const { run, own, to } = handoff
    const { description, priority, offer } = request
    const { parentTask, deadline } = offered(offer)
    const due = [deadline, run.tasks.get(parentTask ?? '')?.deadline].filter((time) => typeof time === 'number')
    const asked = decodeMessage(own.memory, own.at, directoryOf(run, this.#needs.directory))
    const { threadId } = readBody(own.memory, own.at)
    const subTask = subTaskAt(own.memory, own.at)
    const metadata = {
      ...formOf(asked),
      ...(subTask && { [SUB_TASK]: subTask }),
      handoff: handedOverWith(handoff, request, summary, asked),
    }
    return {
      type: 'delegate',
      content: String(description),
      data: JSON.stringify({ ...Object(offer), deadline: due.length > 0 ? Math.min(...due) : null }),
      metadata: JSON.stringify(withParts(metadata, partsOf(own.memory, own.at))),
      streams: to.settings.playedByModel && this.#needs.requests.of(own)?.streams === true,
      ...(threadId !== undefined && { threadId }),
      ...(Number.isInteger(priority) && { priority: Number(priority) | 0 }),
      ...(kindOf(own.memory, own.at) === REQUEST && { limit: limitOf(own.memory, own.at) }),
    }
  }

  /** Builds a summary if the source gives none: the task, and what its turn has done. */
  #summary(from: Cell, own: Envelope<RunState>, { description }: Partial<HandoffRequest>): string {
    const done = stepsOf(from, own, (index) => this.#needs.directory.name(index))
    return `${description} ${done.length === 0 ? 'Nothing was done yet.' : `Done so far: ${done.join(', ')}.`}`
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
  { task, summary: given, said }: Partial<HandoffRequest>,
  summary: string,
  asked: AgentMessage,
): object {
  if (!to.settings.playedByModel) return { from: from.name, summary, task }
  const content = userContent(asked, senderOf(own.memory, own.at) === ORCHESTRATOR_INDEX)
  const request = { id: idOf(own.memory, own.at), messages: [{ role: 'user', content }] }
  return { from: from.name, task, ...(given !== undefined && { summary: given }), said: said ?? [request] }
}

const withdrawn = ({ name }: Cell, to: Cell) =>
  new CancelledError(`The handoff of "${name}" to "${to.name}" was withdrawn.`, { agent: to.name, from: name })

const notItsDuty = ({ name }: Cell, isOver: boolean) =>
  new DelegationRefusedError(
    isOver
      ? `Agent "${name}" has handed its duty off already; nobody waits for this turn any more. End it.`
      : `Agent "${name}" has no such turn open, so there is no duty to hand off. Await the handoff in the handler.`,
    { from: name },
  )
