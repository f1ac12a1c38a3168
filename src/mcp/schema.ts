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
/** The first one loads and compiles what compiles schemas. */
const LONGEST_COMPILE_MS = 2_000
/** On a busy machine this thread may have waited for a processor. Work that takes long by itself does so again. */
const TRIES = 2

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
            check ?? tried(LONGEST_COMPILE_MS, 'to compile', () => new Validator().getValidator<T>(schema))
          check = compiled
          return tried(LONGEST_MS, 'to check by', () => compiled(value))
        } catch (error) {
          return { valid: false, data: undefined, errorMessage: describe(error) }
        }
      }
    },
  }
}

/** Does what can be done again. Throws an error that says so if it takes too long each time. */
function tried<T>(ms: number, purpose: string, work: () => T): T {
  const late = new Error(`its schema takes longer than ${ms} ms ${purpose}`)
  for (let left = TRIES; ; left--) {
    try {
      return inTime(ms, () => late, work)
    } catch (error) {
      if (error !== late || left === 1) throw error
    }
  }
}
