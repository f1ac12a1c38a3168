/**
 * Converts what a provider answered in place of an answer into the errors that callers get: what happened, whether a
 * retry is worth it, what to do. Of the provider's own error only its text is passed on, without key and prompt.
 */
import { textOf } from '../../actors/definition/content.ts'
import type { ModelRequest } from '../../actors/definition/model.ts'
import type { ModelError } from '../../errors.ts'
import type { ModelFailureCode, ModelFailureReason } from '../../model-failure.ts'
import type { Redactor } from '../logging/redactor.ts'
import { type Asked, modelError } from './model-errors.ts'
import { retryAfterMs } from './rate-limits.ts'

/** Properties of a call that its error needs. */
export interface FailedCall {
  readonly asked: Asked
  readonly request: ModelRequest
  /** Advice about the key, as a sentence. */
  readonly keyAdvice: string
  /** True if the call had no key. */
  readonly isKeyless: boolean
  /** Name of what is spoken there: 'chat completions'. */
  readonly speaks: string
  /** Takes keys out of the provider's words. Without it, the gateway does so. */
  readonly redactor?: Redactor
  /** Present time in epoch ms. */
  readonly now: number
}

/** Error that a provider reports in place of an answer. */
export class ProviderRefusal extends Error {
  readonly body: unknown

  constructor(body: unknown) {
    super('The provider answered with an error.')
    this.body = body
  }
}

/** Advice about an answer that is none. */
export const lookAt = ({ speaks }: Pick<FailedCall, 'speaks'>): string =>
  `If it stays so, check that its baseURL speaks ${speaks}, and what stands between.`

/** Returns the error for an answer that is no JSON, or a broken stream of events. */
export const unreadable = (call: FailedCall): ModelError =>
  modelError(call.asked, 'sent what is no JSON, or broken server-sent events', lookAt(call), {
    reason: 'invalid_answer',
    code: 'unreadable',
    retryable: true,
  })

/** Answer of a provider that refuses. */
export interface Said {
  body: unknown
  headers: Headers
}

/** Returns the error for an answer with that HTTP status. */
export function refusal(status: number, { body, headers }: Said, call: FailedCall): ModelError {
  const { asked, keyAdvice: key, isKeyless, now } = call
  const wait = retryAfterMs(headers, now) ?? retryDelayMs(body)
  const told = headers.get('x-should-retry')
  const worthIt = status === 408 || status === 409 || status === 425 || status === 429 || status >= 500
  const usedUp = codeOf(body) === 'insufficient_quota' || LITTLE_CREDIT.test(messageOf(body))
  const retryable = told === 'true' || (told !== 'false' && worthIt && !usedUp)
  const fail = (reason: ModelFailureReason, what: string, advice: string, code?: ModelFailureCode) => {
    const failing = { reason, code, status, retryable, retryAfterMs: wait }
    return modelError(asked, `${what} (${status})${words(body, call)}`, advice, failing)
  }
  if (usedUp) return fail('quota', 'has no quota left for this key', 'Look at the account of the key.')
  if (status === 401 || hasReason(body, 'API_KEY_INVALID'))
    return fail('auth', isKeyless ? 'wants a key' : 'does not accept the key', key)
  if (status === 402) return fail('quota', 'wants to be paid first', 'Look at the account of the key.')
  if (status === 403)
    return fail('auth', 'may not be used', `${key} It may lack the right to this model, or the country is closed.`)
  if (status === 404) return fail('not_found', 'does not exist, or its address is wrong', 'Check model and baseURL.')
  if (status === 408) return fail('timeout', 'gave up waiting for the request', 'Ask again.')
  if (status === 413) return fail('too_long', 'was asked too much at once', 'Shorten the conversation.')
  if (status === 429)
    return fail(
      'rate_limit',
      'is asked too often',
      `${pause(wait)}Lower maxConcurrentAgents, or ask for a higher limit.`,
    )
  if (status >= 500)
    return fail('server', 'has a failure of its own', `${pause(wait)}If it stays so, look at the provider's status.`)
  if (codeOf(body) === 'context_length_exceeded' || TOO_LONG.test(messageOf(body)))
    return fail(
      'too_long',
      'was given a conversation that is too long for it',
      "Lower the role's maxTokens, or take a larger model.",
    )
  if (codeOf(body) === 'content_filter')
    return fail('filtered', 'refused the request', 'Ask in another way, or take another model.')
  if (NOT_TAKEN.test(messageOf(body)))
    return fail(
      'rejected',
      'takes no part of that kind',
      'Say in accepts of the role what its model takes.',
      'part_not_taken',
    )
  return fail('rejected', 'refused the request', 'Check the model, its options and the schemas of output and tools.')
}

/**
 * Words for a conversation that is too long, where no code says it. Sources: the API references of Anthropic ("prompt
 * is too long") and Gemini ("The input token count (n) exceeds the maximum number of tokens"), and servers of chat
 * completions.
 */
