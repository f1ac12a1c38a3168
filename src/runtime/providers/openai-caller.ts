/**
 * The `fetch` that a provider's client is given. It bounds what a server can make this process hold and read, and
 * follows a redirect to the same origin alone: any other would take the prompt along.
 */

import { APIConnectionError, APIError, OpenAI } from 'openai'
import { Stream } from 'openai/streaming'
import type { ModelClient, ModelPiece, ModelRequest, TokenUsage } from '../../actors/definition/model.ts'
import { ANSWER_LIMITS, type AnswerLimits, boundedAnswer } from '../../shared/answers.ts'
import { DramatisError, type ModelError, type ModelFailureCode } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import { own, picked, valuesIn } from '../../shared/values.ts'
import { endless, MOST_CALLS, MOST_CHARACTERS } from './collect.ts'
import { type Asked, type Failing, modelError } from './model-errors.ts'
import { hostOf, type Provider } from './provider.ts'
import {
  causesOf,
  type FailedCall,
  HttpRefusal,
  isBrokenOff,
  lookAt,
  ProviderRefusal,
  refusal,
  saidInPlace,
  unreachable,
  unreadable,
  usageFrom,
  words,
} from './refusals.ts'

/** Maximum number of JSON values in one part of an answer, because the host parses it at once. */
const MOST_VALUES = 65_536
const MODEL_LIMITS: AnswerLimits = { ...ANSWER_LIMITS, values: MOST_VALUES }
const MOST_REDIRECTS = 3
/** Reason why an answer is not read to its end. `what` continues the words 'Model "x" of y'. */
class AnswerRefusedError extends Error {
  readonly what: string
  readonly advice: string
  readonly reason: 'invalid_answer' | 'not_found'
  readonly code: 'too_large' | 'too_many_values' | undefined

  constructor(what: string, advice: string, reason: AnswerRefusedError['reason'] = 'invalid_answer') {
    super(`${what}. ${advice}`)
    this.reason = reason
    this.code = reason === 'not_found' ? undefined : / values$/.test(what) ? 'too_many_values' : 'too_large'
    this.what = what
    this.advice = advice
  }
}

export function boundedFetch(limits: AnswerLimits = MODEL_LIMITS): typeof fetch {
  return async (input, init) => {
    const response = await withinOrigin(input, init)
    return boundedAnswer(response.ok ? await withTrueType(response, limits.empty) : response, refuse, { limits })
  }
}

/**
 * Yields the events of a stream as they are meant. Some servers send empty ones or `null`, blanks around `[DONE]`, or
 * one line break between two events.
 */
async function* trueEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let left = ''
  let isUnended = false
  const meant = (line: string): string => {
    const data = line.startsWith('data:') ? line.slice(5).trim() : undefined
    if (data === '' || data === 'null') return ''
    if (line === '') isUnended = false
    if (data === undefined || !(data.startsWith('{') || data === '[DONE]')) return `${line}\n`
    const end = isUnended ? '\n' : ''
    isUnended = data.endsWith('}')
    return `${end}data: ${data}\n`
  }
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true })
    const end = text.lastIndexOf('\n')
    if (end === -1) left += text
    else {
      yield encoder.encode(`${left}${text.slice(0, end)}`.split(/\r?\n/).map(meant).join(''))
      left = text.slice(end + 1)
    }
  }
  yield encoder.encode(`${meant(left + decoder.decode())}\n`)
}

/**
 * Returns the answer with the content type that its first bytes show: servers and gateways send JSON and events under a
 * wrong one, or under none. Other answers keep theirs. `mostBlank`: bytes of blanks that may come before.
 */
