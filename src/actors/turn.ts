/**
 * One turn: the handling of one message, and the verbs that its handler has meanwhile. When the turn ends, its context
 * is closed: open waits are cancelled and later verbs fail with `TurnEndedError`.
 */
import { enablePatches, type Immutable, type Patch, produceWithPatches } from 'immer'
import { v4 } from 'uuid'
import type { Blackboard, BlackboardEntry, WriteOptions } from '../blackboard/entry.ts'
import {
  CancelledError,
  type DramatisError,
  describe,
  type ErrorData,
  errorData,
  errorFrom,
  MessageRejectedError,
  TaskRefusedError,
  TurnEndedError,
  unavailable,
} from '../errors.ts'
import { errorOf } from '../mailbox/codec.ts'
import {
  ASKS,
  CALL,
  CANCEL,
  CHUNK,
  FAILED,
  NOW,
  REPLAYED,
  REQUEST,
  SEND,
  STEP_BEGAN,
  STEP_DONE,
  STREAM_READ,
  STREAMS,
} from '../mailbox/frame.ts'
import { type AgentMessage, jsonIssue } from '../mailbox/message.ts'
import { turnBlackboard } from './board-verbs.ts'
import type {
  AgentContext,
  AgentRef,
  EscalationOutcome,
  Outcome,
  RequestOptions,
  SharedState,
  SyncResult,
} from './context.ts'
import { handled, quiet, rejected } from './handled.ts'
import type { Logger } from './logger.ts'
import type { Completion } from './model.ts'
import { encodeData, notJson } from './outbox.ts'
import { seededRandom } from './random.ts'
import type { Matched } from './replay.ts'
import { allOf, anyOf } from './request-many.ts'
import type { RoleInfo } from './role.ts'
import { ResponseStream, STREAM_CREDIT } from './stream.ts'
import type { AgentTask } from './task.ts'
import type { TurnHost, TurnStart, Wait } from './turn-host.ts'

enablePatches()

const DONE = Promise.resolve()
const SENDS_A_BREATH = 256 // awaiting settled promises starves timers: now and then a turn lets the event loop run
const NO_OPTIONS: RequestOptions = Object.freeze({})

export class Turn implements AgentContext {
  readonly #loop: TurnHost
  readonly start: TurnStart
  #step: number
  #ended = false
  #reason: DramatisError | undefined
  #controller: AbortController | undefined
  #waits: Set<Wait> | undefined
  #local = 0
  #state: object | undefined
  #runState: object | undefined
  #patches: Patch[] | undefined
  #runPatches: Patch[] | undefined
  #random: (() => number) | undefined
  #sent = 0
  #unread = 0
  #streamRoom: Room | undefined
  #blackboard: Blackboard | undefined

  constructor(loop: TurnHost, start: TurnStart) {
    this.#loop = loop
    this.start = start
    this.#step = start.replay?.nextStep ?? 0
  }

  // ---- what the turn is

