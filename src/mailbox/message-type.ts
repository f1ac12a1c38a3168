/** Types of messages. The list uses nothing else, since browsers have it too. */

/**
 * The kind of a message. request, delegate: to one agent's `receive`. response: back to the sender of the request.
 * broadcast, publish, report: to `observe`. subscribe: to the runtime.
 */
export type MessageType = 'request' | 'response' | 'broadcast' | 'publish' | 'subscribe' | 'delegate' | 'report'

/** All of them. Frames, logs and digests have the place of a type in this list: a new one comes at its end. */
export const MESSAGE_TYPES = [
  'request',
  'response',
  'broadcast',
  'publish',
  'subscribe',
  'delegate',
  'report',
] as const satisfies readonly MessageType[]
