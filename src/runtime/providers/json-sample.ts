/**
 * Draws a value that fits a JSON schema. The value is drawn in one go, then a validator checks it. It is drawn again if
 * it misses what drawing does not know: `not`, the "one" of `oneOf`, two patterns. Strings without a format or a
 * pattern are words with a label, so that nobody takes them for an answer.
 */
import { generateSync } from 'json-schema-faker'
import { issuesOf } from '../../json-schema/check.ts'
import { anyPatterns, isPattern, type Patterns, sizeOf } from '../../json-schema/patterns.ts'
import { ModelError } from '../../shared/errors.ts'
import type { Dice } from '../../shared/random.ts'
import { own } from '../../shared/values.ts'

const SPAN = 100
const MOST_SCALAR_DRAWS = 20

export function sampleNumber(given: JsonSchema, whole: boolean, dice: Dice): number | undefined {
  const schema = { ...boundsInWords(given), ...given }
  const [low, high] = range(schema)
  const { multipleOf } = schema
  if (typeof multipleOf === 'number') {
    const step = whole && !Number.isInteger(multipleOf) ? wholeStep(multipleOf) : multipleOf
    return stepped(low, high, step, schema, dice)
  }
  if (whole) return stepped(low, high, 1, schema, dice)
  const drawn = low + dice.random() * (high - low)
  const rounded = Math.round(drawn * 100) / 100 // 42.37 is easier to read than 42.36871205
  return isWithin(rounded, schema) ? rounded : isWithin(drawn, schema) ? drawn : undefined
}

const BOUNDS = /\b(?:from (-?\d+) to (-?\d+)|at least (-?\d+)|at most (-?\d+))\.$/i

/** Returns the bounds that the description ends with: not all providers take `minimum` and `maximum`. */
function boundsInWords({ description }: JsonSchema): JsonSchema {
  const [, low, high, least = low, most = high] = BOUNDS.exec(String(description)) ?? []
  return {
    ...(least !== undefined && { minimum: Number(least) }),
    ...(most !== undefined && { maximum: Number(most) }),
  }
}

/** Returns the range to draw from: near zero if the schema has no bounds. zod's integers have a range of 2^54. */
function range({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema): [number, number] {
  const lows = [minimum, exclusiveMinimum].filter((value) => typeof value === 'number')
  const highs = [maximum, exclusiveMaximum].filter((value) => typeof value === 'number')
  const lowest = Math.max(Number.NEGATIVE_INFINITY, ...lows)
  const highest = Math.min(Number.POSITIVE_INFINITY, ...highs)
  const low = lowest > 0 ? lowest : highest < 0 ? Math.max(lowest, highest - SPAN) : Math.max(lowest, 0)
  return [low, Math.min(highest, low + SPAN)]
}

function isWithin(value: number, { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema): boolean {
  return (
    !(typeof minimum === 'number' && value < minimum) &&
    !(typeof maximum === 'number' && value > maximum) &&
    !(typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) &&
    !(typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum)
  )
}

function stepped(low: number, high: number, step: number, schema: JsonSchema, dice: Dice): number | undefined {
  const top = step > high - low ? low + step : high // a step of 1,000 needs a range of 1,000
  let first = Math.ceil(low / step)
  let last = Math.floor(top / step)
  const at = (n: number) => Number((n * step).toPrecision(15)) // 115 * 0.01 is 1.1500000000000001
  if (!isWithin(at(first), schema)) first++
  if (!isWithin(at(last), schema)) last--
  if (last < first) return undefined
  for (let n = 0; n < MOST_SCALAR_DRAWS; n++) {
    const value = at(first + dice.upTo(last - first + 1)) + 0 // no -0
    if (Number.isInteger(value / step)) return value // 1.88 / 0.01 is 187.99999999999997, and some validators divide
  }
  return at(first)
}

function wholeStep(fraction: number): number {
  for (let n = 1; n <= 1_000; n++) {
    const multiple = Number((n * fraction).toPrecision(15))
    if (Number.isInteger(multiple)) return multiple
  }
  return 1
}

/** Returns a string that fits the schema, or undefined if none was found. `words` is used if any text fits. */
export function sampleText(schema: JsonSchema, words: string, dice: Dice): string | undefined {
  const least = Number(schema.minLength ?? 0)
  const most = Number(schema.maxLength ?? Number.POSITIVE_INFINITY)
  if (most < least) return undefined
  const { pattern, format } = schema
  const text = pattern === undefined && format === undefined ? undefined : fromForm(schema, least, most, dice)
  const isFree = pattern === undefined ? format === undefined : !isPattern(pattern) // checks go without such a pattern
  if (text !== undefined || !isFree) return text
  const letters = [...words] // lengths in a schema count characters, not UTF-16 units
  while (letters.length < least) letters.push(' ', ...words)
  return letters.slice(0, Math.max(least, Math.min(most, words.length))).join('')
}

/** Draws by the format and by the pattern in turn, until a string fits both and the lengths. */
function fromForm({ format, pattern }: JsonSchema, least: number, most: number, dice: Dice): string | undefined {
  const forms = [{ format }, { pattern }, { pattern: stretched(pattern, least, most) }]
  const known = forms.filter((form) => Object.values(form)[0] !== undefined)
  const wanted = typeof pattern === 'string' ? anyPatterns()(pattern) : { test: () => true }
  for (let n = 0; n < MOST_SCALAR_DRAWS; n++) {
    const text = faked(known[n % known.length]!, dice)
    if (text === undefined) continue
    const { length } = [...text]
    if (length >= least && length <= most && wanted.test(text)) return text
  }
  return undefined
}

function faked(form: object, dice: Dice): string | undefined {
  try {
    const made = generateSync({ type: 'string', ...form }, { seed: dice.upTo(2 ** 31) })
    return typeof made === 'string' ? made : undefined
  } catch {
    return undefined // the library cannot read the pattern
  }
}

const MOST_STRETCHED = 20_000

/** Returns the pattern with lengths in place of `+` and `*`: `^[a-z]+$` of 10 to 20 is `^[a-z]{10,20}$`. */
function stretched(pattern: unknown, least: number, most: number): string | undefined {
  if (typeof pattern !== 'string' || (least === 0 && most === Number.POSITIVE_INFINITY)) return undefined
  const longest = Math.min(most, least + 10)
  const longer = pattern.replace(
    /(?<=[\w.)\]])[+*]/g,
    (sign) => `{${sign === '+' ? Math.max(least, 1) : least},${longest}}`,
  )
  return sizeOf(longer) > MOST_STRETCHED ? undefined : longer // a repetition within another one multiplies it
}

