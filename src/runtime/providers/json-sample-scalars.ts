/** Draws numbers and strings that fit a JSON schema. json-schema-faker draws formats and patterns, by a seed. */

import { generateSync } from 'json-schema-faker'
import { anyPatterns, isPattern, sizeOf } from '../../json-schema/patterns.ts'
import type { JsonSchema } from './json-schema.ts'
import type { Dice } from './seeded-random.ts'

const SPAN = 100
const MOST_DRAWS = 20

/** Returns a number that fits the schema, or undefined if none was found. */
export function sampleNumber(schema: JsonSchema, whole: boolean, dice: Dice): number | undefined {
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
  for (let n = 0; n < MOST_DRAWS; n++) {
    const value = at(first + dice.upTo(last - first + 1)) + 0 // no -0
    if (Number.isInteger(value / step)) return value // 1.88 / 0.01 is 187.99999999999997, and some validators divide
  }
  return at(first)
}

/** Returns the least whole number that is a multiple of a fraction. */
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
  for (let n = 0; n < MOST_DRAWS; n++) {
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
