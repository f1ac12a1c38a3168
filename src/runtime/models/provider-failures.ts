/**
 * What goes wrong between us and a provider, as the error that its caller gets: what happened, whether it is worth another
 * try, what to do. Nothing of the provider's own error is passed on but its words, without the key and without the prompt.
 */
import { APIConnectionError, APIError } from 'openai'
import type { ModelRequest } from '../../actors/model.ts'
import { DramatisError, type ModelError } from '../../errors.ts'
import type { Redactor } from '../redactor.ts'
import { ProviderRefusal } from './chat-answer.ts'
import { type Asked, modelError } from './model-errors.ts'
import { retryAfterMs } from './rate-limits.ts'

/** One call, as far as its failure is concerned. */
export interface FailedCall {
  readonly asked: Asked
  readonly request: ModelRequest
  /** Where the key comes from, in words: `OPENAI_API_KEY`. undefined: there is none. */
  readonly keyFrom: string | undefined
  readonly redactor: Redactor
  /** Epoch ms. */
  readonly now: number
}

/** What was thrown, as what the caller gets. */
export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  if (thrown instanceof ProviderRefusal) return saidInPlace(thrown.body, call)
  if (thrown instanceof APIError && thrown.status !== undefined) {
    const said = { body: thrown.error, headers: thrown.headers ?? new Headers() }
    return refusal(thrown.status, said, call)
  }
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError)) return saidInPlace(thrown.error, call)
  if (thrown instanceof SyntaxError)
    return modelError(call.asked, 'sent what is no JSON, or broken server-sent events', LOOK, { retryable: true })
  return unreachable(thrown, call)
}

const LOOK = 'If it stays so, check that its baseURL speaks chat completions, and what stands between.'

/** A body that is neither JSON nor a stream of events. */
export function wrongContent(contentType: string | null, asked: Asked, status: number): ModelError {
  const kind = /^[\w.+-]{1,40}\/[\w.+-]{1,60}/.exec(contentType ?? '')?.[0]
  const what = `answered with ${kind ?? 'content of no type'}, where JSON or a stream of events is due`
  return modelError(asked, what, LOOK, { status, retryable: false })
}

interface Said {
  body: unknown
  headers: Headers
}

/** By its HTTP status. */
function refusal(status: number, { body, headers }: Said, call: FailedCall): ModelError {
  const { asked, keyFrom, now } = call
  const wait = retryAfterMs(headers, now)
  const told = headers.get('x-should-retry')
  const worthIt = status === 408 || status === 409 || status === 425 || status === 429 || status >= 500
  const usedUp = codeOf(body) === 'insufficient_quota'
  const retryable = told === 'true' || (told !== 'false' && worthIt && !usedUp)
  const fail = (what: string, advice: string) =>
    modelError(asked, `${what} (${status})${words(body, call)}`, advice, { status, retryable, retryAfterMs: wait })
  const key = keyFrom === undefined ? 'Give the model an apiKeyEnv or apiKey.' : `Check the key in ${keyFrom}.`
  if (status === 401) return fail(keyFrom === undefined ? 'wants a key' : 'does not accept the key', key)
  if (status === 403)
    return fail('may not be used', `${key} It may lack the right to this model, or the country is closed.`)
  if (status === 404) return fail('does not exist, or its address is wrong', 'Check model and baseURL.')
  if (status === 408) return fail('gave up waiting for the request', 'Ask again.')
  if (status === 413) return fail('was asked too much at once', 'Shorten the conversation.')
  if (status === 429 && usedUp) return fail('has no quota left for this key', 'Look at the account of the key.')
  if (status === 429)
    return fail('is asked too often', `${pause(wait)}Lower maxConcurrentAgents, or ask for a higher limit.`)
  if (status >= 500)
    return fail('has a failure of its own', `${pause(wait)}If it stays so, look at the provider's status.`)
  if (codeOf(body) === 'context_length_exceeded')
    return fail(
      'was given a conversation that is too long for it',
      "Lower the role's maxTokens, or take a larger model.",
    )
  return fail('refused the request', 'Check the model, its options and the schemas of output and tools.')
}

