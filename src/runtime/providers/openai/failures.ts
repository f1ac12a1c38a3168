/** Converts failures of the `openai` package into the errors that callers get. */
import { APIConnectionError, APIError } from 'openai'
import { DramatisError, type ModelError } from '../../../errors.ts'
import { AnswerRefusedError } from '../bounded-fetch.ts'
import { modelError } from '../model-errors.ts'
import {
  causesOf,
  type FailedCall,
  HttpRefusal,
  lookAt,
  ProviderRefusal,
  refusal,
  saidInPlace,
  unreachable,
  unreadable,
  words,
} from '../refusals.ts'

/** Converts anything thrown into the error for the caller. */
export function failureOf(thrown: unknown, call: FailedCall): unknown {
  if (thrown instanceof DramatisError) return thrown
  const refused = causesOf(thrown).find((cause) => cause instanceof AnswerRefusedError)
  if (refused) {
    const { advice, code, reason, what } = refused
    return modelError(call.asked, what, advice, { reason, code, retryable: false })
  }
  const answered = httpRefusalIn(thrown)
  if (answered) return refusal(answered.status, { body: answered.text, headers: answered.headers }, call)
  if (thrown instanceof ProviderRefusal) return saidInPlace(thrown.body, call)
  if (thrown instanceof APIError && !(thrown instanceof APIConnectionError)) return saidInPlace(thrown.error, call)
  if (thrown instanceof SyntaxError) return unreadable(call)
  return unreachable(thrown, call)
}

/** Returns the answer with an HTTP status that is under an error of the SDK. */
export const httpRefusalIn = (thrown: unknown): HttpRefusal | undefined =>
  causesOf(thrown).find((cause) => cause instanceof HttpRefusal)

/** Returns the error for a body that is neither JSON nor a stream of events. `start`: its first words. */
export function wrongContent({ headers, status }: Response, start: string, call: FailedCall): ModelError {
  const kind = /^[\w.+-]{1,40}\/[\w.+-]{1,60}/.exec(headers.get('content-type') ?? '')?.[0]
  const due = 'where JSON or a stream of events is due'
  const what = `answered with ${kind ?? 'content of no type'}, ${due}${words(start, call)}`
  return modelError(call.asked, what, lookAt(call), {
    reason: 'invalid_answer',
    code: 'unreadable',
    status,
    retryable: false,
  })
}
