/**
 * The shape in which the sender of a message wants its answer: a JSON schema in the metadata, and, where the answer is wanted as
 * the arguments of a function, that function. A role that a model plays answers in it, with `structuredData`; an agent of code is
 * free to look at it.
 */
import type { AgentMessage } from '../../mailbox/message.ts'
import type { AnswerFunction } from '../definition/model.ts'
import { TOOL_NAME } from '../definition/tool.ts'

interface Wanted {
  answerSchema: object
  answerFunction?: AnswerFunction
}

/** The metadata of a request that wants its answer in that JSON schema, as the arguments of that function if there is one. */
export const withAnswerSchema = (schema: object, asFunction?: AnswerFunction): Wanted => ({
  answerSchema: schema,
  ...(asFunction && { answerFunction: asFunction }),
})

/** The JSON schema that the message asks for. */
export function answerSchemaOf({ metadata }: AgentMessage): object | undefined {
  const { answerSchema } = metadata
  return typeof answerSchema === 'object' && answerSchema !== null ? answerSchema : undefined
}

/** The function that the message wants called. A name that no provider takes is none: the schema asks for the same. */
export function answerFunctionOf({ metadata }: AgentMessage): AnswerFunction | undefined {
  const { name, description } = Object(metadata.answerFunction) as Partial<Record<keyof AnswerFunction, unknown>>
  if (typeof name !== 'string' || !TOOL_NAME.test(name) || typeof description !== 'string') return undefined
  return { name, description }
}
