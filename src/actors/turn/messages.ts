/**
 * Writes an answer in chunks. `emit` cannot wait, so later verbs wait while the reader is far behind (back-pressure).
 */

import { remainsOf } from '../../mailbox/dead-letters.ts'
import {
  ASKS,
  CHUNK,
  correlationOf,
  idOf,
  MANY,
  NOBODY,
  REJECTED,
  REQUEST,
  SEND,
  STREAM_READ,
  STREAM_WAIT,
  STREAMS,
  TO_ALL,
} from '../../mailbox/frame.ts'
import { type AgentMessage, type MessageType, ORCHESTRATOR } from '../../mailbox/message.ts'
import { CancelledError, errorData, MessageRejectedError } from '../../shared/errors.ts'
import {
  checkContent,
  checkRequestOptions,
  checkText,
  durationOf,
  priorityOf,
  withdrawn,
  wrongArgument,
} from '../definition/checks.ts'
import type { RequestOptions } from '../definition/context.ts'
import { quiet, rejected } from '../definition/promises.ts'
import { isTrustedTo, KEYED } from '../definition/role.ts'
import {
  type AwaitedResponse,
  beginMessage,
  fillMessage,
  ResponseStream,
  STREAM_CREDIT,
  type TurnCalls,
} from './calls.ts'
import type { Logged } from './logged-turn.ts'
import type { AgentThread, OpenTurn } from './open-turn.ts'
import type { TurnStart } from './replay.ts'
import type { Hold } from './steps.ts'

export class Emitter {
  readonly #thread: AgentThread
  readonly #start: TurnStart
  /** Chunks that the reader has not read; counted only if the caller reads the stream. */
  #unread = 0
  #closed = false
  #waiting: (() => void)[] = []

  constructor(thread: AgentThread, start: TurnStart) {
    this.#thread = thread
    this.#start = start
  }

  emit(chunk: string, step: number): void {
    checkText(chunk, 'chunk')
    const { outbox } = this.#thread
    const { run, turn, caller, correlation, streams, replay, id } = this.#start
    const fields = outbox.begin(CHUNK, run, turn, step, chunk, undefined)
    fields.recipient = caller
    fields.correlation = correlation
    if (streams) fields.flags = STREAMS
    const bytes = outbox.checkedSize()
    if (replay?.match(outbox.encode(bytes))) return
    outbox.writeAbout(id)
    if (streams) this.#unread += 1
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** True if the next verb must wait. */
  get behind(): boolean {
    return this.#unread > STREAM_CREDIT && !this.#closed
  }

  /** Notes that the reader has read `count` more chunks. */
  read(count: number): void {
    this.#unread = Math.max(0, this.#unread - count)
    if (!this.behind) this.#release()
  }

  async gate(): Promise<void> {
    while (this.behind) {
      if (this.#waiting.length === 0) this.#thread.writeControl(STREAM_WAIT, this.#start, 0, 1)
      this.#thread.link.flush()
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
        this.#thread.mayPark()
      })
    }
  }

  /** Releases all waiting verbs, because the turn has ended or must stop. */
  close(): void {
    this.#closed = true
    this.#release()
  }

  #release(): void {
    const waiting = this.#waiting
    if (waiting.length > 0) this.#thread.writeControl(STREAM_WAIT, this.#start, 0, 0)
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}

const EVERYBODY = 'all agents'
const DONE = Promise.resolve()
const SENDS_A_BREATH = 256 // awaiting settled promises starves timers, so a turn sometimes lets the event loop run

export class Messenger {
  readonly #thread: AgentThread
  readonly #turn: OpenTurn
  readonly #calls: TurnCalls
  #sent = 0
  /**
   * True if the role lacks the trust for 'send'. The host refuses many of its messages, and the sender must learn of
   * that.
   */
  readonly #isDoubted: boolean

  constructor(thread: AgentThread, turn: OpenTurn, calls: TurnCalls) {
    this.#thread = thread
    this.#turn = turn
    this.#calls = calls
    this.#isDoubted = !isTrustedTo(thread.role.trust, 'send')
  }

