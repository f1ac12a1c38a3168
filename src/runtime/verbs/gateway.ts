/**
 * Path of a model call: the only place in the host where a call leaves the team. Threads never talk to a provider, so
 * no thread has a key. A call goes on when its thread ends: its answer is in the log for the next attempt.
 */

import { v5 } from 'uuid'
import { contentFault, readableMessages, transcriptOf } from '../../actors/definition/content.ts'
import {
  addUsage,
  type ModelAnswer,
  type ModelCall,
  type ModelMessage,
  type ModelPiece,
  NO_TOKENS,
  type TokenUsage,
  type Watched,
} from '../../actors/definition/model.ts'
import { modelOptionsOf } from '../../actors/definition/model-options.ts'
import { readAsAnswer } from '../../actors/model/answer-function.ts'
import { jsonAmong } from '../../actors/model/structured-output.ts'
import { bytesOf, referenceIn } from '../../mailbox/stored-parts.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { DramatisError, describe, MessageRejectedError, ModelError } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { isMarkedFinal } from '../../shared/thrown.ts'
import type { Agent } from '../host/agent.ts'
import { type RunState, readerOf } from '../host/run.ts'
import type { HeldCall, Unrecorded } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import { collect, type Heard, nothingYet, partsOfAnswer } from '../providers/collect.ts'
import type { ResolvedModel } from '../providers/provider.ts'
import { amountOf, type Prices } from '../settings/money.ts'
import type { HostVerb } from './calls.ts'

/*
 * JSON schemas of answers whose root is no object: providers take only objects there, and no union at the root. Such a
 * schema is asked for as the field of an object, and the answer is taken out of it again.
 * Sources: OpenAI, "Structured Outputs", supported schemas; Anthropic and Google, structured outputs.
 */

const FIELD = 'value'

/** Returns the schema of an object with that value in it; undefined if the schema is that of an object itself. */
function asRootObject(schema: object): object | undefined {
  const { $defs, definitions, $schema, ...value } = schema as Record<string, unknown>
  if (value.type === 'object' && !('anyOf' in value || 'oneOf' in value || '$ref' in value)) return undefined
  const kept = { ...($schema !== undefined && { $schema }), ...($defs !== undefined && { $defs: moved($defs) }) }
  return {
    ...kept,
    ...(definitions !== undefined && { definitions: moved(definitions) }),
    type: 'object',
    properties: { [FIELD]: moved(value) },
    required: [FIELD],
    additionalProperties: false,
  }
}

/** Returns the value in an answer to such a schema, as JSON. A model that has left the object out is understood too. */
function rootValueIn(text: string): string {
  const answer = jsonAmong(text)?.value
  if (typeof answer !== 'object' || answer === null || Object.keys(answer).join() !== FIELD) return text
  return JSON.stringify(Object.values(answer)[0])
}

/** Returns what takes of a part of an answer the object that a schema asks for. */
export const objectIn = (schema: object | undefined): ((part: unknown) => unknown) =>
  schema && asRootObject(schema) ? rootPartIn : (part) => part

/** Returns the value in a part of such an answer; undefined if it has not begun. */
function rootPartIn(part: unknown): unknown {
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
  const [name, ...others] = Object.keys(part)
  return name === undefined || (name === FIELD && others.length === 0) ? Object.values(part)[0] : part
}

/** Returns a part of the schema whose references to the root follow it to its new place. */
function moved(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(moved)
  if (typeof part !== 'object' || part === null) return part
  return Object.fromEntries(
    Object.entries(part).map(([key, inner]) => [key, key === '$ref' ? movedReference(inner) : moved(inner)]),
  )
}

