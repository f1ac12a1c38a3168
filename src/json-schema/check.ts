/**
 * Checks values by a JSON schema (drafts 4 to 2020-12) in a number of steps that has a bound, whoever wrote the schema
 * and the value. References lead within the schema.
 */
import { regexes, z } from 'zod'
import { own } from '../shared/values.ts'
import type { Fields, Views } from './leniency.ts'
import { ownPatterns, type Pattern, type Patterns } from './patterns.ts'

/** Compares values of JSON, whatever the order of their fields. `look` is called with each value within. */
function isEqual(one: unknown, other: unknown, look: (value: unknown) => void): boolean {
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
function keyOf(value: unknown, look: (value: unknown) => void): string {
  look(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  if (Array.isArray(value)) return `[${value.map((each) => keyOf(each, look)).join()}]`
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${keyOf(field, look)}`).join()}}`
}

const LONGEST = 2_048

const byPattern = (pattern: RegExp) => (text: string) => pattern.test(text)
const isUrl = (text: string) => URL.canParse(text)

const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['email', byPattern(regexes.email)],
  ['uri', isUrl],
  ['uuid', byPattern(regexes.uuid())],
  ['date', byPattern(regexes.date)],
  ['date-time', byPattern(regexes.datetime({ offset: true }))],
  ['time', byPattern(/^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/)],
  ['duration', byPattern(regexes.duration)],
  ['hostname', byPattern(regexes.hostname)],
  ['ipv4', byPattern(regexes.ipv4)],
  ['ipv6', (text) => z.ipv6().safeParse(text).success],
])

/** Returns the check of a format; undefined: there is none. A text that is too long has no format. */
function formatOf(name: string): ((text: string) => boolean) | undefined {
  const check = FORMATS.get(name)
  return check && ((text) => text.length <= LONGEST && check(text))
}

/** Returns the schema that a reference leads to. Throws for one that leads out of the schema, or nowhere. */
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

export interface Issue {
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** Maximum of one check. A step is a schema at a value, or a name. Some characters of a text are one, too. */
const MOST_STEPS = 200_000
/** Steps of a pattern that count as one, as do so many characters of which nothing but the number is asked. */
const OF_PATTERN = 10
const OF_TEXT = 50
const DEEPEST = 400
const MOST_ISSUES = 20

export interface CheckOptions {
  patterns?: Patterns
  /** Fields in place of those of objects within the schema. */
  views?: Views
  /** A schema within, in place of the whole. */
  part?: unknown
}

export function issuesOf(
  root: unknown,
  value: unknown,
  { patterns = ownPatterns, views = new Map(), part = root }: CheckOptions = {},
): Issue[] {
  const check = new Check(root, patterns, views)
  try {
    check.at(part, value, 0)
    return check.issues
  } catch (error) {
    return [{ path: [], message: error instanceof Error ? error.message : String(error) }] // too many steps, or a reference to nowhere
  }
}

class Check {
  readonly issues: Issue[] = []
  readonly #root: unknown
  readonly #patterns: Patterns
  readonly #views: Views
  readonly #path: (string | number)[] = []
  readonly #targets = new Map<string, unknown>()
  #steps = 0
  #failures = 0
  /** Above 0 within a branch whose issues nobody is told. */
  #quiet = 0

  constructor(root: unknown, patterns: Patterns, views: Views) {
    this.#root = root
    this.#patterns = patterns
    this.#views = views
  }

