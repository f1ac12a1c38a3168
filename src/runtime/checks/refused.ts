/** Errors for wrong options. Each names the path, the value that came, what is accepted, and what to do. */
import { ConfigurationError, DramatisError, describe, shown } from '../../errors.ts'

/**
 * Returns the error for one option. `path` is the option's, like `agents[0].limits.maxHeapMb`; `advice` says what to
 * do.
 */
export function refused(path: string, value: unknown, accepted: string, advice = ''): ConfigurationError {
  return refusedAs(path, shown(value), accepted, advice)
}

/** Returns the same error for a value that `shown` cannot or must not describe: `got` is a phrase. */
export function refusedAs(path: string, got: string, accepted: string, advice = ''): ConfigurationError {
  const message = `${path}: got ${got}; accepted: ${accepted}.${advice && ` ${advice}`}`
  return new ConfigurationError(message, { path, got, accepted })
}

/** Returns the result of `look`. Refuses the option at `path` if reading it throws (a getter, a proxy). */
export function reading<T>(path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (error instanceof DramatisError) throw error
    throw refusedAs(path, `what throws when it is read (${describe(error)})`, 'plain values')
  }
}
