/**
 * The JSON schemas of an MCP server, checked by the validator of the protocol's own package. A server can send one that
 * takes for ever to compile or to check by: each is compiled when it is first needed, and both have a time limit.
 */
import type {
  JsonSchemaType,
  JsonSchemaValidator,
  jsonSchemaValidator,
} from '@modelcontextprotocol/sdk/validation/types.js'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { describe } from '../errors.ts'
import { inTime } from './in-time.ts'
import type { Sdk } from './sdk.ts'

const LONGEST_MS = 200
const late = () => new Error(`its schema takes longer than ${LONGEST_MS} ms to check by`)
/** The first one loads and compiles what compiles schemas. */
const LONGEST_COMPILE_MS = 2_000
const lateCompile = () => new Error(`its schema takes longer than ${LONGEST_COMPILE_MS} ms to compile`)

/** A schema as one that checks. */
export function schemaOf(kit: Pick<Sdk, 'Validator'>, inputSchema: object): ModelSchema {
  const check = boundedValidator(kit).getValidator(inputSchema as JsonSchemaType)
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

/** The package's validator, in bounds. What cannot be checked in time, or by no means, is not valid. */
export function boundedValidator({ Validator }: Pick<Sdk, 'Validator'>): jsonSchemaValidator {
  return {
    getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
      let check: JsonSchemaValidator<T> | undefined
      return (value) => {
        try {
          // one each: a validator keeps schemas by their $id
          const compiled =
            check ?? inTime(LONGEST_COMPILE_MS, lateCompile, () => new Validator().getValidator<T>(schema))
          check = compiled
          return inTime(LONGEST_MS, late, () => compiled(value))
        } catch (error) {
          return { valid: false, data: undefined, errorMessage: describe(error) }
        }
      }
    },
  }
}
