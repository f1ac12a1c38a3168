/** Validates the data of a message against the recipient's input schema. */
import { MessageRejectedError } from '../../errors.ts'
import type { ReceivedMessage } from '../../mailbox/codec.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import { checkBySchema } from '../definition/schema.ts'
import type { Turn } from '../turn/turn.ts'

/**
 * Returns the message data as the schema parses it. Invalid data is the sender's fault: the turn is aborted with a
 * MessageRejectedError and the handler does not run.
 */
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
