/**
 * The shape in which the sender of a message wants its answer: a JSON schema in the metadata. A role that a model plays
 * answers in it, with `structuredData`; an agent of code is free to look at it.
 */
import type { AgentMessage } from '../mailbox/message.ts'

/** The metadata of a request that wants its answer in that JSON schema. */
export const withAnswerSchema = (schema: object): { answerSchema: object } => ({ answerSchema: schema })

/** The JSON schema that the message asks for. */
export function answerSchemaOf({ metadata }: AgentMessage): object | undefined {
  const { answerSchema } = metadata
  return typeof answerSchema === 'object' && answerSchema !== null ? answerSchema : undefined
}
