/**
 * Makes the errors of models: who was asked, what happened, what to do. They never hold a key, or what was said to the
 * model.
 */
import { ModelError } from '../../errors.ts'
import type { ModelFailureCode, ModelFailureReason } from '../../model-failure.ts'

/** Provider and model that were asked. */
export interface Asked {
  /** The provider's host, or the name of the entry in `models`. */
  readonly provider: string
  readonly model: string
}

/** Properties of a failure that decide about a retry. */
export interface Retryable {
  /** HTTP status, if there was an answer. */
  status?: number
  /** True if the same call can succeed a little later. */
  retryable: boolean
  /** Pause that the provider asks for before the next call. */
  retryAfterMs?: number
}

/** Properties of a failure that callers use. */
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

/** Returns whether the same call can succeed later, and the earliest time for it. */
export function failingOf(error: unknown): Retryable {
  if (!(error instanceof ModelError)) return { retryable: false }
  const { status, retryable, retryAfterMs } = error.details
  return {
    ...(typeof status === 'number' && { status }),
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
  }
}
