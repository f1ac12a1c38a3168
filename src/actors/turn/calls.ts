/** Manages the waits of a turn: for responses to its requests, and for results of verbs that the host serves. */

import {
  CALL,
  correlationOf,
  type FrameFields,
  NOBODY,
  policyAttempt,
  REQUEST,
  readBody,
  SEND,
  SLEEP,
  SLEPT,
  timeOf,
  wallClockLimit,
} from '../../mailbox/frame.ts'
import { type AgentMessage, ORCHESTRATOR } from '../../mailbox/message.ts'
import { type MessagePart, withParts } from '../../mailbox/parts.ts'
import { CancelledError, type DramatisError, MessageRejectedError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import {
  checkContent,
  checkName,
  checkRequestOptions,
  checkSendOptions,
  durationOf,
  encodeData,
  priorityOf,
  withdrawn,
} from '../definition/checks.ts'
import { asJson, messageParts } from '../definition/content.ts'
import type { RequestOptions } from '../definition/context.ts'
import { handled, quiet, rejected } from '../definition/promises.ts'
import { ACKNOWLEDGE, OWN_WORK } from '../definition/role.ts'
import type { Logged } from './logged-turn.ts'
import type { AgentThread, OpenTurn, Settlements, Wait } from './open-turn.ts'
import type { TurnStart } from './replay.ts'
import { uploadsFor } from './run-views.ts'

export const NO_OPTIONS: RequestOptions = Object.freeze({})

/** Fills the frame of a message to that agent; returns its size in bytes. */
export function fillMessage(
  thread: AgentThread,
  from: OpenTurn,
  kind: number,
  correlation: number,
  to: string,
  content: string,
  options: RequestOptions,
): number {
  if (typeof to !== 'string' || to === '') checkName(to, 'to')
  const fields = beginMessage(thread, from, kind, content, options)
  const { names, sends } = thread
  let index = names.indexOf(to, from.start.view)
  // Messages sent to a new agent by name may still wait in the queue, and later ones must not overtake them.
  if (index !== undefined && names.late.has(to) && sends.open(NOBODY) && !sends.open(index)) index = undefined
  fields.recipient = index ?? NOBODY
  if (index === undefined) fields.name = to
  fields.correlation = correlation
  return thread.outbox.checkedSize()
}

/** Fills the frame of a message except for its recipient. */
export function beginMessage(
  thread: AgentThread,
  from: OpenTurn,
  kind: number,
  content: string,
  options: RequestOptions,
): FrameFields {
  if (typeof content !== 'string') checkContent(content)
  if (options !== NO_OPTIONS) checkRequestOptions(options)
  if (kind === SEND) checkSendOptions(options)
  from.messagesSent += 1
  if (from.messagesSent > thread.assignment.messagesPerTurn) throw tooMany(thread)
  const { outbox } = thread
  const { run, turn } = from.start
  const { structuredData } = options
  const data = structuredData === undefined ? undefined : encodeData(structuredData, 'structuredData')
  const isScript = from.start.message?.recipient === ORCHESTRATOR
  const given = options.parts ?? (isScript ? partsOfQuery(from.start, content) : undefined)
  const parts = given && messageParts(asJson(given, uploadsFor(outbox, from.start.view)))
  const fields = outbox.begin(kind, run, turn, ++from.step, content, data)
  if (options !== NO_OPTIONS) {
    const metadata = parts ? withParts(options.metadata, parts) : options.metadata
    if (metadata !== undefined) fields.metadata = encodeData(metadata, 'metadata')
    fields.threadId = options.threadId
    fields.limit = limitOf(options)
    fields.priority = priorityOf(options.priority)
    fields.waiting = from.waitingFor(options.signal)
    fields.polling = options.polling === true
    if (kind === REQUEST) fields.attempt = policyAttempt(options.retries, options.idempotent === true)
  } else if (parts) fields.metadata = encodeData(withParts(undefined, parts), 'metadata')
  return fields
}

function tooMany({ role: { name: agent }, assignment: { messagesPerTurn: limit } }: AgentThread): MessageRejectedError {
  const path = 'limits.messagesPerTurn'
  const text = `Agent "${agent}" has sent ${limit} messages in this turn, as many as it may (${path}), so this one is refused. Answer, or raise the limit.`
  return new MessageRejectedError(text, { path, agent, limit })
}

function limitOf({ timeoutMs, wallClock }: RequestOptions): number {
  if (timeoutMs === undefined) return -1
  const ms = durationOf(timeoutMs, 'timeoutMs')
  return wallClock ? wallClockLimit(ms) : ms
}

/** Returns the parts of the query, if the script asks with its words. */
function partsOfQuery({ message }: TurnStart, content: string): readonly MessagePart[] | undefined {
  if (message?.recipient !== ORCHESTRATOR) return undefined
  const { parts } = message
  return parts && content.includes(message.content) ? parts : undefined
}

const withdrawnBefore = (to: string) =>
  new CancelledError(`The wait for "${to}" was withdrawn by an earlier attempt of this turn.`, { agent: to })

export interface AwaitedResponse {
  promise: Promise<unknown>
  correlation: number
  /** Number of chunks that an earlier attempt had reported as read. */
  reported?: number
  /** Called when a request that was held back has begun; from then on it has its number. */
  onBegun?: () => void
}

/** Names a call as the log does. */
const callName = (operation: string, args: object): string =>
  operation === 'tool' ? `tool ${String(Reflect.get(args, 'name'))}` : operation

/** The open waits of a turn: for responses to its requests, and for results of verbs that the host serves. */
export class TurnCalls {
  readonly #thread: AgentThread
  readonly #turn: OpenTurn
  readonly #open = new Set<Wait>()
  /** Set with the first wait: turns that only send need none. */
  #settlements: Settlements | undefined

  constructor(thread: AgentThread, turn: OpenTurn) {
    this.#thread = thread
    this.#turn = turn
  }

  get waiting(): number {
    return this.#open.size
  }

  // ---- waits

  /** Opens a wait; `signal` withdraws it. */
  add(correlation: number, kind: Wait['kind'], to: string, signal: AbortSignal | undefined): Promise<unknown> {
    const { waits, parking } = this.#thread
    const { start, steps } = this.#turn
    this.#settlements ??= this.#turn.settlements
    const settlements = this.#settlements
    const ofSteps = steps?.began()
    settlements.open += 1
    const promise = new Promise<unknown>((resolve, reject) => {
      const wait: Wait = {
        kind,
        correlation,
        order: settlements,
        isAnswered: false,
        pieces: 0,
        stream: undefined,
        settle: (value, error) => {
          if (!this.#open.delete(wait)) return
          if (ofSteps) steps?.settled(ofSteps)
          waits.delete(correlation)
          settlements.ended()
          if (error === undefined) resolve(value)
          else reject(error)
        },
      }
      this.#open.add(wait)
      waits.set(correlation, wait)
    })
    promise.catch(quiet)
    if (parking.marked > 0) parking.unpark(start)
    this.#thread.mayPark()
    if (signal) {
      const stop = onAbort(signal, () => this.withdraw(correlation, withdrawn(to, signal)))
      promise.then(stop, stop)
    }
    return promise
  }

  /** Withdraws a wait whose answer the caller no longer wants. */
  withdraw(correlation: number, reason: DramatisError): void {
    const { goingOn, link, waits } = this.#thread
    const { settlements, start } = this.#turn
    const wait = waits.get(correlation)
    if (!wait || wait.isAnswered) return
    this.#thread.writeCancel(start, correlation, settlements.last)
    link.flush()
    waits.delete(correlation) // discards a later answer
    goingOn.with(start, () => settlements.settle(() => wait.settle(undefined, reason)))
  }

  /**
   * Withdraws all open waits. If the turn must stop (`sends`), sends that wait for room are withdrawn too. A turn that
   * has ended normally leaves its sends to be delivered.
   */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    for (const wait of [...this.#open]) {
      const { correlation, kind, isAnswered } = wait
      if (this.#thread.waits.get(correlation) === wait && !isAnswered && (sends || kind === 'request'))
        this.#thread.writeCancel(this.#turn.start, correlation, this.#turn.settlements.last)
      wait.settle(undefined, reason)
    }
  }

  /** Settles a wait as the log has it: with its pieces, and with its answer if it has one. */
  settleAgain(correlation: number, to: string, { pieces, settled }: Logged): void {
    const { settlements } = this.#turn
    const wait = this.#thread.waits.get(correlation)!
    wait.pieces = pieces.length
    wait.isAnswered = settled !== undefined
    for (const piece of pieces) {
      const { memory, at } = piece.frame!
      settlements.again(piece, () => wait.stream?.push(readBody(memory, at).content))
    }
    if (!settled) return
    const { frame } = settled
    const later = (settle: () => void) => settlements.again(settled, settle)
    if (frame) this.#thread.answer(wait, frame.memory, frame.at, later)
    else later(() => wait.settle(undefined, withdrawnBefore(to)))
  }

  // ---- calls

  /**
   * Calls a verb that the host serves. The answer is JSON.
   *
   * @param signal withdraws the call
   * @param onPiece receives the chunks that arrive before the answer
   * @param alike the leading arguments, if a later attempt must recognize the call by them alone
   */
  call(
    operation: string,
    args: object,
    signal: AbortSignal | undefined,
    onPiece?: (piece: string) => void,
    alike?: object,
  ): Promise<unknown> {
    if (this.#turn.ended || this.#turn.reason) return rejected(this.#turn.refusal())
    const { outbox, waits } = this.#thread
    if (this.#turn.emitter?.behind) return this.afterBreath(() => this.call(operation, args, signal, onPiece, alike))
    const { run, turn, replay } = this.#turn.start
    const options: RequestOptions = signal ? { signal } : NO_OPTIONS
    try {
      const data = encodeData(args, operation)
      const fields = outbox.begin(CALL, run, turn, ++this.#turn.step, operation, data)
      fields.correlation = waits.next()
      fields.waiting = this.#turn.waitingFor(signal)
      const bytes = outbox.checkedSize()
      const frame = replay && outbox.encode(bytes)
      const logged =
        frame && (alike ? replay.matchCall(operation, outbox.keys?.data(alike) ?? alike) : replay.match(frame))
      if (logged && !logged.isUndone) {
        const response = this.reattach(operation, logged, options)
        if (onPiece) this.#hear(response, onPiece)
        return response.promise
      }
      if (signal?.aborted) throw withdrawn(operation, signal)
      const { hold } = this.#turn
      if (frame && !logged && hold?.isOpen && operation !== ACKNOWLEDGE) {
        const again = () => this.call(operation, args, signal, onPiece, alike)
        return hold.until(callName(operation, args), again, OWN_WORK.has(operation))
      }
      outbox.write(bytes, 'now')
      const response = this.awaitResponse(operation, fields.correlation, options)
      if (onPiece) this.#hear(response, onPiece)
      return response.promise
    } catch (error) {
      return rejected(error)
    }
  }

  /** Passes on the chunks of the answer. If `onPiece` throws, the wait ends with that error. */
  #hear({ correlation }: AwaitedResponse, onPiece: (piece: string) => void): void {
    const wait = this.#thread.waits.get(correlation)
    if (!wait) return
    const push = (piece: string) => {
      try {
        onPiece(piece)
      } catch (error) {
        wait.settle(undefined, error)
      }
    }
    wait.stream = { push }
  }

  /** Delays a verb until the reader of the emitted stream has caught up. */
  afterBreath<T>(verb: () => Promise<T>): Promise<T> {
    return handled(this.#turn.breathe().then(verb))
  }

  /** Continues the wait of a step that is in the log under its old number, or settles it with the logged answer. */
  reattach(to: string, logged: Logged, options: RequestOptions): AwaitedResponse {
    const correlation = correlationOf(logged.memory, logged.at)
    const response = this.awaitResponse(to, correlation, logged.settled ? NO_OPTIONS : options)
    this.settleAgain(correlation, to, logged)
    return { ...response, reported: logged.reported }
  }

  awaitResponse(to: string, correlation: number, options: RequestOptions): AwaitedResponse {
    return { promise: this.add(correlation, 'request', to, options.signal), correlation }
  }
}

/*
 * A sleep is a step with its end by wall clock: a later attempt of the turn sleeps only what is left of it, and not at
 * all if the log has its end.
 */

export async function sleep(thread: AgentThread, turn: OpenTurn, ms: number): Promise<void> {
  const { settlements, signal, start } = turn
  const logged = start.replay?.matchSleep(ms)
  const slept = logged?.settled
  settlements.open += 1
  try {
    if (slept) return await new Promise((resolve) => settlements.again(slept, resolve))
    const isNew = !logged || logged.isUndone
    const step = isNew ? ++turn.step : logged.number
    if (isNew) record(thread, turn, SLEEP, step, ms)
    // A clock that was set back does not make it longer.
    const left = isNew ? ms : Math.min(ms, Math.max(0, timeOf(logged.memory, logged.at) + ms - thread.now()))
    await thread.sleep(left, signal)
    if (!turn.ended) record(thread, turn, SLEPT, step, -1)
    if (!settlements.isFree) await settlements.turn()
  } finally {
    settlements.ended()
  }
}

function record(thread: AgentThread, turn: OpenTurn, kind: number, step: number, ms: number): void {
  const { outbox } = thread
  const { start, settlements } = turn
  const fields = outbox.begin(kind, start.run, start.turn, step, '', undefined)
  fields.limit = ms
  if (kind === SLEPT) settlements.mark(fields)
  outbox.writeTimed(thread.now())
}

/*
 * A response that arrives in chunks. The reader reports to the writer how much it has read, so that the writer can
 * wait.
 */

/** Maximum number of unread chunks before the writer's next verb waits. */
export const STREAM_CREDIT = 64

export class ResponseStream implements AsyncIterable<string> {
  readonly #response: Promise<AgentMessage>
  /** The turn that reads it, and may write a stream of its own. */
  readonly #reader: OpenTurn
  readonly #read: (count: number) => void
  readonly #leave: () => void
  #chunks: string[] = []
  /** Number of those that are read: a list of thousands is not moved with each. */
  #taken = 0
  #wake: (() => void) | undefined
  #over = false
  #error: unknown
  #unreported = 0
  #iterated = false
  /** True if chunks count as read when they arrive. */
  #unheld = false

  constructor(response: Promise<AgentMessage>, reader: OpenTurn, read: (count: number) => void, leave: () => void) {
    this.#response = response
    this.#reader = reader
    this.#read = read
    this.#leave = leave
    response.then(
      () => this.#end(undefined),
      (error: unknown) => this.#end(error),
    )
  }

  /** The whole answer. A caller that awaits it without reading the chunks does not block the writer. */
  get response(): Promise<AgentMessage> {
    if (!this.#iterated && !this.#unheld) {
      this.#unheld = true
      for (let n = this.#taken; n < this.#chunks.length; n++) this.#report()
    }
    return this.#response
  }

  push(chunk: string): void {
    this.#chunks.push(chunk)
    if (this.#unheld) this.#report()
    this.#wake?.()
  }

  #report(): void {
    if (++this.#unreported < STREAM_CREDIT / 4) return
    this.#read(this.#unreported)
    this.#unreported = 0
  }

  /** Notes how many of its chunks an earlier attempt had reported as read: they are not reported twice. */
  reportedBefore(count: number): void {
    this.#unreported = -count
  }

  #end(error: unknown): void {
    this.#over = true
    this.#error = error
    this.#wake?.()
  }

  /**
   * Yields the chunks until the answer is complete; throws the error of the request. Leaving the loop cancels the
   * request.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    this.#iterated = true
    try {
      for (;;) {
        // A turn that relays a stream reads only as fast as its own reader, so back-pressure reaches the original
        // writer.
        while (this.#reader.emitter?.behind) await this.#reader.breathe()
        const chunk = this.#chunks[this.#taken]
        if (chunk !== undefined) {
          this.#taken += 1
          if (this.#taken === this.#chunks.length) {
            this.#chunks = []
            this.#taken = 0
          }
          if (!this.#unheld) this.#report()
          yield chunk
        } else if (this.#over) {
          if (this.#error !== undefined) throw this.#error
          return
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
          this.#wake = undefined
        }
      }
    } finally {
      if (!this.#over) this.#leave()
    }
  }
}
