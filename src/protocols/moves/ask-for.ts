/** Asks a question with a schema for the answer, and checks the answer by it, so that a script can read it. */
import type { AgentContext, OrchestratorContext, RequestOptions } from '../../actors/definition/context/context.ts'
import type { AnswerFunction } from '../../actors/definition/model.ts'
import { checkBySchema } from '../../actors/definition/schema.ts'
import type { ModelSchema } from '../../actors/definition/tool.ts'
import { withAnswerSchema } from '../../actors/model/answer-schema.ts'
import { checkSchema, jsonIn, writtenSchema } from '../../actors/model/structured-output.ts'
import { ReplyInvalidError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** Value that the schema returns for an answer, and the message with the answer. */
export interface AskedFor<T> {
  value: T
  message: AgentMessage
}

/** Context of who asks: that of a protocol script, or of an agent. */
export type Asking = Pick<AgentContext, 'request'> & Partial<Pick<OrchestratorContext, 'agents'>>

/**
 * Request options. `asFunction`: a model answers by a call of that function; the schema, which must be an object's,
 * gives its parameters. `contentField`: field of the answer that becomes its content.
 */
export type AskingFor = RequestOptions & { asFunction?: AnswerFunction; contentField?: string }

/**
 * Asks an agent for data. Returns its answer as the schema returns it: its structured data, or the JSON in its content.
 * A model gets the schema with the question. An agent whose answer does not match the schema is told why, and asked
 * once more. A model that gives no JSON at all to a script was told so during its turn, and is not asked again.
 *
 * @throws {ReplyInvalidError} when the answer does not match the schema again; `details` has the agent, the issues and
 *   the content.
 *
 * @example
 * const { value } = await askFor(orchestrator, 'judge', 'Who is right?', z.object({ side: z.enum(['a', 'b']) }))
 */
export async function askFor<T>(
  asker: Asking,
  agent: string,
  content: string,
  schema: ModelSchema<unknown, T>,
  { asFunction, contentField, ...options }: AskingFor = {},
): Promise<AskedFor<T>> {
  checkSchema(schema, 'schema')
  const metadata = {
    ...options.metadata,
    ...withAnswerSchema(writtenSchema(schema, 'schema'), { asFunction, contentField }),
  }
  const isModel = asker.agents?.some(({ name, playedByModel }) => name === agent && playedByModel)
  let words = content
  for (let isLast = false; ; isLast = true) {
    const message = await asker.request(agent, words, { ...options, metadata })
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
