/** The data of a message, by the schema that its recipient has for it. */
import { MessageRejectedError } from '../../errors.ts'
import type { ReceivedMessage } from '../../mailbox/codec.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Turn } from '../turn/turn.ts'

/** What misses the schema is its sender's fault: the turn ends with that, and the handler never sees it. */
export async function inputOf(
  schema: NonNullable<AgentHandlers['input']>,
  turn: Turn,
  message: ReceivedMessage,
): Promise<unknown> {
  const agent = turn.role.name
  try {
    return await checkBySchema(
      schema,
      message.structuredData,
      (issues) =>
        new MessageRejectedError(`The message to "${agent}" misses its input schema: ${issues}`, {
          agent,
          path: 'structuredData',
          issues,
        }),
    )
  } catch (error) {
    if (!(error instanceof MessageRejectedError)) throw error
    return turn.abort(error)
  }
}