/*
 * Resolves a JSON schema at one place: `$ref`, `allOf` and the chosen branch of `anyOf`, `oneOf` and `if` joined into
 * one.
 */

/** A JSON schema of any draft from 6 on. The value of a key is checked by the code that reads it. */
export interface JsonSchema {
  readonly [key: string]: unknown
}

const MOST_JOINED = 100 // for one value; a `$ref` to itself has no end

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

const MOST_DRAWS = 200
const MOST_REDRAWS = 5_000 // of parts, over all draws
const MOST_PARTS = 50_000 // over all draws: lists of lists have many
const MOST_PATTERNED = 500 // texts by a pattern, over all draws
const COST_OF_NONE = 50 // a pattern was tried so often before no text was found

export function sampleOf(schema: object, dice: Dice, label: string): unknown {
  const root = fieldsOf(schema)
  const patterns = anyPatterns()
  const fits = (value: unknown, part: object) => issuesOf(root, value, { patterns, part }).length === 0
  const draw = new Draw(root, dice, label, fits, patterns)
  for (let n = 0; n < MOST_DRAWS; n++) {
    const value = draw.value(root, '', 0)
    if (value !== undefined && fits(value, root)) return JSON.parse(JSON.stringify(value))
  }
  throw new ModelError(
    `The rehearsal model found no value that fits the JSON schema it was asked for, in ${MOST_DRAWS} draws. Give the schema an example ("examples"), loosen it, or play the answer by scriptedModel.`,
    { reason: 'invalid_answer', schema: JSON.stringify(schema).slice(0, 500) },
  )
}

const DEEP = 3 // from this depth on, only required parts are drawn
const BOTTOM = 24 // below this depth nothing is drawn: a schema can be endless

type Type = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean' | 'null'

