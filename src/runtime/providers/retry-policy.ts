/**
 * Decides whether and when one failed call of a model is retried; a pure function, which retries.ts applies. The pause
 * that a 429 or 503 causes for all calls of a provider is in provider-queue.ts.
 */
import type { Retryable } from './model-errors.ts'

/** Durations in ms. */
export interface RetryPolicy {
  /** Maximum number of attempts, including the first. */
  readonly maxAttempts: number
  /** First pause. Each further pause is twice as long, up to `capMs`, times a random factor from 0.5 to 1. */
  readonly baseMs: number
  readonly capMs: number
  /** Time limit of all attempts together, with their pauses and their waits for the provider. */
  readonly deadlineMs: number
}

export const RETRY_POLICY: RetryPolicy = { maxAttempts: 5, baseMs: 500, capMs: 30_000, deadlineMs: 300_000 }

/** A call that has failed. */
export interface FailedAttempt {
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** Time since the first attempt began. */
  readonly elapsedMs: number
  readonly failing: Retryable
  /** True if a part of its answer was read. Another attempt would give a different answer. */
  readonly read: boolean
  /** Random number from 0 (inclusive) to 1 (exclusive). */
  readonly random: number
}

/** Pause in ms before the next attempt, or the reason why there is none. */
export type NextAttempt = { waitMs: number } | { over: 'not_retryable' | 'already_read' | 'max_attempts' | 'deadline' }

/** Returns the pause before the next attempt: exponential backoff with jitter, or a longer `retry-after`. */
export function nextAttempt(policy: RetryPolicy, failed: FailedAttempt): NextAttempt {
  const { attempt, elapsedMs, failing, read, random } = failed
  if (!failing.retryable) return { over: 'not_retryable' }
  if (read) return { over: 'already_read' }
  if (attempt >= policy.maxAttempts) return { over: 'max_attempts' }
  const backoff = Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1)) * (0.5 + random / 2)
  const waitMs = Math.max(backoff, failing.retryAfterMs ?? 0)
  return elapsedMs + waitMs < policy.deadlineMs ? { waitMs } : { over: 'deadline' }
}
