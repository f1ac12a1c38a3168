/** Answers of models as data: builds the JSON schema for the request, and reads the answer by it. */

import { nestsTooDeep } from '../../mailbox/json.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import { ModelError, type ModelFailureCode, shown } from '../../shared/errors.ts'
import { wrongArgument } from '../definition/checks.ts'
import {
  type AnswerFunction,
  addUsage,
  type ModelAnswer,
  type ModelCall,
  type ModelMessage,
} from '../definition/model.ts'
import { checkBySchema } from '../definition/schema.ts'
import { type ModelSchema, TOOL_NAME } from '../definition/tool.ts'

/**
 * Returns the JSON schema of the model's output, before the schema transforms it. Throws the error of the schema's
 * library if that cannot write it.
 */
export const jsonSchemaOf = (schema: ModelSchema): object =>
  schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' })

/** Throws `MessageRejectedError` if that is no schema. `path` names it. */
export function checkSchema(schema: unknown, path: string): void {
  if (typeof Object(Object(schema)['~standard']).validate !== 'function')
    throw wrongArgument(path, schema, 'a Standard Schema with JSON schema (zod, arktype, ...) is needed')
}

/** Returns the JSON schema of a schema that a caller gave. Throws `MessageRejectedError` if it cannot be written. */
export function writtenSchema(schema: ModelSchema, path: string): object {
  try {
    return jsonSchemaOf(schema)
  } catch (error) {
    throw wrongArgument(path, schema, `a schema that can be written as JSON schema is needed (${shown(String(error))})`)
  }
}

/** An answer, and the value that the schema returns for it. */
export interface Checked<T> {
  answer: ModelAnswer
  output: T
}

type Ask = (call: ModelCall) => Promise<ModelAnswer>

/** Handles an answer that misses its schema for the second time. */
type Last<T> = (answer: ModelAnswer, issues: string, code: ModelFailureCode) => T

/**
 * Returns the answer's text as the schema returns it. If the answer misses the schema, the model is told why and asked
 * once more; the token usage of both answers is added up.
 */
export async function checkedAnswer<T>(
  schema: ModelSchema<unknown, T>,
  call: ModelCall,
  answer: ModelAnswer,
  ask: Ask,
  last: Last<T>,
): Promise<Checked<T>> {
  const first = await read(schema, answer)
  if ('output' in first) return { answer, output: first.output }
  if (answer.finishReason === 'content_filter') throw refused(answer)
  const second = await ask({ ...call, messages: [...call.messages, ...correction(call, answer, first.missed)] })
  const both = { ...second, usage: addUsage(answer.usage, second.usage) }
  const again = await read(schema, both)
  return {
    answer: both,
    output: 'output' in again ? again.output : last(both, again.missed.message, again.missed.fault),
  }
}

/** Makes the error for a model that refuses in words: asked again, it would refuse again. */
const refused = ({ model, text }: ModelAnswer) =>
  new ModelError(`The model "${model}" refused to answer: ${shown(text)}. Ask in another way, or take another model.`, {
    model,
    reason: 'filtered',
    retryable: false,
  })

/** @throws ModelError: a second wrong answer counts as no answer. */
export const noAnswerOf =
  (agent: string): Last<never> =>
  ({ model, finishReason }, issues, code) => {
    throw new ModelError(
      `The model "${model}" answered "${agent}" twice with what misses the output schema: ${issues}. Make the schema simpler, say in the prompt what is wanted, or take another model.`,
      { agent, model, issues, finishReason, reason: 'invalid_answer', code },
    )
  }

async function read<T>(
  schema: ModelSchema<unknown, T>,
  answer: ModelAnswer,
): Promise<{ output: T } | { missed: Missed }> {
  try {
    return { output: await parsedBy(schema, answer) }
  } catch (error) {
    if (error instanceof Missed) return { missed: error }
    throw error
  }
}

/** The reason why an answer misses its schema, for the model to read. */
class Missed extends ModelError {
  readonly fault: ModelFailureCode

  constructor(issues: string, fault: ModelFailureCode) {
    super(issues)
    this.fault = fault
  }
}

async function parsedBy<T>(schema: ModelSchema<unknown, T>, { text, finishReason }: ModelAnswer): Promise<T> {
  const json = jsonAmong(text)
  if (!json)
    throw finishReason === 'length'
      ? new Missed('it was cut off before its end (maxOutputTokens)', 'unclosed_json')
      : new Missed('it is no JSON', isUnclosed(text) ? 'unclosed_json' : 'no_json')
  return checkBySchema(schema, json.value, (issues) => new Missed(issues, 'schema_missed'))
}

/** Checks for a text that begins an object or a list, and has no end of it. */
const isUnclosed = (text: string): boolean => /^\s*[[{]/.test(text) && !/[\]}]\s*$/.test(text)

