/** Schemas of answers in a team's file: written there, or in a JSON file beside it. */
import { readFileSync } from 'node:fs'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { describe } from '../errors.ts'
import type { Check } from '../runtime/checks/checks.ts'
import { refusedAs } from '../runtime/checks/refused.ts'
import { outputShape } from '../runtime/settings/output-shape.ts'

/** Option `output` of a file. */
export type WrittenOutput = ModelSchema | object | string

/** Accepts a JSON Schema, or the name of a file with one. */
export const writtenOutput: Check = (value, path) => {
  if (typeof value !== 'string') outputShape(value, path)
}

/**
 * Returns the schema. A name is relative to `file`.
 *
 * @throws ConfigurationError for a file that has none.
 */
export function outputAt(output: WrittenOutput, path: string, file: URL): ModelSchema | object {
  if (typeof output !== 'string') return output
  try {
    const schema: object = JSON.parse(readFileSync(new URL(output.replaceAll('\\', '/'), file), 'utf8'))
    outputShape(schema, path)
    return schema
  } catch (error) {
    const accepted = 'a JSON Schema, or the name of a JSON file with one'
    throw refusedAs(path, `"${output}", which cannot be read (${describe(error)})`, accepted)
  }
}
