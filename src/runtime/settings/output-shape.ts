/** The option `output` of a team and of a role: a schema with code, or a JSON Schema, as a file has it. */
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { describe } from '../../errors.ts'
import { laterSchema } from '../../json-schema/later-schema.ts'
import { type Check, isObject } from '../checks/checks.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'

const ACCEPTED = 'a Standard Schema with JSON schema (zod, arktype, ...), or a JSON Schema'

/** Throws if that is no schema in which a model can be asked. */
export const outputShape: Check = (value, path) => {
  if (!isObject(value) && typeof value !== 'function') throw refused(path, value, ACCEPTED)
  reading(path, () => schemaFrom(value, path))
}

/** Returns the schema of an option at that path. */
export function schemaFrom(given: ModelSchema | object, path: string): ModelSchema {
  try {
    if (!isCode(given)) return jsonOutput(given)
    given['~standard'].jsonSchema.input({ target: 'draft-2020-12' })
    return given
  } catch (error) {
    throw refusedAs(path, `what cannot be asked of a model (${describe(error)})`, ACCEPTED)
  }
}

/** Matches zod's words for a type that code checks: JSON may well fit it, though no model can be asked for it. */
const BY_CODE = /Custom types/

/** Throws if no JSON can fit a schema, such as one of a date. */
export function assertPossible(schema: ModelSchema, path: string): void {
  if (!('jsonSchema' in schema['~standard'])) return
  try {
    schemaFrom(schema, path)
  } catch (error) {
    if (!BY_CODE.test(describe(error))) throw error
  }
}

const isCode = (schema: ModelSchema | object): schema is ModelSchema => '~standard' in schema

/** Returns a schema that checks by a JSON Schema of the program's own, and gives that to models as it is. */
function jsonOutput(jsonSchema: object): ModelSchema {
  const at = wrongTypeIn(jsonSchema, '')
  if (at !== undefined) throw new TypeError(`${at}: no type of JSON Schema`)
  return laterSchema(jsonSchema, (error) => [{ message: describe(error), path: [] }])
}

const TYPES: ReadonlySet<unknown> = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])

/** Returns the place of a `type` that JSON Schema does not have. What else is wrong shows when the schema checks. */
function wrongTypeIn(schema: unknown, path: string): string | undefined {
  if (!isObject(schema)) return undefined
  const { type, properties, items, anyOf } = schema as Readonly<Record<string, unknown>>
  if (type !== undefined && ![type].flat().every((name) => TYPES.has(name))) return `${path}/type`
  const inner = [
    ...Object.entries(Object(properties)).map(([name, each]) => [`${path}/properties/${name}`, each] as const),
    ...(Array.isArray(anyOf) ? anyOf.map((each, at) => [`${path}/anyOf/${at}`, each] as const) : []),
    [`${path}/items`, items] as const,
  ]
  for (const [at, each] of inner) {
    const found = wrongTypeIn(each, at)
    if (found !== undefined) return found
  }
  return undefined
}