  /** Adds the issues of a value. Returns true if there are none. */
  at(schema: unknown, value: unknown, depth: number): boolean {
    this.#spend(1)
    if (depth > DEEPEST) throw new Error(`its schema leads more than ${DEEPEST} levels deep`)
    if (schema === false) return this.#fail(() => 'must not be there')
    if (typeof schema !== 'object' || schema === null) return true
    const fields = this.#views.get(schema) ?? (schema as Fields)
    if (value === null && fields.nullable === true) return true // as OpenAPI 3.0 writes it
    const before = this.#failures
    const inside = depth + 1
    if (typeof fields.$ref === 'string') this.at(this.#target(fields.$ref), value, inside)
    this.#type(fields, value)
    if (typeof value === 'string') this.#text(fields, value)
    else if (typeof value === 'number') this.#number(fields, value)
    else if (Array.isArray(value)) this.#list(fields, value, inside)
    else if (typeof value === 'object' && value !== null) this.#object(fields, value as Fields, inside)
    this.#branches(fields, value, inside)
    return this.#failures === before
  }

  #type({ type, enum: values, const: only }: Fields, value: unknown): void {
    const types = typeof type === 'string' ? [type] : Array.isArray(type) ? type : undefined
    if (types && !types.some((each) => isOf(each, value)))
      this.#fail(() => `must be ${types.join(' or ')}, and is ${nameOf(value)}`)
    if (Array.isArray(values)) {
      this.#spend(values.length)
      if (!values.some((each) => this.#equals(each, value)))
        this.#fail(() => `must be one of ${shortOf(values.map((each) => JSON.stringify(each)).join(', '))}`)
    }
    if (only !== undefined && !this.#equals(only, value)) this.#fail(() => `must be ${shortOf(JSON.stringify(only))}`)
  }

  #equals(one: unknown, other: unknown): boolean {
    return isEqual(one, other, this.#look)
  }

  #text(fields: Fields, text: string): void {
    const { minLength, maxLength, pattern, format } = fields
    if (minLength !== undefined || maxLength !== undefined) {
      this.#spend(text.length / OF_TEXT)
      const length = lengthOf(text)
      this.#size(length, minLength, maxLength, 'characters')
    }
    if (typeof pattern === 'string' && !this.#matches(this.#patterns(pattern), text))
      this.#fail(() => `must match the pattern ${shortOf(JSON.stringify(pattern))}`)
    if (typeof format !== 'string') return
    this.#spend(text.length / OF_TEXT)
    if (!(formatOf(format)?.(text) ?? true)) this.#fail(() => `must be of the format ${shortOf(format)}`)
  }

  #matches({ steps, test }: Pattern, text: string): boolean {
    this.#spend((steps * text.length) / OF_PATTERN)
    return test(text)
  }

  #number(fields: Fields, value: number): void {
    const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below, multipleOf } = fields
    if (typeof minimum === 'number' && (value < minimum || (above === true && value === minimum)))
      this.#fail(() => `must be at least ${minimum}`)
    if (typeof maximum === 'number' && (value > maximum || (below === true && value === maximum)))
      this.#fail(() => `must be at most ${maximum}`)
    if (typeof above === 'number' && value <= above) this.#fail(() => `must be more than ${above}`)
    if (typeof below === 'number' && value >= below) this.#fail(() => `must be less than ${below}`)
    if (typeof multipleOf === 'number' && !isMultiple(value, multipleOf))
      this.#fail(() => `must be a multiple of ${multipleOf}`)
  }

