/** The option `output` of a team and of a role: a schema with code, or a JSON Schema, as a file has it. */
import { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { describe } from '../../errors.ts'
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

const isCode = (schema: ModelSchema | object): schema is ModelSchema => '~standard' in schema

/** Returns a schema that checks by a JSON Schema of the program's own, and gives that to models as it is. */
function jsonOutput(jsonSchema: object): ModelSchema {
  const { validate } = z.fromJSONSchema(jsonSchema as Parameters<typeof z.fromJSONSchema>[0])['~standard']
  const json = () => ({ ...jsonSchema })
  return { '~standard': { version: 1, vendor: 'dramatis', validate, jsonSchema: { input: json, output: json } } }
}