const TOO_LONG = /prompt is too long|input token count.{0,40}exceeds|maximum context length/i
/** Words for an image, a sound or a file that the model does not take. Servers have no code for it. */
const NOT_TAKEN =
  /\b(image|vision|audio|multimodal|modalit|file)\w*\b.{0,80}\b(not|n't|only|un)\s?support|support\w*.{0,40}\b(no|not)\b.{0,40}\b(image|vision|audio|file)|not support.{0,60}\b(image|vision|audio|multimodal|file)|only support\w* text/i
/** Anthropic's words for an account without money, which come with status 400. */
const LITTLE_CREDIT = /credit balance is too low/i

const messageOf = (body: unknown): string => {
  const message = fieldOf(body, 'message')
  return typeof message === 'string' ? message.slice(0, LONGEST_READ) : ''
}

/** Returns the details of a Google API's error. Source: google.rpc.Status. */
function detailsOf(body: unknown): unknown[] {
  const details = fieldOf(body, 'details')
  return Array.isArray(details) ? details.slice(0, MOST_DETAILS) : []
}

const MOST_DETAILS = 16

const hasReason = (body: unknown, reason: string) =>
  detailsOf(body).some((detail) => fieldOf(detail, 'reason') === reason)

/** Returns the pause that the body of a Google API's error asks for, in ms. Source: google.rpc.RetryInfo. */
function retryDelayMs(body: unknown): number | undefined {
  for (const detail of detailsOf(body)) {
    const delay = fieldOf(detail, 'retryDelay')
    const seconds = typeof delay === 'string' ? /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(delay)?.[1] : undefined
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1_000)
  }
  return undefined
}

const pause = (ms: number | undefined) =>
  ms === undefined ? '' : `It wants to be left alone for ${Math.ceil(ms / 1_000)} s. `

/**
 * Returns the error for an error in place of an answer, with status 200 or in the middle of a stream. The code of some
 * providers is the status that the error would have had.
 */
export function saidInPlace(body: unknown, call: FailedCall): ModelError {
  const status = Number(codeOf(body) ?? Number.NaN)
  if (Number.isInteger(status) && status >= 400 && status < 600)
    return refusal(status, { body, headers: new Headers() }, call)
  const kind = `${codeOf(body) ?? ''} ${typeOf(body) ?? ''}`
  const reason = reasonIn(kind)
  const retryable = reason === 'rate_limit' || reason === 'server' || reason === 'timeout'
  return modelError(call.asked, `answered with an error${words(body, call)}`, lookAt(call), { reason, retryable })
}

/** Returns the reason for the code or type of a provider's error. */
function reasonIn(kind: string): ModelFailureReason {
  if (/rate.?limit/i.test(kind)) return 'rate_limit'
  if (/timeout/i.test(kind)) return 'timeout'
  if (/overload|server_error|^ ?api_error|internal|unavailable|capacity/i.test(kind)) return 'server'
  if (/insufficient_quota|billing/i.test(kind)) return 'quota'
  if (/content_filter/i.test(kind)) return 'filtered'
  if (/context_length|too_large/i.test(kind)) return 'too_long'
  if (/api.?key|auth|permission/i.test(kind)) return 'auth'
  if (/not_found/i.test(kind)) return 'not_found'
  return /invalid|bad.?request/i.test(kind) ? 'rejected' : 'other'
}

/** Returns the error for a request with no answer, or half of one. */
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
  if (code !== undefined && /SOCKET|ECONNRESET|EPIPE|ECONNABORTED/.test(code))
    return fail('broke the connection off', 'Ask again; if it stays so, look at what stands between.')
  return fail('cannot be reached', "Check its baseURL and this machine's network.")
}

const DEEPEST = 5

/** Returns the code of the system's own error, which is a cause of the errors of fetch and of the client. */
export function systemCode(thrown: unknown): string | undefined {
  for (const error of causesOf(thrown))
    if ('code' in error && typeof error.code === 'string' && /^\w{1,60}$/.test(error.code)) return error.code
  return undefined
}

/** Returns the error and its causes, outermost first. */
export function causesOf(thrown: unknown): Error[] {
  const causes: Error[] = []
  for (let error = thrown; error instanceof Error && causes.length < DEEPEST; error = error.cause) causes.push(error)
  return causes
}

function fieldOf(body: unknown, field: string): unknown {
  return typeof body === 'object' && body !== null ? Reflect.get(body, field) : undefined
}

function codeOf(body: unknown): string | undefined {
  const code = fieldOf(body, 'code')
  return typeof code === 'string' || typeof code === 'number' ? String(code) : undefined
}

function typeOf(body: unknown): string | undefined {
  const type = fieldOf(body, 'type')
  return typeof type === 'string' ? type : undefined
}

const LONGEST = 300
const LONGEST_READ = 4_096

/** Returns the provider's message without the key. A message that repeats the prompt is left out. */
export function words(body: unknown, { request, redactor }: Pick<FailedCall, 'request' | 'redactor'>): string {
  const message = typeof body === 'string' ? body : fieldOf(body, 'message')
  if (typeof message !== 'string' || message.trim() === '') return ''
  if (repeats(message, request)) return ': it repeats what it was asked, so its words are left out'
  const read = message.slice(0, LONGEST_READ) // before the pattern, because a message can be as long as an answer
  const text = withoutEnd((redactor?.text(read) ?? read).replaceAll(/[\p{Cc}\s]+/gu, ' '))
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
