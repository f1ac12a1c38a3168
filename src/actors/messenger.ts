/** What a turn says to others, and what it waits for: messages, requests, and the verbs that the host serves. */
import { CancelledError, type DramatisError, errorData, MessageRejectedError } from '../errors.ts'
import {
  ASKS,
  CALL,
  type FrameFields,
  MANY,
  NOBODY,
  policyAttempt,
  REJECTED,
  REQUEST,
  SEND,
  STREAM_READ,
  STREAMS,
  setCorrelation,
  setFlag,
  TO_ALL,
} from '../mailbox/frame.ts'
import { idOf } from '../mailbox/frame-id.ts'
import { type AgentMessage, type MessageType, ORCHESTRATOR } from '../mailbox/message.ts'
import { remainsOf } from '../mailbox/remains.ts'
import type { Ask } from './asks.ts'
import type { RequestOptions } from './context.ts'
import { handled, quiet, rejected } from './handled.ts'
import type { OpenSteps } from './open-steps.ts'
import { encodeData } from './outbox.ts'
import type { Matched, Streamed } from './replay.ts'
import { type Relay, ResponseStream } from './stream.ts'
import { isTrustedTo } from './trust.ts'
import type { TurnHost, TurnStart } from './turn-host.ts'
import { TurnWaits } from './turn-waits.ts'
import {
  checkContent,
  checkName,
  checkRequestOptions,
  checkSendOptions,
  durationOf,
  priorityOf,
  withdrawn,
} from './verb-checks.ts'

/** What it needs of its turn. */
export interface MessengerTurn extends Relay {
  readonly start: TurnStart
  /** Once it has had any. */
  readonly steps: OpenSteps | undefined
  /** Why no verb works any more, if none does. */
  refusal(): DramatisError | undefined
  nextStep(): number
  /** What a frame says of a wait that the signal may end. */
  waitingFor(signal: AbortSignal | undefined): number
}

interface Response {
  promise: Promise<unknown>
  correlation: number
  /** To an earlier attempt. */
  streamed?: Streamed | undefined
}

const EVERYBODY = 'all agents'
const DONE = Promise.resolve()
const SENDS_A_BREATH = 256 // awaiting settled promises starves timers: now and then a turn lets the event loop run

export const NO_OPTIONS: RequestOptions = Object.freeze({})

export class Messenger {
  readonly #loop: TurnHost
  readonly #turn: MessengerTurn
  #waits: TurnWaits | undefined
  #sent = 0
  /** The host refuses much of what it sends: it is to hear of that. */
  readonly #isDoubted: boolean

  constructor(loop: TurnHost, turn: MessengerTurn) {
    this.#loop = loop
    this.#turn = turn
    this.#isDoubted = !isTrustedTo(loop.role.trust, 'send')
  }

  /** How many waits for others are open. */
  get waiting(): number {
    return this.#waits?.count ?? 0
  }

  /** The log has answers for waits that are open: they come at once. */
  get replaying(): boolean {
    return this.#waits?.replaying ?? false
  }