/** Returns the JSON in an answer: the whole text, the content of a code fence, or the end of the text after prose. */
export function jsonIn(text: string): { value: unknown } | undefined {
  return parsed(text) ?? parsed(fencedIn(text)) ?? inProse(text.trimEnd(), true)
}

/** Returns the JSON in an answer to a schema, which may also have prose behind it. */
export const jsonAmong = (text: string): { value: unknown } | undefined => jsonIn(text) ?? inProse(text, false)

const FENCE = '```'

/** Returns the content of the first code fence that is closed and has nothing, or `json`, on its first line. */
function fencedIn(text: string): string | undefined {
  for (let from = 0; ; ) {
    const fence = text.indexOf(FENCE, from)
    const line = fence < 0 ? -1 : text.indexOf('\n', fence + FENCE.length)
    if (line < 0) return undefined
    const last = text.lastIndexOf(FENCE, line - FENCE.length) // only the last of several on a line can open a block
    const said = text
      .slice(last + FENCE.length, line)
      .trim()
      .toLowerCase()
    if (said === '' || said === 'json') {
      const end = text.indexOf(FENCE, line)
      return end < 0 ? undefined : text.slice(line, end)
    }
    from = line
  }
}

function parsed(text: string | undefined): { value: unknown } | undefined {
  try {
    return text === undefined || nestsTooDeep(text) ? undefined : { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Returns the only valid object or list: of two answers neither counts. Prose may also have brackets. */
function inProse(text: string, isAtEnd: boolean): { value: unknown } | undefined {
  let only: { value: unknown } | undefined
  let depth = 0
  let from = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]
    if (quoted && letter === '\\') at++
    else if (letter === '"') quoted = depth > 0 && !quoted
    else if (quoted) continue
    else if (letter === '{' || letter === '[') {
      if (depth === 0) from = at
      depth++
    } else if ((letter === '}' || letter === ']') && depth > 0 && --depth === 0) {
      const found = parsed(text.slice(from, at + 1))
      if (found && (only || (isAtEnd && at + 1 < text.length))) return undefined
      only = found ?? only
    }
  }
  return only
}

const correction = ({ answerFunction }: ModelCall, { text }: ModelAnswer, { message }: Missed): ModelMessage[] => [
  { role: 'assistant', content: text },
  {
    role: 'user',
    content: `Your answer misses the JSON schema that it has to fit: ${message}. ${
      answerFunction ? `Call ${answerFunction.name} again.` : 'Answer again, with JSON alone.'
    }`,
  },
]

/*
 * The form in which the sender of a message wants its answer: a JSON schema in the metadata, and a function if the
 * answer is wanted as its arguments. A model agent answers in that form, with `structuredData`; a code agent is free to
 * use it.
 */

interface Wanted {
  answerSchema: object
  answerFunction?: AnswerFunction
  answerContent?: string
}

/** Details of the form: a function, and the field of the data that is the content of the answer. */
interface AnswerForm {
  asFunction?: AnswerFunction | undefined
  contentField?: string | undefined
}

/** Returns metadata for a request whose answer has to fit that JSON schema, in that form. */
export const withAnswerSchema = (schema: object, { asFunction, contentField }: AnswerForm = {}): Wanted => ({
  answerSchema: schema,
  ...(asFunction && { answerFunction: asFunction }),
  ...(contentField !== undefined && { answerContent: contentField }),
})

/**
 * Returns an answer that may have data with the text of the wanted field as its content, so that histories show words
 * and no JSON. An answer without such a field, and one with words of its own beside its data, stays as it is.
 */
export function withContentField<Said extends { content: string; structuredData: unknown }>(
  said: Said,
  message: AgentMessage,
): Said {
  const { answerContent } = message.metadata
  if (typeof answerContent !== 'string') return said
  const inWords = jsonIn(said.content)?.value
  const data = said.structuredData ?? inWords
  const text: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, answerContent) : undefined
  const isOwn = said.content !== '' && inWords === undefined
  return typeof text === 'string' && !isOwn ? { ...said, content: text, structuredData: data } : said
}

export function answerSchemaOf({ metadata }: AgentMessage): object | undefined {
  const { answerSchema } = metadata
  return typeof answerSchema === 'object' && answerSchema !== null ? answerSchema : undefined
}

/**
 * Returns the function that the message wants called. A name that no provider accepts is ignored: the schema asks for
 * the same.
 */
export function answerFunctionOf({ metadata }: AgentMessage): AnswerFunction | undefined {
  const { name, description } = Object(metadata.answerFunction) as Partial<Record<keyof AnswerFunction, unknown>>
  if (typeof name !== 'string' || !TOOL_NAME.test(name) || typeof description !== 'string') return undefined
  return { name, description }
}