  send(to: string, content: string, options: RequestOptions, type: MessageType = 'request'): Promise<void> {
    if (this.#isDoubted) return this.#sendViaHost(to, content, options, type)
    if (this.#turn.ended || this.#turn.reason) return rejected(this.#turn.refusal())
    const { outbox } = this.#thread
    const { replay } = this.#turn.start
    let bytes: number
    try {
      bytes = fillMessage(this.#thread, this.#turn, SEND, 0, to, content, options)
      outbox.fields.type = type
      if (options.signal?.aborted) throw withdrawn(to, options.signal)
    } catch (error) {
      return rejected(this.told(error, to, content, options, false))
    }
    if (replay) {
      const frame = outbox.encode(bytes)
      const logged = replay.match(frame)
      if (logged && !logged.isUndone) return this.#sentBefore(to, logged, options)
      const { hold } = this.#turn
      if (!logged && hold?.isOpen) return hold.until(`send to ${to}`, () => this.send(to, content, options, type))
    }
    const at = this.#reserve(bytes)
    if (at < 0) return this.#ask(bytes, to, options)
    outbox.writeAt(at, bytes, 'soon')
    return this.#accepted()
  }

  /**
   * Completes an accepted send. A sender of many messages regularly lets the event loop turn, also during a replay,
   * because wake-ups of the host are processed there.
   */
  #accepted(): Promise<void> {
    return (++this.#sent & (SENDS_A_BREATH - 1)) === 0 || this.#turn.emitter?.behind ? this.#turn.breathe() : DONE
  }

  /**
   * Reserves room for the frame in the recipient's mailbox. Returns the place for it in the outbox, or -1 if there is
   * no room. Only for frames that go into the outbox at once: if the thread dies, a reservation for a frame that still
   * waits in it would be lost.
   */
  #reserve(bytes: number): number {
    const { link, outbox, sends } = this.#thread
    const { recipient, step, turn } = outbox.fields
    if (recipient === NOBODY || (!sends.isEmpty && sends.open(recipient))) return -1
    const at = link.reserve(bytes)
    return at >= 0 && link.reserveRoom(recipient, bytes, turn, step) ? at : -1
  }

  /** Queues a send for which there is no room. */
  #ask(bytes: number, to: string, options: RequestOptions): Promise<void> {
    const { outbox, waits, sends } = this.#thread
    const { fields } = outbox
    const correlation = waits.next()
    fields.correlation = correlation
    const verdict = this.#calls.add(correlation, 'send', to, options.signal)
    const reserved = () => {
      const wait = waits.get(correlation)
      // The room may exist because another turn got an acknowledgement.
      if (wait) this.#thread.goingOn.with(this.#turn.start, () => wait.order.settle(() => wait.settle(undefined)))
    }
    sends.add('send', bytes, verdict, reserved)
    return verdict as Promise<void>
  }

  /**
   * Continues a send of an earlier attempt. If that had asked the host, later messages to that agent wait behind it
   * until the host replies.
   */
  #sentBefore(to: string, logged: Logged, options: RequestOptions): Promise<void> {
    const correlation = correlationOf(logged.memory, logged.at)
    if (correlation === 0) return this.#accepted()
    const { recipient } = this.#thread.outbox.fields
    const verdict = this.#calls.add(correlation, 'send', to, logged.settled ? undefined : options.signal)
    this.#calls.settleAgain(correlation, to, logged)
    if (!logged.settled) this.#thread.sends.asked(recipient, verdict)
    return verdict as Promise<void>
  }