const SIGNS: readonly (readonly [Type, readonly string[]])[] = [
  ['object', ['properties', 'required', 'additionalProperties', 'patternProperties', 'propertyNames', 'minProperties']],
  ['array', ['items', 'prefixItems', 'contains', 'minItems', 'maxItems', 'uniqueItems']],
  ['number', ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']],
  ['string', ['pattern', 'format', 'minLength', 'maxLength']],
]
/** Keywords with which a draw can miss the schema. */
const RISKY = ['oneOf', 'anyOf', 'allOf', 'not', 'if', 'contains', 'examples', 'default'] as const
const MOST_TRIES = 10

const ANY_TYPE: readonly Type[] = ['string', 'string', 'string', 'integer', 'boolean', 'null']

type Fits = (value: unknown, part: object) => boolean

class Draw {
  readonly #root: JsonSchema
  readonly #dice: Dice
  readonly #label: string

  readonly #fits: Fits
  readonly #patterns: Patterns
  #redraws = MOST_REDRAWS
  #parts = MOST_PARTS
  #patterned = MOST_PATTERNED

  constructor(root: JsonSchema, dice: Dice, label: string, fits: Fits, patterns: Patterns) {
    this.#root = root
    this.#dice = dice
    this.#label = label
    this.#fits = fits
    this.#patterns = patterns
  }

  /** Draws a value for a part, or returns undefined if none fits. `name` is the property that it is for. */
  value(part: unknown, name: string, depth: number): unknown {
    if (depth > BOTTOM || --this.#parts < 0) return undefined
    const schema = fieldsOf(part)
    if (!RISKY.some((key) => Object.hasOwn(schema, key))) return this.#draw(part, name, depth)
    // Each part has several tries, because a list of ten such parts would hardly ever fit with one try for each.
    for (let n = 0; n < MOST_TRIES && this.#redraws > 0; n++, this.#redraws--) {
      this.#parts -= listOf(schema.oneOf).length + listOf(schema.anyOf).length + listOf(schema.allOf).length
      if (this.#parts < 0) return undefined
      const value = this.#draw(part, name, depth)
      if (value !== undefined && this.#fits(value, schema)) return value
    }
    return undefined
  }

  #draw(part: unknown, name: string, depth: number): unknown {
    const schema = joined(part, this.#root, (branches) => this.#branch(branches, depth))
    if (Object.hasOwn(schema, 'const')) return schema.const
    if (Array.isArray(schema.enum)) return schema.enum.length === 0 ? undefined : this.#dice.pick(schema.enum)
    const given = [...listOf(schema.examples), ...(schema.default === undefined ? [] : [schema.default])]
    if (given.length > 0 && this.#dice.chance(0.8)) return this.#dice.pick(given)
    switch (this.#type(schema, depth)) {
      case 'null':
        return null
      case 'boolean':
        return this.#dice.chance(0.5)
      case 'number':
        return sampleNumber(schema, false, this.#dice)
      case 'integer':
        return sampleNumber(schema, true, this.#dice)
      case 'string':
        return this.#text(schema, `${this.#label} ${wordsFor(schema, name)}`)
      case 'array':
        return this.#list(schema, name, depth)
      case 'object':
        return this.#object(schema, depth)
      default:
        return undefined
    }
  }

  #text(schema: JsonSchema, words: string): string | undefined {
    if (schema.pattern === undefined) return sampleText(schema, words, this.#dice)
    if (this.#patterned < 0) return undefined
    const text = sampleText(schema, words, this.#dice)
    this.#patterned -= (text === undefined ? COST_OF_NONE : 1) * (1 + Number(schema.minLength ?? 0) / 100)
    return text
  }

  #type(schema: JsonSchema, depth: number): Type | undefined {
    if (schema.type !== undefined) {
      const types = typeof schema.type === 'string' ? [schema.type] : listOf(schema.type)
      return types.length === 0
        ? undefined
        : (this.#branch(
            types.map((type) => ({ type })),
            depth,
          ).type as Type)
    }
    const sign = SIGNS.find(([, keys]) => keys.some((key) => Object.hasOwn(schema, key)))
    return sign ? sign[0] : this.#dice.pick(ANY_TYPE)
  }

  /** Picks a branch: mostly one with content, and deep down mostly one that ends there. */
  #branch(branches: readonly unknown[], depth: number): JsonSchema {
    const all = branches.filter((branch) => branch !== false).map(fieldsOf)
    if (all.length === 0) return { enum: [] }
    const wanted = all.filter(depth < DEEP ? hasContent : endsHere)
    return this.#dice.pick(wanted.length > 0 && this.#dice.chance(0.8) ? wanted : all)
  }

  #object(schema: JsonSchema, depth: number): unknown {
    const made: Record<string, unknown> = Object.create(null) // a prototype would add properties, such as `valueOf`
    const most = typeof schema.maxProperties === 'number' ? schema.maxProperties : Number.POSITIVE_INFINITY
    const least = typeof schema.minProperties === 'number' ? schema.minProperties : 0
    const required = new Set(listOf(schema.required).map(String))
    const size = () => Object.keys(made).length
    let owed = required.size
    for (const key of new Set([...Object.keys(fieldsOf(schema.properties)), ...required])) {
      const has = size() + owed
      const isRequired = required.has(key)
      if (isRequired) owed--
      else if (has >= most || (has >= least && !(depth < DEEP && this.#dice.chance(0.8)))) continue
      const value = this.value(this.#schemaOf(schema, key), key, depth + 1)
      if (value !== undefined) define(made, key, value)
      else if (isRequired) return undefined
    }
    // The schema of a record names no properties, so two entries with made-up names show what they look like.
    const shown = schema.properties === undefined && isOpen(schema) && depth < DEEP ? 2 : 0
    const wanted = Math.min(most, Math.max(least, shown))
    for (let tries = 0; size() < wanted && tries < 10 * wanted; tries++) {
      const key = this.#name(schema, size() + 1, depth)
      const value = typeof key === 'string' ? this.value(this.#schemaOf(schema, key), key, depth + 1) : undefined
      if (value !== undefined) define(made, String(key), value)
    }
    return made
  }

  #name(schema: JsonSchema, n: number, depth: number): unknown {
    const [pattern] = Object.keys(fieldsOf(schema.patternProperties))
    if (schema.propertyNames !== undefined)
      return this.value({ allOf: [{ type: 'string', maxLength: 24 }, schema.propertyNames] }, 'key', depth + 1)
    if (pattern !== undefined) return this.#text({ pattern: pattern.endsWith('$') ? pattern : `${pattern}${n}` }, '')
    return `key${n}`
  }

  #schemaOf(schema: JsonSchema, key: string): unknown {
    const properties = fieldsOf(schema.properties)
    const byPattern = Object.entries(fieldsOf(schema.patternProperties))
      .filter(([pattern]) => this.#patterns(pattern).test(key))
      .map(([, part]) => part)
    if (Object.hasOwn(properties, key)) {
      const part = own(properties, key)
      return byPattern.length === 0 ? part : { allOf: [part, ...byPattern] }
    }
    return byPattern.length > 0 ? { allOf: byPattern } : (schema.additionalProperties ?? true)
  }

  #list(schema: JsonSchema, name: string, depth: number): unknown {
    const first = listOf(schema.prefixItems)
    const contained = schema.contains === undefined ? 0 : Number(schema.minContains ?? 1)
    const least = Math.max(Number(schema.minItems ?? 0), contained)
    const usual = Math.max(least, first.length) + (depth < DEEP && schema.items !== false ? 1 + this.#dice.upTo(2) : 0)
    const most = schema.items === false ? first.length : Number.POSITIVE_INFINITY
    const length = Math.min(usual, most, Number(schema.maxItems ?? most))
    const list: unknown[] = []
    const seen = new Set<string>()
    for (let tries = 0; list.length < length && tries < 20 + 5 * length; tries++) {
      const at = list.length
      const part = at < first.length ? first[at] : (schema.items ?? true)
      const isContained = at >= first.length && at < first.length + contained
      const value = this.value(isContained ? { allOf: [part, schema.contains] } : part, name, depth + 1)
      if (value === undefined) break
      const text = JSON.stringify(value)
      if (schema.uniqueItems === true && seen.has(text)) continue
      seen.add(text)
      list.push(value)
    }
    return list.length < least ? undefined : list
  }
}

const hasContent = ({ type, const: only }: JsonSchema) => type !== 'null' && only !== null
const endsHere = ({ type, $ref }: JsonSchema) => $ref === undefined && type !== 'object' && type !== 'array'

const isOpen = ({ additionalProperties, patternProperties }: JsonSchema) =>
  patternProperties !== undefined || (typeof additionalProperties === 'object' && additionalProperties !== null)

/** Defines a property of any name, also `__proto__`. */
function define(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
}

function wordsFor({ title, description }: JsonSchema, name: string): string {
  const words = [title, description, name].find((text) => typeof text === 'string' && text !== '')
  return typeof words === 'string' ? words : 'text'
}
