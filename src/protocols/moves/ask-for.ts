/** Asks a question with a schema for the answer, and checks the answer by it, so that a script can read it. */
import type { OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import type { AnswerFunction } from '../../actors/definition/model.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { withAnswerSchema } from '../../actors/model/answer-schema.ts'
import { jsonIn, jsonSchemaOf } from '../../actors/model/structured-output.ts'
import { ReplyInvalidError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Value that the schema returns for an answer, and the message with the answer. */
export interface AskedFor<T> {
  value: T
  message: AgentMessage
}

/** Part of the script's context that `askFor` needs. */
export type Asking = Pick<OrchestratorContext, 'agents' | 'request'>

/**
 * Request options. `asFunction`: a model answers by a call of that function; the schema, which must be an object's,
 * gives its parameters.
 */
export type AskingFor = RequestOptions & { asFunction?: AnswerFunction }

/**
 * Returns the agent's answer as the schema returns it: its structured data, or the JSON in its content. An agent whose
 * answer does not match the schema is told why, and asked once more. A model that gives no JSON at all was told so
 * during its turn, and is not asked again.
 *
 * @throws {ReplyInvalidError} when the answer does not match the schema again; `details` has the agent, the issues and
 *   the content.
 *
 * @example
 * const { value } = await askFor(orchestrator, 'judge', 'Who is right?', z.object({ side: z.enum(['a', 'b']) }))
 */
export async function askFor<T>(
  orchestrator: Asking,
  agent: string,
  content: string,
  schema: ModelSchema<unknown, T>,
  { asFunction, ...options }: AskingFor = {},
): Promise<AskedFor<T>> {
  const metadata = { ...options.metadata, ...withAnswerSchema(jsonSchemaOf(schema), asFunction) }
  const isModel = orchestrator.agents.some(({ name, playedByModel }) => name === agent && playedByModel)
  let words = content
  for (let isLast = false; ; isLast = true) {
    const message = await orchestrator.request(agent, words, { ...options, metadata })
    try {
      return { value: await valueIn(message, schema, agent), message }
    } catch (error) {
      const wasTold = isModel && dataOf(message) === undefined
      if (isLast || wasTold || !(error instanceof ReplyInvalidError)) throw error
      words = `${content}\n\nYour last answer cannot be used: ${error.details.issues}. Answer again.`
    }
  }
}

const dataOf = ({ content, structuredData }: AgentMessage): unknown => structuredData ?? jsonIn(content)?.value

async function valueIn<T>(message: AgentMessage, schema: ModelSchema<unknown, T>, agent: string): Promise<T> {
  const missed = (issues: string) =>
    new ReplyInvalidError(`The answer of "${agent}" cannot be used: ${issues}.`, {
      agent,
      issues,
      content: message.content,
    })
  const value = dataOf(message)
  if (value === undefined) throw missed('it has no structured data, and no JSON in its words')
  return checkBySchema(schema, value, missed)
}
