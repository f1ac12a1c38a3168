/** The JSON schema of an MCP tool as a Standard Schema, checked by the validator of the protocol's own package. */
import type { JsonSchemaType } from '@modelcontextprotocol/sdk/validation/types.js'
import type { ModelSchema } from '../actors/tool.ts'
import type { Sdk } from './sdk.ts'

/** Throws for a schema that is none. */
export function schemaOf({ Validator }: Pick<Sdk, 'Validator'>, inputSchema: object): ModelSchema {
  const check = new Validator().getValidator(inputSchema as JsonSchemaType) // one each: it keeps schemas by their $id
  return {
    '~standard': {
      version: 1,
      vendor: 'mcp',
      validate(value) {
        const { valid, errorMessage } = check(value)
        return valid ? { value } : { issues: [{ message: errorMessage ?? 'it misses the schema' }] }
      },
      jsonSchema: { input: () => ({ ...inputSchema }), output: () => ({ ...inputSchema }) },
    },
  }
}
