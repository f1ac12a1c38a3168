/**
 * Counts the values of a JSON text that comes in chunks of UTF-8, before anybody parses it: millions of them in a text
 * of some megabytes hold the process for seconds. A long answer is one long string, and counts as one.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b

export class JsonValues {
  /** So far: one for each comma and each bracket that opens, outside of strings. */
  count = 0
  #isQuoted = false
  #isEscaped = false

  take(chunk: Uint8Array): void {
    let { count } = this
    let isQuoted = this.#isQuoted
    let isEscaped = this.#isEscaped
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at]
      if (isEscaped) isEscaped = false
      else if (isQuoted) {
        if (byte === BACKSLASH) isEscaped = true
        else if (byte === QUOTE) isQuoted = false
      } else if (byte === QUOTE) isQuoted = true
      else if (byte === COMMA || byte === BRACKET || byte === BRACE) count += 1
    }
    this.count = count
    this.#isQuoted = isQuoted
    this.#isEscaped = isEscaped
  }
}

export function valuesIn(bytes: Uint8Array): number {
  const values = new JsonValues()
  values.take(bytes)
  return values.count
}

/**
 * Returns a field of a plain object by a name that came from elsewhere; undefined if the object itself has no such
 * field. `fields[name]` would also find what all objects inherit, and an agent may be called "constructor".
 */
export function own<Value>(fields: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

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

/** Returns the items by their keys, each group in their order. */
export function groupedBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const known = groups.get(key)
    if (known) known.push(item)
    else groups.set(key, [item])
  }
  return groups
}

/**
 * Returns one text for each JSON value, independent of the order of its keys: that of RFC 8785. Values are equal if
 * their texts are equal.
 */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? String(value)
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  fields.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`
}
