/** Schemas that models are told: in words that OpenAI's strict mode, Gemini and Anthropic take alike. */
import t from 'tap'
import { jsonSchemaOf } from '../../src/actors/model/structured-output.ts'
import { VERB_NAMES, verbTool } from '../../src/actors/model/verb-tools.ts'
import * as forms from '../../src/protocols/forms.ts'
import { planSchema, replacementSchema } from '../../src/protocols/forms.ts'

const names = ['ann', 'bob']
const workers = names.map((name) => ({ name }))
const strategies: Record<string, object> = {
  plan: jsonSchemaOf(planSchema(workers)),
  replacement: jsonSchemaOf(replacementSchema(workers)),
  'plan with keys': jsonSchemaOf(planSchema([{ name: 'ann', keys: ['free', 'paid'] }, ...workers])),
  choice: jsonSchemaOf(forms.choiceOf(3)),
  view: jsonSchemaOf(forms.viewAmong(names)),
  opinion: jsonSchemaOf(forms.opinion),
  argument: jsonSchemaOf(forms.citedArgument),
  verdict: jsonSchemaOf(forms.verdictAmong(names)),
  contradictions: jsonSchemaOf(forms.contradictionsAmong(names)),
}

const WORDS = ['type', 'properties', 'required', 'items', 'enum', 'anyOf', 'description', 'additionalProperties']
type Json = Record<string, unknown>

/** What of a schema is outside of the subset, by its path. */
function faults(schema: Json, path: string, requiresAll: boolean): string[] {
  const { type, properties = {}, required = [], items, anyOf = [] } = schema
  const words = Object.keys(schema).filter((word) => !WORDS.includes(word))
  const isObject = type === 'object'
  const optional = Object.keys(properties as Json).filter((name) => !(required as string[]).includes(name))
  return [
    ...words.map((word) => `${path}: ${word}`),
    ...(Array.isArray(type) ? [`${path}: several types`] : []),
    ...(isObject && schema.additionalProperties !== false ? [`${path}: open`] : []),
    ...(requiresAll ? optional.map((name) => `${path}.${name}: optional`) : []),
    ...Object.entries(properties as Json).flatMap(([name, inner]) =>
      faults(inner as Json, `${path}.${name}`, requiresAll),
    ),
    ...(anyOf as Json[]).flatMap((inner, at) => faults(inner, `${path}.anyOf[${at}]`, requiresAll)),
    ...(items ? faults(items as Json, `${path}[]`, requiresAll) : []),
  ]
}

t.test('schemas of strategies are in the subset', async (t) => {
  for (const [name, schema] of Object.entries(strategies)) t.same(faults(schema as Json, name, true), [])
})

t.test('a plan names keys only where agents hold some', async (t) => {
  t.match(JSON.stringify(strategies['plan with keys']), /"apiKeysConfigRef":\{.*"enum":\["free","paid"\]/)
  t.notMatch(JSON.stringify(strategies.plan), /apiKeysConfigRef/)
})

t.test('schemas of verbs are in the subset, with fields that may be left out', async (t) => {
  for (const name of VERB_NAMES) t.same(faults(verbTool(name)!.spec.inputSchema as Json, name, false), [])
})
