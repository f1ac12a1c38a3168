/**
 * The answer that a run ends with, if its caller has given a schema for it: a model that gives this answer is asked for
 * it in that schema.
 */
import type { AgentMessage } from '../../mailbox/message.ts'
import { USER } from '../../mailbox/message.ts'
import type { ModelSchema } from '../definition/tool.ts'

/** Metadata of a request whose answer may become the run's answer, word for word. */
export const LAST_SPEAKER = Object.freeze({ lastSpeaker: true })

/** Verb of the host that checks such an answer. The run's schema is a function, so it stays in the caller's thread. */
export const CHECK_OUTPUT = 'run.output'

/** Checks whether the answer to that message may become the run's answer. */
export const isLast = ({ sender, metadata }: AgentMessage): boolean => sender === USER || metadata.lastSpeaker === true

/**
 * Returns the run's schema for use in a thread. `issuesOf` asks the host for the issues of a value; null: there are
 * none.
 */
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