const pause = (ms: number | undefined) =>
  ms === undefined ? '' : `It wants to be left alone for ${Math.ceil(ms / 1_000)} s. `

/** An error in place of an answer, with 200 or in the middle of a stream. Some say which status it would have been. */
function saidInPlace(body: unknown, call: FailedCall): ModelError {
  const status = Number(codeOf(body) ?? Number.NaN)
  if (Number.isInteger(status) && status >= 400 && status < 600)
    return refusal(status, { body, headers: new Headers() }, call)
  const kind = `${codeOf(body) ?? ''} ${typeOf(body) ?? ''}`
  const retryable = /rate.?limit|overload|server_error|internal|unavailable|timeout|capacity/i.test(kind)
  return modelError(call.asked, `answered with an error${words(body, call)}`, LOOK, { retryable })
}

/** No answer, or half of one. */
function unreachable(thrown: unknown, { asked }: FailedCall): ModelError {
  const code = systemCode(thrown)
  const fail = (what: string, advice: string, retryable = true) =>
    modelError(asked, `${what}${code === undefined ? '' : ` (${code})`}`, advice, { retryable })
  if (code === 'ECONNREFUSED') return fail('refuses the connection', 'Check its baseURL, and that the server runs.')
  if (code === 'ENOTFOUND') return fail('cannot be found: no such host', 'Check its baseURL.', false)
  if (code !== undefined && /CERT|TLS|SSL|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO/.test(code))
    return fail('has a certificate that is not trusted', 'Check its baseURL, or add the certificate to Node.', false)
  if (code !== undefined && /TIMEOUT|TIMEDOUT/.test(code))
    return fail('was silent for too long', 'Ask again; if it stays so, look at the provider.')
  if (code !== undefined && /SOCKET|ECONNRESET|EPIPE|ECONNABORTED/.test(code))
    return fail('broke the connection off', 'Ask again; if it stays so, look at what stands between.')
  return fail('cannot be reached', "Check its baseURL and this machine's network.")
}

const DEEPEST = 5

/** The code of the system's own error, which lies below those of fetch and of the client. */
function systemCode(thrown: unknown): string | undefined {
  let error = thrown
  for (let depth = 0; depth < DEEPEST && error instanceof Error; depth += 1) {
    if ('code' in error && typeof error.code === 'string' && /^\w{1,60}$/.test(error.code)) return error.code
    error = error.cause
  }
  return undefined
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

/** What the provider says, without the key, and only if it does not say the prompt back. */
function words(body: unknown, { request, redactor }: FailedCall): string {
  const message = typeof body === 'string' ? body : fieldOf(body, 'message')
  if (typeof message !== 'string' || message.trim() === '') return ''
  if (repeats(message, request)) return ': it repeats what it was asked, so its words are left out'
  const text = redactor
    .text(message)
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .replace(/[.\s]+$/, '') // ours comes after it
  return `: ${text.length > LONGEST ? `${text.slice(0, LONGEST)} and so on` : text}`
}

const STRIDE = 8
const WINDOW = 16 // a repetition of 23 characters or more holds one of them whole

function repeats(message: string, { messages }: ModelRequest): boolean {
  const said = messages.flatMap(({ content, toolCalls = [] }) => [content, ...toolCalls.map(({ input }) => input)])
  if (said.some((text) => text.length >= STRIDE && message.includes(text))) return true
  const looked = message.slice(0, LONGEST + WINDOW)
  for (let at = 0; at + WINDOW <= looked.length; at += STRIDE) {
    const window = looked.slice(at, at + WINDOW)
    if (said.some((text) => text.includes(window))) return true
  }
  return false
}
