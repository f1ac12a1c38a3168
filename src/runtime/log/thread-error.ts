/**
 * Errors that a thread reports. Code in the thread can forge them, so they are checked, and cut to a length that can be
 * passed on.
 */
import type { ErrorCode, ErrorData } from '../../errors.ts'

/** Maximum length of a message, of a stack, and of the details as JSON. */
const LONGEST = 65_536

/** Returns the error; undefined if the value is none. */
export function errorIn(told: unknown): ErrorData | undefined {
  const { code, message, details, stack } = Object(told) as Record<string, unknown>
  if (typeof code !== 'string' || typeof message !== 'string') return undefined
  return {
    code: code as ErrorCode,
    message: message.slice(0, LONGEST),
    details: isShort(details) ? details : {},
    ...(typeof stack === 'string' && { stack: stack.slice(0, LONGEST) }),
  }
}

function isShort(details: unknown): details is Record<string, unknown> {
  if (typeof details !== 'object' || details === null || Array.isArray(details)) return false
  try {
    return JSON.stringify(details).length <= LONGEST
  } catch {
    return false // not JSON
  }
}
