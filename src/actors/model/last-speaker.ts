/**
 * The answer that a run ends with, if its caller has given a schema for it: a model that gives this answer is asked for
 * it in that schema.
 */
import { type AgentMessage, USER } from '../../mailbox/message.ts'
import type { ModelSchema } from '../definition/tool.ts'

/**
 * Metadata of a message whose text says everything that its data says, so a model agent is not shown the same twice.
 */
export const IN_WORDS = Object.freeze({ inWords: true })

/*
 * The answer that a run ends with, if its caller has given a schema for it: a model that gives this answer is asked for
 * it in that schema.
 */

/** Metadata of a request whose answer becomes the run's answer, word for word. */
export const LAST_SPEAKER = Object.freeze({ lastSpeaker: true })

/** Metadata of a request to one of several agents, of whose answers one may become the run's answer. */
export const PERHAPS_LAST = Object.freeze({ lastSpeaker: 'perhaps' })

/** Verb of the host that checks such an answer. The run's schema is a function, so it stays in the caller's thread. */
export const CHECK_OUTPUT = 'run.output'

/** Checks whether the answer to that message may become the run's answer. */
export const isLast = (message: Asked): boolean => lastSpeakerIn(message) !== undefined

/** Returns what the message says of its last speaker; undefined if its answer is no answer of the run. */
export function lastSpeakerIn({ sender, metadata }: Asked): true | 'perhaps' | undefined {
  const { lastSpeaker } = metadata
  if (sender === USER || lastSpeaker === true) return true
  return lastSpeaker === PERHAPS_LAST.lastSpeaker ? 'perhaps' : undefined
}

type Asked = Pick<AgentMessage, 'sender' | 'metadata'>

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
