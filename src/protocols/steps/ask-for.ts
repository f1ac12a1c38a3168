/** A question whose answer a script has to understand: it is asked for by a schema, and checked by it. */
import { withAnswerSchema } from '../../actors/answer-schema.ts'
import type { OrchestratorContext, RequestOptions } from '../../actors/context.ts'
import { checkBySchema } from '../../actors/schema.ts'
import { jsonIn, jsonSchemaOf } from '../../actors/structured-output.ts'
import type { ModelSchema } from '../../actors/tool.ts'
import { ReplyInvalidError } from '../../errors.ts'
import type { AgentMessage } from '../../mailbox/message.ts'

/** What the schema makes of an answer, and the answer. */
export interface AskedFor<T> {
  value: T
  message: AgentMessage
}

/**
 * The agent's answer as the schema returns it: its structured data, or the JSON in its words. An agent whose answer misses
 * the schema is told why, and asked once more.
 *
 * @throws {ReplyInvalidError} when it misses the schema again; `details` has the agent, the issues and its words.
 *
 * @example
 * const { value } = await askFor(orchestrator, 'judge', 'Who is right?', z.object({ side: z.enum(['a', 'b']) }))
 */
export async function askFor<T>(
  orchestrator: Pick<OrchestratorContext, 'request'>,
  agent: string,
  content: string,
  schema: ModelSchema<unknown, T>,
  options: RequestOptions = {},
): Promise<AskedFor<T>> {
  const metadata = { ...options.metadata, ...withAnswerSchema(jsonSchemaOf(schema)) }
  let words = content
  for (let isLast = false; ; isLast = true) {
    const message = await orchestrator.request(agent, words, { ...options, metadata })
    try {
      return { value: await valueIn(message, schema, agent), message }
    } catch (error) {
      if (isLast || !(error instanceof ReplyInvalidError)) throw error
      words = `${content}\n\nYour last answer cannot be used: ${error.details.issues}. Answer again.`
    }
  }
}

async function valueIn<T>(
  { content, structuredData }: AgentMessage,
  schema: ModelSchema<unknown, T>,
  agent: string,
): Promise<T> {
  const missed = (issues: string) =>
    new ReplyInvalidError(`The answer of "${agent}" cannot be used: ${issues}.`, { agent, issues, content })
  const value = structuredData ?? jsonIn(content)?.value
  if (value === undefined) throw missed('it has no structured data, and no JSON in its words')
  return checkBySchema(schema, value, missed)
}
