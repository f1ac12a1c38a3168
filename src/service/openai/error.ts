/** Errors in the shape that clients of OpenAI read. */
import type { HttpError } from '../http/problem.ts'

export interface OpenAiError {
  error: { message: string; type: string; param: string | null; code: string }
}

/** Kinds of errors by status. Clients tell apart by the status; the kind is for people. */
const TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

export function openAiError({ code, status, message, details }: HttpError): OpenAiError {
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  const { path } = details
  return { error: { message, type, param: typeof path === 'string' && path !== '' ? path : null, code } }
}
