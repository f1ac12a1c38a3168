/** The answer that a run ends with, where its caller wants it by a schema: a model that gives it is asked for it in that. */
import type { AgentMessage } from '../../mailbox/message.ts'
import { USER } from '../../mailbox/message.ts'
import type { ModelSchema } from '../definition/tool.ts'

/** The metadata of a request whose answer may be the run's, word for word. */
export const LAST_SPEAKER = Object.freeze({ lastSpeaker: true })

/** The verb of the host that checks such an answer: the run's schema is a function, and stays where the caller is. */
export const CHECK_OUTPUT = 'run.output'

/** Whether the answer to that message may be the run's. */
export const isLast = ({ sender, metadata }: AgentMessage): boolean => sender === USER || metadata.lastSpeaker === true

/** The run's schema as a thread has it. `issuesOf` asks the host what is wrong with a value; null: nothing. */
export function outputSchema(jsonSchema: object, issuesOf: (value: unknown) => Promise<string | null>): ModelSchema {
  const json = () => jsonSchema as Record<string, unknown>
  return {
    '~standard': {
      version: 1,
      vendor: 'dramatis',
      jsonSchema: { input: json, output: json },
      async validate(value) {
        const message = await issuesOf(value)
        return message === null ? { value } : { issues: [{ message }] }
      },
    },
  }
}
