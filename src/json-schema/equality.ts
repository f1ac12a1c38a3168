/** Compares values of JSON, whatever the order of their fields. `look` is called with each value within. */

export function isEqual(one: unknown, other: unknown, look: (value: unknown) => void): boolean {
  look(one)
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, at) => isEqual(item, other[at], look))
  const [left, right] = [Object.entries(one), new Map<string, unknown>(Object.entries(other))]
  return (
    left.length === right.size && left.every(([key, value]) => right.has(key) && isEqual(value, right.get(key), look))
  )
}

/** Returns a text that is the same for values that are equal, and for no others. */
export function keyOf(value: unknown, look: (value: unknown) => void): string {
  look(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  if (Array.isArray(value)) return `[${value.map((each) => keyOf(each, look)).join()}]`
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${keyOf(field, look)}`).join()}}`
}
