/**
 * JSON schemas of answers whose root is no object: providers take only objects there, and no union at the root. Such a
 * schema is asked for as the field of an object, and the answer is taken out of it again.
 * Sources: OpenAI, "Structured Outputs", supported schemas; Anthropic and Google, structured outputs.
 */
import { jsonAmong } from '../../actors/model/structured-output.ts'

const FIELD = 'value'

/** Returns the schema of an object with that value in it; undefined if the schema is that of an object itself. */
export function asRootObject(schema: object): object | undefined {
  const { $defs, definitions, $schema, ...value } = schema as Record<string, unknown>
  if (value.type === 'object' && !('anyOf' in value || 'oneOf' in value || '$ref' in value)) return undefined
  const kept = { ...($schema !== undefined && { $schema }), ...($defs !== undefined && { $defs: moved($defs) }) }
  return {
    ...kept,
    ...(definitions !== undefined && { definitions: moved(definitions) }),
    type: 'object',
    properties: { [FIELD]: moved(value) },
    required: [FIELD],
    additionalProperties: false,
  }
}

/** Returns the value in an answer to such a schema, as JSON. A model that has left the object out is understood too. */
export function rootValueIn(text: string): string {
  const answer = jsonAmong(text)?.value
  if (typeof answer !== 'object' || answer === null || Object.keys(answer).join() !== FIELD) return text
  return JSON.stringify(Object.values(answer)[0])
}

/** Returns the value in a part of such an answer; undefined if it has not begun. */
export function rootPartIn(part: unknown): unknown {
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
  const [name, ...others] = Object.keys(part)
  return name === undefined || (name === FIELD && others.length === 0) ? Object.values(part)[0] : part
}

/** Returns a part of the schema whose references to the root follow it to its new place. */
function moved(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(moved)
  if (typeof part !== 'object' || part === null) return part
  return Object.fromEntries(
    Object.entries(part).map(([key, inner]) => [key, key === '$ref' ? movedReference(inner) : moved(inner)]),
  )
}

function movedReference(reference: unknown): unknown {
  if (typeof reference !== 'string' || !/^#(\/(?!\$defs\/|definitions\/)|$)/.test(reference)) return reference
  return `#/properties/${FIELD}${reference.slice(1)}`
}
