/**
 * Converts what a provider answered in place of an answer into the errors that callers get: what happened, whether a
 * retry is worth it, what to do. Of the provider's own error only its text is passed on, without key and prompt.
 */

import { textOf } from '../../actors/definition/content.ts'
import type { ModelRequest, TokenUsage } from '../../actors/definition/model.ts'
import type { ModelError, ModelFailureCode, ModelFailureReason } from '../../shared/errors.ts'
import type { Redactor } from '../logging/redactor.ts'
import { type Asked, durationMs, limitsOf, modelError, retryAfterMs } from './model-errors.ts'

/*
 * Reads the error in what a provider answered in place of an answer. Servers and gateways have shapes of their own:
 * an object or a list, an error within an error, JSON within a text, a page of HTML. Sources: the API references of
 * OpenAI, Anthropic, Google (google.rpc.Status), Mistral, OpenRouter, and the errors of vLLM, llama.cpp and FastAPI.
 */

export interface SaidError {
  readonly message: string
  /** Codes, types and reasons that it names, the outermost first. */
  readonly kinds: readonly string[]
  /** HTTP status that the error names as its own. */
  readonly status: number | undefined
  readonly retryAfterMs: number | undefined
}

const DEEPEST_BODY = 6
const MOST_DETAILS = 16
const LONGEST_TEXT = 65_536
const LONGEST_MESSAGE = 4_096
const LONGEST_KIND = 100

const KINDS = ['code', 'type', 'status', 'reason', '__type'] as const
/** Fields that hold the words of an error, or an error within: the first that has words counts. */
const WORDS = ['message', 'Message', 'error', 'detail', 'msg', 'errors', 'error_description', 'choices'] as const
const PAUSES = ['retryDelay', 'retry_after', 'retryAfter', 'retry_after_seconds'] as const

function errorIn(body: unknown, now: number): SaidError {
  const reading = new Reading(now)
  const message = reading.wordsOf(body, 0).slice(0, LONGEST_MESSAGE)
  const status = reading.kinds.map(Number).find((code) => Number.isInteger(code) && code >= 400 && code < 600)
  return { message, kinds: reading.kinds, status, retryAfterMs: reading.pauseMs ?? pauseIn(message, now) }
}

/** Checks whether a body that should be an answer says an error instead. `answers`: the field that every answer has. */
export function isRefusal(body: unknown, answers: string): boolean {
  if (typeof body !== 'object' || body === null) return false
  if (Array.isArray(body)) return body.length > 0 && Boolean(fieldOf(body[0], 'error'))
  if (fieldOf(body, 'error')) return true
  return !fieldOf(body, answers) && ['message', 'detail', 'errors', 'msg'].some((field) => fieldOf(body, field))
}

class Reading {
  readonly kinds: string[] = []
  pauseMs: number | undefined
  readonly #now: number

  constructor(now: number) {
    this.#now = now
  }

  wordsOf(said: unknown, depth: number): string {
    if (typeof said === 'string') return this.#wordsOfText(said, depth)
    if (depth > DEEPEST_BODY || typeof said !== 'object' || said === null) return ''
    if (Array.isArray(said)) return this.wordsOf(said[0], depth + 1)
    for (const field of KINDS) this.#note(fieldOf(said, field))
    this.#notePause(said)
    const details = fieldOf(said, 'details')
    for (const detail of Array.isArray(details) ? details.slice(0, MOST_DETAILS) : []) {
      this.#note(fieldOf(detail, 'reason'))
      this.#notePause(detail)
    }
    // a gateway's own words say less than those of the provider behind it
    const behind = this.wordsOf(fieldOf(fieldOf(said, 'metadata'), 'raw'), depth + 1)
    const words = this.#firstWords(said, depth)
    const place = fieldOf(said, 'loc')
    return (
      behind || (Array.isArray(place) && words !== '' ? `${place.slice(0, DEEPEST_BODY).join('.')}: ${words}` : words)
    )
  }

  #firstWords(said: object, depth: number): string {
    const within = fieldOf(said, 'error')
    if (typeof within === 'string') this.#note(within)
    for (const field of typeof within === 'object' ? (['error', ...WORDS] as const) : WORDS) {
      const words = this.wordsOf(fieldOf(said, field), depth + 1)
      if (words !== '') return words
    }
    return ''
  }

  #wordsOfText(text: string, depth: number): string {
    const shown = text.slice(0, LONGEST_TEXT).trim()
    if (depth <= DEEPEST_BODY && /^[[{]/.test(shown))
      try {
        return this.wordsOf(JSON.parse(text), depth + 1) || shown
      } catch {}
    return shown.startsWith('<') ? firstLine(withoutTags(shown)) : shown
  }

  #note(kind: unknown): void {
    const isName = typeof kind === 'string' && kind !== '' && kind.length <= LONGEST_KIND && !/\s/.test(kind)
    if (typeof kind === 'number' || isName) this.kinds.push(String(kind))
  }

  #notePause(said: unknown): void {
    for (const field of PAUSES) this.pauseMs ??= pauseOf(fieldOf(said, field), this.#now)
    const ms = fieldOf(said, 'retry_after_ms')
    if (typeof ms === 'number' && ms >= 0) this.pauseMs ??= ms
  }
}