  send(to: string, content: string, options: RequestOptions, type: MessageType = 'request'): Promise<void> {
    if (this.#isDoubted) return this.#sendViaHost(to, content, options, type)
    const refusal = this.#turn.refusal()
    if (refusal) return rejected(refusal)
    const { outbox, link } = this.#loop
    const { replay } = this.#turn.start
    let bytes: number
    try {
      bytes = this.#message(SEND, 0, to, content, options)
      outbox.fields.type = type
      if (options.signal?.aborted) throw withdrawn(to, options.signal)
    } catch (error) {
      return rejected(this.told(error, to, content, options, false))
    }
    if (replay) {
      const logged = replay.match(outbox.encode(bytes))
      if (logged) return logged.correlation === 0 ? this.#accepted() : this.#askedBefore(to, logged, options)
    }
    if (!this.#claim(bytes)) return this.#ask(bytes, to, options)
    outbox.write(bytes, 'soon')
    link.claimed()
    return this.#accepted()
  }

  /** From time to time a sender of many has to let the loop turn: bells are answered there, also while it repeats itself. */
  #accepted(): Promise<void> {
    return (++this.#sent & (SENDS_A_BREATH - 1)) === 0 || this.#turn.breathless ? this.#turn.breathe() : DONE
  }

  /**
   * Whether the mailbox has room for the frame, which is then taken. Only for what goes into the outbox at once: a claim
   * whose frame still waits in this thread would be lost with it.
   */
  #claim(bytes: number): boolean {
    const { link, outbox, asks } = this.#loop
    const { recipient, step, turn } = outbox.fields
    if (recipient === NOBODY || asks.open(recipient) || link.reserve(bytes) < 0) return false
    return link.claim(recipient, bytes, turn, step)
  }

  /** There is no room: the send stands in line for some. */
  #ask(bytes: number, to: string, options: RequestOptions): Promise<void> {
    const { outbox, waits, asks } = this.#loop
    const { fields } = outbox
    const correlation = waits.next()
    fields.correlation = correlation
    const verdict = this.#ofTurn().add(correlation, 'send', to, options.signal)
    const claimed = () => waits.get(correlation)?.resolve(undefined)
    asks.add(fields.recipient, this.#inLine('send', bytes, verdict, claimed))
    return verdict as Promise<void>
  }

  /** The frame that was begun, for the line of those that wait for room. */
  #inLine(
    kind: Ask['kind'],
    bytes: number,
    settled: Promise<unknown>,
    claimed: () => void,
    onSent?: (id: string) => void,
  ): Ask {
    const { link, outbox, waits } = this.#loop
    const { recipient, turn, step, correlation } = outbox.fields
    const frame = outbox.encode(bytes)
    const isWithdrawn = () => !waits.get(correlation) // just now: the line does not know of it yet
    return {
      kind,
      settled,
      claim: () => {
        if (isWithdrawn()) return true
        if (recipient === NOBODY || link.reserve(bytes) < 0 || !link.claim(recipient, bytes, turn, step)) return false
        if (kind === 'send') setCorrelation(frame, 0, 0) // it awaits no verdict
        link.put(frame, bytes, kind === 'send' ? 'soon' : 'now')
        link.claimed()
        claimed()
        onSent?.(idOf(frame, 0))
        return true
      },
      ask: () => {
        if (isWithdrawn()) return
        setFlag(frame, 0, ASKS)
        link.post(frame, bytes)
        onSent?.(idOf(frame, 0))
      },
    }
  }

