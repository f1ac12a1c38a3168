/** How a wrong option is named: where it is, what came, what is accepted, what to do. */
import { ConfigurationError, DramatisError, describe, shown } from '../../errors.ts'

/** The error for one option. `path` is the option's, like `agents[0].limits.maxHeapMb`; `advice` says what to do. */
export function refused(path: string, value: unknown, accepted: string, advice = ''): ConfigurationError {
  return refusedAs(path, shown(value), accepted, advice)
}

/** The same for what `shown` cannot describe, or must not: `got` is a phrase. */
export function refusedAs(path: string, got: string, accepted: string, advice = ''): ConfigurationError {
  const message = `${path}: got ${got}; accepted: ${accepted}.${advice && ` ${advice}`}`
  return new ConfigurationError(message, { path, got, accepted })
}

/** What `look` gives; what throws when it is looked at (a getter, a proxy) is refused. */
export function reading<T>(path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (error instanceof DramatisError) throw error
    throw refusedAs(path, `what throws when it is read (${describe(error)})`, 'plain values')
  }
}