/** Returns a pause in ms: a duration, a number of seconds, or seconds and nanoseconds (google.protobuf.Duration). */
function pauseOf(given: unknown, now: number): number | undefined {
  if (typeof given === 'number') return given >= 0 ? Math.ceil(given * 1_000) : undefined
  if (typeof given === 'string') return durationMs(given.trim(), now)
  const seconds = Number(fieldOf(given, 'seconds') ?? Number.NaN)
  return seconds >= 0 ? Math.ceil(seconds * 1_000 + Number(fieldOf(given, 'nanos') ?? 0) / 1e6) : undefined
}

/** Returns the pause that words ask for: "Please try again in 6m0s", "retry after 12 seconds". */
function pauseIn(message: string, now: number): number | undefined {
  const found = /\b(?:again|retry|wait)\b[^.\d]{0,20}?(\d[\d.]*\s?(?:ms|[smhd])[\dmsh.]*)/i.exec(message)?.[1]
  return found === undefined ? undefined : durationMs(found.replaceAll(/\s|\.$/g, ''), now)
}

function withoutTags(html: string): string {
  return html
    .replaceAll(/<(script|style)\b[^>]{0,1000}>[^<]{0,10000}<\/\1>/gi, '')
    .replaceAll(/<[^<>]{0,1000}>/g, '\n')
    .trim()
}

const firstLine = (text: string): string => text.split('\n', 1)[0]?.trim() ?? ''

function fieldOf(given: unknown, field: string): unknown {
  return typeof given === 'object' && given !== null ? Reflect.get(given, field) : undefined
}

export interface FailedCall {
  readonly asked: Asked
  readonly request: ModelRequest
  readonly keyAdvice: string
  readonly isKeyless: boolean
  readonly speaks: string
  /** Takes keys out of the provider's words. Without it, the gateway does so. */
  readonly redactor?: Redactor
  readonly now: number
}

export class ProviderRefusal extends Error {
  readonly body: unknown

  constructor(body: unknown) {
    super('The provider answered with an error.')
    this.body = body
  }
}

export const lookAt = ({ speaks }: Pick<FailedCall, 'speaks'>): string =>
  `If it stays so, check that its baseURL speaks ${speaks}, and what stands between.`

export const unreadable = (call: FailedCall): ModelError =>
  modelError(call.asked, 'sent what is no JSON, or broken server-sent events', lookAt(call), {
    reason: 'invalid_answer',
    code: 'unreadable',
    retryable: true,
  })

export interface Said {
  body: unknown
  headers: Headers
}

export class HttpRefusal extends Error {
  readonly status: number
  readonly headers: Headers
  readonly text: string

  constructor({ status, headers }: Response, text: string) {
    super('The provider refused.')
    this.status = status
    this.headers = headers
    this.text = text
  }
}

export function refusal(status: number, { body, headers }: Said, call: FailedCall): ModelError {
  return statusError(status, errorIn(body, call.now), headers, call)
}

function statusError(status: number, said: SaidError, headers: Headers, call: FailedCall): ModelError {
  const { asked, keyAdvice: key, isKeyless, now } = call
  const wait = retryAfterMs(headers, now) ?? said.retryAfterMs ?? usedUpMs(status, headers, now)
  const told = headers.get('x-should-retry')
  const worthIt = status === 408 || status === 409 || status === 425 || status === 429 || status >= 500
  const kind = kindOf(said)
  const lasts = kind === 'quota' || kind === 'too_long' || kind === 'filtered'
  const retryable = told === 'true' || (told !== 'false' && worthIt && !lasts)
  const fail = (reason: ModelFailureReason, what: string, advice: string, code?: ModelFailureCode) => {
    const failing = { reason, code, status, retryable, retryAfterMs: wait }
    return modelError(asked, `${what} (${status})${inWords(said.message, call)}`, advice, failing)
  }
  if (kind === 'quota') return fail('quota', 'has no quota left for this key', 'Look at the account of the key.')
  if (status === 401 || (status === 400 && kind === 'auth'))
    return fail('auth', isKeyless ? 'wants a key' : 'does not accept the key', key)
  if (status === 402) return fail('quota', 'wants to be paid first', 'Look at the account of the key.')
  if (status === 404) return fail('not_found', 'does not exist, or its address is wrong', 'Check model and baseURL.')
  if (status === 408) return fail('timeout', 'gave up waiting for the request', 'Ask again.')
  if (status === 413) return fail('too_long', 'was asked too much at once', 'Shorten the conversation.')
  if (status === 429)
    return fail(
      'rate_limit',
      'is asked too often',
      `${pause(wait)}Lower maxConcurrentAgents, or ask for a higher limit.`,
    )
  if (kind === 'too_long')
    return fail(
      'too_long',
      'was given a conversation that is too long for it',
      "Lower the role's maxTokens, or take a larger model.",
    )
  if (kind === 'filtered') return fail('filtered', 'refused the request', 'Ask in another way, or take another model.')
  if (status === 403)
    return fail('auth', 'may not be used', `${key} It may lack the right to this model, or the country is closed.`)
  if (status >= 500)
    return fail('server', 'has a failure of its own', `${pause(wait)}If it stays so, look at the provider's status.`)
  if (NOT_TAKEN.test(said.message))
    return fail(
      'rejected',
      'takes no part of that kind',
      'Say in accepts of the role what its model takes.',
      'part_not_taken',
    )
  return fail('rejected', 'refused the request', 'Check the model, its options and the schemas of output and tools.')
}

