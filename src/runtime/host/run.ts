/** A run: its state, its output, the table of all runs, and the frames of one turn in its log. */

import type { ApprovedCall, GivenAnswer } from '../../actors/definition/approval.ts'
import { addUsage, type ModelMessage, NO_TOKENS, type TokenUsage } from '../../actors/definition/model.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { AgentTask } from '../../actors/definition/task.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonAmong, jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { isAnswer, isStep } from '../../actors/turn/logged-turn.ts'
import type { Board } from '../../blackboard/board.ts'
import type { BlackboardEntry } from '../../blackboard/entry.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import type { Directory } from '../../mailbox/codec.ts'
import {
  CALL,
  CHUNK,
  correlationOf,
  END,
  flagsOf,
  kindOf,
  lengthOf,
  type Memory,
  REQUEST,
  recipientOf,
  SEND,
  STREAM_READ,
  STREAMS,
  senderOf,
  turnOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import { hashOf as partHashOf, type ReadBytes } from '../../mailbox/stored-parts.ts'
import { isObject } from '../../shared/checks.ts'
import type { Clock } from '../../shared/clock.ts'
import { ConfigurationError, type DramatisError, ReplyInvalidError } from '../../shared/errors.ts'
import { digestOf, hashOf } from '../../shared/random.ts'
import { canonical, own } from '../../shared/values.ts'
import type { Agreed, AskedWith, Launched, LogEntry, LoggedOutput } from '../log/records.ts'
import { RunLog } from '../log/run-log.ts'
import { billionthsOf, MoneySum } from '../settings/money.ts'
import type { TokenLimit, TraceHeaders } from '../settings/options.ts'
import { Steering } from './steering.ts'

/** Field of a run's metadata with the id of its caller. */
export const CALLER = 'caller'

/** Field of the metadata of a run that was begun with an idempotency key: the hash of the body that began it. */
export const BODY_HASH = 'bodyHash'

/** Checks for the metadata of a run that was begun with an idempotency key. */
export const isKeyed = (metadata: Readonly<Record<string, string>> = {}): boolean => Object.hasOwn(metadata, BODY_HASH)

export const callerIn = (metadata: Readonly<Record<string, string>> = {}): string | null =>
  Object.hasOwn(metadata, CALLER) ? metadata[CALLER]! : null

/** How a question was closed. 'withdrawn': nobody waits for its answer any more; 'late': its time was up. */
export type QuestionEnd = 'answered' | 'withdrawn' | 'late'

export interface OpenQuestion {
  readonly agent: string
  readonly kind: 'ask' | 'approval'
  readonly text: string
  readonly choices: readonly string[] | undefined
  /** JSON schema of what the answer is the JSON text of. */
  readonly form: object | undefined
  readonly call: ApprovedCall | undefined
  /** Digest of what an approval shows, and people who have agreed to that; undefined for another question. */
  readonly digest: string | undefined
  readonly agreed: readonly Agreed[] | undefined
  /** Epoch ms. */
  readonly askedAt: number
  /** Epoch ms; null: as long as the run. */
  readonly answerBy: number | null
  /** Rejects with `ConfigurationError` for an input that the tool would refuse. */
  checkInput(input: unknown): Promise<void>
  /** `by`: id of who answers; undefined for the program. A yes may be one of several that are needed. */
  settle(answer: GivenAnswer, by: string | undefined): void
}

/** Keywords whose lists are sets: their order says nothing. */
const SETS: ReadonlySet<string> = new Set(['required', 'enum', 'type'])

/** Returns a JSON schema with the lists sorted whose order says nothing. */
function inAnyOrder(value: unknown, key?: string): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => inAnyOrder(item))
    return key !== undefined && SETS.has(key) ? items.sort((a, b) => (canonical(a) < canonical(b) ? -1 : 1)) : items
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, inAnyOrder(field, name)]))
}

