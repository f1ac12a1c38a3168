/**
 * Errors that a thread reports. Code in the thread can forge them, so they are checked, and cut to a length that can be
 * passed on.
 */
import type { ErrorCode, ErrorData } from '../../errors.ts'
import { thrownData } from '../../thrown.ts'

/** Maximum length of a message, and of the details as JSON. */
const LONGEST = 65_536

/** Returns the error; undefined if the value is none. */
export function errorIn(told: unknown): ErrorData | undefined {
  const { code, message, details, cause } = Object(told) as Record<string, unknown>
  if (typeof code !== 'string' || typeof message !== 'string') return undefined
  return {
    code: code as ErrorCode,
    message: message.slice(0, LONGEST),
    details: isShort(details) ? details : {},
    ...(cause !== undefined && { cause: thrownData(cause) }),
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
