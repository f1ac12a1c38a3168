/** References within a JSON schema: `#`, `#/$defs/node`. */
import { own } from '../own.ts'

/**
 * Returns the schema that a reference leads to.
 *
 * @throws Error for one that leads out of the schema, or nowhere.
 */
export function targetOf(root: unknown, ref: string): unknown {
  const shown = JSON.stringify(ref.length > 100 ? `${ref.slice(0, 100)}...` : ref)
  if (!/^#(?:\/|$)/.test(ref)) throw new Error(`it refers to ${shown}, which is not within it`)
  let at = root
  for (const step of ref.split('/').slice(1)) {
    const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~')
    at = Array.isArray(at) ? at[Number(key)] : own(Object(at), key)
  }
  if (at === undefined) throw new Error(`it refers to ${shown}, which is not there`)
  return at
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