/** Returns where two JSON schemas first differ, in words: by the names that data have, as far as these tell it. */
function differenceOf(before: unknown, now: unknown, path = ''): string {
  const [was, is]: Record<string, unknown>[] = [before, now].map((schema) => (isObject(schema) ? { ...schema } : {}))
  const lists = [was!, is!].map(({ required }) => (Array.isArray(required) ? required.map(String) : []))
  const [needed, need] = lists as [string[], string[]]
  const added = needed.find((name) => !need.includes(name))
  if (added !== undefined) return `${path}/${added} is required there`
  const missing = need.find((name) => !needed.includes(name))
  if (missing !== undefined) return `${path}/${missing} is not required there`
  const differs = (key: string) =>
    canonical(inAnyOrder(own(was!, key), key)) !== canonical(inAnyOrder(own(is!, key), key))
  const key = [...Object.keys(was!), ...Object.keys(is!)].find(differs)
  if (key === undefined || !isObject(own(was!, key)) || !isObject(own(is!, key)))
    return `it differs at ${path}/${key ?? ''}`
  return differenceOf(own(was!, key), own(is!, key), key === 'properties' ? path : `${path}/${key}`)
}

/** A schema as the durable log has it. */
interface WrittenOutput {
  readonly logged: LoggedOutput
  readonly jsonSchema: object
  /** Hash and bytes of the part that has it. */
  readonly part: string
  readonly bytes: Uint8Array
}

export class RunOutput {
  readonly #schema: ModelSchema
  readonly #runId: string
  /** 'log': the code of the schema may check more. 'resumer': the run was begun without one. */
  readonly from: 'launch' | 'log' | 'resumer'
  #written: WrittenOutput | null | undefined

  constructor(schema: ModelSchema, runId: string, from: RunOutput['from'] = 'launch') {
    this.#schema = schema
    this.#runId = runId
    this.from = from
  }

  static ofLog(logged: LoggedOutput, runId: string, bytesOf: BytesOf): RunOutput {
    return new RunOutput(schemaOfLog(logged, bytesOf), runId, 'log')
  }

