/** Reads definitions of users: a proxy or a getter among them may throw. */
import { ConfigurationError, DramatisError, describe } from '../../errors.ts'
import { optionMeant } from '../../nearest.ts'

/** Says of a field that a definition does not have which one was meant, and which there are. */
export function noSuchField(field: string, known: readonly string[]): string {
  const meant = optionMeant(field, known)
  const advice = meant === undefined ? '' : ` (did you mean "${meant}"?)`
  return `there is no such field; there are ${known.join(', ')}${advice}`
}

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
