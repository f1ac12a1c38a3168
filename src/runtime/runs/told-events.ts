/** Events of a run as they are told to others: as JSON, each with its id. */
import type { AgentMessage } from '../../mailbox/message.ts'
import type { MessagePart } from '../../mailbox/parts.ts'
import { referenceIn, type StoredPart, storedForm } from '../../mailbox/stored-parts.ts'
import type { RuntimeEvent } from './events.ts'
import type { Run } from './run.ts'

/*
 * Parts of messages: one whose bytes are stored once has its hash, its bytes and its media type, as the log has it. So
 * a large image is not written again for each message that has it.
 */

/** A part of a message as JSON has it. */
export type ToldPart = MessagePart | (Omit<Exclude<MessagePart, { type: 'text' }>, 'data'> & StoredPart)

export const MEDIA: ReadonlySet<unknown> = new Set(['image', 'audio', 'file'])

/** Returns the part by reference if its bytes are stored, else the part itself. The bytes are not read. */
export function toldPart(part: MessagePart): ToldPart {
  const form = MEDIA.has(part.type) ? storedForm(part) : undefined
  const stored = form && referenceIn(form)
  if (!stored || form.type === 'text') return part
  const { data: _, ...fields } = form
  return { ...fields, ...stored }
}

/** A message as JSON has it: a part whose bytes are stored once has their hash in their place. */
export type ToldMessage = Omit<AgentMessage, 'parts'> & { parts?: ToldPart[] }

export function toldMessage(message: AgentMessage): ToldMessage {
  const { parts } = message
  return parts ? { ...message, parts: parts.map(toldPart) } : (message as ToldMessage)
}

export function toldEvent(event: RuntimeEvent<unknown>): object {
  if (event.type === 'message') return { ...event, message: toldMessage(event.message) }
  if (event.type === 'message.dead')
    return { ...event, letter: { ...event.letter, message: toldMessage(event.letter.message) } }
  return event
}

/** An event as it is sent. */
export interface ToldEvent {
  readonly id: string | undefined
  readonly type: string
  readonly event: object
}

type Type = RuntimeEvent['type']

/** Events that only who asks for them gets: pieces of answers. */
const DELTAS: readonly Type[] = ['output.delta', 'model.delta', 'model.superseded']
const ALWAYS: readonly Type[] = ['reset', 'gap']

export interface Wanted {
  readonly signal: AbortSignal
  readonly after: string | undefined
  readonly types?: Type[] | undefined
  readonly deltas: boolean
}

export async function* wantedEvents(
  run: Pick<Run<unknown>, 'events'>,
  { signal, after, types, deltas }: Wanted,
): AsyncGenerator<RuntimeEvent<unknown>> {
  const wanted = types && [...types, ...ALWAYS]
  for await (const event of run.events({ signal, after, ...(wanted && { types: wanted }) }))
    if (deltas || !DELTAS.includes(event.type)) yield event
}

export const toldBy = (logName: string | undefined, event: RuntimeEvent<unknown>): ToldEvent => ({
  id: logName === undefined ? undefined : `${logName}.${event.seq}`,
  type: event.type,
  event: toldEvent(event),
})
