/** Why a model gave no answer, as data that a caller can switch on. It lies in the details of errors, at any depth. */

const REASONS = [
  'rate_limit',
  'quota',
  'auth',
  'not_found',
  'too_long',
  'rejected',
  'filtered',
  'timeout',
  'unreachable',
  'server',
  'invalid_answer',
  'other',
] as const

/**
 * Why a model gave no answer.
 *
 * - `rate_limit`: the provider is asked too often; `quota`: the account has nothing left.
 * - `auth`: no key, a wrong one, or one without the right to this model.
 * - `not_found`: no such model, or a wrong address; `too_long`: the conversation does not fit into the model.
 * - `rejected`: the provider refuses the request; `filtered`: it withholds the answer.
 * - `timeout`: no answer in time; `unreachable`: no connection, or one that broke; `server`: a failure of the
 *   provider's own.
 * - `invalid_answer`: the answer is empty, misses the output schema or is not what its API promises.
 * - `other`: the provider, or a client of your own, does not say why.
 */
export type ModelFailureReason = (typeof REASONS)[number]

/** Reason why a model gave no answer, for callers. */
export interface ModelFailure {
  readonly reason: ModelFailureReason
  /** The agent whose model it is. */
  readonly agent?: string
  /** The provider's host, or the name of the entry in `models`. */
  readonly provider?: string
  readonly model?: string
  /** HTTP status, if there was an answer. */
  readonly status?: number
  /** True if the same call can succeed a little later. */
  readonly retryable: boolean
  /** How long the provider wants to be left alone, in ms. */
  readonly retryAfterMs?: number
}

const DEEPEST = 32

/**
 * The failure of a model that lies under an error, be it an instance or data: its own, that of its cause, or the first
 * among the failures that it lists.
 */
export function modelFailureIn(error: unknown, depth = 0): ModelFailure | undefined {
  const { code, details } = Object(error) as { code?: unknown; details?: unknown }
  const fields = Object(details) as Record<string, unknown>
  if (code === 'MODEL' && fields.reason !== undefined) return failureFrom(fields)
  if (depth === DEEPEST) return undefined
  const { cause, failures } = fields
  for (const inner of Array.isArray(failures) ? [cause, ...failures] : [cause]) {
    const found = modelFailureIn(inner, depth + 1)
    if (found) return found
  }
  return undefined
}

function failureFrom({ reason, agent, provider, model, status, retryable, retryAfterMs }: Record<string, unknown>) {
  return {
    reason: REASONS.find((known) => known === reason) ?? 'other',
    ...(typeof agent === 'string' && { agent }),
    ...(typeof provider === 'string' && { provider }),
    ...(typeof model === 'string' && { model }),
    ...(typeof status === 'number' && { status }),
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
  }
}
