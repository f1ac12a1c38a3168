/**
 * The turn loop of one life of an agent: takes frames, runs turns, writes commits, settles what turns wait for, and
 * sleeps when there is nothing to do. The same in a worker thread and, for tests and protocol scripts, in the host's.
 */
import type { Patch } from 'immer'
import {
  AgentFailedError,
  AgentTerminatedError,
  DramatisError as AnyError,
  ConfigurationError,
  type DramatisError,
  describe,
  errorData,
  MessageRejectedError,
  ReplyInvalidError,
  StartFailedError,
  TaskRefusedError,
} from '../errors.ts'
import { errorOf, isFailure, ReceivedMessage } from '../mailbox/codec.ts'
import {
  ABORT,
  ACCEPTED,
  attemptOf,
  CHUNK,
  correlationOf,
  END,
  FAILED,
  flagsOf,
  HEADER,
  kindOf,
  LOG,
  limitOf,
  PATCH,
  REFUSED,
  REPLAY,
  REQUEST,
  RESPONSE,
  RESULT,
  RUN,
  RUN_OVER,
  readBody,
  runOf,
  STREAM_READ,
  STREAMS,
  senderOf,
  setLimit,
  turnOf,
  typeOf,
  writeControl,
} from '../mailbox/frame.ts'
import { allocate, type Memory } from '../mailbox/memory.ts'
import { jsonIssue } from '../mailbox/message.ts'
import { TeamMemory } from '../mailbox/room.ts'
import { Window } from '../mailbox/window.ts'
import type { Assignment, PatchNotice, RunNotice } from './assignment.ts'
import type { AgentHandlers, Reply } from './definition.ts'
import { handled } from './handled.ts'
import { Link, type Taken, type ThreadPort } from './link.ts'
import type { Logger, LogLevel } from './logger.ts'
import { encodeData, Outbox } from './outbox.ts'
import { Replay } from './replay.ts'
import type { RoleInfo } from './role.ts'
import { checkBySchema } from './schema.ts'
import { Turn } from './turn.ts'
import type { RunView, TurnHost, TurnStart, Wait } from './turn-host.ts'

const TURNS_A_SLICE = 256
const SLICE_MS = 1
const ASKS_A_RECIPIENT = 64
const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']
const NO_ONE: Taken = { memory: undefined as unknown as Memory, at: 0 }

/** Messages to one recipient that had to ask: how many wait at the host, and what waits here behind them. */
interface Asks {
  open: number
  readonly held: Held[]
}

interface Held {
  write(): void
  /** A send, whose verdict makes place for the next. */
  readonly counts: boolean
}

