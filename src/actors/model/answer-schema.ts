/**
 * The form in which the sender of a message wants its answer: a JSON schema in the metadata, and a function if the
 * answer is wanted as its arguments. A model agent answers in that form, with `structuredData`; a code agent is free to
 * use it.
 */
import type { AgentMessage } from '../../mailbox/message.ts'
import type { AnswerFunction } from '../definition/model.ts'
import { TOOL_NAME } from '../definition/tool.ts'
import { jsonIn } from './structured-output.ts'

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
 * Returns an answer with the text of the wanted field as its content, so that histories show words and no JSON. An
 * answer without such a field, and one with words of its own beside its data, stays as it is.
 */
export function withContentField<Said extends { content: string; structuredData: unknown }>(
  said: Said,
  message: AgentMessage,
): Said {
  if (said.structuredData === undefined && !said.content.includes('{')) return said // most answers: no data to look at
  const { answerContent } = message.metadata
  if (typeof answerContent !== 'string') return said
  const inWords = jsonIn(said.content)?.value
  const data = said.structuredData ?? inWords
  const text: unknown = typeof data === 'object' && data !== null ? Reflect.get(data, answerContent) : undefined
  const isOwn = said.content !== '' && inWords === undefined
  return typeof text === 'string' && !isOwn ? { ...said, content: text, structuredData: data } : said
}

/** Returns the JSON schema that the message asks for. */
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