  get role(): RoleInfo {
    return this.#loop.role
  }
  get data(): unknown {
    return this.#loop.data
  }
  get runId(): string {
    return this.start.view.id
  }
  get run(): { metadata: Readonly<Record<string, string>>; threadId?: string } {
    const { metadata, threadId } = this.start.view
    return threadId === undefined ? { metadata } : { metadata, threadId }
  }
  get attempt(): number {
    return this.start.attempt
  }
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
      else if (this.#ended) this.#controller.abort(this.#endedError())
    }
    return this.#controller.signal
  }
  get log(): Logger {
    return this.#loop.loggerFor(this.start)
  }

  // ---- state

  get state(): Immutable<object> {
    return this.#state ?? this.#loop.state
  }
  setState(recipe: (draft: object) => void): void {
    this.#check()
    const [next, patches] = produceWithPatches(this.#state ?? this.#loop.state, recipe)
    checkPatches(patches, 'state')
    this.#state = next
    this.#patches = this.#patches ? [...this.#patches, ...patches] : patches
  }
  get runState(): Immutable<object> {
    return this.#runState ?? this.#loop.runState(this.start.view)
  }
  setRunState(recipe: (draft: object) => void): void {
    this.#check()
    const [next, patches] = produceWithPatches(this.#runState ?? this.#loop.runState(this.start.view), recipe)
    checkPatches(patches, 'runState')
    this.#runState = next
    this.#runPatches = this.#runPatches ? [...this.#runPatches, ...patches] : patches
  }

  /** What a commit makes of the drafts; a failed turn never calls it. */
  changes(): {
    state: object | undefined
    patches: Patch[] | undefined
    runState: object | undefined
    runPatches: Patch[] | undefined
  } {
    return { state: this.#state, patches: this.#patches, runState: this.#runState, runPatches: this.#runPatches }
  }

  // ---- messages

  send(to: string, content: string, options: RequestOptions = NO_OPTIONS): Promise<void> {
    const { outbox, link } = this.#loop
    let bytes: number
    try {
      this.#check()
      bytes = this.#message(SEND, 0, to, content, options)
    } catch (error) {
      return rejected(error)
    }
    const { fields } = outbox
    if (this.start.replay) {
      fields.correlation = 0
      const logged = this.start.replay.match(outbox.encode(bytes))
      if (logged) return logged.answer ? rejected(errorOf(logged.answer.memory, logged.answer.at)) : DONE
    }
    const { recipient, step } = fields
    if (fields.name !== undefined || this.#loop.asking(recipient) || !this.#claim(recipient, bytes, step))
      return this.#ask(bytes)
    outbox.write(bytes, false)
    link.claimed()
    return (++this.#sent & (SENDS_A_BREATH - 1)) === 0 || this.#unread > STREAM_CREDIT ? this.#breathe() : DONE
  }

  /** Claims room in the mailbox for a frame that can be written now: a claim does not wait, so it cannot be left behind. */
  #claim(recipient: number, bytes: number, step: number): boolean {
    const { link } = this.#loop
    return link.reserve(bytes) >= 0 && link.claim(recipient, bytes, this.start.turn, step)
  }

  /** There may be no room: the host has the say, and the send waits for it. */
  #ask(bytes: number): Promise<void> {
    const { outbox } = this.#loop
    const { fields } = outbox
    const { recipient } = fields
    const correlation = this.#loop.nextCorrelation()
    fields.correlation = correlation
    fields.flags |= ASKS
    const frame = outbox.encode(bytes)
    const verdict = this.#wait(correlation, 'send')
    const write = () => outbox.link.post(frame, bytes)
    this.#loop.ask(recipient, write, verdict, true)
    return verdict as Promise<void>
  }

  async #breathe(): Promise<void> {
    this.#loop.link.flush()
    await this.#loop.breath()
    await this.#streamGate()
  }

  request<In = unknown, Out = unknown>(
    to: string | AgentRef<In, Out>,
    content: string,
    options: RequestOptions<NoInfer<In>> = NO_OPTIONS as RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>> {
    const response = this.#request(typeof to === 'string' ? to : to?.name, content, options, 0)
    return response.promise as Promise<AgentMessage<Out>>
  }

  requestStream(to: string, content: string, options: RequestOptions = NO_OPTIONS): ResponseStream {
    const { promise, correlation, wait } = this.#request(to, content, options, STREAMS)
    const stream = new ResponseStream(
      promise as Promise<AgentMessage>,
      (count) => {
        if (!this.#ended) this.#loop.writeControl(STREAM_READ, this.start, correlation, count)
      },
      () =>
        this.#withdraw(
          correlation,
          new CancelledError(`The answer of "${to}" was no longer wanted: its reader left the loop.`, { agent: to }),
        ),
    )
    if (wait) wait.stream = stream
    return stream
  }

  #request(
    to: string,
    content: string,
    options: RequestOptions,
    flags: number,
  ): { promise: Promise<unknown>; correlation: number; wait: Wait | undefined } {
    const { outbox, link } = this.#loop
    const correlation = this.#loop.nextCorrelation()
    let bytes: number
    try {
      this.#check()
      bytes = this.#message(REQUEST, correlation, to, content, options)
      if (options.signal?.aborted) throw withdrawn(to, options.signal)
    } catch (error) {
      return { promise: rejected(error), correlation, wait: undefined }
    }
    const { fields } = outbox
    fields.flags |= flags
    if (this.start.replay) {
      const frame = outbox.encode(bytes)
      const logged = this.start.replay.match(frame)
      if (logged) return this.#reattach(to, logged, options)
    }
    const { recipient, step } = fields
    const asking = this.#loop.asking(recipient)
    const claimed = fields.name === undefined && !asking && this.#claim(recipient, bytes, step)
    if (!claimed) fields.flags |= ASKS
    if (asking) {
      const frame = outbox.encode(bytes)
      const response = this.#awaitResponse(to, correlation, options)
      this.#loop.ask(recipient, () => link.post(frame, bytes), response.promise, false)
      return response
    }
    outbox.write(bytes, true)
    link.claimed()
    return this.#awaitResponse(to, correlation, options)
  }

  #reattach(
    to: string,
    logged: Matched,
    options: RequestOptions,
  ): { promise: Promise<unknown>; correlation: number; wait: Wait | undefined } {
    const waiting = this.#awaitResponse(to, logged.correlation, options)
    if (logged.answer) this.#loop.settle(logged.correlation, logged.answer.memory, logged.answer.at)
    return waiting
  }

  #awaitResponse(
    to: string,
    correlation: number,
    options: RequestOptions,
  ): { promise: Promise<unknown>; correlation: number; wait: Wait | undefined } {
    const promise = this.#wait(correlation, 'request')
    const { signal } = options
    if (signal) {
      const abort = () => this.#withdraw(correlation, withdrawn(to, signal))
      signal.addEventListener('abort', abort, { once: true })
      promise.then(quiet, quiet).then(() => signal.removeEventListener('abort', abort))
    }
    return { promise, correlation, wait: this.#loop.waitOf(correlation) }
  }

  /** The caller no longer wants the answer. */
  #withdraw(correlation: number, reason: DramatisError): void {
    const wait = this.#loop.waitOf(correlation)
    if (!wait) return
    this.#loop.writeControl(CANCEL, this.start, correlation, 0)
    this.#loop.link.flush()
    wait.reject(reason)
  }

  requestAll(to: string[], content: string, options?: RequestOptions & { concurrency?: number }): Promise<Outcome[]> {
    return handled(allOf(this, to, content, options))
  }
  requestAny(to: string[], content: string, options?: RequestOptions): Promise<AgentMessage> {
    return handled(anyOf(this, to, content, options))
  }

  /** Fills the frame of a message; returns its bytes. */
  #message(kind: number, correlation: number, to: string, content: string, options: RequestOptions): number {
    if (typeof to !== 'string' || to === '')
      throw new MessageRejectedError(`The recipient is ${describe(to)}; the name of an agent is needed.`, {
        path: 'to',
        got: describe(to),
      })
    if (typeof content !== 'string')
      throw new MessageRejectedError(
        `content is ${describe(content)}; a string is needed. Put other values into structuredData.`,
        { path: 'content', got: typeof content },
      )
    const data = encodeData(options.structuredData, 'structuredData')
    const { outbox } = this.#loop
    const fields = outbox.begin(kind, this.start.run, this.start.turn, ++this.#step, content, data)
    const index = this.#loop.indexOf(to)
    if (index === undefined) {
      fields.name = to
      fields.recipient = 0xffff
    } else fields.recipient = index
    fields.correlation = correlation
    if (options !== NO_OPTIONS) {
      if (options.metadata !== undefined) fields.metadata = encodeData(options.metadata, 'metadata')
      fields.threadId = options.threadId
      fields.limit = durationOr(options.timeoutMs, -1, 'timeoutMs')
      fields.priority = priorityOf(options.priority)
      if (options.retries !== undefined && options.retries !== 0) throw unavailable('options.retries')
    }
    const bytes = outbox.size()
    if (bytes > outbox.maxMessageBytes) throw tooLarge(bytes, outbox.maxMessageBytes)
    return bytes
  }

  emit(chunk: string): void {
    this.#check()
    if (typeof chunk !== 'string')
      throw new MessageRejectedError(`emit takes a string; it got ${describe(chunk)}.`, {
        path: 'chunk',
        got: typeof chunk,
      })
    const { outbox } = this.#loop
    const fields = outbox.begin(CHUNK, this.start.run, this.start.turn, ++this.#step, chunk, undefined)
    fields.recipient = this.start.caller
    fields.correlation = this.start.correlation
    if (this.start.streams) fields.flags = STREAMS
    const bytes = outbox.size()
    if (bytes > outbox.maxMessageBytes) throw tooLarge(bytes, outbox.maxMessageBytes)
    if (this.start.replay?.match(outbox.encode(bytes))) return
    outbox.writeAbout(this.start.id)
    if (this.start.streams) this.#unread += 1
  }

  /** The reader has read that many pieces more. */
  read(count: number): void {
    this.#unread = Math.max(0, this.#unread - count)
    if (this.#unread <= STREAM_CREDIT) this.#makeRoom()
  }

  /** `emit` cannot wait, so the verbs after it do, while the reader is far behind. */
  async #streamGate(): Promise<void> {
    while (this.#unread > STREAM_CREDIT && !this.#ended && !this.#reason) {
      this.#loop.link.flush()
      this.#streamRoom ??= new Room()
      this.#loop.lookAgain()
      await this.#streamRoom.made
    }
  }

  #makeRoom(): void {
    this.#streamRoom?.make()
    this.#streamRoom = undefined
  }

  /** Something of its own begins: it does not only wait. */
  #work(): void {
    this.#local += 1
    this.#loop.link.unpark()
  }

  #rest(): void {
    this.#local -= 1
    this.#loop.lookAgain()
  }

  // ---- the blackboard

  get blackboard(): Blackboard {
    this.#blackboard ??= turnBlackboard((operation, args, wait) => this.call(operation, args, wait))
    return this.#blackboard
  }
  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry> {
    return this.blackboard.write(key, value, entryType, options)
  }
  subscribe(pattern: string): Promise<void> {
    return handled(this.call('subscribe', { pattern }).then(quiet))
  }

  /** A verb that the host serves. The answer is JSON; `signal` withdraws it. */
  call(operation: string, args: object, signal?: AbortSignal): Promise<unknown> {
    const { outbox } = this.#loop
    const correlation = this.#loop.nextCorrelation()
    try {
      this.#check()
      const fields = outbox.begin(
        CALL,
        this.start.run,
        this.start.turn,
        ++this.#step,
        operation,
        encodeData(args, operation),
      )
      fields.correlation = correlation
      const bytes = outbox.size()
      if (bytes > outbox.maxMessageBytes) throw tooLarge(bytes, outbox.maxMessageBytes)
      const options: RequestOptions = signal ? { signal } : NO_OPTIONS
      if (this.start.replay) {
        const logged = this.start.replay.match(outbox.encode(bytes))
        if (logged) return this.#reattach(operation, logged, options).promise
      }
      if (signal?.aborted) throw withdrawn(operation, signal)
      outbox.write(bytes, true)
      return this.#awaitResponse(operation, correlation, options).promise
    } catch (error) {
      return rejected(error)
    }
  }

  // ---- steps, time, chance

  step<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T> {
    return handled(this.#runStep(name, run, options))
  }
  async #runStep<T>(name: string, run: () => Promise<T> | T, options?: { idempotent?: boolean }): Promise<T> {
    this.#check()
    if (this.#unread > STREAM_CREDIT) await this.#streamGate()
    const logged = this.start.replay?.matchStep(name)
    if (logged) {
      this.#record(REPLAYED, logged.step, name, undefined, 0)
      if (logged.failed) throw errorFrom(JSON.parse(logged.data!) as ErrorData)
      return (logged.data === undefined ? undefined : JSON.parse(logged.data)) as T
    }
    const step = ++this.#step
    this.#record(STEP_BEGAN, step, name, undefined, options?.idempotent ? 0 : FAILED)
    this.#work()
    try {
      const result = await run()
      this.#record(STEP_DONE, step, name, encodeData(result, `step "${name}"`), 0)
      return result
    } catch (error) {
      const failure = this.#loop.failure(error, `step "${name}"`)
      if (!this.#ended) this.#record(STEP_DONE, step, name, JSON.stringify(errorData(failure)), FAILED)
      throw error
    } finally {
      this.#rest()
    }
  }

  now(): number {
    this.#check()
    const logged = this.start.replay?.matchNow()
    if (logged !== undefined) return logged
    const { outbox, now } = this.#loop
    outbox.begin(NOW, this.start.run, this.start.turn, ++this.#step, '', undefined)
    return outbox.writeTimed(now())
  }
  random(): number {
    this.#check()
    this.#random ??= seededRandom(this.start.id)
    return this.#random()
  }
  uuid(): string {
    return v4({ random: Uint8Array.from({ length: 16 }, () => this.random() * 256) })
  }
  sleep(ms: number): Promise<void> {
    return handled(this.#sleep(ms))
  }
  async #sleep(ms: number): Promise<void> {
    this.#check()
    const duration = durationOr(ms, 0, 'ms')
    if (this.#unread > STREAM_CREDIT) await this.#streamGate()
    this.#work()
    try {
      await this.#loop.sleep(duration, this.signal)
    } finally {
      this.#rest()
    }
    this.#check()
  }

  refuse(reason: string): TaskRefusedError {
    const agent = this.role.name
    return new TaskRefusedError(`Agent "${agent}" refused: ${reason}`, { agent, reason })
  }

  // ---- not in this version

  shared(_scope: string, _owner?: string): SharedState {
    throw unavailable('context.shared')
  }
  requestQuorum(): Promise<AgentMessage[]> {
    return rejected(unavailable('context.requestQuorum'))
  }
  broadcast(): Promise<void> {
    return rejected(unavailable('context.broadcast'))
  }
  delegate(): Promise<AgentTask> {
    return rejected(unavailable('context.delegate'))
  }
  report(): Promise<void> {
    return rejected(unavailable('context.report'))
  }
  watch(): Promise<void> {
    return rejected(unavailable('context.watch'))
  }
  sync<T>(): Promise<SyncResult<T>> {
    return rejected(unavailable('context.sync'))
  }
  handoff(): Promise<void> {
    return rejected(unavailable('context.handoff'))
  }
  escalate(): Promise<EscalationOutcome> {
    return rejected(unavailable('context.escalate'))
  }
  ask(): Promise<string> {
    return rejected(unavailable('context.ask'))
  }
  spawn(): Promise<string> {
    return rejected(unavailable('context.spawn'))
  }
  complete<T>(): Promise<Completion<T>> {
    return rejected(unavailable('context.complete'))
  }
  think<T>(): Promise<Completion<T>> {
    return rejected(unavailable('context.think'))
  }
  tool(): Promise<never> {
    return rejected(unavailable('context.tool'))
  }

  // ---- for the loop

  get ended(): boolean {
    return this.#ended
  }
  /** Why the turn is to stop, if it is. */
  get reason(): DramatisError | undefined {
    return this.#reason
  }
  /** All that is open waits for others. */
  get parked(): boolean {
    if (this.#local > 0) return false
    return this.#streamRoom !== undefined || (this.#waits !== undefined && this.#waits.size > 0)
  }

  /** The turn is to stop: its signal fires, what it waits for is withdrawn, what follows it follows. */
  abort(reason: DramatisError): void {
    if (this.#ended || this.#reason) return
    this.#reason = reason
    this.#withdrawAll(reason)
    this.#makeRoom()
    this.#controller?.abort(reason)
  }

  /** The turn has ended. */
  close(): void {
    this.#ended = true
    if (this.#waits && this.#waits.size > 0) this.#withdrawAll(this.#endedError()) // an error's stack costs more than most turns
    this.#makeRoom()
    if (this.#controller && !this.#controller.signal.aborted) this.#controller.abort(this.#endedError())
  }

  /** Writes a record of the turn's own. */
  #record(kind: number, step: number, content: string, data: string | undefined, flags: number): void {
    const { outbox } = this.#loop
    if (this.#ended) throw this.#endedError()
    const fields = outbox.begin(kind, this.start.run, this.start.turn, step, content, data)
    fields.flags = flags
    fields.attempt = this.start.attempt
    const bytes = outbox.size()
    if (bytes > outbox.maxMessageBytes) throw tooLarge(bytes, outbox.maxMessageBytes)
    outbox.writeAbout(this.start.id)
  }

  #wait(correlation: number, kind: Wait['kind']): Promise<unknown> {
    const promise = new Promise<unknown>((resolve, reject) => {
      const wait: Wait = {
        kind,
        stream: undefined,
        resolve: (value) => {
          this.#waits?.delete(wait)
          this.#loop.forget(correlation)
          resolve(value)
        },
        reject: (error) => {
          this.#waits?.delete(wait)
          this.#loop.forget(correlation)
          reject(error)
        },
      }
      this.#waits ??= new Set()
      this.#waits.add(wait)
      this.#loop.remember(correlation, wait)
    })
    return handled(promise)
  }

  #withdrawAll(reason: DramatisError): void {
    if (!this.#waits) return
    for (const wait of [...this.#waits]) {
      const correlation = this.#loop.correlationOf(wait)
      if (correlation !== undefined && wait.kind === 'request')
        this.#loop.writeControl(CANCEL, this.start, correlation, 0)
      wait.reject(reason)
    }
  }

  #check(): void {
    if (this.#ended) throw this.#endedError()
    if (this.#reason) throw this.#reason
  }

  #endedError(): TurnEndedError {
    return new TurnEndedError(
      `The turn of agent "${this.role.name}" has ended; its context cannot be used any more. Await what the handler starts before it returns.`,
      { agent: this.role.name, runId: this.runId },
    )
  }
}

/** Room with the reader of a stream: all verbs that wait for it wait for the same. */
class Room {
  make = quiet
  readonly made = new Promise<void>((resolve) => {
    this.make = resolve
  })
}

const HALF = 2 ** 31

function priorityOf(value: number | undefined): number {
  if (value === undefined) return 0
  if (!Number.isInteger(value) || value < -HALF || value >= HALF)
    throw new MessageRejectedError(`priority is ${describe(value)}; an integer of 32 bits is needed.`, {
      path: 'priority',
      got: describe(value),
    })
  return value
}

function durationOr(value: number | undefined, fallback: number, path: string): number {
  if (value === undefined) return fallback
  if (typeof value !== 'number' || Number.isNaN(value) || value < 0)
    throw new MessageRejectedError(`${path} is ${describe(value)}; milliseconds are needed, 0 or more.`, {
      path,
      got: describe(value),
    })
  return Math.min(Math.ceil(value), HALF - 1)
}

function checkPatches(patches: Patch[], path: string): void {
  for (const patch of patches) {
    if (patch.op === 'remove') continue
    const issue = jsonIssue(patch.value, [path, ...patch.path].join('.'))
    if (issue) throw notJson(issue)
  }
}

const tooLarge = (bytes: number, limit: number) =>
  new MessageRejectedError(
    `The message is ${bytes} bytes encoded; at most ${limit} are taken (communication.maxMessageBytes). Send it in parts, or a reference to it.`,
    { bytes, limit },
  )

const withdrawn = (to: string, signal: AbortSignal) =>
  new CancelledError(`The wait for "${to}" was withdrawn: its signal was aborted.`, { agent: to }, signal.reason)
