/**
 * Parts of messages as a service tells of them: a part whose bytes are stored once has its hash, its bytes and its
 * media type, as the log has it. So a large image is not written again for each message that has it.
 */
import type { AgentMessage, MessagePart, RuntimeEvent } from '../index.ts'
import { referenceIn, type StoredPart, storedForm } from '../mailbox/stored-parts.ts'

/** A part, whole or by reference. */
export type ToldPart = MessagePart | (Omit<Exclude<MessagePart, { type: 'text' }>, 'data'> & StoredPart)

const MEDIA: ReadonlySet<unknown> = new Set(['image', 'audio', 'file'])

/** Returns the part by reference if its bytes are stored, else the part itself. The bytes are not read. */
function toldPart(part: MessagePart): ToldPart {
  const form = MEDIA.has(part.type) ? storedForm(part) : undefined
  const stored = form && referenceIn(form)
  if (!stored || form.type === 'text') return part
  const { data: _, ...fields } = form
  return { ...fields, ...stored }
}

/** A message with such parts. */
export type ToldMessage = Omit<AgentMessage, 'parts'> & { parts?: ToldPart[] }

export function toldMessage(message: AgentMessage): ToldMessage {
  const { parts } = message
  return parts ? { ...message, parts: parts.map(toldPart) } : (message as ToldMessage)
}

/** Returns an event as it is written. */
export function toldEvent(event: RuntimeEvent<unknown>): object {
  if (event.type === 'message') return { ...event, message: toldMessage(event.message) }
  if (event.type === 'message.dead')
    return { ...event, letter: { ...event.letter, message: toldMessage(event.letter.message) } }
  return event
}

/** Replaces parts in JSON, wherever they stand. */
export const byReference = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && MEDIA.has(Reflect.get(value, 'type'))
    ? toldPart(value as MessagePart)
    : value