async function withTrueType(response: Response, mostBlank: number): Promise<Response> {
  const { body } = response
  if (!body) return response
  const chunks = body[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  let start = ''
  for (let size = 0; start === '' && size <= mostBlank; ) {
    const { value, done } = await chunks.next()
    if (done) break
    first.push(value)
    size += value.byteLength
    start = new TextDecoder().decode(value.subarray(0, LONGEST_START)).trimStart()
  }
  const type = /^[[{]/.test(start) ? 'application/json' : EVENT.test(start) ? 'text/event-stream' : undefined
  return withBody(response, chained(first, chunks), type)
}

function withBody(
  { headers: given, status, statusText, url }: Response,
  body: AsyncIterable<Uint8Array>,
  type?: string,
) {
  const headers = new Headers(given)
  if (type) headers.set('content-type', type)
  const again = new Response(ReadableStream.from(body), { headers, status, statusText })
  return Object.defineProperty(again, 'url', { value: url })
}

/** Bytes of the first chunk that show what an answer is. */
const LONGEST_START = 1_024
const EVENT = /^(data|event|id|retry)?:/

async function* chained(first: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* first
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}

async function withinOrigin(input: string | URL | Request, init: RequestInit | undefined): Promise<Response> {
  const origin = new URL(input instanceof Request ? input.url : input).origin
  let from = input
  for (let redirects = 0; ; redirects += 1) {
    const response = await fetch(from, { ...init, redirect: 'manual' })
    const location = response.headers.get('location')
    if (response.status < 300 || response.status > 399 || location === null) return response
    await response.body?.cancel()
    const target = URL.canParse(location, response.url) ? new URL(location, response.url) : undefined
    if (target?.origin !== origin)
      throw new AnswerRefusedError(
        `sends its callers elsewhere (${response.status} to ${target?.host ?? 'what is no address'})`,
        'Neither key nor prompt was sent there. Set baseURL to the address that is meant.',
        'not_found',
      )
    if (response.status !== 307 && response.status !== 308)
      throw new AnswerRefusedError(
        `sends its callers to another path in a way that loses the request (${response.status})`,
        'Set baseURL to the address that is meant.',
        'not_found',
      )
    if (redirects === MOST_REDIRECTS)
      throw new AnswerRefusedError(`redirects more than ${MOST_REDIRECTS} times`, 'Check its baseURL.', 'not_found')
    from = target
  }
}

const refuse = (what: string) =>
  new AnswerRefusedError(
    what,
    'It was not read on. Look at what stands at its baseURL; ask for less at once if that is right.',
  )

export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  const refused = causesOf(thrown).find((cause) => cause instanceof AnswerRefusedError)
  if (refused) {
    const { advice, code, reason, what } = refused
    return modelError(call.asked, what, advice, { reason, code, retryable: false })
  }
  const answered = httpRefusalIn(thrown)
  if (answered) return refusal(answered.status, { body: answered.text, headers: answered.headers }, call)
  if (thrown instanceof ProviderRefusal) return saidInPlace(thrown.body, call)
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError)) return saidInPlace(thrown.error, call)
  if (thrown instanceof SyntaxError) return unreadable(call)
  return unreachable(thrown, call)
}

const httpRefusalIn = (thrown: unknown): HttpRefusal | undefined =>
  causesOf(thrown).find((cause) => cause instanceof HttpRefusal)

function wrongContent({ headers, status }: Response, start: string, call: FailedCall): ModelError {
  const kind = /^[\w.+-]{1,40}\/[\w.+-]{1,60}/.exec(headers.get('content-type') ?? '')?.[0]
  const due = 'where JSON or a stream of events is due'
  const what = `answered with ${kind ?? 'content of no type'}, ${due}${words(start, call)}`
  return modelError(call.asked, what, lookAt(call), {
    reason: 'invalid_answer',
    code: 'unreadable',
    status,
    retryable: false,
  })
}

/** Checks for a host of OpenAI itself, as opposed to those that speak its APIs. */
export function isOpenAI(hostname: string): boolean {
  return hostname === 'openai.com' || hostname.endsWith('.openai.com')
}

/** An answer that is being received, with the bounds and the errors that both APIs share. */
export abstract class OpenAIAnswer {
  protected isRefused = false
  readonly #asked: Asked
  readonly #speaks: string
  #size = 0

  constructor(asked: Asked, speaks: string) {
    this.#asked = asked
    this.#speaks = speaks
  }

  /**
   * Returns the pieces of a body, or of an event of a stream. Throws `ModelError` if it is neither, and
   * `ProviderRefusal` if it is an error instead.
   */
  abstract take(data: unknown): Iterable<ModelPiece>

  /** True once the server has said why the answer has ended: a connection that breaks off then takes nothing away. */
  abstract get hasEnded(): boolean

  /** Yields the last pieces of the answer. Throws `ModelError` if there was no answer, or no end of it. */
  abstract end(): Iterable<ModelPiece>