function usedUpMs(status: number, headers: Headers, now: number): number | undefined {
  const limits = status === 429 ? limitsOf(headers, now) : undefined
  return limits?.remaining === 0 ? limits.resetMs : undefined
}

/** Words for an image, a sound or a file that the model does not take. Servers have no code for it. */
const NOT_TAKEN =
  /\b(image|vision|audio|multimodal|modalit|file)\w*\b.{0,80}\b(not|n't|only|un)\s?support|support\w*.{0,40}\b(no|not)\b.{0,40}\b(image|vision|audio|file)|not support.{0,60}\b(image|vision|audio|multimodal|file)|only support\w* text/i

const pause = (ms: number | undefined) =>
  ms === undefined ? '' : `It wants to be left alone for ${Math.ceil(ms / 1_000)} s. `

/** The code of some providers is the status that the error would have had. */
export function saidInPlace(body: unknown, call: FailedCall): ModelError {
  const said = errorIn(body, call.now)
  if (said.status !== undefined) return statusError(said.status, said, new Headers(), call)
  const reason = kindOf(said)
  const retryable = reason === 'rate_limit' || reason === 'server' || reason === 'timeout'
  const { retryAfterMs: wait } = said
  const failing = { reason, retryable, ...(wait !== undefined && { retryAfterMs: wait }) }
  return modelError(call.asked, `answered with an error${inWords(said.message, call)}`, lookAt(call), failing)
}

/** Reasons by the codes and types of providers, the first that fits. */
const BY_KIND: readonly (readonly [ModelFailureReason, RegExp])[] = [
  ['quota', /insufficient_quota|billing|insufficient_(credit|balance|fund)|payment_required/i],
  ['too_long', /context_(length|size|window)|contextwindow|too_large|too_long|max_length/i],
  ['filtered', /content_?(filter|policy)|responsible_?ai|moderation|safety|blocked/i],
  ['auth', /api_?key|auth|permission/i],
  ['rate_limit', /rate.?limit|resource_exhausted|too_many_requests/i],
  ['timeout', /timeout|deadline/i],
  ['server', /overload|server_?error|^api_?error|internal|unavailable|capacity/i],
  ['not_found', /not_?found/i],
  ['rejected', /invalid|bad.?request/i],
]

/**
 * Reasons by words, where no code says it. Sources: the API references of Anthropic ("credit balance is too low",
 * "prompt is too long") and Gemini ("The input token count (n) exceeds the maximum number of tokens"), DeepSeek
 * ("Insufficient Balance"), and servers of chat completions.
 */
const BY_WORDS: readonly (readonly [ModelFailureReason, RegExp])[] = [
  ['quota', /credit balance is too low|insufficient (balance|credits|funds)/i],
  [
    'too_long',
    /prompt is too long|input token count.{0,40}exceeds|(maximum|available) context (length|size)|context (window|the overflows|overflows)/i,
  ],
  ['auth', /(invalid|incorrect|no|missing) api.?key/i],
]

function kindOf({ kinds, message }: SaidError): ModelFailureReason {
  const byKind = BY_KIND.find(([, fits]) => kinds.some((kind) => fits.test(kind)))?.[0]
  const byWords = BY_WORDS.find(([, fits]) => fits.test(message))?.[0]
  return (byKind === 'rejected' || byKind === undefined ? byWords : undefined) ?? byKind ?? 'other'
}

export function unreachable(thrown: unknown, { asked }: FailedCall): ModelError {
  const code = systemCode(thrown)
  const fail = (what: string, advice: string, reason: ModelFailureReason = 'unreachable', retryable = true) =>
    modelError(asked, `${what}${code === undefined ? '' : ` (${code})`}`, advice, { reason, retryable })
  if (code === 'ECONNREFUSED') return fail('refuses the connection', 'Check its baseURL, and that the server runs.')
  if (code === 'ENOTFOUND') return fail('cannot be found: no such host', 'Check its baseURL.', 'unreachable', false)
  if (code !== undefined && /CERT|TLS|SSL|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO/.test(code)) {
    const advice = 'Check its baseURL, or add the certificate to Node.'
    return fail('has a certificate that is not trusted', advice, 'unreachable', false)
  }
  if (code !== undefined && /TIMEOUT|TIMEDOUT/.test(code))
    return fail('was silent for too long', 'Ask again; if it stays so, look at the provider.', 'timeout')
  if (isBrokenOff(thrown))
    return fail('broke the connection off', 'Ask again; if it stays so, look at what stands between.')
  return fail('cannot be reached', "Check its baseURL and this machine's network.")
}

export const isBrokenOff = (thrown: unknown): boolean =>
  /SOCKET|ECONNRESET|EPIPE|ECONNABORTED/.test(systemCode(thrown) ?? '')

const DEEPEST = 5

export function systemCode(thrown: unknown): string | undefined {
  for (const error of causesOf(thrown))
    if ('code' in error && typeof error.code === 'string' && /^\w{1,60}$/.test(error.code)) return error.code
  return undefined
}

export function causesOf(thrown: unknown): Error[] {
  const causes: Error[] = []
  for (let error = thrown; error instanceof Error && causes.length < DEEPEST; error = error.cause) causes.push(error)
  return causes
}

const LONGEST = 300

/** Returns the words of an error without the key. A message that repeats the prompt is left out. */
export const words = (said: unknown, call: FailedCall): string => inWords(errorIn(said, call.now).message, call)

function inWords(message: string, { request, redactor }: FailedCall): string {
  if (message.trim() === '') return ''
  if (repeats(message, request)) return ': it repeats what it was asked, so its words are left out'
  const text = withoutEnd((redactor?.text(message) ?? message).replaceAll(/[\p{Cc}\s]+/gu, ' '))
  return `: ${text.length > LONGEST ? `${cut(text)} and so on` : text}`
}

/** Cuts a text between two words: half a key would be found by nobody. */
function cut(text: string): string {
  const end = text.lastIndexOf(' ', LONGEST)
  return end < 0 ? 'a long word' : text.slice(0, end)
}

/** Removes full stops and blanks at the end, because our own full stop follows. */
function withoutEnd(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '.' || text[end - 1] === ' ')) end -= 1
  return text.slice(0, end)
}