  /** An earlier attempt had asked. As long as the host has not said anything, later ones to that agent stay behind it. */
  #askedBefore(to: string, { correlation, answer }: Matched, options: RequestOptions): Promise<void> {
    const { recipient } = this.#loop.outbox.fields
    const verdict = this.#ofTurn().add(correlation, 'send', to, options.signal)
    if (answer) this.#ofTurn().settleAgain(correlation, to, answer)
    else this.#loop.asks.asked(recipient, verdict)
    return verdict as Promise<void>
  }

  /** The host makes the copies: it knows who is there. Until its verdict no later message goes to anybody. */
  broadcast(content: string, options: RequestOptions): Promise<void> {
    return this.#viaHost(EVERYBODY, options, () => {
      const fields = this.#begin(SEND, content, options)
      fields.type = 'broadcast'
      fields.flags = MANY | TO_ALL | ASKS
      fields.recipient = NOBODY
    })
  }

  /** The script has no mailbox for it: the host takes it into history. */
  report(to: string, content: string, options: RequestOptions): Promise<void> {
    if (to !== ORCHESTRATOR) return this.send(to, content, options, 'report')
    return this.#sendViaHost(to, content, options, 'report')
  }

  #sendViaHost(to: string, content: string, options: RequestOptions, type: MessageType): Promise<void> {
    return this.#viaHost(to, options, () => {
      this.#message(SEND, 0, to, content, options)
      const { fields } = this.#loop.outbox
      fields.type = type
      fields.flags = ASKS
    })
  }

  /** A message on which the host has the say in any case. `fill` fills its frame. */
  #viaHost(to: string, options: RequestOptions, fill: () => void): Promise<void> {
    const refusal = this.#turn.refusal()
    if (refusal) return rejected(refusal)
    if (this.#turn.breathless) return this.#afterBreath(() => this.#viaHost(to, options, fill))
    const { outbox, waits, asks } = this.#loop
    try {
      fill()
      const { fields } = outbox
      const toAll = (fields.flags & TO_ALL) !== 0
      const bytes = outbox.checkedSize()
      const logged = this.#turn.start.replay?.match(outbox.encode(bytes))
      if (!logged && options.signal?.aborted) throw withdrawn(to, options.signal)
      const correlation = logged?.correlation ?? waits.next()
      fields.correlation = correlation
      if (!logged) {
        if (toAll) asks.askAll()
        outbox.write(bytes, 'now')
      }
      const verdict = this.#ofTurn().add(correlation, 'send', to, options.signal) as Promise<void>
      if (logged?.answer) this.#ofTurn().settleAgain(correlation, to, logged.answer)
      else if (toAll) asks.askedAll(verdict)
      return verdict
    } catch (error) {
      return rejected(error)
    }
  }

  /** `waiting`: how, where it is one request of several. `onSent` is given its id when it is on its way. */
  request(
    to: string,
    content: string,
    options: RequestOptions,
    type: MessageType = 'request',
    waiting?: number,
    onSent?: (id: string) => void,
  ): Promise<unknown> {
    if (this.#turn.breathless) return this.#afterBreath(() => this.request(to, content, options, type, waiting, onSent))
    return this.#request(to, content, options, 0, type, waiting, onSent).promise
  }

  requestStream(to: string, content: string, options: RequestOptions): ResponseStream {
    const { promise, correlation, streamed } = this.#request(to, content, options, STREAMS, 'request')
    const read = (count: number) => {
      if (!this.#turn.refusal()) this.#loop.writeControl(STREAM_READ, this.#turn.start, correlation, count)
    }
    const leave = () => {
      const text = `The answer of "${to}" was no longer wanted: its reader left the loop.`
      this.#ofTurn().withdraw(correlation, new CancelledError(text, { agent: to }))
    }
    const stream = new ResponseStream(promise as Promise<AgentMessage>, this.#turn, read, leave)
    if (streamed) stream.resume(streamed)
    const wait = this.#loop.waits.get(correlation)
    if (wait) wait.stream = stream
    return stream
  }

  #request(
    to: string,
    content: string,
    options: RequestOptions,
    flags: number,
    type: MessageType,
    waiting?: number,
    onSent?: (id: string) => void,
  ): Response {
    const correlation = this.#loop.waits.next()
    const refusal = this.#turn.refusal()
    if (refusal) return { promise: rejected(refusal), correlation }
    const { outbox, link, asks } = this.#loop
    const { replay } = this.#turn.start
    let bytes: number
    try {
      bytes = this.#message(REQUEST, correlation, to, content, options)
      if (options.signal?.aborted) throw withdrawn(to, options.signal)
    } catch (error) {
      return { promise: rejected(this.told(error, to, content, options)), correlation }
    }
    outbox.fields.flags |= flags
    if (waiting !== undefined) outbox.fields.waiting = waiting
    outbox.fields.type = type
    const logged = replay?.match(outbox.encode(bytes))
    if (logged) {
      onSent?.(idOf(logged.frame.memory, logged.frame.at))
      return this.#reattach(to, logged, options)
    }
    if (!this.#claim(bytes)) {
      const response = this.#awaitResponse(to, correlation, options)
      asks.add(outbox.fields.recipient, this.#inLine('request', bytes, response.promise, quiet, onSent))
      return response
    }
    if (onSent) {
      const frame = outbox.encode(bytes)
      link.put(frame, bytes, 'now')
      onSent(idOf(frame, 0))
    } else outbox.write(bytes, 'now')
    link.claimed()
    return this.#awaitResponse(to, correlation, options)
  }

  /**
   * A verb that the host serves. The answer is JSON; `signal` withdraws it; `onPiece` is given what comes before it. `alike`: the
   * arguments that come first, where a later attempt is to know the call by them alone.
   */
  call(
    operation: string,
    args: object,
    signal: AbortSignal | undefined,
    onPiece?: (piece: string) => void,
    alike?: object,
  ): Promise<unknown> {
    const refusal = this.#turn.refusal()
    if (refusal) return rejected(refusal)
    const { outbox, waits } = this.#loop
    if (this.#turn.breathless) return this.#afterBreath(() => this.call(operation, args, signal, onPiece, alike))
    const { run, turn, replay } = this.#turn.start
    const options: RequestOptions = signal ? { signal } : NO_OPTIONS
    try {
      const data = encodeData(args, operation)
      const fields = outbox.begin(CALL, run, turn, this.#turn.nextStep(), operation, data)
      fields.correlation = waits.next()
      fields.waiting = this.#turn.waitingFor(signal)
      const bytes = outbox.checkedSize()
      const logged = alike ? replay?.matchCall(operation, alike) : replay?.match(outbox.encode(bytes))
      if (logged) {
        const response = this.#reattach(operation, logged, options)
        if (onPiece) this.#hear(response, onPiece)
        return response.promise
      }
      if (signal?.aborted) throw withdrawn(operation, signal)
      outbox.write(bytes, 'now')
      const response = this.#awaitResponse(operation, fields.correlation, options)
      if (onPiece) this.#hear(response, onPiece)
      return response.promise
    } catch (error) {
      return rejected(error)
    }
  }

  /** What had come to an earlier attempt comes again. A piece that cannot be taken ends the wait. */
  #hear({ correlation, streamed }: Response, onPiece: (piece: string) => void): void {
    const wait = this.#loop.waits.get(correlation)
    if (!wait) return
    const push = (piece: string) => {
      try {
        onPiece(piece)
      } catch (error) {
        wait.reject(error)
      }
    }
    wait.stream = { push }
    for (const piece of streamed?.pieces ?? []) push(piece)
  }

  /** The reader of what was emitted is far behind: the verb waits for it. */
  #afterBreath<T>(verb: () => Promise<T>): Promise<T> {
    return handled(this.#turn.breathe().then(verb))
  }

  /** The log knows the step: its wait goes on under its old number, or is over. */
  #reattach(to: string, { correlation, answer, streamed }: Matched, options: RequestOptions): Response {
    const response = this.#awaitResponse(to, correlation, options)
    if (answer) this.#ofTurn().settleAgain(correlation, to, answer)
    return { ...response, streamed }
  }

  #awaitResponse(to: string, correlation: number, options: RequestOptions): Response {
    return { promise: this.#ofTurn().add(correlation, 'request', to, options.signal), correlation }
  }

  /** Most turns wait for nothing. */
  #ofTurn(): TurnWaits {
    this.#waits ??= new TurnWaits(this.#loop, this.#turn)
    return this.#waits
  }

  /** See `TurnWaits`. */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    this.#waits?.withdrawAll(reason, sends)
  }

  /** The error; where it refuses a message that was for somebody the host gets what remains of that, for the dead letters. */
  told(
    error: unknown,
    recipient: string | readonly string[],
    content: string,
    options: RequestOptions,
    requiresResponse = true,
  ): unknown {
    const given = { ...options, sender: this.#loop.role.name, recipient, content, requiresResponse }
    const remains = error instanceof MessageRejectedError ? remainsOf(given) : undefined
    if (!remains) return error
    const { outbox } = this.#loop
    const { run, turn, replay } = this.#turn.start
    const data = JSON.stringify({ remains, error: errorData(error as MessageRejectedError) })
    outbox.begin(REJECTED, run, turn, this.#turn.nextStep(), '', data)
    const bytes = outbox.size()
    if (!replay?.match(outbox.encode(bytes))) outbox.write(bytes, 'soon')
    return error
  }

  /** Fills the frame of a message; returns its bytes. */
  #message(kind: number, correlation: number, to: string, content: string, options: RequestOptions): number {
    checkName(to, 'to')
    const fields = this.#begin(kind, content, options)
    const index = this.#loop.indexOf(to, this.#turn.start.view)
    fields.recipient = index ?? NOBODY
    if (index === undefined) fields.name = to
    fields.correlation = correlation
    return this.#loop.outbox.checkedSize()
  }

  /** Fills the frame of a message but for whom it is for. */
  #begin(kind: number, content: string, options: RequestOptions): FrameFields {
    checkContent(content)
    if (options !== NO_OPTIONS) checkRequestOptions(options)
    if (kind === SEND) checkSendOptions(options)
    const { outbox } = this.#loop
    const { run, turn } = this.#turn.start
    const data = encodeData(options.structuredData, 'structuredData')
    const fields = outbox.begin(kind, run, turn, this.#turn.nextStep(), content, data)
    if (options !== NO_OPTIONS) {
      if (options.metadata !== undefined) fields.metadata = encodeData(options.metadata, 'metadata')
      fields.threadId = options.threadId
      fields.limit = options.timeoutMs === undefined ? -1 : durationOf(options.timeoutMs, 'timeoutMs')
      fields.priority = priorityOf(options.priority)
      fields.waiting = this.#turn.waitingFor(options.signal)
      fields.polling = options.polling === true
      if (kind === REQUEST) fields.attempt = policyAttempt(options.retries, options.idempotent === true)
    }
    return fields
  }
}
