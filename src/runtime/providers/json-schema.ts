/**
 * Resolves a JSON schema at one place: `$ref`, `allOf` and the chosen branch of `anyOf`, `oneOf` and `if` joined into
 * one.
 */
import { own } from '../../own.ts'

/** A JSON schema of any draft from 6 on. The value of a key is checked by the code that reads it. */
export interface JsonSchema {
  readonly [key: string]: unknown
}

const MOST_JOINED = 100 // for one value; a `$ref` to itself has no end

/** Joins the schemas that one value has to fit. `choose` picks one of several branches. */
export function joined(
  schema: unknown,
  root: JsonSchema,
  choose: (branches: readonly unknown[]) => unknown,
): JsonSchema {
  let left = MOST_JOINED
  const join = (part: unknown): JsonSchema => {
    if (part === false || --left < 0) return NOTHING
    const { $ref, allOf, anyOf, oneOf, if: when, then, else: otherwise, ...own } = plain(part)
    const parts: unknown[] = [...listOf(allOf)]
    if (typeof $ref === 'string') parts.push(target(root, $ref))
    for (const branches of [listOf(anyOf), listOf(oneOf)]) if (branches.length > 0) parts.push(choose(branches))
    if (when !== undefined) parts.push(choose([{ allOf: [when, then ?? true] }, otherwise ?? true]))
    return parts.reduce<JsonSchema>((whole, next) => both(whole, join(next)), own)
  }
  return join(schema)
}

/** Schema that no value fits. */
const NOTHING: JsonSchema = { enum: [] }

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function fieldsOf(value: unknown): JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {}
}

/** Returns the schema as an object, with the keywords of draft 2020-12. */
function plain(schema: unknown): JsonSchema {
  const { items, additionalItems, ...rest } = fieldsOf(schema)
  if (Array.isArray(items))
    return { ...rest, prefixItems: items, ...(additionalItems !== undefined && { items: additionalItems }) }
  return items === undefined ? rest : { ...rest, items }
}

/** Returns the target of a JSON pointer into the schema: `#`, `#/$defs/node`. */
function target(root: JsonSchema, ref: string): unknown {
  if (!ref.startsWith('#')) return false
  let at: unknown = root
  for (const step of ref.split('/').slice(1)) {
    const key = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
    at = Array.isArray(at) ? at[Number(key)] : (own(fieldsOf(at), key) ?? false)
  }
  return at
}

/** Joins two schemas. Of two patterns or formats the first stays: a value that misses the second is drawn again. */
function both(one: JsonSchema, other: JsonSchema): JsonSchema {
  const joined = Object.entries(other).map(([key, value]) => {
    const mine = own(one, key)
    return [key, mine === undefined ? value : (own(JOINS, key) ?? first)(mine, value)]
  })
  return { ...one, ...Object.fromEntries(joined) }
}

type Join = (one: unknown, other: unknown) => unknown

const first: Join = (one) => one
const greater: Join = (one, other) => Math.max(Number(one), Number(other))
const lesser: Join = (one, other) => Math.min(Number(one), Number(other))
const united: Join = (one, other) => [...new Set([...listOf(one), ...listOf(other)])]
const bothOf: Join = (one, other) => (one === false || other === false ? false : { allOf: [one, other] })
const eachOf: Join = (one, other) => {
  const [left, right] = [fieldsOf(one), fieldsOf(other)]
  const shared = Object.keys(left).filter((key) => Object.hasOwn(right, key))
  return {
    ...left,
    ...right,
    ...Object.fromEntries(shared.map((key) => [key, bothOf(own(left, key), own(right, key))])),
  }
}
const eachInOrder: Join = (one, other) => {
  const [left, right] = [listOf(one), listOf(other)]
  const longest = Math.max(left.length, right.length)
  return Array.from({ length: longest }, (_, i) => bothOf(left[i] ?? true, right[i] ?? true))
}
const inBoth: Join = (one, other) => {
  const texts = new Set(listOf(other).map((value) => JSON.stringify(value)))
  return listOf(one).filter((value) => texts.has(JSON.stringify(value)))
}
const typesInBoth: Join = (one, other) => {
  const [left, right] = [one, other].map((types) => new Set(typeof types === 'string' ? [types] : listOf(types)))
  const fits = (type: unknown, types: Set<unknown>) => types.has(type) || (type === 'integer' && types.has('number'))
  return [...new Set([...left!, ...right!])].filter((type) => fits(type, left!) && fits(type, right!))
}

const JOINS: Readonly<Record<string, Join>> = {
  type: typesInBoth,
  enum: inBoth,
  required: united,
  properties: eachOf,
  patternProperties: eachOf,
  prefixItems: eachInOrder,
  additionalProperties: bothOf,
  propertyNames: bothOf,
  items: bothOf,
  minimum: greater,
  exclusiveMinimum: greater,
  minLength: greater,
  minItems: greater,
  minProperties: greater,
  maximum: lesser,
  exclusiveMaximum: lesser,
  maxLength: lesser,
  maxItems: lesser,
  maxProperties: lesser,
}
