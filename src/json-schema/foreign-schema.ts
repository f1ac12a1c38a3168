/** JSON schemas that a stranger wrote, as schemas that check: of a caller over HTTP, an MCP server, a durable log. */
import type { ModelSchema } from '../actors/definition/tool.ts'
import { readSchema } from './bounds.ts'
import { issuesOf } from './check.ts'
import type { LeftOut } from './leniency.ts'

/**
 * Resolves to a schema that checks in a bounded number of steps, and that models get as it is. With `leftOut`, the
 * check goes without keywords that are not possible, and whatever fits the schema still fits; it is called with each of
 * them.
 *
 * @throws Error that names the bound which the schema exceeds, or without `leftOut` the keyword or the pattern that is
 * not possible.
 */
export async function foreignSchema(jsonSchema: object, leftOut?: LeftOut): Promise<ModelSchema> {
  const reading = await readSchema(jsonSchema, leftOut)
  const json = () => ({ ...jsonSchema })
  return {
    '~standard': {
      version: 1,
      vendor: 'dramatis',
      jsonSchema: { input: json, output: json },
      validate(value) {
        const issues = issuesOf(jsonSchema, value, reading)
        return issues.length === 0 ? { value } : { issues }
      },
    },
  }
}
