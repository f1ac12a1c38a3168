/** Manages the waits of a turn: for responses to its requests, and for results of verbs that the host serves. */

import type { Mark } from '../../mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  type FrameFields,
  type Memory,
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
import { handled, rejected } from '../definition/promises.ts'
import { ACKNOWLEDGE, OWN_WORK, type RoleInfo } from '../definition/role.ts'
import type { Link, Outbox, Wait, Waits } from './link.ts'
import type { Logged, Settlements } from './logged-turn.ts'
import type { GoingOn, Parking } from './parking.ts'
import type { TurnStart } from './replay.ts'
import { type RunView, uploadsFor } from './run-views.ts'
import type { Hold, OpenSteps } from './steps.ts'

export const NO_OPTIONS: RequestOptions = Object.freeze({})

export interface FrameNeeds {
  readonly outbox: Outbox
  readonly role: Pick<RoleInfo, 'name'>
  /** Number of messages that a turn may send. */
  readonly messagesPerTurn: number
  /** Returns the agent's index in frames of that run; undefined if this thread does not know the agent. */
  indexOf(name: string, run: RunView): number | undefined
}

/** The parts of the sending turn that are needed here. */
export interface SayingTurn {
  readonly start: TurnStart
  nextStep(): number
  /** Counts a message that the turn is about to send, and returns the number of all. */
  countMessage(): number
  /** Returns the frame's encoding of a wait that the signal may end. */
  waitingFor(signal: AbortSignal | undefined): number
}

/** Fills the frame of a message; returns its size in bytes. */
export function fillMessage(
  needs: FrameNeeds,
  turn: SayingTurn,
  kind: number,
  correlation: number,
  to: string,
  content: string,
  options: RequestOptions,
): number {
  if (typeof to !== 'string' || to === '') checkName(to, 'to')
  const fields = beginMessage(needs, turn, kind, content, options)
  const index = needs.indexOf(to, turn.start.view)
  fields.recipient = index ?? NOBODY
  if (index === undefined) fields.name = to
  fields.correlation = correlation
  return needs.outbox.checkedSize()
}

