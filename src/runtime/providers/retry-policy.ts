/** Decides whether and when a failed call of a model is retried. Pure. */
import type { Retryable } from './model-errors.ts'

/** Durations in ms. */
export interface RetryPolicy {
  /** Calls in all, the first one too. */
  readonly maxAttempts: number
  /** First pause in ms. Each further pause is twice as long, up to `capMs`, times a random factor from 0.5 to 1. */
  readonly baseMs: number
  readonly capMs: number
  /** For all attempts, with pauses and with waiting for the provider. */
  readonly deadlineMs: number
}

export const RETRY_POLICY: RetryPolicy = { maxAttempts: 5, baseMs: 500, capMs: 30_000, deadlineMs: 300_000 }

/** A call that has failed. */
export interface FailedAttempt {
  /** From 1. */
  readonly attempt: number
  /** Since the first one began. */
  readonly elapsedMs: number
  readonly failing: Retryable
  /** Somebody has read a part of its answer, which another attempt would tell differently. */
  readonly read: boolean
  /** From 0 up to 1. */
  readonly random: number
}

export type NextAttempt = { waitMs: number } | { over: 'not worth it' | 'read already' | 'tried enough' | 'too late' }

/** Source: exponential backoff with jitter; a `retry-after` of the provider goes before it where it is longer. */
export function nextAttempt(policy: RetryPolicy, failed: FailedAttempt): NextAttempt {
  const { attempt, elapsedMs, failing, read, random } = failed
  if (!failing.retryable) return { over: 'not worth it' }
  if (read) return { over: 'read already' }
  if (attempt >= policy.maxAttempts) return { over: 'tried enough' }
  const backoff = Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)) * (0.5 + random / 2)
  const waitMs = Math.max(backoff, failing.retryAfterMs ?? 0)
  return elapsedMs + waitMs < policy.deadlineMs ? { waitMs } : { over: 'too late' }
}
