/** Random JSON schemas, and random values for them. */
import type { Dice } from '../dice.ts'

const NAMES = ['a', 'b', 'c', 'dd', 'é'] // the other one stumbles over "toString" and "__proto__"
const TEXTS = ['', 'a', 'ab', 'aab', '2026-11-29', '10:00', 'é', '😀😀', 'a@b.example']
const NUMBERS = [0, 1, -1, 2, 3, 0.5, 1.5, 10, 1e9]

export function value(dice: Dice, depth: number): unknown {
  const list = () => Array.from({ length: dice.upTo(4) }, () => value(dice, depth - 1))
  const object = () =>
    Object.fromEntries(Array.from({ length: dice.upTo(4) }, () => [dice.pick(NAMES), value(dice, depth - 1)]))
  const plain = [() => null, () => dice.random() < 0.5, () => dice.pick(NUMBERS), () => dice.pick(TEXTS)]
  return dice.pick<() => unknown>(depth > 0 ? [...plain, list, object, list, object] : plain)()
}

export function schema(dice: Dice, depth: number, refers = true): unknown {
  if (depth === 0 || dice.random() < 0.05) return dice.random() < 0.8 ? {} : dice.random() < 0.5
  const inside = () => schema(dice, depth - 1, refers)
  const some = (): unknown[] => Array.from({ length: 1 + dice.upTo(3) }, inside)
  const byName = () => Object.fromEntries(Array.from({ length: 1 + dice.upTo(3) }, () => [dice.pick(NAMES), inside()]))
  const size = () => dice.upTo(4)
  const keywords: Record<string, () => unknown> = {
    type: () =>
      dice.pick(['null', 'boolean', 'object', 'array', 'number', 'integer', 'string', ['string', 'null', 'array']]),
    enum: () => Array.from({ length: 1 + dice.upTo(3) }, () => value(dice, 1)),
    const: () => value(dice, 2),
    minLength: size,
    maxLength: size,
    pattern: () => dice.pick(['^a', 'b$', '^(a|b)*$', '\\d', 'é']),
    minimum: () => dice.pick(NUMBERS),
    maximum: () => dice.pick(NUMBERS),
    exclusiveMinimum: () => dice.pick(NUMBERS),
    exclusiveMaximum: () => dice.pick(NUMBERS),
    multipleOf: () => dice.pick([1, 2, 0.5, 3]),
    items: inside,
    prefixItems: some,
    contains: inside,
    minContains: size,
    maxContains: size,
    minItems: size,
    maxItems: size,
    uniqueItems: () => true,
    properties: byName,
    patternProperties: () => ({ '^[ab]': inside() }),
    additionalProperties: inside,
    propertyNames: inside,
    required: () => [dice.pick(NAMES)],
    minProperties: size,
    maxProperties: size,
    dependentRequired: () => ({ a: ['b'] }),
    dependentSchemas: byName,
    allOf: some,
    anyOf: some,
    oneOf: some,
    not: inside,
    if: inside,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: inside,
    else: inside,
    ...(refers && { $ref: () => dice.pick(['#/$defs/one', '#/$defs/two']) }),
  }
  const names = Object.keys(keywords)
  const chosen = Array.from({ length: 1 + dice.upTo(4) }, () => dice.pick(names))
  if (chosen.some((name) => /Contains/.test(name))) chosen.push('contains')
  return Object.fromEntries(chosen.map((name) => [name, keywords[name]!()]))
}
