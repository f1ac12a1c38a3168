/** Reads definitions of users: a proxy or a getter among them may throw. */
import { ConfigurationError, DramatisError, describe } from '../../errors.ts'

/** Returns the result of `look`. Refuses the field at `path` of what `call` was given if reading it throws. */
export function readingFor<T>(call: string, path: string, look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (error instanceof DramatisError) throw error
    const text = `${call}: "${path}" throws when it is read (${describe(error)}); give it plain values.`
    throw new ConfigurationError(text, { path }, error)
  }
}