const STRIDE = 8
const WINDOW = 16 // a repetition of 23 characters or more holds one of them whole

function repeats(message: string, { messages }: ModelRequest): boolean {
  const said = messages.flatMap(({ content, toolCalls = [] }) => [
    textOf(content),
    ...toolCalls.map(({ input }) => input),
  ])
  if (said.some((text) => text.length >= STRIDE && message.includes(text))) return true
  const looked = message.slice(0, LONGEST + WINDOW)
  for (let at = 0; at + WINDOW <= looked.length; at += STRIDE) {
    const window = looked.slice(at, at + WINDOW)
    if (said.some((text) => text.includes(window))) return true
  }
  return false
}

/** Counts of tokens as a provider gives them: numbers, something odd, or nothing. */
type Counts = Partial<Record<'input' | 'output' | 'total' | 'cached' | 'reasoning', unknown>>

/** Returns the usage. An odd count is left out and the others count; undefined if there is none of the tokens. */
export function usageFrom({ input: i, output: o, total: t, cached: c, reasoning: r }: Counts): TokenUsage | undefined {
  const total = countOf(t)
  const rest = (other: unknown) => (total === undefined ? undefined : Math.max(0, total - (countOf(other) ?? 0)))
  const input = countOf(i) ?? rest(o)
  const output = countOf(o) ?? rest(input)
  if (input === undefined && output === undefined) return undefined
  const cached = countOf(c)
  const reasoning = countOf(r)
  return {
    inputTokens: input ?? 0,
    outputTokens: output ?? 0,
    totalTokens: (input ?? 0) + (output ?? 0),
    ...(cached !== undefined && { cachedTokens: cached }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
    calls: 1,
  }
}

/** Some servers count in halves, or write a number as text. */
function countOf(given: unknown): number | undefined {
  const isCount = typeof given === 'number' || (typeof given === 'string' && /^\d/.test(given))
  const count = isCount ? Math.round(Number(given)) : -1
  return Number.isSafeInteger(count) && count >= 0 ? count : undefined
}
