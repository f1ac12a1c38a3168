/**
 * Reads the answer of an AI SDK model as pieces of a model client: a whole answer, or the parts of a stream. Parts come
 * from foreign code, so each is checked. A part that has no place in an answer here becomes a warning.
 */

import type { ProviderData } from '../actors/definition/content.ts'
import type { FinishReason, ModelPiece, ModelRequest } from '../actors/definition/model.ts'
import { type Asked, modelError } from '../runtime/providers/model-errors.ts'
import {
  causesOf,
  type FailedCall,
  refusal,
  saidInPlace,
  systemCode,
  unreachable,
  unreadable,
  usageFrom,
  words,
} from '../runtime/providers/refusals.ts'
import { isObject } from '../shared/checks.ts'
import { DramatisError, type ModelError, type ModelFailureCode, type ModelFailureReason } from '../shared/errors.ts'
import { own } from '../shared/values.ts'
import { UnfitContentError } from './prompt.ts'

/*
 * Converts errors of the AI SDK and its providers into the errors that callers get. Errors are told apart by their
 * names, since no package of the AI SDK is loaded here. Source: `@ai-sdk/provider`, errors.
 */

/** Error that a model's stream reports in place of the rest of the answer. */
class StreamedError extends Error {
  readonly said: unknown

  constructor(said: unknown) {
    super('The stream reported an error.')
    this.said = said
  }
}

export function failedCall(asked: Asked, request: ModelRequest): FailedCall {
  return {
    asked,
    request,
    keyAdvice: 'Check the key that its AI SDK provider was made with.',
    isKeyless: false,
    speaks: 'what its AI SDK provider expects',
    now: request.clock?.now() ?? Date.now(),
  }
}

export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  if (thrown instanceof UnfitContentError) {
    const failure = { reason: 'rejected', code: 'part_not_taken', retryable: false } as const
    return modelError(call.asked, thrown.what, thrown.advice, failure)
  }
  if (thrown instanceof StreamedError) {
    const { said } = thrown
    return said instanceof Error ? failureOf(said, call) : saidInPlace(said, call)
  }
  if (isUnreadable(thrown)) return unreadable(call)
  const name = thrown instanceof Error ? thrown.name : undefined
  if (name === 'AI_InvalidResponseDataError' && /ended without/i.test((thrown as Error).message)) return brokenOff(call)
  if (name === 'AI_APICallError') return refusedCall(Object(thrown), call)
  if (name === 'AI_LoadAPIKeyError' || name === 'AI_LoadSettingError')
    return fail(call, `has no key or setting${words(thrown, call)}`, 'Give it to its AI SDK provider.', 'auth')
  if (name === 'AI_UnsupportedFunctionalityError')
    return fail(call, `does not support what it was asked for${words(thrown, call)}`, 'Ask without it.', 'rejected')
  if (name === 'AI_NoSuchModelError') return fail(call, 'does not exist', 'Check the name of the model.', 'not_found')
  if (name !== undefined && /^AI_(Invalid|TypeValidation|NoContent|EmptyResponse|NoOutput)/.test(name))
    return wrongAnswer(call, `cannot be used: its AI SDK provider reports ${name}`)
  if (systemCode(thrown) !== undefined || isBroken(thrown)) return unreachable(thrown, call)
  return fail(call, `failed in its AI SDK provider${words(thrown, call)}`, 'Look at the provider.', 'other')
}

/** Returns the error for an answer that is not what the specification says. */
const wrongAnswer = (
  { asked }: Pick<FailedCall, 'asked'>,
  what: string,
  code: ModelFailureCode = 'foreign_part',
): ModelError =>
  modelError(asked, what, 'Check that its AI SDK provider fits its server, and is up to date.', {
    reason: 'invalid_answer',
    code,
    retryable: false,
  })

/** Returns the error for an answer that has no end. */
const brokenOff = ({ asked }: Pick<FailedCall, 'asked'>): ModelError =>
  modelError(asked, 'broke off: its answer has no end', 'Ask again; if it stays so, look at the provider.', {
    reason: 'unreachable',
    code: 'broken_off',
    retryable: true,
  })

const fail = ({ asked }: FailedCall, what: string, advice: string, reason: ModelFailureReason) =>
  modelError(asked, what, advice, { reason, retryable: false })

/** Checks for an answer that is no JSON. Its text can be in the message of the error, so that is not passed on. */
const isUnreadable = (thrown: unknown) =>
  causesOf(thrown).some(({ name }) => name === 'AI_JSONParseError' || name === 'SyntaxError')

/** Checks for a connection that ended: `fetch` says so by a `TypeError` alone. */
const isBroken = (thrown: unknown) =>
  causesOf(thrown).some(({ name, message }) => name === 'TypeError' && /^(terminated|fetch failed)$/.test(message))