/** Fills the frame of a message except for its recipient. */
export function beginMessage(
  needs: FrameNeeds,
  from: SayingTurn,
  kind: number,
  content: string,
  options: RequestOptions,
): FrameFields {
  if (typeof content !== 'string') checkContent(content)
  if (options !== NO_OPTIONS) checkRequestOptions(options)
  if (kind === SEND) checkSendOptions(options)
  if (from.countMessage() > needs.messagesPerTurn) throw tooMany(needs)
  const { outbox } = needs
  const { run, turn } = from.start
  const { structuredData } = options
  const data = structuredData === undefined ? undefined : encodeData(structuredData, 'structuredData')
  const isScript = from.start.message?.recipient === ORCHESTRATOR
  const given = options.parts ?? (isScript ? partsOfQuery(from.start, content) : undefined)
  const parts = given && messageParts(asJson(given, uploadsFor(outbox, from.start.view)))
  const fields = outbox.begin(kind, run, turn, from.nextStep(), content, data)
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

function tooMany({ role: { name: agent }, messagesPerTurn: limit }: FrameNeeds): MessageRejectedError {
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

export interface WaitNeeds {
  readonly goingOn: GoingOn
  readonly link: Link
  /** Notes that the turn may only wait for others now. It parks once the loop is idle, if its permit is wanted. */
  mayPark(start: TurnStart): void
  readonly parking: Parking
  /** Reads the frame that answers a wait. Returns what settles the wait with it. */
  settlement(wait: Wait, memory: Memory, at: number): () => void
  readonly waits: Waits
  /** Withdraws a wait when `last` was the last answer that the turn had got. */
  writeCancel(start: TurnStart, correlation: number, last: Mark): void
}

/** The parts of the turn that are needed here. */
interface WaitingTurn {
  readonly start: TurnStart
  readonly steps: OpenSteps | undefined
  readonly settlements: Settlements
}

export class TurnWaits {
  readonly #needs: WaitNeeds
  readonly #turn: WaitingTurn
  readonly #open = new Set<Wait>()

  constructor(needs: WaitNeeds, turn: WaitingTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Number of open waits. */
  get count(): number {
    return this.#open.size
  }

  /** Opens a wait; `signal` withdraws it. */
  add(correlation: number, kind: Wait['kind'], to: string, signal: AbortSignal | undefined): Promise<unknown> {
    const promise = this.#begin(correlation, kind)
    if (signal) {
      const stop = onAbort(signal, () => this.withdraw(correlation, withdrawn(to, signal)))
      promise.then(stop, stop)
    }
    return promise
  }

  #begin(correlation: number, kind: Wait['kind']): Promise<unknown> {
    const { waits, parking } = this.#needs
    const { start, steps, settlements } = this.#turn
    const ofSteps = steps?.began()
    settlements.began()
    const promise = new Promise<unknown>((resolve, reject) => {
      const settled = () => {
        if (!this.#open.delete(wait)) return
        if (ofSteps) steps?.settled(ofSteps)
        waits.delete(correlation)
        settlements.ended()
      }
      const wait: Wait = {
        order: settlements,
        isAnswered: false,
        pieces: 0,
        kind,
        correlation,
        stream: undefined,
        resolve: (value) => {
          settled()
          resolve(value)
        },
        reject: (error) => {
          settled()
          reject(error)
        },
      }
      this.#open.add(wait)
      if (parking.marked > 0) parking.unpark(start)
      waits.add(correlation, wait)
      this.#needs.mayPark(start)
    })
    return handled(promise)
  }

  /** Withdraws a wait whose answer the caller no longer wants. */
  withdraw(correlation: number, reason: DramatisError): void {
    const { goingOn, link, waits } = this.#needs
    const { settlements, start } = this.#turn
    const wait = waits.get(correlation)
    if (!wait || wait.isAnswered) return
    this.#needs.writeCancel(start, correlation, settlements.last)
    link.flush()
    waits.delete(correlation) // discards a later answer
    goingOn.with(start, () => settlements.settle(() => wait.reject(reason)))
  }

  /**
   * Withdraws all open waits. If the turn must stop (`sends`), sends that wait for room are withdrawn too. A turn that
   * has ended normally leaves its sends to be delivered.
   */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    for (const wait of [...this.#open]) {
      const correlation = this.#needs.waits.numberOf(wait)
      if (correlation !== undefined && !wait.isAnswered && (sends || wait.kind === 'request'))
        this.#needs.writeCancel(this.#turn.start, correlation, this.#turn.settlements.last)
      wait.reject(reason)
    }
  }

  /** Settles a wait as the log has it: with its pieces, and with its answer if it has one. */
  settleAgain(correlation: number, to: string, { pieces, settled }: Logged): void {
    const { settlements } = this.#turn
    const wait = this.#needs.waits.get(correlation)!
    wait.pieces = pieces.length
    wait.isAnswered = settled !== undefined
    for (const piece of pieces) {
      const { memory, at } = piece.frame!
      settlements.again(piece, () => wait.stream?.push(readBody(memory, at).content))
    }
    if (!settled) return
    const { frame } = settled
    const settle = frame ? this.#needs.settlement(wait, frame.memory, frame.at) : () => wait.reject(withdrawnBefore(to))
    settlements.again(settled, settle)
  }
}

const withdrawnBefore = (to: string) =>
  new CancelledError(`The wait for "${to}" was withdrawn by an earlier attempt of this turn.`, { agent: to })

export interface CallNeeds extends WaitNeeds {
  readonly outbox: Outbox
}

/** The parts of its turn that are needed here. */
export interface CallingTurn extends Relay, SayingTurn {
  /** Undefined until the turn begins its first step. */
  readonly steps: OpenSteps | undefined
  /** Holds back what the log does not have; undefined for most turns. */
  readonly hold: Hold | undefined
  readonly settlements: Settlements
  /** Returns the reason why verbs no longer work, if there is one. */
  refusal(): DramatisError | undefined
}

/** A wait for a response. */
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

export class TurnCalls {
  readonly #needs: CallNeeds
  readonly #turn: CallingTurn
  #waits: TurnWaits | undefined

  constructor(needs: CallNeeds, turn: CallingTurn) {
    this.#needs = needs
    this.#turn = turn
  }

  /** Number of open waits for others. */
  get waiting(): number {
    return this.#waits?.count ?? 0
  }

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
    const refusal = this.#turn.refusal()
    if (refusal) return rejected(refusal)
    const { outbox, waits } = this.#needs
    if (this.#turn.breathless) return this.afterBreath(() => this.call(operation, args, signal, onPiece, alike))
    const { run, turn, replay } = this.#turn.start
    const options: RequestOptions = signal ? { signal } : NO_OPTIONS
    try {
      const data = encodeData(args, operation)
      const fields = outbox.begin(CALL, run, turn, this.#turn.nextStep(), operation, data)
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
    const wait = this.#needs.waits.get(correlation)
    if (!wait) return
    const push = (piece: string) => {
      try {
        onPiece(piece)
      } catch (error) {
        wait.reject(error)
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
    this.waits.settleAgain(correlation, to, logged)
    return { ...response, reported: logged.reported }
  }

  awaitResponse(to: string, correlation: number, options: RequestOptions): AwaitedResponse {
    return { promise: this.waits.add(correlation, 'request', to, options.signal), correlation }
  }

  /** Created on demand, because most turns wait for nothing. */
  get waits(): TurnWaits {
    this.#waits ??= new TurnWaits(this.#needs, this.#turn)
    return this.#waits
  }

  /** See `TurnWaits`. */
  withdrawAll(reason: DramatisError, sends: boolean): void {
    this.#waits?.withdrawAll(reason, sends)
  }
}

/*
 * A sleep is a step with its end by wall clock: a later attempt of the turn sleeps only what is left of it, and not at
 * all if the log has its end.
 */

export interface SleepNeeds {
  readonly outbox: Outbox
  /** Returns the time in epoch ms. */
  now(): number
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** The parts of its turn that are needed here. */
export interface SleepingTurn {
  readonly start: TurnStart
  readonly ended: boolean
  readonly signal: AbortSignal
  readonly settlements: Settlements
  nextStep(): number
}

/** Sleeps for `ms`, or for what earlier attempts of the turn have left of that. */
export async function sleep(needs: SleepNeeds, turn: SleepingTurn, ms: number): Promise<void> {
  const { settlements, signal, start } = turn
  const logged = start.replay?.matchSleep(ms)
  const slept = logged?.settled
  settlements.began()
  try {
    if (slept) return await new Promise((resolve) => settlements.again(slept, resolve))
    const isNew = !logged || logged.isUndone
    const step = isNew ? turn.nextStep() : logged.number
    if (isNew) record(needs, turn, SLEEP, step, ms)
    // A clock that was set back does not make it longer.
    const left = isNew ? ms : Math.min(ms, Math.max(0, timeOf(logged.memory, logged.at) + ms - needs.now()))
    await needs.sleep(left, signal)
    if (!turn.ended) record(needs, turn, SLEPT, step, -1)
    if (!settlements.isFree) await settlements.turn()
  } finally {
    settlements.ended()
  }
}

function record(needs: SleepNeeds, turn: SleepingTurn, kind: number, step: number, ms: number): void {
  const { outbox, now } = needs
  const { start, settlements } = turn
  const fields = outbox.begin(kind, start.run, start.turn, step, '', undefined)
  fields.limit = ms
  if (kind === SLEPT) settlements.mark(fields)
  outbox.writeTimed(now())
}

/*
 * A response that arrives in chunks. The reader reports to the writer how much it has read, so that the writer can
 * wait.
 */

/** Maximum number of unread chunks before the writer's next verb waits. */
export const STREAM_CREDIT = 64

/** A turn that writes a stream of its own. */
export interface Relay {
  /** True if the reader of that stream is far behind. `breathe` waits for it. */
  readonly breathless: boolean
  breathe(): Promise<void>
}

export class ResponseStream implements AsyncIterable<string> {
  readonly #response: Promise<AgentMessage>
  readonly #relay: Relay
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

  constructor(response: Promise<AgentMessage>, relay: Relay, read: (count: number) => void, leave: () => void) {
    this.#response = response
    this.#relay = relay
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
        while (this.#relay.breathless) await this.#relay.breathe()
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