function movedReference(reference: unknown): unknown {
  if (typeof reference !== 'string' || !/^#(\/(?!\$defs\/|definitions\/)|$)/.test(reference)) return reference
  return `#/properties/${FIELD}${reference.slice(1)}`
}

/*
 * Takes the thoughts out of answers of models that write them into their text: `<think>...</think>` at its start, or
 * thoughts that only `</think>` ends, because the template of the model has written the tag before them. They become
 * reasoning, so nothing parses them or passes them on.
 */

const BEGIN = '<think>'
const END = '</think>'
/** Characters of blanks before the first word for which the tag is waited for. */
const MOST_BLANKS = 1_024

interface Options {
  /** The model thinks at the start of each answer: its words are held back until the tag, or the end. */
  readonly thinks: boolean
  /** Called if the words before a lone `</think>` have been yielded as text. */
  found(): void
}

/** Reads the pieces of one answer, and yields its thoughts as reasoning. */
export class Thoughts {
  readonly #options: Options
  /** 'start': nothing was said; 'thought': before the tag that ends it; 'held': perhaps so; 'answer': behind it. */
  #state: 'start' | 'thought' | 'held' | 'answer' = 'start'
  /** Text that was not yielded. */
  #kept = ''
  /** Place of the kept text. */
  #of: Pick<ModelPiece, 'block' | 'providerData'> = {}
  /** True while blanks between the thoughts and the answer are left out. */
  #isBlank = false
  #lone = new LoneTag()
  /** Pieces but texts, which are said again if the texts become reasoning. */
  #others: ModelPiece[] = []

  constructor(options: Options) {
    this.#options = options
  }

  /** A user's client can yield anything; the reader of the pieces reports what is wrong. */
  *take(piece: ModelPiece): Generator<ModelPiece> {
    const { text, restart, ...rest } = Object(piece) as ModelPiece
    if (restart) {
      this.#state = 'start'
      this.#kept = ''
      this.#isBlank = false
      this.#lone = new LoneTag()
      this.#others = []
    }
    if (typeof text !== 'string') {
      if (this.#lone.isOpen && !restart && rest.usage === undefined) this.#others.push(piece)
      return yield piece
    }
    const { block, providerData, ...more } = rest
    this.#of = { ...(block !== undefined && { block }), ...(providerData !== undefined && { providerData }) }
    if (restart || Object.keys(more).length > 0) yield { ...more, ...(restart && { restart }) }
    yield* this.#read(text)
    if (text === '' && providerData) yield { text, ...this.#of }
  }

  *end(): Generator<ModelPiece> {
    const kept = this.#kept
    this.#kept = ''
    if (kept === '') return
    if (this.#state === 'thought') yield { reasoning: kept, ...this.#of }
    else yield { text: kept, ...this.#of }
  }

  *#read(text: string): Generator<ModelPiece> {
    this.#kept += text
    const isFirst = this.#state === 'start'
    if (isFirst) {
      const begun = this.#kept.trimStart()
      if (BEGIN.startsWith(begun) && begun !== BEGIN && this.#kept.length < MOST_BLANKS) return
      this.#state = begun.startsWith(BEGIN) ? 'thought' : this.#options.thinks ? 'held' : 'answer'
      if (this.#state === 'thought') this.#kept = begun.slice(BEGIN.length)
    }
    if (this.#state === 'thought') yield* this.#think()
    else if (this.#state === 'held') yield* this.#hold(isFirst ? this.#kept : text)
    else yield* this.#answer()
  }

  *#think(): Generator<ModelPiece> {
    const end = this.#kept.indexOf(END)
    const until = end < 0 ? this.#kept.length - partOf(this.#kept) : end
    const reasoning = this.#kept.slice(0, until)
    this.#kept = this.#kept.slice(until)
    if (reasoning !== '') yield { reasoning, ...this.#of }
    if (end >= 0) yield* this.#thought()
  }

  *#hold(text: string): Generator<ModelPiece> {
    const end = this.#lone.read(text)
    if (end === undefined) return
    yield { reasoning: this.#kept.slice(0, end), ...this.#of }
    this.#kept = this.#kept.slice(end)
    yield* this.#thought()
  }

  /** Goes on behind the tag with which the kept text begins. */
  *#thought(): Generator<ModelPiece> {
    this.#kept = this.#kept.slice(END.length)
    this.#state = 'answer'
    this.#lone.isOpen = false
    this.#isBlank = true
    yield* this.#answer()
  }

  *#answer(): Generator<ModelPiece> {
    const text = this.#isBlank ? this.#kept.trimStart() : this.#kept
    this.#kept = ''
    if (text === '') return
    this.#isBlank = false
    const end = this.#lone.isOpen ? this.#lone.read(text) : undefined
    if (end === undefined) return yield { text, ...this.#of }
    this.#options.found()
    const said = this.#lone.texts.join('')
    yield { restart: true }
    yield* this.#others
    yield { reasoning: said.slice(0, end), ...this.#of }
    this.#kept = said.slice(end)
    yield* this.#thought()
  }
}

/** Length of the end of a text that may be the begin of the tag. */
function partOf(text: string): number {
  let length = Math.min(text.length, END.length - 1)
  while (length > 0 && !END.startsWith(text.slice(-length))) length -= 1
  return length
}

/** Looks in a text that comes in pieces for the first `</think>` outside of fences that no `<think>` comes before. */
class LoneTag {
  /** False once no such tag counts any more. */
  isOpen = true
  readonly texts: string[] = []
  #length = 0
  /** End of the text so far, in which a tag may begin. */
  #tail = ''
  #isFenced = false
  #open = 0

  /** Reads on. Returns the place of the tag in the whole text. */
  read(text: string): number | undefined {
    this.texts.push(text)
    const tail = this.#tail
    const looked = tail + text
    const before = this.#length - tail.length
    this.#length += text.length
    this.#tail = looked.slice(1 - END.length)
    for (const { 0: found, index } of looked.matchAll(/```|<\/?think>/g)) {
      if (index + found.length <= tail.length) continue
      if (found === '```') this.#isFenced = !this.#isFenced
      else if (this.#isFenced) continue
      else if (found === BEGIN) this.#open += 1
      else if (this.#open > 0) this.#open -= 1
      else return before + index
    }
    return undefined
  }
}

/*
 * Logs the pieces of a model's answer for those who watch the run. The host logs them once, whatever happens to the
 * thread of the turn, so a reader gets no piece twice. What is void later is marked: the text of a round that ended in
 * tool calls, and all pieces of an attempt that was made again.
 */

type Spoken = Exclude<Heard, { part: 'restart' }>
type Channel = ReturnType<Redactor['pieces']>

class WatchedPieces {
  readonly #caller: ModelCaller
  readonly #redactor: Redactor
  readonly #record: GatewayOptions['record']
  readonly #of: { agent: string; callId: string } & Watched
  /** Text, reasoning and each tool input on their own: a key may begin in one piece and end in the next. */
  #channels = new Map<string, Channel>()
  #hasText = false

  constructor(caller: ModelCaller, watched: Watched, redactor: Redactor, record: GatewayOptions['record']) {
    const { messageId, round, answerOf } = watched
    this.#caller = caller
    this.#redactor = redactor
    this.#record = record
    this.#of = { agent: caller.agent.name, messageId, callId: caller.callId, round, answerOf }
    if (caller.isAgain) this.#supersede('retried')
  }

  hear(heard: Heard): void {
    if (heard.part === 'restart') this.#restart()
    else this.#channel(heard).push(heard.text)
  }

  /** Ends the pieces of an answer. `callsTools`: the answer is not its text. */
  end(callsTools: boolean): void {
    for (const channel of this.#channels.values()) channel.end()
    if (callsTools && this.#hasText) this.#supersede('tool_calls')
  }

  #channel(heard: Spoken): Channel {
    const key = heard.part === 'tool_input' ? `${heard.part} ${heard.id}` : heard.part
    let channel = this.#channels.get(key)
    if (!channel) {
      channel = this.#redactor.pieces((text) => this.#say(heard, text))
      this.#channels.set(key, channel)
    }
    return channel
  }

  #say(heard: Spoken, text: string): void {
    const { run } = this.#caller
    if (run.over) return
    this.#hasText ||= heard.part === 'text'
    const ofTool = heard.part === 'tool_input' && this.#redactor.data({ toolCallId: heard.id, tool: heard.name })
    this.#record(run, { kind: 'model.piece', ...this.#of, part: heard.part, text, ...ofTool })
  }

  #restart(): void {
    const hadPieces = this.#channels.size > 0
    this.#channels = new Map()
    this.#hasText = false
    if (hadPieces) this.#supersede('retried')
  }

  #supersede(reason: 'tool_calls' | 'retried'): void {
    const { run } = this.#caller
    if (!run.over) this.#record(run, { kind: 'model.superseded', ...this.#of, reason })
  }
}

/** Passes the text of an answer on, piece by piece. Of one that is made again it passes on what goes on with that. */
class PieceReader {
  readonly #redactor: Redactor
  readonly #read: (text: string) => void
  #channel: Channel
  #passedOn = ''
  /** The text since the answer was begun again, if pieces of it had been passed on; undefined if it was not. */
  #again: string | undefined

  constructor(redactor: Redactor, read: (text: string) => void) {
    this.#redactor = redactor
    this.#read = read
    this.#channel = this.#begun()
  }

  #begun(): Channel {
    return this.#redactor.pieces((text) => {
      if (this.#again !== undefined) this.#again += text
      else this.#pass(text)
    })
  }

  #pass(text: string): void {
    this.#passedOn += text
    this.#read(text)
  }

  push(text: string): void {
    this.#channel.push(text)
  }

  restart(): void {
    this.#channel = this.#begun()
    this.#again = this.#passedOn === '' ? undefined : ''
  }

  end(): void {
    this.#channel.end()
    const again = this.#again ?? ''
    if (again.startsWith(this.#passedOn) && again.length > this.#passedOn.length)
      this.#pass(again.slice(this.#passedOn.length))
  }
}

/** Checks for an answer of the run: its readers are told which words do not count, so it may be made again. */
const isOfRun = (watched: Watched | undefined): boolean => watched?.answerOf === 'run'

export interface ModelCaller {
  readonly agent: Agent
  readonly run: RunState
  readonly turn: number
  /** Id of the call in the log. */
  readonly callId: string
  /** True if an earlier process has made the call, and its answer is not in the log. */
  readonly isAgain?: boolean | undefined
  /** True if an earlier try of the turn, or another model of a list, has failed behind words that do not count. */
  readonly isRetried?: boolean | undefined
  /** Ids of the words that people have said to the run, as far as the prompt has them for this call alone. */
  readonly steerIds?: readonly string[] | undefined
}

/**
 * Returns the model that an agent means in that run. `wanted`: a name in the team's `models`; undefined: the default.
 */
export type ResolveModel = (wanted: string | undefined, caller: ModelCaller) => ResolvedModel

export interface PendingCall extends ResolvedModel {
  readonly caller: ModelCaller
  readonly call: ModelCall
  readonly signal: AbortSignal
  /** Longest pause between two attempts, in ms, while another model can answer. */
  readonly patienceMs?: number
  /** Longest time without a piece, in ms, while another model can answer. */
  readonly silenceMs?: number
  /** Ms that are left of the call. Default: all of its time. */
  readonly timeoutMs?: number
  /** Name of the model in its list, if it stands in for the first. */
  readonly listed?: string
  /** Counts the tokens of an answer without usage, for a budget. Absent: nobody needs them. */
  readonly estimate?: (answer: Pick<ModelAnswer, 'text' | 'toolCalls'>) => Promise<TokenUsage>
  /** Record of what a budget holds for the call. `over`: called when the log has its outcome. */
  readonly reserved?: Pick<HeldCall, 'by' | 'reservedAt'> & { over(): void }
}

/** Call that was made, with its usage, also if it failed. */
export interface MadeCall {
  readonly answer: ModelAnswer | undefined
  readonly usage: TokenUsage
  /** Cost in billionths, by the prices of the team. */
  readonly money?: bigint | undefined
  readonly error: DramatisError | undefined
  /** Number of words that were heard; undefined: its answer had not begun. */
  readonly heard?: number | undefined
  /** True if who asked has been given words of it as they came. */
  readonly isRead?: boolean
  /** Ms from the request to the first piece of a stream. */
  readonly firstMs?: number | undefined
}

/** Checks whether a provider is asked for a stream. It also shows whether a model is silent or at work. */
export const isStreamed = ({ call, silenceMs }: Pick<PendingCall, 'call' | 'silenceMs'>): boolean =>
  call.stream === true || call.watched !== undefined || silenceMs !== undefined

/**
 * Layer around each call, the first outermost: a list of models, a budget that reserves before and settles after, a
 * span. It calls `next` with its input or with another call in its place, a list once for each model that it asks, or
 * throws an error that keeps the call from being made.
 */
export type GatewayLayer = (pending: PendingCall, next: MakeCall) => Promise<MadeCall>

export type MakeCall = (pending: PendingCall) => Promise<MadeCall>

/** Makes a call of a model; `onText` gets its text as it comes. */
export type MakeOnce = (
  caller: ModelCaller,
  call: ModelCall,
  signal: AbortSignal,
  onText: (text: string) => void,
) => Promise<MadeCall>

/** Has a model answer, with the words of people that its agent has not read. Throws what the call ends with. */
export interface Hearing {
  answer(
    caller: ModelCaller,
    call: ModelCall,
    how: { make: MakeOnce; signal: AbortSignal; onText: (text: string) => void },
  ): Promise<ModelAnswer>
}

export interface GatewayOptions {
  readonly clock: Scheduler
  readonly resolve: ResolveModel
  readonly record: (run: RunState, record: Unrecorded) => void
  readonly layers?: readonly GatewayLayer[]
  /** Puts the words of people into prompts. Default: there are none. */
  readonly steers?: Hearing
  /** Resolves when the call stands in the durable log; undefined if there is none. */
  readonly written?: () => Promise<void> | undefined
  readonly prices?: Prices | undefined
  readonly redactor: Redactor
  /** Called with each warning of a client, once for each model. */
  readonly warn?: (text: string, fields: { model: string; agent: string }) => void
}

/** Maximum number of warnings that are remembered, so that each is logged once. */
const MOST_WARNINGS = 1_000
const MOST_THINKING = 1_000

export class ModelGateway {
  readonly #options: GatewayOptions
  readonly #warned = new Set<string>()
  /** Models whose thoughts stood in an answer without a tag before them. */
  readonly #thinking = new Set<string>()

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  readonly verb: HostVerb = (args, { agent, run, turn, callId, isAgain, say }, signal) => {
    const call = checked(args)
    const isRetried = call.stream === true && (agent.messageOf(turn)?.retries?.count ?? 0) > 0
    return this.call({ agent, run, turn, callId, isAgain, isRetried }, call, signal, say)
  }

  call(
    caller: ModelCaller,
    call: ModelCall,
    signal: AbortSignal,
    onText: (text: string) => void,
  ): Promise<ModelAnswer> {
    const { steers } = this.#options
    if (!steers) return this.#once(caller, call, signal, onText).then(answerIn)
    return steers.answer(caller, call, { make: this.#once, signal, onText })
  }

  /** Makes a call that stands in the durable log by then, within its time. */
  readonly #once: MakeOnce = async (caller, call, signal, onText) => {
    const { clock, resolve, layers = [], written } = this.#options
    const writing = written?.()
    if (writing) await writing
    signal.throwIfAborted()
    assertThere(call, caller.run)
    const resolved = resolve(call.model, caller)
    const make: MakeCall = (asked) => {
      const holding = asked.reserved && written?.() // a later process has to know what it may cost
      if (!holding) return this.#make(asked, onText)
      return holding.then(() => {
        asked.signal.throwIfAborted()
        return this.#make(asked, onText)
      })
    }
    const layered = layers.reduceRight<MakeCall>((next, layer) => (asked) => layer(asked, next), make)
    const ending = new AbortController()
    const detach = onAbort(signal, () => ending.abort(signal.reason))
    const { modelTimeoutMs } = caller.agent.settings
    const timer = clock.timer(modelTimeoutMs, () => ending.abort(tooLate(caller, resolved.model, modelTimeoutMs)), true)
    try {
      return await layered({ ...resolved, caller, call, signal: ending.signal })
    } finally {
      detach()
      timer.cancel()
    }
  }

  async #make(pending: PendingCall, onText: (text: string) => void): Promise<MadeCall> {
    const { clock, prices, record, redactor } = this.#options
    const messageId = pending.caller.agent.messageIdOf(pending.caller.turn)
    const { caller, client, model, call, options = {}, signal } = pending
    const { priority } = caller.agent.settings.info
    const { messages, tools = [], stream, watched, ...rest } = call
    const { patienceMs, silenceMs } = pending
    const collected = nothingYet()
    let isRead = false
    const reader = new PieceReader(redactor, (text) => {
      // Readers of pieces have begun another answer if the turn is tried again: they get no more.
      if (!stream || caller.isRetried) return
      isRead = true
      onText(text)
    })
    const watching = watched && new WatchedPieces(caller, watched, redactor, record)
    let hasBegun = false
    let firstMs: number | undefined
    const began = clock.monotonic()
    const hear = (heard: Heard) => {
      if (isStreamed(pending)) firstMs ??= clock.monotonic() - began
      hasBegun = heard.part !== 'restart'
      if (heard.part === 'restart') reader.restart()
      if (heard.part === 'text') reader.push(heard.text)
      watching?.hear(heard)
    }
    let error: DramatisError | undefined
    const rootObject = call.jsonSchema && asRootObject(call.jsonSchema)
    try {
      const request = {
        ...rest,
        ...(rootObject && { jsonSchema: rootObject }),
        ...modelOptionsOf(rest, options),
        model,
        messages: readableMessages(messages.filter(isSaid).map(withoutSteerId), ({ hash }) =>
          readerOf(caller.run.stored, hash),
        ),
        ...(tools.length > 0 && { tools: [...tools] }),
        ...(pending.giveBack && { giveBack: pending.giveBack }),
        ...(isStreamed(pending) && {
          stream: true,
          ...((!stream || isOfRun(watched)) && { restarts: true }),
        }),
        agent: caller.agent.name,
        runId: caller.run.id,
        ...(caller.run.tenant !== undefined && { tenant: caller.run.tenant }),
        ...(priority !== undefined && { priority }),
        get idempotencyKey() {
          return keyOf(caller, pending.listed) // a hash, for providers that send it
        },
        clock,
        timeoutMs: Math.max(1, Math.min(pending.timeoutMs ?? caller.agent.settings.modelTimeoutMs, caller.run.leftMs)),
        ...(patienceMs !== undefined && { patienceMs }),
        ...(silenceMs !== undefined && { silenceMs }),
        signal,
      }
      await collect(client, request, collected, hear, this.#thoughtsOf(pending))
      reader.end()
    } catch (thrown) {
      const { reason } = signal
      error = reason instanceof ModelError ? endOf(reason, hasBegun) : this.#failure(thrown, pending)
    }
    const clean = redactor.data(collected)
    for (const warning of clean.warnings) this.#warn(warning, model, caller)
    const said = readAsAnswer(clean, call.answerFunction)
    const parts = said === clean ? partsOfAnswer(clean) : undefined
    const { toolCalls, finishReason = toolCalls.length > 0 ? 'tool_calls' : 'stop' } = said
    const text = rootObject ? rootValueIn(said.text) : said.text
    watching?.end(toolCalls.length > 0)
    const isCut = signal.aborted && clean.parts.length > 0
    const isReported = collected.usage.totalTokens > 0
    const reported = collected.usage.calls > 0 ? collected.usage : addUsage(collected.usage, ONE_CALL)
    let usage = reported
    if (isCut && !isReported) usage = guessOf(messages, text)
    else if (pending.estimate && !isReported && error === undefined) usage = await pending.estimate({ text, toolCalls })
    const rehearsed = client.rehearsal === true
    const answer = error
      ? undefined
      : { text, ...(parts && { parts }), toolCalls, usage, finishReason, rehearsed, model }
    const money = prices?.costOf(model, usage, error !== undefined)
    const { by, reservedAt } = pending.reserved ?? {}
    record(caller.run, {
      kind: 'model.called',
      agent: caller.agent.name,
      index: caller.agent.index,
      turn: caller.turn,
      messageId,
      model,
      usage,
      ...(money !== undefined && { money: amountOf(money) }),
      ...(caller.run.tenant !== undefined && { tenant: caller.run.tenant }),
      ...(by !== undefined && { by, reservedAt }),
      durationMs: clock.monotonic() - began,
      rehearsed,
      ...(isCut && text !== '' && { said: text.slice(0, LONGEST_SAID) }),
      error: error ?? null,
    })
    pending.reserved?.over()
    return { answer, usage, money, error, heard: hasBegun ? wordsIn(collected.text) : undefined, isRead, firstMs }
  }

  #thoughtsOf({ host, provider, model, thinks }: PendingCall): Thoughts {
    const name = `${host ?? provider} ${model}`
    return new Thoughts({
      thinks: thinks ?? this.#thinking.has(name),
      found: () => void (this.#thinking.size < MOST_THINKING && this.#thinking.add(name)),
    })
  }

  #warn(warning: string, model: string, { agent }: ModelCaller): void {
    const text = `The model "${model}": ${warning}`
    if (this.#warned.has(text) || this.#warned.size === MOST_WARNINGS) return
    this.#warned.add(text)
    this.#options.warn?.(text, { model, agent: agent.name })
  }

  /** Converts an error of a client into the error that others see. No other place does this. */
  #failure(thrown: unknown, { caller, model }: PendingCall): DramatisError {
    const { redactor } = this.#options
    const agent = caller.agent.name
    if (thrown instanceof DramatisError && !(thrown instanceof ModelError)) return redactor.fields(thrown)
    const what = redactor.text(thrown instanceof ModelError ? thrown.message : describe(thrown))
    const details = thrown instanceof ModelError ? redactor.fields(thrown.details) : {}
    const said = { reason: 'other', ...details, ...(isMarkedFinal(thrown) && { final: true }), agent, model }
    return new ModelError(`The model "${model}" has no answer for "${agent}": ${what}`, said)
  }
}

/** Returns the answer of a call that was made. Throws what it has ended with. */
export function answerIn({ answer, error }: MadeCall): ModelAnswer {
  if (answer) return answer
  throw error
}

/**
 * Returns the idempotency key of a call: the same for the same call in a later process. Ids of calls come from threads,
 * so agent and run are a part of it: no agent can get the answer that a provider keeps for another one.
 */
function keyOf({ agent, run, callId, steerIds }: ModelCaller, listed?: string): string {
  const more = [...(listed === undefined ? [] : [listed]), ...(steerIds ? [steerIds] : [])]
  return v5(JSON.stringify([run.id, agent.name, callId, ...more]), CALLS)
}

/** Returns the name of a call in records of budgets: the same in a later process. */
export const callKey = (caller: ModelCaller): string => keyOf(caller)

/** Namespace of the keys. */
const CALLS = '0f7d3a52-6c1e-5b8d-9a47-c2e4f1b86d35'

function tooLate({ agent }: ModelCaller, model: string, timeoutMs: number): ModelError {
  const text = `The model "${model}" has no answer for "${agent.name}": it did not answer within ${timeoutMs} ms, retries and waits included (communication.modelTimeoutMs). Raise it, or ask for less at once.`
  return new ModelError(text, { reason: 'timeout', agent: agent.name, model, timeoutMs, retryable: false })
}

/** Says of a call whose time was up that its answer had begun, if it had. */
function endOf(error: ModelError, hasBegun: boolean): ModelError {
  if (!hasBegun || error.details.reason !== 'timeout') return error
  const text = `${error.message} A part of the answer had come by then.`
  return new ModelError(text, { ...error.details, code: 'stream_stalled' })
}

/** Checks that the run has the bytes of all parts that its agent asks the model about. */
function assertThere({ messages }: ModelCall, { stored }: RunState): void {
  for (const { content } of messages)
    for (const part of typeof content === 'string' ? [] : content) {
      const reference = referenceIn(part)
      if (reference) bytesOf(reference, stored.get(reference.hash))
    }
}

const wordsIn = (text: string): number => text.split(/\s+/).filter(Boolean).length

/** Characters that are kept of what a call had said when it was cut off. */
const LONGEST_SAID = 2_000
const CHARACTERS_A_TOKEN = 4

function guessOf(messages: readonly ModelMessage[], said: string): TokenUsage {
  const asked = messages.reduce((sum, { content }) => sum + transcriptOf(content).length, 0)
  const inputTokens = Math.ceil(asked / CHARACTERS_A_TOKEN)
  const outputTokens = Math.ceil(said.length / CHARACTERS_A_TOKEN)
  return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1, estimated: true }
}

const ONE_CALL: TokenUsage = { ...NO_TOKENS, calls: 1 }

/** Checks arguments that come from a thread, where the user's code is. */
function checked(args: unknown): ModelCall {
  const { messages } = Object(args) as { messages?: unknown }
  if (!Array.isArray(messages) || !messages.every(isMessage))
    throw new MessageRejectedError('messages: a list of { role, content } is needed.', { path: 'messages' })
  const { watched } = args as { watched?: unknown }
  if (watched !== undefined && !isWatched(watched))
    throw new MessageRejectedError('watched: { messageId, round, answerOf } is needed.', { path: 'watched' })
  return args as ModelCall
}

function isWatched(watched: unknown): watched is Watched {
  const { messageId, round, answerOf } = Object(watched) as Partial<Record<keyof Watched, unknown>>
  return typeof messageId === 'string' && Number.isSafeInteger(round) && ANSWERS_OF.includes(answerOf)
}

const ANSWERS_OF: readonly unknown[] = ['run', 'choice', 'turn', 'call'] satisfies Watched['answerOf'][]

const withoutSteerId = (message: ModelMessage): ModelMessage => {
  if (message.steerId === undefined) return message
  const { steerId: _, ...said } = message
  return said
}

/** Checks for a message that says something: many providers refuse an empty one of an assistant. */
const isSaid = ({ role, content, toolCalls = [] }: ModelMessage): boolean =>
  role !== 'assistant' || toolCalls.length > 0 || transcriptOf(content).trim() !== ''

function isMessage(message: unknown): boolean {
  const { role, content } = Object(message) as { role?: unknown; content?: unknown }
  return typeof role === 'string' && contentFault(content, 'content') === undefined
}