  /** The output for the durable log. undefined: the schema's library cannot convert it, so models do not get it. */
  get written(): WrittenOutput | undefined {
    if (this.#written === undefined) this.#written = written(this.#schema)
    return this.#written ?? undefined
  }

  /** Goes on with an output of the log: models are asked in the very words that they were asked in before. */
  goOnFrom(before: RunOutput): RunOutput {
    this.#written = before.written
    return this
  }

  get jsonSchema(): object | undefined {
    return this.written?.jsonSchema
  }

  /** Checks whether it is the schema with that digest. */
  is({ digest }: Pick<LoggedOutput, 'digest'>): boolean {
    const { written: own } = this
    return own !== undefined && (own.logged.digest === digest || oldDigestOf(own.jsonSchema) === digest)
  }

  /**
   * Checks a schema that is given again for a run. `jsonSchema`: that of the run, where it is known.
   *
   * @throws ConfigurationError if it is not the one with which the run was begun.
   */
  assertIs(begun: Pick<LoggedOutput, 'digest'>, jsonSchema?: object): void {
    if (this.is(begun)) return
    const where = jsonSchema && differenceOf(jsonSchema, this.jsonSchema)
    const text = `output: run "${this.#runId}" was begun with another schema${where ? `: ${where}` : ''}. Give the same one, or begin another run.`
    throw new ConfigurationError(text, { path: 'output', runId: this.#runId, ...(where && { difference: where }) })
  }

  /** Returns what is wrong with a value; null: nothing. */
  async issuesOf(value: unknown): Promise<string | null> {
    try {
      await this.#check(value)
      return null
    } catch (error) {
      if (error instanceof ReplyInvalidError) return String(error.details.issues)
      throw error
    }
  }

  /**
   * Returns the data of an answer as the schema gives it: from its structured data, or from its text if it has none. A
   * text that does not fit the schema may contain JSON that does.
   */
  async dataOf(structured: unknown, text: string): Promise<unknown> {
    if (structured !== undefined && structured !== null) return this.#check(structured)
    try {
      return await this.#check(text)
    } catch (error) {
      const json = jsonAmong(text)
      if (!json || !(error instanceof ReplyInvalidError)) throw error
      return this.#check(json.value)
    }
  }

  #check(value: unknown): Promise<unknown> {
    return checkBySchema(this.#schema, value, (issues) => {
      const text = `The answer of run "${this.#runId}" misses its output schema: ${issues}`
      return new ReplyInvalidError(text, { runId: this.#runId, issues })
    })
  }
}

/** Returns what the log has of a schema; null if its library cannot write it as JSON schema. */
function written(schema: ModelSchema): WrittenOutput | null {
  try {
    const jsonSchema = jsonSchemaOf(schema)
    const bytes = Buffer.from(JSON.stringify(jsonSchema))
    const part = partHashOf(bytes)
    return { logged: { digest: digestOf(inAnyOrder(jsonSchema)), part, size: bytes.length }, jsonSchema, part, bytes }
  } catch {
    return null
  }
}

/** Digest of a schema in older logs. */
const oldDigestOf = (jsonSchema: object): string => hashOf(canonical(inAnyOrder(jsonSchema)))

/** Returns the schema that a JSON schema stands for. What cannot be checked by it here is asked for only. */
export const readBack = (jsonSchema: object): ModelSchema => laterSchema(jsonSchema, () => [])

type BytesOf = (hash: string) => Uint8Array | undefined

/** Returns the schema of a run of the log. */
export function schemaOfLog({ jsonSchema, part = '' }: LoggedOutput, bytesOf: BytesOf): ModelSchema {
  const bytes = jsonSchema ? undefined : bytesOf(part)
  if (!jsonSchema && !bytes) return LOST_SCHEMA
  return readBack(jsonSchema ?? Object(JSON.parse(Buffer.from(bytes!).toString())))
}

/** In the place of a schema that a damaged log has no more: no answer is taken for one that fits it. */
const LOST_SCHEMA: ModelSchema = {
  '~standard': {
    version: 1,
    vendor: 'dramatis',
    jsonSchema: { input: () => ({}), output: () => ({}) },
    validate: () => ({ issues: [{ message: 'the log has lost the schema of this run' }] }),
  },
}

/** Model call that was made. `cost`: tokens that budgets count, if an older log has others than those of `usage`. */
interface Called {
  readonly agent: string
  readonly model: string
  readonly usage: TokenUsage
  readonly cost?: number
  readonly money?: number
  readonly rehearsed: boolean
}

class Spent {
  readonly byAgent = new Map<string, TokenUsage>()
  readonly costs = new Map<string, number>()
  /** In billionths. */
  readonly moneyByAgent = new Map<string, bigint>()
  readonly money = new MoneySum()
  /** True if the rehearsal model answered at least one call, so that no model was asked. */
  rehearsed = false

  add({ agent, model, usage, cost = usage.totalTokens, money = 0, rehearsed }: Called): void {
    if (money > 0) {
      const amount = billionthsOf(money)
      this.money.add(model, amount)
      this.moneyByAgent.set(agent, (this.moneyByAgent.get(agent) ?? 0n) + amount)
    }
    this.costs.set(agent, (this.costs.get(agent) ?? 0) + cost)
    this.byAgent.set(agent, addUsage(this.byAgent.get(agent) ?? NO_TOKENS, usage))
    this.rehearsed ||= rehearsed
  }

  get total(): TokenUsage {
    return [...this.byAgent.values()].reduce(addUsage, { ...NO_TOKENS })
  }
}

interface StoppableClock {
  readonly leftMs: number
  pause(): void
  resume(): void
}

export interface Watch {
  /** Agents by index: another run may have an agent of the same name. */
  readonly watcher: number
  readonly index: number
  readonly agent: string
  /** End of the agent that the watcher was last notified of. */
  told: DramatisError | undefined
  /** True if the watcher has to be notified of the next end. */
  open: boolean
}

export class RunState {
  /** Number of the run in frames; 0 means no run. It is final once the run has a frame. */
  index: number
  readonly id: string
  readonly query: string
  readonly metadata: Readonly<Record<string, string>>
  readonly threadId: string | undefined
  /** Group of callers that the run is for. Set at its launch. */
  tenant: string | undefined
  readonly log = new RunLog()
  readonly startedAt: number
  /** Number of messages that were accepted or are parked, and are neither handled nor dead. */
  open = 0
  /** Called when the last of them is handled or dead. Set once it is to be known. */
  onQuiet: (() => void) | undefined
  /** Set when the run is to end: it accepts nothing more. */
  ending: DramatisError | undefined
  /** True when the run has its answer (or its error). Messages that nobody waits for may still be under way. */
  over = false
  /** True for the work that a message from outside has caused: it has no query and no answer. */
  isOwn = false
  /** Indices of the agents that were notified of the run. Frames of other agents are not accepted in it. */
  readonly members = new Set<number>()
  /** Blackboard of the run. With a shared blackboard other runs use the same one. */
  board: Board | undefined
  /** Number of entries on the blackboard of the team when this run ended, if the run has that one. */
  boardRevision: number | undefined
  /** True if code outside of the team has the blackboard too, and may write. */
  boardLent = false
  /**
   * false: the caller waits only for the end of the run. Otherwise somebody has a handle of the run, or its id, and may
   * still write in it.
   */
  held: boolean | undefined
  /** True if models answer in pieces for those who watch the run, whether or not somebody does. */
  streams = false
  parts: readonly MessagePart[] | undefined
  /** Bytes of the large parts that the run refers to, by their hashes. */
  readonly stored: Map<string, Uint8Array> = new Map()
  /** Conversation that the caller has given: model agents of the team begin with it. */
  messages: readonly ModelMessage[] = []
  /** Frames of turns that the log in memory has given up, read from the durable log again, by message. */
  readonly reread = new WeakMap<Envelope<RunState>, TurnFrames>()
  /** States that agents keep for this run, by agent index. */
  readonly states = new Map<number, object>()
  /** Agents whose state here began outside of the run, and is not in its log yet. */
  readonly unlogged = new Set<number>()
  /** Tasks by id, which is the id of the request. */
  readonly tasks = new Map<string, AgentTask>()
  /** Tasks that are not done, by the index of the agent that gave them and its number for the request. */
  readonly openTasks = new Map<number, Map<number, string>>()
  readonly questions = new Map<string, OpenQuestion>()
  /** Clock of its time limit, which stands still while a question is open. */
  #clock: StoppableClock | undefined
  /** Digests of the inputs of the tool calls that people have approved, by the ids of the calls. */
  readonly approved = new Map<string, string>()
  /** Models that have answered last, by the lists that they are of. */
  readonly speaking = new Map<string, string>()
  /** Replacement models by the names that the agents use. */
  models: Readonly<Record<string, string>> = {}
  /** Budget of this run. It comes before the one that the team has for each run. */
  budget: TokenLimit | undefined
  output: RunOutput | undefined
  /** Agent that is to speak first, where agents share one conversation. */
  wanted: string | undefined
  /** Agent that has spoken last, once the run has its answer. */
  spoken: string | undefined
  /** Structured data of the answer as its agent gave them; undefined if a guardrail has changed the answer. */
  structured: unknown
  /** Number of its frames that have passed the livelock detector while it was a run of code. */
  framesPassed = 0
  /** True if an agent that a model plays has asked somebody. */
  askedByModel = false
  /** True if the rehearsal model was called: what agents say and do from then on may be made up. */
  rehearsed = false
  readonly spent = new Spent()
  /** Hash of the script that an earlier process ran. */
  script: string | undefined
  traceHeaders: TraceHeaders | undefined
  /** Set for a request with a key: what its message has beside the content, as JSON. */
  asked: AskedWith | undefined
  handoffs = 0
  /** Open turns of models that have handed off: what they have said is in their conversations when they end. */
  handing: Set<Envelope<RunState>> | undefined
  onHandedOff: (() => void) | undefined
  /** Successor of each task that was handed off or reassigned, by the id of that task. */
  readonly successors = new Map<string, string>()
  /** Number of open delegations that each task waits for. */
  readonly delegated = new Map<string, number>()
  /** Words that people have said to it. Made with the first of them. */
  #steering: Steering | undefined
  readonly failures: { agent: string; taskId?: string; error: DramatisError }[] = []
  /** First message about the entry that was written last. Messages to other subscribers are copies of it. */
  told: { entry: BlackboardEntry; message: Memory; agents: Set<number> } | undefined
  /** Indices by name of the agents that were made in this run and end with it. The log continues to use their names. */
  readonly agents = new Map<string, number>()
  spawned = 0
  /** Functions that end each subscription, by agent and pattern. */
  readonly subscriptions = new Map<string, () => void>()
  readonly watches = new Map<string, Watch>()
  #ended: AbortController | undefined
  #reason: (() => DramatisError) | undefined

  constructor(
    index: number,
    id: string,
    query: string,
    startedAt: number,
    metadata: Readonly<Record<string, string>> = {},
    threadId?: string,
  ) {
    this.index = index
    this.id = id
    this.query = query
    this.startedAt = startedAt
    this.metadata = metadata
    this.threadId = threadId
  }

  /** `envelope`: the message, if its turn may have handed its duty off. */
  messageEnded(envelope?: Envelope<RunState>): void {
    this.open -= 1
    if (envelope && this.handing?.delete(envelope) && this.handing.size === 0) this.onHandedOff?.()
    if (this.open <= 0) this.onQuiet?.()
  }

  /** Aborted when the run is over. Made when it is asked for: most runs have nobody who waits for it. */
  get ended(): AbortSignal {
    if (!this.#ended) {
      this.#ended = new AbortController()
      if (this.#reason) this.#ended.abort(this.#reason())
    }
    return this.#ended.signal
  }

  /** Aborts `ended`. `reason` is called only if somebody asks for the signal: an error with its stack is costly. */
  end(reason: () => DramatisError): void {
    this.#reason ??= reason
    if (this.#ended && !this.#ended.signal.aborted) this.#ended.abort(this.#reason())
  }

  /** Metadata for the agents of the run: its own place in the trace replaces that of the caller. */
  get toldMetadata(): Record<string, string> {
    if (!this.traceHeaders) return { ...this.metadata }
    const { traceparent: _callers, tracestate: _too, ...rest } = this.metadata
    return { ...rest, ...this.traceHeaders }
  }

  /**
   * Takes the schema of a caller who gives the id of this run. Its code checks what is still to come.
   *
   * @throws ConfigurationError if the run was begun with another one.
   */
  takeOutput(given: RunOutput | undefined): void {
    const before = this.output
    if (!given || !before?.written || before.from === 'resumer') return
    given.assertIs(before.written.logged, before.jsonSchema)
    if (before.from === 'log' && !this.over) this.output = given.goOnFrom(before)
  }

  /** Words that people have said to it; undefined if nobody has. */
  get steering(): Steering | undefined {
    return this.#steering
  }

  /** Notes what the log has of the words of people. */
  steered(record: LogEntry): void {
    this.#steering ??= new Steering()
    this.#steering.see(record)
  }

  clockOn(clock: StoppableClock): void {
    this.#clock = clock
    if (this.questions.size > 0) clock.pause()
  }

  get leftMs(): number {
    return this.#clock?.leftMs ?? Number.POSITIVE_INFINITY
  }

  asks(questionId: string, question: OpenQuestion): void {
    this.questions.set(questionId, question)
    this.#clock?.pause()
  }

  closes(questionId: string): void {
    if (this.questions.delete(questionId) && this.questions.size === 0) this.#clock?.resume()
  }

  /** Returns the values on the blackboard: those of the end, if the run has ended. */
  boardValues(): Record<string, unknown> | null {
    const { board } = this
    return board ? board.at(this.revisionOf(board)).snapshot() : null
  }

  /** Number of entries that the blackboard has for this run: those of its end, if it has ended. */
  revisionOf({ revision }: Board): number {
    return Math.min(this.boardRevision ?? revision, revision)
  }

  /** Returns the name of an agent that belongs, or belonged, to this run alone. */
  agentName(index: number): string | undefined {
    if (this.agents.size > 0) for (const [name, own] of this.agents) if (own === index) return name
    return undefined
  }

  /** Forgets an agent that has left: its state and subscriptions here are not for the next agent with that name. */
  forgetAgent(index: number): void {
    this.states.delete(index)
    for (const [key, stop] of this.subscriptions) {
      if (!key.startsWith(`${index} `)) continue
      stop()
      this.subscriptions.delete(key)
    }
    for (const [key, { watcher }] of this.watches) if (watcher === index) this.watches.delete(key)
  }
}

/** Returns what reads the bytes with that hash; undefined if they are not there. */
export function readerOf(stored: ReadonlyMap<string, Uint8Array>, hash: string): ReadBytes | undefined {
  const bytes = stored.get(hash)
  return bytes && (() => bytes)
}

/**
 * Returns the names for a fold over one run's log. Such a fold can be made long after the team has forgotten the run.
 */
export function directoryOf(run: RunState, names: Pick<Directory, 'name'>): Directory {
  return {
    name: (index) => run.agentName(index) ?? names.name(index),
    runId: (index) => (index === run.index ? run.id : ''),
    bytesOf: (index, hash) => (index === run.index ? readerOf(run.stored, hash) : undefined),
  }
}

/** Returns the id of the message that has the duty of that one now, after handoffs and reassignments. */
export function lastSuccessor({ successors }: RunState, id: string): string {
  let last = id
  for (let next = successors.get(last); next !== undefined; next = successors.get(next)) last = next
  return last
}

/** Bytes that the log of one run has in memory, and those of all kept runs together. */
export const KEPT_BYTES = 64 * 2 ** 20

/** The runs that are not forgotten, by their index. */
export class RunTable extends Map<number, RunState> {
  readonly #clock: Clock
  #last = 0
  most = KEPT_BYTES
  /** Currency of the prices of the team, if it has some. */
  currency: string | undefined
  readonly large = new Set<RunState>()

  constructor(clock: Clock) {
    super()
    this.#clock = clock
  }

  open(id: string, query: string, metadata?: Readonly<Record<string, string>>, threadId?: string): RunState {
    const run = new RunState(++this.#last, id, query, this.#clock.now(), metadata, threadId)
    this.#add(run)
    return run
  }

  /** Adds a run that an earlier process has begun, under its index there. `bytesOf`: what the log has of a part. */
  reopen(index: number, launched: Launched, bytesOf: BytesOf): RunState {
    const { id, query, startedAt, metadata, threadId, output, streams, messages, ...given } = launched
    const run = new RunState(index, id, query, startedAt, metadata, threadId)
    run.tenant = given.tenant
    run.models = given.models
    run.budget = given.budget
    run.script = given.script
    run.streams = streams === true
    run.messages = messages ?? []
    run.output = output && RunOutput.ofLog(output, id, bytesOf)
    run.traceHeaders = given.traceHeaders
    run.parts = given.parts
    run.asked = given.asked
    run.wanted = given.speaker
    this.#add(run)
    return run
  }

  #add(run: RunState): void {
    this.set(run.index, run)
    run.log.most = this.most
    run.log.onLarge = () => this.large.add(run)
  }

  /** Moves the runs that there are behind those of earlier processes, of which `last` is the highest index. */
  continueFrom(last: number): void {
    const runs = [...this.values()]
    this.clear()
    for (const run of runs) {
      run.index += last
      this.set(run.index, run)
    }
    this.#last += last
  }

  /** Highest index that a run has had. */
  get last(): number {
    return this.#last
  }

  find(id: string): RunState | undefined {
    for (const run of this.values()) if (run.id === id) return run
    return undefined
  }

  isOpen(threadId: string): boolean {
    for (const run of this.values()) if (run.threadId === threadId && (!run.over || run.open > 0)) return true
    return false
  }

  /** Returns the id of a run; '' if it is forgotten. */
  idOf(index: number): string {
    return this.get(index)?.id ?? ''
  }

  /** Forgets a run that is over and quiet. Its log is no longer kept. */
  forget(run: RunState): void {
    this.delete(run.index)
  }
}

export interface LoggedFrame {
  memory: Memory
  at: number
  bytes: number
}

export class TurnFrames {
  readonly frames: LoggedFrame[] = []
  readonly #agent: number
  readonly #turn: number
  readonly #sends = new Set<number>()
  readonly #requests = new Set<number>()
  /** Number up to which entries were seen. */
  to = -1

  /** `before`: what was collected of the same turn so far. */
  constructor(agent: number, turn: number, before?: TurnFrames) {
    this.#agent = agent
    this.#turn = turn
    if (!before) return
    this.to = before.to
    for (const frame of before.frames) this.frames.push(frame)
    for (const send of before.#sends) this.#sends.add(send)
    for (const request of before.#requests) this.#requests.add(request)
  }

  see(entry: LogEntry): void {
    if (entry.kind !== 'frames') return
    const { memory } = entry
    for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) this.#frame(memory, at)
  }

  #frame(memory: Memory, at: number): void {
    const kind = kindOf(memory, at)
    const correlation = correlationOf(memory, at)
    const byIt = senderOf(memory, at) === this.#agent && turnOf(memory, at) === this.#turn
    const isAsked = this.#sends.has(correlation) || this.#requests.has(correlation)
    const forIt = recipientOf(memory, at) === this.#agent && isAsked
    const ended = kind === END && byIt
    const mine =
      (isAnswer(kind) && !ended) || this.#isPiece(memory, at)
        ? forIt
        : byIt && (isStep(kind) || ended || kind === STREAM_READ)
    if (!mine) return
    if (kind === SEND) this.#sends.add(correlation)
    if (kind === REQUEST || kind === CALL) this.#requests.add(correlation)
    if (ended) this.#requests.clear() // an attempt that ends withdraws its requests: a later answer is for nobody
    this.frames.push({ memory, at, bytes: lengthOf(memory, at) })
  }

  #isPiece(memory: Memory, at: number): boolean {
    const isStreamed = kindOf(memory, at) === CHUNK && (flagsOf(memory, at) & STREAMS) !== 0
    return isStreamed && senderOf(memory, at) !== this.#agent
  }
}
