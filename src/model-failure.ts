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

/** Faults of answers, where the reason alone does not say what was wrong. */
const FAULTS = [
  'half_part',
  'foreign_part',
  'unreadable',
  'no_parts',
  'broken_off',
  'unknown_end',
  'stream_stalled',
  'too_many_calls',
  'too_many_values',
  'too_large',
  'unknown_tool',
  'no_json',
  'unclosed_json',
  'schema_missed',
  'part_not_taken',
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

/**
 * Says exactly why a model gave no answer: the reason, or one of these.
 *
 * - `half_part`: a part of the answer lacks a field, such as its words or the name of the tool that it calls;
 *   `foreign_part`: it is not what the API has there.
 * - `unreadable`: the answer is no JSON, or broken events; `no_parts`: there is nothing in it.
 * - `broken_off`: the answer ends before its end; `unknown_end`: it ends for a reason that the API does not have.
 * - `stream_stalled`: the stream began, and then nothing came until the call's time was up.
 * - `too_many_calls`, `too_many_values`, `too_large`: the answer is beyond a bound.
 * - `unknown_tool`: the model calls only tools that there are not.
 * - `no_json`, `unclosed_json`, `schema_missed`: the answer in a schema is none.
 * - `part_not_taken`: the model or its API takes no part of that kind, such as an image.
 */
export type ModelFailureCode = ModelFailureReason | (typeof FAULTS)[number]

/** Reason why a model gave no answer, for callers. */
export interface ModelFailure {
  readonly reason: ModelFailureReason
  readonly code: ModelFailureCode
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

function failureFrom({
  reason: given,
  code,
  agent,
  provider,
  model,
  status,
  retryable,
  retryAfterMs,
}: Record<string, unknown>) {
  const reason = REASONS.find((known) => known === given) ?? 'other'
  return {
    reason,
    code: FAULTS.find((known) => known === code) ?? reason,
    ...(typeof agent === 'string' && { agent }),
    ...(typeof provider === 'string' && { provider }),
    ...(typeof model === 'string' && { model }),
    ...(typeof status === 'number' && { status }),
    retryable: retryable === true,
    ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
  }
}
