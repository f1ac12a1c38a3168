/**
 * Returns a field of a plain object by a name that came from elsewhere; undefined if the object itself has no such
 * field. `fields[name]` would also find what all objects inherit, and an agent may be called "constructor".
 */
export function own<Value>(fields: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

/** Returns the named fields that an object itself has, such as variables of the environment. */
export function picked<Value>(
  fields: Readonly<Record<string, Value | undefined>>,
  names: readonly string[],
): Record<string, Value> {
  const found = names.flatMap((name) => {
    const value = own(fields, name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(found)
}
