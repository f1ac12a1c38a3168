/**
 * The form in which the sender of a message wants its answer: a JSON schema in the metadata, and a function if the
 * answer is wanted as its arguments. A model agent answers in that form, with `structuredData`; a code agent is free to
 * use it.
 */
import type { AgentMessage } from '../../mailbox/message.ts'
import type { AnswerFunction } from '../definition/model.ts'
import { TOOL_NAME } from '../definition/tool.ts'

interface Wanted {
  answerSchema: object
  answerFunction?: AnswerFunction
}

/**
 * Returns metadata for a request whose answer has to fit that JSON schema, as arguments of that function if there is
 * one.
 */
export const withAnswerSchema = (schema: object, asFunction?: AnswerFunction): Wanted => ({
  answerSchema: schema,
  ...(asFunction && { answerFunction: asFunction }),
})

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
