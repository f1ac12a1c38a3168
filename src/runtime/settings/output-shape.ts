/** The option `output` of a team and of a role: a schema with code, or a JSON Schema, as a file has it. */
import type { OutputSchema } from '../../actors/definition/role.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { describe } from '../../errors.ts'
import { type Check, isObject } from '../checks/checks.ts'
import { jsonOutput } from '../checks/json-output.ts'
import { reading, refused, refusedAs } from '../checks/refused.ts'

const ACCEPTED = 'a Standard Schema with JSON schema (zod, arktype, ...), or a JSON Schema'

/** Throws if that is no schema in which a model can be asked. */
export const outputShape: Check = (value, path) => {
  if (!isObject(value) && typeof value !== 'function') throw refused(path, value, ACCEPTED)
  reading(path, () => schemaFrom(value, path))
}

/** Returns the schema of an option at that path. */
export function schemaFrom(given: OutputSchema, path: string): ModelSchema {
  try {
    if (!isCode(given)) return jsonOutput(given)
    given['~standard'].jsonSchema.input({ target: 'draft-2020-12' })
    return given
  } catch (error) {
    throw refusedAs(path, `what cannot be asked of a model (${describe(error)})`, ACCEPTED)
  }
}

const isCode = (schema: OutputSchema): schema is ModelSchema => '~standard' in schema
