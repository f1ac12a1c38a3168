/** Which handler of an agent a message is for, and what comes of calling it. */
import type { ReceivedMessage } from '../../mailbox/codec.ts'
import type { AgentMessage, TypedMessage } from '../../mailbox/message.ts'
import type { AgentContext } from '../definition/context/context.ts'
import type { AgentHandlers } from '../definition/definition.ts'
import type { Turn } from '../turn/turn.ts'
import { inputOf } from './input.ts'

/** Calls the handler that the message is for; returns what that returns. */
export function handle(handlers: AgentHandlers, turn: Turn, context: AgentContext, message: ReceivedMessage): unknown {
  const { receive, observe, input } = handlers
  const { type } = turn.start
  const typed = message as AgentMessage as TypedMessage
  if (type === 'broadcast' || type === 'report' || type === 'publish') return observe?.(typed, context)
  if (input && (type === 'request' || type === 'delegate')) return checked(handlers, turn, context, message)
  return receive(typed, context)
}

/** Its data is what the agent's schema makes of it. */
async function checked(
  handlers: AgentHandlers,
  turn: Turn,
  context: AgentContext,
  message: ReceivedMessage,
): Promise<unknown> {
  const structuredData = await inputOf(handlers.input!, turn, message)
  return turn.reason ? undefined : handlers.receive({ ...message.toJSON(), structuredData }, context)
}

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'

/** What a handler threw; also where it threw nothing at all. */
export const thrownBy = (error: unknown) => error ?? new Error(`a handler threw ${error}`)
