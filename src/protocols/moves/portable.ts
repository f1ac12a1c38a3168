/**
 * Writes the schema of an answer in words that all providers take: one type each, closed objects that require each
 * property, `anyOf` with null for what may be left out, and no bounds. Answers are checked by the schema itself.
 * Sources: OpenAI, "Structured Outputs" (strict); Google, "Structured output"; Anthropic, "Structured outputs".
 */
import type { z } from 'zod'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { jsonSchemaOf } from '../../actors/model/structured-output.ts'

type Json = { readonly [key: string]: unknown }

/** Returns the schema as models are told it. */
export function portable<T>(schema: z.ZodType<T>): ModelSchema<unknown, T> {
  const json = () => portableJson(jsonSchemaOf(schema) as Json)
  return { '~standard': { ...schema['~standard'], jsonSchema: { input: json, output: json } } }
}

function portableJson({ type, properties, required, items, anyOf, enum: words, description }: Json): Json {
  const said = description === undefined ? {} : { description }
  if (Array.isArray(anyOf)) return { anyOf: anyOf.map(portableJson), ...said }
  if (Array.isArray(type)) return { anyOf: type.map((one) => ({ type: one, ...(one !== 'null' && said) })) }
  if (items) return { type, items: portableJson(items as Json), ...said }
  if (type !== 'object') return { type, ...(words !== undefined && { enum: words }), ...said }
  if (!properties) return { type: 'string', description: `${description ?? 'An object.'} As JSON.` }
  const needed = (required ?? []) as readonly string[]
  const given = Object.entries(properties as Record<string, Json>).filter(([, { not }]) => not === undefined) // `not: {}`: never there
  const all = given.map(([name, property]) => {
    const form = portableJson(property)
    return [name, needed.includes(name) ? form : nullable(form)] as const
  })
  const names = all.map(([name]) => name)
  return { type, properties: Object.fromEntries(all), required: names, additionalProperties: false, ...said }
}

function nullable(form: Json): Json {
  const { anyOf, description, ...rest } = form
  const forms = Array.isArray(anyOf) ? anyOf : [rest]
  const isNull = (one: unknown) => Object(one).type === 'null'
  return {
    anyOf: forms.some(isNull) ? forms : [...forms, { type: 'null' }],
    ...(description !== undefined && { description }),
  }
}