export class AgentLoop implements TurnHost {
  readonly role: RoleInfo
  readonly link: Link
  readonly outbox: Outbox
  readonly now: () => number
  data: unknown
  state: object = {}
  readonly #handlers: AgentHandlers
  readonly #port: ThreadPort
  readonly #concurrency: number
  readonly #makeTurn: ((loop: AgentLoop, start: TurnStart) => Turn | undefined) | undefined
  readonly #names: string[]
  readonly #indices: Map<string, number>
  readonly #runs = new Map<number, RunView>()
  readonly #turns = new Map<number, Turn>()
  readonly #waits = new Map<number, Wait>()
  readonly #correlations = new Map<Wait, number>()
  readonly #replays = new Map<number, Replay>()
  readonly #aborted = new Map<number, DramatisError>()
  readonly #asks = new Map<number, Asks>()
  readonly #taken: Taken = { ...NO_ONE }
  #correlation: number
  #pumping = false
  #again = false
  #stopping = false
  /** Whatever followed from the last pump has run by now: a turn that only waits is parked. */
  readonly #resume = () => {
    this.#again = false
    if (this.#turns.size > 0 && allParked(this.#turns)) this.link.park()
    this.pump()
  }
  readonly #directory = {
    name: (index: number) => this.name(index),
    runId: (index: number) => this.#runs.get(index)?.id ?? '',
  }

  constructor(
    assignment: Assignment,
    handlers: AgentHandlers,
    port: ThreadPort,
    makeTurn?: (loop: AgentLoop, start: TurnStart) => Turn | undefined,
  ) {
    this.role = assignment.role
    this.#handlers = handlers
    this.#port = port
    this.#makeTurn = makeTurn
    this.#concurrency = assignment.concurrency
    this.#names = assignment.names
    this.#indices = new Map(assignment.names.map((name, index) => [name, index]))
    this.#correlation = assignment.correlation
    this.link = new Link(new Window(assignment.window), new TeamMemory(assignment.team), port)
    this.now = () => port.scheduler.now()
    const random = () => ((Math.imul(assignment.seed, 0x9e3779b1) >>> 2) % 2 ** 30) / 2 ** 30
    this.outbox = new Outbox(this.link, assignment.index, assignment.maxMessageBytes, this.now, random)
    port.onRing(() => {
      this.link.woken()
      this.pump()
    })
  }

  // ---- start and stop

  /** Before the first message: the state of earlier lives or the initial one, the data, the start hook. Returns the state if the host does not have it yet. */
  async start(state: string | undefined): Promise<string | undefined> {
    const { initialState, data, start } = this.#handlers
    const made = typeof initialState === 'function' ? initialState(this.role) : initialState
    const initial = structuredClone(made ?? {})
    const issue = jsonIssue(initial, 'initialState')
    if (issue)
      throw new MessageRejectedError(`${issue.path} is ${issue.got}; the state of an agent is a JSON value.`, issue)
    this.state = state === undefined ? freeze(initial) : freeze(JSON.parse(state) as object)
    this.data = data
      ? await checkBySchema(
          data,
          this.role.data,
          (issues) =>
            new MessageRejectedError(`The data of agent "${this.role.name}" misses its schema: ${issues}`, {
              path: 'data',
              issues,
            }),
        )
      : this.role.data
    if (start) await this.#runStart(start)
    const now = JSON.stringify(this.state)
    return now === state ? undefined : now
  }

  async #runStart(start: NonNullable<AgentHandlers['start']>): Promise<void> {
    const view: RunView = { index: 0, id: '', metadata: {}, threadId: undefined, roster: [], runState: {}, based: true }
    const turn = new Turn(this, {
      turn: 0,
      run: 0,
      view,
      id: [0, 0, 0, 0],
      attempt: 1,
      caller: 0,
      correlation: 0,
      streams: false,
      type: 'request',
      startedAt: this.now(),
      replay: undefined,
    })
    try {
      await start(turn as never)
      this.state = turn.changes().state ?? this.state
    } finally {
      turn.close()
    }
  }

  /** Takes nothing more, aborts what is open and waits for it, then runs the stop hook. */
  async stop(): Promise<void> {
    this.#stopping = true
    const reason = new AgentTerminatedError(`Agent "${this.role.name}" is being stopped.`, { agent: this.role.name })
    for (const turn of [...this.#turns.values()]) turn.abort(reason)
    while (this.#turns.size > 0) await new Promise<void>((resolve) => this.#onTurnEnd.push(resolve))
    await this.#handlers.stop?.()
    this.link.flush()
  }
  readonly #onTurnEnd: (() => void)[] = []

  // ---- the pump

  pump(): void {
    if (this.#pumping || this.link.closed) return
    this.#pumping = true
    try {
      if (this.#run()) return this.#later()
    } finally {
      this.#pumping = false
      this.link.flush()
    }
    this.#sleep()
  }

  /** Runs what is there; true: more is waiting, but timers and sockets come first. */
  #run(): boolean {
    if (this.#drainReplies()) this.#later()
    const until = this.#port.scheduler.monotonic() + SLICE_MS
    for (let turns = 0; this.#turns.size < this.#concurrency && !this.#stopping; turns++) {
      if (turns >= TURNS_A_SLICE || (turns > 0 && (turns & 7) === 0 && this.#port.scheduler.monotonic() > until))
        return true
      if (!this.link.takeMessage(this.#taken)) return false
      this.#begin()
    }
    return false
  }

  #later(): void {
    if (this.#again) return
    this.#again = true
    this.#port.scheduler.defer(this.#resume)
  }

  #sleep(): void {
    const full = this.#turns.size >= this.#concurrency || this.#stopping
    if (!this.link.sleep(full)) this.#later()
  }

  lookAgain(): void {
    this.#later()
  }

  /** Lets the event loop turn once: timers, sockets, bells. */
  breath(): Promise<void> {
    return new Promise((resolve) => this.#port.scheduler.defer(resolve))
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return this.#port.scheduler.sleep(ms, signal)
  }

  // ---- messages in

  #begin(): void {
    const { memory, at } = this.#taken
    const run = runOf(memory, at)
    const attempt = attemptOf(memory, at)
    const turnId = turnOf(memory, at)
    // What a run is and what was logged of a turn come by the replies, and were published before the message.
    if (attempt > 1 || !this.#runs.has(run)) this.#drainRepliesAside()
    const kind = kindOf(memory, at)
    const i = (at >> 2) + 8
    const start: TurnStart = {
      turn: turnId,
      run,
      view: this.#viewOf(run),
      id: [memory.i32[i]!, memory.i32[i + 1]!, memory.i32[i + 2]!, memory.i32[i + 3]!],
      attempt,
      caller: senderOf(memory, at),
      correlation: kind === REQUEST ? correlationOf(memory, at) : 0,
      streams: (flagsOf(memory, at) & STREAMS) !== 0,
      type: typeOf(memory, at),
      startedAt: this.now(),
      replay: this.#replays.get(turnId),
    }
    const message = new ReceivedMessage(memory, at, readBody(memory, at), this.#directory)
    this.#replays.delete(turnId)
    this.link.done('plain', this.#taken) // from here on it has begun
    const turn = this.#makeTurn?.(this, start) ?? new Turn(this, start)
    this.#turns.set(turnId, turn)
    const aborted = this.#aborted.get(turnId)
    if (aborted) {
      this.#aborted.delete(turnId)
      turn.abort(aborted)
      return this.#end(turn, undefined, aborted)
    }
    let result: unknown
    try {
      result = this.#handle(turn, message)
    } catch (error) {
      return this.#end(turn, undefined, error ?? new Error('a handler threw undefined'))
    }
    if (isThenable(result)) {
      result.then(
        (value) => this.#endLater(turn, value, undefined),
        (error: unknown) => this.#endLater(turn, undefined, error ?? new Error('a handler threw undefined')),
      )
    } else this.#end(turn, result, undefined)
  }

  #handle(turn: Turn, message: ReceivedMessage): unknown {
    const { receive, observe, input } = this.#handlers
    const { type } = turn.start
    if (type === 'broadcast' || type === 'report' || type === 'publish') return observe?.(message, turn)
    if (input && (type === 'request' || type === 'delegate')) return this.#checked(turn, message)
    return receive(message, turn)
  }

  async #checked(turn: Turn, message: ReceivedMessage): Promise<unknown> {
    const value = await checkBySchema(
      this.#handlers.input!,
      message.structuredData,
      (issues) =>
        new MessageRejectedError(`The message to "${this.role.name}" misses its input schema: ${issues}`, {
          agent: this.role.name,
          issues,
        }),
    )
    return this.#handlers.receive({ ...message.toJSON(), structuredData: value }, turn)
  }

  #viewOf(run: number): RunView {
    const view = this.#runs.get(run)
    if (view) return view
    throw new Error(`run ${run} was never announced to agent "${this.role.name}"`)
  }

  // ---- the end of a turn

  #endLater(turn: Turn, value: unknown, error: unknown): void {
    if (this.link.closed) return
    this.#end(turn, value, error)
    this.pump()
  }

  #end(turn: Turn, value: unknown, thrown: unknown): void {
    const { output } = this.#handlers
    if (thrown === undefined && turn.reason === undefined && output && turn.start.correlation !== 0) {
      handled(this.#checkOutput(turn, value)).then(
        (checked) => this.#finishLater(turn, checked, undefined),
        (error: unknown) => this.#finishLater(turn, undefined, error),
      )
      return
    }
    this.#finish(turn, value, thrown)
  }

  async #checkOutput(turn: Turn, value: unknown): Promise<unknown> {
    const reply = replyOf(value, turn.start, this.role.name)
    const structuredData = await checkBySchema(
      this.#handlers.output!,
      reply.structuredData,
      (issues) =>
        new ReplyInvalidError(`The reply of agent "${this.role.name}" misses its output schema: ${issues}`, {
          agent: this.role.name,
          issues,
        }),
    )
    return { content: reply.content, structuredData }
  }

  #finishLater(turn: Turn, value: unknown, error: unknown): void {
    if (this.link.closed) return
    this.#finish(turn, value, error)
    this.pump()
  }

  /** The commit: patches, then one END. Whatever goes wrong on the way makes the turn a failed one. */
  #finish(turn: Turn, value: unknown, thrown: unknown): void {
    const { start } = turn
    let failure =
      turn.reason ??
      (thrown === undefined ? undefined : this.failure(thrown, describeTurn(start, this.name(start.caller))))
    let content = ''
    let data: string | undefined
    let bytes = HEADER
    if (!failure) {
      try {
        if (start.correlation !== 0) {
          const reply = replyOf(value, start, this.role.name)
          content = reply.content
          data = encodeData(reply.structuredData, 'reply.structuredData')
        }
        this.#writeEnd(start, content, data, 0)
        bytes = this.outbox.size()
        if (bytes > this.outbox.maxMessageBytes)
          throw new ReplyInvalidError(
            `The reply of agent "${this.role.name}" is ${bytes} bytes encoded; at most ${this.outbox.maxMessageBytes} are taken (communication.maxMessageBytes).`,
            { bytes, agent: this.role.name },
          )
        this.#commitState(turn)
      } catch (error) {
        failure = this.failure(error, describeTurn(start, this.name(start.caller)))
      }
    }
    this.link.unpark() // before the host can read that it has ended
    const missed = failure ? [] : (start.replay?.unmatched((index) => this.name(index)) ?? [])
    turn.close()
    this.#turns.delete(start.turn)
    if (failure) this.#writeEnd(start, '', JSON.stringify(errorData(failure)), FAILED)
    else this.#writeEnd(start, content, data, 0)
    if (missed.length > 0) this.outbox.fields.metadata = JSON.stringify({ missed })
    this.outbox.writeEnd(this.outbox.size(), start.id, start.startedAt)
    for (const resolve of this.#onTurnEnd.splice(0)) resolve()
  }

  #writeEnd(start: TurnStart, content: string, data: string | undefined, flags: number): void {
    const fields = this.outbox.begin(END, start.run, start.turn, 0, content, data)
    fields.type = 'response'
    fields.flags = flags
    fields.recipient = start.caller
    fields.correlation = start.correlation
    fields.attempt = start.attempt
  }

  #commitState(turn: Turn): void {
    const { state, patches, runState, runPatches } = turn.changes()
    if (state && patches && patches.length > 0) {
      this.#writePatch(turn.start, { scope: 'agent', patches })
      this.state = state
    }
    if (runState && runPatches && runPatches.length > 0) {
      const { view } = turn.start
      this.#writePatch(turn.start, {
        scope: 'run',
        patches: runPatches,
        ...(!view.based && { base: this.runState(view) }),
      })
      view.based = true
      view.runState = runState
    }
  }

  #writePatch(start: TurnStart, notice: PatchNotice & { patches: Patch[] }): void {
    this.outbox.begin(PATCH, start.run, start.turn, 0, '', JSON.stringify(notice))
    this.outbox.write(this.outbox.size(), false)
  }

  /** The state of the agent in that run. */
  runState(view: RunView): object {
    if (view.runState === undefined) {
      const { initialRunState } = this.#handlers
      const made = typeof initialRunState === 'function' ? (initialRunState as () => object)() : initialRunState
      view.runState = freeze(structuredClone(made ?? {}))
    }
    return view.runState
  }

  /** Anything thrown, as an error that says who failed at what. Refusals stay what they are; in a script all of the runtime's own do. */
  failure(thrown: unknown, at: string): DramatisError {
    if (thrown instanceof TaskRefusedError || thrown instanceof ReplyInvalidError) return thrown
    if (this.#makeTurn && thrown instanceof AnyError) return thrown
    const agent = this.role.name
    const cause =
      thrown instanceof AnyError
        ? { code: thrown.code, message: thrown.message, details: thrown.details }
        : describe(thrown)
    const text = this.#makeTurn
      ? `The protocol script failed: ${describe(thrown)}`
      : `Agent "${agent}" failed in ${at}: ${describe(thrown)}`
    return new AgentFailedError(text, { agent, cause }, thrown instanceof Error ? thrown : new Error(describe(thrown)))
  }

  // ---- replies in

  /** True: a turn may go on because of one. */
  #drainReplies(): boolean {
    let any = false
    while (this.link.takeReply(this.#taken)) {
      any = true
      this.link.unpark()
      this.#reply(this.#taken)
    }
    return any && this.#turns.size > 0
  }

  readonly #aside: Taken = { ...NO_ONE }

  /** While a message is taken: the replies have their own place. */
  #drainRepliesAside(): void {
    while (this.link.takeReply(this.#aside)) this.#reply(this.#aside)
  }

  #reply(taken: Taken): void {
    const { memory, at } = taken
    const correlation = correlationOf(memory, at)
    switch (kindOf(memory, at)) {
      case RESPONSE:
      case RESULT:
      case ACCEPTED:
      case REFUSED:
        this.#answer(correlation, memory, at)
        break
      case CHUNK:
        this.#waits.get(correlation)?.stream?.push(readBody(memory, at).content)
        break
      case STREAM_READ:
        this.#turns.get(turnOf(memory, at))?.read(limitOf(memory, at))
        break
      case ABORT:
        this.#abort(turnOf(memory, at), errorOf(memory, at))
        break
      case RUN:
        this.#announce(memory, at)
        break
      case RUN_OVER:
        this.#runs.delete(runOf(memory, at))
        break
      case REPLAY:
        this.#keepReplay(memory, at)
        break
    }
    this.link.done('replies', taken)
  }

  /** For a wait; or for a step that the redelivered turn, which may not have begun yet, has not asked for again. */
  #answer(correlation: number, memory: Memory, at: number): void {
    if (this.#waits.has(correlation)) return this.settle(correlation, memory, at)
    const turn = turnOf(memory, at)
    const replay = this.#turns.get(turn)?.start.replay ?? this.#replays.get(turn)
    if (!replay) return
    const bytes = memory.i32[at >> 2]!
    const copy = allocate(bytes)
    copy.u8.set(memory.u8.subarray(at, at + bytes))
    replay.settle(correlation, { memory: copy, at: 0 })
  }

  /** Settles a wait with the frame that answers it. */
  settle(correlation: number, memory: Memory, at: number): void {
    const wait = this.#waits.get(correlation)
    if (!wait) return
    const kind = kindOf(memory, at)
    if (isFailure(memory, at) || kind === REFUSED) wait.reject(errorOf(memory, at))
    else if (kind === ACCEPTED) wait.resolve(undefined)
    else if (kind === RESULT) wait.resolve(parse(readBody(memory, at).data))
    else wait.resolve(new ReceivedMessage(memory, at, readBody(memory, at), this.#directory))
  }

  #abort(turnId: number, reason: DramatisError): void {
    const turn = this.#turns.get(turnId)
    if (turn) turn.abort(reason)
    else this.#aborted.set(turnId, reason)
  }

  #announce(memory: Memory, at: number): void {
    const { content, data } = readBody(memory, at)
    const notice = JSON.parse(data ?? '{}') as RunNotice
    this.#runs.set(runOf(memory, at), {
      index: runOf(memory, at),
      id: content,
      metadata: Object.freeze(notice.metadata),
      threadId: notice.threadId,
      roster: notice.roster ?? [],
      runState: notice.runState === undefined ? undefined : freeze(JSON.parse(notice.runState) as object),
      based: notice.runState !== undefined,
    })
  }

  #keepReplay(memory: Memory, at: number): void {
    const bytes = memory.i32[at >> 2]!
    const copy = allocate(bytes)
    copy.u8.set(memory.u8.subarray(at, at + bytes))
    this.#replays.set(turnOf(memory, at), new Replay(copy, HEADER, bytes))
  }

  // ---- for the turns

  name(index: number): string {
    return this.#names[index] ?? `#${index}`
  }

  indexOf(name: string): number | undefined {
    return this.#indices.get(name)
  }

  nextCorrelation(): number {
    this.#correlation = (this.#correlation % 0x7fff_ffff) + 1
    return this.#correlation
  }

  remember(correlation: number, wait: Wait): void {
    this.link.unpark()
    this.lookAgain()
    this.#waits.set(correlation, wait)
    this.#correlations.set(wait, correlation)
  }

  forget(correlation: number): void {
    const wait = this.#waits.get(correlation)
    if (wait) this.#correlations.delete(wait)
    this.#waits.delete(correlation)
  }

  waitOf(correlation: number): Wait | undefined {
    return this.#waits.get(correlation)
  }

  correlationOf(wait: Wait): number | undefined {
    return this.#correlations.get(wait)
  }

  /** Whether sends to that agent have to ask for room because earlier ones still wait for their verdict. */
  asking(recipient: number): boolean {
    return this.#asks.size > 0 && this.#asks.has(recipient)
  }

  ask(recipient: number, write: () => void, settled: Promise<unknown>, counts: boolean): void {
    const asks = this.#asks.get(recipient) ?? { open: 0, held: [] }
    this.#asks.set(recipient, asks)
    const held: Held = { write, counts }
    asks.held.push(held)
    this.#writeHeld(asks)
    const done = () => {
      const at = asks.held.indexOf(held)
      if (at >= 0) asks.held.splice(at, 1)
      else if (counts) asks.open -= 1
      this.#writeHeld(asks)
      if (asks.open === 0 && asks.held.length === 0 && this.#asks.get(recipient) === asks) this.#asks.delete(recipient)
    }
    settled.then(done, done)
  }

  #writeHeld(asks: Asks): void {
    for (let next = asks.held[0]; next; next = asks.held[0]) {
      if (next.counts && asks.open >= ASKS_A_RECIPIENT) return
      if (next.counts) asks.open += 1
      asks.held.shift()
      next.write()
    }
  }

  writeControl(kind: number, start: TurnStart, correlation: number, limit: number): void {
    const memory = allocate(HEADER)
    writeControl(memory, 0, kind, this.#indices.get(this.role.name) ?? 0, 0, start.run, start.turn, correlation, 0)
    setLimit(memory, 0, limit)
    this.link.post(memory, HEADER)
  }

  loggerFor(start: TurnStart): Logger {
    const write = (level: LogLevel) => (fields: object, text: string) => {
      this.outbox.begin(LOG, start.run, start.turn, 0, String(text), logFields(fields)).limit = LEVELS.indexOf(level)
      this.outbox.write(this.outbox.size(), false)
    }
    return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
  }
}

