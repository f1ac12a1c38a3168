/** The values that keywords of JSON Schema may have. What is no keyword is a note. */

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

type Rule = readonly [accepted: string, passes: (value: unknown) => boolean]

const SCHEMA: Rule = ['a schema', isSchema]
const SCHEMAS: Rule = ['a list of schemas', (value) => isListOf(isSchema)(value) && Object(value).length > 0]
const NAMES: Rule = ['an object of schemas', isNames]
const NUMBER: Rule = ['a number', isNumber]
const TEXTS: Rule = ['a list of texts', isListOf(isText)]
const BOUND: Rule = ['a number, or true or false as in draft 4', either(isNumber, isFlag)]

const RULES: ReadonlyMap<string, Rule> = new Map([
  [
    'type',
    [
      'a type, or a list of types',
      either(
        (value) => TYPES.has(value),
        isListOf((value) => TYPES.has(value)),
      ),
    ],
  ],
  ['$ref', ['a text', isText]],
  ['pattern', ['a text', isText]],
  ['format', ['a text', isText]],
  ['enum', ['a list', Array.isArray]],
  ['required', ['a list of texts, or true or false as in draft 3', either(isListOf(isText), isFlag)]],
  [
    'dependentRequired',
    ['an object of lists', (value) => isObject(value) && Object.values(Object(value)).every(TEXTS[1])],
  ],
  ['dependencies', ['an object', isObject]],
  ['items', ['a schema, or a list of schemas', either(isSchema, isListOf(isSchema))]],
  ['uniqueItems', ['true or false', isFlag]],
  ['exclusiveMinimum', BOUND],
  ['exclusiveMaximum', BOUND],
  ...['allOf', 'anyOf', 'oneOf', 'prefixItems'].map((name) => [name, SCHEMAS] as const),
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'].map(
    (name) => [name, NAMES] as const,
  ),
  ...['not', 'if', 'then', 'else', 'contains', 'additionalItems', 'additionalProperties', 'propertyNames'].map(
    (name) => [name, SCHEMA] as const,
  ),
  ...['minimum', 'maximum', 'multipleOf', 'minLength', 'maxLength', 'minItems', 'maxItems'].map(
    (name) => [name, NUMBER] as const,
  ),
  ...['minContains', 'maxContains', 'minProperties', 'maxProperties'].map((name) => [name, NUMBER] as const),
] as [string, Rule][])

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
