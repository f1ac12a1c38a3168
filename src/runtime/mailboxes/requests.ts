/** Open requests: finds them by their message, moves the duty to answer, and makes the answers of the host. */
import type { DramatisError } from '../../errors.ts'
import { answering, isFailure } from '../../mailbox/codec.ts'
import {
  CORRELATION,
  correlationOf,
  KIND,
  REQUEST,
  RESPONSE,
  senderOf,
  setCorrelation,
  setRecipient,
  stepOf,
  typeOf,
  WHO,
} from '../../mailbox/frame.ts'
import { copyId, idOf } from '../../mailbox/frame-id.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { ReplyLane } from '../dispatch/reply-lane.ts'
import type { HostFrames } from '../log/host-frames.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell, OpenRequest } from '../state/cell.ts'
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

/** Destination of an answer: the caller, the correlation, and the caller's turn. */
export interface Asked extends Pick<OpenRequest, 'caller' | 'correlation' | 'run' | 'turn' | 'settle'> {
  /** Index of the agent that was asked; 0: the runtime. */
  readonly from: number
  /** Message of the request; the answer has its id. */
  readonly memory: Memory
  readonly at: number
}

export class Requests {
  readonly #needs: Needs
  /**
   * Requests whose duty was handed off, by the message that has the duty now. Its sender is not the caller that waits.
   */
  readonly #moved = new WeakMap<Envelope<RunState>, OpenRequest>()

  constructor(needs: Needs) {
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

  /** Returns the request whose message has that id. */
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

  /** Returns the open request that the host has made for that call of an agent. */
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
