/** JSON schemas that a stranger wrote, as schemas that check: of a caller over HTTP, an MCP server, a durable log. */
import type { ModelSchema } from '../actors/definition/tool.ts'
import { readPatterns } from './bounds.ts'
import { issuesOf } from './check.ts'

/**
 * Resolves to a schema that checks in a bounded number of steps, and that models get as it is.
 *
 * @throws Error that names the bound which the schema exceeds, or the keyword or the pattern that is not possible.
 */
export async function foreignSchema(jsonSchema: object): Promise<ModelSchema> {
  const patterns = await readPatterns(jsonSchema)
  const json = () => ({ ...jsonSchema })
  return {
    '~standard': {
      version: 1,
      vendor: 'dramatis',
      jsonSchema: { input: json, output: json },
      validate(value) {
        const issues = issuesOf(jsonSchema, value, patterns)
        return issues.length === 0 ? { value } : { issues }
      },
    },
  }
}
