/** Converts failures of the `openai` package into the errors that callers get. */
import { APIConnectionError, APIError } from 'openai'
import { DramatisError, type ModelError } from '../../../errors.ts'
import { AnswerRefusedError } from '../bounded-fetch.ts'
import { modelError } from '../model-errors.ts'
import {
  causesOf,
  type FailedCall,
  lookAt,
  ProviderRefusal,
  refusal,
  saidInPlace,
  unreachable,
  unreadable,
} from '../refusals.ts'

/** Converts anything thrown into the error for the caller. */
export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  const refused = causesOf(thrown).find((cause) => cause instanceof AnswerRefusedError)
  if (refused) {
    const { advice, code, reason, what } = refused
    return modelError(call.asked, what, advice, { reason, code, retryable: false })
  }
  if (thrown instanceof ProviderRefusal) return saidInPlace(thrown.body, call)
  if (thrown instanceof APIError && thrown.status !== undefined) {
    const said = { body: thrown.error, headers: thrown.headers ?? new Headers() }
    return refusal(thrown.status, said, call)
  }
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError)) return saidInPlace(thrown.error, call)
  if (thrown instanceof SyntaxError) return unreadable(call)
  return unreachable(thrown, call)
}

/** Returns the error for a body that is neither JSON nor a stream of events. */
export function wrongContent(contentType: string | null, call: FailedCall, status: number): ModelError {
  const kind = /^[\w.+-]{1,40}\/[\w.+-]{1,60}/.exec(contentType ?? '')?.[0]
  const what = `answered with ${kind ?? 'content of no type'}, where JSON or a stream of events is due`
  return modelError(call.asked, what, lookAt(call), {
    reason: 'invalid_answer',
    code: 'unreadable',
    status,
    retryable: false,
  })
}