  /**
   * Broadcasts through the host, which makes the copies because it knows all agents. No later message to any agent is
   * sent before the acknowledgement.
   */
  broadcast(content: string, options: RequestOptions): Promise<void> {
    return this.#viaHost(EVERYBODY, options, () => {
      const fields = beginMessage(this.#thread, this.#turn, SEND, content, options)
      fields.type = 'broadcast'
      fields.flags = MANY | TO_ALL | ASKS
      fields.recipient = NOBODY
    })
  }

  /**
   * Reports to an agent or the protocol script. The script has no mailbox for reports, so the host puts them into
   * history.
   */
  report(to: string, content: string, options: RequestOptions): Promise<void> {
    if (to !== ORCHESTRATOR) return this.send(to, content, options, 'report')
    return this.#sendViaHost(to, content, options, 'report')
  }

  #sendViaHost(to: string, content: string, options: RequestOptions, type: MessageType): Promise<void> {
    return this.#viaHost(to, options, () => {
      fillMessage(this.#thread, this.#turn, SEND, 0, to, content, options)
      const { fields } = this.#thread.outbox
      fields.type = type
      fields.flags = ASKS
    })
  }

  /** Sends a message that the host must always decide about. `fill` fills its frame. */
  #viaHost(to: string, options: RequestOptions, fill: () => void): Promise<void> {
    if (this.#turn.ended || this.#turn.reason) return rejected(this.#turn.refusal())
    if (this.#turn.emitter?.behind) return this.#calls.afterBreath(() => this.#viaHost(to, options, fill))
    const { outbox, waits, sends } = this.#thread
    try {
      fill()
      const { fields } = outbox
      const toAll = (fields.flags & TO_ALL) !== 0
      const bytes = outbox.checkedSize()
      const { replay } = this.#turn.start
      const frame = replay && outbox.encode(bytes)
      const known = frame && replay.match(frame)
      const logged = known?.isUndone ? undefined : known
      if (!logged && options.signal?.aborted) throw withdrawn(to, options.signal)
      const { hold } = this.#turn
      if (frame && !known && hold?.isOpen) return hold.until(`send to ${to}`, () => this.#viaHost(to, options, fill))
      const correlation = logged ? correlationOf(logged.memory, logged.at) : waits.next()
      fields.correlation = correlation
      if (!logged) {
        if (toAll) sends.askAll()
        outbox.write(bytes, 'now')
      }
      const signal = logged?.settled ? undefined : options.signal
      const verdict = this.#calls.add(correlation, 'send', to, signal) as Promise<void>
      if (logged) this.#calls.settleAgain(correlation, to, logged)
      if (!logged?.settled && toAll) sends.askedAll(verdict)
      return verdict
    } catch (error) {
      return rejected(error)
    }
  }

  /**
   * Sends a request and returns the promise of its response.
   *
   * @param waiting the wait's encoding, if this is one of several requests
   * @param onSent receives the message id once the request is sent
   */
  request(
    to: string,
    content: string,
    options: RequestOptions,
    type: MessageType = 'request',
    waiting?: number,
    onSent?: (id: string) => void,
  ): Promise<unknown> {
    if (hasKey(options)) return this.#keyed(to, content, options)
    if (this.#turn.emitter?.behind)
      return this.#calls.afterBreath(() => this.request(to, content, options, type, waiting, onSent))
    return this.#request(to, content, options, 0, type, waiting, onSent).promise
  }

  /** Has a request done where its key is. The host carries it there. */
  async #keyed(to: string, content: string, { signal, ...options }: RequestOptions): Promise<unknown> {
    const { key, structuredData, metadata, priority, timeoutMs, ...others } = options
    const [other] = Object.entries(others).find(([, value]) => value !== undefined) ?? []
    if (other !== undefined)
      throw wrongArgument(other, Reflect.get(others, other), 'it is not taken beside key: leave one of the two out')
    if (typeof key !== 'string' || key === '') throw wrongArgument('key', key, 'a text that is not empty is needed')
    checkRequestOptions({ metadata, signal })
    checkContent(content)
    const limit = timeoutMs === undefined ? undefined : Math.max(1, durationOf(timeoutMs, 'timeoutMs'))
    const fields = { structuredData, metadata, priority: priorityOf(priority), timeoutMs: limit }
    return this.#turn.call(KEYED, { agent: to, content, key, ...fields }, signal)
  }

  /** Begins a request when the turn may ask for what the log does not have. */
  #requestLater(hold: Hold, to: string, request: () => AwaitedResponse): AwaitedResponse {
    const response: AwaitedResponse = {
      promise: hold.until(`request to ${to}`, () => {
        const begun = request()
        response.correlation = begun.correlation
        response.onBegun?.()
        return begun.promise
      }),
      correlation: 0,
    }
    return response
  }

  requestStream(to: string, content: string, options: RequestOptions): ResponseStream {
    const response = this.#request(to, content, options, STREAMS, 'request')
    const read = (count: number) => {
      if (!this.#turn.refusal()) this.#thread.writeControl(STREAM_READ, this.#turn.start, response.correlation, count)
    }
    const leave = () => {
      const text = `The answer of "${to}" was no longer wanted: its reader left the loop.`
      this.#calls.withdraw(response.correlation, new CancelledError(text, { agent: to }))
    }
    const stream = new ResponseStream(response.promise as Promise<AgentMessage>, this.#turn, read, leave)
    if (response.reported) stream.reportedBefore(response.reported)
    response.onBegun = () => {
      const wait = this.#thread.waits.get(response.correlation)
      if (wait) wait.stream = stream
    }
    response.onBegun()
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
  ): AwaitedResponse {
    const correlation = this.#thread.waits.next()
    if (this.#turn.ended || this.#turn.reason) return { promise: rejected(this.#turn.refusal()), correlation }
    const { outbox, link, sends } = this.#thread
    const { replay } = this.#turn.start
    let bytes: number
    try {
      bytes = fillMessage(this.#thread, this.#turn, REQUEST, correlation, to, content, options)
      if (options.signal?.aborted) throw withdrawn(to, options.signal)
    } catch (error) {
      return { promise: rejected(this.told(error, to, content, options)), correlation }
    }
    outbox.fields.flags |= flags
    if (waiting !== undefined) outbox.fields.waiting = waiting
    outbox.fields.type = type
    const replayed = replay && outbox.encode(bytes)
    const logged = replayed && replay.match(replayed)
    if (logged && !logged.isUndone) {
      onSent?.(idOf(logged.memory, logged.at))
      return this.#calls.reattach(to, logged, options)
    }
    const { hold } = this.#turn
    if (replayed && !logged && hold?.isOpen)
      return this.#requestLater(hold, to, () => this.#request(to, content, options, flags, type, waiting, onSent))
    const at = this.#reserve(bytes)
    if (at < 0) {
      const response = this.#calls.awaitResponse(to, correlation, options)
      sends.add('request', bytes, response.promise, quiet, onSent)
      return response
    }
    if (onSent) {
      const frame = outbox.encode(bytes)
      link.put(frame, bytes, 'now')
      onSent(idOf(frame, 0))
    } else outbox.writeAt(at, bytes, 'now')
    return { promise: this.#calls.add(correlation, 'request', to, options.signal), correlation }
  }

  /**
   * Returns the error unchanged. If it refuses a message with a recipient, the host gets the rest of that message as a
   * dead letter.
   */
  told(
    error: unknown,
    recipient: string | readonly string[],
    content: string,
    options: RequestOptions,
    requiresResponse = true,
  ): unknown {
    if (!(error instanceof MessageRejectedError)) return error
    const given = { ...readable(options), sender: this.#thread.role.name, recipient, content, requiresResponse }
    const remains = remainsOf(given)
    if (!remains) return error
    const { outbox } = this.#thread
    const { run, turn, replay } = this.#turn.start
    const data = JSON.stringify({ remains, error: errorData(error) })
    outbox.begin(REJECTED, run, turn, ++this.#turn.step, '', data)
    const bytes = outbox.size()
    if (!replay?.match(outbox.encode(bytes))) outbox.write(bytes, 'soon')
    return error
  }
}

/** Options of a refused message, as far as they can be read: the refusal may be for a proxy that throws. */
function readable(options: RequestOptions): RequestOptions {
  try {
    return { ...options }
  } catch {
    return {}
  }
}

/** Checks for a key. Options that cannot be read have none here: the checks of every request refuse them by path. */
function hasKey(options: RequestOptions | undefined): boolean {
  if (options === undefined) return false
  try {
    return Object(options).key !== undefined
  } catch {
    return false
  }
}
