/** Errors over HTTP: `application/problem+json` of RFC 9457. Never a stack, and nothing of a failure of our own. */

import { callerIn } from '../../runtime/host/run.ts'
import { type Approvable, type Refusal, refusalOf } from '../../runtime/verbs/approvals.ts'
import { systemClock } from '../../shared/clock.ts'
import { DramatisError, type ErrorCode } from '../../shared/errors.ts'
import { nextTurn } from '../../shared/timers.ts'
import type { Caller, HttpLimits, Right } from './options.ts'
import type { Problem } from './schemas.ts'

/** Codes of errors that only the HTTP API has, and their status. */
const STATUS = {
  BAD_REQUEST: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  RATE_LIMITED: 429,
  INTERNAL: 500,
  DRAINING: 503,
  SHARD_AWAY: 503,
} as const
type HttpCode = keyof typeof STATUS

const PAYMENT_REQUIRED = 402

/** Status of the codes of the runtime that are no failure of the team itself, which is 502. */
const RUNTIME_STATUS: Partial<Record<ErrorCode, number>> = {
  CONFIGURATION: 422,
  MESSAGE_REJECTED: 422,
  UNKNOWN_AGENT: 404,
  UNKNOWN_RUN: 404,
  RUN_ENDED: 409,
  BUDGET_EXCEEDED: 422,
  ANSWER_REFUSED: 403,
  RUN_ABORTED: 409,
  AGENT_TERMINATED: 409,
  MAILBOX_FULL: 503,
  TEAM_OVERLOADED: 503,
  TEAM_CLOSED: 503,
  LOG_HELD: 503,
  LOG_LOST: 503,
  RUN_TIMEOUT: 504,
}

const TITLES: Record<number, string> = {
  400: 'The request cannot be read',
  401: 'The caller is not known',
  402: 'There is no money left',
  403: 'The caller may not do that',
  404: 'There is no such thing',
  405: 'There is no such method here',
  408: 'The request took too long',
  409: 'It cannot be done in this state',
  413: 'The request is too large',
  415: 'The request is no JSON',
  422: 'The request asks for what cannot be',
  429: 'There are too many requests',
  500: 'The service has failed',
  502: 'The team has failed',
  503: 'The service takes nothing now',
  504: 'The task has run out of time',
}

const TITLES_BY_CODE: Partial<Record<string, string>> = { BUDGET_EXCEEDED: 'A budget is used up' }

export class HttpError extends Error {
  readonly code: HttpCode | ErrorCode
  readonly status: number
  readonly details: Record<string, unknown>
  readonly headers: Record<string, string>

  constructor(
    code: HttpCode | ErrorCode,
    detail: string,
    { status, details = {}, headers = {} }: Partial<Pick<HttpError, 'status' | 'details' | 'headers'>> = {},
  ) {
    super(detail)
    this.code = code
    this.status = status ?? statusOf(code, details)
    this.details = details
    this.headers = headers
  }
}

/** Reasons to refuse an answer that are about the question, which has changed, and not about who answers. */
const OF_QUESTION: readonly unknown[] = ['changed', 'agreed'] satisfies Refusal['how'][]

/**
 * A budget in money that is used up is 402. One in tokens is 429 only if waiting helps: if a window frees it. So is a
 * tenant that has as many runs as it may have; a full team is 503.
 */
function statusOf(code: HttpCode | ErrorCode, details: object = {}): number {
  const { unit = 'tokens', tenant }: { unit?: unknown; tenant?: unknown } = details
  if (code === 'BUDGET_EXCEEDED' && unit !== 'tokens') return PAYMENT_REQUIRED
  if (code === 'TEAM_OVERLOADED' && tenant !== undefined) return STATUS.RATE_LIMITED
  if (code === 'ANSWER_REFUSED' && OF_QUESTION.includes(Reflect.get(details, 'how'))) return STATUS.CONFLICT
  if (code === 'BUDGET_EXCEEDED' && freeAfterMs(details) !== undefined) return STATUS.RATE_LIMITED
  return STATUS[code as HttpCode] ?? RUNTIME_STATUS[code as ErrorCode] ?? 502
}

/** Returns the ms after which enough of a budget is free again; undefined if it never is. */
function freeAfterMs(details: object): number | undefined {
  const ms: unknown = Reflect.get(details, 'retryAfterMs')
  return typeof ms === 'number' ? ms : undefined
}

/** Seconds after which a client may try again what was refused because there was no room. */
const RETRY_AFTER_S = 1

