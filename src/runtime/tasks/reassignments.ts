/**
 * Reassignments: a manager that was asked for a decision gives the task to another agent (document 002, 2.6.2). This is
 * a delegation on the manager's behalf: the manager's right to delegate decides, and the new owner has a task on the
 * board. The turn that had asked waits for it, as for a delegation of its own.
 */

import type { Verb } from '../../actors/definition/trust.ts'
import type { ReassignRequest } from '../../actors/turn/escalate.ts'
import { CancelledError, DelegationRefusedError, type DramatisError } from '../../errors.ts'
import { decodeMessage, errorOf, isFailure, jsonIn, partsOf } from '../../mailbox/codec.ts'
import { correlationOf, END, kindOf, REQUEST, RESPONSE, recipientOf, senderOf, turnOf } from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import { idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { withParts } from '../../mailbox/parts.ts'
import { onAbort } from '../../on-abort.ts'
import type { Delegations } from '../admission/delegation.ts'
import type { HostMessages } from '../admission/host-messages.ts'
import type { Question } from '../log/host-frames.ts'
import type { HostRecord } from '../log/records.ts'
import { framesOf } from '../log/run-log.ts'
import type { Requests } from '../mailboxes/requests.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
import type { Journal } from '../state/journal.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import type { Cancellation } from '../turns/cancellation.ts'
import type { HostCaller, HostVerb } from '../verbs/host-verb.ts'

interface Needs {
  readonly delegations: Delegations
  readonly cancellation: Cancellation
  readonly directory: AgentDirectory
  readonly hostMessages: HostMessages
  readonly journal: Journal
  readonly requests: Requests
}

type Step = Extract<HostRecord, { kind: 'reassignment' }>['step']

/** Reassignment under way: the turn that loses the task, the manager that decided, and the new owner. */
interface Reassignment {
  readonly from: Cell
  readonly own: Envelope<RunState>
  readonly by: Cell
  readonly to: Cell
  /** Number of the call of the verb. */
  readonly call: number
}

export class Reassignments {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  get verbs(): [Verb, HostVerb][] {
    return [['reassign', (args, caller, signal) => this.reassign(caller, args as object, signal)]]
  }

  /** Reassigns a task. Resolves with the answer of the new owner; rejects with the reason if there is none. */
  async reassign(
    { cell: from, run, turn, correlation: call }: HostCaller,
    given: object,
    signal: AbortSignal,
  ): Promise<AgentMessage> {
    const request = given as Partial<ReassignRequest>
    const own = from.messageOf(turn)
    const by = this.#needs.directory.require(String(request.by), run)
    const to = this.#needs.directory.require(String(request.to), run)
    const made = this.#needs.requests.madeFor(from, call)
    if (own && made) return this.#ask({ from, own, by, to, call }, made, signal)
    if (!own || !hasDecided(from, own, by, to)) throw notDecided(from, by, to)
    const refusal = this.#needs.delegations.refusalOfReassignment(by, from, to, turn)
    if (refusal) throw refusal
    return this.#ask({ from, own, by, to, call }, questionOf(request, own), signal)
  }

  #record(step: Step, { from, own, by, to }: Reassignment): void {
    const messageId = idOf(own.memory, own.at)
    const names = { agent: by.name, from: from.name, to: to.name }
    this.#needs.journal.record(own.run, { kind: 'reassignment', step, ...names, turn: own.turn, messageId })
  }

  /** `asked`: what to ask, or the request that an earlier process has made for it. */
  #ask(reassignment: Reassignment, asked: Question | OpenRequest, signal: AbortSignal): Promise<AgentMessage> {
    const { from, own, by, to, call } = reassignment
    const { run } = own
    return new Promise((resolve, reject) => {
      let offer: OpenRequest | undefined
      const fail = (error: DramatisError) => {
        stop()
        this.#record('failed', reassignment)
        reject(error)
      }
      const settle = (memory: Memory, at: number) => {
        if (isFailure(memory, at)) return fail(errorOf(memory, at))
        stop()
        run.successors.set(idOf(own.memory, own.at), idOf(memory, at))
        this.#record('done', reassignment)
        resolve(decodeMessage(memory, at, directoryOf(run, this.#needs.directory)))
      }
      const stop = onAbort(signal, () => {
        const reason = new CancelledError(`The task of "${from.name}" is not wanted of "${to.name}" any more.`, {
          agent: to.name,
          from: from.name,
        })
        if (offer) this.#needs.cancellation.recall(offer, reason)
        fail(reason)
      })
      if ('caller' in asked) {
        offer = asked
        offer.settle = settle
        return
      }
      this.#record('requested', reassignment)
      offer = this.#needs.hostMessages.ask({ target: to, run, question: asked, settle, sender: from, giver: by, call })
      if (offer) offer.turn = own.turn
    })
  }
}

/**
 * Checks in the log whether that manager has answered the turn that its task goes to that agent. The word of the thread
 * does not count.
 */
function hasDecided(from: Cell, { run, turn }: Envelope<RunState>, by: Cell, to: Cell): boolean {
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

const notDecided = ({ name }: Cell, by: Cell, to: Cell) =>
  new DelegationRefusedError(
    `"${by.name}" has not decided that "${to.name}" gets the task of the turn that "${name}" is at. Escalate, and await it in the handler.`,
    { from: by.name, to: to.name, agent: name },
  )