  protected count(text: string): void {
    this.#size += text.length
    if (this.#size > MOST_CHARACTERS) throw endless()
  }

  protected checkCalls(count: number): void {
    if (count > MOST_CALLS) throw this.wrong(`called more than ${MOST_CALLS} tools at once`, 'too_many_calls')
  }

  protected checkInput(input: string): void {
    if (input.length > MOST_VALUES && valuesIn(Buffer.from(input)) > MOST_VALUES)
      throw this.wrong(`called a tool with more than ${MOST_VALUES} JSON values`, 'too_many_values')
  }

  protected again(what: string, failing: Pick<Failing, 'reason' | 'code'>): ModelError {
    const advice = 'Ask again; if it stays so, look at the provider.'
    return modelError(this.#asked, what, advice, { ...failing, retryable: true })
  }

  protected wrong(what: string, code: ModelFailureCode): ModelError {
    const failing = { reason: 'invalid_answer', code, retryable: false } as const
    return modelError(this.#asked, what, `Check that its baseURL speaks ${this.#speaks}.`, failing)
  }
}

/** Says a word of a server, unless it is none. */
export const told = (of: string, word: string): string | undefined =>
  /^[\w-]{1,40}$/.test(word) ? `${of} "${word}"` : undefined

/** Returns the usage of an answer, or undefined if the answer has no valid counts. `input`, `output`: their fields. */
export function usageIn(given: unknown, input: string, output: string): TokenUsage | undefined {
  const usage: Record<string, unknown> = Object(given)
  return usageFrom({
    input: own(usage, input),
    output: own(usage, output),
    total: own(usage, 'total_tokens'),
    cached: Object(own(usage, `${input}_details`)).cached_tokens,
    reasoning: Object(own(usage, `${output}_details`)).reasoning_tokens,
  })
}

/** Bounds a list before each entry is checked: a server can send a million. */
export const atMost =
  (most: number) =>
  (list: unknown, context: { addIssue(issue: { code: 'custom'; message: string }): void }): unknown => {
    if (!Array.isArray(list) || list.length <= most) return list
    context.addIssue({ code: 'custom', message: `more than ${most}` })
    return list.slice(0, most)
  }

/*
 * Makes the calls of a provider with the `openai` package: with the key of the moment, ended by the caller's signal,
 * and with errors that callers get.
 */

interface CallSettings {
  readonly signal: AbortSignal
  readonly headers: Record<string, string>
}

/** An API of the SDK: what it is asked, and how its answers are read. */
export interface OpenAIApi<Body> {
  readonly speaks: string
  body(request: ModelRequest, provider: Provider): Body
  /** Sentences about options that the API does not have. */
  warnings?(request: ModelRequest): string[]
  answer(asked: Asked, request: ModelRequest, provider: Provider): OpenAIAnswer
  create(sdk: OpenAI, body: Body, isStream: boolean, settings: CallSettings): Promise<Created>
}

/** Response to a request. `data`: its events, where a stream was asked for. */
interface Created {
  readonly response: Response
  readonly data: AsyncIterable<unknown> | undefined
}

export class OpenAICaller<Body> implements ModelClient {
  readonly #provider: Provider
  readonly #api: OpenAIApi<Body>
  readonly #fetch = withTrueEvents(withRefusals(boundedFetch()))
  #client: { key: string | undefined; sdk: OpenAI } | undefined

  constructor(provider: Provider, api: OpenAIApi<Body>) {
    this.#provider = provider
    this.#api = api
  }

  async *complete(request: ModelRequest): AsyncGenerator<ModelPiece> {
    const { signal } = request
    signal.throwIfAborted()
    const key = await this.#provider.key.get(signal)
    signal.throwIfAborted()
    const left = new AbortController()
    const detach = onAbort(signal, () => left.abort(signal.reason))
    // The SDK has an option for it, and names no header for this provider: it sends nothing.
    const { idempotencyKey } = request
    const headers = { ...request.headers, ...(idempotencyKey !== undefined && { 'Idempotency-Key': idempotencyKey }) }
    try {
      yield* this.#ask(this.#clientWith(key), request, { signal: left.signal, headers })
    } catch (thrown) {
      signal.throwIfAborted() // the SDK throws another error, or ends the stream as if it were whole
      const refused = httpRefusalIn(thrown)
      if (refused) request.onHeaders?.(refused.headers)
      throw failureOf(thrown, this.#failedCall(request))
    } finally {
      detach()
      left.abort() // a body that nobody has read would keep its socket
    }
  }

  async *#ask(sdk: OpenAI, request: ModelRequest, settings: CallSettings): AsyncGenerator<ModelPiece> {
    const api = this.#api
    const body = api.body(request, this.#provider)
    const answer = api.answer(this.#failedCall(request).asked, request, this.#provider)
    for (const warning of api.warnings?.(request) ?? []) yield { warning }
    const created = await api.create(sdk, body, request.stream === true, settings)
    try {
      for await (const json of this.#jsonOf(sdk, created, request)) yield* answer.take(json)
    } catch (thrown) {
      if (!answer.hasEnded || settings.signal.aborted || !isBrokenOff(thrown)) throw thrown
      yield { warning: 'the connection broke off behind the end of the answer; it is taken as whole.' }
    }
    yield* answer.end()
  }

  async *#jsonOf(sdk: OpenAI, { response, data: events }: Created, request: ModelRequest): AsyncGenerator<unknown> {
    request.onHeaders?.(response.headers)
    const kind = kindOf(response)
    // A server may not stream, or stream though it was not asked to, or answer with an error.
    if (kind === 'json') yield await response.json()
    else if (kind === 'events') yield* events ?? Stream.fromSSEResponse(response, new AbortController(), sdk)
    else throw wrongContent(response, await startOf(response), this.#failedCall(request))
  }

  #failedCall(request: ModelRequest): FailedCall {
    const { baseURL, key, redactor, clock } = this.#provider
    return {
      asked: { provider: hostOf(baseURL), model: request.model },
      request,
      keyAdvice: key.from === undefined ? 'Give the model an apiKeyEnv or apiKey.' : `Check the key in ${key.from}.`,
      isKeyless: key.from === undefined,
      speaks: this.#api.speaks,
      redactor,
      now: clock.now(),
    }
  }

  /** Returns the SDK's client with this key. Keys change, and one call must not get the key of another. */
  #clientWith(key: string | undefined): OpenAI {
    if (this.#client && this.#client.key === key) return this.#client.sdk
    const { baseURL } = this.#provider
    const make = () =>
      new OpenAI({
        baseURL,
        apiKey: key ?? 'none', // the SDK needs one; its header is removed below
        adminAPIKey: null,
        ...(key === undefined && { defaultHeaders: { authorization: null } }),
        maxRetries: 0,
        timeout: LONGEST_TIMEOUT_MS, // the deadline is the caller's signal
        logLevel: 'off', // it would print prompts
        fetch: this.#fetch,
      })
    const sdk = isOpenAI(new URL(baseURL).hostname) ? make() : withoutVariables(make)
    this.#client = { key, sdk }
    return sdk
  }
}

const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

/** Variables that the SDK takes from the environment beside the key, and sends to any server. */
const FOR_OPENAI = ['OPENAI_ORG_ID', 'OPENAI_PROJECT_ID', 'OPENAI_CUSTOM_HEADERS']

/**
 * Makes the SDK's client while these variables are deleted, because the SDK has no option against the last one. They
 * are restored before any other code runs.
 */
function withoutVariables<T>(make: () => T): T {
  const kept = picked(process.env, FOR_OPENAI)
  for (const name of FOR_OPENAI) Reflect.deleteProperty(process.env, name)
  try {
    return make()
  } finally {
    Object.assign(process.env, kept)
  }
}

/** Has the fetch throw `HttpRefusal` for a refusal: of its body, the SDK keeps the field `error` alone. */
function withRefusals(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init)
    if (response.ok) return response
    throw new HttpRefusal(response, await response.text().catch(() => '')) // the status says enough
  }
}

function withTrueEvents(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init)
    return response.body && kindOf(response) === 'events' ? withBody(response, trueEvents(response.body)) : response
  }
}

async function startOf({ body }: Response): Promise<string> {
  const reader = body?.getReader()
  const first = await reader?.read()
  return new TextDecoder().decode(first?.value)
}

function kindOf({ headers }: Response): 'json' | 'events' | 'other' {
  const type = headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type === 'application/json' || type.endsWith('+json')) return 'json'
  return type === 'text/event-stream' ? 'events' : 'other'
}
