/** Bounds of a JSON schema that a stranger wrote. */
import { checkKeyword, isOfDraft4, targetOf } from './check.ts'
import { type Fields, type LeftOut, Leniency, type Views } from './leniency.ts'
import { faultOf, loadPatterns, type Pattern, type Patterns, sizeOf } from './patterns.ts'

const MOST = {
  characters: 262_144,
  depth: 64,
  references: 512,
  branches: 512,
  patterns: 64,
  parts: 20_000,
  pointer: 1_000,
  minimum: 10_000,
} as const

/** Keywords with lists of schemas that one value is checked by. */
const BRANCHES: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf'])
/** Keywords that set the least size of a value. */
const MINIMA: ReadonlySet<string> = new Set(['minLength', 'minItems', 'minProperties', 'minContains'])
/** Keywords that the check does not know, and that change what fits. */
const UNKNOWN: ReadonlySet<string> = new Set([
  'unevaluatedItems',
  'unevaluatedProperties',
  '$dynamicRef',
  '$recursiveRef',
])

/** Keywords whose keys are names, with schemas as their values. */
const NAMES: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
])
/** Keywords whose value is an example of what fits, and no schema. */
const DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples'])

export type SchemaKind = 'schema' | 'names' | 'data'

/** Returns what the value of a keyword is made of. */
export const kindOf = (key: string): SchemaKind => (NAMES.has(key) ? 'names' : DATA.has(key) ? 'data' : 'schema')

/** Patterns of a schema, and the objects within that are checked by other fields than their own. */
export interface Reading {
  readonly patterns: Patterns
  readonly views: Views
}

/** A keyword of a schema within, by which values are checked. */
interface Place {
  readonly schema: Fields
  readonly path: string
  readonly key: string
}

/** Is beyond a bound: that holds for the whole schema, whatever is left out of it. */
class BoundError extends Error {}

/**
 * Checks the bounds of a schema and reads its patterns. With `leftOut`, keywords that cannot be checked by are left
 * out, and so are patterns that are no regular expression of ECMAScript with the flag `u`, as JSON Schema wants them.
 *
 * @throws Error that names the bound, its value, and what came; without `leftOut` also for such a keyword.
 */
export async function readSchema(root: unknown, leftOut?: LeftOut): Promise<Reading> {
  const leniency = leftOut && new Leniency(leftOut)
  const refuse = ({ schema, path, key }: Place, error: unknown, name?: string): void => {
    if (!leniency || error instanceof BoundError) throw error
    leniency.leave(schema, path, key, error instanceof Error ? error.message : String(error), name)
  }
  const found = { characters: 0, references: 0, branches: 0, patterns: new Map<string, Place[]>() }
  const visit = (part: unknown, path: string, depth: number, kind: SchemaKind): void => {
    within('levels of nesting', depth, MOST.depth)
    found.characters += typeof part === 'string' ? part.length : 1
    within('characters', found.characters, MOST.characters)
    if (typeof part !== 'object' || part === null) return
    const schema = kind === 'schema' && !Array.isArray(part) ? (part as Fields) : undefined
    if (schema) leniency?.visit(schema)
    for (const [key, inside] of Object.entries(part)) {
      found.characters += key.length
      const at = path === '' ? key : `${path}.${key}`
      if (schema) keyword({ schema, path: at, key }, inside)
      visit(inside, at, depth + 1, kind === 'schema' ? kindOf(key) : kind === 'names' ? 'schema' : 'data')
    }
  }
  const keyword = (place: Place, value: unknown): void => {
    const { key } = place
    try {
      checkKeyword(key, value)
      if (leniency && isOfDraft4(key, value)) throw new Error(`it is ${String(value)}, as in draft 4 and before`)
      if (UNKNOWN.has(key)) throw new Error(`the keyword "${key}" is not possible`)
      if (key === '$ref') {
        within('references ($ref)', ++found.references, MOST.references)
        within('characters in a reference', String(value).length, MOST.pointer)
        targetOf(root, String(value))
      }
    } catch (error) {
      return refuse(place, error)
    }
    if (BRANCHES.has(key) && Array.isArray(value)) found.branches += value.length
    within('branches of anyOf, oneOf and allOf', found.branches, MOST.branches)
    if (MINIMA.has(key) && typeof value === 'number') within(key, value, MOST.minimum)
    const sources = key === 'pattern' ? [String(value)] : key === 'patternProperties' ? Object.keys(Object(value)) : []
    for (const source of sources) {
      const places = found.patterns.get(source)
      if (places) places.push(place)
      else found.patterns.set(source, [place])
    }
    within('patterns', found.patterns.size, MOST.patterns)
  }
  visit(root, '', 1, 'schema')
  const refusePattern = (source: string, why: string): void => {
    const error = new Error(`the pattern ${shortOf(source)} is not possible: ${why}`)
    for (const place of found.patterns.get(source)!)
      refuse(place, error, place.key === 'patternProperties' ? source : undefined)
  }
  const sources = [...found.patterns.keys()].filter((source) => {
    const fault = leniency && faultOf(source)
    if (fault !== undefined) refusePattern(source, fault)
    return fault === undefined
  })
  within(
    'parts in all patterns together',
    sources.reduce((sum, source) => sum + sizeOf(source), 0),
    MOST.parts,
  )
  const load = sources.length > 0 ? await loadPatterns() : undefined
  const made = new Map<string, Pattern>()
  for (const source of sources)
    try {
      made.set(source, load!(source))
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      refusePattern(source, `${why}. Look-around and back references are not.`)
    }
  const patterns: Patterns = (source) => {
    const pattern = made.get(source)
    if (!pattern) throw new Error('its schema refers to what is an example of a value, and no schema')
    return pattern
  }
  return { patterns, views: leniency?.end() ?? new Map() }
}

const shortOf = (source: string): string => JSON.stringify(source.length > 100 ? `${source.slice(0, 100)}...` : source)

function within(what: string, came: number, most: number): void {
  if (came > most) throw new BoundError(`it has more than ${most} ${what}; got ${came}`)
}
