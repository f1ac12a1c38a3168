/** Answers of models as data: the JSON schema that goes with the question, and what the answer comes to. */
import { ModelError } from '../errors.ts'
import { addUsage, type ModelAnswer, type ModelCall, type ModelMessage } from './model.ts'
import { checkBySchema } from './schema.ts'
import type { ModelSchema } from './tool.ts'

/** What a model is to write, before the schema transforms it. Throws what the schema's library throws where it cannot say. */
export const jsonSchemaOf = (schema: ModelSchema): object =>
  schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' })

/** An answer, and what the schema makes of it. */
export interface Checked<T> {
  answer: ModelAnswer
  output: T
}

type Ask = (call: ModelCall) => Promise<ModelAnswer>

/**
 * The answer's text as the schema returns it. An answer that misses it is told why, and the model is asked once more; what
 * both cost is added up.
 *
 * @throws ModelError when it misses the schema again.
 */
export async function checkedAnswer<T>(
  schema: ModelSchema<unknown, T>,
  call: ModelCall,
  answer: ModelAnswer,
  agent: string,
  ask: Ask,
): Promise<Checked<T>> {
  try {
    return { answer, output: await parsedBy(schema, answer) }
  } catch (error) {
    if (!(error instanceof Missed)) throw error
    const second = await ask({ ...call, messages: [...call.messages, ...correction(answer, error)] })
    const both = { ...second, usage: addUsage(answer.usage, second.usage) }
    return { answer: both, output: await lastValue(schema, both, agent) }
  }
}

async function lastValue<T>(schema: ModelSchema<unknown, T>, answer: ModelAnswer, agent: string): Promise<T> {
  try {
    return await parsedBy(schema, answer)
  } catch (error) {
    if (!(error instanceof Missed)) throw error
    const { model, finishReason } = answer
    throw new ModelError(
      `The model "${model}" answered "${agent}" twice with what misses the output schema: ${error.message}. Make the schema simpler, say in the prompt what is wanted, or take another model.`,
      { agent, model, issues: error.message, finishReason },
    )
  }
}

/** Why an answer misses its schema, for the model to read. */
class Missed extends ModelError {}

async function parsedBy<T>(schema: ModelSchema<unknown, T>, { text, finishReason }: ModelAnswer): Promise<T> {
  const json = jsonIn(text)
  if (!json)
    throw new Missed(finishReason === 'length' ? 'it was cut off before its end (maxOutputTokens)' : 'it is no JSON')
  return checkBySchema(schema, json.value, (issues) => new Missed(issues))
}

const FENCED = /```(?:json)?\s*\n([\s\S]*?)```/i
const OPENING = /[{[]/g
/** Prose before the answer has few brackets; each one looked at costs a reading of the rest. */
const MOST_OPENINGS = 32

/** The JSON of an answer: all of it, or in a code fence, or behind prose up to the end. */
export function jsonIn(text: string): { value: unknown } | undefined {
  for (const candidate of candidatesOf(text)) {
    try {
      return { value: JSON.parse(candidate) }
    } catch {} // perhaps the next
  }
  return undefined
}

function* candidatesOf(text: string): Generator<string> {
  yield text
  const fenced = FENCED.exec(text)?.[1]
  if (fenced !== undefined) yield fenced
  let openings = 0
  for (const { index } of text.matchAll(OPENING)) {
    if (++openings > MOST_OPENINGS) return
    yield text.slice(index)
  }
}

const correction = ({ text }: ModelAnswer, { message }: Missed): ModelMessage[] => [
  { role: 'assistant', content: text },
  {
    role: 'user',
    content: `Your answer misses the JSON schema that it has to fit: ${message}. Answer again, with JSON alone.`,
  },
]
