/** Compares JSON schemas. The order of keys says nothing in them, nor does that of lists which are sets. */
import { canonical } from '../../actors/decisions/vote.ts'
import { hashOf } from '../../actors/definition/hash-of.ts'
import { own } from '../../own.ts'
import { isObject } from '../checks/checks.ts'

/** Returns a short text that is the same for JSON schemas that say the same, in whatever order. */
export const digestOf = (jsonSchema: object): string => hashOf(canonical(inAnyOrder(jsonSchema)))

/** Keywords whose lists are sets: their order says nothing. */
const SETS: ReadonlySet<string> = new Set(['required', 'enum', 'type'])

/** Returns a JSON schema with the lists sorted whose order says nothing. */
function inAnyOrder(value: unknown, key?: string): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => inAnyOrder(item))
    return key !== undefined && SETS.has(key) ? items.sort((a, b) => (canonical(a) < canonical(b) ? -1 : 1)) : items
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, inAnyOrder(field, name)]))
}

/** Returns the JSON pointer to the first place where two JSON schemas differ. */
export function differenceOf(before: unknown, now: unknown, path: string): string {
  if (!isObject(before) || !isObject(now)) return path
  const fields = (value: object): Record<string, unknown> => ({ ...value })
  const [was, is] = [fields(before), fields(now)]
  const name = [...Object.keys(was), ...Object.keys(is)].find(
    (key) => canonical(inAnyOrder(own(was, key), key)) !== canonical(inAnyOrder(own(is, key), key)),
  )
  return name === undefined ? path : differenceOf(own(was, name), own(is, name), `${path}/${name}`)
}