interface ApiCallError {
  statusCode?: unknown
  responseHeaders?: unknown
  responseBody?: unknown
  data?: unknown
}

function refusedCall(error: ApiCallError, call: FailedCall): ModelError {
  const { statusCode, responseHeaders, responseBody, data } = error
  if (typeof statusCode !== 'number') return unreachable(error, call)
  if (statusCode < 400 && (isBroken(error) || systemCode(error) !== undefined)) return unreachable(error, call)
  if (statusCode < 400) return wrongAnswer(call, 'answered with something else than its AI SDK provider expects')
  // Anthropic's package makes a refusal of the first event of a stream that it cannot read.
  if (typeof responseBody === 'string' && UNREAD.test(responseBody)) return unreadable(call)
  return refusal(statusCode, { body: responseBody ?? data, headers: headersOf(responseHeaders) }, call)
}

const UNREAD = /^\{[^{}]{0,20}"name":\s?"AI_(JSONParse|TypeValidation)Error"/

/** Returns headers that came from foreign code, without those that are none. */
export function headersOf(given: unknown): Headers {
  const headers = new Headers()
  for (const [name, text] of Object.entries(Object(given)))
    if (typeof text === 'string' && /^[\w-]+$/.test(name) && /^[\x20-\x7e]*$/.test(text)) headers.set(name, text)
  return headers
}

/** Parts of a stream that say nothing which an answer needs. */
const SILENT = new Set(['tool-input-end', 'response-metadata', 'ping', 'raw'])

type Fields = Readonly<Record<string, unknown>>

export class SdkAnswer {
  readonly #call: Pick<FailedCall, 'asked'>
  readonly #isStream: boolean
  /** Names of the tools whose input comes in parts, by the ids of the calls. */
  readonly #inputs = new Map<string, string>()
  #calls = 0
  #hasSaid = false
  #finish: Fields | undefined

  constructor(call: Pick<FailedCall, 'asked'>, isStream: boolean) {
    this.#call = call
    this.#isStream = isStream
  }

  /**
   * Yields the pieces of a whole answer. `wantsJson`: an answer in a schema was asked for, so its text is the one that
   * version 4 of the specification names for that, if it names one.
   */
  *takeWhole(whole: Fields, wantsJson: boolean): Generator<ModelPiece> {
    const { content, finishReason, usage, warnings = [], structuredOutputText: json } = whole
    yield* this.#warnings(warnings)
    if (!Array.isArray(content)) throw this.#wrong('answered without content', 'no_parts')
    const isReplaced = wantsJson && typeof json === 'string'
    for (const [at, part] of content.entries())
      if (!isReplaced || Object(part).type !== 'text') yield* this.#part(part, `${at}`)
    if (isReplaced) yield* this.#part({ type: 'text', text: json }, 'json')
    yield* this.take({ type: 'finish', finishReason, usage })
  }

  *take(given: unknown): Generator<ModelPiece> {
    if (!isObject(given)) throw this.#wrong('answered with something else than a part')
    const part = given as Fields
    switch (part.type) {
      case 'stream-start':
        yield* this.#warnings(part.warnings ?? [])
        return
      case 'text-start':
      case 'text-delta':
      case 'text-end':
        yield* this.#delta('text', part)
        return
      case 'reasoning-start':
      case 'reasoning-delta':
      case 'reasoning-end':
        yield* this.#delta('reasoning', part)
        return
      case 'tool-input-start':
        if (typeof part.id === 'string' && typeof part.toolName === 'string' && part.providerExecuted !== true)
          this.#inputs.set(part.id, part.toolName)
        return
      case 'tool-input-delta':
        yield* this.#inputDelta(part)
        return
      case 'error':
        throw new StreamedError(part.error)
      case 'finish':
        this.#finish = part
        yield* usagePieces(part.usage)
        return
      default:
        if (!SILENT.has(String(part.type))) yield* this.#part(part, undefined)
    }
  }

  /** Yields the reason for the end. Throws `ModelError` if the answer has none. */
  *end(): Generator<ModelPiece> {
    if (!this.#finish) throw brokenOff(this.#call)
    const { unified, raw } = Object(this.#finish.finishReason) as { unified?: unknown; raw?: unknown }
    const shown = typeof raw === 'string' && /^[\w-]{1,40}$/.test(raw) ? ` (${raw})` : ''
    const known = own(REASONS, String(unified))
    // A provider that ran its own tools alone may end with a call of tools that concerns nobody here.
    if (known)
      return void (yield { finishReason: known === 'stop' || known === 'tool_calls' ? this.#stopped() : known })
    if (unified === 'error')
      throw modelError(this.#call.asked, `ended with an error${shown}`, 'Ask again; else look at the provider.', {
        reason: 'server',
        retryable: true,
      })
    if (unified === 'interrupted') throw brokenOff(this.#call)
    // So packages report a stream that has no end, and a body without an answer.
    if (unified === 'other' && shown === '' && (this.#isStream || !this.#hasSaid)) throw brokenOff(this.#call)
    if (unified !== 'other') throw this.#wrong('stopped for a reason that the AI SDK does not have', 'unknown_end')
    yield { finishReason: this.#stopped() }
    yield { warning: `the answer ended for another reason than its own end${shown}.` }
  }

  *#delta(kind: 'text' | 'reasoning', part: Fields): Generator<ModelPiece> {
    const { type, id, delta, providerMetadata, citations } = part
    if (typeof id !== 'string') throw this.#wrong(`sent ${String(type)} without an id`, 'half_part')
    const isDelta = type === `${kind}-delta`
    if (isDelta && typeof delta !== 'string') throw this.#wrong(`sent ${String(type)} without its words`, 'half_part')
    const said = typeof delta === 'string' ? delta : ''
    const data = dataOf(providerMetadata)
    if (said !== '' || data.providerData) yield { [kind]: said, block: id, ...data }
    yield* citationsLeftOut(citations)
  }

  *#inputDelta({ id, delta }: Fields): Generator<ModelPiece> {
    const name = typeof id === 'string' ? this.#inputs.get(id) : undefined
    if (typeof id === 'string' && name !== undefined && typeof delta === 'string' && delta !== '')
      yield { toolInput: { id, name, text: delta } }
  }

  *#part(given: unknown, block: string | undefined): Generator<ModelPiece> {
    if (!isObject(given)) throw this.#wrong('answered with something else than a part')
    const { type, text, toolCallId, toolName, input, providerExecuted, providerMetadata, citations } = given as Fields
    const data = dataOf(providerMetadata)
    if (type === 'text' || type === 'reasoning') {
      if (typeof text !== 'string') throw this.#wrong(`answered with ${type} without its words`, 'half_part')
      this.#hasSaid = true
      if (text !== '' || data.providerData) yield { [type]: text, ...(block !== undefined && { block }), ...data }
      yield* citationsLeftOut(citations)
    } else if (type === 'tool-call' && providerExecuted !== true) {
      if (typeof toolCallId !== 'string' || typeof toolName !== 'string' || toolName === '')
        throw this.#wrong('called a tool without an id or a name', 'half_part')
      if (typeof input !== 'string') throw this.#wrong('called a tool without its input as JSON', 'half_part')
      this.#calls += 1
      this.#hasSaid = true
      yield { toolCall: { id: toolCallId, name: toolName, input, ...data } }
    } else yield { warning: leftOut(type) }
  }

  *#warnings(warnings: unknown): Generator<ModelPiece> {
    if (!Array.isArray(warnings)) return
    for (const warning of warnings) yield { warning: sentenceOf(warning) }
  }

  #stopped(): FinishReason {
    return this.#calls > 0 ? 'tool_calls' : 'stop'
  }

  #wrong(what: string, code?: ModelFailureCode) {
    return wrongAnswer(this.#call, what, code)
  }
}

const REASONS: Readonly<Record<string, FinishReason | undefined>> = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
}

function leftOut(type: unknown): string {
  const shown = typeof type === 'string' && /^[\w-]{1,40}$/.test(type) ? `of type "${type}"` : 'of no known type'
  return `the answer has a part ${shown}, which is left out: answers have text, reasoning and calls of the role's tools.`
}

function* citationsLeftOut(citations: unknown): Generator<ModelPiece> {
  if (Array.isArray(citations) && citations.length > 0)
    yield { warning: 'the answer has citations, which are left out: answers have no place for them.' }
}

function sentenceOf(warning: unknown): string {
  const { type, feature, details, message } = Object(warning) as Fields
  if (typeof message === 'string') return message
  const what = `${type === 'compatibility' ? 'is used in a compatibility mode' : 'is not supported'}`
  return `${String(feature)} ${what}${typeof details === 'string' ? `: ${details}` : '.'}`
}

/** Returns the metadata of a provider as JSON, which crosses threads and goes back with the next call. */
function dataOf(metadata: unknown): { providerData?: ProviderData } {
  const named = Object.entries(Object(metadata)).filter(([, data]) => isObject(data))
  return named.length === 0 ? {} : { providerData: JSON.parse(JSON.stringify(Object.fromEntries(named))) }
}

/** Yields the usage, if the provider has given any. Counts that it leaves out are 0. */
function* usagePieces(given: unknown): Generator<ModelPiece> {
  const { inputTokens, outputTokens } = Object(given) as Fields
  const input = Object(inputTokens) as Fields
  const output = Object(outputTokens) as Fields
  const usage = usageFrom({
    input: input.total,
    output: output.total,
    cached: input.cacheRead,
    reasoning: output.reasoning,
  })
  if (usage) yield { usage }
}