/** Returns the error to answer with; undefined for what is a fault of this program. */
export function httpErrorOf(error: unknown): HttpError | undefined {
  if (error instanceof HttpError) return error
  if (!(error instanceof DramatisError)) return undefined
  const { code, message, details } = error.toJSON()
  const status = statusOf(code, details)
  const seconds = status === 503 ? RETRY_AFTER_S : Math.ceil((freeAfterMs(details) ?? 0) / 1_000)
  const headers: Record<string, string> =
    status === 503 || status === 429 ? { 'retry-after': String(Math.max(1, seconds)) } : {}
  return new HttpError(code, message, { status, details: { ...details }, headers })
}

export const INTERNAL = new HttpError('INTERNAL', 'The service has failed; its log says why.')

/** Returns an error as data. `instance`: path of what it is about. */
export function problemOf({ code, status, message, details }: HttpError, instance: string): Problem {
  return {
    type: `urn:dramatis:error:${code}`,
    title: TITLES_BY_CODE[code] ?? TITLES[status] ?? 'The request has failed',
    status,
    detail: message,
    instance,
    code,
    details: { ...details },
  }
}

/** `more`: fields beside those of the problem. */
export function problemResponse(error: HttpError, instance: string, more: object = {}): Response {
  return new Response(JSON.stringify({ ...problemOf(error, instance), ...more }), {
    status: error.status,
    headers: { 'content-type': 'application/problem+json', ...error.headers },
  })
}

type Bounds = Pick<HttpLimits, 'bodyBytes' | 'bodyMs'>

/** Returns the text of a JSON body. @throws HttpError for another media type, or if it is too large or too late. */
export async function readBody(request: Request, bounds: Bounds): Promise<string> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(?:;|$)/i.test(type)) {
    const got = type === '' ? 'nothing' : JSON.stringify(type.slice(0, 100))
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', `content-type: got ${got}; accepted: application/json.`)
  }
  return readText(request, bounds)
}

/** Levels of a JSON body: whatever writes it again calls itself for each. */
const DEEPEST = 1000

/** @throws HttpError for what is no JSON, and for what is nested too deep. */
export function jsonIn(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new HttpError('BAD_REQUEST', 'The body is no JSON.')
  }
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEEPEST) throw new HttpError('BAD_REQUEST', `The body is nested deeper than ${DEEPEST} levels.`)
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []))
  }
  return value
}

export async function readText(request: Request, { bodyBytes, bodyMs }: Bounds): Promise<string> {
  const tooLarge = () => {
    const detail = `The body has more than ${bodyBytes} bytes (limits.bodyBytes).`
    return new HttpError('TOO_LARGE', detail, { headers: { connection: 'close' } })
  }
  if (Number(request.headers.get('content-length')) > bodyBytes) throw tooLarge()
  if (!request.body) return ''
  const reader = request.body.getReader()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const enough = new AbortController()
  let text = ''
  let bytes = 0
  const lateAfter = async (): Promise<never> => {
    const { signal } = enough
    await systemClock.sleep(bodyMs, signal)
    let seen = -1
    for (let looks = bodyBytes / READ_BYTES + 1; looks > 0 && bytes !== seen; looks--) {
      seen = bytes // more may have arrived while the process was busy: it is read piece by piece
      await nextTurn()
      signal.throwIfAborted()
    }
    const detail = `The body did not arrive within ${bodyMs} ms (limits.bodyMs).`
    throw new HttpError('REQUEST_TIMEOUT', detail, { headers: { connection: 'close' } })
  }
  const late = lateAfter()
  late.catch(() => {})
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), late])
      if (done) return text + decoder.decode()
      bytes += value.byteLength
      if (bytes > bodyBytes) throw tooLarge()
      text += decoder.decode(value, { stream: true })
    }
  } catch (error) {
    void reader.cancel().catch(() => {})
    if (error instanceof HttpError) throw error
    throw new HttpError('BAD_REQUEST', 'The body broke off, or is no UTF-8.')
  } finally {
    enough.abort()
  }
}

/** Bytes of a connection that are read at once. */
const READ_BYTES = 2 ** 16

/** Returns why a caller may not answer a question of a run; undefined if nothing is against it. */
export function refusalFor(
  { id, may, groups = [] }: Caller,
  question: Approvable,
  metadata: Readonly<Record<string, string>> | undefined,
  approveOwn: boolean,
): { readonly text: string; readonly how?: Refusal['how'] } | undefined {
  const { kind, by = 'others' } = question
  const owner = callerIn(metadata)
  const needs = (right: Right) =>
    may.includes(right) ? undefined : { text: `"${id}" may not do that: it takes the right ${right}.` }
  const isOwn = owner === id
  if (kind === 'ask') return isOwn ? undefined : needs('operate')
  const refusal = refusalOf(owner, question, { by: { id, groups }, approveOwn })
  if (refusal?.how === 'caller') return refusal
  return (isOwn && by !== 'others' ? undefined : needs('approve')) ?? refusal
}
