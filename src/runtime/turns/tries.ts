/** Decides whether another try of a turn can end differently than the one that failed. */
import { type DramatisError, type ErrorCode, errorData } from '../../errors.ts'
import { type ModelFailureCode, modelFailureIn } from '../../model-failure.ts'

/** Codes of failures that stay the same however often the turn is tried. */
const FINAL_CODES: ReadonlySet<unknown> = new Set<ErrorCode>([
  'CONFIGURATION',
  'MESSAGE_REJECTED',
  'UNKNOWN_AGENT',
  'AGENT_TERMINATED',
  'OUTCOME_UNKNOWN',
  'LIVELOCK',
  'BUDGET_EXCEEDED',
  'DELEGATION_REFUSED',
  'DEPENDENCY_FAILED',
  'TASK_REFUSED',
  'TOOL_INPUT',
  'CONSENSUS',
  'TURN_ENDED',
  'REPLY_INVALID',
  'CHAIN_DEPTH',
  'STEP_MISMATCH',
  'CANCELLED',
  'RUN_ABORTED',
  'RUN_TIMEOUT',
  'PART_LOST',
  'GUARDRAIL',
  'TEAM_CLOSED',
  'ANSWER_REFUSED',
])

/**
 * Failures of models that stay the same: the provider refuses, speaks another API or says too much, or the answer
 * stands in the log and so is the same in the next try.
 */
const FINAL_FAILURES: ReadonlySet<unknown> = new Set<ModelFailureCode>([
  'quota',
  'auth',
  'not_found',
  'too_long',
  'rejected',
  'filtered',
  'half_part',
  'foreign_part',
  'unknown_end',
  'too_many_calls',
  'too_many_values',
  'too_large',
  'unknown_tool',
  'no_json',
  'unclosed_json',
  'schema_missed',
  'part_not_taken',
])

/** Number of errors that are looked at, each the cause of the one before. */
const DEEPEST = 32

/** Checks whether nothing would be different the next time. */
export function isFinal(error: DramatisError): boolean {
  const failure = modelFailureIn(error)
  if (FINAL_FAILURES.has(failure?.reason) || FINAL_FAILURES.has(failure?.code)) return true
  let data: unknown = errorData(error)
  for (let depth = 0; depth < DEEPEST && typeof data === 'object' && data !== null; depth++) {
    const { code, details } = data as { readonly code?: unknown; readonly details?: unknown }
    const { cause, final } = Object(details) as { readonly cause?: unknown; readonly final?: unknown }
    if (FINAL_CODES.has(code) || final === true) return true
    data = cause
  }
  return false
}
