/**
 * Converts errors of the AI SDK and its providers into the errors that callers get. Errors are told apart by their
 * names, since no package of the AI SDK is loaded here. Source: `@ai-sdk/provider`, errors.
 */
import type { ModelRequest } from '../actors/definition/model.ts'
import { DramatisError, type ModelError } from '../errors.ts'
import type { ModelFailureCode, ModelFailureReason } from '../model-failure.ts'
import { type Asked, modelError } from '../runtime/providers/model-errors.ts'
import {
  causesOf,
  type FailedCall,
  refusal,
  saidInPlace,
  systemCode,
  unreachable,
  unreadable,
  words,
} from '../runtime/providers/refusals.ts'
import { UnfitContentError } from './prompt.ts'

/** Error that a model's stream reports in place of the rest of the answer. */
export class StreamedError extends Error {
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

/** Converts anything thrown into the error for the caller. */
export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  if (thrown instanceof UnfitContentError) return notTaken(call, thrown)
  if (thrown instanceof StreamedError) return streamed(thrown.said, call)
  if (isUnreadable(thrown)) return unreadable(call)
  const name = nameOf(thrown)
  if (name === 'AI_InvalidResponseDataError' && /ended without/i.test((thrown as Error).message)) return brokenOff(call)
  if (name === 'AI_APICallError') return refusedCall(Object(thrown), call)
  if (name === 'AI_LoadAPIKeyError' || name === 'AI_LoadSettingError')
    return fail(call, `has no key or setting${words(thrown, call)}`, 'Give it to its AI SDK provider.', 'auth')
  if (name === 'AI_UnsupportedFunctionalityError')
    return rejected(call, `does not support what it was asked for${words(thrown, call)}`, 'Ask without it.')
  if (name === 'AI_NoSuchModelError') return fail(call, 'does not exist', 'Check the name of the model.', 'not_found')
  if (name !== undefined && /^AI_(Invalid|TypeValidation|NoContent|EmptyResponse|NoOutput)/.test(name))
    return wrongAnswer(call, `cannot be used: its AI SDK provider reports ${name}`)
  if (systemCode(thrown) !== undefined || isBroken(thrown)) return unreachable(thrown, call)
  return fail(call, `failed in its AI SDK provider${words(thrown, call)}`, 'Look at the provider.', 'other')
}

/** Returns the error for an answer that is not what the specification says. */
export const wrongAnswer = (
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
export const brokenOff = ({ asked }: Pick<FailedCall, 'asked'>): ModelError =>
  modelError(asked, 'broke off: its answer has no end', 'Ask again; if it stays so, look at the provider.', {
    reason: 'unreachable',
    code: 'broken_off',
    retryable: true,
  })

const fail = ({ asked }: FailedCall, what: string, advice: string, reason: ModelFailureReason) =>
  modelError(asked, what, advice, { reason, retryable: false })

const rejected = (call: FailedCall, what: string, advice: string) => fail(call, what, advice, 'rejected')

const notTaken = ({ asked }: FailedCall, { what, advice }: UnfitContentError) =>
  modelError(asked, what, advice, { reason: 'rejected', code: 'part_not_taken', retryable: false })

const nameOf = (thrown: unknown): string | undefined => (thrown instanceof Error ? thrown.name : undefined)

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

function streamed(said: unknown, call: FailedCall): unknown {
  return said instanceof Error ? failureOf(said, call) : saidInPlace(said, call)
}
