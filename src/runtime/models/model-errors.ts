/** The errors of models: who was asked, what happened, what to do. Never a key, never what was said to the model. */
import { ModelError } from '../../errors.ts'

/** Who was asked. */
export interface Asked {
  /** The provider's host, or the name of the entry in `models`. */
  readonly provider: string
  readonly model: string
}

/** What a caller can go by. */
export interface Failing {
  /** Of HTTP, where there was an answer. */
  status?: number
  /** Whether the same call can go well a little later. */
  retryable: boolean
  /** How long the provider wants to be left alone. */
  retryAfterMs?: number
}

/** `what` goes on after 'Model "x" of y'; `advice` is a sentence. `details` has the same as fields. */
export function modelError({ provider, model }: Asked, what: string, advice: string, failing: Failing): ModelError {
  const { status, retryable, retryAfterMs } = failing
  return new ModelError(`Model "${model}" of ${provider} ${what}. ${advice}`, {
    provider,
    model,
    ...(status !== undefined && { status }),
    retryable,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

/** Whether the same call can go well a little later, and when at the soonest. */
export function failingOf(error: unknown): Failing {
  if (!(error instanceof ModelError)) return { retryable: false }
  const { retryable, retryAfterMs } = error.details
  return { retryable: retryable === true, ...(typeof retryAfterMs === 'number' && { retryAfterMs }) }
}
