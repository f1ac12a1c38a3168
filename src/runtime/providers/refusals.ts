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
import { limitsOf, retryAfterMs } from './rate-limits.ts'
import { errorIn, type SaidError } from './refusal-body.ts'

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

/** Answer of a provider that refuses with an HTTP status. `text`: its body. */
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

/** Returns the error for an answer with that HTTP status. */
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

/** Returns the time until a limit that is used up is restored. */
function usedUpMs(status: number, headers: Headers, now: number): number | undefined {
  const limits = status === 429 ? limitsOf(headers, now) : undefined
  return limits?.remaining === 0 ? limits.resetMs : undefined
}

/** Words for an image, a sound or a file that the model does not take. Servers have no code for it. */
const NOT_TAKEN =
  /\b(image|vision|audio|multimodal|modalit|file)\w*\b.{0,80}\b(not|n't|only|un)\s?support|support\w*.{0,40}\b(no|not)\b.{0,40}\b(image|vision|audio|file)|not support.{0,60}\b(image|vision|audio|multimodal|file)|only support\w* text/i

const pause = (ms: number | undefined) =>
  ms === undefined ? '' : `It wants to be left alone for ${Math.ceil(ms / 1_000)} s. `

/**
 * Returns the error for an error in place of an answer, with status 200 or in the middle of a stream. The code of some
 * providers is the status that the error would have had.
 */
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
    /prompt is too long|input token count.{0,40}exceeds|(maximum|available) context (length|size)|context window/i,
  ],
  ['auth', /(invalid|incorrect|no|missing) api.?key/i],
]

/** Returns the reason that an error tells, by its codes or else its words. */
function kindOf({ kinds, message }: SaidError): ModelFailureReason {
  const byKind = BY_KIND.find(([, fits]) => kinds.some((kind) => fits.test(kind)))?.[0]
  const byWords = BY_WORDS.find(([, fits]) => fits.test(message))?.[0]
  return (byKind === 'rejected' || byKind === undefined ? byWords : undefined) ?? byKind ?? 'other'
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
