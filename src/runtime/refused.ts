/** How a wrong option is named: where it is, what came, what is accepted, what to do. */
import { ConfigurationError } from '../errors.ts'

/** The error for one option. `path` is the option's, like `agents[0].limits.maxHeapMb`; `advice` says what to do. */
export function refused(path: string, value: unknown, accepted: string, advice = ''): ConfigurationError {
  return refusedAs(path, shown(value), accepted, advice)
}

/** The same for what `shown` cannot describe, or must not: `got` is a phrase. */
export function refusedAs(path: string, got: string, accepted: string, advice = ''): ConfigurationError {
  const message = `${path}: got ${got}; accepted: ${accepted}.${advice && ` ${advice}`}`
  return new ConfigurationError(message, { path, got, accepted })
}

/** A value in a few words. What is inside of objects stays there: it can be a key or a prompt. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
    case 'object': {
      const name = value.constructor?.name ?? 'Object'
      if (name === 'Object' || name === '') return 'an object'
      return `${/^[AEIO]/.test(name) ? 'an' : 'a'} ${name}`
    }
    case 'function':
      return 'a function'
    case 'symbol':
      return 'a symbol'
    default:
      return String(value)
  }
}
