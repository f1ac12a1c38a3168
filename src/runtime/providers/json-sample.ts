/**
 * Draws a value that fits a JSON schema. The value is drawn in one go, then a validator checks it. It is drawn again if
 * it misses what drawing does not know: `not`, the "one" of `oneOf`, two patterns. Strings without a format or a
 * pattern are words with a label, so that nobody takes them for an answer.
 */

import { ModelError } from '../../errors.ts'
import { issuesOf } from '../../json-schema/check.ts'
import { anyPatterns, type Patterns } from '../../json-schema/patterns.ts'
import { own } from '../../own.ts'
import { sampleNumber, sampleText } from './json-sample-scalars.ts'
import { fieldsOf, type JsonSchema, joined, listOf } from './json-schema.ts'
import type { Dice } from './seeded-random.ts'

const MOST_DRAWS = 200
const MOST_REDRAWS = 5_000 // of parts, over all draws
const MOST_PARTS = 50_000 // over all draws: lists of lists have many
const MOST_PATTERNED = 500 // texts by a pattern, over all draws
const COST_OF_NONE = 50 // a pattern was tried so often before no text was found

/**
 * Returns a value that fits the schema.
 *
 * @throws {ModelError} if no draw fits: no value fits the schema, or too few do.
 */
export function sampleOf(schema: object, dice: Dice, label: string): unknown {
  const root = fieldsOf(schema)
  const patterns = anyPatterns()
  const fits = (value: unknown, part: object) => issuesOf(root, value, { patterns, part }).length === 0
  const draw = new Draw(root, dice, label, { fits, patterns })
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

/** Keywords that imply the type of a schema without a type. */
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

interface Checks {
  readonly fits: (value: unknown, part: object) => boolean
  readonly patterns: Patterns
}

class Draw {
  readonly #root: JsonSchema
  readonly #dice: Dice
  readonly #label: string

  readonly #fits: (value: unknown, part: object) => boolean
  readonly #patterns: Patterns
  #redraws = MOST_REDRAWS
  #parts = MOST_PARTS
  #patterned = MOST_PATTERNED

  constructor(root: JsonSchema, dice: Dice, label: string, { fits, patterns }: Checks) {
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

/** Checks whether the schema describes properties that it does not name. */
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
