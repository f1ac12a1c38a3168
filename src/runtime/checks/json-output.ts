/** JSON Schemas as schemas for answers, where there is no code for them: over HTTP, in YAML, and in a durable log. */
import { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'

/**
 * Returns a schema that checks by a JSON Schema, and gives that to models as it is.
 *
 * @throws the error of the library for what is no JSON Schema, and for keywords that it cannot check.
 */
export function jsonOutput(jsonSchema: object): ModelSchema {
  const { validate } = z.fromJSONSchema(jsonSchema as Parameters<typeof z.fromJSONSchema>[0])['~standard']
  const json = () => ({ ...jsonSchema })
  return { '~standard': { version: 1, vendor: 'dramatis', validate, jsonSchema: { input: json, output: json } } }
}
