/** Errors as a thread tells them, whose code can change what it tells: checked, and cut to what can be told on. */
import type { ErrorCode, ErrorData } from '../../errors.ts'

/** Of a message, of a stack, and of the details as JSON. */
const LONGEST = 65_536

/** undefined: it is none. */
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
    return false // it is no JSON
  }
}
