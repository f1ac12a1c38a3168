/** Bounds of a JSON schema that a stranger wrote. */
import { checkKeyword } from './keywords.ts'
import { loadPatterns, type Patterns, sizeOf } from './patterns.ts'
import { targetOf } from './references.ts'

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

const kindOf = (key: string) => (NAMES.has(key) ? 'names' : DATA.has(key) ? 'data' : 'schema')

/**
 * Checks the bounds of a schema and reads its patterns.
 *
 * @throws Error that names the bound, its value, and what came.
 */
export async function readPatterns(schema: unknown): Promise<Patterns> {
  const found = { characters: 0, references: 0, branches: 0, patterns: new Set<string>() }
  const visit = (part: unknown, depth: number, kind: 'schema' | 'names' | 'data'): void => {
    within('levels of nesting', depth, MOST.depth)
    found.characters += typeof part === 'string' ? part.length : 1
    within('characters', found.characters, MOST.characters)
    if (typeof part !== 'object' || part === null) return
    for (const [key, inside] of Object.entries(part)) {
      found.characters += key.length
      if (kind === 'schema' && !Array.isArray(part)) keyword(key, inside)
      visit(inside, depth + 1, kind === 'schema' ? kindOf(key) : kind === 'names' ? 'schema' : 'data')
    }
  }
  const keyword = (key: string, value: unknown): void => {
    checkKeyword(key, value)
    if (key === '$ref') {
      within('references ($ref)', ++found.references, MOST.references)
      within('characters in a reference', String(value).length, MOST.pointer)
      targetOf(schema, String(value))
    }
    if (BRANCHES.has(key) && Array.isArray(value)) found.branches += value.length
    within('branches of anyOf, oneOf and allOf', found.branches, MOST.branches)
    if (MINIMA.has(key) && typeof value === 'number') within(key, value, MOST.minimum)
    if (UNKNOWN.has(key)) throw new Error(`the keyword "${key}" is not possible`)
    if (key === 'pattern' && typeof value === 'string') found.patterns.add(value)
    if (key === 'patternProperties') for (const pattern of Object.keys(Object(value))) found.patterns.add(pattern)
    within('patterns', found.patterns.size, MOST.patterns)
  }
  visit(schema, 1, 'schema')
  const sizes = Array.from(found.patterns, sizeOf)
  within(
    'parts in all patterns together',
    sizes.reduce((sum, size) => sum + size, 0),
    MOST.parts,
  )
  const patterns = found.patterns.size > 0 ? await loadPatterns() : undefined
  const made = new Map(patterns && Array.from(found.patterns, (source) => [source, readable(patterns, source)]))
  return (source) => {
    const pattern = made.get(source)
    if (!pattern) throw new Error('its schema refers to what is an example of a value, and no schema')
    return pattern
  }
}

function readable(patterns: Patterns, source: string) {
  try {
    return patterns(source)
  } catch (error) {
    const shown = JSON.stringify(source.length > 100 ? `${source.slice(0, 100)}...` : source)
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`the pattern ${shown} is not possible: ${why}. Look-around and back references are not.`)
  }
}

function within(what: string, came: number, most: number): void {
  if (came > most) throw new Error(`it has more than ${most} ${what}; got ${came}`)
}