  #list(fields: Fields, list: readonly unknown[], depth: number): void {
    const { items, prefixItems, additionalItems, contains, minContains = 1, maxContains, uniqueItems } = fields
    this.#size(list.length, fields.minItems, fields.maxItems, 'items')
    const first = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : []
    const rest = Array.isArray(items) ? additionalItems : items
    for (const [at, item] of list.entries()) {
      const schema = at < first.length ? first[at] : rest
      if (schema !== undefined) this.#within(at, schema, item, depth)
    }
    if (contains !== undefined) {
      const fitting = list.filter((item) => this.#fits(contains, item, depth)).length
      this.#size(fitting, minContains, maxContains, 'items of those that contains asks for')
    }
    if (uniqueItems === true && new Set(list.map((item) => keyOf(item, this.#look))).size < list.length)
      this.#fail(() => 'must have items that differ from each other')
  }

  readonly #look = (value: unknown): void => this.#spend(typeof value === 'string' ? 1 + value.length / OF_TEXT : 1)

  #object(fields: Fields, object: Fields, depth: number): void {
    const entries = Object.entries(object)
    this.#spend(entries.length)
    this.#size(entries.length, fields.minProperties, fields.maxProperties, 'properties')
    for (const name of listOf(fields.required)) {
      this.#spend(1)
      if (!Object.hasOwn(object, String(name)))
        this.#fail(() => `must have required property '${shortOf(String(name))}'`)
    }
    const properties = fieldsOf(fields.properties)
    const patterns = Object.entries(fieldsOf(fields.patternProperties)).map(
      ([source, schema]) => [this.#patterns(source), schema] as const,
    )
    for (const [name, value] of entries) {
      let isKnown = Object.hasOwn(properties, name)
      if (isKnown) this.#within(name, own(properties, name), value, depth)
      for (const [pattern, schema] of patterns)
        if (this.#matches(pattern, name)) {
          isKnown = true
          this.#within(name, schema, value, depth)
        }
      if (!isKnown && fields.additionalProperties !== undefined)
        this.#within(name, fields.additionalProperties, value, depth)
      if (fields.propertyNames !== undefined) this.#within(name, fields.propertyNames, name, depth)
    }
    this.#dependent(fields, object, depth)
  }

  #dependent(fields: Fields, object: Fields, depth: number): void {
    for (const all of [fields.dependentRequired, fields.dependentSchemas, fields.dependencies])
      for (const [name, needed] of Object.entries(fieldsOf(all)))
        if (Object.hasOwn(object, name)) this.at(Array.isArray(needed) ? { required: needed } : needed, object, depth)
  }

  #branches(fields: Fields, value: unknown, depth: number): void {
    for (const branch of listOf(fields.allOf)) this.at(branch, value, depth)
    const any = listOf(fields.anyOf)
    if (any.length > 0 && !any.some((branch) => this.#fits(branch, value, depth))) this.#failOf(any, value, depth)
    const one = listOf(fields.oneOf)
    const fitting = one.filter((branch) => this.#fits(branch, value, depth)).length
    if (one.length > 0 && fitting === 0) this.#failOf(one, value, depth)
    if (fitting > 1) this.#fail(() => `must fit one branch of oneOf alone, and fits ${fitting}`)
    if (fields.not !== undefined && this.#fits(fields.not, value, depth))
      this.#fail(() => 'must not fit what not excludes')
    if (fields.if === undefined) return
    const next = this.#fits(fields.if, value, depth) ? fields.then : fields.else
    if (next !== undefined) this.at(next, value, depth)
  }

  #failOf(branches: readonly unknown[], value: unknown, depth: number): void {
    if (branches.length === 1) this.at(branches[0], value, depth)
    else this.#fail(() => `must fit one of ${branches.length} branches`)
  }

  #fits(schema: unknown, value: unknown, depth: number): boolean {
    const before = this.#failures
    this.#quiet += 1
    const fits = this.at(schema, value, depth)
    this.#quiet -= 1
    this.#failures = before
    return fits
  }

  #within(name: string | number, schema: unknown, value: unknown, depth: number): void {
    this.#path.push(name)
    this.at(schema, value, depth)
    this.#path.pop()
  }

  #target(ref: string): unknown {
    const known = this.#targets.get(ref) ?? targetOf(this.#root, ref)
    this.#targets.set(ref, known)
    return known
  }

  #size(size: number, least: unknown, most: unknown, what: string): void {
    if (typeof least === 'number' && size < least)
      this.#fail(() => `must have at least ${least} ${what}, and has ${size}`)
    if (typeof most === 'number' && size > most) this.#fail(() => `must have at most ${most} ${what}, and has ${size}`)
  }

  #fail(message: () => string): false {
    this.#failures += 1
    if (this.#quiet === 0 && this.issues.length < MOST_ISSUES)
      this.issues.push({ path: [...this.#path], message: message() })
    return false
  }

  #spend(steps: number): void {
    this.#steps += steps
    if (this.#steps > MOST_STEPS)
      throw new Error(
        `its schema takes more than ${MOST_STEPS} steps to check by; make the schema or the value smaller`,
      )
  }
}

function isOf(type: unknown, value: unknown): boolean {
  return type === nameOf(value) || (type === 'integer' && Number.isInteger(value)) || type === 'any'
}

function nameOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** Counts the characters of a text as JSON Schema does: two surrogates are one. */
function lengthOf(text: string): number {
  let length = 0
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) length += 1
  return length
}

/** Allows for the error of a division of decimal fractions: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, of: number): boolean {
  const times = value / of
  return Math.abs(times - Math.round(times)) <= Math.abs(times) * 2 ** -50
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const shortOf = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text)

/* The values that keywords of JSON Schema may have. What is no keyword is a note. */

const TYPES: ReadonlySet<unknown> = new Set(['null', 'boolean', 'object', 'array', 'number', 'integer', 'string'])

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)
const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isObject(value)
const isNumber = (value: unknown): boolean => typeof value === 'number'
const isText = (value: unknown): boolean => typeof value === 'string'
const isListOf = (passes: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.every(passes)
const isNames = (value: unknown): boolean => isObject(value) && Object.values(Object(value)).every(isSchema)
const either =
  (...all: ((value: unknown) => boolean)[]) =>
  (value: unknown) =>
    all.some((passes) => passes(value))
const isFlag = (value: unknown): boolean => typeof value === 'boolean'

const isLists = (value: unknown): boolean => isObject(value) && Object.values(Object(value)).every(isListOf(isText))
const isType = (value: unknown): boolean => TYPES.has(value)

type Rule = readonly [accepted: string, passes: (value: unknown) => boolean]

const SCHEMA: Rule = ['a schema', isSchema]
const SCHEMAS: Rule = ['a list of schemas', (value) => isListOf(isSchema)(value) && Object(value).length > 0]
const NAMES: Rule = ['an object of schemas', isNames]
const NUMBER: Rule = ['a number', isNumber]
const BOUND: Rule = ['a number, or true or false as in draft 4', either(isNumber, isFlag)]

const of = (rule: Rule, ...names: readonly string[]) => names.map((name) => [name, rule] as const)

const RULES: ReadonlyMap<string, Rule> = new Map([
  ...of(['a type, or a list of types', either(isType, isListOf(isType))], 'type'),
  ...of(['a text', isText], '$ref', 'pattern', 'format'),
  ...of(['a list', Array.isArray], 'enum'),
  ...of(['a list of texts, or true or false as in draft 3', either(isListOf(isText), isFlag)], 'required'),
  ...of(['an object of lists', isLists], 'dependentRequired'),
  ...of(['an object', isObject], 'dependencies'),
  ...of(['a schema, or a list of schemas', either(isSchema, isListOf(isSchema))], 'items'),
  ...of(['true or false', isFlag], 'uniqueItems'),
  ...of(BOUND, 'exclusiveMinimum', 'exclusiveMaximum'),
  ...of(SCHEMAS, 'allOf', 'anyOf', 'oneOf', 'prefixItems'),
  ...of(NAMES, 'properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'),
  ...of(SCHEMA, 'not', 'if', 'then', 'else', 'contains', 'additionalItems', 'additionalProperties', 'propertyNames'),
  ...of(NUMBER, 'minimum', 'maximum', 'multipleOf', 'minLength', 'maxLength', 'minItems', 'maxItems'),
  ...of(NUMBER, 'minContains', 'maxContains', 'minProperties', 'maxProperties'),
])

/** Checks whether a keyword has a value that drafts of JSON Schema after the fourth do not have. */
export function isOfDraft4(name: string, value: unknown): boolean {
  return isFlag(value) && ['exclusiveMinimum', 'exclusiveMaximum', 'required'].includes(name)
}

/** @throws Error if a keyword has a value that it cannot have. */
export function checkKeyword(name: string, value: unknown): void {
  const rule = RULES.get(name)
  if (!rule || rule[1](value)) return
  const came = JSON.stringify(value) ?? typeof value
  throw new Error(`"${name}" is ${came.length > 60 ? `${came.slice(0, 60)}...` : came}; accepted: ${rule[0]}`)
}
