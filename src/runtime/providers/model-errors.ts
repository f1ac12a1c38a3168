/**
 * Makes the errors of models: who was asked, what happened, what to do. They never hold a key, or what was said to the
 * model.
 */
import { ModelError, type ModelFailureCode, type ModelFailureReason } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'

export interface Asked {
  /** The provider's host, or the name of the entry in `models`. */
  readonly provider: string
  readonly model: string
}

export interface Retryable {
  status?: number
  /** True if the same call can succeed a little later. */
  retryable: boolean
  retryAfterMs?: number
}

export interface Failing extends Retryable {
  reason: ModelFailureReason
  /** Fault of the answer, where the reason does not say what was wrong. */
  code?: ModelFailureCode | undefined
}

/** Makes the error. `what` continues the words 'Model "x" of y'; `advice` is a sentence. */
export function modelError({ provider, model }: Asked, what: string, advice: string, failing: Failing): ModelError {
  const { reason, code, status, retryable, retryAfterMs } = failing
  return new ModelError(`Model "${model}" of ${provider} ${what}. ${advice}`, {
    provider,
    model,
    reason,
    ...(code !== undefined && { code }),
    ...(status !== undefined && { status }),
    retryable,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

export function failingOf(error: unknown): Retryable {
  if (!(error instanceof ModelError)) return { retryable: false }
  const { status, retryable, retryAfterMs } = error.details
  return {
    ...(typeof status === 'number' && { status }),
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
  }
}

interface Limits {
  /** Number of requests that the provider still accepts; 0 also if it accepts no more tokens. */
  remaining: number
  resetMs: number
}

/**
 * Returns the pause that the provider asks for by `retry-after-ms` or `retry-after`; undefined if there is no readable
 * header. Sources: RFC 9110, 10.2.3; servers also send durations and points in time there.
 */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const ms = Number((headers.get('retry-after-ms') ?? headers.get('x-ms-retry-after-ms')) || Number.NaN)
  return ms >= 0 ? ms : durationMs(headers.get('retry-after')?.trim() ?? '', now)
}

/**
 * Returns the tighter of the limits on requests and on tokens; undefined if the headers name no limit, or no time for
 * its end. Sources: the `x-ratelimit-*` headers of OpenAI, which other providers send too, and the
 * `anthropic-ratelimit-*` headers of Anthropic.
 */
export function limitsOf(headers: Headers, now: number): Limits | undefined {
  const requests = limitOf(headers, 'requests', now)
  const tokens = limitOf(headers, 'tokens', now)
  const none = tokens?.remaining === 0 ? tokens : undefined // any other number of tokens says nothing about requests
  if (!requests || !none) return requests ?? none
  return { remaining: 0, resetMs: requests.remaining === 0 ? Math.max(requests.resetMs, none.resetMs) : none.resetMs }
}

function limitOf(headers: Headers, of: 'requests' | 'tokens', now: number): Limits | undefined {
  const header = (what: 'remaining' | 'reset') =>
    headers.get(`x-ratelimit-${what}-${of}`) ??
    headers.get(`anthropic-ratelimit-${of}-${what}`) ??
    (of === 'requests' ? headers.get(`x-ratelimit-${what}`) : null) // OpenRouter
  const left = header('remaining')
  const reset = header('reset')
  if (left === null || left.trim() === '' || reset === null) return undefined
  const remaining = Number(left)
  const resetMs = durationMs(reset.trim(), now)
  return remaining >= 0 && resetMs !== undefined ? { remaining: Math.floor(remaining), resetMs } : undefined
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/

/** Numbers from here on are points in time: seconds, or ms, since 1970. */
const SECONDS_SINCE_1970 = 1e9
const MS_SINCE_1970 = 1e12

/**
 * Parses a duration (`1s`, `6m0s`, `2m59.56s`, `20ms`), a number of seconds, or a point in time (a date, or a number
 * since 1970) into ms from now. A point in the past is 0.
 */
export function durationMs(text: string, now: number): number | undefined {
  if (DURATION.test(text)) {
    const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)]
    return Math.ceil(parts.reduce((sum, [, count, unit]) => sum + Number(count) * own(UNIT_MS, unit!)!, 0))
  }
  const number = text === '' ? Number.NaN : Number(text)
  const at = number >= MS_SINCE_1970 ? number : number >= SECONDS_SINCE_1970 ? number * 1_000 : dateOf(text)
  if (!Number.isNaN(at)) return Math.max(0, at - now)
  return number >= 0 ? number * 1_000 : undefined
}

/** A number is no date: `Date.parse` reads some as years. */
const dateOf = (text: string): number => (Number.isNaN(Number(text)) ? Date.parse(text) : Number.NaN)
