/** Requests that are not answered yet: whose they are, who has the duty to answer, and the answers that the host makes. */
import type { DramatisError } from '../../errors.ts'
import { isFailure } from '../../mailbox/codec.ts'
import {
  correlationOf,
  kindOf,
  REQUEST,
  RESPONSE,
  senderOf,
  setCorrelation,
  setRecipient,
  typeOf,
} from '../../mailbox/frame.ts'
import { copyId, idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { ReplyLane } from '../dispatch/reply-lane.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { OpenRequest } from '../state/cell.ts'
import type { HostLoop } from '../state/host-loop.ts'
import type { Journal } from '../state/journal.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly directory: AgentDirectory
  readonly frames: HostFrames
  readonly journal: Journal
  readonly loop: HostLoop
  readonly replies: ReplyLane
}

/** Where an answer goes: who has asked, under which number, and for which of its turns. */
export interface Asked extends Pick<OpenRequest, 'caller' | 'correlation' | 'run' | 'turn' | 'settle'> {
  /** The index of who was asked; 0: the runtime. */
  readonly from: number
  /** The message of the request, whose id the answer has. */
  readonly memory: Memory
  readonly at: number
}

export class Requests {
  readonly #needs: Needs
  /** Requests whose duty was handed off, by the message of who has it now: that was sent by another than who is to be answered. */
  readonly #moved = new WeakMap<Envelope<RunState>, OpenRequest>()

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** The request that a message is, if its caller still waits. */
  of(envelope: Envelope<RunState>): OpenRequest | undefined {
    if (kindOf(envelope.memory, envelope.at) !== REQUEST) return undefined
    const request = this.#needs.directory.cells[senderOf(envelope.memory, envelope.at)]!.open.get(
      correlationOf(envelope.memory, envelope.at),
    )
    if (request?.envelope === envelope) return request
    const duty = this.#moved.get(envelope)
    return duty?.envelope === envelope && duty.caller.open.get(duty.correlation) === duty ? duty : undefined
  }

  /** The request whose message has that id. */
  withId(messageId: string): OpenRequest | undefined {
    for (const cell of this.#needs.directory.cells)
      for (const request of cell.open.values())
        if (idOf(request.envelope.memory, request.envelope.at) === messageId) return request
    return undefined
  }

  /** Who waited for the one turn waits for the message of that offer from now on. */
  move(duty: OpenRequest, offer: OpenRequest): void {
    offer.caller.open.delete(offer.correlation)
    if (typeOf(duty.envelope.memory, duty.envelope.at) === 'delegate') duty.replaced += 1
    duty.callee = offer.callee
    duty.envelope = offer.envelope
    duty.tried = 1
    duty.grantedMs = 0
    this.#moved.set(offer.envelope, duty)
  }

  /** The answer that stands there goes to who waits for it. */
  settle(request: OpenRequest, memory: Memory, at: number): void {
    const { caller, correlation, group, settle, turn } = request
    caller.open.delete(correlation)
    if (group && group.need > 1 && !isFailure(memory, at)) group.need -= 1
    if (settle) return settle(memory, at)
    this.#needs.replies.passOn(caller, memory, at, RESPONSE, turn)
  }

  /** An answer comes from who has the duty now: it goes to who has asked, under the number of what was asked. */
  conclude(duty: OpenRequest, memory: Memory, at: number): void {
    setRecipient(memory, at, duty.caller.index)
    setCorrelation(memory, at, duty.correlation)
    this.settle(duty, memory, at)
  }

  /** Settles a request with an error of the host's making. The log has it too: a redelivered turn gets the same answer. */
  answerWithError(request: OpenRequest, error: DramatisError): void {
    if (!request.caller.open.delete(request.correlation)) return
    const { caller, correlation, run, turn, settle, callee, envelope } = request
    const { memory, at } = envelope
    this.refuse({ caller, correlation, run, turn, settle, from: callee.index, memory, at }, error)
  }

  /** The same for one that was never open. */
  refuse({ caller, correlation, run, turn, settle, from, memory, at }: Asked, error: DramatisError): void {
    const { frames, journal, loop, replies } = this.#needs
    const fields = { sender: from, recipient: caller.index, run: run.index, turn, correlation }
    const frame = frames.failure(RESPONSE, fields, error)
    copyId(memory, at, frame.memory, 0)
    journal.appendOwned(run, frame.memory, frame.bytes)
    if (settle) settle(frame.memory, 0)
    else replies.reply(caller, frame)
    loop.wake()
  }
}