/** What is wrong with the code or its data is a configuration error; anything else that start throws is a failed start. */
export function startFailure(agent: string, error: unknown): DramatisError {
  if (error instanceof ConfigurationError) return error
  if (error instanceof MessageRejectedError)
    return new ConfigurationError(error.message, { agent, ...error.details }, error)
  return new StartFailedError(`Agent "${agent}" failed while it started: ${describe(error)}`, { agent }, error)
}

export const logLevel = (limit: number): LogLevel => LEVELS[limit] ?? 'info'

const parse = (text: string | undefined): unknown => (text === undefined ? undefined : JSON.parse(text))

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

function allParked(turns: ReadonlyMap<number, Turn>): boolean {
  for (const turn of turns.values()) if (!turn.parked) return false
  return true
}

/** What a handler returned, as a reply; or the error that it is none. */
function replyOf(value: unknown, start: TurnStart, agent: string): { content: string; structuredData: unknown } {
  if (value === undefined || value === null) return { content: '', structuredData: undefined }
  if (typeof value === 'string') return { content: value, structuredData: undefined }
  if (typeof value === 'object' && !Array.isArray(value)) {
    const { content = '', structuredData } = value as Exclude<Reply, string | void>
    if (typeof content === 'string') return { content, structuredData }
  }
  throw new ReplyInvalidError(
    `Agent "${agent}" answered a ${start.type} with ${Array.isArray(value) ? 'a list' : describe(value)}; a reply is a string, nothing, or { content?, structuredData? }.`,
    { agent, got: describe(value) },
  )
}

const describeTurn = (start: TurnStart, caller: string) => `its turn for a ${start.type} from "${caller}"`

/** Log fields as JSON; what JSON has no word for is described, since a log line must not make a turn fail. */
function logFields(fields: object): string {
  try {
    return (
      JSON.stringify(fields, (_key, value: unknown) => {
        if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack }
        return typeof value === 'bigint' || typeof value === 'function' ? String(value) : value
      }) ?? '{}'
    )
  } catch {
    return '{}'
  }
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const field of Object.values(value)) freeze(field)
  }
  return value
}
