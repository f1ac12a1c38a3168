/** Checks a message that a caller outside of any agent sends, and returns its recipients and frame fields. */
import { asJson, messageParts, partsFault } from '../../actors/definition/content.ts'
import { MessageRejectedError, shown } from '../../errors.ts'
import type { MessageInput, MessageType } from '../../mailbox/message.ts'
import { PARTS, withParts } from '../../mailbox/parts.ts'
import type { Question } from '../log/host-frames.ts'

/** Returns the recipients of a message that is not for all agents. */
export function targetsOf({ recipient }: MessageInput): string | readonly string[] {
  if (recipient === null)
    throw new MessageRejectedError('recipient: null means all, which only a broadcast can have; name an agent.', {
      path: 'recipient',
      got: null,
    })
  return recipient
}

/** Returns the fields of the message's frame. */
export function questionOf(message: MessageInput): Question {
  const data = jsonOf(message.structuredData)
  const { parts } = message
  const metadata = jsonOf(parts ? withParts(message.metadata, messageParts(asJson(parts))) : message.metadata)
  return {
    content: message.content,
    ...(data !== undefined && { data }),
    ...(message.type !== undefined && { type: message.type }),
    ...(metadata !== undefined && { metadata }),
    ...(message.threadId !== undefined && { threadId: message.threadId }),
    ...(message.priority !== undefined && { priority: message.priority }),
    ...(message.responseTimeoutMs !== undefined && { limit: Math.ceil(message.responseTimeoutMs) }),
  }
}

/**
 * Message fields without an effect, by message type. They are rejected, since they would otherwise be ignored silently.
 */
const UNUSED: Readonly<Partial<Record<MessageType, readonly (keyof MessageInput)[]>>> = {
  publish: ['recipient', 'priority', 'threadId', 'parts'],
  subscribe: ['recipient', 'structuredData', 'metadata', 'priority', 'threadId', 'parts'],
  response: ['metadata', 'priority', 'parts'],
}

/** @throws MessageRejectedError for a field without an effect. */
export function checkUsed(message: MessageInput): void {
  const { type = 'request', requiresResponse } = message
  const unused = [...(UNUSED[type] ?? [])]
  if (type !== 'response') unused.push('correlationId')
  if (!requiresResponse) unused.push('responseTimeoutMs')
  const path = unused.find((field) => !isBlank(message[field]))
  if (path === undefined) return
  const why = path === 'responseTimeoutMs' ? 'a message that requires no response' : `a ${type}`
  throw new MessageRejectedError(`${path}: ${why} has no use for it. Leave it out.`, { path })
}

/** Checks for the values that the runtime itself uses for absent fields. */
const isBlank = (value: unknown) =>
  value === undefined || value === null || value === 0 || (typeof value === 'object' && Object.keys(value).length === 0)

const jsonOf = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value))

/**
 * Validates a message. The schema is loaded with the first message from outside, since most teams start without one.
 */
export async function parsed(input: unknown): Promise<MessageInput> {
  const { parseMessage } = await import('../../mailbox/parse-message.ts')
  const message = parseMessage(input)
  const { parts, metadata } = message
  const fault = parts && partsFault(parts, 'parts')
  if (fault)
    throw new MessageRejectedError(
      `The message was refused: ${fault.path}: got ${shown(fault.value)}; ${fault.needed}.`,
      { path: fault.path },
    )
  if (metadata && PARTS in metadata)
    throw new MessageRejectedError(
      `The message was refused: metadata.${PARTS}: that name is the runtime's own; give parts as parts.`,
      { path: `metadata.${PARTS}` },
    )
  return message
}
